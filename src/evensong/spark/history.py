"""What the properties are asked of: rows that can be judged, and views derived from them.

A `History` holds lives, spans and rows of many runs at once. `com(c)` at a life is the regular
configuration c and the transitional one that followed it there, both known by c's id, which is the
`regular_id` of their spans. Lives are never joined across incarnations.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from evensong.core.engine import TOTEM, TRANSIS
from evensong.core.transis.dag import ORDERED
from evensong.sim.evs.limits import DISTURBANCES, NAMES
from evensong.spark.lives import Life, ReadLives, lives_table, read_lives
from evensong.spark.session import for_small_tables
from evensong.trace.schema import CODE_BY_SERVICE

if TYPE_CHECKING:
    from evensong.spark.domain import Domain
    from evensong.spark.matching import Matching
    from evensong.spark.reading import Trace
    from evensong.spark.segmented import Segment
    from evensong.spark.soundness import Evidence
    from evensong.spark.streams import Streams

LIFE: Final = ("run_id", "node", "incarnation")
IS_ORDERED: Final = f"service in ({', '.join(str(CODE_BY_SERVICE[one]) for one in ORDERED)})"
FEW: Final = 10_000  # rows that are looked at more quickly than a plan for them is compiled


def kept(rows: DataFrame) -> DataFrame:
    """Compute a table once and keep it here: Spark then knows how small it is."""
    table, spark = rows.toArrow(), rows.sparkSession
    if table.num_rows <= FEW:
        spark = for_small_tables(spark)
    return spark.createDataFrame(table, rows.schema)


class History:
    """The rows of every run, and what follows from its events.

    `deliveries` and `sends` are those of the nodes themselves (`session` 0), `client_deliveries`
    and `client_sends` those of sessions; all are without what comes after a gap and without lives
    that cannot be judged. `events` likewise.
    """

    def __init__(
        self,
        spark: SparkSession,
        trace: "Trace",
        last_ends: Mapping[tuple[str, int], str] | None = None,
        lives: ReadLives | None = None,
    ) -> None:
        self.spark: Final = spark
        self.trace: Final = trace
        self.known_lives, self.refused = lives or read_lives(trace.events, last_ends or {})

    @cached_property
    def parts(self) -> "list[History]":
        """The histories of the runs of each engine: this one, if all are of one."""
        engines = sorted({life.engine for life in self.known_lives})
        return [self] if len(engines) < 2 else [self._part(engine) for engine in engines]

    def _part(self, engine: str) -> "History":
        from evensong.spark.reading import Trace

        lives = [life for life in self.known_lives if life.engine == engine]
        is_of_it = F.col("run_id").isin(*{life.run_id for life in lives})
        trace = Trace(*(table.where(is_of_it) for table in self.trace))
        return History(self.spark, trace, lives=ReadLives(lives, {}))

    @property
    def engine(self) -> str:
        """What ordered messages in these runs; of several engines, `parts` has each by itself."""
        return self.known_lives[0].engine if self.known_lives else TOTEM

    @cached_property
    def lives(self) -> DataFrame:
        """One row a life that has a trace: the columns of `lives.Life`."""
        return lives_table(self.spark, self.known_lives)

    @cached_property
    def events(self) -> DataFrame:
        """The events of lives that can be judged; `pos` is 0 where deliveries were not traced."""
        events = self.trace.events
        if all(not (life.is_blank or life.has_gap or life.is_bare) for life in self.known_lives):
            return events
        about = self.lives.where("not is_blank").select(*LIFE, "gap_pseq", "is_bare")
        return (
            events.join(F.broadcast(about), list(LIFE))
            .where("gap_pseq is null or pseq < gap_pseq")
            .withColumn("pos", F.when(F.col("is_bare"), F.lit(0)).otherwise(F.col("pos")))
            .drop("gap_pseq", "is_bare")
        )

    @cached_property
    def quiet_events(self) -> DataFrame:
        """All events but visits of the token, which are many; kept at hand."""
        return self.events.where("etype <> 'token'").localCheckpoint()

    @cached_property
    def deliveries(self) -> DataFrame:
        """The deliveries of the nodes themselves, of lives that can be judged."""
        return self._judged(self.trace.deliveries.where("session = 0"), "pos < gap_pos")

    @cached_property
    def client_deliveries(self) -> DataFrame:
        """The deliveries to sessions, of lives that can be judged, of what has a place."""
        return self._of_sessions(self.trace.deliveries, IS_ORDERED)

    @cached_property
    def unordered(self) -> DataFrame:
        """The deliveries to sessions of what has no place."""
        return self._of_sessions(self.trace.deliveries, f"not {IS_ORDERED}")

    @cached_property
    def sends(self) -> DataFrame:
        """The sends of the nodes themselves, of lives that can be judged."""
        sends = self.trace.sends.where("session = 0")
        if not any(life.has_gap for life in self.known_lives):
            return self._judged(sends, "true")
        in_order = Window.partitionBy(*LIFE).orderBy("origin_no")
        numbered = sends.withColumn("number", F.row_number().over(in_order))
        return self._judged(numbered, "number <= gap_sends").drop("number")

    @cached_property
    def client_sends(self) -> DataFrame:
        """The sends of sessions, of lives that can be judged, of what is to have a place."""
        return self._of_sessions(self.trace.sends, IS_ORDERED)

    def _of_sessions(self, rows: DataFrame, which: str) -> DataFrame:
        """Return the rows of sessions; a ring orders all of them, so nothing is looked for."""
        told = rows.where("session <> 0")
        return self._judged(told if self.engine == TOTEM else told.where(which), "true")

    def _judged(self, rows: DataFrame, before_gap: str) -> DataFrame:

        if all(not (life.is_blank or life.has_gap or life.is_bare) for life in self.known_lives):
            return rows
        columns = rows.columns
        about = self.lives.where("not is_blank and not is_bare").select(
            *LIFE, "has_gap", "gap_pos", "gap_sends"
        )
        kept = rows.join(F.broadcast(about), list(LIFE)).where(f"not has_gap or {before_gap}")
        return kept.select(*columns)

    @cached_property
    def spans(self) -> DataFrame:
        """One row a configuration at a life, from its installation to the next.

        `run_id, node, incarnation, conf_no, conf_id, conf_seq, conf_rep, is_transitional,
        prev_conf_id, regular_id, regular_seq, regular_rep, members, start, stop (null: to the end),
        before_id, next_id, is_last, rank` (of the regular configuration in its run, from 1),
        `com_start, t_us, cause`.
        """
        life = Window.partitionBy(*LIFE).orderBy("pseq")
        com = Window.partitionBy(*LIFE, "regular_id")
        run = Window.partitionBy("run_id").orderBy("regular_seq", "regular_rep")
        return kept(
            self.quiet_events.where("etype = 'conf'")
            .select(
                *LIFE,
                (F.row_number().over(life) - 1).cast("bigint").alias("conf_no"),
                F.col("conf_no").alias("said_no"),
                "conf_id",
                (F.col("conf_kind") == "transitional").alias("is_transitional"),
                "prev_conf_id",
                F.array_sort("members").alias("members"),
                F.col("pos").alias("start"),
                F.lead("pos").over(life).alias("stop"),
                F.lag("conf_id").over(life).alias("before_id"),
                F.lead("conf_id").over(life).alias("next_id"),
                "t_us",
                "cause",
            )
            .withColumn("is_last", F.col("next_id").isNull())
            .withColumn("regular_id", F.expr("if(is_transitional, prev_conf_id, conf_id)"))
            .withColumn("conf_seq", F.split_part("conf_id", F.lit("."), F.lit(1)).cast("bigint"))
            .withColumn("conf_rep", F.split_part("conf_id", F.lit("."), F.lit(2)).cast("bigint"))
            .withColumn(
                "regular_seq", F.split_part("regular_id", F.lit("."), F.lit(1)).cast("bigint")
            )
            .withColumn(
                "regular_rep", F.split_part("regular_id", F.lit("."), F.lit(2)).cast("bigint")
            )
            .withColumn("com_start", F.min("start").over(com))
            .withColumn("rank", F.dense_rank().over(run))
        )

    # What digests and rows say of all this; computed when first asked for

    @cached_property
    def evidence(self) -> "Evidence":
        """Digests of what was delivered, and what does not add up."""
        from evensong.spark.soundness import Evidence

        return Evidence(self)

    @cached_property
    def domain(self) -> "Domain":
        """The same of runs of a broadcast domain."""
        from evensong.spark.domain import Domain

        return Domain(self)

    @property
    def account(self) -> "Evidence | Domain":
        """What was sent and delivered in all, whatever the engine."""
        return self.domain if self.engine == TRANSIS else self.evidence

    @cached_property
    def matching(self) -> "Matching":
        """Deliveries held against sends."""
        from evensong.spark.matching import Matching

        return Matching(self.evidence)

    @cached_property
    def streams(self) -> "Streams":
        """What clients were told."""
        from evensong.spark.streams import Streams

        return Streams(self)

    @cached_property
    def segments(self) -> "list[Segment]":
        """The configurations that are judged row by row; all others are sound."""
        from evensong.spark.matching import segments_of

        return self.domain.segments() if self.engine == TRANSIS else segments_of(self)

    @cached_property
    def absent(self) -> list[Life]:
        """Lives that must have been, and have no trace."""
        from evensong.spark.absent import find_absent

        if len(self.parts) > 1:
            return sorted(life for part in self.parts for life in part.absent)
        is_domain = self.engine == TRANSIS
        return find_absent(self, (self.domain if is_domain else self.matching).strangers)

    @cached_property
    def all_lives(self) -> DataFrame:
        """The lives that have a trace, and those that must have been."""
        if not self.absent:
            return self.lives
        return lives_table(self.spark, [*self.known_lives, *self.absent])

    @cached_property
    def names(self) -> DataFrame:
        """What each life is called: `p3`, or `p3/2` for one of several of a node."""
        several = F.count("*").over(Window.partitionBy("run_id", "node")) > 1
        alone = F.concat(F.lit("p"), F.col("node"))
        numbered = F.concat(alone, F.lit("/"), F.col("incarnation"))
        name = F.when(several, numbered).otherwise(alone)
        return kept(self.all_lives.select(*LIFE, name.alias("name")))

    @cached_property
    def tails(self) -> DataFrame:
        """Between which configurations of a node the lost tail of a recording lies.

        Ring ids rise at a processor, over its restarts too; so a tail lies between the last
        configuration before it and the first of the next life.
        """
        conf = F.struct("conf_seq", "conf_rep")
        ends = self.spans.groupBy(*LIFE).agg(F.min(conf).alias("first"), F.max(conf).alias("last"))
        later = Window.partitionBy("run_id", "node").orderBy("incarnation")
        following = later.rowsBetween(1, Window.unboundedFollowing)
        return kept(
            self.all_lives.select(*LIFE, "is_cut")
            .join(ends, list(LIFE), "left")
            .withColumn("after", F.first("first", ignorenulls=True).over(following))
            .where("is_cut")
            .select("run_id", "node", "last", "after")
        )

    @cached_property
    def limits(self) -> DataFrame:
        """What a run was made with, as its lives tell at their start; null where they do not.

        `last_us` is when something disturbed the run last: a start, a fault, an end.
        """
        is_start = F.col("etype") == "start"
        told = [
            F.max(F.when(is_start, F.col("aux")[name].try_cast("bigint"))).alias(name)
            for name in NAMES
        ]
        disturbing = self.quiet_events.where(F.col("etype").isin(*DISTURBANCES))
        return kept(disturbing.groupBy("run_id").agg(*told, F.max("t_us").alias("last_us")))

    @cached_property
    def row_findings(self) -> DataFrame:
        """What was found by looking at rows: `rows.OUTPUT`."""
        from evensong.spark.segments import judge_rows

        return judge_rows(self)

    @cached_property
    def sound_coms(self) -> DataFrame:
        """com(c) of every life, for each c that the digests prove sound."""
        return self.sound(self.account.coms)

    def sound(self, rows: DataFrame) -> DataFrame:
        """Return rows of configurations that are not judged row by row, by their `rank`."""
        from evensong.spark.segmented import not_in

        return not_in(self.spark, self.segments, rows)
