"""Clients of real daemons: what they are told, and what becomes of those who misbehave."""

from pathlib import Path

import pytest

from evensong.core.engine import ENGINES
from evensong.core.groups.events import Cause, ErrorCode, Reconfigured, View
from evensong.core.groups.frame import HEADER_SIZE, SAFE, SELF_DISCARD, encode_whole
from evensong.daemon.sessions import NUMBERS
from evensong.ipc import wire
from evensong.ipc.frames import (
    Deliver,
    Farewell,
    GroupsAre,
    HasLeft,
    Pong,
    Receipt,
    Refused,
    SafeLine,
    Why,
)
from tests.daemon.local import LocalCluster, wait_for
from tests.daemon.raw_client import RawClient


def clients_of(cluster: LocalCluster, node: int) -> dict[str, object]:
    clients = cluster.status(node)["clients"]
    assert isinstance(clients, dict)
    return clients


@pytest.mark.parametrize("engine", ENGINES)
def test_members_get_messages_in_one_order_with_views_and_receipts(
    tmp_path: Path, engine: str
) -> None:
    with LocalCluster(tmp_path, 3, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            RawClient(cluster.state(1), "anna") as anna,
            RawClient(cluster.state(2), "bert") as bert,
            RawClient(cluster.state(3), "carl") as carl,
            RawClient(cluster.state(1), "dora") as dora,
        ):
            config = anna.hear_one(Reconfigured)
            assert (config.members, config.primary, config.transitional) == ((1, 2, 3), True, False)
            for client in (anna, bert, carl, dora):
                assert client.join("choir").members[-1] == client.member
            cluster.send(1, 30)  # test packets go their own way, in the same order
            cluster.send(2, 30, "safe")
            for number in range(20):
                for client in (anna, bert, carl):
                    client.send(("choir",), b"%d" % number, b"", b"x" * number)
            everything = [client.hear_messages(180) for client in (anna, bert, carl)]
            assert everything[0] == everything[1] == everything[2] == dora.hear_messages(180)
            places = [[order for _, order, _ in client.got] for client in (anna, bert, carl)]
            assert places[0] == places[1] == places[2] == sorted(places[0])
            mine = [order for sender, order, _ in anna.got if sender == "anna"]
            while len(anna.receipts) < 20:
                anna.hear()
            told = [one.order for one in anna.receipts]
            assert told == mine[::3]
            assert [one.first_no for one in anna.receipts] == list(range(1, 60, 3))
            assert [view.members for view in anna.views[-1:]] == [
                (anna.member, bert.member, carl.member, dora.member)
            ]
        cluster.wait_until_quiet([1, 2, 3])
        assert clients_of(cluster, 1)["dropped"] == {}
        assert clients_of(cluster, 1)["malformed_packets"] == {}
        cluster.check_history()


def test_a_group_hears_who_leaves_and_who_is_gone(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            anna.join("choir")
            bert, carl = RawClient(cluster.state(2), "bert"), RawClient(cluster.state(1), "carl")
            bert.join("choir")
            carl.join("choir")
            bert.say(wire.encode_leave(9, "choir"))
            assert bert.hear_one(HasLeft).group == "choir"
            bert.say(wire.encode_leave(10, "choir"))
            assert bert.hear_one(Refused).code is ErrorCode.NOT_MEMBER
            carl.stream.close()  # without a word
            seen: list[View] = []
            while not seen or seen[-1].members != (anna.member,):
                seen.append(anna.hear_one(View))
            causes = [(view.cause, view.subject) for view in seen[-2:]]
            assert causes == [(Cause.LEAVE, bert.member), (Cause.DISCONNECT, carl.member)]
            bert.say(wire.encode_bye(11))
            farewell = bert.hear_all()[-1]
            assert isinstance(farewell, Farewell)
            assert farewell.why is Why.ASKED
            bert.stream.close()
            wait_for("one client", lambda: clients_of(cluster, 1)["connections"] == 1)
            assert clients_of(cluster, 2)["connections"] == 0


def test_answers_to_what_is_asked_aside(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            anna.join("b")
            anna.join("a")
            anna.say(wire.encode_ping(77) + wire.encode_groups(78))
            anna.hear_one(Pong)
            listed = anna.hear_one(GroupsAre)
            assert listed.groups == (("a", (anna.member,)), ("b", (anna.member,)))
            anna.say(wire.encode_safe_lines(wanted=True))
            anna.send(("a",), b"safe", flags=SAFE)
            receipt = anna.hear_one(Receipt)
            line = anna.hear_one(SafeLine)
            assert receipt.order is not None
            assert (line.ring_id, line.seq) >= receipt.order[:2]
            anna.send(("a",), b"not to me", flags=SELF_DISCARD)
            anna.send((str(anna.member),), b"to me alone")
            assert anna.hear_messages(2) == [b"safe", b"to me alone"]
            anna.say(wire.encode_join(79, "#no") + wire.encode_join(80, "a"))
            assert anna.hear_one(Refused).code is ErrorCode.BAD_NAME
            assert anna.hear_one(Refused).code is ErrorCode.ALREADY_MEMBER


@pytest.mark.parametrize("size", [1_000, 300_000])
def test_its_sender_gets_a_frame_without_the_content_and_others_get_all(
    tmp_path: Path, size: int
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna, RawClient(cluster.state(1)) as dora:
            anna.join("choir")
            dora.join("choir")
            anna.send(("choir",), bytes(size))
            anna.send(("choir",), b"one", b"two")
            for is_own, client in ((True, anna), (False, dora)):
                first, second = client.hear_one(Deliver), client.hear_one(Deliver)
                assert (first.is_own, second.is_own) == (is_own, is_own)
                assert len(first.frame) == HEADER_SIZE + (0 if is_own else size)
            assert anna.got == dora.got
            assert [one.comes_back for one in anna.receipts] == [True, True]
            anna.send(("choir",), b"not to me", flags=SELF_DISCARD)
            assert not anna.hear_one(Receipt).comes_back
            assert dora.hear_messages(4)[-1] == b"not to me"


def test_a_daemon_that_stops_says_goodbye(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            anna.join("choir")
            stdin = cluster.processes[1].stdin
            assert stdin is not None
            stdin.close()
            farewell = anna.hear_all()[-1]
            assert isinstance(farewell, Farewell)
            assert farewell.why is Why.STOPPING
            assert cluster.processes[1].wait() == 0
        assert not (cluster.state(1) / "client.sock").exists()


def test_what_one_sends_on_hearing_another_comes_after_it_everywhere(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            RawClient(cluster.state(1), "p") as p,
            RawClient(cluster.state(2), "q") as q,
            RawClient(cluster.state(3), "r") as r,
        ):
            q.join("G")
            r.join("G")
            r.join("H")
            for number in range(30):
                p.send(("G",), b"m1 %d" % number)
                q.hear_messages(number + 1)
                q.send(("H",), b"m2 %d" % number)
            heard = r.hear_messages(60)
            for number in range(30):
                assert heard.index(b"m1 %d" % number) < heard.index(b"m2 %d" % number)


def test_numbers_of_destinations_are_used_again(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna, RawClient(cluster.state(1)) as bert:
            bert.join("choir")
            said: list[bytes] = []
            for number in range(NUMBERS + 100):
                frame = encode_whole(anna.member.session, number, 0, 0, [b"%d" % number])
                said.append(wire.encode_set(0, 0, ["choir", f"g{number}"]))
                said.append(wire.encode_send(1, frame))
            anna.say(b"".join(said))
            for number in range(NUMBERS + 100):
                told = bert.hear_one(Deliver)
                assert told.number < NUMBERS
                assert bert.destinations[told.number].groups == ("choir", f"g{number}")
            assert len(bert.destinations) == NUMBERS


@pytest.mark.parametrize("size", [0, 100_000, 16 * 2**20])
def test_a_message_of_any_size_arrives_whole(tmp_path: Path, size: int) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna, RawClient(cluster.state(2)) as bert:
            bert.join("choir")
            message = bytes(range(256)) * (size // 256)
            anna.send(("choir",), message)
            anna.send(("choir",), b"next")
            assert bert.hear_messages(2) == [message, b"next"]


def test_a_name_cannot_forge_a_line_of_the_log(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "x\nn1: stops\x1b[2J") as client:
            client.say(b"\xff" * 9)
            assert client.hear_one(Farewell).why is Why.MALFORMED
        wait_for("the log", lambda: "hangs up on xn1: stops[2J (process" in cluster.log(1))
