import doctest

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from

from evensong.core.groups import frame as frame_module
from evensong.core.groups.frame import (
    BASIC,
    CAUSAL,
    CONTROL,
    FIRST,
    HEADER,
    HEADER_SIZE,
    LAST,
    MIDDLE,
    SAFE,
    WHOLE,
    Head,
    decode_head,
    encode_frame,
    encode_whole,
    has_table,
    messages_of,
    whole_size,
)
from evensong.errors import MalformedFrame


@given(
    messages=lists(binary(max_size=200), min_size=1, max_size=40),
    session=integers(0, 2**32 - 1),
    first_no=integers(0, 2**62),
    group_set=integers(0, 2**32 - 1),
    flags=integers(0, 3),
)
def test_messages_are_read_back(
    messages: list[bytes], session: int, first_no: int, group_set: int, flags: int
) -> None:
    frame = encode_whole(session, first_no, group_set, flags, messages)
    head = decode_head(frame)
    assert head[:6] == (WHOLE, flags, session, first_no, group_set, len(messages))
    assert len(frame) == whole_size(messages) == HEADER_SIZE + head.length
    assert messages_of(frame) == messages


def test_a_single_message_has_no_table_and_may_be_large() -> None:
    message = bytes(100_000)
    frame = encode_whole(1, 1, 0, 0, [message])
    assert len(frame) == HEADER_SIZE + len(message)
    assert messages_of(frame) == [message]


@given(junk=binary(max_size=120))
def test_bytes_that_are_no_frame_give_one_error_and_nothing_else(junk: bytes) -> None:
    try:
        head = decode_head(junk)
    except MalformedFrame:
        return
    assert HEADER_SIZE + head.length <= len(junk)


@given(
    messages=lists(binary(max_size=9), min_size=1, max_size=5),
    at=integers(0, 60),
    value=integers(0, 255),
)
def test_a_damaged_frame_gives_messages_or_one_error(
    messages: list[bytes], at: int, value: int
) -> None:
    frame = bytearray(encode_whole(1, 1, 0, 0, messages))
    frame[at % len(frame)] = value
    try:
        found = messages_of(bytes(frame))
    except MalformedFrame:
        return
    assert sum(map(len, found)) <= len(frame)


@pytest.mark.parametrize(
    ("kind", "places"),
    [(WHOLE, 0), (FIRST, 1), (MIDDLE, 1), (LAST, 0), (CONTROL, 0), (CONTROL, 2), (0, 1), (6, 1)],
)
def test_a_kind_with_the_wrong_places_is_refused(kind: int, places: int) -> None:
    frame = encode_frame(Head(kind, 0, 1, 1, 0, places, 0), bytes(8))
    with pytest.raises(MalformedFrame):
        decode_head(frame)


@pytest.mark.parametrize(
    "fields",
    [
        (WHOLE, 32, 1, 1, 0, 1, 0),
        (WHOLE, SAFE | CAUSAL, 1, 1, 0, 1, 0),
        (WHOLE, CAUSAL | BASIC, 1, 1, 0, 1, 0),
        (WHOLE, 0, 1, 2**62 + 1, 0, 1, 0),
        (WHOLE, 0, 1, 1, 0, 1, 1),
        (WHOLE, 0, 1, 1, 0, 1, 2**32 - 1),
        (WHOLE, SAFE, 1, 1, 0, 2, 0),
    ],
)
def test_a_header_that_cannot_be_is_refused(fields: tuple[int, ...]) -> None:
    with pytest.raises(MalformedFrame):
        decode_head(HEADER.pack(*fields))


@pytest.mark.parametrize("kind", [FIRST, MIDDLE, LAST, CONTROL])
def test_only_whole_frames_are_cut_into_messages(kind: int) -> None:
    places = 0 if kind in (FIRST, MIDDLE) else 1
    with pytest.raises(MalformedFrame, match="not one whole"):
        messages_of(encode_frame(Head(kind, 0, 1, 1, 0, places, 0), b"abcd"))


def test_a_table_that_does_not_fit_its_messages_is_refused() -> None:
    frame = encode_whole(1, 1, 0, 0, [b"ab", b"cd"])
    with pytest.raises(MalformedFrame, match="table"):
        messages_of(frame[:HEADER_SIZE] + b"\0\1" + frame[HEADER_SIZE + 2 :])
    with pytest.raises(MalformedFrame, match="not one whole"):
        messages_of(frame + b"x")


@given(kind=sampled_from([WHOLE, FIRST, LAST]), size=integers(0, HEADER_SIZE - 1))
def test_a_header_cut_short_is_refused(kind: int, size: int) -> None:
    with pytest.raises(MalformedFrame, match="header"):
        decode_head(HEADER.pack(kind, 0, 1, 1, 0, kind != FIRST, 0)[:size])


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(frame_module).failed == 0


@given(places=integers(2, 40), content=binary(max_size=200))
def test_a_table_holds_if_its_messages_can_be_read(places: int, content: bytes) -> None:
    frame = HEADER.pack(WHOLE, 0, 1, 1, 0, places, len(content)) + content
    try:
        messages_of(frame)
    except MalformedFrame:
        assert not has_table(frame, places)
    else:
        assert has_table(frame, places)
    messages = [content] * places
    assert has_table(encode_whole(1, 1, 0, 0, messages), places)
