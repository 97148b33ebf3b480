"""The engines that the simulator runs, with what it must know of their frames."""

from typing import Final

from evensong.core.totem import wire
from evensong.core.totem.ring import SingleRing
from evensong.sim.network import Kinds
from evensong.sim.world import Engine


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
