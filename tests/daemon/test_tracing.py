"""Traces of daemons under load and in bad luck."""

import resource
from pathlib import Path

from evensong.sim.evs import Status
from evensong.trace.judge import judge
from tests.daemon.local import LocalCluster, wait_for


def trace_status(cluster: LocalCluster, node: int) -> dict[str, object]:
    status = cluster.status(node)["trace"]
    assert isinstance(status, dict)
    return status


def limit_files(cluster: LocalCluster, node: int, size: int) -> None:
    limits = (size, resource.RLIM_INFINITY)
    resource.prlimit(cluster.processes[node].pid, resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_stops_the_trace_and_not_the_ring(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.send(1, 20)
        cluster.wait_until_quiet(cluster.nodes)
        cluster.ask(2, do="flush")
        (spool,) = (cluster.state(2) / "trace").glob("*.open")
        room = spool.stat().st_size + 50  # not even a record more
        limit_files(cluster, 2, room)
        sent = 20

        def is_stopped() -> bool:
            nonlocal sent
            cluster.send(1, 10)
            sent += 10
            cluster.wait_until_delivered(cluster.nodes, sent)
            cluster.ask(2, do="flush")
            return bool(trace_status(cluster, 2)["lost"])

        wait_for("the trace to stop", is_stopped)
        limit_files(cluster, 2, resource.RLIM_INFINITY)
        wait_for("the trace to go on", lambda: not trace_status(cluster, 2)["stopped"])
        cluster.send(2, 10)
        cluster.wait_until_delivered(cluster.nodes, sent + 10)
        assert cluster.status(2)["state"] == "operational"
        wait_for("the log to tell", lambda: "tracing goes on" in cluster.log(2))
        log = cluster.log(2)
        assert log.count("tracing stops: ") == log.count("tracing goes on")
        assert "the disk is full; the ring goes on" in log
        lives = cluster.lives()
        cut = next(one for one in lives if one.life.node == 2)
        assert cut.gaps >= 1
        assert cut.left_out > 0
        assert len(cut.life.deliveries) >= 20
        judgement = judge(lives, cluster.submitted)
        assert judgement.verdicts.holds, judgement.verdicts.explain()
        assert not judgement.is_complete
        assert judgement.verdicts["EVS1.3"].status is Status.INCONCLUSIVE
        assert judgement.verdicts["EVS1.3"].n_unknown >= 10


def test_what_a_killed_daemon_leaves_is_converted_beside_its_next_life(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.ask(1, do="flood", size=1_024, service="safe", seconds=600)
        wait_for("a trace", lambda: int(str(trace_status(cluster, 2)["written_bytes"])) > 50_000)
        cluster.kill(2)
        cluster.ask(1, do="flood", size=1_024, service="safe", seconds=0)
        cluster.start([2])
        parts = cluster.state(2) / "trace" / "run_id=test" / "node=2"
        wait_for("a part in Parquet", lambda: (parts / "events-0000.parquet").exists())
        wait_for("its spool to go", lambda: len(list(parts.parent.parent.glob("spool-*"))) == 1)
        cluster.wait_for_ring()
        cluster.send(2, 10)
        cluster.wait_until_quiet(cluster.nodes)
        history = cluster.check_history()
        assert [life.ended for key, life in sorted(history.lives.items()) if key[0] == 2] == [
            "lost",
            "quiesce",
        ]
        assert min(len(life.deliveries) for life in history.lives.values()) >= 10


def test_a_daemon_does_not_write_into_the_trace_of_another(tmp_path: Path) -> None:
    extra = f'testing = true\ntrace_dir = "{tmp_path / "shared"}"'
    with LocalCluster(tmp_path, 2, extra=extra) as cluster:
        cluster.start([1])
        cluster.wait_for_ring([1])
        cluster.start([2])
        assert cluster.reap(2) != 0
        assert f"trace_dir: {tmp_path / 'shared'}: another daemon writes there" in cluster.log(2)
        cluster.kill(1)
        cluster.start([2])
        cluster.wait_for_ring([2])
