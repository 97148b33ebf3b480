"""Real daemons, hurt and explained: from what they left, and by asking those that run."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from evensong.cli.main import main
from evensong.core.engine import ENGINES, TOTEM
from tests.daemon.local import LocalCluster, wait_for

TOKEN_LOSS_US = 500_000  # of these clusters
PATIENCE_US = 500_000  # of those that run Transis: two heartbeats and three probes at least
BOTH = pytest.mark.parametrize("engine", ENGINES)
Told = list[dict[str, object]]


def explained(capsys: pytest.CaptureFixture[str], *paths: Path) -> Told:
    assert main(["why", *map(str, paths), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["run"] == "test"
    changes: Told = run["changes"]
    return changes


def loss_of(changes: Told, node: int) -> dict[str, object]:
    """Return the last change by which somebody lost a node.

    On a busy machine a ring may form once more without anybody being hurt, and a daemon may truly
    have been late: so the ring at which a test arrives is not asked for, and of the causes the
    first.
    """
    gone = [change for change in changes if node in _listed(change["gone"])]
    return gone[-1]


def first_cause(change: dict[str, object]) -> str:
    return kinds_of(change)[0]


def kinds_of(change: dict[str, object]) -> list[str]:
    causes = _listed(change["causes"])
    return [" ".join([cause["kind"], *map(str, cause["nodes"])]) for cause in causes]


def with_all(changes: Told, nodes: list[int]) -> list[str]:
    """Return every cause of every ring of exactly these nodes."""
    return [kind for one in changes if one["members"] == nodes for kind in kinds_of(one)]


def _listed(value: object) -> list[Any]:
    assert isinstance(value, list)
    return value


def let_record(cluster: LocalCluster, *nodes: int) -> None:
    """Wait until the traces of daemons have what they did so far: `kill -9` takes the last bit."""
    for node in nodes:
        cluster.ask(node, do="flush")


@BOTH
def test_a_kill_a_restart_a_suspension_and_a_stop_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    with LocalCluster(tmp_path, 3, extra="", engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        let_record(cluster, 3)
        cluster.kill(3)
        cluster.wait_for_ring([1, 2])
        killed = loss_of(explained(capsys, tmp_path), 3)
        assert first_cause(killed) == "killed 3"

        cluster.start([3])
        cluster.wait_for_ring()
        let_record(cluster, 2)
        cluster.signal(2, signal.SIGSTOP)
        cluster.wait_for_ring([1, 3])
        live = explained(capsys, cluster.config(1), cluster.config(3))
        assert "restart 3" in with_all(live, [1, 2, 3])
        suspended = loss_of(live, 2)
        assert first_cause(suspended) == "silent 2"  # nobody was asked who could know better

        cluster.signal(2, signal.SIGCONT)
        cluster.wait_for_ring()
        changes = explained(capsys, tmp_path)
        assert first_cause(loss_of(changes, 2)) == "late 2"
        # On a ring it comes from where it was left; else it has gone on alone before.
        assert "late 2" in with_all(changes, [1, 2, 3] if engine == TOTEM else [2])
        cluster.signal(3, signal.SIGTERM)
        assert cluster.reap(3) == 0
        cluster.wait_for_ring([1, 2])
        left = loss_of(explained(capsys, tmp_path), 3)
        assert first_cause(left) == "left 3"

        for node in (1, 2):
            cluster.signal(node, signal.SIGTERM)
            assert cluster.reap(node) == 0
        ended = {change["ring"]: change for change in explained(capsys, tmp_path)}
        assert first_cause(ended[killed["ring"]]) == "killed 3"
        assert first_cause(ended[suspended["ring"]]) == "late 2"
        assert first_cause(ended[left["ring"]]) == "left 3"


@BOTH
def test_recorders_suffice_where_nothing_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    with LocalCluster(tmp_path, 3, extra='trace = "off"', engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.kill(3)
        cluster.wait_for_ring([1, 2])
        cluster.signal(2, signal.SIGTERM)
        assert cluster.reap(2) == 0
        cluster.wait_for_ring([1])
        changes = explained(capsys, cluster.config(1), cluster.config(2))
        assert not (cluster.state(1) / "trace").exists()
        assert first_cause(loss_of(changes, 2)) == "left 2"
        change = loss_of(changes, 3)
        assert first_cause(change) == "silent 3"
        assert change["unknown"] == ["n3's recorder is not here"]
        nodes = _listed(change["nodes"])
        assert [node["node"] for node in nodes] == [1, 2]
        for node in nodes:
            assert "3" in node["heard_us_before"]
            assert node["own_lag_us"] >= 0
            assert [one["node"] for one in node["gave_up"]] == [3]
            if engine != TOTEM:
                assert node["last_token"] is None
                if node["cause"] == "silent":
                    assert node["heard_us_before"]["3"] > PATIENCE_US
                continue
            assert node["last_token"]["from"] == (3 if node["node"] == 1 else 1)
            if node["cause"] == "token loss":
                # Noted when its effects were performed, somewhat after its timer was started; a
                # token of any later round would be much nearer.
                assert node["last_token"]["us_before"] > TOKEN_LOSS_US * 9 // 10
            assert "consensus" in node["timers"] or node["gave_up"][0]["by"]


@BOTH
def test_a_partition_is_seen_from_both_sides_and_its_end_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    with LocalCluster(tmp_path, 3, extra="testing = true", engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node, peers in ((1, [3]), (2, [3]), (3, [1, 2])):
            cluster.ask(node, do="ignore", peers=peers)
        cluster.wait_for_ring([1, 2])
        cluster.wait_for_ring([3])
        for node in cluster.nodes:
            cluster.ask(node, do="ignore", peers=[])
        cluster.wait_for_ring()
        changes = explained(capsys, tmp_path)
        for node in (1, 3):
            assert first_cause(loss_of(changes, node)) == "partition 1 2 3"
        assert "merge 1 2 3" in with_all(changes, [1, 2, 3])


@BOTH
def test_a_daemon_that_does_not_answer_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    with LocalCluster(tmp_path, 2, extra="", engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        let_record(cluster, 2)
        cluster.signal(2, signal.SIGSTOP)
        cluster.wait_for_ring([1])
        assert main(["why", str(tmp_path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"note: {cluster.state(2)}: its daemon does not answer" in lines
        at = max(at for at, line in enumerate(lines) if line.endswith("without n2"))
        assert lines[at + 1].startswith("  n2 is suspended or hung: its daemon is there and does")
        cluster.signal(2, signal.SIGCONT)
        wait_for("an answer", lambda: bool(cluster.status(2)))
