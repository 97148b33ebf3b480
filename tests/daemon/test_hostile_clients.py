"""Clients that are slow, many, cut off, of another user or out to break something."""

import itertools
import os
import select
import signal
import socket
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from evensong.core.groups.events import Cause, ErrorCode, View
from evensong.core.groups.frame import encode_whole
from evensong.core.timer import NEVER
from evensong.daemon.connection import PIECE, READ_BYTES
from evensong.daemon.sessions import CONNECTIONS_MAX, TURN_READS, WISHES_MAX, Access, Sessions
from evensong.errors import MalformedFrame
from evensong.ipc import wire
from evensong.ipc.frames import (
    CLIENT_SOCKET,
    VERSION,
    Farewell,
    Frame,
    Refused,
    Slow,
    Throttled,
    Why,
)
from evensong.ipc.splitter import HEAD, HEAD_SIZE, Splitter
from tests.daemon.crowd import kill_in_the_middle_of_a_send
from tests.daemon.local import LocalCluster, wait_for
from tests.daemon.raw_client import RawClient, connected
from tests.daemon.test_driver import Stage
from tests.daemon.test_sessions import clients_of

SMALL = 'testing = true\nmessage_max = "64KiB"\nclient_queue = "1MiB"'
MESSAGE = bytes(30_000)


def rss_mib(cluster: LocalCluster, node: int) -> int:
    status = Path(f"/proc/{cluster.processes[node].pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1_024


def descriptors(cluster: LocalCluster, node: int) -> int:
    return len(os.listdir(f"/proc/{cluster.processes[node].pid}/fd"))


@pytest.mark.parametrize("reads", [False, True])
def test_a_client_that_takes_nothing_is_told_and_dropped(tmp_path: Path, reads: bool) -> None:
    with LocalCluster(tmp_path, 2, extra=SMALL) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            RawClient(cluster.state(1), "anna") as anna,
            RawClient(cluster.state(2), "carl") as carl,
            RawClient(cluster.state(2), "slow") as slow,
        ):
            for client in (anna, carl, slow):
                client.join("choir")
            slow.consumes = False
            before = rss_mib(cluster, 2)
            for number in range(200):
                anna.send(("choir",), b"%d" % number, MESSAGE[:1_000])
                anna.send(("choir",), MESSAGE)
                anna.hear_messages(3 * number)
                carl.hear_messages(3 * number)
                if reads and not slow.waiting:
                    slow.stream.settimeout(0)
                    try:
                        slow._take()
                    except BlockingIOError:
                        continue
            assert carl.hear_messages(600) == anna.hear_messages(600)
            while anna.views[-1].members != (anna.member, carl.member):
                anna.hear_one(View)
            assert (anna.views[-1].cause, anna.views[-1].subject) == (Cause.DISCONNECT, slow.member)
            told = slow.hear_all()
            assert isinstance(told[-1], Farewell)
            assert told[-1].why is Why.SLOW
            (warning,) = [one for one in told if isinstance(one, Slow)]
            assert warning.limit == 2**20 >= 2 * warning.queued - 200_000
            assert clients_of(cluster, 2)["dropped"] == {"slow consumer": 1}
            assert "hangs up on slow (process" in cluster.log(2)
            assert rss_mib(cluster, 2) - before < 30


def test_a_client_that_does_not_take_its_own_messages_is_told_and_dropped(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra=SMALL) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "slow", consumes=False) as slow:
            slow.join("choir")
            with suppress(ConnectionError):
                for _ in range(100):
                    slow.send(("choir",), MESSAGE)
            told = slow.hear_all()
            assert isinstance(told[-1], Farewell)
            assert told[-1].why is Why.SLOW
            (warning,) = [one for one in told if isinstance(one, Slow)]
            assert 2**20 <= 2 * warning.queued < 2**20 + 200_000
            # The window and what was begun in it; the rest waited, and the queue was full.
            taken = len(MESSAGE) * len(slow.got)
            assert 2**20 - len(MESSAGE) <= taken <= 2**20 + PIECE
            assert len(MESSAGE) * len(slow.receipts) >= taken + 2**20 - 3 * len(MESSAGE)
            assert len(MESSAGE) * len(slow.receipts) <= taken + 2**20 + len(MESSAGE)
            assert clients_of(cluster, 1)["dropped"] == {"slow consumer": 1}


def test_a_client_that_is_stuck_at_half_its_queue_is_dropped(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra=SMALL) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            RawClient(cluster.state(1), "anna") as anna,
            RawClient(cluster.state(1), "slow", consumes=False) as slow,
        ):
            slow.join("choir")
            for _ in range(34):  # what the socket takes, and a bit more than half the queue
                anna.send(("choir",), MESSAGE)

            def is_dropped() -> bool:
                return clients_of(cluster, 1)["dropped"] == {"slow consumer": 1}

            wait_for("slow", lambda: '"slow": true' in str(cluster.status(1)) or is_dropped())
            wait_for("it is dropped", is_dropped)
            farewell = slow.hear_all()[-1]
            assert isinstance(farewell, Farewell)
            assert (farewell.why, farewell.text) == (Why.SLOW, "takes nothing")


def is_throttle(frame: Frame) -> bool:
    return wire.decode_told(frame) == Throttled(is_on=True)


def test_a_client_that_does_not_stop_is_not_read_and_loses_nothing(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2, extra='testing = true\nmessage_max = "64KiB"') as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            RawClient(cluster.state(1), "loud") as loud,
            RawClient(cluster.state(2), "anna") as anna,
        ):
            anna.join("choir")
            before = rss_mib(cluster, 1)
            loud.say(wire.encode_set(0, 0, ["choir"]))
            frames = [
                wire.encode_send(1, encode_whole(loud.member.session, no, 0, 0, [MESSAGE]))
                for no in range(1, 401)
            ]
            cluster.signal(2, signal.SIGSTOP)  # the ring stands still until it is told
            while not any(is_throttle(frame) for frame in loud.waiting):
                loud.say(frames.pop(0))
            cluster.signal(2, signal.SIGCONT)
            loud.say(b"".join(frames))  # 12 MB in all, whatever it is told
            assert anna.hear_messages(400) == [MESSAGE] * 400
            loud.say(wire.encode_bye())
            told = loud.hear_all()
            assert Throttled(is_on=True) in told
            assert not [one for one in told if isinstance(one, Refused)]
            assert rss_mib(cluster, 1) - before < 12


def test_clients_that_never_pause_do_not_keep_another_from_being_heard(tmp_path: Path) -> None:
    with closing(Stage(tmp_path)) as stage:
        driver = stage.driver
        sessions = Sessions(tmp_path, Access(0o600, ""), driver, 2**20, 2**24, print)
        crowd = [connected(tmp_path) for _ in range(TURN_READS + 2)]
        for stream in crowd:
            driver.watch.dispatch(driver.watch.wait(5_000_000))
            stream.send(wire.encode_ping(1) * (2 * READ_BYTES // HEAD_SIZE))
        driver.watch.dispatch(driver.watch.wait(5_000_000))
        sessions.end_turn(0)
        assert sessions.deadline == 0  # there is more to do than a turn may take
        unheard, turns = set(crowd), 0
        while unheard:
            for stream in select.select(list(unheard), [], [], 0)[0]:
                assert stream.recv(HEAD_SIZE, socket.MSG_DONTWAIT) == wire.encode_pong(1)
                unheard.remove(stream)
            driver.watch.dispatch(driver.watch.wait(0))
            sessions.end_turn(0)
            turns += 1
        assert turns <= 2 * len(crowd)
        for stream in crowd:
            stream.close()
        sessions.close()


def test_what_was_too_much_for_a_turn_is_done_in_order_later(tmp_path: Path) -> None:
    with closing(Stage(tmp_path)) as stage:
        driver = stage.driver
        sessions = Sessions(tmp_path, Access(0o600, ""), driver, 2**20, 2**24, print)
        stream = connected(tmp_path)
        driver.watch.dispatch(driver.watch.wait(5_000_000))
        count = READ_BYTES // HEAD_SIZE
        stream.send(b"".join([wire.encode_ping(number) for number in range(count)]))
        heard, turns = bytearray(), 0
        while len(heard) < count * HEAD_SIZE:
            driver.watch.dispatch(driver.watch.wait(0))
            sessions.end_turn(0)
            turns += 1
            with suppress(BlockingIOError):
                heard += stream.recv(2**20, socket.MSG_DONTWAIT)
        assert heard == b"".join([wire.encode_pong(number) for number in range(count)])
        assert turns > 1
        stream.close()
        sessions.close()


def test_a_client_has_few_joins_and_leaves_under_way(tmp_path: Path) -> None:
    with closing(Stage(tmp_path)) as stage:
        driver = stage.driver
        driver.how = "stop"  # nothing is ordered any more
        sessions = Sessions(tmp_path, Access(0o600, ""), driver, 2**20, 2**24, print)
        stream = connected(tmp_path)
        driver.watch.dispatch(driver.watch.wait(5_000_000))
        wishes = [wire.encode_leave(number, "choir") for number in range(2, 100)]
        stream.send(wire.encode_hello(1, "anna") + b"".join(wishes))
        for _ in range(5):
            driver.watch.dispatch(driver.watch.wait(100_000))
            sessions.end_turn(0)
        (session,) = driver.core.groups.sessions.open.values()
        assert session.wishes_under_way == WISHES_MAX
        assert sessions.deadline == NEVER  # it waits for the ring, not for a turn
        stream.close()
        sessions.close()


def test_more_wishes_than_may_be_under_way_are_all_done_in_order(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            wishes = [wire.encode_leave(number, "choir") for number in range(100, 300)]
            anna.say(b"".join(wishes))
            told: list[ErrorCode] = []
            while len(told) < len(wishes):
                one = anna.hear()
                if isinstance(one, Refused):
                    told.append(one.code)
            assert set(told) == {ErrorCode.NOT_MEMBER}


def test_a_client_killed_in_the_middle_of_a_send(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(2), "anna") as anna:
            anna.join("choir")
            kill_in_the_middle_of_a_send(cluster.state(1), "killed")
            while not anna.views or anna.views[-1].cause is not Cause.DISCONNECT:
                anna.hear()
            assert [message for _, _, message in anna.got] == [b"whole"]
            anna.send(("choir",), b"on")
            assert anna.hear_messages(2) == [b"whole", b"on"]
            wait_for("it is gone", lambda: clients_of(cluster, 1)["connections"] == 0)


def test_a_hundred_come_and_go(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            anna.join("choir")
            before = descriptors(cluster, 2)
            crowd = [RawClient(cluster.state(2), f"c{number}") for number in range(100)]
            for client in crowd:
                client.say(wire.encode_join(1, "choir"))
            for client in crowd:
                client.send(("choir",), client.user.encode())
            heard = anna.hear_messages(100)
            assert sorted(heard) == sorted(client.user.encode() for client in crowd)
            for number, client in enumerate(crowd):
                if number % 3 == 0:
                    client.say(wire.encode_bye())
                client.stream.close()
            while anna.views[-1].members != (anna.member,):
                anna.hear_one(View)
            wait_for("all are gone", lambda: clients_of(cluster, 2)["connections"] == 0)
            wait_for("descriptors are given back", lambda: descriptors(cluster, 2) <= before)
            assert clients_of(cluster, 2)["dropped"] == {}


def test_there_is_an_end_to_connections(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        crowd = [connected(cluster.state(1)) for _ in range(CONNECTIONS_MAX)]
        wait_for("all are in", lambda: clients_of(cluster, 1)["connections"] == CONNECTIONS_MAX)
        with RawClient(cluster.state(1), "") as late:
            (farewell,) = late.hear_all()
            assert isinstance(farewell, Farewell)
            assert farewell.why is Why.TOO_MANY
        for stream in crowd:
            stream.close()
        wait_for("all are gone", lambda: clients_of(cluster, 1)["connections"] == 0)
        with RawClient(cluster.state(1), "anna") as anna:
            assert anna.join("choir").members == (anna.member,)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")
def test_another_user_is_refused(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, extra='testing = true\nclient_mode = "0666"') as cluster:
        cluster.start()
        cluster.wait_for_ring()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.chdir(cluster.state(1))
            os.setgroups([])
            os.setgid(65_534)
            os.setuid(65_534)
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stream.connect(CLIENT_SOCKET)
            heard = b""
            while chunk := stream.recv(65_536):
                heard += chunk
            os.write(writing, heard)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        (frame,) = Splitter(1_000).feed(os.read(reading, 65_536))
        os.close(reading)
        os.close(writing)
        assert wire.decode_told(frame) == Farewell(Why.NOT_ALLOWED, "another user's process")
        assert clients_of(cluster, 1)["dropped"] == {"another user's process": 1}
        with RawClient(cluster.state(1), "anna") as anna:
            assert anna.join("choir").members == (anna.member,)


@pytest.mark.parametrize(
    ("said", "why", "reason"),
    [
        (wire.encode_join(1, "choir"), Why.MALFORMED, "malformed: stream: before HELLO"),
        (wire.encode_hello(1, "anna") * 2, Why.MALFORMED, "malformed: stream: a second HELLO"),
        (wire.encode_hello(1, "anna", VERSION + 1), Why.VERSION, ""),
        (b"GET / HTTP/1.1\r\n\r\n", Why.MALFORMED, "malformed: stream: length"),
        (HEAD.pack(0, 99, 1), Why.MALFORMED, "malformed: ipc: kind"),
    ],
)
def test_who_speaks_out_of_turn_is_told_why_it_must_go(
    tmp_path: Path, said: bytes, why: Why, reason: str
) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "") as client:
            client.say(said)
            farewell = client.hear_all()[-1]
            assert isinstance(farewell, Farewell)
            assert farewell.why is why
        dropped = {reason: 1} if reason else {}
        assert clients_of(cluster, 1)["dropped"] == dropped


def mutated(frame: bytes, rng: Random) -> bytes:
    """Break a frame in one way or another."""
    altered = bytearray(frame)
    way = rng.randrange(6)
    if way == 0:
        altered[rng.randrange(len(altered))] ^= 1 << rng.randrange(8)
    elif way == 1:
        del altered[rng.randrange(len(altered)) :]
    elif way == 2:
        altered[rng.randrange(len(altered)) :] = rng.randbytes(rng.randrange(40))
    elif way == 3:
        altered[:4] = rng.choice([0, 1, 8, 65_535, 2**24, 2**32 - 1]).to_bytes(4, "big")
    elif way == 4:
        altered[4] = rng.randrange(256)
    else:
        body = rng.randbytes(rng.randrange(60))
        altered[:] = HEAD.pack(len(body), rng.randrange(12), rng.randrange(2**32)) + body
    return bytes(altered)


def test_garbage_costs_its_sender_the_connection_and_nobody_else_anything(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = int(request.config.getoption("--hostile-requests"))
    rng = Random(4)
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with RawClient(cluster.state(1), "anna") as anna:
            anna.join("choir")
            before = rss_mib(cluster, 1)
            thrown = 0
            for session in itertools.count():
                if thrown >= count:
                    break
                thrown += throw_some(cluster.state(1), rng)
                if session % 1_000 == 0:
                    check_that_it_works(anna, b"still here, %d" % session)
            wait_for("they are gone", lambda: clients_of(cluster, 1)["connections"] == 1)
            dropped = clients_of(cluster, 1)["dropped"]
            assert isinstance(dropped, dict)
            assert {"malformed: stream: length", "malformed: ipc: kind"} <= dropped.keys()
            assert all(reason.startswith("malformed: ") for reason in dropped)
            assert clients_of(cluster, 1)["refused_requests"] != 0
            check_that_it_works(anna, b"still here")
            assert rss_mib(cluster, 1) - before < 60
        assert "Traceback" not in cluster.log(1)


def check_that_it_works(anna: RawClient, word: bytes) -> None:
    """See that somebody else is heard, and hears what there is so far."""
    anna.send(("choir",), word)
    anna.got.clear()
    while not anna.got or anna.got[-1][2] != word:
        anna.hear()
    assert anna.got[-1][0] == "anna"


def throw_some(state: Path, rng: Random) -> int:
    """Open a session and throw until it is hung up on; return how many bad frames were read."""
    with RawClient(state, "mallory") as mallory:
        destination = wire.encode_set(4, 0, ["choir", "other"])
        message = encode_whole(mallory.member.session, 1, 0, 0, [b"a", b"b"])
        mallory.sent[1] = (b"a", b"b")
        samples = [
            wire.encode_hello(1, "mallory"),
            wire.encode_join(2, "choir"),
            wire.encode_leave(3, "choir"),
            destination,
            wire.encode_send(5, message),
            wire.encode_consumed(10),
            wire.encode_ping(6),
            wire.encode_groups(7),
            wire.encode_safe_lines(wanted=True),
        ]
        # A bad message is refused and the connection goes on; anything else may be the end of it.
        bad = [wire.encode_send(5, mutated(message, rng)) for _ in range(5)]
        bad += [mutated(rng.choice(samples), rng) for _ in range(5)]
        said = b"".join(bad)
        try:
            mallory.stream.sendall(destination + said)
            mallory.stream.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, OSError):
            assert mallory.hear_all()  # it was hung up on before it had said everything
        else:
            mallory.hear_all()
        return understood(said)


def understood(said: bytes) -> int:
    """Return how many frames a daemon reads before it has had enough."""
    splitter = Splitter(2**24 + 24)
    count = 0
    try:
        for at in range(len(said)):
            for frame in splitter.feed(said[at : at + 1]):
                count += 1
                wire.decode_request(frame)
    except MalformedFrame:
        return count
    return count
