import pytest
from hypothesis import given
from hypothesis.strategies import integers, permutations

from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem import wire
from evensong.core.totem.parts import PART_FRAME, PARTS_MAX, Parts, split
from evensong.errors import MalformedFrame


def frame_of(size: int, transmitter: int = 5, kind: int = wire.COMMIT) -> bytes:
    header = wire.HEADER.pack(kind, transmitter, 1)
    return header + bytes(index % 251 for index in range(size - len(header)))


def test_a_frame_that_fits_travels_as_it_is() -> None:
    frame = frame_of(100)
    assert split(frame, 1, 100) == [frame]


@given(integers(101, 2_000), integers(0, 2**32 - 1))
def test_a_frame_is_put_together_from_its_parts(size: int, frame_no: int) -> None:
    frame = frame_of(size)
    datagrams = split(frame, frame_no, 100)
    assert all(len(datagram) <= 100 for datagram in datagrams)
    parts = Parts()
    whole = [parts.add(datagram) for datagram in datagrams]
    assert whole == [None] * (len(datagrams) - 1) + [frame]
    assert not parts.unfinished


@given(permutations(range(5)))
def test_the_order_of_parts_does_not_matter(order: list[int]) -> None:
    frame = frame_of(5 * (100 - PART_FRAME.size))
    datagrams = split(frame, 1, 100)
    parts = Parts()
    assert [parts.add(datagrams[index]) for index in order][-1] == frame


def test_a_part_that_comes_twice_does_not_complete_the_frame() -> None:
    first, second = split(frame_of(150), 1, 100)
    parts = Parts()
    assert parts.add(first) is None
    assert parts.add(first) is None
    assert parts.add(second) is not None


def test_a_missing_part_loses_the_frame_when_the_next_begins() -> None:
    first, _ = split(frame_of(150), 1, 100)
    later = split(frame_of(150), 2, 100)
    parts = Parts()
    parts.add(first)
    assert parts.add(later[1]) is None
    assert parts.add(later[0]) == frame_of(150)


def test_transmitters_do_not_mix() -> None:
    parts = Parts()
    ours, theirs = split(frame_of(150, 5), 1, 100), split(frame_of(150, 6), 1, 100)
    assert parts.add(ours[0]) is None
    assert parts.add(theirs[1]) is None
    assert parts.add(ours[1]) == frame_of(150, 5)


def test_no_more_is_kept_than_one_frame_of_each_processor_of_a_ring() -> None:
    parts = Parts()
    for transmitter in range(1, 2 * PROCESSORS_MAX):
        parts.add(split(frame_of(150, transmitter), 1, 100)[0])
    assert len(parts.unfinished) == PROCESSORS_MAX
    assert 1 not in parts.unfinished


def part(number: int, parts: int, chunk: bytes = b"x", transmitter: int = 5) -> bytes:
    return PART_FRAME.pack(wire.PART, transmitter, 1, 9, number, parts) + chunk


@pytest.mark.parametrize(
    "datagram",
    [part(0, 2, b""), part(0, 1), part(0, 0), part(2, 2), part(0, PARTS_MAX + 1), b"\x08"],
)
def test_a_part_that_cannot_be_is_refused(datagram: bytes) -> None:
    parts = Parts()
    with pytest.raises(MalformedFrame):
        parts.add(datagram)
    assert not parts.unfinished


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (frame_of(150, 6), "part: not its transmitter's frame"),
        (frame_of(150, kind=wire.PART), "part: of a part"),
        (b"short", "part: not its transmitter's frame"),
    ],
)
def test_a_whole_that_is_not_its_transmitters_is_refused(whole: bytes, reason: str) -> None:
    parts = Parts()
    middle = len(whole) // 2
    parts.add(part(0, 2, whole[:middle]))
    with pytest.raises(MalformedFrame, match=reason):
        parts.add(part(1, 2, whole[middle:]))
    assert not parts.unfinished
