"""What the traces of a demonstration prove: figures, changes with their causes, verdicts.

All of it is computed from what the daemons wrote down and the record of what was done to them; the
clock is the machine's monotonic one for both, so differences between the two are times.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId, RingId
from evensong.demo.clerks import Book, Wait
from evensong.demo.play import Act, Record
from evensong.sim.history import History, Life
from evensong.trace.assembly import TracedLife
from evensong.trace.changes import Change, changes
from evensong.trace.directory import find, read_place, settle
from evensong.trace.judge import Judgement, judge
from evensong.trace.lanes import life_start, lives_by_node


class ViewChange(NamedTuple):
    """One change of membership: why, who came and went, and how long it took."""

    change: Change
    act: Act | None  # what had been done; none: it came by itself
    detect_us: int | None  # from what was done until the first daemon left its ring
    recover_us: int  # from then until the last one had the new ring
    left: tuple[ProcessorId, ...]
    joined: tuple[ProcessorId, ...]


class Latency(NamedTuple):
    """How long messages took from submit to delivery at their own daemon."""

    samples: int
    p50_us: int
    p99_us: int


class LastRing(NamedTuple):
    """The last ring of all, as its members saw it."""

    ring_id: RingId
    messages: int  # delivered in it, by the member that delivered most
    is_equal: bool  # the same messages in the same order at all


class Findings(NamedTuple):
    """Everything there is to say."""

    record: Record
    judgement: Judgement
    messages: int
    deliveries: int
    safe_messages: int
    seconds: float
    latency: dict[str, Latency]  # by service
    changes: list[ViewChange]
    last_ring: LastRing | None  # none: they did not end in one

    def rate(self) -> float:
        """Return the messages a second, view changes included."""
        return self.messages / self.seconds if self.seconds else 0.0

    def is_kept(self) -> bool:
        """Whether every promise was kept, and all ended in one ring with equal orders."""
        return (
            not self.record.trouble
            and self.judgement.verdicts.holds
            and self.judgement.is_complete
            and self.last_ring is not None
            and self.last_ring.is_equal
            and self.are_ledgers_equal()
        )

    def are_ledgers_equal(self) -> bool:
        """Whether every node ended with a ledger, all of them the same."""
        return are_equal(self.record.books, self.record.nodes)


def read_lives(directory: Path) -> list[TracedLife]:
    """Read the traces of daemons that have stopped; who did not say goodbye was killed."""
    lives = []
    for place in find(directory):
        for found in read_place(place).values():
            settle(found, "lost")
            lives += found
    return lives


def examine(directory: Path, record: Record) -> Findings:
    """Judge what the daemons wrote down."""
    judgement = judge(read_lives(directory))
    history = judgement.history
    lives = history.lives.values()
    sends = [send for life in lives for send in life.sends]
    times = [send.t_us for send in sends]
    return Findings(
        record,
        judgement,
        len(sends),
        sum(len(life.deliveries) for life in lives),
        sum(send.service is Service.SAFE for send in sends),
        (max(times) - min(times)) / 1_000_000 if times else 0.0,
        latencies(record),
        view_changes(history, record),
        last_ring(history, record.nodes),
    )


def are_equal(books: Sequence[Book], nodes: Sequence[ProcessorId]) -> bool:
    """Whether every node has a ledger, all of them with the same content."""
    is_everybody = [book.node for book in books] == [*nodes]
    return is_everybody and len({book.digest for book in books}) == 1


# Latency


def latencies(record: Record) -> dict[str, Latency]:
    """Return the latency of each service before anything was broken."""
    broken_us = next((act.at_us for act in record.acts if act.name == "kill"), None)
    calm = [
        wait
        for wait in record.waits
        if broken_us is None or wait.began_us + wait.took_us < broken_us
    ]
    services = sorted({wait.service for wait in calm})
    return {service: _latency([w for w in calm if w.service == service]) for service in services}


def _latency(waits: Sequence[Wait]) -> Latency:
    took = sorted(wait.took_us for wait in waits)
    return Latency(len(took), percentile(took, 50), percentile(took, 99))


def percentile(ascending: Sequence[int], percent: int) -> int:
    """Return the smallest value that is not exceeded by so many per cent of all."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


# Changes


def view_changes(history: History, record: Record) -> list[ViewChange]:
    """Return every change until they were told to stop, each with what had been done."""
    acts = [_struck(act, history, record.victim) for act in record.acts]
    told = []
    for change in changes(history):
        if change.noticed_us >= record.stopped_us:
            continue
        act = next((one for one in acts if _is_during(change, one)), None)
        left, joined = _came_and_went(history, change)
        detect_us = _detect_us(change, act)
        told.append(ViewChange(change, act, detect_us, change.took_us(), left, joined))
    return told


def _is_during(change: Change, act: Act) -> bool:
    """Whether a change was under way when the act was done, or began before it was over."""
    return act.at_us <= change.installed_us and change.noticed_us <= act.over_us


def _detect_us(change: Change, act: Act | None) -> int | None:
    """Return how long the act went unnoticed; none if there was nothing to notice any more."""
    if act is None or act.name == "start" or change.noticed_us < act.at_us:
        return None
    return change.noticed_us - act.at_us


def _struck(act: Act, history: History, victim: ProcessorId) -> Act:
    """Return the act as the ring could see it: a daemon needs a while until it can speak."""
    if act.name != "restart":
        return act
    return act._replace(at_us=life_start(lives_by_node(history)[victim][-1]))


def _came_and_went(
    history: History, change: Change
) -> tuple[tuple[ProcessorId, ...], tuple[ProcessorId, ...]]:
    """Return who is gone, and who is new to the larger part of those who stay."""
    members = set(change.conf.members)
    before: set[ProcessorId] = set()
    largest: set[ProcessorId] = set()
    for life in history.lives.values():
        old = _members_before(life, change.conf.conf_id) & members
        before |= _members_before(life, change.conf.conf_id)
        if len(old) > len(largest):
            largest = old
    return tuple(sorted(before - members)), tuple(sorted(members - largest))


def _members_before(life: Life, conf_id: RingId) -> set[ProcessorId]:
    """Return with whom a life was in the regular configuration before this one."""
    members: tuple[ProcessorId, ...] = ()
    for conf in life.confs:
        if conf.conf_id == conf_id and not conf.transitional:
            return set(members)
        if not conf.transitional:
            members = conf.members
    return set()


# The end


def last_ring(history: History, nodes: Sequence[ProcessorId]) -> LastRing | None:
    """Return the last ring of all daemons, if the last lives of all of them were in it."""
    rings = [c.conf.conf_id for c in changes(history) if c.conf.members == tuple(nodes)]
    if not rings:
        return None
    last = [lives[-1] for lives in lives_by_node(history).values()]
    orders = [_order_in(life, rings[-1]) for life in last]
    if len(last) != len(nodes) or None in orders:
        return None
    longest = max(len(order or ()) for order in orders)
    return LastRing(rings[-1], longest, all(order == orders[0] for order in orders))


def _order_in(life: Life, ring_id: RingId) -> list[object] | None:
    """Return what a life delivered in a regular configuration; none if it never was in it."""
    numbers = [
        number
        for number, conf in enumerate(life.confs)
        if conf.conf_id == ring_id and not conf.transitional
    ]
    if not numbers:
        return None
    return [row.unit_id for row in life.deliveries if row.conf_no == numbers[-1]]
