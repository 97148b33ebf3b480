"""Programs without asyncio, on a real socket."""

import doctest
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import evensong
import evensong.sync
from evensong import (
    BadName,
    ConnectionClosed,
    ConnectionLost,
    Message,
    OutcomeUnknown,
    Refused,
    Service,
    Unreachable,
    View,
)
from evensong.client.blocking import WAIT_MS, Line, Patience
from tests.client.server import Server, serving

PATIENCE_S = 30.0  # how long something may take on a busy machine before the test fails


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


def test_the_example_runs(server: Server) -> None:
    names = {"evensong": evensong, "address": server.address, "Message": Message}
    result = doctest.testmod(evensong.sync, extraglobs=names)
    assert result.attempted
    assert not result.failed


def test_two_programs_share_a_group(server: Server) -> None:
    with (
        evensong.sync.connect(server.address, name="ann") as ann,
        evensong.sync.connect(server.address, name="bob") as bob,
        ann.join("orders") as orders,
        bob.join("orders") as same,
    ):
        receipt = orders.send(b"buy 5", service=Service.SAFE)
        assert isinstance(same.next_event(PATIENCE_S), View)
        message = same.next_event(PATIENCE_S)
        assert isinstance(message, Message)
        assert (message.payload, message.id) == (b"buy 5", receipt.id)
        assert receipt.ordered(PATIENCE_S) == message.order
        assert receipt.safe(PATIENCE_S).members == (1,)
        assert bob.groups() == {"orders": (ann.member, bob.member)}
        with pytest.raises(TimeoutError):
            same.next_event(0)


def test_many_messages_come_in_batches_and_the_socket_can_be_polled(server: Server) -> None:
    with evensong.sync.connect(server.address) as es, es.join("g") as group:
        receipt = es.send_many("g", [b"%d" % number for number in range(50_000)])
        assert select.select([es], [], [], PATIENCE_S)[0]
        got: list[Message] = []
        for batch in group.batches():
            got += [event for event in batch if isinstance(event, Message)]
            if len(got) == 50_000:
                break
        assert [int(message.payload) for message in got] == list(range(50_000))
        assert receipt.ordered(PATIENCE_S) == got[-1].order
        group.leave()
        assert list(group) == []
        with pytest.raises(ConnectionClosed):
            group.next_event(PATIENCE_S)


def test_the_connection_tells_of_all_groups_and_of_itself(server: Server) -> None:
    with evensong.sync.connect(server.address) as es:
        es.join("g")
        es.join("h")
        es.send(["g", "h", str(es.member)], b"all")
        events = [es.next_event(PATIENCE_S) for _ in range(3)]
        assert [type(event) for event in events] == [View, View, Message]


class Deaf:
    """A poll that has nothing to tell, and notes for how long it was asked."""

    def __init__(self) -> None:
        self.asked: list[float | None] = []

    def register(self, *_: object) -> None:
        pass

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        return []


def test_however_long_it_waits_it_looks_for_signals_every_second(server: Server) -> None:
    with evensong.sync.connect(server.address) as es:
        hearing, deaf = es._line._poll, Deaf()
        es._line._poll = deaf  # type: ignore[assignment, misc]
        es._line.until(lambda: len(deaf.asked) == 3)
        assert deaf.asked == [WAIT_MS] * 3
        es._line.until(lambda: len(deaf.asked) == 5, Patience(0.5))
        assert all(asked is not None and 0 < asked <= 500 for asked in deaf.asked[3:])
        es._line._poll = hearing  # type: ignore[misc]


def test_leaving_a_group_loses_nothing_of_the_others(server: Server) -> None:
    with evensong.sync.connect(server.address) as es:
        es.join("b")
        es.send(["b", str(es.member)], b"one").ordered(PATIENCE_S)
        with es.join("a"):
            es.send("a", b"nobody reads it").ordered(PATIENCE_S)
        es.send("b", b"two")
        events = [es.next_event(PATIENCE_S) for _ in range(3)]
        heard = [event.payload for event in events if isinstance(event, Message)]
        assert heard == [b"one", b"two"]


def test_who_does_not_wait_is_told_what_is_there(server: Server) -> None:
    with evensong.sync.connect(server.address) as es:
        group = es.join("g")
        with evensong.sync.connect(server.address) as other:
            other.send("g", b"x").ordered(PATIENCE_S)
        heard: list[Message | View] = []
        while len(heard) < 2:
            assert select.select([es], [], [], PATIENCE_S)[0] == [es]
            with suppress(TimeoutError):
                while True:
                    heard.append(group.next_event(0))
        assert [type(event) for event in heard] == [View, Message]
        with pytest.raises(TimeoutError, match="within 0 s"):
            group.next_event(0)


def test_a_wait_is_not_longer_for_what_is_not_shown(server: Server) -> None:
    class Nothing:
        def snapshot(self) -> bytes:
            return b""

        def restore(self, snapshot: bytes) -> None: ...

        def merge(self, snapshots: list[bytes]) -> None: ...

    enough = threading.Event()
    sent: list[evensong.sync.Receipt] = []

    def talk() -> None:
        with evensong.sync.connect(server.address) as other, other.join("g"):
            joined.set()
            while len(sent) < 600 and not enough.wait(0.05):
                sent.append(other.send("g", b"held back, since nobody has a state to tell"))

    joined = threading.Event()
    talking = threading.Thread(target=talk)
    talking.start()
    try:
        assert joined.wait(PATIENCE_S)
        with evensong.sync.connect(server.address) as es:
            group = es.join("g", state=Nothing())
            with pytest.raises(TimeoutError):
                group.next_event(0.5)
    finally:
        enough.set()
        talking.join()
    assert len(sent) < 600


def test_a_joining_that_is_interrupted_is_undone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(_line: Line, _timeout: float | None) -> None:
        raise Interrupted  # as a signal handler may

    with evensong.sync.connect(server.address) as es:
        with monkeypatch.context() as patch:
            patch.setattr(Line, "_move", interrupt)
            with pytest.raises(Interrupted):
                es.join("g")
        with es.join("g") as group:
            assert isinstance(group.next_event(PATIENCE_S), View)
        assert es.groups() == {}


def test_leaving_does_not_wait_for_a_daemon_that_does_not_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evensong.sync, "CLOSE_S", 0.1)
    with evensong.sync.connect(server.address) as es:
        with es.join("g"):
            server.freeze()
        server.thaw()
        assert isinstance(es.join("g").next_event(PATIENCE_S), View)


def test_a_daemon_that_dies_leaves_nothing_hanging(server: Server) -> None:
    es = evensong.sync.connect(server.address)
    group = es.join("g")
    done = es.send("g", b"done")
    done.ordered(PATIENCE_S)
    server.freeze()
    receipts = [es.send("g", b"x") for _ in range(50)]
    with pytest.raises(TimeoutError):
        receipts[0].ordered(0)
    server.kill()
    for receipt in receipts:
        with pytest.raises(OutcomeUnknown):
            receipt.ordered(PATIENCE_S)
    with pytest.raises(OutcomeUnknown):
        done.safe(PATIENCE_S)
    assert done.ordered()
    with pytest.raises(ConnectionLost):
        list(group)
    with pytest.raises(ConnectionLost):
        es.send("g", b"late")
    es.close()
    with pytest.raises(Unreachable):
        evensong.sync.connect(server.address)


def test_bad_requests_are_refused(server: Server) -> None:
    for name in ("a#b", "x" * 33, 5):
        with pytest.raises(BadName, match=f"{name!r}: a name is 1 to 32 bytes of text without #"):
            evensong.sync.connect(server.address, name=name)  # type: ignore[arg-type]
    with evensong.sync.connect(server.address) as es:
        with pytest.raises(BadName):
            es.send("", b"")
        with pytest.raises(Refused):
            es.send_many("g", [])
        with pytest.raises(Refused):
            es.join("g", policy="mine")  # type: ignore[arg-type]
        with pytest.raises(Refused, match="no method snapshot"):
            es.join("g", state=object())  # type: ignore[arg-type]
        with pytest.raises(Refused, match="service"):
            es.send("g", b"", service="safe")  # type: ignore[arg-type]
    es.close()
    with pytest.raises(ConnectionClosed):
        es.send("g", b"")
    with pytest.raises(Unreachable):
        evensong.sync.connect(server.path.parent / "nobody.sock")
