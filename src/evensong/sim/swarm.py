"""A seed decides a run: machines, weather, faults and workload, every probability drawn.

Many probabilities are drawn as zero and many kinds of faults are left out of a run, so that runs
differ in kind and not only in detail. Faults come first; then a calm, in which everything must
converge.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import Parameters, datagram_least
from evensong.sim.faults import (
    EVERYBODY,
    Calm,
    Clog,
    Crash,
    CrashIn,
    Cut,
    DelayNext,
    Drift,
    DropNext,
    Duplicate,
    Fault,
    Heal,
    Leave,
    Lossy,
    Partition,
    Pause,
    Reorder,
    Restart,
    Resume,
    Slow,
    Unclog,
    When,
)
from evensong.sim.run import Outcome, run_setup
from evensong.sim.setup import SWARM, Options, Setup, Weather, derive
from evensong.sim.workload import BODY_MAX, Burst

MS: Final = 1_000
NODES_MIN: Final = 2
NODES_MAX: Final = 9
FRAMES: Final = ("token", "regular", "join", "commit", "beacon", "hold_cancel", "leave")


class Vocabulary(NamedTuple):
    """The names of an engine's states and frames that faults speak of."""

    changing: tuple[str, ...]  # states in which a change is under way
    frames: tuple[str, ...]
    echoes: tuple[str, ...]  # what comes late
    wake: str  # what is said when something is to be sent again after a while


RING: Final = Vocabulary(
    ("gather", "commit", "commit", "recovery", "recovery"),
    FRAMES,
    ("token", "regular", "beacon", "beacon", "beacon", "hold_cancel", "join"),
    "hold_cancel",
)


def run(seed: int, nodes: int | None = None, messages: int | None = None) -> Outcome:
    """Run what a seed decides, with every check."""
    return run_setup(swarm(seed, nodes, messages))


def swarm(seed: int, nodes: int | None = None, messages: int | None = None) -> Setup:
    """Draw a run from a seed."""
    rng = derive(seed, SWARM)
    count = nodes if nodes is not None else rng.randint(NODES_MIN, NODES_MAX)
    ids = tuple(range(1, count + 1))
    calm_at = rng.randint(250, 500) * MS
    options = Options(
        nodes=ids,
        seed=seed,
        weather=draw_weather(rng, FRAMES),
        parameters=_parameters(rng, count),
        cost_us=rng.choice((0, 0, 0, 0, 5, 20)),
        recv_drain_max=rng.choice((64, 64, 4)),
        receive_buffer=rng.choice((256, 256, 40)),
        skew_us_max=rng.choice((0, 1_000 * MS)),
        drift_ppm_max=rng.choice((0, 0, 200, 20_000)),
    )
    turns = [rng.randrange(calm_at) for _ in range(rng.choice((0, 0, 3, 6)))]
    faults = Faults(rng, ids, calm_at, turns, RING).draw()
    total = messages if messages is not None else rng.randint(250, 550)
    return Setup(options, faults, draw_workload(rng, ids, calm_at, turns, total))


def _sometimes(rng: Random, chance: float, highest: float) -> float:
    """Draw a probability that is zero more often than not."""
    return round(rng.uniform(0, highest), 4) if rng.random() < chance else 0.0


def draw_weather(rng: Random, frames: tuple[str, ...]) -> Weather:
    """Draw how links behave."""
    by_kind = []
    if rng.random() < 0.2:
        by_kind = [(rng.choice(frames), _sometimes(rng, 1, 0.3))]
    return Weather(
        latency_us=rng.choice((20, 50, 100, 200)),
        jitter_us=rng.choice((0, 10, 50, 200)),
        spread_us=rng.choice((0, 0, 100)),
        loss=_sometimes(rng, 0.4, 0.2),
        duplicate=_sometimes(rng, 0.3, 0.2),
        reorder=_sometimes(rng, 0.3, 0.1),
        reorder_us=rng.choice((300, 2_000, 5_000)),
        loss_by_kind=tuple(by_kind),
    )


def _parameters(rng: Random, count: int) -> Parameters:
    window_size = rng.choice((50, 50, 20, 8))
    usual = Parameters.for_ring(count)
    small = max(150, datagram_least(count))  # sends commit tokens in parts
    parameters = usual._replace(
        beacon=usual.beacon // rng.choice((1, 1, 5)),
        window_size=window_size,
        messages_max=min(window_size, max(5, -(-13 * window_size // (10 * count)))),
        receive_horizon=rng.choice((1_000, 1_000, 64)),
        rtr_max=rng.choice((32, 32, 2)),
        miss_count=rng.choice((1, 1, 2)),
        ceiling_stride=rng.choice((1_024, 16, 4, 4)),
        datagram_max=rng.choice((1_400, 1_400, small)),
    )
    parameters.check(count)
    return parameters


class Faults:
    """Draws a plan of faults that end in a calm."""

    def __init__(
        self,
        rng: Random,
        ids: tuple[ProcessorId, ...],
        calm_at: int,
        turns: list[int],
        words: Vocabulary,
    ) -> None:
        self.rng = rng
        self.ids = ids
        self.calm_at = calm_at
        self.turns = turns  # when idle rings wake
        self.words = words

    def draw(self) -> tuple[Fault, ...]:
        """Draw the plan."""
        rng = self.rng
        makers = [maker for maker in self._makers() if rng.random() < 0.45] or [self._crash]
        faults: list[Fault] = []
        for _ in range(rng.randint(5, 15)):
            at = rng.randrange(self.calm_at)
            faults += rng.choice(makers)(at)
        stay_down = tuple(rng.sample(self.ids, 1)) if rng.random() < 0.25 else ()
        faults.append(Calm(self.calm_at, stay_down))
        faults.sort(key=lambda fault: fault.at_us)
        return tuple(fault for fault in faults if fault.at_us <= self.calm_at)

    def _makers(self) -> list[Callable[[int], list[Fault]]]:
        return [
            self._crash,
            self._crash_torn,
            self._crash_in,
            self._crash_in,
            self._leave,
            self._pause,
            self._pause,
            self._slow,
            self._drift,
            self._cut,
            self._partition,
            self._partition,
            self._clog,
            self._lossy,
            self._duplicate,
            self._reorder,
            self._drop_next,
            self._delay_next,
            self._wake,
        ]

    def _node(self) -> ProcessorId:
        return self.rng.choice(self.ids)

    def _link(self) -> tuple[ProcessorId, ProcessorId]:
        if len(self.ids) == 1:
            return self.ids[0], EVERYBODY
        source, target = self.rng.sample(self.ids, 2)
        drawn = self.rng.random()
        if drawn < 0.2:
            return source, EVERYBODY
        if drawn < 0.4:
            return EVERYBODY, target
        return source, target

    def _while(self) -> int:
        return self.rng.choice((2, 8, 20, 60, 120)) * MS

    def _later(self, at: int) -> int:
        return at + self._while() + self.rng.randrange(10 * MS)

    def _perhaps_waiting(self, fault: Fault) -> Fault:
        """Let some faults wait for a ring that forms."""
        rng = self.rng
        if rng.random() < 0.5:
            return fault
        node = rng.choice((EVERYBODY, self._node()))
        after_us = rng.choice((0, 0, rng.randrange(1_500)))
        return When(fault.at_us, node, rng.choice(self.words.changing), fault, after_us)

    def _crash(self, at: int) -> list[Fault]:
        node = self._node()
        crash = self._perhaps_waiting(Crash(at, node, self.rng.choice((0, 0, 1, 2, 5, 12))))
        return [crash, *self._perhaps_restart(at, node)]

    def _crash_torn(self, at: int) -> list[Fault]:
        node = self._node()
        again_at = self._later(at)
        if self.rng.random() < 0.5:
            torn: list[Fault] = [Crash(at, node), Restart(again_at, node, torn=True)]
        else:
            torn = [Crash(at, node, torn=True)]
        return [*torn, *self._perhaps_restart(again_at, node)]

    def _crash_in(self, at: int) -> list[Fault]:
        node = self._node()
        state = self.rng.choice(self.words.changing)
        effects = self.rng.choice((0, 1, 2, 3, 5, 8, 13, 30))
        return [CrashIn(at, node, state, effects), *self._perhaps_restart(at, node)]

    def _perhaps_restart(self, at: int, node: ProcessorId) -> list[Fault]:
        if self.rng.random() < 0.25:
            return []
        return [Restart(self._later(at), node)]

    def _leave(self, at: int) -> list[Fault]:
        node = self._node()
        return [self._perhaps_waiting(Leave(at, node)), *self._perhaps_restart(at, node)]

    def _pause(self, at: int) -> list[Fault]:
        node = self._node()
        if self.rng.random() < 0.6:
            return [self._perhaps_waiting(Pause(at, node)), Resume(self._later(at), node)]
        return [self._perhaps_waiting(Pause(at, node, self._while()))]

    def _slow(self, at: int) -> list[Fault]:
        node = self._node()
        cost_us = self.rng.choice((20, 100, 400, 1_500))
        return [Slow(at, node, cost_us), Slow(self._later(at), node, 0)]

    def _drift(self, at: int) -> list[Fault]:
        return [Drift(at, self._node(), self.rng.randint(-50_000, 50_000))]

    def _perhaps_heal(self, at: int) -> list[Fault]:
        return [Heal(self._later(at))] if self.rng.random() < 0.7 else []

    def _cut(self, at: int) -> list[Fault]:
        return [self._perhaps_waiting(Cut(at, *self._link())), *self._perhaps_heal(at)]

    def _partition(self, at: int) -> list[Fault]:
        rng = self.rng
        parts = rng.choice((2, 2, 2, 3))
        components: list[list[ProcessorId]] = [[] for _ in range(parts)]
        for node in self.ids:
            rng.choice(components).append(node)
        shown = tuple(tuple(members) for members in components if members)
        return [self._perhaps_waiting(Partition(at, shown)), *self._perhaps_heal(at)]

    def _clog(self, at: int) -> list[Fault]:
        link = self._link()
        if self.rng.random() < 0.7:
            return [self._perhaps_waiting(Clog(at, *link)), Unclog(self._later(at), *link)]
        return [self._perhaps_waiting(Clog(at, *link, self._while()))]

    def _lossy(self, at: int) -> list[Fault]:
        probability = self.rng.choice((0.05, 0.2, 0.5, 1.0))
        return [self._perhaps_waiting(Lossy(at, *self._link(), probability, self._while()))]

    def _duplicate(self, at: int) -> list[Fault]:
        return [Duplicate(at, *self._link(), self.rng.choice((0.1, 0.5)), self._while())]

    def _reorder(self, at: int) -> list[Fault]:
        rng = self.rng
        delay_us = rng.choice((500, 4_000, 20_000))
        return [Reorder(at, *self._link(), rng.choice((0.1, 0.4)), delay_us, self._while())]

    def _drop_next(self, at: int) -> list[Fault]:
        frame = self.rng.choice(self.words.frames)
        drop = DropNext(at, frame, *self._link(), self.rng.choice((1, 1, 2, 6)))
        return [self._perhaps_waiting(drop)]

    def _delay_next(self, at: int) -> list[Fault]:
        """Bring back what a ring said while another forms; mostly see to it that one does."""
        rng = self.rng
        link = rng.choice((self._link(), (EVERYBODY, EVERYBODY)))
        delay_us = rng.choice((1, 2, 3, 10, 30)) * MS + rng.randrange(MS)
        echo = DelayNext(
            at, rng.choice(self.words.echoes), *link, delay_us, rng.choice((4, 12, 40))
        )
        if rng.random() < 0.3:
            return [echo]
        return [echo, *self._depart(at + rng.randrange(4 * MS))]

    def _wake(self, at: int) -> list[Fault]:
        """Let a ring wake and break at once: the next one hears of the waking."""
        rng = self.rng
        turn = rng.choice(self.turns) if self.turns else at
        frame, delay_us = rng.choice(
            (
                (self.words.wake, rng.randrange(200, 3 * MS)),
                ("regular", rng.randrange(3 * MS, 12 * MS)),
            )
        )
        echo = DelayNext(max(0, turn - MS), frame, EVERYBODY, EVERYBODY, delay_us, 12)
        return [echo, *self._depart(turn + rng.randrange(1_500))]

    def _depart(self, at: int) -> list[Fault]:
        node = self._node()
        return [Leave(at, node), *self._perhaps_restart(at, node)]


def draw_workload(
    rng: Random, ids: tuple[ProcessorId, ...], calm_at: int, turns: list[int], total: int
) -> tuple[Burst, ...]:
    """Draw who speaks how: all the time or by turns, in bursts or singly, or not at all.

    A little of it comes after the calm. Between turns rings idle: tokens rest, beacons are sent.
    """
    safe = rng.choice((0.0, 0.1, 0.5, 1.0))
    body_max = rng.choice((16, 200, BODY_MAX))
    speakers = [node for node in ids if rng.random() < 0.8] or list(ids)
    end = calm_at + 10 * MS
    bursts = []
    left = total
    while left > 0:
        units = min(left, rng.choice((1, 1, 2, 3, 5, 20)))
        at = rng.randrange(end)
        if turns:
            at = rng.choice(turns) + rng.choice((0, at % (10 * MS)))
        bursts.append(Burst(at, rng.choice(speakers), units, body_max, safe))
        left -= units
    return tuple(sorted(bursts, key=lambda burst: (burst.at_us, burst.node)))
