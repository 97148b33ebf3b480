"""What a daemon says when it cannot start or go on. Each message is one sentence, exit code 3."""

import io
import os
import signal
from pathlib import Path

import pytest

from evensong.daemon import main
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.settings import Settings, load
from evensong.errors import CannotStart
from tests.daemon.local import LocalCluster, wait_for


def settings(cluster: LocalCluster) -> Settings:
    return load(cluster.config(1), {})


def refusal(cluster: LocalCluster) -> str:
    with pytest.raises(CannotStart) as refused:
        main.run(lambda: settings(cluster), io.StringIO())
    return str(refused.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1)
    (tmp_path / "cluster.key").unlink()
    assert "cluster.key: No such file" in refusal(cluster)


def test_a_missing_state_directory_is_named(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1)
    cluster.state(1).rmdir()
    assert "n1: there is no such directory; make it first" in refusal(cluster)


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1)
    cluster.state(1).rmdir()
    cluster.state(1).write_text("a file")
    assert "n1: Not a directory" in refusal(cluster)


def test_a_corrupt_record_stops_the_start(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1)
    (cluster.state(1) / "ring.record").write_bytes(b"rubbish")
    assert "starting anyway could use a ring id twice" in refusal(cluster)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1)
    other = Datagrams(settings(cluster).listen, {})
    assert "the port is in use" in refusal(cluster)
    other.close()


def test_realtime_is_granted_or_refused_with_what_it_takes(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra="realtime = true") as cluster:
        cluster.start()
        process = cluster.processes[1]
        socket = cluster.state(1) / "control.sock"
        wait_for("a start or a refusal", lambda: socket.exists() or process.poll() is not None)
        if process.poll() is None:
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            assert os.sched_getscheduler(process.pid) == policy
        else:
            assert process.returncode == 3
            assert "realtime: Operation not permitted; it takes root" in cluster.log(1)


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 1, extra='listen = "192.0.2.1:5405"')
    assert "192.0.2.1:5405: this machine does not have that address" in refusal(cluster)


def test_two_daemons_do_not_share_a_state_directory(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        assert "another daemon uses it" in refusal(cluster)
        assert cluster.status(1)["state"] == "operational"


def test_a_record_that_cannot_be_stored_stops_the_daemon_unheard(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        (cluster.state(1) / "ring.tmp").mkdir()
        cluster.start()
        assert cluster.reap(1) == 1
        assert "stopped: the ring's record cannot be stored: Is a directory" in cluster.log(1)


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            cluster.signal(1, number)  # so that it sees the two in the middle at one moment
        assert cluster.reap(1) == 1
        assert "stopped: a second signal" in cluster.log(1)


def test_a_signal_of_no_meaning_changes_nothing(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        ring = cluster.wait_for_ring()
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            cluster.signal(1, number)
        assert cluster.status(1)["ring"] == ring
        cluster.signal(1, signal.SIGTERM)
        assert cluster.reap(1) == 0


def test_the_earlier_of_two_daemons_with_one_id_stops(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start([1])
        cluster.wait_for_ring([1])
        # Node 2's machine is given node 1's id by mistake, and the addresses to match.
        cluster.configure(2, node_id=1, ports=cluster.ports[::-1])
        cluster.start([2])
        wait_for("the first to stop", lambda: cluster.processes[1].poll() is not None)
        assert cluster.reap(1) == 1
        assert "processor id 1 is in use" in cluster.log(1)
