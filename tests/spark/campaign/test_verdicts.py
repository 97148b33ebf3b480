from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evensong.sim.campaign import Done
from evensong.sim.evs import Status, Violation
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.store import Store
from evensong.spark.campaign.tasks import Ran, run_seed
from evensong.spark.campaign.verdicts import AUDIT, COLUMNS, SIMULATOR, Audit, write_verdicts
from evensong.spark.files import Folder

CAMPAIGN = Campaign(range(2), nodes=2, messages=5, traces=1)
TORN = ["run 7: torn"]
VERDICT = "run_id string, property string, status string, n_checked long, n_unknown long, " + (
    "n_violations long, samples array<string>, took_ms double"
)


def filled(spark: SparkSession, directory: Path, campaign: Campaign = CAMPAIGN) -> Store:
    store = Store(Folder(spark, str(directory)), campaign)
    store.add(campaign.seeds, [run_seed(campaign, seed) for seed in campaign.seeds], [])
    return store


def saying(status: str, property_id: str = "EVS1.2") -> Audit:
    """Return an audit that has one thing to say of the run whose trace is there."""

    def audit(spark: SparkSession, path: str) -> tuple[DataFrame, list[str]]:
        assert path.endswith("/traces")
        row = ("0", property_id, status, 3, 0, 1, ["n1 did it"], 1.5)
        return spark.createDataFrame([row], VERDICT), TORN

    return audit


def table(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.read.parquet(str(directory / "verdicts"))


def test_without_traces_the_simulator_judges_alone(spark: SparkSession, tmp_path: Path) -> None:
    untraced = replace(CAMPAIGN, traces=0)
    assert write_verdicts(spark, filled(spark, tmp_path, untraced), saying("fail")) == (0, [], [])
    verdicts = table(spark, tmp_path)
    assert tuple(verdicts.columns) == COLUMNS
    assert [row.judge for row in verdicts.select("judge").distinct().collect()] == [SIMULATOR]
    assert verdicts.select("run_id").distinct().count() == 2
    assert verdicts.groupBy("run_id", "property").count().where("count > 1").count() == 0


def test_the_audit_is_joined_in_and_agrees(spark: SparkSession, tmp_path: Path) -> None:
    store = filled(spark, tmp_path)
    assert write_verdicts(spark, store, saying("pass")) == (1, [], TORN)
    (row,) = table(spark, tmp_path).where(F.col("judge") == AUDIT).collect()
    assert (row.run_id, row.property, row.n_checked, row.samples) == (
        "0",
        "EVS1.2",
        3,
        ["n1 did it"],
    )


def test_judges_that_contradict_each_other_are_named(spark: SparkSession, tmp_path: Path) -> None:
    assert write_verdicts(spark, filled(spark, tmp_path), saying("fail")) == (1, ["0 EVS1.2"], TORN)


def test_what_a_judge_leaves_open_contradicts_nobody(spark: SparkSession, tmp_path: Path) -> None:
    store = filled(spark, tmp_path)
    assert write_verdicts(spark, store, saying("inconclusive")) == (1, [], TORN)
    assert write_verdicts(spark, store, saying("fail", "judged by it alone")) == (
        1,
        [],
        TORN,
    )


def test_a_broken_promise_comes_with_its_witness(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), CAMPAIGN)
    done = run_seed(CAMPAIGN, 0).done
    assert done.outcome is not None
    broken = replace(
        done.outcome,
        violations=(Violation("EVS4", "n1 and n2 differ"), Violation("EVS3", "n1 lacks its own")),
        statuses={**done.outcome.statuses, "EVS4": Status.FAIL, "EVS3": Status.FAIL},
    )
    store.add(CAMPAIGN.seeds, [Ran(Done(done.task, broken))], [])
    write_verdicts(spark, store, saying("pass"))
    failed = table(spark, tmp_path).where("status = 'fail'").orderBy("property").collect()
    assert [(row.property, row.samples) for row in failed] == [
        ("EVS3", ["n1 lacks its own"]),
        ("EVS4", ["n1 and n2 differ"]),
    ]
