"""Everything that decides a run, as data: options, fault plan and workload.

A setup and the code together determine the run; a file of it repeats a failure anywhere.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeVar

from evensong.core import engine
from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import Parameters
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.errors import BadScenario
from evensong.sim.faults import Plan, plan_from_plain, plan_to_plain
from evensong.sim.groups.acts import Act, Clients
from evensong.sim.plain import from_plain, parse_json, to_plain
from evensong.sim.workload import Burst, Workload

T = TypeVar("T")

FIELDS: Final = ("options", "plan", "workload", "clients", "acts")


@dataclass(frozen=True, slots=True)
class Weather:
    """How links behave when no fault is upon them."""

    latency_us: int = 100
    jitter_us: int = 0
    spread_us: int = 0  # links differ: each adds a constant drawn up to here
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_us: int = 2_000
    loss_by_kind: tuple[tuple[str, float], ...] = ()  # names of kinds of frames


PARAMETERS: Final = Parameters()
LANSIS: Final = LansisParameters()
TOTEM: Final = engine.TOTEM
TRANSIS: Final = engine.TRANSIS
ENGINES: Final = engine.ENGINES


@dataclass(frozen=True, slots=True)
class Options:
    """The machines and the links between them."""

    nodes: tuple[ProcessorId, ...]
    seed: int = 0
    weather: Weather = Weather()
    parameters: Parameters = PARAMETERS
    cost_us: int = 0  # what a datagram costs a processor that gets it
    send_us: int = 0  # what each copy costs one that sends it; it leaves when that is over
    visit_us: int = 0  # what a token costs, before anything is sent for it
    recv_drain_max: int = 64  # data datagrams read before a waiting token is handed over
    receive_buffer: int = 256  # datagrams that wait before the kernel drops
    skew_us_max: int = 0  # clocks start apart by up to this
    drift_ppm_max: int = 0
    engine: str = TOTEM
    lansis: LansisParameters = LANSIS  # where the engine is transis


@dataclass(frozen=True, slots=True)
class Setup:
    """One run."""

    options: Options
    plan: Plan = ()
    workload: Workload = ()
    clients: Clients | None = None  # then processors run groups, and units come from clients


# Streams of randomness; each is seeded apart, so that a draw in one does not move another.
NETWORK: Final = 1
CLOCKS: Final = 2
CORES: Final = 3
DRIVERS: Final = 4
SWARM: Final = 5
CLIENTS: Final = 6
_PRIMES: Final = (1_000_003, 8_191, 131_071)


def derive(seed: int, stream: int, node: ProcessorId = 0, life: int = 0) -> Random:
    """Return a generator of its own for a purpose, the same in every process."""
    mixed = ((seed * _PRIMES[0] + stream) * _PRIMES[1] + node) * _PRIMES[2] + life
    return Random(mixed)


def setup_to_json(setup: Setup) -> str:
    """Render a setup as a file that `setup_from_json` reads."""
    lines = ['{"options": ' + json.dumps(to_plain(setup.options)) + ","]
    lines.append('"plan": [')
    lines.append(",\n".join(json.dumps(row) for row in plan_to_plain(setup.plan)))
    lines.append('],\n"workload": [')
    lines.append(",\n".join(json.dumps(to_plain(burst)) for burst in setup.workload))
    lines.append("]")
    if setup.clients is not None:
        lines[-1] += ',\n"clients": ' + json.dumps(to_plain(replace(setup.clients, acts=())))
        lines[-1] += ',\n"acts": ['
        lines.append(",\n".join(json.dumps(to_plain(act)) for act in setup.clients.acts))
        lines.append("]")
    lines[-1] += "}"
    return "\n".join(line for line in lines if line) + "\n"


def setup_from_json(text: str) -> Setup:
    """Read a setup; what does not fit is refused with its place."""
    value = parse_json(text, "setup")
    if not isinstance(value, dict):
        raise BadScenario("setup: expected an object")
    for name in value:
        if name not in FIELDS:
            raise BadScenario(f"setup.{name}: no such field; allowed: {', '.join(FIELDS)}")
    options = from_plain(Options, value.get("options", {}), "options")
    if not options.nodes or len(set(options.nodes)) != len(options.nodes):
        raise BadScenario("options.nodes: expected different processors, at least one")
    workload = _rows(Burst, value, "workload")
    acts = _rows(Act, value, "acts")
    clients = None
    if acts or "clients" in value:
        clients = from_plain(Clients, value.get("clients", {}), "clients")
        clients = replace(clients, acts=(*clients.acts, *acts))
    return Setup(options, plan_from_plain(value.get("plan", [])), workload, clients)


def _rows(cls: type[T], value: Mapping[str, object], name: str) -> tuple[T, ...]:
    rows = value.get(name, [])
    if not isinstance(rows, list):
        raise BadScenario(f"{name}: expected a list")
    return tuple(from_plain(cls, row, f"{name}[{n}]") for n, row in enumerate(rows))
