"""The table of states and events, and which of its pairs cannot happen.

A core keeps which events met which of its states (`SingleRing.pairs`). Over a campaign every pair
of the table is either reached or listed here as unreachable with the reason; a run that reaches an
unreachable pair, or one that is not in the table, fails. docs/protocols/totem.md has the same list
for readers; a test compares the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, final

from evensong.core.totem.states import State
from evensong.sim.evs import Violation

Pair: TypeAlias = tuple[str, str]  # state, event

TABLE: Final = "table"  # the property that a run breaks by reaching what cannot happen

STATES: Final = tuple(state.value for state in State)

EVENTS: Final = (
    "submit",
    "pause",
    "regular",
    "regular of the old ring",
    "regular of a past ring",
    "foreign regular",
    "token",
    "token of another ring",
    "join",
    "commit",
    "beacon of a past ring",
    "foreign beacon",
    "hold_cancel",
    "leave",
    "token_loss",
    "token_retransmit",
    "consensus_timeout",
    "join_timeout",
    "hold_timeout",
    "beacon_timeout",
)

_STOPPED_BY_COMMIT: Final = "the timer runs in Gather only: committing and forming alone stop it"
_STOPPED_BY_GATHER: Final = "an installed ring starts the timer, and entering Gather stops it"

UNREACHABLE: Final[dict[Pair, str]] = {
    ("gather", "regular"): "the ring in use is the old one: it counts as of the old ring",
    ("commit", "regular"): "the ring in use is the old one: it counts as of the old ring",
    ("operational", "regular of the old ring"): "the installed ring is the only one there is",
    ("gather", "token_retransmit"): "entering Gather stops the timer: no token is mine to resend",
    ("operational", "consensus_timeout"): _STOPPED_BY_COMMIT,
    ("commit", "consensus_timeout"): _STOPPED_BY_COMMIT,
    ("recovery", "consensus_timeout"): _STOPPED_BY_COMMIT,
    ("operational", "join_timeout"): _STOPPED_BY_COMMIT,
    ("commit", "join_timeout"): _STOPPED_BY_COMMIT,
    ("recovery", "join_timeout"): _STOPPED_BY_COMMIT,
    ("gather", "hold_timeout"): _STOPPED_BY_GATHER,
    ("commit", "hold_timeout"): _STOPPED_BY_GATHER,
    ("recovery", "hold_timeout"): _STOPPED_BY_GATHER,
    ("gather", "beacon_timeout"): _STOPPED_BY_GATHER,
    ("commit", "beacon_timeout"): _STOPPED_BY_GATHER,
    ("recovery", "beacon_timeout"): _STOPPED_BY_GATHER,
}

PAIRS: Final = frozenset((state, event) for state in STATES for event in EVENTS)
REACHABLE: Final = PAIRS - UNREACHABLE.keys()


@final
class Table:
    """The table of one engine."""

    __slots__ = ("_unreachable", "reachable")

    def __init__(
        self, states: Iterable[str], events: Sequence[str], unreachable: Mapping[Pair, str]
    ) -> None:
        pairs = frozenset((state, event) for state in states for event in events)
        self._unreachable: Final = unreachable
        self.reachable: Final = pairs - unreachable.keys()

    def unreached(self, reached: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that can happen and did not."""
        return sorted(self.reachable.difference(reached))

    def impossible(self, reached: Iterable[Pair]) -> list[Violation]:
        """Return a witness for each pair that cannot happen and did."""
        found = []
        for state, event in sorted(set(reached) - self.reachable):
            unknown = "it is not in the table of states and events"
            why = self._unreachable.get((state, event), unknown)
            found.append(Violation(TABLE, f"{say((state, event))} happened, but {why}"))
        return found


RING: Final = Table(STATES, EVENTS, UNREACHABLE)
impossible: Final = RING.impossible
unreached: Final = RING.unreached


def say(pair: Pair) -> str:
    """Write a pair as `state/event`."""
    return "/".join(pair)
