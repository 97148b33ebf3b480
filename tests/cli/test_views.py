"""What `status` and `doctor` say of a cluster that runs Transis when something is wrong."""

import json
import signal
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.core.engine import TRANSIS
from evensong.daemon.keys import write_new_key
from tests.daemon.local import LocalCluster


class Commands:
    """Runs commands on a cluster and keeps what they say."""

    def __init__(self, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.capsys = capsys

    def status(self) -> tuple[int, str, str]:
        code = main(["status", "--all", str(self.cluster.directory)])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def causes(self, node: int) -> dict[str, list[int]]:
        """Return what a daemon finds to be wrong, and with whom; a busy machine is another's."""
        main(["doctor", "--json", str(self.cluster.config(node))])
        told = json.loads(self.capsys.readouterr().out)
        return {one["cause"]: one["about"] for one in told["findings"] if one["cause"] != "lag"}


def test_who_is_gone_apart_or_refused_is_told_in_views(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 4, engine=TRANSIS) as cluster:
        said = Commands(cluster, capsys)
        write_new_key(tmp_path / "other.key")
        cluster.configure(4, keys=["other.key"])
        cluster.start()
        view = cluster.wait_for_ring([1, 2, 3])
        alone = cluster.wait_for_ring([4])
        code, out, _ = said.status()
        assert code == EXIT_VIOLATION
        assert out.split()[:3] == ["name", "state", "view"]
        told = f"they disagree: n1 n2 n3 in view {view} of 1 2 3; n4 in view {alone} of 4"
        assert told in out
        assert said.causes(1) == {"key": [4]}
        assert said.causes(4) == {"key": [1, 2, 3]}

        cluster.signal(4, signal.SIGTERM)
        assert cluster.reap(4) == 0
        cluster.kill(3)
        view = cluster.wait_for_ring([1, 2])
        code, out, err = said.status()
        assert code == EXIT_UNREACHABLE
        assert "they disagree" not in out
        assert str(cluster.state(3)) in err
        assert said.causes(1) == {"key": [4], "silent": [3]}  # of 4 nothing else is known
        main(["doctor", str(cluster.config(1))])
        assert f"n1 is in view {view} of n1 and n2; 4 nodes are conf" in capsys.readouterr().out
        assert main(["status", str(cluster.config(1))]) == EXIT_OK
        shown = capsys.readouterr().out
        assert f"stable in view {view} of 1 2; because: " in shown
        assert "ring" not in shown.split()
        assert "token" not in shown


def test_who_is_suspended_or_cut_off_is_told_in_views(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 3, engine=TRANSIS) as cluster:
        said = Commands(cluster, capsys)
        cluster.start()
        cluster.wait_for_ring()
        assert said.status()[0] == EXIT_OK
        assert said.causes(1) == {}
        cluster.signal(2, signal.SIGSTOP)
        cluster.wait_for_ring([1, 3])
        code, out, err = said.status()
        assert code == EXIT_UNREACHABLE
        assert "they disagree" not in out
        assert f"{cluster.state(2)}: its daemon does not answer" in err
        assert said.causes(3) == {"silent": [2]}
        cluster.signal(2, signal.SIGCONT)
        cluster.wait_for_ring()
        assert said.causes(3) == {}

        for node, peers in ((1, [2, 3]), (2, [1]), (3, [1])):
            cluster.ask(node, do="ignore", peers=peers)
        here, there = cluster.wait_for_ring([1]), cluster.wait_for_ring([2, 3])
        code, out, _ = said.status()
        assert code == EXIT_VIOLATION
        assert f"they disagree: n1 in view {here} of 1; n2 n3 in view {there} of 2 3" in out
        assert said.causes(1) == {"ignored": [2, 3]}
        assert said.causes(2) == {"ignored": [1]}
