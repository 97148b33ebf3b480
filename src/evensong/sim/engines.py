"""The engines that the simulator runs, with what it must know of their frames."""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from evensong.core.core import Core, Source
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.totem import wire
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.sim.network import Kinds


class MakeCore(Protocol):
    """How an engine is made for one life of a processor."""

    def __call__(
        self,
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> Core:
        """Make it; it is started afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """What the world must know of an engine to run it."""

    make: MakeCore
    kinds: Kinds


def totem_seq(datagram: bytes) -> int | None:
    """Return the seq of a regular message."""
    if datagram[0] != wire.REGULAR or len(datagram) < wire.REGULAR_FRAME.size:
        return None
    seq: int = wire.REGULAR_FRAME.unpack_from(datagram)[6]
    return seq


TOTEM: Final = Engine(
    SingleRing,
    Kinds(
        {name: kind for kind, name in wire.KIND_NAMES.items()},
        frozenset([wire.REGULAR]),
        frozenset([wire.TOKEN, wire.COMMIT, wire.PART]),
        totem_seq,
    ),
)
