"""What a setup from a file must be to be run: every processor, frame and number in it exists.

`plain.py` has seen to names and types; a plan that names a processor outside the run would read
well and strike nothing.
"""

from collections.abc import Iterable
from typing import Final

from evensong.core.ids import ProcessorId
from evensong.core.totem.states import State
from evensong.core.totem.wire import KIND_NAMES
from evensong.errors import BadScenario
from evensong.sim.faults import (
    EVERYBODY,
    Calm,
    Crash,
    CrashIn,
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
    When,
)
from evensong.sim.plain import fields_of
from evensong.sim.setup import Setup
from evensong.sim.workload import BODY_MAX

STATES: Final = tuple(state.value for state in State)
PPM_MAX: Final = 500_000


def check(setup: Setup) -> None:
    """Refuse what reads well and cannot be run, with its place."""
    options = setup.options
    options.parameters.check(len(options.nodes))
    for node in options.nodes:
        if not 1 <= node < 2**32:
            raise BadScenario(f"options.nodes: {node} is no processor id")
    if min(options.cost_us, options.skew_us_max, options.drift_ppm_max, options.seed) < 0:
        raise BadScenario("options: expected no negative numbers")
    if min(options.recv_drain_max, options.receive_buffer) < 1 or options.drift_ppm_max > PPM_MAX:
        raise BadScenario("options: expected room for a datagram, drift_ppm_max up to 500000")
    weather = options.weather
    for probability in (weather.loss, weather.duplicate, weather.reorder):
        _check_probability(probability, "options.weather")
    if min(weather.latency_us, weather.jitter_us, weather.spread_us, weather.reorder_us) < 0:
        raise BadScenario("options.weather: expected no negative times")
    for name, frame_loss in weather.loss_by_kind:
        _check_frame(name, "options.weather.loss_by_kind")
        _check_probability(frame_loss, "options.weather.loss_by_kind")
    for number, burst in enumerate(setup.workload):
        place = f"workload[{number}]"
        _check_nodes(setup, (burst.node,), place)
        if min(burst.at_us, burst.units, burst.body_max) < 0 or burst.body_max > BODY_MAX:
            raise BadScenario(f"{place}: expected no negative numbers, body_max up to {BODY_MAX}")
    for number, fault in enumerate(setup.plan):
        _check_fault(setup, fault, f"plan[{number}]")


def _check_fault(setup: Setup, fault: Fault, place: str) -> None:
    if isinstance(fault, When):
        _check_nodes(setup, (fault.node,), place, EVERYBODY)
        _check_fault(setup, fault.then, f"{place}.then")
    elif isinstance(fault, Partition):
        _check_nodes(setup, [node for part in fault.components for node in part], place)
    elif isinstance(fault, Calm):
        _check_nodes(setup, fault.stay_down, place)
    elif isinstance(fault, Crash | CrashIn | Restart | Leave | Pause | Resume | Slow | Drift):
        _check_nodes(setup, (fault.node,), place)
    elif not isinstance(fault, Heal):
        _check_nodes(setup, (fault.source, fault.target), place, EVERYBODY)
    if isinstance(fault, CrashIn | When) and fault.state not in STATES:
        raise BadScenario(f"{place}.state: {fault.state!r} is none of {', '.join(STATES)}")
    if isinstance(fault, DropNext | DelayNext):
        _check_frame(fault.frame, f"{place}.frame")
    if isinstance(fault, Lossy | Duplicate | Reorder):
        _check_probability(fault.probability, f"{place}.probability")
    for name in fields_of(type(fault)):
        part = getattr(fault, name)
        if isinstance(part, int) and part < 0 and name != "ppm":
            raise BadScenario(f"{place}.{name}: expected no negative number")
    if isinstance(fault, Drift) and abs(fault.ppm) > PPM_MAX:
        raise BadScenario(f"{place}.ppm: expected {-PPM_MAX} to {PPM_MAX}")


def _check_nodes(
    setup: Setup, nodes: Iterable[ProcessorId], place: str, *others: ProcessorId
) -> None:
    for node in nodes:
        if node not in (*setup.options.nodes, *others):
            raise BadScenario(f"{place}: {node} is none of the processors in options.nodes")


def _check_frame(name: str, place: str) -> None:
    if name not in KIND_NAMES.values():
        raise BadScenario(f"{place}: {name!r} is none of {', '.join(KIND_NAMES.values())}")


def _check_probability(probability: float, place: str) -> None:
    if not 0 <= probability <= 1:
        raise BadScenario(f"{place}: {probability} is no probability")
