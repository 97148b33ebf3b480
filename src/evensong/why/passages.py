"""One node's way from one ring to the next: when and why it left, whom it gave up, how it went."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from evensong.core.engine import SETTLED, TRANSIS
from evensong.core.ids import NO_RING, ProcessorId, RingId
from evensong.why.records import Account, Record, ages, ring_id
from evensong.why.signs import COLLECT, DEAF, LEFT, NOT_HEARD, begins, engine_of, is_word

LAG_NEAR_US: Final = 2_000_000  # a lateness noted longer before a ring was left says nothing of it


class Ring(NamedTuple):
    """A regular configuration."""

    ring_id: RingId
    members: tuple[ProcessorId, ...]

    def __str__(self) -> str:
        return f"{self.ring_id} {{{','.join(map(str, self.members))}}}"


NOWHERE: Final = Ring(NO_RING, ())


class GivenUp(NamedTuple):
    """Somebody whom a node took for failed."""

    node: ProcessorId
    cause: str  # of the gathering in which it was
    by: ProcessorId  # whose word was taken for it; 0: nobody's
    record: Record


class Token(NamedTuple):
    """The last token of the ring that was left, as a node saw it."""

    token_seq: int
    seq: int
    us_before: int  # the ring was left
    came_from: ProcessorId  # by the order of the ring
    record: Record


@dataclass(slots=True)
class Passage:
    """A node's way out of a ring, into the next if it got there."""

    account: Account
    left: Ring
    is_fresh: bool  # it had just started, and leaves the ring of one it started with
    since_us: int  # when that ring was installed
    began: Record  # the first gathering, or proposal
    collected: Record | None = None  # how a domain came to look for others before that
    installed: Record | None = None
    joined: Ring | None = None
    states: list[Record] = field(default_factory=list)  # from there on
    timers: list[Record] = field(default_factory=list)
    lags: list[Record] = field(default_factory=list)  # near it
    token: Token | None = None
    gave_up: list[GivenUp] = field(default_factory=list)
    end: Record | None = None  # of its life, if that came first

    @property
    def node(self) -> ProcessorId:
        """Return whose way it is."""
        return self.account.node

    @property
    def is_view(self) -> bool:
        """Whether it is about views of a domain, not about rings."""
        return engine_of(self.began) == TRANSIS

    @property
    def cause(self) -> str:
        """Return why it left its ring."""
        return self.began.text("cause")

    @property
    def about(self) -> ProcessorId:
        """Return who gave the reason, 0 for nobody."""
        return self.began.number("about") or 0

    def lag(self) -> tuple[int, Record] | None:
        """Return how late it was itself when it left, and which record says so."""
        noted = self.began.number("lag_us")
        if noted is not None:
            return noted, self.began
        found = [
            (us, record) for record in self.lags if (us := record.number("late_us")) is not None
        ]
        return max(found, key=_first) if found else None

    def heard(self) -> dict[ProcessorId, int]:
        """Return how long before it left its ring it had heard whom."""
        return ages(self.began.text("heard") or self.began.text("delivered"))

    def heard_at_giving_up(self, node: ProcessorId) -> tuple[int, Record] | None:
        """Return for how long it had not heard a node when it gave it up.

        A trace without sights has deliveries instead.
        """
        for given_up in self.gave_up:
            record = given_up.record
            if given_up.node == node:
                ago = ages(record.text("heard") or record.text("delivered")).get(node)
                return None if ago is None else (ago, record)
        return None

    def gave_up_by(self, causes: frozenset[str]) -> frozenset[ProcessorId]:
        """Return whom it gave up for one of these reasons."""
        return frozenset(one.node for one in self.gave_up if one.cause in causes)

    def took_us(self) -> int | None:
        """Return how long it was between rings."""
        return None if self.installed is None else self.installed.t_us - self.began.t_us

    def phases_us(self) -> dict[str, int]:
        """Return how long it took to agree, to commit and to recover, as far as it got.

        In a domain to agree is all there is; before that others may have been collected, while its
        view went on.
        """
        joined = self.joined.ring_id if self.joined is not None else None
        at = {
            record.text("state"): record.t_us
            for record in self.states
            if joined is None or ring_id(record.text("ring")) == joined
        }
        marks = [("collect", self.collected.t_us)] if self.collected is not None else []
        marks.append(("agree", self.began.t_us))
        commit = at.get("commit")
        if commit is not None:
            marks.append(("commit", commit))
            recovery = at.get("recovery")
            if recovery is not None and recovery >= commit:
                marks.append(("recover", recovery))
        if self.installed is not None:
            marks.append(("", self.installed.t_us))
        return {name: marks[n + 1][1] - us for n, (name, us) in enumerate(marks[:-1])}

    def attempts(self) -> int:
        """Return how often it committed to a ring on the way, or proposed a view."""
        return sum(record.text("state") in ("commit", "agree") for record in self.states)


class Stay(NamedTuple):
    """The end of a life in a ring, or on its way out of one."""

    account: Account
    ring: Ring
    end: Record | None  # none: it has none
    last: Record  # whatever it wrote last


def passages(account: Account) -> Iterator[Passage | Stay]:
    """Yield the ways of one life, in order, and where it was last."""
    ring: Ring | None = None
    is_fresh = True
    since_us = 0
    passage: Passage | None = None
    lags: list[Record] = []
    visit: Record | None = None
    collected: Record | None = None
    for record in account.records:
        if record.what == "token":
            visit = record
        elif record.what == "lag":
            lags = [one for one in lags if record.t_us - one.t_us <= LAG_NEAR_US] + [record]
            if passage is not None:
                passage.lags.append(record)
        elif record.what == "timer" and passage is not None:
            passage.timers.append(record)
        elif record.what == "state" and ring is not None:
            if record.text("state") == COLLECT:
                collected = record
            elif record.text("state") in SETTLED:
                collected = None
            if passage is None and begins(record):
                near = [one for one in lags if record.t_us - one.t_us <= LAG_NEAR_US]
                passage = Passage(account, ring, is_fresh, since_us, record, collected, lags=near)
                passage.token = _token(account.node, ring, visit, record)
            if passage is not None:
                _take(passage, record)
        elif record.what == "conf" and record.text("transitional") in ("False", "false"):
            conf_id = ring_id(record.text("conf"))
            if conf_id is None:
                continue
            is_first = ring is None
            ring = Ring(conf_id, tuple(sorted(record.nodes("members"))))
            if passage is not None:
                passage.installed, passage.joined = record, ring
                yield passage
                passage = None
            is_fresh = is_first and account.has_beginning and record.text("cause") == "start"
            since_us = record.t_us
            lags = []
        elif record.what == "end" and passage is not None:
            passage.end = record
    if passage is not None:
        yield passage
    if account.records:
        last = account.records[-1]
        yield Stay(account, ring or NOWHERE, last if last.what == "end" else None, last)


def _take(passage: Passage, record: Record) -> None:
    """Take in a state on the way, and whom it gives up that had not been before."""
    passage.states.append(record)
    before = {one.node for one in passage.gave_up}
    cause = record.text("cause")
    about = record.number("about") or 0
    failed = record.nodes("failed")
    if not record.text("proposed") and cause in NOT_HEARD | LEFT | DEAF:
        failed = frozenset([about])  # an older trace names one of them
    by = about if is_word(record) else 0
    for node in sorted(failed - before):
        passage.gave_up.append(GivenUp(node, cause, by, record))


def _token(node: ProcessorId, ring: Ring, visit: Record | None, began: Record) -> Token | None:
    """Return the last token of a ring: as it was noted with the gathering, or by its visit."""
    if node not in ring.members or len(ring.members) < 2:
        return None
    came_from = ring.members[ring.members.index(node) - 1]
    for record, name in ((began, "token_ring"), (visit, "ring")):
        if record is None or ring_id(record.text(name)) != ring.ring_id:
            continue
        token_seq, seq = record.number("token_seq"), record.number("seq")
        ago = began.number("token_us_ago") if record is began else began.t_us - record.t_us
        if token_seq is not None and seq is not None and ago is not None:
            return Token(token_seq, seq, ago, came_from, record)
    return None


def _first(pair: tuple[int, Record]) -> int:
    return pair[0]
