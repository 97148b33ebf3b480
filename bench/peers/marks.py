"""Other things that order messages, as marks beside: measured where they are installed.

Redis: one server, a stream, as many producers as there would be nodes, each a hundred commands
ahead; one consumer counts. NATS: three servers with a replicated stream of files, a publisher at
each with a hundred messages unconfirmed; what is confirmed is counted. Both speak plain text, so
nothing but the servers is needed. They promise other things than a ring does: they are no rivals.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.peers.cells import NATS, REDIS, Cell, Times
from bench.peers.ledger import Figures
from bench.peers.network import CannotMeasure
from bench.peers.waiting import wait_for

PROGRAM = {NATS: "nats-server", REDIS: "redis-server"}
HOST = "127.0.0.1"
AHEAD = 100  # messages that a producer does not wait for
WARM_UP_S = 0.5
STREAM = "bench"
PATIENCE_S = 20.0
ANSWERS_S = 1.0  # what a server that answers at all takes at most
Count = Callable[[], int]  # messages so far


def measure(cell: Cell, times: Times) -> Figures:
    """Start servers, load them, and count."""
    program = shutil.which(PROGRAM[cell.system])
    if program is None:
        raise CannotMeasure(f"{PROGRAM[cell.system]} is not installed")
    loaded = _redis if cell.system == REDIS else _nats
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
        with loaded(program, Path(made), cell) as so_far:
            time.sleep(WARM_UP_S)
            began, before = time.monotonic(), so_far()
            time.sleep(times.flood)
            delivered, lasted = so_far() - before, time.monotonic() - began
        if not delivered:
            raise CannotMeasure(f"{cell.system}: nothing was delivered")
        return {"delivered_per_s": round(delivered / lasted, 1)}


def _free_ports(count: int) -> list[int]:
    with ExitStack() as kept:
        probes = [kept.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


@contextmanager
def _server(*command: str) -> Iterator[None]:
    program = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        program.kill()
        program.wait()


def _connected(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def is_there() -> bool:
        try:
            found.append(socket.create_connection((HOST, port), timeout=PATIENCE_S))
        except ConnectionRefusedError:
            return False
        return True

    wait_for(f"a server on port {port}", is_there, PATIENCE_S)
    return found[0]


class _Workers:
    """Threads that go on until they are told to stop, or their connection ends."""

    def __init__(self) -> None:
        self.is_over = False
        self._threads: list[threading.Thread] = []

    def begin(self, work: Callable[[], None]) -> None:
        def go_on() -> None:
            try:
                while not self.is_over:
                    work()
            except (OSError, ValueError):
                return  # the count stands still, and that is seen

        self._threads.append(threading.Thread(target=go_on, daemon=True))
        self._threads[-1].start()

    def end(self) -> None:
        self.is_over = True
        for thread in self._threads:
            thread.join(PATIENCE_S)


# Redis


def command(*words: bytes) -> bytes:
    """Return a command as Redis reads it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Replies:
    """Reads what a Redis answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")

    def next(self) -> "bytes | int | list[object] | None":
        line = self._file.readline()
        if not line:
            raise OSError("the server has gone")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self._file.read(size + 2)[:-2]
        if kind == b"*":
            count = int(rest)
            return None if count < 0 else [self.next() for _ in range(count)]
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise OSError(rest.decode())
        return rest


def names_of(reply: object) -> list[bytes]:
    """Return the names of the entries of the one stream that was read; none if it was in vain."""
    if reply is None:
        return []
    assert isinstance(reply, list)
    assert isinstance(reply[0], list)
    entries = reply[0][1]
    assert isinstance(entries, list)
    return [entry[0] for entry in entries]


@contextmanager
def _redis(program: str, directory: Path, cell: Cell) -> Iterator[Count]:
    (port,) = _free_ports(1)
    words = ("--port", str(port), "--bind", HOST, "--save", "", "--dir", str(directory))
    with _server(program, *words), ExitStack() as connections:
        counted = [0]
        last = [b"$"]
        add = command(b"XADD", b"bench", b"MAXLEN", b"~", b"100000", b"*", b"m", bytes(cell.size))
        consumer = connections.enter_context(_connected(port))
        heard = Replies(consumer)

        def consume() -> None:
            consumer.sendall(
                command(
                    b"XREAD", b"COUNT", b"1000", b"BLOCK", b"100", b"STREAMS", b"bench", last[0]
                )
            )
            names = names_of(heard.next())
            counted[0] += len(names)
            last[0] = names[-1] if names else last[0]

        workers = _Workers()
        for _ in range(cell.nodes):
            producer = connections.enter_context(_connected(port))
            workers.begin(_redis_producer(producer, add))
        workers.begin(consume)
        try:
            yield lambda: counted[0]
        finally:
            workers.end()


def _redis_producer(producer: socket.socket, add: bytes) -> Callable[[], None]:
    replies = Replies(producer)
    many = add * AHEAD

    def produce() -> None:
        producer.sendall(many)
        for _ in range(AHEAD):
            replies.next()

    return produce


# NATS


class Subject:
    """A connection to a NATS server that hears one subject."""

    def __init__(self, connection: socket.socket, inbox: bytes) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._file.readline()  # what the server says of itself
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB %s.* 1\r\n' % inbox)
        self.inbox = inbox

    def publish(self, subject: bytes, payload: bytes, count: int = 1) -> None:
        one = b"PUB %s %s.a %d\r\n%s\r\n" % (subject, self.inbox, len(payload), payload)
        self._connection.sendall(one * count)

    def next(self) -> bytes:
        """Return the next message; pings are answered on the way."""
        while True:
            line = self._file.readline()
            if not line or line.startswith(b"-ERR"):
                raise OSError(line.decode() or "the server has gone")
            if line.startswith(b"PING"):
                self._connection.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG"):
                return self._file.read(int(line.split()[-1]) + 2)[:-2]


@contextmanager
def _nats(program: str, directory: Path, cell: Cell) -> Iterator[Count]:
    nodes = cell.nodes
    ports = _free_ports(2 * nodes)
    clients, routes = ports[:nodes], ports[nodes:]
    peers = ",".join(f"nats-route://{HOST}:{port}" for port in routes)
    with ExitStack() as started:
        for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
            words = ["-a", HOST, "-p", str(client), "-n", f"n{number}", "-js"]
            words += ["-sd", str(directory / f"n{number}"), "--cluster_name", "bench"]
            words += ["--cluster", f"nats://{HOST}:{route}", "--routes", peers]
            started.enter_context(_server(program, *words))
        subjects = [
            Subject(started.enter_context(_connected(port)), b"_INBOX.%d" % number)
            for number, port in enumerate(clients)
        ]
        _make_stream(clients[0], nodes)
        counted = [0] * nodes
        workers = _Workers()
        for number, subject in enumerate(subjects):
            workers.begin(_nats_publisher(subject, bytes(cell.size), counted, number))
        try:
            yield lambda: sum(counted)
        finally:
            workers.end()


def _make_stream(port: int, nodes: int) -> None:
    """Ask for a replicated stream until one is there.

    Servers that have not agreed on a leader yet do not answer at all, so whoever asks asks again.
    """
    asked = {"name": STREAM, "subjects": [STREAM], "num_replicas": nodes, "storage": "file"}
    wanted = json.dumps({**asked, "retention": "limits", "max_msgs": 100_000}).encode()

    def is_made() -> bool:
        with socket.create_connection((HOST, port), timeout=ANSWERS_S) as connection:
            subject = Subject(connection, b"_INBOX.make")
            subject.publish(b"$JS.API.STREAM.CREATE.bench", wanted)
            try:
                return "error" not in json.loads(subject.next())
            except TimeoutError:
                return False

    wait_for("a replicated stream", is_made, PATIENCE_S)


def _nats_publisher(
    subject: Subject, payload: bytes, counted: list[int], number: int
) -> Callable[[], None]:
    def publish() -> None:
        subject.publish(STREAM.encode(), payload, AHEAD)
        for _ in range(AHEAD):
            if b'"error"' not in subject.next():
                counted[number] += 1

    return publish
