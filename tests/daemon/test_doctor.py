"""Real daemons that something is wrong with: the doctor names it."""

import json
import secrets
import signal
import socket
import time
from functools import partial
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.core.totem import wire
from evensong.daemon.diagnosis import Finding, diagnose
from evensong.daemon.facts import Facts, from_json
from evensong.daemon.keys import read_key, write_new_key
from evensong.daemon.orders import WRAPPING
from evensong.daemon.seal import ENVELOPE, Sealer
from evensong.daemon.settings import DATAGRAM_MAX, PACKET
from tests.daemon.local import DEADLINE_S, LocalCluster, wait_for


def examined(cluster: LocalCluster, node: int) -> Facts:
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        answer = cluster.ask(node, do="doctor")
        if answer["done"]:
            facts = answer["facts"]
            assert isinstance(facts, dict)
            return from_json(facts)
        time.sleep(0.02)
    raise AssertionError("the examination does not end")


def findings(cluster: LocalCluster, *nodes: int) -> list[Finding]:
    """Return what is found, but for lateness: this machine is busy."""
    found = diagnose([examined(cluster, node) for node in nodes])
    return [finding for finding in found if finding.cause != "lag"]


def test_healthy_daemons_answer_each_other_and_the_ring_goes_on(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        ring = cluster.wait_for_ring()
        cluster.send(1, 50)
        facts = examined(cluster, 1)
        assert findings(cluster, 2, 3) == []
        assert [one.node for one in facts.peers] == [2, 3]
        for one in facts.peers:
            assert one.size == PACKET
            assert one.answers > 0
            assert one.rtt_us is not None
            assert abs(one.clock_offset_us or 0) < 500_000
            assert one.about is not None
            assert one.about.ring == ring
            assert one.about.members == [1, 2, 3]
            assert one.about.refused == {}
        cluster.wait_until_delivered(cluster.nodes, 50)
        assert cluster.wait_for_ring() == ring


def test_daemons_on_a_path_of_9000_bytes_use_all_of_it(tmp_path: Path) -> None:
    jumbo = f"testing = true\npacket = {DATAGRAM_MAX}"
    with LocalCluster(tmp_path, 3, extra=jumbo) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.send(1, 50, "safe", size=DATAGRAM_MAX - WRAPPING)
        cluster.send(2, 50)
        assert [one.size for one in examined(cluster, 1).peers] == [DATAGRAM_MAX] * 2
        assert findings(cluster, 2, 3) == []
        cluster.wait_until_delivered(cluster.nodes, 100)
        assert cluster.refused(2, "oversized") == 0


def test_a_wrong_key_is_named_by_whoever_has_it_and_by_the_others(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        write_new_key(tmp_path / "other.key")
        cluster.configure(1, keys=["other.key"])
        cluster.start()
        cluster.wait_for_ring([1])
        cluster.wait_for_ring([2, 3])
        own = findings(cluster, 1)
        assert sorted(node for one in own for node in one.about) == [2, 3]
        assert (own[0].cause, 2 in own[0].about) == ("key", True)
        assert "the key of n1 is likely the wrong one" in own[0].sentence
        for node in (2, 3):
            (seen,) = findings(cluster, node)
            assert (seen.cause, seen.about) == ("key", (1,))
            assert "wrong key" in seen.sentence


def test_two_clusters_on_one_port_are_named(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.configure(3, cluster="other")
        cluster.start()
        cluster.wait_for_ring([1, 2])
        cluster.wait_for_ring([3])
        (here,) = findings(cluster, 1)
        assert (here.cause, here.about) == ("cluster", (3,))
        seen = findings(cluster, 3)[0]  # of their ring, one speaks to all
        assert (seen.cause, 1 in seen.about) == ("cluster", True)


def test_two_daemons_with_one_id_are_named_from_every_side(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 4) as cluster:
        three = [1, 2, 3]
        for node in three:
            cluster.configure(node, peers=three)
        listen = f'listen = "{cluster.hosts[0]}:{cluster.ports[3]}"'
        cluster.configure(4, node_id=2, peers=three, extra=f"testing = true\n{listen}")
        cluster.start(three)
        cluster.wait_for_ring(three)
        cluster.start([4])
        wait_for("the twin to speak", lambda: len(examined(cluster, 1).peers[0].incarnations) == 2)
        assert "twin" in [finding.cause for finding in findings(cluster, 3)]
        examined(cluster, 4)  # the answers to its probes go to the other
        together = [finding for finding in findings(cluster, 2, 4) if finding.cause == "twin"]
        assert any(f"{cluster.hosts[0]}:{cluster.ports[3]}" in one.sentence for one in together)


def test_unequal_parameters_and_lists_are_named(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.configure(2, extra="testing = true\npacket = 1400", peers=[1, 2])
        cluster.start([1, 2])
        cluster.wait_for_ring([1, 2])
        found = {one.cause: one.sentence for one in findings(cluster, 1)}
        assert "datagram_max is 1338 there and 1390 here" in found["parameters"]
        assert "n2 does not list n3" in found["peers"]
        assert "nothing comes from n3" in found["silent"]


def test_a_link_that_goes_one_way_is_named(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        wrong = [cluster.ports[0], cluster.ports[1] + 1]
        cluster.configure(1, ports=wrong)  # 1 sends to where 2 is not
        cluster.ask(1, do="reload")
        cluster.wait_for_ring([2])
        (seen,) = findings(cluster, 1)
        assert seen.cause == "one-way"
        (seen,) = findings(cluster, 2)
        assert seen.cause == "silent"


def test_every_reason_to_refuse_a_datagram_is_counted_and_shown(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start([1])
        cluster.wait_for_ring([1])
        key = read_key(tmp_path / "cluster.key")
        life = (2, 1, secrets.randbits(64))
        frame = wire.HEADER.pack(wire.BEACON, *life[:2])
        genuine = Sealer("test", key, *life).seal(frame)
        written = bytearray(genuine)
        written[-1] ^= 1
        forged = bytes(written)
        newer = bytearray(genuine)
        newer[2] += 1
        stranger = Sealer("test", key, 9, 1, life[2]).seal(wire.HEADER.pack(wire.BEACON, 9, 1))
        speaks_for_3 = Sealer("test", key, *life)
        speaks_for_3.counter = 5
        reasons = {
            "altered": forged,
            "truncated": genuine[: ENVELOPE.size - 1],
            "oversized": bytes(DATAGRAM_MAX + 1),
            "not ours": b"?" * 80,
            "version": bytes(newer),
            "cluster": Sealer("foreign", key, *life).seal(frame),
            "unsealed": Sealer("test", None, *life).seal(frame),
            "not a peer": stranger,
            "frame of another transmitter": speaks_for_3.seal(wire.HEADER.pack(wire.BEACON, 3, 1)),
        }
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
            at = (cluster.hosts[0], cluster.ports[0])
            for reason, datagram in reasons.items():
                assert cluster.refused(1, reason) == 0
                outside.sendto(datagram, at)
                wait_for(reason, partial(is_counted, cluster, reason))
            outside.sendto(genuine, at)
            outside.sendto(genuine, at)
            wait_for("replay", partial(is_counted, cluster, "replay"))
        facts = examined(cluster, 1)
        shown = {**facts.strangers, **facts.peers[0].refused}
        assert shown == dict.fromkeys([*reasons, "replay"], 1)
        assert facts.strangers.keys() == {"truncated", "oversized", "not ours", "not a peer"}


def is_counted(cluster: LocalCluster, reason: str) -> bool:
    return cluster.refused(1, reason) == 1


def test_the_command_says_what_is_wrong_and_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        first, second = str(cluster.config(1)), str(cluster.config(2))
        cluster.start()
        cluster.wait_for_ring()
        code = main(["doctor", "--json", "--all", str(tmp_path)])
        told = json.loads(capsys.readouterr().out)
        assert [one["name"] for one in told["daemons"]] == ["n1", "n2"]
        assert code == (EXIT_VIOLATION if told["findings"] else EXIT_OK)
        assert {one["cause"] for one in told["findings"]} <= {"lag"}
        cluster.signal(2, signal.SIGTERM)
        assert cluster.reap(2) == 0
        cluster.wait_for_ring([1])
        assert main(["doctor", first]) == EXIT_VIOLATION
        shown = capsys.readouterr().out
        assert "n1 is alone in ring" in shown
        assert "silent: nothing comes from n2" in shown
        assert main(["doctor", second]) == EXIT_UNREACHABLE
        assert "no daemon runs there; it left in good order at" in capsys.readouterr().out
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind((cluster.hosts[0], cluster.ports[1]))
            assert main(["doctor", second]) == EXIT_UNREACHABLE
            assert "the port is in use" in capsys.readouterr().out


def test_a_daemon_that_met_its_twin_leaves_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start([1])
        cluster.wait_for_ring([1])
        life = (1, 2**50, 7)  # of the same id, and later
        twin = Sealer("test", read_key(tmp_path / "cluster.key"), *life)
        farewell = wire.RING_FRAME.pack(wire.LEAVE, *life[:2], 8, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
            outside.sendto(twin.seal(farewell), (cluster.hosts[0], cluster.ports[0]))
        assert cluster.reap(1) == 1
        assert main(["doctor", str(cluster.config(1))]) == EXIT_UNREACHABLE
        assert "processor id 1 is in use" in capsys.readouterr().out


def test_a_daemon_that_is_suspended_is_not_taken_for_one_that_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.signal(1, signal.SIGSTOP)
        assert main(["doctor", str(cluster.config(1))]) == EXIT_UNREACHABLE
        told = capsys.readouterr().out
        assert "its daemon does not answer; its process is alive: suspended" in told
        assert "never started" not in told
        cluster.signal(1, signal.SIGCONT)
