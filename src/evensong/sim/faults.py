"""A fault plan is data: what goes wrong, when and to whom.

Each fault is a frozen dataclass with `at_us`, the virtual time at which it strikes, and a `kind`
that names it in JSON files and in counts. Node 0 stands for every processor where a link is named.
"""

import json
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, get_args

from evensong.core.ids import ProcessorId
from evensong.errors import BadScenario
from evensong.sim.plain import fields_of, from_plain, parse_json, to_plain

EVERYBODY: Final[ProcessorId] = 0


@dataclass(frozen=True, slots=True)
class Crash:
    """The processor stops, after so many further effects; its stable store stays.

    `torn` waits for its next write of the stable record instead and strikes in the middle of it.
    """

    kind: ClassVar[str] = "crash"
    at_us: int
    node: ProcessorId
    effects: int = 0
    torn: bool = False


@dataclass(frozen=True, slots=True)
class CrashIn:
    """The processor stops when it is next in `state`, so many effects after it got there."""

    kind: ClassVar[str] = "crash_in"
    at_us: int
    node: ProcessorId
    state: str
    effects: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """A processor that crashed or left starts again with what its stable store holds.

    `torn` crashes it again in the middle of its first write, before it has done anything else.
    """

    kind: ClassVar[str] = "restart"
    at_us: int
    node: ProcessorId
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """The processor departs in good order."""

    kind: ClassVar[str] = "leave"
    at_us: int
    node: ProcessorId


@dataclass(frozen=True, slots=True)
class Pause:
    """The processor is suspended; its receive buffer fills. `for_us` 0 lasts until resumed."""

    kind: ClassVar[str] = "pause"
    at_us: int
    node: ProcessorId
    for_us: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """A suspended processor goes on."""

    kind: ClassVar[str] = "resume"
    at_us: int
    node: ProcessorId


@dataclass(frozen=True, slots=True)
class Slow:
    """Every datagram costs the processor so much time; 0 makes it fast again."""

    kind: ClassVar[str] = "slow"
    at_us: int
    node: ProcessorId
    cost_us: int


@dataclass(frozen=True, slots=True)
class Drift:
    """The processor's clock runs faster (or slower) by so many parts in a million."""

    kind: ClassVar[str] = "drift"
    at_us: int
    node: ProcessorId
    ppm: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing passes from source to target; the other direction is untouched."""

    kind: ClassVar[str] = "cut"
    at_us: int
    source: ProcessorId
    target: ProcessorId


@dataclass(frozen=True, slots=True)
class Partition:
    """Only processors of one component hear each other; unnamed ones form one more."""

    kind: ClassVar[str] = "partition"
    at_us: int
    components: tuple[tuple[ProcessorId, ...], ...]


@dataclass(frozen=True, slots=True)
class Heal:
    """Cuts, partitions and clogs end."""

    kind: ClassVar[str] = "heal"
    at_us: int


@dataclass(frozen=True, slots=True)
class Clog:
    """What goes from source to target waits, then arrives in a burst. 0 lasts until unclogged."""

    kind: ClassVar[str] = "clog"
    at_us: int
    source: ProcessorId
    target: ProcessorId
    for_us: int = 0


@dataclass(frozen=True, slots=True)
class Unclog:
    """A clogged link lets everything through."""

    kind: ClassVar[str] = "unclog"
    at_us: int
    source: ProcessorId
    target: ProcessorId


@dataclass(frozen=True, slots=True)
class Lossy:
    """Links lose datagrams with this probability; for ever if `for_us` is 0."""

    kind: ClassVar[str] = "lossy"
    at_us: int
    source: ProcessorId
    target: ProcessorId
    probability: float
    for_us: int = 0


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Links carry a datagram twice with this probability."""

    kind: ClassVar[str] = "duplicate"
    at_us: int
    source: ProcessorId
    target: ProcessorId
    probability: float
    for_us: int = 0


@dataclass(frozen=True, slots=True)
class Reorder:
    """Links hold a datagram back with this probability, by up to `delay_us`."""

    kind: ClassVar[str] = "reorder"
    at_us: int
    source: ProcessorId
    target: ProcessorId
    probability: float
    delay_us: int
    for_us: int = 0


@dataclass(frozen=True, slots=True)
class DropNext:
    """The next so many datagrams of a kind on a link are lost."""

    kind: ClassVar[str] = "drop_next"
    at_us: int
    frame: str
    source: ProcessorId
    target: ProcessorId
    times: int = 1


@dataclass(frozen=True, slots=True)
class DelayNext:
    """The next so many datagrams of a kind on a link come late: echoes of what was."""

    kind: ClassVar[str] = "delay_next"
    at_us: int
    frame: str
    source: ProcessorId
    target: ProcessorId
    delay_us: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Calm:
    """The faults are over: links are perfect, and all processors run but those that stay down."""

    kind: ClassVar[str] = "calm"
    at_us: int
    stay_down: tuple[ProcessorId, ...] = ()


@dataclass(frozen=True, slots=True)
class When:
    """A fault waits until a processor (0: any) enters a state, and strikes `after_us` later.

    Chance alone seldom hits the short while in which a ring forms.
    """

    kind: ClassVar[str] = "when"
    at_us: int
    node: ProcessorId
    state: str
    then: "Fault"
    after_us: int = 0


Fault: TypeAlias = (
    Crash
    | CrashIn
    | Restart
    | Leave
    | Pause
    | Resume
    | Slow
    | Drift
    | Cut
    | Partition
    | Heal
    | Clog
    | Unclog
    | Lossy
    | Duplicate
    | Reorder
    | DropNext
    | DelayNext
    | Calm
    | When
)
Plan: TypeAlias = tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A fault that lasts a while is over; the world makes these itself."""

    fault: Fault


_BY_KIND: Final[dict[str, type[Fault]]] = {cls.kind: cls for cls in get_args(Fault)}
FAULT_KINDS: Final = tuple(_BY_KIND)
CRASH_TORN: Final = "crash_torn"  # a crash in the middle of a write, in counts
REPAIRS: Final = (Restart.kind, Resume.kind, Heal.kind, Unclog.kind, Calm.kind)


def plan_to_plain(plan: Plan) -> list[object]:
    """Turn a plan into what `json.dumps` takes."""
    return [_fault_to_plain(fault) for fault in plan]


def _fault_to_plain(fault: Fault) -> dict[str, object]:
    row: dict[str, object] = {"kind": fault.kind}
    for name in fields_of(type(fault)):
        part = getattr(fault, name)
        row[name] = _fault_to_plain(part) if name == "then" else to_plain(part)
    return row


def plan_from_plain(value: object, place: str = "plan") -> Plan:
    """Read a plan back; what does not fit is refused with its place."""
    if not isinstance(value, list):
        raise BadScenario(f"{place}: expected a list")
    return tuple(_fault_from_plain(row, f"{place}[{index}]") for index, row in enumerate(value))


def _fault_from_plain(row: object, place: str) -> Fault:
    if not isinstance(row, dict):
        raise BadScenario(f"{place}: expected an object")
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in _BY_KIND:
        raise BadScenario(f"{place}.kind: {kind!r} is none of {', '.join(FAULT_KINDS)}")
    fields = {name: part for name, part in row.items() if name != "kind"}
    cls = _BY_KIND[kind]
    given: dict[str, object] = {}
    if cls is When:
        given["then"] = _fault_from_plain(fields.pop("then", None), f"{place}.then")
    fault = from_plain(cls, fields, place, given)
    if fault.at_us < 0:
        raise BadScenario(f"{place}.at_us: before the run begins")
    return fault


def plan_to_json(plan: Plan) -> str:
    """Render a plan as JSON, one fault a line."""
    rows = (json.dumps(row) for row in plan_to_plain(plan))
    return "[\n" + ",\n".join(rows) + "\n]\n"


def plan_from_json(text: str) -> Plan:
    """Read a plan from JSON."""
    return plan_from_plain(parse_json(text, "plan"))


def describe(fault: Fault) -> str:
    """Say a fault in one line: `12.500ms crash node=3 effects=2`."""
    return f"{fault.at_us / 1000:.3f}ms {_said(fault)}"


def _said(fault: Fault) -> str:
    words = [fault.kind]
    for name in fields_of(type(fault)):
        part = getattr(fault, name)
        if name == "then":
            words.append(f"then ({_said(part)})")
        elif part and name != "at_us":
            words.append(f"{name}={_short(to_plain(part))}")
    return " ".join(words)


def _short(part: object) -> str:
    if isinstance(part, list):
        if part and isinstance(part[0], list):
            return "|".join(_short(inner) for inner in part)
        return ",".join(map(str, part))
    return str(part)
