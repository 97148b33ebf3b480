"""The engines that the simulator runs, with what it must know of their frames and states."""

from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from evensong.core.core import Core, Source
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.totem import wire
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.core.transis import frames
from evensong.core.transis import wire as lansis_wire
from evensong.core.transis.lansis import Lansis
from evensong.sim.network import Kinds
from evensong.sim.setup import TRANSIS, Options


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
    settled: str = "operational"  # the state in which no membership change is under way,
    changing: tuple[str, ...] = ("commit", "recovery")  # and those in which one surely is
    has_places: bool = True  # a message has its place in the order when it is sent


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


def lansis_number(datagram: bytes) -> int | None:
    """Return the number, in its view, of a message of the causal graph; also of one sent again."""
    size = lansis_wire.HEAD.size + lansis_wire.MESSAGE.size
    if datagram[0] not in (*frames.IN_GRAPH, frames.RETR) or len(datagram) < size:
        return None
    fields = lansis_wire.MESSAGE.unpack_from(datagram, lansis_wire.HEAD.size)
    number: int = fields[7] - fields[8]
    return number


LANSIS_KINDS: Final = Kinds(
    {name: kind for kind, name in frames.KIND_NAMES.items()},
    frozenset([frames.REGULAR]),
    frozenset(),
    lansis_number,
)


def transis(options: Options) -> Engine:
    """Return the engine of a broadcast domain; its parameters are its own."""
    lansis = options.lansis

    def make(
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> Core:
        return Lansis(my_id, record, incarnation, lansis, rng, source)

    return Engine(make, LANSIS_KINDS, "stable", ("agree",), has_places=False)


def engine_of(options: Options) -> Engine:
    """Return the engine that options name."""
    return transis(options) if options.engine == TRANSIS else TOTEM
