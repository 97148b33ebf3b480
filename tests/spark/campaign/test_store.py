from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensong.errors import BadCampaign
from evensong.sim.campaign import Done
from evensong.sim.setup import setup_from_json
from evensong.spark.campaign.plan import Campaign
from evensong.spark.campaign.store import Store
from evensong.spark.campaign.tasks import run_seed
from evensong.spark.files import Folder
from evensong.trace.parquet import read_trace

SMALL = Campaign(range(4), nodes=3, messages=30, traces=1)


def everything_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_file_is_replaced_and_nothing_else_is_left(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path / "new"))
    folder.write("a/b.txt", b"one")
    folder.write("a/b.txt", b"two \x00\xff")
    assert folder.read("a/b.txt") == b"two \x00\xff"
    assert folder.names("a") == ["b.txt"]
    assert folder.names("c") == []
    assert everything_below(tmp_path) == ["new/a/b.txt"]


def test_a_directory_is_replaced_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(spark, str(tmp_path))
    folder.write_tree("t", [("x/1", b"1"), ("2", b"2")])
    folder.write_tree("t", [("x/3", b"3")])
    assert everything_below(tmp_path) == ["t/x/3"]


def test_what_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(BadCampaign, match=r"file/campaign\.json: cannot be written"):
        Folder(spark, str(tmp_path / "file")).write("campaign.json", b"")
    with pytest.raises(BadCampaign, match="nosuch://place: cannot be used"):
        Folder(spark, "nosuch://place")


def test_parts_and_traces_are_found_again(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    store.open()
    assert list(store.finished()) == []
    runs = [run_seed(SMALL, seed) for seed in SMALL.seeds]
    store.add(SMALL.seeds, runs[1:], [runs[0].done])
    again = Store(Folder(spark, str(tmp_path)), SMALL)
    again.open()
    assert list(again.finished()) == [(SMALL.seeds, [ran.done for ran in runs])]
    store.add(SMALL.seeds, runs, [])
    assert again.traced() == ["0"] == list(read_trace(tmp_path / "traces"))


def test_a_directory_of_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BadCampaign, match="holds something else, and no campaign"):
        Store(Folder(spark, str(tmp_path)), SMALL).open()
    assert everything_below(tmp_path) == ["letters.txt"]


def test_another_campaign_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    Store(Folder(spark, str(tmp_path)), SMALL).open()
    with pytest.raises(BadCampaign, match=r"campaign\.json: another campaign is there"):
        Store(Folder(spark, str(tmp_path)), Campaign(range(5))).open()


def test_a_plan_is_kept_where_it_can_be_run_from(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    setup = SMALL.task(0).setup()
    place = store.keep_plan("plan-0-I5.json", setup)
    assert setup_from_json(Path(place).read_text(encoding="utf-8")) == setup


def test_lost_runs_are_found_as_lost(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    lost = Done(SMALL.task(2), None, "it raised")
    store.add(range(2, 3), [], [lost])
    assert list(store.finished()) == [(range(2, 3), [lost])]


@pytest.mark.parametrize("is_cut_by", [20, 10_000])
def test_a_part_that_is_damaged_is_named(
    is_cut_by: int, spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    store.add(range(2, 3), [], [Done(SMALL.task(2), None, "it raised")])
    part = tmp_path / "runs" / "seeds-2-3.parquet"
    part.write_bytes(part.read_bytes()[:-is_cut_by])
    told = r"is damaged \(.*\); without it, its seeds are done again"
    with pytest.raises(BadCampaign, match=rf"runs/seeds-2-3\.parquet: {told}"):
        list(store.finished())


def test_a_part_of_other_seeds_than_it_says_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(Folder(spark, str(tmp_path)), SMALL)
    store.add(range(2, 3), [], [Done(SMALL.task(2), None, "it raised")])
    part = tmp_path / "runs" / "seeds-2-3.parquet"
    part.rename(part.with_name("seeds-0-4.parquet"))
    with pytest.raises(BadCampaign, match=r"seeds-0-4\.parquet: has other seeds than its name"):
        list(store.finished())


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_summary_that_is_damaged_is_none(
    content: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "summary.json").write_text(content, encoding="utf-8")
    assert Store(Folder(spark, str(tmp_path)), SMALL).summary() is None
