"""The smallest setup that still fails in the same way: delta debugging over plain data.

First whole chunks of faults and of submissions are dropped, then processors, then numbers are made
smaller and probabilities zero, round after round until nothing more can go. Every candidate is run;
one that fails by the same property replaces the setup.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, final

from evensong.core.ids import ProcessorId
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.sim.faults import (
    EVERYBODY,
    Calm,
    Crash,
    CrashIn,
    Drift,
    Fault,
    Heal,
    Leave,
    Partition,
    Pause,
    Plan,
    Restart,
    Resume,
    Slow,
    When,
)
from evensong.sim.groups.acts import Act, Acts
from evensong.sim.setup import TRANSIS, Options, Setup, Weather, setup_to_json
from evensong.sim.whole import whole

T = TypeVar("T")

# Runs a setup and names the properties that do not hold.
Trial: TypeAlias = Callable[[Setup], frozenset[str]]

RUNS_MAX: Final = 2_000


@final
class Shrinker:
    """Shrinks one failing setup."""

    def __init__(self, setup: Setup, property_id: str, trial: Trial, runs_max: int) -> None:
        self.setup = setup
        self.property_id: Final = property_id
        self.runs = 0
        self._runs_max: Final = runs_max
        self._trial: Final = trial

    def shrink(self) -> Setup:
        """Return the smallest setup found."""
        while self._round():
            pass
        return self.setup

    def _round(self) -> bool:
        """Try everything once; return whether something could go."""
        before = self.setup
        self._drop_faults()
        self._drop_bursts()
        self._drop_acts()
        for candidates in (
            _fewer_nodes,
            _smaller_bursts,
            _smaller_acts,
            _simpler_faults,
            _simpler_options,
        ):
            self._take_each(candidates)
        return self.setup != before and self.runs < self._runs_max

    def _fails(self, candidate: Setup) -> bool:
        if self.runs >= self._runs_max or candidate == self.setup:
            return False
        self.runs += 1
        if self.property_id not in self._trial(candidate):
            return False
        self.setup = candidate
        return True

    def _take_each(self, candidates: Callable[[Setup], Iterator[Setup]]) -> None:
        """Try candidates; after a success go on with those of what is left."""
        while any(self._fails(candidate) for candidate in candidates(self.setup)):
            pass

    def _drop_faults(self) -> None:
        self._drop_chunks(
            lambda setup: setup.plan, lambda setup, plan: replace(setup, plan=tuple(plan))
        )

    def _drop_bursts(self) -> None:
        self._drop_chunks(
            lambda setup: setup.workload,
            lambda setup, bursts: replace(setup, workload=tuple(bursts)),
        )

    def _drop_acts(self) -> None:
        self._drop_chunks(acts_of, with_acts)

    def _drop_chunks(
        self,
        read: Callable[[Setup], Sequence[T]],
        write: Callable[[Setup, Sequence[T]], Setup],
    ) -> None:
        """Drop halves, then quarters, and so on down to single items."""
        size = len(read(self.setup))
        while size:
            start = 0
            while start < len(read(self.setup)):
                items = read(self.setup)
                rest = [*items[:start], *items[start + size :]]
                if not self._fails(write(self.setup, rest)):
                    start += size
            size //= 2


def shrink(setup: Setup, property_id: str, trial: Trial, runs_max: int = RUNS_MAX) -> Setup:
    """Return the smallest setup found that still breaks the property."""
    return Shrinker(setup, property_id, trial, runs_max).shrink()


def save(setup: Setup, path: Path) -> str:
    """Write a setup to a file and return the command that repeats it."""
    with whole(path) as partial:
        partial.write_text(setup_to_json(setup), encoding="utf-8")
    return f"evensong sim --plan {path}"


def _fewer_nodes(setup: Setup) -> Iterator[Setup]:
    """Leave a processor out, the last one first: the names of the others stay."""
    nodes = setup.options.nodes
    if len(nodes) == 1:
        return
    for gone in reversed(nodes):
        options = replace(setup.options, nodes=tuple(node for node in nodes if node != gone))
        workload = tuple(burst for burst in setup.workload if burst.node != gone)
        fewer = Setup(options, _without(setup.plan, gone), workload, setup.clients)
        yield with_acts(fewer, [act for act in acts_of(setup) if act.node != gone])


def _without(plan: Plan, gone: ProcessorId) -> Plan:
    return tuple(kept for kept in (_fault_without(fault, gone) for fault in plan) if kept)


def _fault_without(fault: Fault, gone: ProcessorId) -> Fault | None:
    if isinstance(fault, Crash | CrashIn | Restart | Leave | Pause | Resume | Slow | Drift):
        return fault if fault.node != gone else None
    if isinstance(fault, Partition):
        components = [tuple(n for n in members if n != gone) for members in fault.components]
        return replace(fault, components=tuple(members for members in components if members))
    if isinstance(fault, Calm):
        return replace(fault, stay_down=tuple(n for n in fault.stay_down if n != gone))
    if isinstance(fault, When):
        then = _fault_without(fault.then, gone)
        node = EVERYBODY if fault.node == gone else fault.node
        return replace(fault, node=node, then=then) if then else None
    if isinstance(fault, Heal):
        return fault
    return fault if gone not in (fault.source, fault.target) else None


def _smaller_bursts(setup: Setup) -> Iterator[Setup]:
    for index, burst in enumerate(setup.workload):
        smaller = []
        if burst.units > 1:
            smaller += [replace(burst, units=1), replace(burst, units=burst.units // 2)]
        if burst.body_max:
            smaller.append(replace(burst, body_max=0))
        for one in smaller:
            workload = (*setup.workload[:index], one, *setup.workload[index + 1 :])
            yield replace(setup, workload=workload)


def acts_of(setup: Setup) -> Acts:
    """Return what clients do in a setup."""
    return setup.clients.acts if setup.clients is not None else ()


def with_acts(setup: Setup, acts: Sequence[Act]) -> Setup:
    """Return a setup in which clients do this instead."""
    if setup.clients is None:
        return setup
    return replace(setup, clients=replace(setup.clients, acts=tuple(acts)))


def _smaller_acts(setup: Setup) -> Iterator[Setup]:
    acts = acts_of(setup)
    for index, act in enumerate(acts):
        smaller = []
        if len(act.groups) > 1:
            smaller += [replace(act, groups=(group,)) for group in act.groups]
        if act.count > 1:
            smaller.append(replace(act, count=1))
        if act.size:
            smaller.append(replace(act, size=0))
        if act.safe or act.discard or act.causal or act.basic:
            smaller.append(replace(act, safe=False, discard=False, causal=False, basic=False))
        for one in smaller:
            yield with_acts(setup, (*acts[:index], one, *acts[index + 1 :]))


def _simpler_faults(setup: Setup) -> Iterator[Setup]:
    for index, fault in enumerate(setup.plan):
        for simpler in _simpler(fault):
            yield replace(setup, plan=(*setup.plan[:index], simpler, *setup.plan[index + 1 :]))


def _simpler(fault: Fault) -> Iterator[Fault]:
    """Offer plainer forms of a fault: sooner certain, without its refinements."""
    if isinstance(fault, When):
        yield replace(fault.then, at_us=fault.at_us)
        if fault.after_us:
            yield replace(fault, after_us=0)
        for then in _simpler(fault.then):
            yield replace(fault, then=then)
    elif isinstance(fault, Crash | CrashIn) and fault.effects:
        yield replace(fault, effects=0)
        yield replace(fault, effects=fault.effects - 1)
    elif isinstance(fault, Calm) and fault.stay_down:
        yield replace(fault, stay_down=())


def _simpler_options(setup: Setup) -> Iterator[Setup]:
    options = setup.options
    plain = Options(options.nodes)
    for simpler in (
        replace(options, weather=plain.weather),
        *(replace(options, weather=weather) for weather in _simpler_weathers(options.weather)),
        replace(options, parameters=plain.parameters),
        replace(options, cost_us=0),
        replace(options, receive_buffer=plain.receive_buffer, recv_drain_max=plain.recv_drain_max),
        replace(options, skew_us_max=0, drift_ppm_max=0),
    ):
        yield replace(setup, options=simpler)
    if options.engine == TRANSIS:
        usual_lansis = plain.lansis._asdict()
        for name, usual in usual_lansis.items():
            lansis = LansisParameters(**{**options.lansis._asdict(), name: usual})
            yield replace(setup, options=replace(options, lansis=lansis))
        return
    default = plain.parameters._asdict()
    for name, usual in default.items():
        changed = options.parameters._asdict() | {name: usual}
        parameters = type(options.parameters)(**changed)
        yield replace(setup, options=replace(options, parameters=parameters))


def _simpler_weathers(weather: Weather) -> Iterator[Weather]:
    yield replace(weather, loss=0.0)
    yield replace(weather, duplicate=0.0)
    yield replace(weather, reorder=0.0)
    yield replace(weather, loss_by_kind=())
    yield replace(weather, jitter_us=0)
    yield replace(weather, spread_us=0)
    yield replace(weather, latency_us=Weather().latency_us)
