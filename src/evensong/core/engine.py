"""Which engine a node runs: its parameters say so, for each engine has its own.

An engine is a `Core` that orders packets in one cluster. What it owes the layer above, whichever it
is:

- `Sent` when packets of its source go out, before they are broadcast; `Deliver` in an order that is
  the same for all who go on together, its own packets too; `SafeLine` in the names of places.
- A place is (ring_id, seq). It names one message for all who deliver it there, and rises.
- Configurations alternate, after a regular one of itself alone: a transitional one of those who
  leave the one before together, then a regular one of all who come. What is promised only for those
  who go on is delivered in the transitional one.
- If its source has something, it pulls in the call that installs a configuration, or soon after.
"""

from random import Random
from typing import Final, TypeAlias

from evensong.core.core import Source
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.totem import wire as ring_wire
from evensong.core.totem.parameters import PROFILES as RING_PROFILES
from evensong.core.totem.parameters import Parameters as RingParameters
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.states import State as RingState
from evensong.core.transis import wire as lansis_wire
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.parameters import PROFILES as LANSIS_PROFILES
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.core.transis.states import State as LansisState

Parameters: TypeAlias = RingParameters | LansisParameters
Engine: TypeAlias = SingleRing | Lansis

TOTEM: Final = "totem"
TRANSIS: Final = "transis"
ENGINES: Final = (TOTEM, TRANSIS)
ACKS_ROOM: Final = 8  # acknowledgements that a full datagram has room for; more make it longer

# The states of both, as their names are told: those in which nothing is about to change, those in
# which the present configuration goes on, and those in which a change begins.
SETTLED: Final = ("operational", "stable")
STEADY: Final = (*SETTLED, "collect")
CHANGING: Final = ("gather", "agree")
FIELDS: Final = {TOTEM: RingParameters._fields, TRANSIS: LansisParameters._fields}


def make_engine(
    my_id: ProcessorId,
    record: StableRecord,
    incarnation: int,
    parameters: Parameters,
    rng: Random,
    source: Source,
) -> Engine:
    """Make the engine that the parameters are of, for one life of a processor."""
    if isinstance(parameters, LansisParameters):
        return Lansis(my_id, record, incarnation, parameters, rng, source)
    return SingleRing(my_id, record, incarnation, parameters, rng, source)


def name_of(parameters: Parameters) -> str:
    """Return the name of the engine that parameters are of."""
    return TRANSIS if isinstance(parameters, LansisParameters) else TOTEM


def has_unordered(parameters: Parameters) -> bool:
    """Return whether the engine of these has services without a total order (BASIC, CAUSAL)."""
    return isinstance(parameters, LansisParameters)


def engine_in(state: str) -> str:
    """Return the engine that has a state of this name, or nothing."""
    if state in {one.value for one in LansisState}:
        return TRANSIS
    return TOTEM if state in {one.value for one in RingState} else ""


def profile(engine: str, name: str, processors: int) -> Parameters:
    """Return the parameters of an engine's profile, for so many processors."""
    if engine == TRANSIS:
        return LANSIS_PROFILES[name].for_crowd(processors)
    return RING_PROFILES[name]


def wrapping(parameters: Parameters, processors: int) -> int:
    """Return how many bytes of a datagram an engine needs besides what a packet carries."""
    if isinstance(parameters, LansisParameters):
        acks = min(processors - 1, ACKS_ROOM) * lansis_wire.ACK.size
        return lansis_wire.HEAD.size + lansis_wire.MESSAGE.size + acks
    # What recovery wraps must fit a datagram too.
    return ring_wire.REGULAR_FRAME.size + ring_wire.MESSAGE.size
