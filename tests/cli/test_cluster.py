"""The commands around daemons: keys, config, daemon, status, reload."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.daemon.settings import parse
from evensong.daemon.tuning import SCALED
from tests.daemon.local import LocalCluster, wait_for


def test_a_key_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "cluster.key")
    assert main(["keys", "new", path, "--json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["file"] == path
    assert main(["keys", "new", path]) == EXIT_USAGE
    assert "never overwritten" in capsys.readouterr().err


def test_a_good_config_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = LocalCluster(tmp_path, 3)
    assert main(["config", "check", str(cluster.config(2))]) == EXIT_OK
    told = capsys.readouterr().out
    assert "node 2 (n2) of 3 in cluster test, 1 key\n" in told
    assert "a crash is noticed after 500 ms" in told
    assert 'timeouts.token_retransmit = "60ms"' in told
    assert main(["config", "check", "--json", str(cluster.config(2))]) == EXIT_OK
    effective = json.loads(capsys.readouterr().out)["settings"]
    assert effective["advertise"] == effective["listen"] == f"{cluster.hosts[0]}:{cluster.ports[1]}"
    assert effective["packet"] == 1_452
    assert effective["peers"].keys() == {"1", "3"}


def test_what_is_wrong_with_a_config_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster(tmp_path, 3)
    key = (tmp_path / "cluster.key").rename(tmp_path / "kept.key")
    (cluster.state(1) / "ring.record").write_bytes(b"rubbish")
    assert main(["config", "check", "--json", str(cluster.config(1))]) == EXIT_VIOLATION
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [problem.partition(":")[0] for problem in problems] == ["keys", "state"]
    key.rename(tmp_path / "cluster.key")
    cluster.configure(2, extra='client_group = "no-such-group"')
    assert main(["config", "check", str(cluster.config(2))]) == EXIT_VIOLATION
    assert "client_group: there is no group no-such-group" in capsys.readouterr().out
    cluster.configure(2)
    cluster.config(1).write_text("colour = 1")
    assert main(["config", "check", str(cluster.config(1))]) == EXIT_USAGE
    assert "cluster: is missing" in capsys.readouterr().out
    assert main(["config", "check", "--json", str(tmp_path / "nowhere.toml")]) == EXIT_USAGE
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert told["problems"][0].endswith("nowhere.toml: No such file or directory")
    assert main(["config", "check", str(cluster.config(2)), "--seconds", "2"]) == EXIT_USAGE
    assert "only tune takes it" in capsys.readouterr().err


def test_a_daemon_is_named_by_its_address_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        state = f"unix://{cluster.state(1)}"
        for address in (f"{state}/client.sock", f"{state}/control.sock", state):
            assert main(["status", address]) == EXIT_OK
            assert "n1: node 1 of cluster test" in capsys.readouterr().out
        for socket in ("client.sock", "control.sock"):
            assert main(["status", str(cluster.state(1) / socket)]) == EXIT_OK
        capsys.readouterr()
    assert main(["status", f"unix://{tmp_path}/nowhere/client.sock"]) == EXIT_USAGE
    assert f"{tmp_path}/nowhere: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "doctor", "reload"])
def test_a_target_that_is_missing_or_broken_is_bad_input(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "nope")]) == EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"evensong: {tmp_path}/nope: there is no such file or directory\n"
    broken = tmp_path / "n1.toml"
    broken.write_text("cluster = ")
    assert main([command, str(broken)]) == EXIT_USAGE
    assert "; a state directory names a running daemon as well" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "3601", "-1", "soon"])
def test_a_cluster_is_watched_for_a_second_to_an_hour(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["config", "tune", "n1.toml", "--seconds", seconds])
    assert stopped.value.code == EXIT_USAGE
    assert "is not within 1 to 3600" in capsys.readouterr().err


def test_a_variable_that_overrides_nothing_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENSONG_NOED", "2")
    with LocalCluster(tmp_path, 1) as cluster:
        assert main(["config", "check", str(cluster.config(1))]) == EXIT_OK
        assert "EVENSONG_NOED overrides nothing" in capsys.readouterr().out
        assert main(["config", "check", "--json", str(cluster.config(1))]) == EXIT_OK
        assert json.loads(capsys.readouterr().out)["idle_variables"] == ["EVENSONG_NOED"]
        cluster.start()
        wait_for("the log to tell", lambda: "EVENSONG_NOED overrides nothing" in cluster.log(1))


def test_a_variable_that_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENSONG_NODE", "x")
    with LocalCluster(tmp_path, 1) as cluster:
        assert main(["config", "check", str(cluster.config(1))]) == EXIT_USAGE
    assert "node by EVENSONG_NODE: takes a number" in capsys.readouterr().out


def test_a_daemon_that_lacks_something_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster(tmp_path, 1)
    cluster.state(1).rmdir()
    assert main(["daemon", str(cluster.config(1))]) == EXIT_UNREACHABLE
    assert "make it first" in capsys.readouterr().err
    assert main(["daemon", str(tmp_path / "nowhere.toml")]) == EXIT_USAGE


def test_status_of_nobody_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path)]) == EXIT_UNREACHABLE
    printed = capsys.readouterr()
    assert "no daemon runs there" in printed.err
    assert printed.out == ""


def test_status_shows_daemons_side_by_side_and_where_they_disagree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        assert main(["status", str(cluster.config(1))]) == EXIT_OK
        told = capsys.readouterr().out
        assert "n1: node 1 of cluster test" in told
        assert "operational in ring" in told
        assert "ago: ring 4.1 of 1; because: start" in told
        assert re.search(r"\d s ago: ring \S+ of 1 2 \(joined 2\); because: ", told)
        assert main(["status", "--all", str(tmp_path)]) == EXIT_OK
        assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [
            ["n1", "operational"],
            ["n2", "operational"],
        ]
        for node in cluster.nodes:
            cluster.ask(node, do="ignore", peers=[3 - node])
        cluster.wait_for_ring([1])
        cluster.wait_for_ring([2])
        assert main(["status", "--all", "--json", str(tmp_path)]) == EXIT_VIOLATION
        told = json.loads(capsys.readouterr().out)["disagreement"]
        assert "n1 in ring" in told
        assert "n2 in ring" in told


def test_clusters_are_compared_each_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.mkdir()
    with LocalCluster(a, 2) as first, LocalCluster(b, 1) as second:
        for cluster in (first, second):
            cluster.start()
            cluster.wait_for_ring()
        assert main(["status", "--all", str(a), str(b)]) == EXIT_OK
        head, *rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
        assert head == ["cluster", "name"]
        assert rows == [[str(a), "n1"], [str(a), "n2"], [str(b), "n1"]]
        for node in first.nodes:
            first.ask(node, do="ignore", peers=[3 - node])
        first.wait_for_ring([1])
        first.wait_for_ring([2])
        assert main(["status", "--all", str(a), str(b)]) == EXIT_VIOLATION
        assert f"they disagree: {a}: n1 in ring" in capsys.readouterr().out


def test_tune_tells_settings_that_a_daemon_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        tune = ["config", "tune", str(cluster.config(1)), str(cluster.state(2)), "--seconds", "1"]
        assert main(tune) == EXIT_VIOLATION
        assert "idle" in capsys.readouterr().err
        cluster.ask(1, do="flood", size=100, service="agreed", seconds=60)
        wait_for("some rotations", lambda: is_measured(cluster, 1) and is_measured(cluster, 2))
        assert main(tune) == EXIT_OK
        told = tomllib.loads(capsys.readouterr().out)
        assert told["profile"] == "auto"
        assert main([*tune, "--json"]) == EXIT_OK
        assert json.loads(capsys.readouterr().out)["timeouts"].keys() == set(SCALED)
        settings = {**tomllib.loads(cluster.config(1).read_text()), **told}
        parse(settings, tmp_path, {})


def is_measured(cluster: LocalCluster, node: int) -> bool:
    rotation = cluster.status(node)["rotation"]
    assert isinstance(rotation, dict)
    return int(rotation["count"]) >= 100


def test_reload_tells_what_changed_and_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        config = str(cluster.config(1))
        assert main(["reload", config]) == EXIT_UNREACHABLE
        cluster.configure(1, peers=[1])
        cluster.start([1])
        cluster.wait_for_ring([1])
        assert main(["reload", config]) == EXIT_OK
        assert "nothing has changed" in capsys.readouterr().out
        cluster.configure(1)
        assert main(["reload", "--json", config]) == EXIT_OK
        changed = json.loads(capsys.readouterr().out)["changed"]
        assert changed == {
            str(cluster.state(1)): [f"peer 2 at {cluster.hosts[0]}:{cluster.ports[1]} added"]
        }
        cluster.configure(1, cluster="other")
        assert main(["reload", config]) == EXIT_USAGE
        assert "cluster: cannot change while the daemon runs" in capsys.readouterr().err
