"""Real daemons on loopback. Conditions are waited for; every history is judged at the end."""

import signal
import time
from functools import partial
from pathlib import Path

import pytest

from evensong.core.effects import Service
from evensong.core.engine import ENGINES
from evensong.core.totem.parameters import LAN
from evensong.daemon.control import ask
from evensong.daemon.flood import AHEAD
from evensong.daemon.keys import write_new_key
from evensong.errors import BadRequest
from tests.daemon.local import DEADLINE_S, LocalCluster, free_ports, wait_for


def is_refused(cluster: LocalCluster, node: int, reason: str) -> bool:
    return cluster.refused(node, reason) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_daemons_form_one_ring_and_deliver_in_one_order(tmp_path: Path, engine: str) -> None:
    with LocalCluster(tmp_path, 5, engine=engine) as cluster:
        cluster.start()
        ring = cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 40)
            cluster.send(node, 10, "safe")
        cluster.wait_until_delivered(cluster.nodes, 250)
        lives = cluster.check_history().lives.values()
        orders = [
            [one.unit_id for one in life.deliveries if str(one.ring_id) == ring] for life in lives
        ]
        assert orders.count(orders[0]) == 5
        assert len(orders[0]) >= 250  # directories are told in packets too
        services = [one.service for life in lives for one in life.deliveries]
        assert services.count(Service.SAFE) == 5 * 50


@pytest.mark.parametrize("engine", ENGINES)
def test_after_kill_9_the_others_go_on_and_the_dead_one_returns(
    tmp_path: Path, engine: str
) -> None:
    with LocalCluster(tmp_path, 5, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        before = cluster.status(2)["incarnation"]
        for node in cluster.nodes:
            cluster.send(node, 100, "safe" if node == 2 else "agreed")
        cluster.kill(2)
        survivors = [1, 3, 4, 5]
        cluster.wait_for_ring(survivors)
        cluster.send(1, 10, "safe")
        cluster.wait_until_quiet(survivors)
        cluster.start([2])
        cluster.wait_for_ring()
        after = cluster.status(2)["incarnation"]
        assert isinstance(before, int)
        assert isinstance(after, int)
        assert after > before
        cluster.send(2, 10)
        cluster.wait_until_quiet(cluster.nodes)
        history = cluster.check_history(has_mates=True)
        assert history.lives[2, before].ended == "lost"
        assert len(history.lives[2, after].deliveries) >= 10


@pytest.mark.parametrize("engine", ENGINES)
def test_a_suspended_daemon_comes_back_into_the_ring(tmp_path: Path, engine: str) -> None:
    with LocalCluster(tmp_path, 5, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.send(3, 100)
        cluster.signal(3, signal.SIGSTOP)
        others = [1, 2, 4, 5]
        cluster.wait_for_ring(others)  # so it is longer than token_loss
        cluster.send(1, 10, "safe")
        cluster.wait_until_quiet(others)
        cluster.signal(3, signal.SIGCONT)
        cluster.wait_for_ring()
        status = cluster.status(3)
        lag, up_ms = status["lag"], status["up_ms"]
        assert isinstance(lag, dict)
        assert isinstance(up_ms, int)
        # It was stopped while it waited for a timer or in the middle of a turn; it knows of either.
        assert 100_000 < max(lag["worst_us"], lag["turn_worst_us"]) < up_ms * 1_000
        cluster.send(3, 10)
        cluster.wait_until_quiet(cluster.nodes)
        cluster.check_history(has_mates=True)


def test_twenty_started_at_once_form_one_ring(tmp_path: Path) -> None:
    # Twenty processes share a core or two: whoever waits for a turn has not crashed.
    patient = (
        'token_retransmit = "200ms"\ntoken_loss = "3s"\njoin = "100ms"\nconsensus = "1s"\n'
        'beacon = "500ms"\nhold = "50ms"\n'
    )
    with LocalCluster(tmp_path, 20, timeouts=patient) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 5, "safe" if node % 2 else "agreed")
        cluster.wait_until_delivered(cluster.nodes, 100)
        cluster.check_history()


@pytest.mark.parametrize("engine", ENGINES)
def test_both_sides_of_a_partition_go_on_and_merge(tmp_path: Path, engine: str) -> None:
    with LocalCluster(tmp_path, 5, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        left, right = [1, 2], [3, 4, 5]
        for node in cluster.nodes:
            cluster.send(node, 30)
        for node in cluster.nodes:
            others = right if node in left else left
            assert cluster.ask(node, do="ignore", peers=others)["ignored"] == others
        cluster.wait_for_ring(left)
        cluster.wait_for_ring(right)
        for node in cluster.nodes:
            cluster.send(node, 10, "safe")
        cluster.wait_until_quiet(left)
        cluster.wait_until_quiet(right)
        for node in cluster.nodes:
            cluster.ask(node, do="ignore", peers=[])
        cluster.wait_for_ring()
        cluster.send(1, 10)
        cluster.wait_until_quiet(cluster.nodes)
        cluster.check_history(has_mates=True)
        assert cluster.refused(1, "ignored") > 0


def test_a_wrong_key_and_a_foreign_cluster_are_refused_and_counted(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 4) as cluster:
        write_new_key(tmp_path / "other.key")
        cluster.configure(3, keys=["other.key"])
        cluster.configure(4, cluster="foreign")
        cluster.start()
        cluster.wait_for_ring([1, 2])
        cluster.wait_for_ring([3])
        cluster.wait_for_ring([4])
        for reason in ("key", "cluster"):
            wait_for(reason, partial(is_refused, cluster, 1, reason))
            wait_for(reason, partial(is_refused, cluster, 2, reason))
        peers = cluster.status(1)["peers"]
        assert isinstance(peers, dict)
        assert peers["3"]["refused"].keys() == {"key"}
        assert peers["3"]["heard_ms_ago"] is None
        wait_for("the log to tell", lambda: "refused datagrams, by reason: " in cluster.log(1))


def test_who_waits_is_answered_when_the_message_is_delivered(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.signal(2, signal.SIGSTOP)
        request = {"do": "send", "payloads": ["Y3JlZG8="] * 9, "service": "safe", "wait": True}
        answer = ask(cluster.state(1), request, timeout_s=DEADLINE_S)
        status = cluster.status(1)
        assert status["own_delivered"] == 9
        assert status["members"] == [1]  # as long as there were two, it was not safe
        assert answer["delivered_at_us"] == status["installed_at_us"]
        assert "delivered_at_us" in cluster.ask(1, do="send", payloads=["Y3JlZG8="], wait=True)
        with pytest.raises(BadRequest, match="wait: takes true or false"):
            cluster.ask(1, do="send", payloads=["Y3JlZG8="], wait="long")


def test_a_flood_of_one_who_is_alone_stops_nothing_else(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.ask(1, do="flood", size=100, seconds=3_600)
        answer = cluster.ask(1, do="send", payloads=["Y3JlZG8="], wait=True)
        assert "delivered_at_us" in answer
        assert cluster.status(1)["delivered"] != 0


def test_each_broken_ring_is_kept_with_its_cause_and_own_lateness(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        before = cluster.status(1)
        cluster.kill(2)
        cluster.wait_for_ring([1, 3])
        after = cluster.status(1)
        breaks_before, breaks = before["breaks"], after["breaks"]
        assert isinstance(breaks_before, list)
        assert isinstance(breaks, list)
        news = [one for one in breaks if one not in breaks_before]
        assert news[0]["cause"] in ("token loss", "join")
        assert before["installed_at_us"] < news[0]["at_us"] < after["installed_at_us"]
        assert (news[0]["ring"], news[0]["members"]) == (before["ring"], [1, 2, 3])
        assert news[0]["lag_us"] >= 0


def test_sigterm_leaves_the_ring_in_good_order(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.send(1, 10)
        cluster.send(2, 40)
        asked_at = time.monotonic()
        cluster.signal(2, signal.SIGTERM)
        assert cluster.reap(2) == 0
        cluster.wait_for_ring([1, 3])
        took_s = time.monotonic() - asked_at
        causes = {str(cluster.status(node)["cause"]) for node in (1, 3)}
        assert "leave" in causes
        assert causes <= {"leave", "join"}  # the other's Join may come before the farewell
        assert "left in good order" in cluster.log(2)
        assert not (cluster.state(2) / "control.sock").exists()
        cluster.wait_until_quiet([1, 3])
        history = cluster.check_history()
        assert min(len(life.deliveries) for life in history.lives.values()) >= 50
        assert took_s < 10


def test_daemons_of_a_multicast_group_form_one_ring(tmp_path: Path) -> None:
    port = free_ports("127.0.0.1", 1)[0]
    group = f'multicast = "239.255.101.6:{port}"\nmulticast_interface = "127.0.0.1"'
    with LocalCluster(tmp_path, 3, extra=f"testing = true\n{group}") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 50)
            cluster.send(node, 10, "safe")
        cluster.wait_until_quiet(cluster.nodes)
        cluster.kill(3)
        cluster.wait_for_ring([1, 2])
        cluster.send(1, 10)
        cluster.wait_until_quiet([1, 2])
        cluster.check_history()
        dropped = cluster.status(1)["dropped"]
        assert isinstance(dropped, dict)
        assert "own datagram" not in dropped


def test_a_flood_is_as_much_as_the_ring_takes_and_ends(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.configure(2, extra="testing = true")
        cluster.start()
        cluster.wait_for_ring()
        assert cluster.ask(2, do="flood", size=500, seconds=60)["flooding"] is True
        wait_for("a flood", lambda: int(str(cluster.status(1)["delivered"])) > 500)
        assert int(str(cluster.status(2)["backlog"])) <= AHEAD * LAN.messages_max
        assert cluster.ask(2, do="flood", size=500, seconds=0)["flooding"] is False
        wait_for("its end", lambda: cluster.status(2)["backlog"] == 0)
        for wrong in ({"size": 7, "seconds": 1}, {"size": 100, "seconds": -1}, {"size": 100}):
            with pytest.raises(BadRequest, match="takes"):
                cluster.ask(2, do="flood", **wrong)


def test_ignore_is_refused_to_whoever_is_not_testing(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra="") as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with pytest.raises(BadRequest, match="testing = true"):
            cluster.ask(1, do="ignore", peers=[])
        with pytest.raises(BadRequest, match="testing = true"):
            cluster.ask(1, do="flood", size=100, seconds=1)
        stdin = cluster.processes[1].stdin
        assert stdin is not None
        stdin.close()  # as when its supervisor is killed
        assert cluster.reap(1) == 0
