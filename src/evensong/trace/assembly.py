"""Rows put together into lives again, wherever they were kept; what cannot be is refused by name.

A daemon's trace need not be whole. Its first parts may have been deleted to make room, then a life
has no beginning; a full disk leaves a `gap`. Such a life is known as far as its rows go without
interruption from its start, and the rest of it is left out and counted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from evensong.core.ids import Configuration, ProcessorId
from evensong.errors import BadTrace
from evensong.sim.history import (
    GROUP_ETYPES,
    Delivery,
    Event,
    GroupDelivery,
    GroupSend,
    Life,
    Send,
)
from evensong.trace.groups import check_event
from evensong.trace.spool import LEVELS

ENDS: Final = ("fail", "stop", "quiesce", "lost")
ETYPES: Final = (
    "start",
    "conf",
    "state",
    "token",
    "fault_inject",
    "drop",
    "lag",
    "window",
    "digest",
    "gap",
    *GROUP_ETYPES,
    *ENDS,
)


class Gap(NamedTuple):
    """Where the rows of a life stop being whole."""

    pos: int
    pseq: int
    sends: int


@final
class TracedLife:
    """A life as far as its trace goes."""

    __slots__ = (
        "gap",
        "gaps",
        "has_beginning",
        "is_late",
        "is_torn",
        "left_out",
        "level",
        "life",
        "passed",
    )

    def __init__(self, life: Life, *, has_beginning: bool) -> None:
        self.life: Final = life
        self.has_beginning: Final = has_beginning
        self.is_late = False  # what its node wrote before it was deleted
        self.level = LEVELS[-1]
        self.gap: Gap | None = None
        self.gaps = 0
        self.left_out = 0  # rows after a gap, or of a life without a beginning
        self.is_torn = False  # the last record was cut short
        self.passed = 0  # events that nobody asked for: counted, and not among those of the life


@final
class Assembly:
    """The lives of one node, from rows in order: events first, then the other tables."""

    def __init__(self, node: ProcessorId, *, may_start_late: bool) -> None:
        self.node: Final = node
        self.lives: Final[dict[int, TracedLife]] = {}
        self._may_start_late: Final = may_start_late

    def begin(self, incarnation: int, pseq: int) -> TracedLife:
        """Return a life whose next event is number `pseq`; begin it if this is the first of it."""
        one = self.lives.get(incarnation)
        if one is None:
            has_beginning = pseq == 0 or not self._may_start_late
            one = TracedLife(Life(self.node, incarnation), has_beginning=has_beginning)
            self.lives[incarnation] = one
        return one

    def add_event(self, path: Path, incarnation: int, pseq: int, event: Event) -> None:
        """Add a row of `events`."""
        one = self.begin(incarnation, pseq)
        if event.etype not in ETYPES:
            raise BadTrace(f"{path}: an event {event.etype!r} is none of {', '.join(ETYPES)}")
        if event.etype == "gap":
            _note_gap(path, one, event)
        if one.gap is not None or not one.has_beginning:
            one.left_out += 1
            return
        life = one.life
        _check_pseq(path, one, pseq)
        if event.conf is not None:
            life.confs.append(event.conf)
        _check_conf_no(path, event.conf_no, life.confs)
        if event.conf is not None and event.conf_no != len(life.confs) - 1:
            raise BadTrace(
                f"{path}: a conf with conf_no {event.conf_no} where {len(life.confs) - 1} is due"
            )
        if event.etype in GROUP_ETYPES:
            _check_group_event(path, event)
        if event.etype == "start":
            one.level = dict(event.aux).get("level", one.level)
        life.events.append(event)
        if event.etype in ENDS:
            life.ended = event.etype

    def pass_over(self, path: Path, incarnation: int, pseq: int, number: int) -> None:
        """Count rows of `events` from `pseq` on that are there and not asked for."""
        one = self.begin(incarnation, pseq)
        if one.gap is not None or not one.has_beginning:
            one.left_out += number
            return
        _check_pseq(path, one, pseq)
        one.passed += number

    def add_delivery(self, path: Path, incarnation: int, pos: int, delivery: Delivery) -> None:
        """Add a row of `deliveries`."""
        one = self._life(path, incarnation)
        life = one.life
        if not one.has_beginning or (one.gap is not None and pos >= one.gap.pos):
            one.left_out += 1
            return
        if pos != len(life.deliveries):
            raise BadTrace(
                f"{path}: pos {pos} of incarnation {incarnation} "
                f"where {len(life.deliveries)} is due"
            )
        _check_conf_no(path, delivery.conf_no, life.confs)
        life.deliveries.append(delivery)

    def add_send(self, path: Path, incarnation: int, send: Send) -> None:
        """Add a row of `sends`."""
        one = self._life(path, incarnation)
        life = one.life
        if not one.has_beginning or (one.gap is not None and len(life.sends) >= one.gap.sends):
            one.left_out += 1
            return
        origin_no = send.unit_id.origin_no
        if life.sends and origin_no <= life.sends[-1].unit_id.origin_no:
            raise BadTrace(
                f"{path}: origin_no {origin_no} of incarnation {incarnation} after "
                f"{life.sends[-1].unit_id.origin_no}"
            )
        _check_conf_no(path, send.conf_no, life.confs)
        life.sends.append(send)

    def add_heard(
        self, path: Path, incarnation: int, session: int, pos: int, row: GroupDelivery
    ) -> None:
        """Add a row of `deliveries` that is about a session."""
        one = self._life(path, incarnation)
        if not one.has_beginning or one.gap is not None:
            one.left_out += 1
            return
        rows = one.life.heard.setdefault(session, [])
        if pos != len(rows):
            raise BadTrace(
                f"{path}: pos {pos} of session {session} of incarnation {incarnation} "
                f"where {len(rows)} is due"
            )
        _check_conf_no(path, row.conf_no, one.life.confs)
        rows.append(row)

    def add_said(self, path: Path, incarnation: int, row: GroupSend) -> None:
        """Add a row of `sends` that is about a session."""
        one = self._life(path, incarnation)
        if not one.has_beginning or one.gap is not None:
            one.left_out += 1
            return
        _check_conf_no(path, row.conf_no, one.life.confs)
        one.life.said.append(row)

    def _life(self, path: Path, incarnation: int) -> TracedLife:
        if incarnation not in self.lives:
            raise BadTrace(f"{path}: incarnation {incarnation} has no events")
        return self.lives[incarnation]

    def finish(self, folder: Path) -> list[TracedLife]:
        """Return the lives in order, cut to what is whole."""
        lives = [self.lives[incarnation] for incarnation in sorted(self.lives)]
        if lives:
            lives[0].is_late = self._may_start_late
        for one in lives:
            if one.gap is not None:
                _cut(one.life, one.gap)
                one.life.has_groups = False
            if one.level == LEVELS[-1]:
                _check_positions(one.life, folder)
        return lives


def _check_pseq(path: Path, one: TracedLife, pseq: int) -> None:
    due = len(one.life.events) + one.passed
    if pseq != due:
        raise BadTrace(
            f"{path}: pseq {pseq} of incarnation {one.life.incarnation} where {due} is due"
        )


def _check_group_event(path: Path, event: Event) -> None:
    try:
        check_event(event.etype, dict(event.aux))
    except (KeyError, ValueError, TypeError) as error:
        raise BadTrace(f"{path}: a {event.etype} that makes no sense: {error}") from error


def _note_gap(path: Path, one: TracedLife, event: Event) -> None:
    one.gaps += 1
    if one.gap is None:
        aux = dict(event.aux)
        try:
            one.gap = Gap(*(int(aux[name]) for name in Gap._fields))
        except (KeyError, ValueError):
            raise BadTrace(f"{path}: a gap that does not say where it begins") from None


def _cut(life: Life, gap: Gap) -> None:
    del life.events[gap.pseq :]
    del life.deliveries[gap.pos :]
    del life.sends[gap.sends :]
    life.confs[:] = [event.conf for event in life.events if event.conf is not None]


def _check_conf_no(path: Path, conf_no: int, confs: Sequence[Configuration]) -> None:
    if conf_no >= len(confs):
        raise BadTrace(f"{path}: conf_no {conf_no} where there are {len(confs)} configurations")


def _check_positions(life: Life, folder: Path) -> None:
    """Refuse events and sends that are not in order among the deliveries."""
    end = len(life.deliveries)
    for what, rows in (("events", life.events), ("sends", life.sends)):
        before = 0
        for row in rows:
            if not before <= row.pos <= end:
                raise BadTrace(
                    f"{folder}: {what} of incarnation {life.incarnation} have pos {row.pos} where "
                    f"{before} to {end} is due"
                )
            before = row.pos
