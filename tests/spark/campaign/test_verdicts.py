import io
from dataclasses import replace

import pyarrow.parquet as pq

from evensong.sim.campaign import Done
from evensong.sim.evs import Status, Violation
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.tasks import run_seed
from evensong.spark.campaign.verdicts import (
    SCHEMA,
    Audited,
    disagreements,
    of_audit,
    of_simulator,
    to_parquet,
)
from evensong.spark.verdicts import Verdict

CAMPAIGN = Campaign(range(2), nodes=2, messages=5)
PASSED = Verdict("0", "EVS1.2", "pass", 3, 0, 0, [], 15)
FAILED = Verdict("0", "EVS4", "fail", 3, 0, 1, ["n1 did it"], 15)


def test_the_simulator_says_one_thing_of_each_run_and_property() -> None:
    runs = [run_seed(CAMPAIGN, seed).done for seed in (1, 0)]
    lost = Done(CAMPAIGN.task(5), None, "it raised")
    rows = of_simulator([*runs, lost], CAMPAIGN)
    whose = [(row["run_id"], row["property"]) for row in rows]
    assert len(set(whose)) == len(whose)
    assert [run_id for run_id, name in whose if name == "EVS1.2"] == ["0", "1"]
    assert {row["judge"] for row in rows} == {"simulator"}
    assert pq.read_table(io.BytesIO(to_parquet(rows))).to_pylist() == rows


def test_a_broken_promise_comes_with_its_witness() -> None:
    done = run_seed(CAMPAIGN, 0).done
    assert done.outcome is not None
    broken = replace(
        done.outcome,
        violations=(Violation("EVS4", "n1 and n2 differ"), Violation("I5", "n1 is hasty")),
        statuses={**done.outcome.statuses, "EVS4": Status.FAIL},
    )
    failed = [
        row for row in of_simulator([Done(done.task, broken)], CAMPAIGN) if row["status"] == "fail"
    ]
    assert [(row["property"], row["samples"]) for row in failed] == [
        ("I5", ["n1 is hasty"]),
        ("EVS4", ["n1 and n2 differ"]),
    ]
    assert failed[0]["n_violations"] == 1


def test_the_audit_speaks_in_the_same_form() -> None:
    rows = of_audit([FAILED, PASSED])
    assert [row["property"] for row in rows] == ["EVS1.2", "EVS4"]
    assert all(row.keys() == set(SCHEMA.names) for row in rows)
    (_, again) = pq.read_table(io.BytesIO(to_parquet(rows))).to_pylist()
    assert (again["judge"], again["samples"]) == ("audit", ["n1 did it"])


def test_judges_that_contradict_each_other_are_named() -> None:
    agreeing = {"0": {"EVS1.2": Status.PASS, "EVS4": Status.FAIL}}
    assert disagreements([PASSED, FAILED], agreeing) == []
    contrary = {"0": {"EVS1.2": Status.FAIL, "EVS4": Status.PASS}}
    assert disagreements([FAILED, PASSED], contrary) == ["0 EVS1.2", "0 EVS4"]


def test_what_a_judge_leaves_open_contradicts_nobody() -> None:
    assert disagreements([FAILED], {"0": {"EVS4": Status.INCONCLUSIVE}}) == []
    assert disagreements([PASSED], {"0": {"EVS1.2": Status.VACUOUS}}) == []
    assert disagreements([PASSED._replace(status="vacuous")], {"0": {"EVS1.2": Status.FAIL}}) == []
    assert disagreements([FAILED], {"0": {}}) == []
    assert disagreements([FAILED], {}) == []


def test_what_the_audit_came_to_is_read_back() -> None:
    audited = Audited(3, ["0 EVS4"], ["run 7: torn"])
    assert Audited.from_plain(audited._asdict()) == audited
