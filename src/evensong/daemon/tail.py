"""Counters of what was delivered, and the last few deliveries."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver, Sent, StateChange, TokenVisit
from evensong.core.ids import Configuration, ProcessorId

TAIL_MAX: Final = 16


@final
class Tail:
    """A listener that counts."""

    def __init__(self) -> None:
        self.by_sender: Final[dict[ProcessorId, int]] = {}
        self.by_service: Final[dict[str, int]] = {}
        self.last: Final[deque[Deliver]] = deque(maxlen=TAIL_MAX)
        self.configurations = 0
        self.visits = 0

    def send(self, sent: Sent, now: int) -> None:
        """Do nothing: the driver counts sends."""

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Count a delivery and keep it for a while."""
        sender = delivered.sender_id
        service = delivered.service.name.lower()
        self.by_sender[sender] = self.by_sender.get(sender, 0) + 1
        self.by_service[service] = self.by_service.get(service, 0) + 1
        self.last.append(delivered)

    def install(self, configuration: Configuration, now: int) -> None:
        """Count a configuration."""
        self.configurations += 1

    def change_state(self, change: StateChange, now: int) -> None:
        """Do nothing: the driver keeps the state."""

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Count a visit of the token."""
        self.visits += 1

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Do nothing more."""
