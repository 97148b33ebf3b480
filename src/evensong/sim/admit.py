"""What a setup from a file must be to be run: every processor, frame and number in it exists.

`plain.py` has seen to names and types; a plan that names a processor outside the run would read
well and strike nothing. One that lasts for years, or whose links are slower than the token's
timeout, would be run and come to nothing: the bounds here keep every run finite and its promises
such that they can be kept.
"""

import re
from collections.abc import Iterable
from typing import Final

from evensong.core.groups.events import is_group_name
from evensong.core.groups.limits import GROUPS_MAX, MESSAGE_MAX, PAYLOAD_LEAST, PAYLOAD_MOST
from evensong.core.ids import ProcessorId
from evensong.core.totem.states import State
from evensong.core.totem.wire import KIND_NAMES
from evensong.core.transis.frames import KIND_NAMES as LANSIS_KIND_NAMES
from evensong.core.transis.states import State as LansisState
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
from evensong.sim.groups.acts import ASK, KINDS, PRIVATE, SEATS, SEND, Act, Clients
from evensong.sim.limits import calm_of, settle_us
from evensong.sim.plain import fields_of
from evensong.sim.setup import ENGINES, TOTEM, TRANSIS, Options, Setup
from evensong.sim.workload import BODY_MAX

STATES: Final = {
    TOTEM: tuple(state.value for state in State),
    TRANSIS: tuple(state.value for state in LansisState),
}
FRAMES: Final = {
    TOTEM: tuple(KIND_NAMES.values()),
    TRANSIS: tuple(LANSIS_KIND_NAMES.values()),
}
PPM_MAX: Final = 500_000
RUN_US_MAX: Final = 3_600_000_000  # an hour of virtual time, from the start to the last deadline
SKEW_US_MAX: Final = 2**40
COUNT_MAX: Final = 2**31  # of datagrams, effects and the like
UNITS_MAX: Final = 1_000_000  # of all bursts together
SIZE_MAX: Final = 1_000_000  # bytes of a client's message
PACKED_MAX: Final = 4  # messages in one frame of a client
PACKED_SIZE_MAX: Final = 12_000  # bytes of each, so that they fit a frame
SEAT: Final = re.compile(f"{PRIVATE}[0-9]{{1,9}}[.][0-9]")
SEED_MAX: Final = 2**63  # as on the command line


def check(setup: Setup) -> None:
    """Refuse what reads well and cannot be run, with its place."""
    _check_options(setup.options)
    for number, burst in enumerate(setup.workload):
        place = f"workload[{number}]"
        _check_nodes(setup, (burst.node,), place)
        _check_within(burst.at_us, 0, RUN_US_MAX, f"{place}.at_us")
        _check_within(burst.units, 0, UNITS_MAX, f"{place}.units")
        _check_within(burst.body_max, 0, BODY_MAX, f"{place}.body_max")
        _check_probability(burst.safe, f"{place}.safe")
        _check_probability(burst.causal, f"{place}.causal")
        _check_probability(burst.basic, f"{place}.basic")
        if setup.options.engine == TOTEM and (burst.causal or burst.basic):
            raise BadScenario(f"{place}: a ring orders everything: no causal, no basic")
    units = sum(burst.units for burst in setup.workload)
    _check_within(units, 0, UNITS_MAX, "workload: units of all bursts")
    if setup.clients is not None:
        _check_clients(setup, setup.clients)
    for number, fault in enumerate(setup.plan):
        _check_fault(setup, fault, f"plan[{number}]")
    if calm_of(setup) + settle_us(setup) > RUN_US_MAX:
        raise BadScenario(
            f"setup: a run with these times, parameters and units may take "
            f"{calm_of(setup) + settle_us(setup)} us until it is quiet; expected at most "
            f"{RUN_US_MAX} us"
        )


def _check_clients(setup: Setup, clients: Clients) -> None:
    _check_within(clients.payload_max, PAYLOAD_LEAST, PAYLOAD_MOST, "clients.payload_max")
    _check_within(clients.chunk_bytes, 1, MESSAGE_MAX, "clients.chunk_bytes")
    _check_within(clients.pause_us, 1, RUN_US_MAX, "clients.pause_us")
    for number, act in enumerate(clients.acts):
        place = f"acts[{number}]"
        _check_nodes(setup, (act.node,), place)
        _check_within(act.at_us, 0, RUN_US_MAX, f"{place}.at_us")
        _check_within(act.seat, 0, SEATS - 1, f"{place}.seat")
        _check_within(act.size, 0, SIZE_MAX, f"{place}.size")
        _check_within(act.count, 1, PACKED_MAX, f"{place}.count")
        if act.safe + act.causal + act.basic > 1:
            raise BadScenario(f"{place}: a message is one of safe, causal and basic, or none")
        if act.kind not in KINDS:
            raise BadScenario(f"{place}.kind: {act.kind!r} is none of {', '.join(KINDS)}")
        if act.count > 1 and act.size > PACKED_SIZE_MAX:
            raise BadScenario(f"{place}: several messages of {act.size} bytes do not fit a frame")
        _check_groups(act, place)
    if setup.workload:
        raise BadScenario("workload: where clients act, units come from them alone")
    _check_within(len(clients.acts), 0, UNITS_MAX, "acts: their number")


def _check_groups(act: Act, place: str) -> None:
    """Only messages have private names for a destination, and only they have several."""
    for name in act.groups:
        if not is_group_name(name):
            raise BadScenario(f"{place}.groups: {name!r} is no name of a group")
        is_seat = act.kind in (SEND, ASK) and SEAT.fullmatch(name)
        if name.startswith(PRIVATE) and not is_seat:
            raise BadScenario(f"{place}.groups: {name!r} is no seat such as @2.1")
    if act.kind in (SEND, ASK) and not 0 < len(act.groups) <= GROUPS_MAX:
        raise BadScenario(f"{place}.groups: expected 1 to {GROUPS_MAX}")


def _check_options(options: Options) -> None:
    if options.engine not in ENGINES:
        raise BadScenario(f"options.engine: {options.engine!r} is none of {', '.join(ENGINES)}")
    is_ring = options.engine == TOTEM
    (options.parameters if is_ring else options.lansis).check(len(options.nodes))
    for node in options.nodes:
        _check_within(node, 1, 2**32 - 1, "options.nodes: a processor id")
    for value, lowest, highest, name in (
        (options.seed, 0, SEED_MAX, "seed"),
        (options.cost_us, 0, RUN_US_MAX, "cost_us"),
        (options.send_us, 0, RUN_US_MAX, "send_us"),
        (options.visit_us, 0, RUN_US_MAX, "visit_us"),
        (options.recv_drain_max, 1, COUNT_MAX, "recv_drain_max"),
        (options.receive_buffer, 1, COUNT_MAX, "receive_buffer"),
        (options.skew_us_max, 0, SKEW_US_MAX, "skew_us_max"),
        (options.drift_ppm_max, 0, PPM_MAX, "drift_ppm_max"),
    ):
        _check_within(value, lowest, highest, f"options.{name}")
    weather = options.weather
    for name in ("loss", "duplicate", "reorder"):
        _check_probability(getattr(weather, name), f"options.weather.{name}")
    for name in ("latency_us", "jitter_us", "spread_us", "reorder_us"):
        _check_within(getattr(weather, name), 0, RUN_US_MAX, f"options.weather.{name}")
    for name, frame_loss in weather.loss_by_kind:
        _check_frame(options, name, "options.weather.loss_by_kind")
        _check_probability(frame_loss, "options.weather.loss_by_kind")
    # What a hop takes, with jitter and spread at their means; without a timely token no ring stays.
    hop_us = weather.latency_us + (weather.jitter_us + weather.spread_us) // 2 + options.cost_us
    hop_us += options.send_us + options.visit_us
    rotation_us = len(options.nodes) * hop_us
    if is_ring and len(options.nodes) > 1 and rotation_us > options.parameters.token_loss:
        raise BadScenario(
            f"options: a rotation of the token takes {rotation_us} us by "
            f"latency_us, jitter_us, spread_us and cost_us, longer than token_loss, "
            f"{options.parameters.token_loss} us"
        )


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
    states = STATES[setup.options.engine]
    if isinstance(fault, CrashIn | When) and fault.state not in states:
        raise BadScenario(f"{place}.state: {fault.state!r} is none of {', '.join(states)}")
    if isinstance(fault, DropNext | DelayNext):
        _check_frame(setup.options, fault.frame, f"{place}.frame")
    if isinstance(fault, Lossy | Duplicate | Reorder):
        _check_probability(fault.probability, f"{place}.probability")
    for name in fields_of(type(fault)):
        part = getattr(fault, name)
        if name == "ppm":
            _check_within(part, -PPM_MAX, PPM_MAX, f"{place}.ppm")
        elif name.endswith("_us"):
            _check_within(part, 0, RUN_US_MAX, f"{place}.{name}")
        elif name in ("effects", "times"):
            _check_within(part, 0, COUNT_MAX, f"{place}.{name}")


def _check_within(value: int, lowest: int, highest: int, place: str) -> None:
    if not lowest <= value <= highest:
        raise BadScenario(f"{place}: {value} is not within {lowest} to {highest}")


def _check_nodes(
    setup: Setup, nodes: Iterable[ProcessorId], place: str, *others: ProcessorId
) -> None:
    for node in nodes:
        if node not in (*setup.options.nodes, *others):
            raise BadScenario(f"{place}: {node} is none of the processors in options.nodes")


def _check_frame(options: Options, name: str, place: str) -> None:
    frames = FRAMES[options.engine]
    if name not in frames:
        raise BadScenario(f"{place}: {name!r} is none of {', '.join(frames)}")


def _check_probability(probability: float, place: str) -> None:
    if not 0 <= probability <= 1:
        raise BadScenario(f"{place}: {probability} is no probability")
