"""Which lives there are, how each ended, and which of them cannot be judged.

There are few lives however many rows they have, so they are looked at here and not by Spark. As in
`evensong.trace`: a life without its beginning or without its deliveries is *blank*, and takes part
as one of which nothing is known; a life is known up to its first gap; who lived again had died.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evensong.core.engine import ENGINES, TOTEM
from evensong.errors import BadTrace
from evensong.spark.tables import small_table
from evensong.trace.assembly import ENDS, ETYPES
from evensong.trace.parquet import KINDS
from evensong.trace.spool import LEVELS

CONF_ID: Final = r"^(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,9})$"
SCHEMA: Final = (
    "run_id string, node bigint, incarnation bigint, level string, is_blank boolean, "
    "is_bare boolean, is_absent boolean, has_gap boolean, gap_pos bigint, gap_pseq bigint, "
    "gap_sends bigint, ended string, is_cut boolean, n_events bigint, submitted bigint, "
    "engine string"
)


class Life(NamedTuple):
    """One life, as far as its events tell."""

    run_id: str
    node: int
    incarnation: int
    level: str = LEVELS[-1]
    is_blank: bool = False  # nothing of it can be used
    is_bare: bool = False  # its configurations can be used, and nothing else
    is_absent: bool = False  # it must have been, and has no trace
    has_gap: bool = False
    gap_pos: int | None = None
    gap_pseq: int | None = None
    gap_sends: int | None = None
    ended: str = ""  # "" (the recording stops), "fail", "stop", "quiesce" or "lost"
    is_cut: bool = True  # it may have gone on where its recording stops
    n_events: int = 0  # with an end that was inferred
    submitted: int | None = None  # units that its client handed over, if its end tells
    engine: str = TOTEM  # of its run

    @property
    def name(self) -> str:
        """What the life is called in a message."""
        return f"node {self.node}/{self.incarnation} of run {self.run_id}"


class ReadLives(NamedTuple):
    """The lives of every run, and what is wrong with runs that cannot be put together."""

    lives: list[Life]
    refused: dict[str, str]  # by run


def read_lives(events: DataFrame, last_ends: Mapping[tuple[str, int], str]) -> ReadLives:
    """Return every life that has events; `last_ends` tells the end of a node's last one."""
    is_end = F.col("etype").isin(*ENDS)
    is_gap = F.col("etype") == "gap"
    is_conf = F.col("etype") == "conf"
    is_limit = F.col("etype").isin("start", "gap", *ENDS)
    told = (
        events.groupBy("run_id", "node", "incarnation")
        .agg(
            F.min("pseq").alias("first"),
            F.max("pseq").alias("last"),
            F.count("*").alias("n_events"),
            F.count_if(F.col("etype") == "start").alias("n_starts"),
            F.max(F.when(F.col("etype") == "start", F.col("aux")["level"])).alias("level"),
            F.max(F.when(F.col("etype") == "start", F.col("aux")["engine"])).alias("engine"),
            F.max_by(F.when(is_end, F.col("etype")), F.when(is_end, F.col("pseq"))).alias("end"),
            F.max(F.when(is_end, F.col("pseq"))).alias("end_pseq"),
            F.max(F.when(is_end, F.col("aux")["submitted"]).try_cast("bigint")).alias("submitted"),
            F.min_by(F.when(is_gap, F.col("aux")), F.when(is_gap, F.col("pseq"))).alias("gap"),
            F.max(F.when(~F.col("etype").isin(*ETYPES), F.col("etype"))).alias("strange"),
            F.min(F.when(is_conf & ~_makes_sense(), F.col("pseq"))).alias("bad_conf"),
            F.min(F.when(is_limit & _has_null(), F.col("pseq"))).alias("bad_aux"),
        )
        .collect()
    )
    lives = []
    refused: dict[str, str] = {}
    for row in told:
        try:
            lives.append(_life(row.asDict()))
        except BadTrace as error:
            refused.setdefault(row["run_id"], str(error))
    lives = _judged(life for life in lives if life.run_id not in refused)
    engines = _engines(lives, refused)
    lives = [life._replace(engine=engines[life.run_id]) for life in lives if life.run_id in engines]
    return ReadLives(_settled(lives, last_ends), refused)


def _engines(lives: Iterable[Life], refused: dict[str, str]) -> dict[str, str]:
    """Return the engine of each run, which its lives tell; refuse runs that are not of one."""
    told: dict[str, set[str]] = {}
    for life in lives:
        told.setdefault(life.run_id, set()).update([] if life.is_blank else [life.engine])
    found = {}
    for run_id, names in told.items():
        engines = names or {TOTEM}
        if len(engines) > 1 or not engines <= set(ENGINES):
            refused[run_id] = f"run {run_id}: its engines are {', '.join(sorted(engines))}"
        else:
            found[run_id] = engines.pop()
    return found


def _makes_sense() -> Column:
    """Whether the row of a configuration says all that one is made of."""
    ids = [F.col(name) for name in ("conf_id", "prev_conf_id")]
    numbers = [F.split_part(one, F.lit("."), F.lit(1)).try_cast("bigint") for one in ids]
    said = [
        *(one.rlike(CONF_ID) for one in ids),
        *(number.isNotNull() for number in numbers),
        F.col("conf_kind").isin(*KINDS),
        F.size("members") > 0,
        F.forall("members", lambda member: member.isNotNull()),
    ]
    return F.coalesce(reduce(Column.__and__, said), F.lit(False))


def _has_null() -> Column:
    values = F.map_values("aux")
    return F.coalesce(F.exists(values, lambda value: value.isNull()), F.lit(False))


def _check_events(life: Life, row: dict[str, object]) -> None:
    """Refuse a life with events that tell nothing, as nothing would be judged by them."""
    if row["strange"] is not None:
        kinds = ", ".join(ETYPES)
        raise BadTrace(f"{life.name}: an event {str(row['strange'])[:50]!r} is none of {kinds}")
    if row["bad_conf"] is not None:
        raise BadTrace(
            f"{life.name}: event {row['bad_conf']} is a configuration without its id, kind, "
            "members or what was before it"
        )
    if row["bad_aux"] is not None:
        raise BadTrace(f"{life.name}: event {row['bad_aux']} has null in its aux")


def _life(row: dict[str, object]) -> Life:
    run_id, node, incarnation = row["run_id"], row["node"], row["incarnation"]
    first, last, n_events, n_starts = row["first"], row["last"], row["n_events"], row["n_starts"]
    assert isinstance(run_id, str)
    for number in (node, incarnation, first, last, n_events, n_starts):
        assert isinstance(number, int)
    life = Life(run_id, int(str(node)), int(str(incarnation)), engine=str(row["engine"] or TOTEM))
    _check_events(life, row)
    level = str(row["level"] or LEVELS[-1])
    gap = row["gap"]
    is_headless = int(str(first)) > 0
    if gap is not None:
        assert isinstance(gap, dict)
        try:
            pos, pseq, sends = (int(gap[name]) for name in ("pos", "pseq", "sends"))
        except (KeyError, ValueError):
            raise BadTrace(f"{life.name}: a gap that does not say where it begins") from None
        is_ended = row["end_pseq"] is not None and int(str(row["end_pseq"])) < pseq
        return life._replace(
            level=level,
            is_blank=is_headless or level != LEVELS[-1] or pseq == 0,
            is_bare=not is_headless,
            has_gap=True,
            gap_pos=pos,
            gap_pseq=pseq,
            gap_sends=sends,
            ended=str(row["end"]) if is_ended else "",
            n_events=pseq,
        )
    if int(str(n_starts)) > 1:
        raise BadTrace(f"{life.name}: starts {n_starts} times: rows of different runs are mixed")
    if int(str(n_events)) != int(str(last)) - int(str(first)) + 1:
        raise BadTrace(
            f"{life.name}: has {n_events} events numbered {first} to {last}: some are missing, or "
            "rows of different runs are mixed"
        )
    return life._replace(
        level=level,
        is_blank=is_headless or level != LEVELS[-1],
        is_bare=not is_headless,
        ended=str(row["end"] or ""),
        n_events=int(str(n_events)),
        submitted=int(str(row["submitted"])) if row["submitted"] is not None else None,
    )


def _judged(lives: Iterable[Life]) -> list[Life]:
    """Decide per run: with messages somewhere, a blank life is unknown; else all are bare."""
    by_run: dict[str, list[Life]] = {}
    for life in lives:
        by_run.setdefault(life.run_id, []).append(life)
    judged = []
    for run in by_run.values():
        has_messages = not all(life.is_blank and life.is_bare for life in run)
        judged += [
            life._replace(is_blank=life.is_blank and has_messages, is_bare=not has_messages)
            for life in run
        ]
    return judged


def _settled(lives: list[Life], last_ends: Mapping[tuple[str, int], str]) -> list[Life]:
    """Say how lives ended whose traces do not; of a blank one nothing is known."""
    latest: dict[tuple[str, int], int] = {}
    for life in lives:
        whose = (life.run_id, life.node)
        latest[whose] = max(life.incarnation, latest.get(whose, 0))
    settled = []
    for life in lives:
        whose = (life.run_id, life.node)
        ended, n_events = life.ended, life.n_events
        if not ended and not life.has_gap:
            is_last = life.incarnation == latest[whose]
            ended = last_ends.get(whose, "") if is_last else "lost"
            n_events += bool(ended)
        if life.is_blank:
            ended, n_events = "", 0
        settled.append(life._replace(ended=ended, is_cut=ended in ("", "lost"), n_events=n_events))
    return sorted(settled)


def lives_table(spark: SparkSession, lives: Iterable[Life]) -> DataFrame:
    """Return lives as a DataFrame."""
    return small_table(spark, [tuple(life) for life in lives], SCHEMA)
