"""What each engine is held to: its invariants, its promises, its table of states and events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from evensong.sim import coverage, evs
from evensong.sim.check import Invariants
from evensong.sim.coverage import Table
from evensong.sim.evs import Verdicts
from evensong.sim.evs.verdict import Finding
from evensong.sim.history import History, LifeId
from evensong.sim.setup import TOTEM, TRANSIS, Options
from evensong.sim.transis import judge as lansis_judge
from evensong.sim.transis.check import LansisInvariants
from evensong.sim.transis.table import DOMAIN
from evensong.sim.world import Observer


class Judge(Protocol):
    """Holds a history against what an engine promises."""

    def __call__(self, history: History, submitted: Mapping[LifeId, int] | None = None) -> Verdicts:
        """Judge it; `submitted` is what each life was handed over, if its end does not tell."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """What a run of one engine is judged by."""

    watcher: Callable[[], Observer]  # checks invariants at every step
    look_back: Callable[[Observer], list[Finding]]  # what only the whole run shows it
    judge: Judge
    table: Table
    invariants: tuple[str, ...]
    hindsight: tuple[str, ...]  # those of them that `look_back` has a verdict on
    properties: tuple[str, ...]
    liveness: str  # the invariant that a calm run converges


def _nothing(observer: Observer) -> list[Finding]:
    return []


def _last_votes(observer: Observer) -> list[Finding]:
    return [observer.look_back()] if isinstance(observer, LansisInvariants) else []


RING: Final = Rules(
    Invariants,
    _nothing,
    evs.check,
    coverage.RING,
    tuple(f"I{number}" for number in range(1, 16)),
    (),
    tuple(evs.PROPERTIES),
    "I15",
)
LANSIS: Final = Rules(
    LansisInvariants,
    _last_votes,
    lansis_judge.check,
    DOMAIN,
    tuple(f"L{number}" for number in range(1, 17)),
    ("L7",),
    tuple(lansis_judge.PROPERTIES),
    "L13",
)
BY_ENGINE: Final = {TOTEM: RING, TRANSIS: LANSIS}


def rules_of(options: Options) -> Rules:
    """Return what a run with these options is judged by."""
    return BY_ENGINE[options.engine]
