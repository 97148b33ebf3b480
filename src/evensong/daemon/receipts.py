"""Who waits until test packets of this daemon are delivered here."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver
from evensong.core.ids import ProcessorId
from evensong.core.unit import decode_unit
from evensong.daemon.control import Later
from evensong.daemon.listener import Listener


@final
class Receipts(Listener):
    """A listener that answers once the awaited packet is delivered, or this life is over.

    A packet has its number when it is pulled, and a daemon delivers its own in the order of their
    numbers. What is delivered is looked at only while somebody waits.
    """

    def __init__(self, node: ProcessorId) -> None:
        self._node: Final = node
        self._queued: Final[deque[tuple[int, Later]]] = deque()  # by count of those pulled
        self._sent: Final[deque[tuple[int, Later]]] = deque()  # by number

    def expect(self, pulled: int, later: Later) -> None:
        """Answer when the packet is delivered here with which so many have been pulled."""
        self._queued.append((pulled, later))

    def name(self, pulled: int, last_no: int) -> None:
        """Take note that so many have been pulled by now, and the number of the last one."""
        queued = self._queued
        while queued and queued[0][0] <= pulled:
            count, later = queued.popleft()
            self._sent.append((last_no - (pulled - count), later))

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Answer those who waited for one of these."""
        sent = self._sent
        if not sent:
            return
        mine = [part for part in delivered.parts if part.sender_id == self._node]
        last_no = decode_unit(mine[-1].at(mine[-1].last_seq).payload).origin_no if mine else 0
        while sent and sent[0][0] <= last_no:
            sent.popleft()[1].give({"ok": True, "delivered_at_us": now})

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Tell those who wait that they wait in vain."""
        for _, later in (*self._sent, *self._queued):
            later.give({"ok": False, "error": "send: the daemon stops; the outcome is unknown"})
        self._sent.clear()
        self._queued.clear()
