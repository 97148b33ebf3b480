"""What clients do in a run: who submits how many units, when, how large and with which service.

A workload is data, a list of bursts. Size and service of a unit follow from its origin identity
alone, so that dropping a burst or a processor while shrinking leaves the other units as they were.
"""

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from evensong.core.effects import Packet, Service
from evensong.core.ids import ProcessorId
from evensong.core.unit import UNIT, UnitId, encode_unit

BODY_MAX: Final = 1_000
_BODY: Final = bytes(range(256)) * (BODY_MAX // 256 + 2)


@dataclass(frozen=True, slots=True)
class Burst:
    """One client hands over some units at one moment."""

    at_us: int
    node: ProcessorId
    units: int = 1
    body_max: int = 64  # bytes beyond the unit's identity
    safe: float = 0.0  # the share of units that ask for SAFE,
    causal: float = 0.0  # for CAUSAL,
    basic: float = 0.0  # and for BASIC; the rest ask for AGREED


Workload: TypeAlias = tuple[Burst, ...]


def make_packet(
    unit_id: UnitId, body_max: int, safe: float, causal: float = 0.0, basic: float = 0.0
) -> Packet:
    """Build the packet of a unit; everything about it follows from its identity."""
    lot = zlib.crc32(UNIT.pack(*unit_id, 1))
    size = (lot >> 10) % (body_max + 1)
    start = lot & 0xFF
    share = lot % 1_000
    if share < safe * 1_000:
        service = Service.SAFE
    elif share < (safe + causal) * 1_000:
        service = Service.CAUSAL
    elif share < (safe + causal + basic) * 1_000:
        service = Service.BASIC
    else:
        service = Service.AGREED
    return Packet(service, encode_unit(unit_id, _BODY[start : start + size]))


@final
class Queue:
    """What one life of a processor still has to send: the engine's `Source`."""

    __slots__ = ("incarnation", "node", "origin_no", "packets")

    def __init__(self, node: ProcessorId, incarnation: int) -> None:
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.origin_no = 0  # of the unit submitted last; so many were submitted
        self.packets: Final[deque[Packet]] = deque()

    def submit(self, burst: Burst) -> None:
        """Append the units of a burst."""
        for _ in range(burst.units):
            self.origin_no += 1
            unit_id = UnitId(self.node, self.incarnation, self.origin_no)
            packet = make_packet(unit_id, burst.body_max, burst.safe, burst.causal, burst.basic)
            self.packets.append(packet)

    def submit_body(self, body: bytes, service: Service) -> None:
        """Append one unit with a given body."""
        self.origin_no += 1
        unit_id = UnitId(self.node, self.incarnation, self.origin_no)
        self.packets.append(Packet(service, encode_unit(unit_id, body)))

    def backlog(self) -> int:
        """How many packets wait."""
        return len(self.packets)

    def weight(self, packets: Sequence[Packet]) -> int:
        """All are plain."""
        return len(packets)

    def pull(self, packets_max: int) -> list[Packet]:
        """Hand over the next packets, in order, at most `packets_max`."""
        packets = self.packets
        return [packets.popleft() for _ in range(min(packets_max, len(packets)))]
