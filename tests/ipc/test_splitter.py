"""A stream is cut into the same frames, in whatever pieces it comes."""

import pytest
from hypothesis import given
from hypothesis.strategies import binary, builds, integers, lists

from evensong.errors import MalformedFrame
from evensong.ipc.frames import Frame
from evensong.ipc.splitter import GATHERED, HEAD, HEAD_SIZE, Splitter
from evensong.ipc.wire import encode

FRAMES = lists(
    builds(Frame, integers(0, 255), integers(0, 2**32 - 1), binary(max_size=40)), max_size=8
)


@given(FRAMES, lists(integers(1, 60)))
def test_pieces_do_not_matter(frames: list[Frame], sizes: list[int]) -> None:
    stream = b"".join(encode(*frame) for frame in frames)
    splitter = Splitter(40)
    found: list[Frame] = []
    for size in sizes:
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    found += splitter.feed(stream)
    assert found == frames
    assert splitter.waiting() == 0


def test_a_large_frame_is_put_together() -> None:
    body = bytes(range(256)) * 1_000
    stream = encode(5, 6, body) + encode(7, 8, b"next")
    for size in (GATHERED - 1, GATHERED, 5 * GATHERED, 700):
        splitter = Splitter(len(body))
        found: list[Frame] = []
        for at in range(0, len(stream), size):
            found += splitter.feed(stream[at : at + size])
        assert found == [Frame(5, 6, body), Frame(7, 8, b"next")]


@pytest.mark.parametrize("size", [700, GATHERED, 5 * GATHERED])
def test_what_was_read_into_one_place_is_copied_out_of_it(size: int) -> None:
    body = bytes(range(256)) * 1_000
    stream = encode(5, 6, body) + encode(7, 8, b"next")
    place = memoryview(bytearray(size))
    splitter = Splitter(len(body))
    found: list[Frame] = []
    for at in range(0, len(stream), size):
        chunk = stream[at : at + size]
        place[: len(chunk)] = chunk
        found += splitter.feed(place[: len(chunk)])
    place[:] = bytes(size)
    assert found == [Frame(5, 6, body), Frame(7, 8, b"next")]


def test_a_frame_that_is_whole_can_be_had_where_it_lies() -> None:
    place = memoryview(bytearray(encode(5, 6, b"credo") + encode(7, 8, b"amen")))
    splitter = Splitter(40)
    ((opcode, request_id, lent),) = splitter.split(place[: HEAD_SIZE + 5 + 3])
    assert (opcode, request_id, bytes(lent)) == (5, 6, b"credo")
    place[HEAD_SIZE : HEAD_SIZE + 5] = b"other"
    assert bytes(lent) == b"other"
    ((_, _, joined),) = splitter.split(place[HEAD_SIZE + 5 + 3 :])
    place[:] = bytes(len(place))
    assert joined == b"amen"


def test_many_small_pieces_cost_little() -> None:
    splitter = Splitter(200_000)
    splitter.feed(HEAD.pack(200_000, 5, 6))
    for _ in range(100_000):
        assert splitter.feed(b"x") == []
    assert splitter.waiting() == HEAD_SIZE + 100_000
    assert len(splitter._pieces) < 10


@pytest.mark.parametrize("first", range(HEAD_SIZE))
def test_a_length_is_refused_before_anything_is_kept(first: int) -> None:
    stream = HEAD.pack(41, 5, 6)
    splitter = Splitter(40)
    assert splitter.feed(stream[:first]) == []
    with pytest.raises(MalformedFrame):
        splitter.feed(stream[first:])
