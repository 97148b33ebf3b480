"""Counters of what was delivered, and the last few deliveries."""

from collections import deque
from typing import Final, final

from evensong.core.effects import Deliver, Ordered, Part, Service, TokenVisit
from evensong.core.ids import Configuration, RingId
from evensong.daemon.listener import Listener

TAIL_MAX: Final = 16
RINGS_MAX: Final = 8
AGREED: Final = Service.AGREED


@final
class Tail(Listener):
    """A listener that counts."""

    def __init__(self) -> None:
        self.by_service: Final[dict[Service, int]] = dict.fromkeys(Service, 0)
        # No more than the last few need, with how many messages are in each.
        self._latest: Final[deque[tuple[RingId, Part, int]]] = deque()
        self._kept = 0  # messages in all of them
        self.configurations = 0
        self.rings: Final[deque[tuple[int, Configuration]]] = deque(maxlen=RINGS_MAX)
        self.visits = 0
        self.resent = 0  # packets, because somebody lacked them

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Count deliveries by service, agreed ones apart, and keep the last few for a while."""
        for part in delivered.parts:
            if part.service is not AGREED:  # the others, and all, are counted
                self.by_service[part.service] += part.last_seq - part.first_seq + 1
        latest = self._latest
        for part in delivered.parts[-TAIL_MAX:]:
            count = part.last_seq - part.first_seq + 1
            latest.append((delivered.conf_id, part, count))
            self._kept += count
        while self._kept - latest[0][2] >= TAIL_MAX:  # a part keeps all it came with
            self._kept -= latest.popleft()[2]

    def last(self) -> list[tuple[RingId, Ordered]]:
        """Return the last few messages, each with the configuration it was delivered in."""
        few: list[tuple[RingId, Ordered]] = []
        for conf_id, part, _ in self._latest:
            first = max(part.first_seq, part.last_seq - TAIL_MAX + 1)
            few += [(conf_id, part.at(seq)) for seq in range(first, part.last_seq + 1)]
        return few[-TAIL_MAX:]

    def install(self, configuration: Configuration, now: int) -> None:
        """Count a configuration; the last few rings are kept for a while."""
        self.configurations += 1
        if not configuration.transitional:
            self.rings.append((now, configuration))

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Count a visit of the token, and what it repaired."""
        self.visits += 1
        self.resent += visit.resent
