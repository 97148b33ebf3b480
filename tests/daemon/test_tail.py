"""The last few deliveries, and what is kept for their sake."""

from weakref import ref

from hypothesis import given
from hypothesis.strategies import integers, lists

from evensong.core.effects import Deliver, Service
from evensong.core.ids import RingId
from evensong.core.totem.frames import RegularMessage
from evensong.daemon.tail import TAIL_MAX, Tail

RING = RingId(8, 1)


class Piece:
    """A part whose end can be seen."""

    def __init__(self, first_seq: int, last_seq: int) -> None:
        self.ring_id = RING
        self.sender_id = 1
        self.service = Service.SAFE
        self.first_seq = first_seq
        self.last_seq = last_seq

    def at(self, seq: int) -> RegularMessage:
        return RegularMessage(1, RING, seq, Service.SAFE, 0, 0, b"%d" % seq)

    def cut(self, first_seq: int, last_seq: int) -> "Piece":
        return Piece(first_seq, last_seq)

    def payloads(self) -> list[bytes]:
        return [b"%d" % seq for seq in range(self.first_seq, self.last_seq + 1)]

    def where(self, seq: int) -> tuple[bytes, int, int]:
        payload = b"%d" % seq
        return payload, 0, len(payload)

    def bytes_at(self, at: int) -> set[int]:
        return {payload[at] for payload in self.payloads()}


@given(lists(lists(integers(1, 40), min_size=1, max_size=20), max_size=8))
def test_the_last_few_messages_are_told_in_order(deliveries: list[list[int]]) -> None:
    tail = Tail()
    high = 0
    for lengths in deliveries:
        parts: list[Piece] = []
        for length in lengths:
            parts.append(Piece(high + 1, high + length))
            high += length
        tail.deliver(Deliver(RING, parts, 0, after_gap=False), 0)
    seqs = range(max(1, high - TAIL_MAX + 1), high + 1)
    assert [(conf_id, one.seq) for conf_id, one in tail.last()] == [(RING, seq) for seq in seqs]
    assert tail.by_service[Service.SAFE] == high


def test_what_came_together_is_not_kept_for_longer_than_some_of_it_is_told() -> None:
    tail = Tail()
    seen: list[ref[Piece]] = []
    for number in range(4):
        part = Piece(1 + number * TAIL_MAX // 2, (number + 1) * TAIL_MAX // 2)
        tail.deliver(Deliver(RING, [part], 0, after_gap=False), 0)
        seen.append(ref(part))
        del part
    assert [part() is not None for part in seen] == [False, False, True, True]
