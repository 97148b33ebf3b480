"""Who waits until messages of this daemon are delivered here."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver
from evensong.core.ids import ProcessorId
from evensong.daemon.control import Later
from evensong.daemon.listener import Listener


@final
class Receipts(Listener):
    """A listener that answers once the awaited message is delivered, or this life is over.

    A daemon delivers its own messages in the order in which they were submitted, each once, so it
    is enough to count them; and to count while somebody waits.
    """

    def __init__(self, node: ProcessorId) -> None:
        self._node: Final = node
        self._counted = 0
        self._waiting: Final[deque[tuple[int, Later]]] = deque()  # by count, ascending

    def expect(self, own_to_come: int, later: Later) -> None:
        """Answer when so many more of this daemon's own messages are delivered here."""
        self._waiting.append((self._counted + own_to_come, later))

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Count own messages, and answer those who waited for one of these."""
        waiting = self._waiting
        if not waiting:
            return
        mine = [part for part in delivered.parts if part.sender_id == self._node]
        self._counted += sum(part.last_seq - part.first_seq + 1 for part in mine)
        while waiting and waiting[0][0] <= self._counted:
            waiting.popleft()[1].give({"ok": True, "delivered_at_us": now})

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Tell those who wait that they wait in vain."""
        for _, later in self._waiting:
            later.give({"ok": False, "error": "send: the daemon stops; the outcome is unknown"})
        self._waiting.clear()
