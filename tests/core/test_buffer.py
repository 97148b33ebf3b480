import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from evensong.core.buffer import ReceiveBuffer


def buffer_with(*seqs: int, horizon: int = 100) -> ReceiveBuffer[str]:
    buffer: ReceiveBuffer[str] = ReceiveBuffer(horizon)
    for seq in seqs:
        buffer.add(seq, f"m{seq}")
    return buffer


def test_the_aru_stops_at_the_first_hole() -> None:
    buffer = buffer_with(1, 2, 4, 5)
    assert buffer.aru == 2
    assert buffer.high == 5
    buffer.add(3, "m3")
    assert buffer.aru == 5


def test_the_holes_are_listed_up_to_a_seq() -> None:
    buffer = buffer_with(1, 3, 6)
    assert buffer.missing(7) == [2, 4, 5, 7]
    assert buffer.missing(1) == []


def test_what_was_forgotten_counts_as_received() -> None:
    buffer = buffer_with(1, 2, 3)
    buffer.release(2)
    assert list(buffer.messages) == [3]
    assert buffer.has(1)
    assert buffer.released == 2


def test_releasing_less_than_before_changes_nothing() -> None:
    buffer = buffer_with(1, 2, 3)
    buffer.release(2)
    buffer.release(1)
    assert buffer.released == 2
    assert list(buffer.messages) == [3]


def test_nothing_is_released_that_was_not_received() -> None:
    with pytest.raises(AssertionError):
        buffer_with(1, 3).release(2)


def test_reach_is_counted_from_the_aru() -> None:
    buffer = buffer_with(1, 2, 9, horizon=10)
    assert buffer.is_in_reach(12)
    assert not buffer.is_in_reach(13)


def test_an_empty_buffer_can_begin_later() -> None:
    buffer = buffer_with()
    buffer.skip(7)
    assert (buffer.aru, buffer.high, buffer.released) == (7, 7, 7)
    buffer.add(8, "m8")
    assert buffer.aru == 8
    with pytest.raises(AssertionError):
        buffer.skip(9)


@given(lists(integers(1, 30), unique=True), integers(0, 30))
def test_aru_holes_and_release_agree_with_the_plain_set(seqs: list[int], upto: int) -> None:
    buffer = buffer_with(*seqs)
    aru = 0
    while aru + 1 in seqs:
        aru += 1
    assert buffer.aru == aru
    assert buffer.high == max(seqs, default=0)
    assert buffer.missing(30) == [seq for seq in range(aru + 1, 31) if seq not in seqs]
    buffer.release(min(upto, aru))
    assert sorted(buffer.messages) == sorted(seq for seq in seqs if seq > buffer.released)
    assert all(buffer.has(seq) for seq in seqs)
