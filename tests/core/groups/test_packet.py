import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from, tuples

from evensong.core.groups.control import control_frame
from evensong.core.groups.frame import (
    FIRST,
    HEADER_SIZE,
    LAST,
    MIDDLE,
    WHOLE,
    Head,
    encode_frame,
    encode_whole,
)
from evensong.core.groups.limits import COPIED_MAX
from evensong.core.groups.packet import (
    ALONE_SIZE,
    PACKET,
    PACKET_SIZE,
    alike,
    decode_packet,
    encode_packet,
    frame_in,
    lone_middle,
    lone_whole,
)
from evensong.core.unit import UNIT, UnitId, decode_unit
from evensong.errors import MalformedFrame

UNIT_ID = UnitId(3, 9, 7)


def test_a_frame_that_is_most_of_its_packet_is_not_copied_and_a_small_one_keeps_nothing() -> None:
    payload = bytes(range(250)) * 40
    most = frame_in(payload, 40, 5_040)
    assert most == payload[40:5_040]
    assert isinstance(most, memoryview)
    assert most.obj is payload
    assert frame_in(payload, 40, 5_039) == payload[40:5_039]
    assert isinstance(frame_in(payload, 40, 5_039), bytes)
    assert isinstance(frame_in(payload[:COPIED_MAX], 0, COPIED_MAX), bytes)


@given(bodies=lists(lists(binary(max_size=30), min_size=1, max_size=5), min_size=1, max_size=9))
def test_frames_are_found_and_the_packet_is_a_unit(bodies: list[list[bytes]]) -> None:
    frames = [encode_whole(1, n, n, 0, messages) for n, messages in enumerate(bodies)]
    places = sum(map(len, bodies))
    payload = encode_packet(UNIT_ID, places, frames)
    assert decode_unit(payload) == UNIT_ID
    assert UNIT.unpack_from(payload)[3] == places
    assert len(payload) == PACKET_SIZE + sum(map(len, frames))
    unit_id, found = decode_packet(payload)
    assert unit_id == UNIT_ID
    assert [payload[one[7] - HEADER_SIZE : one[7] + one[6]] for one in found] == frames
    assert [one[5] for one in found] == list(map(len, bodies))


@given(junk=binary(max_size=200))
def test_junk_gives_one_error(junk: bytes) -> None:
    payload = PACKET.pack(*UNIT_ID, 1, 1, 0, 2) + junk
    try:
        _, found = decode_packet(payload)
    except MalformedFrame:
        return
    assert len(found) == 2


@given(changes=lists(tuples(integers(0, 200), integers(0, 255)), max_size=3), cut=integers(0, 200))
def test_a_damaged_packet_is_read_as_a_whole_or_not_at_all(
    changes: list[tuple[int, int]], cut: int
) -> None:
    frames = [
        encode_whole(1, 1, 0, 0, [b"a", b"bc"]),
        control_frame(1, b"hello"),
        encode_frame(Head(FIRST, 0, 1, 1, 0, 0, 0), b"abcdef"),
    ]
    payload = bytearray(encode_packet(UNIT_ID, 3, frames))
    for at, value in changes:
        payload[at % len(payload)] = value
    try:
        _, found = decode_packet(bytes(payload[: max(cut, 1)]))
    except MalformedFrame:
        return
    assert sum(HEADER_SIZE + one[6] for one in found) == min(cut, len(payload)) - PACKET_SIZE


def middle(size: int = 40, *, session: int = 1, first_no: int = 1, flags: int = 0) -> bytes:
    frame = encode_frame(Head(MIDDLE, flags, session, first_no, 5, 0, 0), bytes(size))
    return encode_packet(UNIT_ID, 0, [frame])


@given(changes=lists(tuples(integers(0, 60), integers(0, 255)), max_size=2), cut=integers(0, 90))
def test_a_lone_piece_is_seen_as_the_packet_says_it(
    changes: list[tuple[int, int]], cut: int
) -> None:
    changed = bytearray(middle())
    for at, value in changes:
        changed[at] = value
    payload = bytes(changed[:cut])
    piece = lone_middle(payload)
    try:
        (sender, incarnation, _), found = decode_packet(payload)
    except MalformedFrame:
        assert piece is None
        return
    if piece is None:
        assert len(found) > 1 or found[0][0] != MIDDLE
    else:
        ((kind, _, session, first_no, _, _, length, at),) = found
        assert piece == (sender, incarnation, session, first_no)
        assert (kind, length, at) == (MIDDLE, len(payload) - ALONE_SIZE, ALONE_SIZE)


@given(
    bodies=lists(lists(binary(max_size=5), min_size=1, max_size=3), min_size=1, max_size=2),
    changes=lists(tuples(integers(0, 60), sampled_from([0, 1, 2, 3, 64, 255])), max_size=2),
    before=integers(0, 3),
    cut=integers(-1, 1),
)
def test_a_lone_frame_is_seen_as_the_packet_says_it(
    bodies: list[list[bytes]], changes: list[tuple[int, int]], before: int, cut: int
) -> None:
    frames = [encode_whole(1, n, 5, 0, messages) for n, messages in enumerate(bodies)]
    changed = bytearray(encode_packet(UNIT_ID, sum(map(len, bodies)), frames))
    for at, value in changes:
        changed[at % len(changed)] = value
    payload = bytes(before) + bytes(changed) + b"behind"
    end = before + len(changed) + cut
    lone = lone_whole(payload, before, end)
    try:
        (sender, _, _), found = decode_packet(payload, before, end)
    except MalformedFrame:
        assert lone is None
        return
    if len(found) > 1 or found[0][0] != WHOLE:
        assert lone is None
    else:
        ((_, flags, session, first_no, group_set, places, length, at),) = found
        assert lone == (sender, flags, session, first_no, group_set, places, end)
        assert (at, at + length) == (before + ALONE_SIZE, end)


@pytest.mark.parametrize("size", range(ALONE_SIZE + 1))
def test_what_is_too_short_for_a_frame_holds_none(size: int) -> None:
    whole = encode_packet(UNIT_ID, 1, [encode_whole(1, 1, 5, 0, [b""])])
    assert (lone_whole(whole[:size]) is None) == (size < ALONE_SIZE)


@pytest.mark.parametrize(
    "other",
    [
        middle(39),
        middle()[:-1],
        middle(session=2),
        middle(first_no=2),
        middle(flags=1),
        encode_packet(
            UnitId(4, 9, 7), 0, [encode_frame(Head(MIDDLE, 0, 1, 1, 5, 0, 0), bytes(40))]
        ),
        encode_packet(UNIT_ID, 1, [encode_frame(Head(LAST, 0, 1, 1, 5, 1, 0), bytes(40))]),
    ],
)
def test_like_pieces_end_where_another_begins(other: bytes) -> None:
    first, second = middle(), PACKET.pack(3, 9, 8, 0, 1, 0, 1) + middle()[PACKET_SIZE:]
    assert alike([first, second, other, first], 0) == 2
    assert alike([first, second, first], 1) == 3


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(PACKET_SIZE - 1),
        PACKET.pack(*UNIT_ID, 0, 1, 0, 0),
        PACKET.pack(*UNIT_ID, 1, 2, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 1, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 2, 1, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 0, 2) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]) + b"x",
    ],
)
def test_a_packet_that_cannot_be_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_packet(payload)
