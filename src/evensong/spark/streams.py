"""What clients were told, as tables: streams, turns, stays, and frames held against them.

The words are those of `evensong.sim.evs.streams`: a *stream* is what one session was told; a *turn*
is a view in it, or that the session leaves a group; a *stay* is its time under one view of one
group. Views are few and frames many: what follows from events is small, and frames are folded into
cells (`evensong.spark.cells`) that are held against it. Rows are only looked at where cells do not
tell, and compared where digests of two stays differ.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.core.engine import TRANSIS
from evensong.spark.cells import CELL, CONTENT, STREAM, Cells, with_cell
from evensong.spark.digests import SUMS, digest_columns
from evensong.spark.history import LIFE, kept
from evensong.spark.rising import doubtful_streams
from evensong.spark.session import for_small_tables
from evensong.spark.tables import small_table

if TYPE_CHECKING:
    from evensong.spark.history import History

FRAME: Final = ("sender", "sender_inc", "sender_session", "origin_no")
SIDE: Final = ("ring_seq", "ring_rep")  # the configuration under whose id frames have places
STAY: Final = (*STREAM, "group", "turn")
VIEW: Final = ("run_id", "group", "view")
COHORT: Final = (*VIEW, "next_view", "next_stayed")
MEMBER: Final = "concat(node, '/', incarnation, '.', session)"
SENDER: Final = "concat(sender, '/', sender_inc, '.', sender_session)"
FRAME_NAME: Final = f"concat({SENDER}, ':', origin_no)"
PLACE: Final = "struct(ring_seq, ring_rep, seq, cast(sub as bigint) as sub)"
# Where the last message of a frame is.
LAST_PLACE: Final = (
    "struct(place.ring_seq, place.ring_rep, place.seq, place.sub + count - 1 as sub)"
)
AT: Final = "concat(place.ring_seq, '.', place.ring_rep, ' ', place.seq, '.', place.sub)"
MOST: Final = "9223372036854775807"
IS_OWN_DISCARD: Final = (
    "(discard and sender = node and sender_inc = incarnation and sender_session = session)"
)


class Streams:
    """The streams of all sessions of a history, and what they are judged by."""

    def __init__(self, history: "History") -> None:
        self.history: Final = history
        self.cells: Final = Cells(self)
        # Whether a frame gets its place after it was sent, from each side of a partition its own.
        self.has_sides: Final = history.engine == TRANSIS

    # Lives and sessions

    @cached_property
    def _whole(self) -> list[tuple[object, ...]]:
        told = (
            self.history.quiet_events.where("etype in ('open', 'gview')")
            .groupBy(*LIFE)
            .agg(
                F.count_if(F.col("etype") == "open").alias("n_open"),
                F.expr("count_if(etype = 'gview' and aux['at'] is null)").alias("n_bare"),
            )
            .where("n_open > 0 and n_bare = 0")
        )
        lives = self.history.lives.where("not is_blank and not is_bare and not has_gap")
        found = lives.join(told, list(LIFE)).select(*LIFE, "ended", "is_cut")
        return [tuple(row) for row in found.collect()]

    @cached_property
    def whole(self) -> DataFrame:
        """Lives of whose sessions everything is known, up to where the life is: `ended, is_cut`."""
        columns = "run_id string, node bigint, incarnation bigint, ended string, is_cut boolean"
        return small_table(self.history.spark, self._whole, columns)

    @property
    def is_empty(self) -> bool:
        """Whether no life has sessions that could be judged."""
        return not self._whole

    @cached_property
    def streams(self) -> DataFrame:
        """One row a session: how it ended (`close`, `quiesce`, `fail`, or empty), and its name."""
        events = self.history.quiet_events.select(
            *LIFE, "etype", F.expr("cast(aux['session'] as bigint) as session")
        )
        closed = events.where("etype = 'close'").select(*STREAM).distinct()
        return kept(
            events.where("etype = 'open'")
            .join(self.whole, list(LIFE))
            .join(closed.withColumn("is_closed", F.lit(True)), list(STREAM), "left")
            .selectExpr(
                *STREAM,
                "case when is_closed then 'close' when is_cut then '' "
                "when ended = 'quiesce' then 'quiesce' else 'fail' end as ending",
                f"{MEMBER} as member",
            )
        )

    # Views

    @cached_property
    def showings(self) -> DataFrame:
        """One row a view and node that showed it to its sessions."""
        return self.history.quiet_events.where("etype = 'gview'").selectExpr(
            *LIFE,
            "pseq as turn",
            "group",
            "conf_id as view",
            "cause",
            "aux['members'] as members",
            "aux['stayed'] as stayed",
            "aux['subject'] as subject",
            "cast(aux['conf_no'] as bigint) as conf_no",
            "cast(split(aux['sessions'], ' ') as array<bigint>) as sessions",
            "cast(split(aux['at'], ' ') as array<bigint>) as ats",
            "cast(split_part(split_part(conf_id, ':', 1), '.', 1) as bigint) as ring_seq",
            "cast(split_part(split_part(conf_id, ':', 1), '.', 2) as bigint) as ring_rep",
            "cast(split_part(split_part(conf_id, ':', 2), '.', 1) as bigint) as seq",
            "cast(split_part(split_part(conf_id, ':', 2), '.', 2) as bigint) as sub",
            "cast(split_part(conf_id, ':', 3) as bigint) as counter",
        )

    @cached_property
    def turns(self) -> DataFrame:
        """One row a session and view, or a session and group that it leaves."""
        views = self.showings.selectExpr(
            *LIFE,
            "turn",
            "group",
            "view",
            "cause",
            "members",
            "stayed",
            "subject",
            "conf_no",
            "ring_seq",
            "ring_rep",
            "seq",
            "sub",
            "counter",
            "explode(arrays_zip(sessions, ats)) as shown",
        ).selectExpr("*", "shown.sessions as session", "shown.ats as at")
        left = self.history.quiet_events.where("etype = 'left'").selectExpr(
            *LIFE,
            "pseq as turn",
            "group",
            "cast(aux['conf_no'] as bigint) as conf_no",
            "cast(split_part(aux['place'], '.', 1) as bigint) as seq",
            "cast(split_part(aux['place'], '.', 2) as bigint) as sub",
            "cast(aux['session'] as bigint) as session",
            "cast(aux['at'] as bigint) as at",
        )
        together = views.drop("shown").unionByName(left, allowMissingColumns=True)
        known = self.streams.select(*STREAM, "ending", "member")
        return kept(together.join(F.broadcast(known), list(STREAM)))

    @cached_property
    def rings(self) -> DataFrame:
        """The ring whose messages each configuration of a life delivers."""
        return self.history.spans.select(*LIFE, "conf_no", "regular_seq", "regular_rep")

    @cached_property
    def stays(self) -> DataFrame:
        """One row a stay: from `start` to `stop`, how it ends, the next view, the horizon."""
        group = Window.partitionBy(*STREAM, "group").orderBy("turn")
        following = {
            f"next_{name}": F.lead(name).over(group)
            for name in ("turn", "at", "view", "stayed", "seq", "sub", "conf_no")
        }
        rings = self.rings.withColumnRenamed("conf_no", "next_conf_no")
        last = self.history.spans.groupBy(*LIFE).agg(F.max("conf_no").alias("last_conf_no"))
        return (
            self.turns.withColumns(following)
            .where("view is not null")
            .join(F.broadcast(rings), [*LIFE, "next_conf_no"], "left")
            .join(F.broadcast(last), list(LIFE), "left")
            .selectExpr(
                *STREAM,
                "member",
                "group",
                "turn",
                "view",
                "members",
                "at as start",
                f"coalesce(next_at, {MOST}) as stop",
                "case when next_turn is null then ending when next_view is null then 'left' "
                "else 'view' end as how",
                "next_view",
                "next_stayed",
                "conf_no as from_conf",
                "greatest(conf_no, coalesce(next_conf_no, last_conf_no, conf_no)) as to_conf",
                # A view or a leave has a place among messages, unless it is the network's.
                "case when next_turn is null and ending = 'quiesce' then "
                f"struct({MOST} as ring_seq, {MOST} as ring_rep, {MOST} as seq, {MOST} as sub) "
                "when next_seq > 0 then struct(coalesce(regular_seq, 0) as ring_seq, "
                "coalesce(regular_rep, 0) as ring_rep, next_seq as seq, next_sub as sub) "
                "end as horizon",
            )
            .localCheckpoint()
        )

    # Frames

    @cached_property
    def deliveries(self) -> DataFrame:
        """What sessions of whole lives were told, as it was recorded."""
        told = self.history.client_deliveries
        if len(self._whole) == len(self.history.known_lives):
            return told
        return told.join(F.broadcast(self.whole.select(*LIFE)), list(LIFE), "left_semi")

    @cached_property
    def rows(self) -> DataFrame:
        """One row a frame and session: its place, content, cell, and whom it was sent to."""
        return self.with_destination(with_cell(self.deliveries)).selectExpr(
            *CELL,
            "pos",
            *FRAME,
            f"{PLACE} as place",
            "count",
            "digest",
            "size",
            "service",
            "reduced",
            "dest",
            "groups",
            "discard",
        )

    @cached_property
    def destinations(self) -> DataFrame:
        """What `dest_no` stands for in each life; `dest` numbers what is the same in all."""
        same = Window.orderBy("groups", "discard")
        return kept(
            self.history.quiet_events.where("etype = 'dest'")
            .selectExpr(
                *LIFE,
                "cast(aux['dest_no'] as bigint) as dest_no",
                "from_json(aux['groups'], 'array<string>') as groups",
                "aux['discard'] = '1' as discard",
            )
            .withColumn("dest", F.dense_rank().over(same))
        )

    def with_destination(self, rows: DataFrame) -> DataFrame:
        """Add whom a frame was sent to: nobody (`dest` is 0) where that is not known."""
        known = rows.join(F.broadcast(self.destinations), [*LIFE, "dest_no"], "left")
        return known.withColumns(
            {
                "groups": F.expr("coalesce(groups, array())"),
                "discard": F.expr("coalesce(discard, false)"),
                "dest": F.expr("coalesce(dest, 0)"),
            }
        )

    def told(self, cells: DataFrame) -> DataFrame:
        """One row a frame of some cells and group it was sent to, with the stay it fell into."""
        stays = self.stays.selectExpr(
            *(f"{name} as s_{name}" for name in STREAM),
            "group as s_group",
            "turn",
            "view",
            "start",
            "stop",
            "explode(sequence(from_conf, to_conf)) as s_conf_no",
        )
        rows = self.cells.rows_of(cells).withColumn("group", F.explode("groups"))
        keys = (*STREAM, "group", "conf_no")
        is_there = F.expr(
            " and ".join(f"{name} = s_{name}" for name in keys) + " and start <= pos and pos < stop"
        )
        return rows.join(F.broadcast(stays), is_there, "left").drop(
            *(f"s_{name}" for name in keys), "start", "stop"
        )

    @cached_property
    def digests(self) -> DataFrame:
        """The stays, each with the digest of the frames to its group, and `has_discard`."""
        cells = self.cells
        inside = cells.placed.where("is_inside")
        if not cells.cut.isEmpty():
            inside = inside.join(F.broadcast(cells.cut), list(CELL), "left_anti")
        place = (
            "struct(ring_seq, ring_rep, shiftright(spot_max, 16) as seq, spot_max & 65535 as sub)"
        )
        parts = inside.selectExpr(*STAY, *SUMS, "discard", f"{place} as last")
        if not cells.cut.isEmpty():
            rows = self.told(cells.cut).where("turn is not null")
            content = CONTENT.replace("seq, cast(sub as bigint)", "place.seq, place.sub")
            parts = parts.union(
                rows.groupBy(*STAY).agg(
                    *digest_columns(content), F.bool_or("discard"), F.max("place")
                )
            )
        folded = parts.groupBy(*STAY).agg(
            *(F.sum(name).alias(name) for name in SUMS),
            F.bool_or("discard").alias("has_discard"),
            F.max("last").alias("last"),
        )
        return (
            folded.join(self.stays, list(STAY), "right")
            .selectExpr(
                *self.stays.columns,
                *(f"coalesce({name}, 0) as {name}" for name in SUMS),
                "coalesce(has_discard, false) as has_discard",
                "greatest(horizon, last) as reach",
            )
            .localCheckpoint()
        )

    @cached_property
    def sends(self) -> DataFrame:
        """What sessions sent, one row a frame."""
        return self.history.client_sends.join(
            F.broadcast(self.streams.select(*STREAM)), list(STREAM), "left_semi"
        )

    @cached_property
    def flaws(self) -> DataFrame:
        """Frames and sends that lie below something that their session was told before them.

        Streams in which there may be any are put in order for this: `before` is the highest place
        until then. Sends that have no place are left out.
        """
        placed = self.sends.where("false") if self.has_sides else self.sends
        doubtful = kept(doubtful_streams(self.deliveries, placed))
        rows = self.rows.selectExpr(
            *STREAM, "pos", "place", f"{LAST_PLACE} as last", *FRAME, "false as is_send"
        )
        sends = placed.selectExpr(
            *STREAM,
            "pos",
            "origin_no",
            "struct(ring_seq, ring_rep, seq) as sent",
            "true as is_send",
        )
        before = (
            Window.partitionBy(*STREAM)
            .orderBy("pos", F.desc("is_send"))
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        highest = "struct(before.ring_seq, before.ring_rep, before.seq)"
        found = (
            rows.unionByName(sends, allowMissingColumns=True)
            .join(F.broadcast(doubtful), list(STREAM), "left_semi")
            .withColumn("before", F.max("last").over(before))
            .where(f"if(is_send, {highest} >= sent, place <= before) and before is not null")
        )
        if doubtful.isEmpty():
            return for_small_tables(self.history.spark).createDataFrame([], found.schema)
        return found.localCheckpoint()

    @cached_property
    def falling(self) -> DataFrame:
        """Streams in which places do not rise."""
        return self.flaws.where("not is_send").select(*STREAM).distinct()

    @cached_property
    def is_as_sent(self) -> bool:
        """Whether frames can be told from sends: all are as they were sent, in order and once."""
        if not self.cells.is_all_sent:
            return False
        sent = Window.partitionBy(*STREAM).orderBy("origin_no")
        before = F.struct(
            (F.col("origin_no") + F.col("count")).alias("due"), "ring_seq", "ring_rep", "seq"
        )
        crossing = self.sends.withColumn("before", F.lag(before).over(sent)).where(
            "origin_no < before.due or struct(ring_seq, ring_rep, seq) <="
            " struct(before.ring_seq, before.ring_rep, before.seq)"
        )
        return crossing.isEmpty()

    @cached_property
    def moved(self) -> DataFrame:
        """Frames that have more than one place, on one side if there are sides."""
        return self.by_side.where("lowest <> highest")

    @cached_property
    def by_frame(self) -> DataFrame:
        """One row a frame: its places, contents and receivers."""
        return self._by("run_id", *FRAME)

    @cached_property
    def by_side(self) -> DataFrame:
        """The same, of each side apart if there are sides."""
        apart = [F.expr(f"place.{name}").alias(name) for name in SIDE]
        return (
            self._by(*(map(F.col, ("run_id", *FRAME))), *apart) if self.has_sides else self.by_frame
        )

    def _by(self, *names: Column | str) -> DataFrame:
        """Gather frames by some columns.

        Of sessions that were told the same only one is looked at, and counts for all of them.
        """
        content = F.struct("digest", "size", "count", "service", "dest")
        references = self.cells.references.select(*CELL, "weight")
        return (
            self.rows.join(F.broadcast(references), list(CELL))
            .groupBy(*names)
            .agg(
                F.sum("weight").alias("n"),
                F.min("place").alias("lowest"),
                F.max("place").alias("highest"),
                F.min(content).alias("content"),
                F.max(content).alias("other"),
                F.max("count").alias("count"),
            )
            .localCheckpoint()
        )

    @cached_property
    def again(self) -> DataFrame:
        """Frames that a session was told more than once: `first` is the `pos` that counts.

        The same frame has the same place, so places do not rise in such a stream; or it has
        several. Only these streams and frames are looked at.
        """
        falling, moved = self.falling, self._in_several_places.select("run_id", *FRAME)
        doubtful = self.rows.select(*STREAM, "pos", *FRAME)
        suspects = doubtful.join(F.broadcast(falling), list(STREAM), "left_semi").union(
            doubtful.join(F.broadcast(moved), ["run_id", *FRAME], "left_semi")
        )
        return (
            suspects.distinct()
            .groupBy(*STREAM, *FRAME)
            .agg(F.min("pos").alias("first"), F.count("*").alias("times"))
            .where("times > 1")
            .localCheckpoint()
        )

    @property
    def _in_several_places(self) -> DataFrame:
        return self.by_frame.where("lowest <> highest")

    @cached_property
    def has_again(self) -> bool:
        """Whether anything was told twice."""
        if self.falling.isEmpty() and (self.is_as_sent or self._in_several_places.isEmpty()):
            return False
        return not self.again.isEmpty()

    def first_only(self, rows: DataFrame) -> DataFrame:
        """Return rows without those that are told again."""
        if not self.has_again:
            return rows
        again = self.again.select(*STREAM, *FRAME, "first")
        return (
            rows.join(F.broadcast(again), [*STREAM, *FRAME], "left")
            .where("first is null or pos = first")
            .drop("first")
        )
