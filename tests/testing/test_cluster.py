"""A simulated cluster: what a test can do to it, and what its clients are told."""

import pytest

from evensong import Service
from evensong.core.engine import ENGINES
from evensong.core.groups.events import Cause, View
from evensong.errors import (
    AlreadyMember,
    BadName,
    BadRequest,
    ConnectionClosed,
    ConnectionLost,
    NotMember,
    TooLarge,
    Unreachable,
)
from evensong.testing import Client, Message, cluster
from evensong.testing.client import Event

BOTH = pytest.mark.parametrize("engine", ENGINES)


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events if isinstance(event, Message)]


def users(client: Client, group: str) -> list[str]:
    view = client.view(group)
    return [member.user for member in view.members] if view is not None else []


@BOTH
def test_members_get_messages_and_views_in_one_order(engine: str) -> None:
    es = cluster(3, seed=4, engine=engine)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    ann.join("g")
    es.settle()
    bob.join("g")
    es.settle()
    number = ann.send("g", b"one", service=Service.SAFE)
    bob.send(["g", "h"], b"two")
    es.settle()
    bob.leave("g")
    es.settle()
    seen = ann.events()
    assert [type(event) for event in seen] == [View, View, Message, Message, View]
    causes = [event.cause for event in seen if isinstance(event, View)]
    assert causes == [Cause.JOIN, Cause.JOIN, Cause.LEAVE]
    one = next(event for event in seen if isinstance(event, Message) and event.payload == b"one")
    assert (one.id, one.service, one.sender, one.groups) == (
        number,
        Service.SAFE,
        ann.member,
        ("g",),
    )
    assert payloads(bob.events()) == payloads(seen)
    assert ann.events() == []


@BOTH
def test_private_names_and_messages_that_do_not_come_back(engine: str) -> None:
    es = cluster(2, engine=engine)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    ann.join("g")
    bob.join("g")
    es.settle()
    ann.send(bob.member, b"for you")
    ann.send("g", b"for all but me", echo=False)
    es.settle()
    assert payloads(bob.events()) == [b"for you", b"for all but me"]
    assert payloads(ann.events()) == []


@BOTH
def test_a_large_message_comes_whole(engine: str) -> None:
    es = cluster(3, engine=engine)
    ann, bob = es.client(1), es.client(3)
    bob.join("g")
    es.settle()
    body = bytes(range(256)) * 400
    ann.send("g", body)
    es.settle()
    assert payloads(bob.events()) == [body]


@BOTH
def test_a_partition_is_two_views_and_a_heal_one(engine: str) -> None:
    es = cluster(3, engine=engine)
    clients = [es.client(node, f"n{node}") for node in es.nodes]
    for client in clients:
        client.join("g")
        es.settle()
    es.partition([1, 2])  # 3 is alone
    es.settle()
    assert [users(client, "g") for client in clients] == [["n1", "n2"], ["n1", "n2"], ["n3"]]
    es.heal()
    es.settle()
    assert {tuple(users(client, "g")) for client in clients} == {("n1", "n2", "n3")}


@BOTH
def test_a_crash_loses_the_clients_of_a_daemon_and_a_restart_does_not_bring_them_back(
    engine: str,
) -> None:
    es = cluster(2, engine=engine)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    ann.join("g")
    bob.join("g")
    es.settle()
    es.crash(2)
    assert not bob.is_connected
    with pytest.raises(ConnectionLost, match="is gone"):
        bob.send("g", b"x")
    with pytest.raises(Unreachable, match="daemon 2 does not run"):
        es.client(2)
    es.settle()
    assert users(ann, "g") == ["ann"]
    es.restart(2)
    es.settle()
    assert not bob.is_connected
    assert es.client(2, "bob").member != bob.member


@BOTH
def test_a_client_that_closes_has_left_after_its_messages(engine: str) -> None:
    es = cluster(2, engine=engine)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    ann.join("g")
    es.settle()
    bob.join("g")
    bob.send("g", b"bye")
    bob.close()
    es.settle()
    *_, last, farewell = ann.events()
    assert isinstance(last, Message)
    assert isinstance(farewell, View)
    assert (last.payload, farewell.cause) == (b"bye", Cause.DISCONNECT)


@BOTH
def test_a_suspended_daemon_goes_on_where_it_was(engine: str) -> None:
    es = cluster(3, engine=engine)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    ann.join("g")
    es.settle()
    bob.join("g")
    es.settle()
    es.pause(2)
    with pytest.raises(BadRequest, match="suspended"):
        es.settle()
    with pytest.raises(Unreachable, match="suspended"):
        bob.send("g", b"x")
    es.advance(2)
    assert users(ann, "g") == ["ann"]
    es.resume(2)
    es.settle()
    assert users(ann, "g") == users(bob, "g") == ["ann", "bob"]


@BOTH
def test_the_same_seed_is_the_same_run_and_another_is_not(engine: str) -> None:
    def told(seed: int) -> list[object]:
        es = cluster(3, seed=seed, loss=0.1, engine=engine)
        clients = [es.client(node) for node in es.nodes]
        for client in clients:
            client.join("g")
        for number in range(20):
            clients[number % 3].send("g", b"%d" % number)
            es.advance(0.0003)
        es.settle()
        return [
            es.now,
            *(event.order for event in clients[0].events() if isinstance(event, Message)),
        ]

    assert told(1) == told(1)
    assert told(1) != told(2)


def test_what_makes_no_sense_is_refused() -> None:
    es = cluster(2)
    ann = es.client(1, "ann")
    with pytest.raises(BadName, match="no name of a group"):
        ann.join("#g")
    with pytest.raises(NotMember, match="no member"):
        ann.leave("g")
    with pytest.raises(BadName, match="expected 1 to 64"):
        ann.send([], b"x")
    with pytest.raises(TooLarge, match="at most"):
        ann.send("g", bytes(2**24 + 1))
    with pytest.raises(BadRequest, match="none of the daemons"):
        es.crash(3)
    with pytest.raises(BadRequest, match="daemon 1 runs"):
        es.restart(1)
    with pytest.raises(BadRequest, match="one component only"):
        es.partition([1], [1, 2])
    with pytest.raises(BadRequest, match="does not go back"):
        es.advance(-1)
    with pytest.raises(BadRequest, match="1 to"):
        cluster(0)
    with pytest.raises(BadRequest, match="no probability"):
        cluster(2, loss=1.0)
    ann.join("g")
    es.settle()
    with pytest.raises(AlreadyMember, match="already"):
        ann.join("g")
    ann.close()
    with pytest.raises(ConnectionClosed, match="goodbye"):
        ann.send("g", b"x")


class Log:
    """A state that is a list of payloads."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def snapshot(self) -> bytes:
        return b"\n".join(self.lines)

    def restore(self, snapshot: bytes) -> None:
        self.lines = snapshot.split(b"\n")

    def merge(self, snapshots: list[bytes]) -> None:
        raise AssertionError("there is one side only")


def test_a_snapshot_is_taken_when_what_comes_before_it_was_read() -> None:
    es = cluster(2)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    hers, his = Log(), Log()
    ann.join("g", state=hers)
    es.settle()
    ann.send("g", b"before")
    es.settle()
    bob.join("g", state=his)
    es.settle()
    assert list(bob.each()) == []  # nobody has read so far that there is a snapshot
    with pytest.raises(BadRequest, match="each"):
        ann.events()
    for event in ann.each():
        if isinstance(event, Message):
            hers.lines.append(event.payload)
    es.settle()
    assert [type(event) for event in bob.each()] == [View]
    assert his.lines == hers.lines == [b"before"]


def test_a_message_has_the_id_that_was_chosen() -> None:
    es = cluster(2)
    ann, bob = es.client(1, "ann"), es.client(2, "bob")
    bob.join("g")
    es.settle()
    assert ann.send("g", b"buy 5", id="order-17") == "order-17"
    own = ann.send("g", b"", service=Service.SAFE)
    ann.send("g", b"buy 5", id="order-17")
    es.settle()
    got = [event for event in bob.events() if isinstance(event, Message)]
    assert [message.id for message in got] == ["order-17", own, "order-17"]
    assert [message.payload for message in got] == [b"buy 5", b"", b"buy 5"]
    for wrong in ("", "x" * 256, "\ud800"):
        with pytest.raises(BadName):
            ann.send("g", b"", id=wrong)


def test_the_rules_are_those_of_real_daemons() -> None:
    es = cluster(1)
    for wrong in ("", "a#b", "x" * 33):
        with pytest.raises(BadName, match="1 to 32 bytes without #"):
            es.client(1, wrong)
    ann = es.client(1, "ann")
    ann.join("g")
    ann.send("g", bytes(16 * 2**20))
    with pytest.raises(TooLarge) as caught:
        ann.send("g", bytes(16 * 2**20 + 1))
    assert caught.value.size_max == 16 * 2**20
    es.settle()
    assert [len(payload) for payload in payloads(ann.events())] == [16 * 2**20]


@pytest.mark.parametrize(("latency_us", "jitter_us"), [(-5, 0), (100, -1)])
def test_weather_that_cannot_be_is_refused(latency_us: int, jitter_us: int) -> None:
    with pytest.raises(BadRequest, match="below 0"):
        cluster(1, latency_us=latency_us, jitter_us=jitter_us)


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(BadRequest, match="engine: takes one of totem, transis"):
        cluster(1, engine="paxos")
