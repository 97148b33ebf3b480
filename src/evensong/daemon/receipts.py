"""Who waits until messages of this daemon are delivered here."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver, Sent, StateChange, TokenVisit
from evensong.core.ids import Configuration, ProcessorId
from evensong.daemon.control import Later


@final
class Receipts:
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
        node = self._node
        self._counted += sum(one.sender_id == node for one in delivered.messages)
        while waiting and waiting[0][0] <= self._counted:
            waiting.popleft()[1].give({"ok": True, "delivered_at_us": now})

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Tell those who wait that they wait in vain."""
        for _, later in self._waiting:
            later.give({"ok": False, "error": "send: the daemon stops; the outcome is unknown"})
        self._waiting.clear()

    def send(self, sent: Sent, now: int) -> None:
        """Do nothing: a place in the order is no delivery."""

    def install(self, configuration: Configuration, now: int) -> None:
        """Do nothing: own messages are delivered across configurations."""

    def change_state(self, change: StateChange, now: int) -> None:
        """Do nothing: a broken ring delays, it does not lose."""

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Do nothing."""
