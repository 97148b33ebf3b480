"""What one life of a node wrote down about itself, wherever it was kept.

A trace, a flight recorder on disk and that of a running daemon say the same things in different
shapes; from here on there is one. Times are microseconds of the node's own clock, and two nodes'
times may be compared only if the name of their clock is the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from evensong.core.engine import CHANGING
from evensong.core.ids import ProcessorId, RingId
from evensong.sim.history import History, Life

VIRTUAL: Final = "virtual"  # the clock of the simulator, which all of its processors share
DIGITS_MAX: Final = 20  # of a number of 64 bits
ENDS: Final = frozenset(["stop", "fail", "quiesce", "lost"])


class Record(NamedTuple):
    """Something that was written down; what every clause of a story is backed by."""

    node: ProcessorId
    incarnation: int
    t_us: int
    what: str  # start, state, conf, timer, lag, token, heard, end
    figures: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a figure, empty if it was not written down."""
        return self.figures.get(name, "")

    def number(self, name: str) -> int | None:
        """Return a figure that is a number, none if it is not there."""
        return whole(self.text(name))

    def nodes(self, name: str) -> frozenset[ProcessorId]:
        """Return a figure that lists nodes."""
        listed = map(whole, self.text(name).split())
        return frozenset(one for one in listed if one is not None)


@dataclass(frozen=True, slots=True)
class Account:
    """The records of one life, in order."""

    node: ProcessorId
    incarnation: int
    source: str  # where they come from, for people
    clock: str = ""  # empty: not known whose
    token_loss_us: int = 0  # 0: not known
    ended: str = ""  # stop, fail, quiesce; lost: it is over and did not say so; empty: not known
    is_stuck: bool = False  # its daemon is there and does not answer
    has_beginning: bool = True
    records: list[Record] = field(default_factory=list)


def from_history(history: History, source: str = "the simulator") -> list[Account]:
    """Return the accounts of a history that lies in memory."""
    return [from_life(life, source) for life in history.lives.values()]


def from_life(life: Life, source: str, *, has_beginning: bool = True) -> Account:
    """Return the account of a life of a trace."""
    start = dict(life.events[0].aux) if life.events and life.events[0].etype == "start" else {}
    loss_us = whole(start.get("token_loss_us", ""))
    return Account(
        life.node,
        life.incarnation,
        source,
        # What a daemon writes has its boot in it; only the simulator's lives have none.
        start.get("host", "") if "boot" in start else VIRTUAL if has_beginning else "",
        loss_us or 0,
        life.ended,
        has_beginning=has_beginning,
        records=list(_with_deliveries(life)),
    )


def _with_deliveries(life: Life) -> Iterator[Record]:
    """Yield a life's events, and before each gathering when others' messages came last."""
    heard: dict[ProcessorId, int] = {}
    pos = 0
    for event in life.events:
        for row in life.deliveries[pos : event.pos]:
            heard[row.unit_id.sender] = row.t_us
        pos = max(pos, event.pos)
        figures = dict(event.aux)
        if event.conf is not None:
            figures |= {
                "conf": str(event.conf.conf_id),
                "transitional": str(event.conf.transitional),
                "members": " ".join(map(str, event.conf.members)),
            }
        if event.cause:
            figures["cause"] = event.cause
        if figures.get("state") in CHANGING and "heard" not in figures and heard:
            ago = {node: event.t_us - at for node, at in heard.items() if node != life.node}
            figures["delivered"] = " ".join(f"{node}:{us}" for node, us in sorted(ago.items()))
        what = "end" if event.etype in ENDS else event.etype
        if what == "end":
            figures["how"] = event.etype
        yield Record(life.node, life.incarnation, event.t_us, what, figures)


def whole(text: str) -> int | None:
    """Read a number; none if it is not one that was ever written."""
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else None


def ring_id(text: str) -> RingId | None:
    """Read `8.1`; none if it is not the id of a ring."""
    seq, rep = map(whole, text.partition(".")[::2])
    return None if seq is None or rep is None else RingId(seq, rep)


def ages(text: str) -> dict[ProcessorId, int]:
    """Read `2:350 3:90210`: nodes, and how many microseconds ago each was heard."""
    found: dict[ProcessorId, int] = {}
    for one in text.split():
        node, us = map(whole, one.partition(":")[::2])
        if node is not None and us is not None:
            found[node] = us
    return found


def one_clock(accounts: Iterable[Account]) -> bool:
    """Whether the times of all of these may be compared."""
    clocks = {account.clock for account in accounts}
    return len(clocks) == 1 and "" not in clocks


def unique(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return records in order, none twice."""
    by_place = {(one.node, one.incarnation, one.t_us, one.what): one for one in records}
    return tuple(by_place.values())
