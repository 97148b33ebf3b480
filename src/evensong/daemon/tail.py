"""Counters of what was delivered, and the last few deliveries."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver, Ordered, Service, TokenVisit
from evensong.core.ids import Configuration, RingId
from evensong.daemon.listener import Listener

TAIL_MAX: Final = 16
RINGS_MAX: Final = 8
SAFE: Final = Service.SAFE


@final
class Tail(Listener):
    """A listener that counts."""

    def __init__(self) -> None:
        self.safe = 0
        self.last: Final[deque[tuple[RingId, Ordered]]] = deque(maxlen=TAIL_MAX)
        self.configurations = 0
        self.rings: Final[deque[tuple[int, Configuration]]] = deque(maxlen=RINGS_MAX)
        self.visits = 0

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Count safe deliveries and keep the last few for a while."""
        messages = delivered.messages
        self.safe += [one.service for one in messages].count(SAFE)
        self.last.extend((delivered.conf_id, one) for one in messages[-TAIL_MAX:])

    def install(self, configuration: Configuration, now: int) -> None:
        """Count a configuration; the last few rings are kept for a while."""
        self.configurations += 1
        if not configuration.transitional:
            self.rings.append((now, configuration))

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Count a visit of the token."""
        self.visits += 1
