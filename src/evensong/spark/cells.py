"""One scan of what sessions were told to cells, and what cells say without a look at their rows.

A *cell* is what a session was told in one configuration of what was sent to one destination under
65,536 consecutive numbers of a ring. Its digest is the sum of hashes of frames with their places
and contents; beside it stand the extremes of position and place. A cell that lies in one stay with
all its rows adds its digest to that of the stay. Cells of several sessions with equal digests hold
the same frames, so it is enough to read the rows of one of them, the *reference*.

Rows of other cells are read again only where cells do not tell: where a view cuts one in two, and
where something seems to be wrong.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evensong.spark.digests import SUMS, digest_columns
from evensong.spark.history import LIFE, kept

if TYPE_CHECKING:
    from evensong.spark.streams import Streams

STREAM: Final = (*LIFE, "session")
STRETCH: Final = 16  # bits: how many numbers of a ring go into one cell
SENT: Final = ("dest_no", "ring_seq", "ring_rep", "stretch")
CELL: Final = (*STREAM, "conf_no", *SENT)
# Equal cells are of frames to the same groups under the same numbers, whoever was told them.
ALIKE: Final = ("run_id", "ring_seq", "ring_rep", "stretch", "dest", *SUMS)
CONTENT: Final = (
    "sender, sender_inc, sender_session, origin_no, ring_seq, ring_rep, seq, cast(sub as bigint),"
    " count, digest, size, service"
)
# What of it the sender knew as well.
_SAID: Final = "{sender}, origin_no, ring_seq, ring_rep, seq, count, digest, size, service"
SAID_OF_DELIVERY: Final = _SAID.format(sender="sender, sender_inc, sender_session")
SAID_OF_SEND: Final = _SAID.format(sender="node, incarnation, session")
SAID: Final = ("said_low", "said_high", "said_other")
# A place in its ring as one number: `sub` has 16 bits. Numbers beyond 47 bits are left to rows.
SPOT: Final = "shiftleft(seq, 16) + sub"
IS_PLAIN: Final = f"(stretch >= 0 and stretch < {1 << 31})"
IS_OWN: Final = "(sender = node and sender_inc = incarnation and sender_session = session)"
OWN: Final = ("n_own", "own_low", "own_high")
IS_PRIVATE: Final = (
    "exists(groups, name -> name like '#%' and "
    "endswith(name, concat('#', node, '#', incarnation, '.', session)))"
)


def with_cell(rows: DataFrame) -> DataFrame:
    """Add to rows of sessions what names their cell."""
    return rows.withColumns(
        {
            "conf_no": F.expr("coalesce(conf_no, -1)"),
            "dest_no": F.expr("coalesce(dest_no, -1)"),
            "stretch": F.expr(f"seq >> {STRETCH}"),
        }
    )


def said_columns(content: str) -> list[Column]:
    """Return the aggregates that make a digest of frames as their sender knew them."""
    sums = digest_columns(content)[1:]
    return [one.alias(name) for one, name in zip(sums, SAID, strict=True)]


def own_columns(condition: str) -> list[str]:
    """Return the aggregates that make a digest of a session's own frames."""
    mine = f"if({condition}, xxhash64(origin_no), 0)"
    return [
        f"count_if({condition}) as n_own",
        f"sum({mine} & 4294967295L) as own_low",
        f"sum(shiftrightunsigned({mine}, 32)) as own_high",
    ]


class Cells:
    """The cells of all sessions, and what follows from them."""

    def __init__(self, streams: "Streams") -> None:
        self._streams: Final = streams

    @cached_property
    def all(self) -> DataFrame:
        """One row a cell, with whom its frames were sent to."""
        folded = (
            with_cell(self._streams.deliveries)
            .groupBy(*CELL)
            .agg(
                *digest_columns(CONTENT),
                *said_columns(SAID_OF_DELIVERY),
                F.min("pos").alias("pos_min"),
                F.max("pos").alias("pos_max"),
                F.expr(f"min({SPOT})").alias("spot_min"),
                F.expr(f"max({SPOT})").alias("spot_max"),
                F.count_if("reduced").alias("n_reduced"),
                *(F.expr(one) for one in own_columns(IS_OWN)),
            )
        )
        return self._streams.with_destination(folded).localCheckpoint()

    def rows_of(self, cells: DataFrame) -> DataFrame:
        """Return the rows of some cells, as `Streams.rows` has them."""
        asked = F.broadcast(cells.select(*CELL))
        return self._streams.rows.join(asked, list(CELL), "left_semi")

    # Cells and stays

    @cached_property
    def placed(self) -> DataFrame:
        """One row a cell, group that it was sent to, and stay that it overlaps, if any."""
        stays = self._streams.stays.selectExpr(
            *(f"{name} as s_{name}" for name in STREAM),
            "group as s_group",
            "turn",
            "start",
            "stop",
            "explode(sequence(from_conf, to_conf)) as s_conf_no",
        )
        keys = (*STREAM, "group", "conf_no")
        overlaps = F.expr(
            " and ".join(f"{name} = s_{name}" for name in keys)
            + " and start <= pos_max and pos_min < stop"
        )
        is_inside = F.expr(f"start <= pos_min and pos_max < stop and {IS_PLAIN}")
        return (
            self.all.withColumn("group", F.explode("groups"))
            .join(stays, overlaps, "left")
            .withColumn("is_inside", is_inside)
            .select(*CELL, *SUMS, "group", "turn", "is_inside", "discard", "spot_max")
            .localCheckpoint()
        )

    @cached_property
    def cut(self) -> DataFrame:
        """Cells that lie in a stay with some of their rows only."""
        return kept(self.placed.where("not is_inside").select(*CELL).distinct())

    @cached_property
    def lost(self) -> DataFrame:
        """Cells with rows that may be in no stay of any group that they were sent to."""
        at_home = self.placed.where("is_inside").select(*CELL)
        there = self.all.where(f"not {IS_PRIVATE}").select(*CELL)
        return kept(there.join(at_home, list(CELL), "left_anti"))

    # Cells and turns

    @cached_property
    def points(self) -> DataFrame:
        """Where frames lie among the turns of their stream: positions, with extremes of place.

        A cell that no turn cuts lies between the same turns with all its rows: one point is enough.
        """
        whole = self.all.selectExpr(
            *CELL, "pos_min as at", f"{_in_ring('spot_min')} as lowest",
            f"{_in_ring('spot_max')} as highest",
        )  # fmt: skip
        names = (*STREAM, "conf_no", "at", "lowest", "highest")
        parted = self._parted
        if parted.isEmpty():
            return whole.select(*names)
        own = "struct(place.seq as seq, place.sub as sub)"
        rows = self._streams.first_only(self.rows_of(parted))
        return (
            whole.join(F.broadcast(parted), list(CELL), "left_anti")
            .select(*names)
            .union(
                rows.selectExpr(
                    *STREAM, "conf_no", "pos as at", f"{own} as lowest", f"{own} as highest"
                )
            )
            .localCheckpoint()
        )

    @cached_property
    def _parted(self) -> DataFrame:
        """Cells that have rows on both sides of a turn, or frames that were told before."""
        turns = self._streams.turns.selectExpr(*STREAM, "at as spot", "at as turn_at")
        ends = self.all.selectExpr(*CELL, "pos_min", "pos_max as spot")
        so_far = Window.partitionBy(*STREAM).orderBy("spot")
        so_far = so_far.rangeBetween(Window.unboundedPreceding, Window.currentRow)
        parted = (
            ends.unionByName(turns.distinct(), allowMissingColumns=True)
            .withColumn("turn_at", F.max("turn_at").over(so_far))
            .where(f"pos_min is not null and (turn_at > pos_min or not {IS_PLAIN})")
            .select(*CELL)
        )
        if self._streams.has_again:
            again = F.broadcast(self._streams.again.select(*STREAM).distinct())
            parted = parted.union(self.all.select(*CELL).join(again, list(STREAM), "left_semi"))
        return kept(parted.distinct())

    # Cells that hold the same

    @cached_property
    def references(self) -> DataFrame:
        """One of each set of equal cells, and how many there are of it: `weight`."""
        rest = [name for name in CELL if name not in ALIKE]
        return kept(
            self.all.groupBy(*ALIKE)
            .agg(F.min(F.struct(*rest, *SAID)).alias("one"), F.count("*").alias("weight"))
            .select(*ALIKE[:5], "n", "one.*", "weight")
        )

    # What sessions sent

    @cached_property
    def is_all_sent(self) -> bool:
        """Whether what was told, each set of equal cells once, is exactly what was sent.

        Then every frame has the content, the number and the groups that it was sent with, and is in
        one of these sets only.
        """
        kind = list(ALIKE[:5])
        told = self.references.groupBy(*kind).agg(
            F.sum("n").alias("n"), *(F.sum(name).alias(name) for name in SAID)
        )
        sent = (
            self._streams.with_destination(self.sent)
            .groupBy(*kind)
            .agg(
                F.sum("n_own").alias("n_sent"),
                *(F.sum(name).alias(f"sent_{name}") for name in SAID),
            )
        )
        pairs = [("n", "n_sent"), *((name, f"sent_{name}") for name in SAID)]
        is_equal = " and ".join(f"{one} = {other}" for one, other in pairs)
        differing = told.join(sent, kind, "left").where(f"not coalesce({is_equal}, false)")
        return differing.isEmpty()

    @cached_property
    def sent(self) -> DataFrame:
        """What each session sent to one destination under consecutive numbers of a ring."""
        return (
            with_cell(self._streams.sends)
            .groupBy(*STREAM, *SENT)
            .agg(
                *(F.expr(one) for one in own_columns("true")),
                *said_columns(SAID_OF_SEND),
                F.count_if(F.col("pos") > 0).alias("n_after"),
            )
            .localCheckpoint()
        )

    @cached_property
    def own(self) -> DataFrame:
        """What each session was told of its own, likewise."""
        sums = [F.sum(name).alias(f"told_{name}") for name in OWN]
        return self.all.groupBy(*STREAM, *SENT).agg(*sums)


def _in_ring(spot: str) -> str:
    return f"struct(shiftright({spot}, 16) as seq, {spot} & 65535 as sub)"
