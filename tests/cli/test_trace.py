"""`evensong trace` on traces of real daemons, and of daemons whose traces were tampered with."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from evensong.cli.main import main
from evensong.core.effects import Packet, Sent, Service, StateChange
from evensong.core.ids import NO_RING, Configuration
from evensong.core.unit import UnitId
from evensong.daemon.spool import Spool, Traced
from evensong.sim.evs import Status
from evensong.sim.evs.limits import limits_told, submitted_told
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import Delivery, Life
from evensong.trace import directory
from evensong.trace.assembly import TracedLife
from evensong.trace.judge import judge
from evensong.trace.parquet import read_trace, write_trace
from evensong.trace.spool import OPEN, Fragment, read_spool
from tests.daemon.local import LocalCluster
from tests.daemon.test_spool import RING, begin, deliver, payload

Told: TypeAlias = dict[str, object]


def told(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, Told]:
    capsys.readouterr()
    code = main(["trace", *map(str, args), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """Three daemons: one killed and started again, all stopped in the end."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 40, "safe" if node == 2 else "agreed")
        cluster.wait_until_quiet(cluster.nodes)
        cluster.ask(2, do="flush")
        cluster.send(2, 40)
        cluster.kill(2)  # what it did last is lost or not, as luck has it
        cluster.wait_for_ring([1, 3])
        cluster.start([2])
        cluster.wait_for_ring()
        cluster.send(2, 10)
        cluster.wait_until_quiet(cluster.nodes)
        for node in cluster.nodes:
            cluster.signal(node, signal.SIGTERM)
        assert [cluster.reap(node) for node in cluster.nodes] == [0, 0, 0]
        return cluster


def test_inspect_shows_every_life(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = told(capsys, "inspect", cluster.directory)
    assert code == 0
    runs = shown["runs"]
    assert isinstance(runs, dict)
    lives = runs["test"]
    assert [(life["node"], life["ended"]) for life in lives] == [
        (1, "stop"),
        (2, "lost"),
        (2, "stop"),
        (3, "stop"),
    ]
    assert {life["level"] for life in lives} == {"events"}
    assert all(life["deliveries"] >= 10 for life in lives)
    assert main(["trace", "inspect", str(cluster.state(2))]) == 0
    assert "lost after" in capsys.readouterr().out


def test_check_holds_and_names_what_is_unknown(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = told(capsys, "check", cluster.directory)
    assert code == 0, shown
    runs = shown["runs"]
    assert isinstance(runs, dict)
    assert runs["test"]["complete"]
    assert runs["test"]["properties"]["EVS6.3"]["status"] == "pass"
    assert main(["trace", "check", *(str(cluster.config(node)) for node in cluster.nodes)]) == 0
    assert "holds; unknown: " in capsys.readouterr().out


def test_the_trace_of_a_node_that_is_missing_is_missed_and_breaks_nothing(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = told(capsys, "check", cluster.state(1), cluster.state(3))
    assert code == 3
    assert (shown["verdict"], shown["complete"], shown["holds"]) == ("inconclusive", False, False)
    runs = shown["runs"]
    assert isinstance(runs, dict)
    assert runs["test"]["properties"]["EVS1.3"]["status"] == "inconclusive"
    assert {node for node, _ in runs["test"]["absent"]} == {2}
    assert main(["trace", "check", str(cluster.state(1)), str(cluster.state(3))]) == 3
    assert "lives have no trace here; unknown: " in capsys.readouterr().out


def two_traces(root: Path, level: str) -> None:
    """Node 2 delivers in another order than node 1: broken, for those who can see it."""
    for node in (1, 2):
        directory = root / f"n{node}" / "trace"
        directory.mkdir(parents=True)
        spool = Spool(Traced("test", node, 9, 3, level, directory), 1, lambda _: None)
        conf = Configuration(RING, NO_RING, (1, 2), transitional=False, cause="start")
        spool.change_state(StateChange("commit", RING, "start", 0), 1)
        spool.install(conf, 2)
        spool.begin_anew()
        for seq in (1, 2) if node == 1 else (2, 1):
            deliver(spool, seq, payload(seq))
        spool.end("stop", 9)


@pytest.mark.parametrize(
    ("level", "is_trimmed", "code", "verdict", "last"),
    [
        ("events", False, 1, "broken", "BROKEN; "),
        ("views", False, 3, "inconclusive", "membership holds; messages were not traced"),
        ("digests", False, 3, "inconclusive", "messages were not traced (level digests)"),
        (
            "events",
            True,
            3,
            "inconclusive",
            "nothing could be judged; 2 lives are without their beginning",
        ),
    ],
)
def test_only_what_was_judged_holds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    level: str,
    is_trimmed: bool,
    code: int,
    verdict: str,
    last: str,
) -> None:
    two_traces(tmp_path, level)
    if is_trimmed:
        for first in tmp_path.glob("n?/trace/spool-000000.spool"):
            first.unlink()
    assert main(["trace", "check", str(tmp_path)]) == code
    assert last in capsys.readouterr().out.splitlines()[-1]
    exit_code, shown = told(capsys, "check", tmp_path)
    assert exit_code == code
    assert (shown["verdict"], shown["complete"]) == (verdict, verdict == "broken")


def test_that_earlier_lives_were_deleted_is_known_and_breaks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for incarnation in (9, 12):
        spool = begin(tmp_path, incarnation=incarnation)
        spool.install(Configuration(RING, NO_RING, (1,), transitional=False, cause="start"), 2)
        spool.send(Sent(RING, 1, [Packet(Service.AGREED, payload(1, incarnation=incarnation))]), 4)
        deliver(spool, 1, payload(1, incarnation=incarnation))
        spool.end("stop", 9)
    (tmp_path / "spool-000000.spool").unlink()
    code, shown = told(capsys, "check", tmp_path)
    assert (code, shown["verdict"], shown["complete"]) == (0, "holds", False)
    assert main(["trace", "check", str(tmp_path)]) == 0
    assert "what its node did before it was deleted" in capsys.readouterr().out


def test_a_merged_run_is_judged_alike(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["merge", cluster.directory, "--output", tmp_path, "--run", "monday"]
    code, merged = told(capsys, *arguments)
    assert code == 0
    assert merged["nodes"] == [1, 2, 3]
    for path in (tmp_path, tmp_path / "run_id=monday"):
        code, shown = told(capsys, "check", path)
        assert code == 0
        runs = shown["runs"]
        assert isinstance(runs, dict)
        assert runs["monday"]["lives"] == 4
        properties = runs["monday"]["properties"]
        assert properties["EVS6.3"]["status"] == "pass"
        assert properties["TF1"]["status"] == "pass"  # daemons tell their limits
    assert main(["trace", *map(str, arguments)]) == 2
    assert "a trace of that name is already there" in capsys.readouterr().err


def test_a_merge_carries_limits_submissions_and_what_sessions_were_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = run_recorded(draw(3))
    write_trace(run, tmp_path / "trace", "a")
    arguments = ("merge", tmp_path / "trace", "--output", tmp_path / "merged", "--run", "b")
    assert told(capsys, *arguments)[0] == 0
    merged = read_trace(tmp_path / "merged")["b"]
    assert merged.lives.keys() == run.lives.keys()
    for key, life in run.lives.items():
        assert merged.lives[key].heard == life.heard
        assert merged.lives[key].said == life.said
        told_of = [(e.pos, e.etype, e.cause, e.aux) for e in life.events]
        assert [(e.pos, e.etype, e.cause, e.aux) for e in merged.lives[key].events] == told_of
    assert any(life.heard for life in run.lives.values())
    assert limits_told(merged) == limits_told(run)
    assert submitted_told(merged) == submitted_told(run)


def test_a_merge_begins_again_where_files_move_under_its_eyes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace").mkdir()
    spool = begin(tmp_path / "trace")

    def late(path: Path) -> Fragment | None:
        if path.suffix == OPEN and len(list(path.parent.iterdir())) < 3:
            spool.begin_anew()
        return read_spool(path)

    monkeypatch.setattr(directory, "read_spool", late)
    code, merged = told(capsys, "merge", tmp_path / "trace", "--output", tmp_path / "merged")
    assert (code, merged["nodes"]) == (0, [1])
    assert len(list((tmp_path / "merged").glob("run_id=test/node=1/events-*"))) == 3


@pytest.mark.parametrize("table", ["deliveries", "sends", "events"])
def test_export_prints_the_rows_that_are_asked_for(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    capsys.readouterr()
    assert main(["trace", "export", str(cluster.directory), "--table", table]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["node"] for row in rows} == {1, 2, 3}
    conf = rows[-1]["conf"]
    chosen = ["--node", "3", "--conf", conf, "--format", "csv"]
    assert main(["trace", "export", str(cluster.directory), "--table", table, *chosen]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run_id,node,conf,incarnation,")
    expected = [row for row in rows if row["node"] == 3 and row["conf"] == conf]
    assert len(lines) == 1 + len(expected)
    assert expected


def test_what_is_no_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "spool-000000.spool").write_bytes(b"rubbish!")
    for name, why in (
        ("gone", "there is no such directory"),
        ("empty", "has no trace in it"),
        ("damaged", "spool-000000.spool: is no spool of a trace"),
    ):
        assert main(["trace", "check", str(tmp_path / name)]) == 2
        assert why in capsys.readouterr().err
    assert main(["trace"]) == 2


def test_daemons_that_run_are_open_unless_they_are_said_to_be_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.send(1, 10)
        cluster.wait_until_delivered([1], 10)
        for extra, status in (([], "inconclusive"), (["--quiesced"], "pass")):
            code, shown = told(capsys, "check", tmp_path, *extra)
            assert code == 0
            runs = shown["runs"]
            assert isinstance(runs, dict)
            assert runs["test"]["properties"]["EVS2.1"]["status"] == status
            assert runs["test"]["properties"]["EVS3"]["checked"] == 10


# Planted: each changes the trace of one life as an error of the ring would


def _swap(life: Life, at: int) -> None:
    rows = life.deliveries
    rows[at], rows[at + 1] = rows[at + 1], rows[at]


def _drop(life: Life, at: int) -> None:
    del life.deliveries[at]
    for rows in (life.events, life.sends):
        rows[:] = [row._replace(pos=row.pos - (row.pos > at)) for row in rows]  # type: ignore[misc]


def _repeat(life: Life, at: int) -> None:
    life.deliveries[at + 1] = life.deliveries[at]


def _alter(life: Life, at: int) -> None:
    life.deliveries[at] = life.deliveries[at]._replace(digest=7)


def _invent(life: Life, at: int) -> None:
    life.deliveries[at] = life.deliveries[at]._replace(unit_id=UnitId(1, life.incarnation, 10**6))


def _shared(one: TracedLife) -> int:
    """Return a place in the middle of what a life delivered as one of three."""
    life = one.life
    return next(
        at
        for at, row in enumerate(life.deliveries[5:], 5)
        if len(life.confs[row.conf_no].members) == 3 and _same_conf(life.deliveries, at)
    )


def _same_conf(rows: list[Delivery], at: int) -> bool:
    return at + 5 < len(rows) and rows[at].conf_no == rows[at + 5].conf_no


@pytest.mark.parametrize("of", ["stopped", "killed"])
@pytest.mark.parametrize(
    ("plant", "caught"),
    [
        (_swap, "TG"),
        (_drop, "EVS6.3"),
        (_repeat, "EVS1.4"),
        (_alter, "EVS1.3"),
        (_invent, "EVS1.3"),
    ],
)
def test_the_judge_catches_what_is_planted(
    cluster: LocalCluster, plant: Callable[[Life, int], None], caught: str, of: str
) -> None:
    lives = cluster.lives()
    assert judge(lives, cluster.submitted).verdicts.holds
    ended = "stop" if of == "stopped" else "lost"
    one = next(one for one in lives if one.life.ended == ended)
    plant(one.life, _shared(one))
    assert caught in judge(lives, cluster.submitted).verdicts.failed


def test_the_missing_tail_of_a_killed_node_is_unknown_and_no_pass(cluster: LocalCluster) -> None:
    lives = cluster.lives()
    (killed,) = [one.life for one in lives if one.life.ended == "lost"]
    del killed.deliveries[-20:]
    del killed.sends[-20:]
    end = len(killed.deliveries)
    killed.events[:] = [event for event in killed.events if event.pos <= end]
    killed.sends[:] = [send for send in killed.sends if send.pos <= end]
    verdicts = judge(lives, cluster.submitted).verdicts
    assert verdicts.holds, verdicts.explain()
    for name in ("EVS1.3", "TR2"):
        assert verdicts[name].status is Status.INCONCLUSIVE
        assert verdicts[name].n_unknown > 0
    killed.ended = "fail"  # as if the trace were whole: now the same rows accuse
    assert "EVS1.3" in judge(lives, cluster.submitted).verdicts.failed


def test_what_clients_were_told_is_inspected_exported_and_no_matter_of_the_ring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, history = run_recorded(draw(2))
    trace = write_trace(history, tmp_path, "x")
    lives = list(history.lives.values())
    code, shown = told(capsys, "inspect", trace)
    assert code == 0
    runs = shown["runs"]
    assert isinstance(runs, dict)
    n_told = sum(len(rows) for life in lives for rows in life.heard.values())
    assert sum(life["frames_told"] for life in runs["x"]) == n_told
    assert main(["trace", "inspect", str(trace)]) == 0
    assert "frames told to them" in capsys.readouterr().out
    assert main(["trace", "check", str(trace)]) == 0
    capsys.readouterr()
    for table, n_rows in (
        ("deliveries", n_told),
        ("sends", sum(len(life.said) for life in lives)),
    ):
        assert main(["trace", "export", str(trace), "--table", table]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len([row for row in rows if row["session"]]) == n_rows
    assert main(["trace", "export", str(trace), "--table", "events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"gview", "open", "dest"} <= {event["etype"] for event in events}
