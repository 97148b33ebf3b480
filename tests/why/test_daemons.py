"""Real daemons, hurt and explained: from what they left, and by asking those that run."""

import json
import signal
from pathlib import Path

import pytest

from evensong.cli.main import main
from tests.daemon.local import LocalCluster, wait_for

TOKEN_LOSS_US = 500_000  # of these clusters
Told = list[dict[str, object]]


def explained(capsys: pytest.CaptureFixture[str], *paths: Path) -> Told:
    assert main(["why", *map(str, paths), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["run"] == "test"
    changes: Told = run["changes"]
    return changes


def causes_of(changes: Told, ring: str) -> list[str]:
    (change,) = [change for change in changes if change["ring"] == ring]
    causes = change["causes"]
    assert isinstance(causes, list)
    return [" ".join([cause["kind"], *map(str, cause["nodes"])]) for cause in causes]


def last_heard(changes: Told, ring: str, about: int) -> list[int]:
    """Return how long before it left its ring each node had heard one."""
    (change,) = [change for change in changes if change["ring"] == ring]
    nodes = change["nodes"]
    assert isinstance(nodes, list)
    return [node["heard_us_before"][str(about)] for node in nodes]


def let_record(cluster: LocalCluster, *nodes: int) -> None:
    """Wait until the traces of daemons have what they did so far: `kill -9` takes the last bit."""
    for node in nodes:
        cluster.ask(node, do="flush")


def test_a_kill_a_restart_a_suspension_and_a_stop_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 3, extra="") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        let_record(cluster, 3)
        cluster.kill(3)
        killed = cluster.wait_for_ring([1, 2])
        changes = explained(capsys, tmp_path)
        assert causes_of(changes, killed) == ["killed 3"]
        assert all(us > 0 for us in last_heard(changes, killed, 3))

        cluster.start([3])
        again = cluster.wait_for_ring()
        let_record(cluster, 2)
        cluster.signal(2, signal.SIGSTOP)
        without = cluster.wait_for_ring([1, 3])
        live = explained(capsys, cluster.config(1), cluster.config(3))
        assert causes_of(live, again) == ["restart 3"]
        assert causes_of(live, without) == ["silent 2"]  # nobody was asked who could know better

        cluster.signal(2, signal.SIGCONT)
        back = cluster.wait_for_ring()
        cluster.signal(3, signal.SIGTERM)
        assert cluster.reap(3) == 0
        left = cluster.wait_for_ring([1, 2])
        changes = explained(capsys, tmp_path)
        assert causes_of(changes, without) == ["late 2"]
        assert "late 2" in causes_of(changes, back)
        assert causes_of(changes, left) == ["left 3"]

        for node in (1, 2):
            cluster.signal(node, signal.SIGTERM)
            assert cluster.reap(node) == 0
        ended = explained(capsys, tmp_path)
        rings = [change["ring"] for change in changes]
        assert [change["ring"] for change in ended][: len(rings)] == rings
        for ring, causes in (
            (killed, ["killed 3"]),
            (without, ["late 2"]),
            (left, ["left 3"]),
        ):
            assert causes_of(ended, ring) == causes


def test_recorders_suffice_where_nothing_is_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 3, extra='trace = "off"') as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.kill(3)
        killed = cluster.wait_for_ring([1, 2])
        cluster.signal(2, signal.SIGTERM)
        assert cluster.reap(2) == 0
        left = cluster.wait_for_ring([1])
        changes = explained(capsys, cluster.config(1), cluster.config(2))
        assert causes_of(changes, killed) == ["silent 3"]
        assert causes_of(changes, left) == ["left 2"]
        (change,) = [change for change in changes if change["ring"] == killed]
        assert change["unknown"] == ["n3's recorder is not here"]
        nodes = change["nodes"]
        assert isinstance(nodes, list)
        assert [node["node"] for node in nodes] == [1, 2]
        for node in nodes:
            assert "3" in node["heard_us_before"]
            assert node["own_lag_us"] >= 0
            assert node["last_token"]["from"] == (3 if node["node"] == 1 else 1)
            assert [one["node"] for one in node["gave_up"]] == [3]
        first = [node for node in nodes if node["cause"] == "token loss"]
        assert first
        for node in first:
            assert node["last_token"]["us_before"] >= TOKEN_LOSS_US
            assert "consensus" in node["timers"] or node["gave_up"][0]["by"]
        assert not (cluster.state(1) / "trace").exists()


def test_a_partition_is_seen_from_both_sides_and_its_end_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 3, extra="testing = true") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node, peers in ((1, [3]), (2, [3]), (3, [1, 2])):
            cluster.ask(node, do="ignore", peers=peers)
        two, alone = cluster.wait_for_ring([1, 2]), cluster.wait_for_ring([3])
        for node in cluster.nodes:
            cluster.ask(node, do="ignore", peers=[])
        merged = cluster.wait_for_ring()
        changes = explained(capsys, tmp_path)
        assert causes_of(changes, two) == ["partition 1 2 3"]
        assert causes_of(changes, alone) == ["partition 1 2 3"]
        assert causes_of(changes, merged) == ["merge 1 2 3"]


def test_a_daemon_that_does_not_answer_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2, extra="") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        let_record(cluster, 2)
        cluster.signal(2, signal.SIGSTOP)
        alone = cluster.wait_for_ring([1])
        assert main(["why", str(tmp_path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"note: {cluster.state(2)}: its daemon does not answer" in lines
        (at,) = [at for at, line in enumerate(lines) if f"ring {alone} {{1}}" in line]
        assert lines[at + 1].startswith("  n2 is suspended or hung: its daemon is there and does")
        cluster.signal(2, signal.SIGCONT)
        wait_for("an answer", lambda: bool(cluster.status(2)))
