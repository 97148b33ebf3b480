from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evensong.report.model import Verdict
from evensong.sim.run import run_recorded
from evensong.sim.swarm import swarm
from evensong.spark.metrics.figures import runs
from evensong.spark.metrics.tables import TABLES, measured, write_tables
from evensong.spark.stories import stories
from evensong.trace.changes import changes
from evensong.trace.parquet import read_trace, write_trace
from tests.spark.metrics.tiny import MS, read
from tests.spark.metrics.tiny import tiny as tiny_history

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from evensong.sim.history import History

SEEDS = range(12)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of these tests in one trace, so that Spark measures them in one go."""
    directory = tmp_path_factory.mktemp("traces")
    write_trace(tiny_history(), directory, "tiny")
    write_trace(tiny_history(("here", "there")), directory, "two-machines")
    write_trace(tiny_history(("here", "here")), directory, "one-machine")
    write_trace(tiny_history(("", "")), directory, "nameless")
    write_trace(bare_history(), directory, "bare")
    for seed in SEEDS:
        write_trace(run_recorded(swarm(seed))[1], directory, str(seed))
    return directory


def bare_history() -> "History":
    _, history = run_recorded(swarm(3))
    for life in history.lives.values():
        bare = [event._replace(pos=0) for event in life.events if event.etype != "token"]
        life.events[:] = bare
        life.deliveries.clear()
        life.sends.clear()
    return history


@pytest.fixture(scope="module")
def rows(
    spark: "SparkSession", written: Path, tmp_path_factory: pytest.TempPathFactory
) -> "dict[str, list[Row]]":
    """Every table, as it comes back from Parquet."""
    tables_in = tmp_path_factory.mktemp("tables")
    with measured(read(spark, written)) as tables:
        assert tuple(tables) == TABLES
        write_tables(tables, str(tables_in))
    assert sorted(path.name for path in tables_in.iterdir()) == sorted(TABLES)
    return {name: spark.read.parquet(str(tables_in / name)).collect() for name in TABLES}


def of_run(rows: "dict[str, list[Row]]", run_id: str) -> "dict[str, list[Row]]":
    return {name: [row for row in found if row.run_id == run_id] for name, found in rows.items()}


@pytest.fixture(scope="module")
def tiny(rows: "dict[str, list[Row]]") -> "dict[str, list[Row]]":
    return of_run(rows, "tiny")


def test_lives_have_their_clock_their_times_and_their_end(tiny: "dict[str, list[Row]]") -> None:
    one, two = tiny["lives"]
    assert (one.node, one.clock, one.origin_us, one.from_us, one.to_us) == (
        1, "virtual", 0, 0, 200 * MS,
    )  # fmt: skip
    assert (two.node, two.clock, two.origin_us, two.from_us, two.to_us) == (
        2, "virtual", 0, 1 * MS, 190 * MS,
    )  # fmt: skip
    assert [(life.ended, life.level, life.gaps, life.has_beginning) for life in (one, two)] == [
        ("quiesce", "events", 0, True)
    ] * 2
    assert [life.configurations for life in (one, two)] == [2, 3]


def test_throughput_counts_messages_not_packets(tiny: "dict[str, list[Row]]") -> None:
    assert {row.width_us for row in tiny["throughput"]} == {10 * MS}
    found = [
        (row.node, row.service, row.at_us // MS, row.units, row.messages, row.bytes)
        for row in tiny["throughput"]
    ]
    assert found == [
        (1, "agreed", 60, 2, 4, 35),
        (1, "safe", 60, 1, 1, 10),
        (2, "agreed", 60, 1, 3, 30),
        (2, "agreed", 70, 1, 1, 5),
        (2, "safe", 80, 1, 1, 10),
    ]


def test_load_has_shares_and_what_was_sent_again(tiny: "dict[str, list[Row]]") -> None:
    one, two = tiny["load"]
    assert (one.messages_sent, one.bytes_sent, one.units_sent) == (4, 40, 2)
    assert (one.messages_delivered, one.bytes_delivered, one.units_delivered) == (5, 45, 3)
    assert (one.visits, one.packets_sent, one.packets_resent) == (3, 2, 1)
    assert (two.visits, two.packets_sent, two.packets_resent) == (2, 1, 0)
    assert (one.share, two.share) == (0.8, 0.2)


def test_fairness_is_jains_index_over_the_members(tiny: "dict[str, list[Row]]") -> None:
    (ring,) = tiny["fairness"]
    assert (ring.conf_id, ring.members, ring.messages) == ("8.1", 2, 5)
    assert ring.jain == pytest.approx(25 / 34)
    assert (ring.least_share, ring.most_share) == (0.2, 0.8)


def test_latency_is_taken_at_the_sender_and_in_the_simulator_elsewhere_too(
    tiny: "dict[str, list[Row]]",
) -> None:
    found = {(row.kind, row.service): row for row in tiny["latency"]}
    own = found["own", "agreed"]
    assert (own.n, own.mean_us, own.p50_us, own.max_us) == (2, 3.5 * MS, 0, 7 * MS)
    assert found["own", "safe"].max_us == 4 * MS
    one_way = found["one_way", "agreed"]
    assert (one_way.n, one_way.max_us) == (2, 6 * MS)
    assert found["one_way", "safe"].p50_us == 20 * MS
    bins = [
        (row.step, row.n)
        for row in tiny["latency_density"]
        if (row.kind, row.service) == ("own", "agreed")
    ]
    assert bins == [(-1, 1), (51, 1)]  # at once, and 2 ** (51/4) = 6889 us up to 8192 us
    for row in tiny["latency_density"]:
        assert row.from_us < row.to_us


def test_a_round_of_the_token_is_timed_within_one_ring(tiny: "dict[str, list[Row]]") -> None:
    (one,) = tiny["rotation"]  # node 2 saw each of its rings' tokens once
    assert (one.node, one.n, one.mean_us, one.max_us) == (1, 2, 2 * MS, 3 * MS)
    (every,) = tiny["rounds"]
    assert (every.n, every.max_us) == (2, 3 * MS)
    assert sum(row.n for row in tiny["rotation_density"]) == 2


def test_a_change_is_timed_from_the_first_sign_to_the_last_installation(
    tiny: "dict[str, list[Row]]",
) -> None:
    (change,) = tiny["changes"]
    assert (change.conf_id, change.members, change.left, change.joined) == ("8.1", [1, 2], [], [1])
    assert (change.cause, change.noticed_by) == ("foreign beacon", 2)
    assert (change.noticed_us, change.agreed_us, change.installed_us) == (40 * MS, 45 * MS, 65 * MS)
    assert (change.took_us, change.slowest_us) == (25 * MS, 60 * MS)
    assert change.silence_us == 10 * MS
    assert (change.blow, change.detect_us) == ("a blow", 5 * MS)


def test_times_of_two_machines_are_never_compared(rows: "dict[str, list[Row]]") -> None:
    found = of_run(rows, "two-machines")
    assert {(row.clock, row.origin_us) for row in found["lives"]} == {
        ("here", 0),
        ("there", 1 * MS),
    }
    assert {row.kind for row in found["latency"]} == {"own"}
    (change,) = found["changes"]
    assert change.took_us is None
    assert (change.noticed_by, change.clock) == (2, "there")  # node 1 had only just started
    assert (change.noticed_us, change.agreed_us, change.installed_us) == (40 * MS, 45 * MS, 65 * MS)
    assert (change.blow, change.detect_us) == (None, None)  # it was struck on another machine
    # And time axes start with the first of each clock.
    assert min(row.at_us for row in found["throughput"] if row.node == 2) == 60 * MS


def test_daemons_of_one_machine_share_a_clock_but_not_a_way(rows: "dict[str, list[Row]]") -> None:
    found = of_run(rows, "one-machine")
    assert {(row.clock, row.origin_us) for row in found["lives"]} == {("here", 0)}
    assert {row.kind for row in found["latency"]} == {"own"}
    (change,) = found["changes"]
    assert (change.took_us, change.blow, change.detect_us) == (25 * MS, "a blow", 5 * MS)


def test_a_machine_without_a_name_has_times_of_its_own(rows: "dict[str, list[Row]]") -> None:
    found = of_run(rows, "nameless")
    assert len({row.clock for row in found["lives"]}) == 2
    (change,) = found["changes"]
    assert change.took_us is None


@pytest.fixture(scope="module")
def histories(written: Path) -> "dict[str, History]":
    return {str(seed): read_trace(written / f"run_id={seed}")[str(seed)] for seed in SEEDS}


def test_changes_agree_with_those_in_memory(
    rows: "dict[str, list[Row]]", histories: "dict[str, History]"
) -> None:
    found: dict[str, list[tuple[object, ...]]] = {}
    for row in rows["changes"]:
        if row.run_id not in histories:
            continue
        key = (row.conf_id, tuple(row.members), row.cause, row.noticed_by)
        times = (row.noticed_us, row.agreed_us, row.installed_us)
        found.setdefault(row.run_id, []).append((*key, *times, row.took_us))
    told = {
        run_id: [
            (
                str(one.conf.conf_id),
                one.conf.members,
                one.cause,
                one.noticed_by,
                one.noticed_us,
                one.agreed_us,
                one.installed_us,
                one.took_us(),
            )
            for one in changes(history)
        ]
        for run_id, history in histories.items()
    }
    assert sum(map(len, told.values())) > len(SEEDS)
    assert found == {run_id: ones for run_id, ones in told.items() if ones}


def test_what_was_counted_agrees_with_the_histories(
    rows: "dict[str, list[Row]]", histories: "dict[str, History]"
) -> None:
    for run_id, history in histories.items():
        found = of_run(rows, run_id)
        lives = history.lives.values()
        sent = sum(send.messages for life in lives for send in life.sends)
        delivered = sum(row.messages for life in lives for row in life.deliveries)
        assert sum(row.messages_sent for row in found["load"]) == sent
        assert sum(row.messages_delivered for row in found["load"]) == delivered
        assert sum(row.messages for row in found["throughput"]) == delivered
        assert len({row.at_us for row in found["throughput"]}) <= 61


def test_every_change_has_its_story(
    spark: "SparkSession", written: Path, rows: "dict[str, list[Row]]"
) -> None:
    told = stories(read(spark, written).events, ["0", "1", "2"])
    assert set(told) == {"0", "1", "2"}
    for run_id in told:
        for change in of_run(rows, run_id)["changes"]:
            story = told[run_id][change.conf_id]
            assert story.causes
            assert len(story.seen) == len(change.members)
            assert "times of one clock" in story.times


def test_a_page_shows_first_what_broke_something(spark: "SparkSession", written: Path) -> None:
    verdicts = {"7": [Verdict("TG", "fail", 10, 0, 1, ("n1 …",))], "3": [Verdict("TG", "pass", 4)]}
    with measured(read(spark, written)) as tables:
        found, n_runs = runs(tables, verdicts, most=2)
    assert [run.run_id for run in found] == ["bare", "7"]
    assert n_runs == len(SEEDS) + 5
    assert found[1].verdicts == tuple(verdicts["7"])
    for run in found:
        ends = {(life.node, life.incarnation): life.to_us for life in run.lives}
        assert {(stay.node, stay.incarnation) for stay in run.stays} <= set(ends)
        assert all(
            0 <= stay.from_us <= stay.to_us <= ends[stay.node, stay.incarnation]
            for stay in run.stays
        )


def test_a_trace_of_memberships_alone_has_changes_and_no_messages(
    rows: "dict[str, list[Row]]",
) -> None:
    found = of_run(rows, "bare")
    assert found["changes"]
    for name in ("throughput", "latency", "latency_density", "rotation", "rounds", "fairness"):
        assert found[name] == []
    assert {row.share for row in found["load"]} == {None}
