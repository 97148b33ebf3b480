"""Test packets that wait for the token, beside what sessions send.

They are named when they are pulled, so that their numbers and those of the sessions' packets are
one count, in the order in which they go out.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, final

from evensong.core.effects import Packet
from evensong.core.groups.packet import FOREIGN
from evensong.core.unit import Origin

Feed: TypeAlias = Callable[[int], list[Packet]]  # so many packets, or what is left
Pulled: TypeAlias = Callable[[int, int], None]  # how many ever were, and the last one's number
make_packet: Final = partial(tuple.__new__, Packet)  # of its fields; quicker than by name


def marked(packet: Packet) -> Packet:
    """Say of a packet that it is none of groups."""
    return packet._replace(payload=FOREIGN + packet.payload)


def _ignore_pull(_pulled: int, _last_no: int) -> None:
    """Do nothing: nobody wants to know."""


@final
class Outbox:
    """A queue of marked packets: the node's foreign source."""

    __slots__ = ("_to_replace", "feed", "packets", "pulled", "told")

    def __init__(self) -> None:
        self._to_replace = 0
        self.packets: Final[deque[Packet]] = deque()
        self.feed: Feed | None = None  # replaces what is pulled, as long as it has something
        self.pulled = 0  # packets, ever
        self.told: Pulled = _ignore_pull

    def backlog(self) -> int:
        """How many packets wait."""
        return len(self.packets)

    def pull(self, packets_max: int, origin: Origin) -> list[Packet]:
        """Hand over the next packets, in order, at most `packets_max`."""
        packets = self.packets
        count = min(packets_max, len(packets))
        if not count:
            return []
        taken = [packets.popleft() for _ in range(count)]
        services, bodies, timestamps = zip(*taken, strict=True)
        self.pulled += count
        self._to_replace += count
        units = origin.units(bodies)
        self.told(self.pulled, origin.last_no)
        return [*map(make_packet, zip(services, units, timestamps, strict=True))]

    def refill(self) -> None:
        """Replace what was pulled, as long as the feed yields; not while the token is here."""
        if self.feed is not None and self._to_replace:
            self.packets.extend(self.feed(self._to_replace))
        self._to_replace = 0
