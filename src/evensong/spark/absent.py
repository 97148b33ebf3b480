"""Lives that must have been, though there is no trace of them, for all runs of a history.

What follows from what is decided by `evensong.trace.absence`. Here the few runs are found in which
there is something to infer: where a member of a ring has no life that installed it, or where units
are delivered of a sender that has no trace.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from evensong.core.effects import Service
from evensong.core.ids import Configuration, RingId
from evensong.core.unit import UnitId
from evensong.sim import history as sim
from evensong.spark.history import LIFE
from evensong.spark.lives import Life
from evensong.trace.absence import absent_lives

if TYPE_CHECKING:
    from evensong.spark.history import History

SPOKEN: Final = (*LIFE, "conf_no", "sender", "sender_inc")


def find_absent(history: "History", spoken: DataFrame | None) -> list[Life]:
    """Return the lives that were and are not there; `spoken` are senders without a trace."""
    spans = history.spans
    installed = spans.select("run_id", "node", "conf_id").distinct()
    lacking = (
        spans.where("not is_transitional")
        .select("run_id", "conf_id", F.explode("members").alias("node"))
        .distinct()
        .join(installed, ["run_id", "conf_id", "node"], "left_anti")
    )
    strangers = [] if spoken is None else spoken.select(*SPOKEN).distinct().collect()
    runs = {row["run_id"] for row in lacking.select("run_id").distinct().collect()}
    runs |= {row["run_id"] for row in strangers}
    if not runs:
        return []
    chosen = F.col("run_id").isin(*runs)
    confs = spans.where(chosen).orderBy(*LIFE, "conf_no").collect()
    states = history.quiet_events.where(chosen & (F.col("etype") == "state")).select(
        *LIFE, "pseq", F.col("aux")["state"].alias("state"), F.col("aux")["ring"].alias("ring")
    )
    agreed = (
        states.where("state = 'commit'")
        .select(*LIFE, "state", "ring")
        .distinct()
        .union(
            states.groupBy(*LIFE)
            .agg(F.max_by("state", "pseq").alias("state"), F.max_by("ring", "pseq").alias("ring"))
            .where("state = 'agree'")
        )
        .collect()
    )
    histories = {run_id: sim.History() for run_id in runs}
    for life in history.known_lives:
        if life.run_id in histories:
            known = sim.Life(life.node, life.incarnation)
            known.ended = life.ended
            histories[life.run_id].lives[life.node, life.incarnation] = known
    for row in confs:
        _life_of(histories, row).confs.append(_configuration(row))
    for row in agreed:
        aux = (("state", row["state"]), ("ring", row["ring"]))
        _life_of(histories, row).events.append(sim.Event(0, 0, "state", 0, aux=aux))
    for row in sorted(strangers, key=_place):
        _life_of(histories, row).deliveries.append(_delivery(row))
    return [
        Life(run_id, node, incarnation, is_absent=True)
        for run_id, one in sorted(histories.items())
        for node, incarnation in absent_lives(one)
    ]


def _life_of(histories: dict[str, sim.History], row: Row) -> sim.Life:
    return histories[row["run_id"]].lives[row["node"], row["incarnation"]]


def _place(row: Row) -> tuple[int, ...]:
    return tuple(row[name] if row[name] is not None else -1 for name in SPOKEN[1:])


def _configuration(row: Row) -> Configuration:
    return Configuration(
        RingId(row["conf_seq"], row["conf_rep"]),
        ring_id(row["prev_conf_id"]),
        tuple(row["members"]),
        transitional=row["is_transitional"],
        cause="",
    )


def ring_id(text: str) -> RingId:
    """Read the id of a configuration."""
    seq, _, rep = text.partition(".")
    return RingId(int(seq), int(rep))


def _delivery(row: Row) -> sim.Delivery:
    unit_id = UnitId(row["sender"], row["sender_inc"], 0)
    conf_no = row["conf_no"] if row["conf_no"] is not None else -1
    return sim.Delivery(unit_id, RingId(0, 0), 0, conf_no, Service.AGREED, False, 0, False, 0, 0, 0)
