"""One run from its setup to its outcome: faults first, then calm, then everything must converge.

What is checked at the end comes from outside: a `Judge` reads the history. What is checked at every
step is an `Observer`. A broken invariant, and a broken promise of our own code (an assert), end the
run and are reported like a broken property: a campaign goes on, and the setup can be shrunk.
"""

import hashlib
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from evensong.errors import InvariantBroken
from evensong.sim.engines import TOTEM
from evensong.sim.faults import Calm
from evensong.sim.history import History, LifeId
from evensong.sim.setup import Setup
from evensong.sim.world import Engine, Observer, World

STRIDE_US: Final = 1_000
I15: Final = "I15"  # bounded liveness
HALT: Final = "halt"
ASSERT: Final = "assert"


class Violation(NamedTuple):
    """A property that does not hold, and what shows it."""

    property_id: str
    text: str


Judge: TypeAlias = Callable[[History, Mapping[LifeId, int]], list[Violation]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    violations: tuple[Violation, ...]
    deliveries: int
    configurations: int  # as delivered, regular and transitional, over all processors
    datagrams: int
    faults: Mapping[str, int]  # by kind, as they struck
    faults_in_change: int  # that struck while somebody was in COMMIT or RECOVERY
    pairs: frozenset[tuple[str, str]]  # (state, event)
    digest: str  # of everything observable; the same setup gives the same digest
    calm_us: int  # virtual time from the end of the faults to quiet
    virtual_us: int
    seconds: float


def run_setup(
    setup: Setup,
    engine: Engine = TOTEM,
    judge: Judge | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Run a setup and judge it."""
    started = time.perf_counter()
    history = History()
    violations: list[Violation] = []
    world = World(setup, engine, history, observer)
    calm_at = calm_of(setup)
    try:
        _run(world, setup, calm_at, violations)
    except InvariantBroken as broken:
        violations.append(Violation(broken.invariant, f"at {world.now} us: {broken.text}"))
    except AssertionError:
        violations.append(Violation(ASSERT, traceback.format_exc(limit=-4)))
    violations += [Violation(HALT, f"{node} halted: {why}") for node, why in world.halts]
    calm_us = world.now - calm_at
    world.quiesce()
    if judge is not None:
        submitted = {life: queue.origin_no for life, queue in world.submitted.items()}
        violations += judge(history, submitted)
    return Outcome(
        tuple(violations),
        world.deliveries,
        world.installs,
        world.datagrams,
        dict(world.faults),
        world.faults_in_change,
        frozenset(world.pairs),
        digest_of(history),
        calm_us,
        world.now,
        time.perf_counter() - started,
    )


def _run(world: World, setup: Setup, calm_at: int, violations: list[Violation]) -> None:
    world.run(calm_at)
    limit = calm_at + settle_us(setup)
    if not world.run_until(world.is_quiet, limit, STRIDE_US) and is_calmed(setup):
        violations.append(Violation(I15, f"not quiet {world.now - calm_at} us after the calm:"))
        violations += [
            Violation(
                I15,
                f"{one.node} is {one.state} in {one.configuration}, {one.queue.backlog()} to send",
            )
            for one in world.live()
        ]


def is_calmed(setup: Setup) -> bool:
    """Whether the plan ends the faults, so that everything must converge."""
    return not setup.plan or any(isinstance(fault, Calm) for fault in setup.plan)


def calm_of(setup: Setup) -> int:
    """Return when the last fault has struck and the last burst was submitted."""
    return max([item.at_us for item in (*setup.plan, *setup.workload)], default=0)


def settle_us(setup: Setup) -> int:
    """Return the time within which a calm world must be quiet (I15).

    A processor that was missed often is left alone for up to 16 * (1 + U) beacons; then a ring must
    be agreed on, formed in spite of failed attempts, and what waits must be sent.
    """
    options = setup.options
    parameters = options.parameters
    n = len(options.nodes)
    rotation = n * (options.weather.latency_us + options.weather.jitter_us + parameters.packet_time)
    units = sum(burst.units for burst in setup.workload)
    form = parameters.consensus + parameters.form_retry_limit * parameters.token_loss
    bound = (
        2 * 16 * parameters.beacon
        + parameters.token_loss
        + (n + 1) * form
        + (units // parameters.messages_max + 2 * parameters.idle_rotations) * rotation
    )
    return bound + bound * 2 * options.drift_ppm_max // 1_000_000


def digest_of(history: History) -> str:
    """Return a hash over every row of a history, the same in every process."""
    state = hashlib.blake2b(digest_size=16)
    for (node, incarnation), life in history.lives.items():
        state.update(f"{node}/{incarnation} {life.ended}\n".encode())
        for rows in (life.sends, life.deliveries, life.events):
            state.update(repr(rows).encode())
    return state.hexdigest()
