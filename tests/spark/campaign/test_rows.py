import pytest

from evensong.core.engine import ENGINES
from evensong.core.totem.ring import SingleRing
from evensong.sim.campaign import Done, perform
from evensong.sim.tally import Tally
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.rows import FAILED, LOST, PASSED, from_parquet, to_parquet, to_row

SMALL = Campaign(range(4), nodes=3, messages=30)


def performed(campaign: Campaign, seed: int) -> Done:
    task = campaign.task(seed)
    return Done(task, perform(task))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clients", [False, True])
def test_a_run_comes_back_from_its_row_as_it_was_judged(clients: bool, engine: str) -> None:
    campaign = Campaign(range(3), nodes=3, messages=30, clients=clients, engine=engine)
    runs = [performed(campaign, seed) for seed in (2, 0, 1)]
    again = from_parquet(to_parquet(runs, campaign), campaign)
    assert again == sorted(runs, key=lambda done: done.task.seed)
    before, after = (Tally(clients=clients, engine=engine) for _ in range(2))
    for done in runs:
        before.add(done)
    for done in again:
        after.add(done)
    assert after.to_plain() == before.to_plain()


def test_a_row_counts_what_every_property_was_about() -> None:
    row = to_row(performed(SMALL, 0), SMALL)
    assert row["status"] == PASSED
    verdicts = row["verdicts"]
    assert isinstance(verdicts, list)
    by_property = {one["property"]: one for one in verdicts}
    assert by_property["EVS1.2"]["status"] == "pass"
    assert by_property["EVS1.2"]["n_checked"] > 0
    assert by_property["I1"]["status"] == "pass"
    assert by_property["EVS4"]["n_violations"] == 0


def test_a_run_that_was_cut_short_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise OverflowError("a number too large")

    monkeypatch.setattr(SingleRing, "submit", stumble)
    done = performed(SMALL, 1)
    row = to_row(done, SMALL)
    assert (row["status"], row["is_cut_short"]) == (FAILED, True)
    (again,) = from_parquet(to_parquet([done], SMALL), SMALL)
    assert again.outcome is not None
    assert again.outcome.statuses == {}
    assert [one.property_id for one in again.outcome.violations] == ["bug"]
    assert "a number too large" in again.outcome.violations[0].text


def test_a_lost_run_keeps_its_reason() -> None:
    done = Done(SMALL.task(3), None, "it raised\nMemoryError")
    assert to_row(done, SMALL)["status"] == LOST
    assert from_parquet(to_parquet([done], SMALL), SMALL) == [done]
