"""Who holds a message: worked out from its place, from safe lines and from configurations.

On the ring that numbered it, a message is held by all once the safe line has passed it. When the
next regular configuration comes and the line had not, those who left the ring together hold it:
the members of the transitional configuration in between. A safe message is delivered only when it
is held by all of the configuration in which it is delivered.
"""

from collections import deque
from typing import Final, final

from evensong.client.flights import Flight, Held
from evensong.core.groups.events import OrderId, Reconfigured
from evensong.core.ids import NO_RING, ProcessorId, RingId

RINGS_MAX: Final = 64  # past rings of which it is remembered who went on together


@final
class Ring:
    """A regular configuration, and what is known of its messages."""

    __slots__ = ("line", "members", "ring_id", "survivors")

    def __init__(self, ring_id: RingId, members: tuple[ProcessorId, ...]) -> None:
        self.ring_id: Final = ring_id
        self.members: Final = members
        self.line = 0  # everybody has everything up to here
        self.survivors: tuple[ProcessorId, ...] = members  # who went on from it together


@final
class Safety:
    """What one connection knows of rings."""

    __slots__ = ("_is_transitional", "_past", "_ring", "_waiting", "wants_lines")

    def __init__(self) -> None:
        self._ring = Ring(NO_RING, ())
        self._is_transitional = False
        self._past: Final[deque[Ring]] = deque(maxlen=RINGS_MAX)
        self._waiting: list[Flight] = []  # have a place
        self.wants_lines = False  # somebody has asked who holds an agreed message

    def on_configuration(self, configuration: Reconfigured) -> None:
        """Take in which daemons are together."""
        self._is_transitional = configuration.transitional
        if configuration.transitional:
            self._ring.survivors = configuration.members
            return
        if configuration.conf_id != self._ring.ring_id:
            self._past.append(self._ring)
            self._ring = Ring(configuration.conf_id, configuration.members)
        self._settle()

    def on_line(self, ring_id: RingId, seq: int) -> None:
        """Take in how far everybody has everything."""
        for ring in (self._ring, *self._past):
            if ring.ring_id == ring_id:
                ring.line = max(ring.line, seq)
        self._settle()

    def on_ordered(self, flight: Flight) -> None:
        """Take in that a frame has its place, which is delivered now."""
        if flight.is_safe:
            ring = self._ring
            members = ring.survivors if self._is_transitional else ring.members
            flight.held = Held(members, len(members) < len(ring.members))

    def watch(self, flight: Flight) -> None:
        """Find out who holds a frame that has its place."""
        if not self._has_settled(flight):
            self._waiting.append(flight)

    def forget(self) -> list[Flight]:
        """Return the frames of which it will not be known any more."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def _settle(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting += [flight for flight in waiting if not self._has_settled(flight)]

    def _has_settled(self, flight: Flight) -> bool:
        assert flight.order is not None
        flight.held = flight.held or self._held(flight.order)
        if flight.held is not None:
            flight.wakes.call()
        return flight.held is not None

    def _held(self, order: OrderId) -> Held | None:
        if order.ring_id == self._ring.ring_id:
            known = order.seq <= self._ring.line
            return Held(self._ring.members, reduced=False) if known else None
        for ring in self._past:
            if ring.ring_id == order.ring_id:
                if order.seq <= ring.line:
                    return Held(ring.members, reduced=False)
                return Held(ring.survivors, len(ring.survivors) < len(ring.members))
        return Held((), reduced=True)  # too long ago to say who
