"""What a report is about, as plain values.

Times are microseconds since the origin of a clock: the first time in the run of anybody who reads
the same one. Times of different clocks are not comparable, and are drawn apart.
"""

from dataclasses import dataclass, field
from typing import Final

PASS: Final = "pass"
FAIL: Final = "fail"
VACUOUS: Final = "vacuous"
INCONCLUSIVE: Final = "inconclusive"
STATUSES: Final = (FAIL, INCONCLUSIVE, VACUOUS, PASS)  # the worst first

OWN: Final = "own"
ONE_WAY: Final = "one_way"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the audit says of one property in one run."""

    property_id: str
    status: str
    n_checked: int = 0
    n_unknown: int = 0
    n_violations: int = 0
    witnesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """A property, for people."""

    property_id: str
    title: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a node, as far as it was recorded."""

    node: int
    incarnation: int
    clock: str
    level: str
    has_beginning: bool
    ended: str  # fail, stop, quiesce, lost, or nothing
    gaps: int
    configurations: int
    events: int
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A configuration of a life, from its installation to the next one or the life's end."""

    node: int
    incarnation: int
    conf_id: str
    is_transitional: bool
    members: tuple[int, ...]
    cause: str
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Interval:
    """What a node delivered of one service in a stretch of time."""

    node: int
    service: str
    at_us: int
    messages: int
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Load:
    """What one node did in all."""

    node: int
    messages_sent: int
    bytes_sent: int
    share: float | None  # of what all sent
    messages_delivered: int
    bytes_delivered: int
    visits: int  # of the token
    packets_sent: int
    packets_resent: int


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly the members of a configuration shared what was sent in it."""

    conf_id: str
    members: int
    messages: int
    jain: float
    least_share: float
    most_share: float


@dataclass(frozen=True, slots=True)
class Timing:
    """How long something took: number, quantiles in microseconds, and how the times are spread."""

    name: str  # a service or a node
    n: int
    mean_us: float
    p50_us: int
    p90_us: int
    p99_us: int
    max_us: int
    bins: tuple[tuple[float, float, int], ...] = ()  # from, to (excluded), how many


@dataclass(frozen=True, slots=True)
class Story:
    """Why a configuration came about, in sentences."""

    causes: tuple[str, ...]
    seen: tuple[str, ...] = ()  # by each node
    times: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """How a configuration came about, and what it took."""

    conf_id: str
    members: tuple[int, ...]
    left: tuple[int, ...]
    joined: tuple[int, ...]
    cause: str
    noticed_by: int
    noticed_us: int
    agreed_us: int | None
    installed_us: int
    is_one_clock: bool  # else the times are those of the one who noticed
    silence_us: int | None  # without a token, before it was noticed
    blow: str  # the last thing known to have been done before; empty: none
    detect_us: int | None  # since then
    story: Story | None = None  # none: nothing but the figures is known


@dataclass(frozen=True, slots=True)
class Run:
    """One run: who was there, what they did, how it is judged."""

    run_id: str
    lives: tuple[Life, ...] = ()
    stays: tuple[Stay, ...] = ()
    width_us: int = 0  # of the intervals
    throughput: tuple[Interval, ...] = ()
    load: tuple[Load, ...] = ()
    fairness: tuple[Fairness, ...] = ()
    latency: tuple[Timing, ...] = ()  # by service, at the sender
    one_way: tuple[Timing, ...] = ()  # by service, at everybody else; simulated runs only
    rotation: tuple[Timing, ...] = ()  # by node
    rounds: tuple[Timing, ...] = ()  # of the token, at all nodes together: one, or none
    changes: tuple[Change, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Something that was read."""

    name: str  # as the user gave it
    files: int | None = None  # none: it lies elsewhere, and nobody counted
    size: int | None = None  # bytes


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that goes into a page."""

    runs: tuple[Run, ...]
    promises: tuple[Promise, ...] = ()
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be read, and other doubts
    version: str = ""
    command: str = ""
    n_runs: int = 0  # in all, if only some of them are here
    title: str = field(default="What the traces say")
