"""One client's stream, with the test at its other end."""

import socket
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle
from typing import Final

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, sampled_from, tuples

from evensong.daemon.connection import PIECE, Connection
from evensong.daemon.watch import Watch
from evensong.ipc import wire
from evensong.ipc.frames import Farewell, Frame, Pong, Slow, Told, Why
from evensong.ipc.splitter import Splitter

QUEUED_MAX: Final = 100_000
WINDOW: Final = 10_000


class Stage:
    """A connection, its owner, and the client."""

    def __init__(self) -> None:
        self.watch = Watch()
        here, self.client = socket.socketpair()
        here.setblocking(False)
        self.client.setblocking(False)
        self.heard: list[Frame] = []
        self.told: list[Told] = []
        self.malformed: list[str] = []
        self.is_full = self.is_gone = False
        self.may = True
        self.splitter = Splitter(2**30)
        self.connection = Connection(here, self.watch, self, (1, 2), QUEUED_MAX, WINDOW, now=0)

    def may_read(self, connection: Connection) -> bool:
        assert connection is self.connection
        return self.may

    def on_asked(self, connection: Connection) -> None:
        assert connection is self.connection
        self.heard += connection.asked
        connection.asked.clear()

    def on_writable(self, connection: Connection) -> None:
        connection.flush(0)

    def on_malformed(self, connection: Connection, reason: str) -> None:
        assert connection is self.connection
        self.malformed.append(reason)

    def on_full(self, connection: Connection) -> None:
        assert connection is self.connection
        self.is_full = True

    def on_gone(self, connection: Connection) -> None:
        assert connection is self.connection
        self.is_gone = True

    def turn(self) -> int:
        """Attend to what is ready; return how many calls that were."""
        ready = self.watch.wait(0)
        self.watch.dispatch(ready)
        return len(ready)

    def read(self) -> list[Told]:
        """Take what the client gets now; return everything so far."""
        try:
            while chunk := self.client.recv(2**20):
                self.told += map(wire.decode_told, self.splitter.feed(chunk))
        except BlockingIOError:
            return self.told
        return self.told

    def close(self) -> None:
        self.client.close()
        self.connection.close()
        self.watch.close()


class Biting:
    """A stream that takes a little at a time."""

    def __init__(self, stream: socket.socket, bites: list[int]) -> None:
        self._stream = stream
        self._bites = cycle(bites)
        self.taken = bytearray()

    def sendmsg(self, buffers: list[bytes | memoryview]) -> int:
        bite = b"".join(buffers)[: next(self._bites)]
        self.taken += bite
        return len(bite)

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with closing(Stage()) as made:
        yield made


def test_frames_come_in_pieces_and_no_more_than_may_be_read(stage: Stage) -> None:
    stage.client.send(wire.encode_ping(7)[:3])
    stage.turn()
    assert stage.heard == []
    stage.client.send(wire.encode_ping(7)[3:])
    stage.may = False
    assert stage.turn() == 1
    assert stage.heard == []
    stage.may = True
    stage.turn()
    assert [frame.request_id for frame in stage.heard] == [7]
    stage.client.send(b"\xff" * 9)
    stage.turn()
    assert stage.malformed == ["stream: length"]


def test_nothing_new_is_begun_beyond_the_window_but_what_is_urgent(stage: Stage) -> None:
    frame = wire.encode_slow(1, bytes_of_frame := 25)
    assert len(frame) == bytes_of_frame
    for _ in range(3 * WINDOW // len(frame)):
        stage.connection.put(frame)
    stage.connection.flush(0)
    written = len(stage.read())
    assert written * len(frame) >= WINDOW
    assert stage.connection.unconsumed == written * len(frame)
    stage.connection.put(wire.encode_pong(1))
    stage.connection.flush(0)
    assert len(stage.read()) == written
    stage.connection.put_first(wire.encode_throttle(is_on=True))
    stage.connection.flush(0)
    assert len(stage.read()) == written + 1
    assert stage.turn() == 0, "who waits for the client to consume waits for nothing else"
    assert not stage.connection.consumed(stage.connection.unconsumed + 1)
    assert stage.connection.consumed(stage.connection.unconsumed)
    stage.connection.flush(0)
    assert isinstance(stage.read()[-1], Pong)


def test_what_waits_is_joined_up_to_a_bound(stage: Stage) -> None:
    frame = wire.encode_farewell(0, Why.SLOW, "x" * 200)
    for _ in range(2 * PIECE // len(frame)):
        stage.connection.queued = 0  # the bound of the queue is another matter
        stage.connection.put(frame)
    stage.connection.flush(0)
    assert WINDOW < stage.connection.unconsumed <= PIECE


def test_a_queue_is_warned_of_at_half_and_ends_when_full(stage: Stage) -> None:
    stage.client.close()
    frame = bytes(1_000)
    while 2 * stage.connection.queued <= QUEUED_MAX:
        assert not stage.connection.is_slow
        stage.connection.put(frame)
    assert stage.connection.is_slow
    while stage.connection.queued + len(frame) <= QUEUED_MAX:
        stage.connection.put(frame)
    assert not stage.is_full
    stage.connection.put(frame)
    assert stage.is_full


def test_a_window_that_is_full_can_be_warned_of_once_until_there_is_room(stage: Stage) -> None:
    while stage.connection.queued < WINDOW:
        stage.connection.put(wire.encode_farewell(0, Why.ASKED, "x" * 200))
    stage.connection.flush(0)
    filled = len(stage.read())
    assert not stage.connection.is_held_up(), "nothing waits"
    stage.connection.put(wire.encode_pong(1))
    for _ in range(3):
        assert stage.connection.is_held_up()
        stage.connection.warn()
        stage.connection.flush(0)
        assert stage.connection.is_slow
    assert [type(one) for one in stage.read()[filled:]] == [Slow]
    stage.connection.consumed(stage.connection.unconsumed)
    stage.connection.flush(0)
    assert [type(one) for one in stage.read()[filled:]] == [Slow, Pong]
    assert not stage.connection.is_slow


@given(
    steps=lists(
        tuples(integers(0, 3_000), booleans(), sampled_from(["", "flush", "consume"])), max_size=60
    )
)
def test_what_is_left_out_counts_as_if_it_were_written(
    steps: list[tuple[int, bool, str]],
) -> None:
    with closing(Stage()) as short, closing(Stage()) as long:
        stages = (short, long)
        for size, is_own, then in steps:
            content = bytes(size)
            head = wire.encode(200, 0, b"")
            short.connection.put(*((head,) if is_own else (head, content)), left_out=is_own * size)
            long.connection.put(head, content)
            for stage in stages:
                if then == "consume":
                    assert stage.connection.consumed(stage.connection.unconsumed)
                if then:
                    stage.connection.flush(0)
            counted = [
                (one.connection.queued, one.connection.unconsumed, one.connection.is_slow)
                for one in stages
            ]
            assert counted[0] == counted[1]
            assert short.connection.is_held_up() == long.connection.is_held_up()
            assert short.is_full == long.is_full
        for stage in stages:
            stage.connection.finish(Why.SLOW, "slow", now=3)
            stage.connection.flush(3)
            assert stage.is_gone, "nothing waits that is not there"


def test_what_is_left_out_is_warned_of_and_ends_a_connection_at_the_same_amounts(
    stage: Stage,
) -> None:
    head = wire.encode(200, 0, b"")
    while 2 * stage.connection.queued <= QUEUED_MAX:
        assert not stage.connection.is_slow
        stage.connection.put(head, left_out=991)
    assert stage.connection.queued == QUEUED_MAX // 2 + 1_000 + len(wire.encode_slow(0, 0))
    while stage.connection.queued + 1_000 <= QUEUED_MAX:
        stage.connection.put(head, left_out=991)
    assert not stage.is_full
    stage.connection.put(head, left_out=991)
    assert stage.is_full


def test_no_more_is_begun_at_once_because_much_is_left_out(stage: Stage) -> None:
    for _ in range(4):
        stage.connection.queued = 0
        stage.connection.put(wire.encode_pong(1), left_out=PIECE // 2)
    stage.connection.flush(0)
    assert len(stage.read()) == 1
    assert stage.connection.unconsumed == PIECE // 2 + len(wire.encode_pong(1))


def test_a_goodbye_comes_behind_what_was_left_out(stage: Stage) -> None:
    for _ in range(3):
        stage.connection.put(wire.encode_pong(1), left_out=2_000)
    stage.connection.say_goodbye(Why.STOPPING, "", now=3)
    assert [type(one) for one in stage.read()] == [Pong, Pong, Pong, Farewell]


def test_who_is_hung_up_on_hears_what_was_begun_and_why(stage: Stage) -> None:
    large = wire.encode(200, 0, bytes(QUEUED_MAX * 9 // 10))
    stage.connection.put(large)
    stage.connection.put(wire.encode_pong(1))
    stage.connection.finish(Why.SLOW, "slow", now=3)
    stage.connection.put(wire.encode_pong(2))
    stage.connection.flush(3)
    told = stage.read()
    assert [type(one) for one in told] == [Slow, Farewell]
    assert stage.is_gone
    assert stage.client.recv(1) == b""


def test_a_frame_that_was_begun_is_written_to_the_end_first(stage: Stage) -> None:
    stage.connection.put(wire.encode_farewell(9, Why.ASKED))
    for _ in range(2_000):
        stage.connection.queued = 0
        stage.connection.put(bytes([0, 0, 3, 232, 140, 0, 0, 0, 0]) + bytes(1_000))
    stage.connection.consumed(0)
    stage.connection.flush(0)
    assert stage.connection._begun, "the test wants a stream that is full"
    stage.connection.finish(Why.SLOW, "slow", now=3)
    frames: list[Frame] = []
    while not stage.is_gone:
        frames += stage.splitter.feed(stage.client.recv(2**20))
        stage.turn()
    frames += stage.splitter.feed(stage.client.recv(2**20))
    assert {len(frame.body) for frame in frames[1:-1]} == {1_000}
    assert wire.decode_told(frames[-1]) == Farewell(Why.SLOW, "slow")


@given(
    lengths=lists(lists(integers(0, 20_000), min_size=1, max_size=3), min_size=1, max_size=30),
    bites=lists(integers(1, 60_000), min_size=1, max_size=8),
)
def test_frames_in_parts_arrive_whole_however_little_the_stream_takes(
    lengths: list[list[int]], bites: list[int]
) -> None:
    with closing(Stage()) as stage:
        stream = Biting(stage.connection._stream, bites)
        stage.connection._stream = stream  # type: ignore[assignment, misc]
        said = b""
        for number, sizes in enumerate(lengths):
            parts = [bytes([number]) * size for size in sizes]
            said += b"".join(parts)
            stage.connection.queued = 0
            stage.connection.put(*parts)
        stage.connection.queued = len(said)
        while stage.connection.queued:
            stage.connection.consumed(stage.connection.unconsumed)
            stage.connection.flush(0)
        assert bytes(stream.taken) == said


def test_a_client_that_is_gone_and_not_read_is_not_asked_after_again_and_again(
    stage: Stage,
) -> None:
    stage.connection.set_reading(False)
    stage.client.send(wire.encode_ping(7))
    assert stage.turn() == 0
    stage.client.close()
    stage.turn()
    assert stage.turn() == 0
    assert not stage.is_gone
    stage.connection.set_reading(True)
    stage.turn()
    assert [frame.request_id for frame in stage.heard] == [7], "what it said before is heard"
    stage.turn()
    assert stage.is_gone


@pytest.mark.parametrize("is_read", [True, False])
def test_a_client_that_is_gone_while_something_waits_for_it(stage: Stage, is_read: bool) -> None:
    stage.connection.set_reading(is_read)
    for _ in range(600):
        stage.connection.queued = 0
        stage.connection.put(bytes(1_000))
    stage.connection.flush(0)
    stage.client.close()
    turns = 0
    while not stage.is_gone:
        stage.turn()
        turns += 1
        assert turns < 5
    assert stage.watch.wait(0) == []
