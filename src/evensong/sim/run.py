"""One run from its setup to its outcome: faults first, then calm, then everything must converge.

Invariants are checked at every step, extended virtual synchrony at the end, over the history. A
broken invariant, and a mistake of our own code (an assert, a missing key), end the run and are
reported like a broken property: a campaign goes on, and the setup can be shrunk.
"""

import hashlib
import struct
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from evensong.errors import EvensongError, InvariantBroken
from evensong.sim import evs
from evensong.sim.engines import Engine, engine_of
from evensong.sim.evs import Violation
from evensong.sim.history import GROUP_ETYPES, History, LifeId
from evensong.sim.limits import bounds_of, calm_of, is_calmed, settle_us
from evensong.sim.rules import Rules, rules_of
from evensong.sim.setup import Setup
from evensong.sim.world import Observer, World

STRIDE_US: Final = 1_000
NOTHING: Final[Mapping[str, int]] = {}
HALT: Final = "halt"
BUG: Final = "bug"  # a core raised
# What a mistake in a core raises; anything else (memory, an interrupt) is not about the run. A
# core hands no error of ours to its driver either.
MISTAKES: Final = (
    AssertionError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    struct.error,
    EvensongError,
)


class Counts(NamedTuple):
    """How much of a run a property was about."""

    n_checked: int
    n_unknown: int = 0
    n_violations: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    violations: tuple[Violation, ...]
    statuses: Mapping[str, evs.Status]  # by property; empty where nothing was checked
    deliveries: int
    configurations: int  # as delivered, regular and transitional, over all processors
    datagrams: int
    faults: Mapping[str, int]  # by kind, as they struck
    faults_in_change: int  # that struck while somebody changed the membership
    pairs: frozenset[tuple[str, str]]  # (state, event)
    digest: str  # of everything observable; the same setup gives the same digest
    calm_us: int  # virtual time from the end of the faults to quiet
    virtual_us: int
    seconds: float
    happened: Mapping[str, int] = field(default_factory=dict)  # what came about among clients
    counts: Mapping[str, Counts] = field(default_factory=dict)  # by property, as `statuses`

    def broken(self) -> frozenset[str]:
        """Return the properties that do not hold."""
        return frozenset(violation.property_id for violation in self.violations)


def run_setup(setup: Setup, engine: Engine | None = None) -> Outcome:
    """Run a setup with every check."""
    return run_recorded(setup, engine)[0]


def run_recorded(setup: Setup, engine: Engine | None = None) -> tuple[Outcome, History]:
    """Run a setup with every check, and return what every processor observably did as well."""
    started = time.perf_counter()
    run = Run(setup, engine, rules_of(setup.options).watcher())
    statuses = run.judge()
    return run.outcome(statuses, time.perf_counter() - started), run.history


def run_unchecked(setup: Setup, engine: Engine | None = None) -> Outcome:
    """Run a setup; all that is judged is that it ends and converges."""
    started = time.perf_counter()
    run = Run(setup, engine, None)
    return run.outcome({}, time.perf_counter() - started)


class Company(Protocol):
    """Whoever lives above the processors of a run, if anybody does: clients."""

    def board(self, world: World) -> None:
        """Get to know the world, before anything happens in it."""
        ...

    def is_quiet(self) -> bool:
        """Whether nothing more will come of what was done."""
        ...

    def finish(self, calm_at: int) -> None:
        """Judge the whole, when all is quiet; raises `InvariantBroken`."""
        ...

    def submitted(self) -> dict[LifeId, int]:
        """Return how many units every life handed to its ring."""
        ...

    def describe(self) -> str:
        """Say what is still under way."""
        ...


class Run:
    """A run, done by its constructor."""

    def __init__(
        self,
        setup: Setup,
        engine: Engine | None,
        observer: Observer | None,
        company: Company | None = None,
        watcher: Observer | None = None,
    ) -> None:
        self.history: Final = History()
        self.violations: Final[list[Violation]] = []
        self.counts: Final[dict[str, Counts]] = {}
        self.rules: Final[Rules] = rules_of(setup.options)
        self._watcher: Final = watcher if watcher is not None else observer  # of invariants
        self.world: Final = World(
            setup,
            engine if engine is not None else engine_of(setup.options),
            self.history,
            observer,
            is_asleep=True,
            bounds=bounds_of(setup),
        )
        self._company: Final = company
        if company is not None:
            company.board(self.world)
        self.is_cut_short = True  # then its history proves nothing about what was still to come
        calm_at = calm_of(setup)
        try:
            self._run(setup, calm_at)
            self.is_cut_short = False
        except InvariantBroken as broken:
            text = f"at {self.world.now} us: {broken.text}"
            self.violations.append(Violation(broken.invariant, text))
        except MISTAKES:
            self.violations.append(Violation(BUG, traceback.format_exc(limit=-4)))
        for node, why in self.world.halts:
            self.violations.append(Violation(HALT, f"{node} halted: {why}", (node,)))
        self.calm_us: Final = self.world.now - calm_at
        self.world.quiesce(company.submitted() if company is not None else None)

    def _run(self, setup: Setup, calm_at: int) -> None:
        world = self.world
        for processor in world.processors:
            world.boot(processor)
        world.run(calm_at)
        company = self._company
        holds = company.is_quiet if company is not None else world.is_quiet
        is_quiet = world.run_until(holds, calm_at + settle_us(setup), STRIDE_US)
        if is_quiet and company is not None:
            company.finish(calm_at)
        if is_quiet or not is_calmed(setup):
            return
        stuck = [
            f"{one.node} is {one.state} in {one.configuration}, {one.queue.backlog()} to send"
            for one in world.live()
        ]
        if company is not None:
            stuck.append(company.describe())
        text = f"not quiet {world.now - calm_at} us after the calm: {'; '.join(stuck)}"
        self.violations.append(Violation(self.rules.liveness, text))

    def judge(self) -> dict[str, evs.Status]:
        """Hold the history against the engine's promises; empty if it was cut short."""
        self.violations.extend(self.rules.table.impossible(self.world.pairs))
        if self.is_cut_short:
            return {}
        looked_back = self.rules.look_back(self._watcher) if self._watcher is not None else []
        verdicts = [one.verdict() for one in looked_back]
        verdicts += self.rules.judge(self.history).by_property.values()
        for verdict in verdicts:
            self.violations.extend(verdict.samples)
            counts = Counts(verdict.n_checked, verdict.n_unknown, verdict.n_violations)
            self.counts[verdict.property_id] = counts
        return {one.property_id: one.status for one in verdicts}

    def outcome(
        self,
        statuses: Mapping[str, evs.Status],
        seconds: float,
        happened: Mapping[str, int] = NOTHING,
    ) -> Outcome:
        """Say what the run came to."""
        world = self.world
        return Outcome(
            violations=tuple(self.violations),
            statuses=statuses,
            deliveries=world.deliveries,
            configurations=world.installs,
            datagrams=world.datagrams,
            faults=dict(world.faults),
            faults_in_change=world.faults_in_change,
            pairs=frozenset(world.pairs),
            digest=digest_of(self.history),
            calm_us=self.calm_us,
            virtual_us=world.now,
            seconds=seconds,
            happened=happened,
            counts=dict(self.counts),
        )


def digest_of(history: History) -> str:
    """Return a hash over every row of a history, the same in every process.

    What clients were told follows from it, and has a hash of its own.
    """
    state = hashlib.blake2b(digest_size=16)
    for (node, incarnation), life in history.lives.items():
        state.update(f"{node}/{incarnation} {life.ended}\n".encode())
        events = [event for event in life.events if event.etype not in GROUP_ETYPES]
        for rows in (life.sends, life.deliveries, events):
            state.update(repr(rows).encode())
    return state.hexdigest()
