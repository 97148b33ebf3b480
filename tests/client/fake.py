"""Daemons in memory that speak to clients: the real group layer and codec, without sockets.

A `Cluster` is an order in memory (tests/core/groups/order.py) with connections. Bytes go both ways
when `settle` is called, until nothing moves; configurations change when a test says so.
"""

from collections import deque
from typing import Protocol

from evensong.client.dialogue import Dialogue
from evensong.client.message import Message
from evensong.client.replica import Policy, Replica
from evensong.client.streams import Stream
from evensong.core.groups.events import (
    Closed,
    Delivered,
    Destination,
    Error,
    Left,
    Receipt,
    Reconfigured,
    SafeUpTo,
    SessionEvent,
    SessionId,
    Throttle,
    ViewChange,
    Welcome,
)
from evensong.core.groups.frame import HEADER_SIZE, decode_head, messages_of
from evensong.core.groups.limits import Limits
from evensong.ipc import frames, wire
from evensong.ipc.frames import Why
from evensong.ipc.splitter import Splitter
from tests.core.groups.order import Daemon, Order

WINDOW = 2**20
LIMITS = Limits(payload_max=600)


class Connection:
    """The daemon's end of one connection."""

    def __init__(self, daemon: Daemon, window: int) -> None:
        self.daemon = daemon
        self.window = window
        self.splitter = Splitter(wire.request_max(LIMITS.message_max))
        self.session: SessionId = 0
        self.sets: dict[int, tuple[str, ...]] = {}
        self.numbers: dict[Destination, int] = {}
        self.wants_lines = False
        self.is_over = False
        self.output: deque[tuple[bytes, int]] = deque()  # frames, and what is left out of them
        self.written = 0  # or left out
        self.consumed = 0
        self.requests: list[frames.Request] = []  # all that were heard

    def put(self, encoded: bytes, left_out: int = 0) -> None:
        self.output.append((encoded, left_out))

    def take_output(self) -> bytes:
        """Return what may be written: as long as less than the window is not consumed."""
        output: list[bytes] = []
        while self.output and (self.is_over or self.written < self.consumed + self.window):
            encoded, left_out = self.output.popleft()
            output.append(encoded)
            self.written += len(encoded) + left_out
        return b"".join(output)

    # What the client says

    def feed(self, chunk: bytes) -> None:
        for frame in self.splitter.feed(chunk):
            request = wire.decode_request(frame)
            self.requests.append(request)
            self.answer(frame.request_id, request)

    def answer(self, request_id: int, request: frames.Request) -> None:
        groups = self.daemon.groups
        if isinstance(request, frames.Hello):
            self.session = groups.open_session(request.user, request_id)
            if self.session:
                limits = groups.sessions.limits
                member = groups.sessions.open[self.session].member
                frame_max = groups.sessions.frame_max
                self.put(
                    wire.encode_welcome(
                        request_id, member, frame_max, limits.message_max, self.window
                    )
                )
                self.tell_configuration()
        elif isinstance(request, frames.Join):
            groups.join(self.session, request.group, request_id)
        elif isinstance(request, frames.Leave):
            groups.leave(self.session, request.group, request_id)
        elif isinstance(request, frames.SetGroups):
            self.sets[request.set_no] = request.groups
            groups.define_set(self.session, request.set_no, request.groups, request_id)
        elif isinstance(request, frames.Send):
            self.send(request_id, request.frame)
        elif isinstance(request, frames.Consumed):
            self.consumed += request.size
            assert self.consumed <= self.written, "consumed more than there was"
        elif isinstance(request, frames.ListGroups):
            known = {name: group.members() for name, group in groups.directory.groups.items()}
            for encoded in wire.encode_groups_are(request_id, known.items()):
                self.put(encoded)
        elif isinstance(request, frames.SafeLines):
            self.wants_lines = request.wanted
            self.put(wire.encode_safe_line(self.daemon.ring.ring_id, self.daemon.at))
        elif isinstance(request, frames.Bye):
            self.hang_up(Why.ASKED)

    def send(self, request_id: int, frame: bytes) -> None:
        head = decode_head(frame)
        groups = self.daemon.groups
        member = groups.sessions.open[self.session].member
        bodies = tuple(messages_of(frame))
        names = self.sets[head.group_set]
        self.daemon.facts.sent(member, head.first_no, names, bodies, head.flags)
        groups.send(self.session, frame, request_id)

    def hang_up(self, why: Why) -> None:
        self.output.clear()
        self.put(wire.encode_farewell(0, why))
        self.daemon.groups.close_session(self.session)
        self.is_over = True

    # What the client is told

    def tell_configuration(self) -> None:
        known = self.daemon.groups.configuration
        self.put(
            wire.encode_config(
                known.conf_id,
                known.members,
                primary=self.daemon.groups.primary,
                transitional=known.transitional,
            )
        )

    def tell(self, event: SessionEvent) -> None:
        if self.is_over:
            return
        if isinstance(event, Delivered):
            if self.session in event.sessions:
                self.deliver(event)
        elif isinstance(event, ViewChange):
            if self.session in event.sessions:
                self.put(wire.encode_view(event.view))
        elif isinstance(event, SafeUpTo):
            if self.wants_lines:
                self.put(wire.encode_safe_line(event.ring_id, event.seq))
        elif isinstance(event, Reconfigured):
            self.put(
                wire.encode_config(
                    event.conf_id,
                    event.members,
                    primary=event.primary,
                    transitional=event.transitional,
                )
            )
        elif event.session == self.session and not isinstance(event, Closed | Welcome):
            self.put(self.encode(event))

    def encode(self, event: Left | Receipt | Error | Throttle) -> bytes:
        if isinstance(event, Left):
            return wire.encode_left(event.request_id, event.group, event.order)
        if isinstance(event, Receipt):
            told = (event.first_no, event.count, event.order, event.comes_back)
            return wire.encode_receipt(*told)
        if isinstance(event, Error):
            return wire.encode_error(event.request_id, event.code)
        return wire.encode_throttle(event.is_on)

    def deliver(self, event: Delivered) -> None:
        number = self.numbers.get(event.destination)
        if number is None:
            number = self.numbers[event.destination] = len(self.numbers)
            self.put(wire.encode_destination(number, event.destination))
        told = (number, event.order, event.conf_id, event.reduced, event.frame)
        if event.own == self.session:
            self.put(wire.encode_own(*told), len(event.frame) - HEADER_SIZE)
        else:
            self.put(b"".join(wire.encode_deliver(*told)))


class Peer(Protocol):
    """Somebody at the other end of a connection."""

    connection: Connection

    def move(self) -> bool:
        """Carry bytes both ways; return whether there were any."""
        ...


class Program:
    """A program with its connection."""

    def __init__(self, cluster: "Cluster", node: int, user: str, window: int) -> None:
        self.cluster = cluster
        self.dialogue = Dialogue(user)
        self.connection = Connection(cluster.order[node], window)

    def move(self) -> bool:
        """Carry bytes both ways; return whether there were any."""
        said = self.dialogue.take_output()
        if said and not self.connection.is_over:
            self.connection.feed(said)
        self.connection.daemon.settle()
        told = self.connection.take_output()
        if told:
            self.dialogue.feed(told)
        return bool(said or told)

    def join(self, group: str, state: Replica | None = None, policy: Policy = "merge") -> Stream:
        answer = self.dialogue.join(group, state, policy)
        self.cluster.settle()
        stream = answer.result()
        self.dialogue.streams.claim(stream)
        return stream


class Cluster:
    """Daemons, and the programs that are connected to them."""

    def __init__(self, *nodes: int, limits: Limits = LIMITS) -> None:
        self.order = Order(*nodes, limits=limits)
        self.programs: list[Peer] = []
        if len(nodes) > 1:
            self.order.form(nodes)
        self.settle()

    def program(self, node: int = 1, user: str = "ann", window: int = WINDOW) -> Program:
        program = Program(self, node, user, window)
        self.programs.append(program)
        self.settle()
        return program

    def settle(self) -> None:
        """Let everything be sent, ordered and told until nothing is left."""
        busy = True
        while busy:
            self.order.run()
            self.tell()
            busy = sum(program.move() for program in self.programs) > 0
            busy = busy or any(
                daemon.groups.queue.queued_bytes for daemon in self.order.daemons.values()
            )

    def tell(self) -> None:
        for daemon in self.order.daemons.values():
            for event in daemon.take_events():
                for program in self.programs:
                    if program.connection.daemon is daemon:
                        program.connection.tell(event)

    def make_safe(self) -> None:
        """Let everybody know that everybody has everything."""
        for daemon in self.order.daemons.values():
            daemon.tell_safe_line(daemon.at)
        self.settle()


def payloads(stream: Stream) -> list[bytes]:
    """Take what is there, and return the payloads of messages."""
    return [event.payload for event in stream.take() if isinstance(event, Message)]
