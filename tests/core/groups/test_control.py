import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from, text

from evensong.core.groups.control import (
    GONE,
    JOIN,
    LEAVE,
    WISH_FRAME_MAX,
    AsOf,
    SetPart,
    StatePart,
    Wish,
    control_frame,
    decode_control,
    encode_sets,
    encode_state,
    encode_wish,
)
from evensong.core.groups.events import is_group_name, is_user_name
from evensong.core.groups.limits import PAYLOAD_LEAST
from evensong.core.groups.packet import PACKET_SIZE
from evensong.errors import MalformedFrame

groups = text(min_size=1, max_size=20).filter(is_group_name)
users = text(min_size=1, max_size=10).filter(is_user_name)


@given(op=sampled_from([JOIN, LEAVE]), request=integers(0, 2**32 - 1), user=users, group=groups)
def test_a_wish_is_read_back(op: int, request: int, user: str, group: str) -> None:
    assert decode_control(encode_wish(op, request, user, group)) == Wish(op, request, user, group)
    assert decode_control(encode_wish(GONE, 0, user, "")) == Wish(GONE, 0, user, "")


@given(
    user=users,
    names=lists(groups, min_size=1, max_size=64, unique=True),
    content_max=integers(250, 1_400),
)
def test_a_destination_is_told_in_parts_that_fit(
    user: str, names: list[str], content_max: int
) -> None:
    contents = encode_sets(user, tuple(names), content_max)
    parts = [decode_control(content) for content in contents]
    assert all(len(content) <= content_max for content in contents)
    assert all(isinstance(part, SetPart) for part in parts)
    found = [part for part in parts if isinstance(part, SetPart)]
    assert [name for part in found for name in part.names] == names
    assert [part.is_end for part in found] == [False] * (len(found) - 1) + [True]


@given(state=binary(max_size=3_000), content_max=integers(100, 1_000))
def test_a_directory_is_told_in_parts_that_fit(state: bytes, content_max: int) -> None:
    contents = encode_state(state, content_max)
    parts = [decode_control(content) for content in contents]
    found = [part for part in parts if isinstance(part, StatePart)]
    assert all(len(content) <= content_max for content in contents)
    assert b"".join(part.chunk for part in found) == state
    assert [part.part for part in found] == list(range(len(contents)))
    assert {part.parts for part in found} == {len(contents)}


@given(junk=binary(max_size=80), op=integers(0, 7))
def test_junk_gives_one_error(junk: bytes, op: int) -> None:
    try:
        control = decode_control(bytes([op]) + junk)
    except MalformedFrame:
        return
    assert isinstance(control, Wish | SetPart | StatePart | AsOf)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        encode_wish(JOIN, 1, "ann", ""),
        encode_wish(JOIN, 1, "ann", "#g"),
        encode_wish(LEAVE, 1, "", "g"),
        encode_wish(JOIN, 1, "a#n", "g"),
        encode_wish(GONE, 0, "ann", "g"),
        encode_wish(JOIN, 1, "ann", "g") + b"x",
        encode_wish(JOIN, 1, "ann", "g")[:-1],
        encode_wish(JOIN, 1, "ann", "g")[:-1] + b"\xff",
        encode_sets("ann", ("g",), 400)[0] + b"x",
        encode_sets("ann", ("#nobody",), 400)[0],
        encode_sets("ann", ("g",) * 65, 4_000)[0],
        b"\x05\0\0\0\1\0\0\0\1",
        b"\x05\0\0\0",
        b"\x09",
    ],
)
def test_what_is_no_control_message_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_control(content)


def test_the_longest_wish_fits_the_smallest_packet() -> None:
    frame = control_frame(1, encode_wish(JOIN, 1, "u" * 32, "g" * 64))
    assert len(frame) == WISH_FRAME_MAX <= PAYLOAD_LEAST - PACKET_SIZE
