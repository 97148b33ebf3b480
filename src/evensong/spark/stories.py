"""The story of each change of membership in a trace, told by `evensong.why`.

Events are few but for the visits of the token. Of those a story needs the last one before a node
left its ring; Spark leaves out the others, and the rest is put together here, run by run.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.report.model import Story
from evensong.sim.history import Event, Life
from evensong.trace.assembly import ENDS
from evensong.trace.rows import TELLING
from evensong.why import Change, explain, story
from evensong.why.records import Account, from_life

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

COLUMNS: Final = ("run_id", "node", *TELLING)


def stories(events: "DataFrame", runs: Sequence[str]) -> dict[str, dict[str, Story]]:
    """Return the stories of some runs, by run and configuration."""
    rows = _telling(events.where(events.run_id.isin(*runs))).collect()
    told: dict[str, dict[str, Story]] = {}
    for run_id, mine in groupby(rows, key=lambda row: str(row.run_id)):
        told[run_id] = {
            str(change.ring.ring_id): _story(change)
            for change in explain(_accounts(mine))
            if change.ring is not None
        }
    return told


def _story(change: Change) -> Story:
    """Take a story apart: its headline, causes, what each saw, times, what is not known."""
    _, *lines = [line.strip() for line in story(change)]
    n_causes, n_unknown = len(change.causes), len(change.unknown)
    body = lines[n_causes : len(lines) - n_unknown]
    return Story(tuple(lines[:n_causes]), tuple(body[:-1]), body[-1], change.unknown)


def _telling(events: "DataFrame") -> "DataFrame":
    """Return the events that stories are made of, in order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    in_turn = Window.partitionBy("run_id", "node", "incarnation").orderBy("pseq")
    return (
        events.withColumn("next_etype", F.lead("etype").over(in_turn))
        .where("etype != 'token' or next_etype in ('state', 'conf')")
        .select(*COLUMNS)
        .orderBy("run_id", "node", "incarnation", "pseq")
    )


def _accounts(rows: "Iterable[Row]") -> list[Account]:
    lives: list[tuple[Life, bool]] = []
    for (node, incarnation), mine in groupby(rows, key=lambda row: (row.node, row.incarnation)):
        life = Life(node, incarnation)
        life.events.extend(_event(row) for row in mine)
        life.confs.extend(event.conf for event in life.events if event.conf is not None)
        last = life.events[-1].etype
        life.ended = last if last in ENDS else ""
        lives.append((life, life.events[0].etype == "start"))
    for (life, _), (following, _) in pairwise(lives):
        if not life.ended and following.node == life.node:
            life.ended = "lost"  # who lived again had died before
    return [from_life(life, "the trace", has_beginning=has) for life, has in lives]


def _event(row: "Row") -> Event:
    conf = None
    if row.etype == "conf":
        conf = Configuration(
            _ring(row.conf_id),
            _ring(row.prev_conf_id),
            tuple(row.members),
            transitional=row.conf_kind == "transitional",
            cause=row.cause or "",
        )
    conf_no = row.conf_no if row.conf_no is not None else -1
    aux = tuple((row.aux or {}).items())
    return Event(row.pos, row.t_us, row.etype, conf_no, conf, row.cause or "", aux)


def _ring(text: str | None) -> RingId:
    if not text:
        return NO_RING
    seq, _, rep = text.partition(".")
    return RingId(int(seq), int(rep))
