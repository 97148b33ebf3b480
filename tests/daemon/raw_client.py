"""A client that says what a test wants it to say, byte by byte if need be."""

import os
import select
import socket
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from evensong.core.groups.events import Cause, Destination, MemberId, OrderId, View
from evensong.core.groups.frame import HEADER, Head, encode_whole, messages_of
from evensong.daemon.local_socket import short_name
from evensong.ipc import wire
from evensong.ipc.frames import (
    CLIENT_SOCKET,
    Deliver,
    Destined,
    Farewell,
    Frame,
    Receipt,
    Told,
    Welcome,
)
from evensong.ipc.splitter import HEAD_SIZE, Splitter
from tests.daemon.local import DEADLINE_S

Kind = TypeVar("Kind")


def connected(state: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
    try:
        stream.connect(short_name(directory, CLIENT_SOCKET))
    finally:
        os.close(directory)
    return stream


class RawClient:
    """One connection; what it hears is kept in order."""

    def __init__(self, state: Path, user: str = "anna", *, consumes: bool = True) -> None:
        self.stream = connected(state)
        self.consumes = consumes
        self.splitter = Splitter(2**30)
        self.waiting: deque[Frame] = deque()
        self.destinations: dict[int, Destination] = {}
        self.got: list[tuple[str, OrderId, bytes]] = []  # sender, order, message
        self.views: list[View] = []
        self.receipts: list[Receipt] = []
        self.sent: dict[int, tuple[bytes, ...]] = {}  # messages of frames, by first number
        self.next_no = 1
        self.sets: dict[tuple[str, ...], int] = {}
        self.last_request = 0
        self.user = user
        if user:
            self.say(wire.encode_hello(1, user))
            self.welcome = self.hear_one(Welcome)
            self.member: MemberId = self.welcome.member

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stream.close()

    # -- saying ------------------------------------------------------------------------------

    def say(self, data: bytes) -> None:
        """Write, and take in what comes meanwhile."""
        view = memoryview(data)
        until = time.monotonic() + DEADLINE_S
        while view:
            readable, writable, _ = select.select([self.stream], [self.stream], [], DEADLINE_S)
            assert time.monotonic() < until, "the daemon takes nothing"
            if readable and self.consumes:
                self._take()
            if writable:
                view = view[self.stream.send(view, socket.MSG_DONTWAIT) :]

    def send(self, groups: tuple[str, ...], *messages: bytes, flags: int = 0) -> int:
        """Send messages in one frame; return the number of the first."""
        data = b""
        if groups not in self.sets:
            self.sets[groups] = len(self.sets)
            data = wire.encode_set(0, self.sets[groups], groups)
        frame = encode_whole(self.member.session, self.next_no, self.sets[groups], flags, messages)
        self.sent[self.next_no] = messages
        self.next_no += len(messages)
        self.say(data + wire.encode_send(self.request_id(), frame))
        return self.next_no - len(messages)

    def request_id(self) -> int:
        self.last_request += 1
        return self.last_request

    def join(self, group: str) -> View:
        self.say(wire.encode_join(self.request_id(), group))
        while True:
            view = self.hear_one(View)
            if (view.group, view.cause, view.subject) == (group, Cause.JOIN, self.member):
                return view

    # -- hearing -----------------------------------------------------------------------------

    def _take(self) -> bool:
        """Take in a chunk; False at the end of the stream."""
        try:
            chunk = self.stream.recv(262_144)
        except ConnectionResetError:
            chunk = b""
        for frame in self.splitter.feed(chunk):
            self.waiting.append(frame)
        return bool(chunk)

    def hear(self) -> Told:
        """Return what is told next; keep books."""
        self.stream.settimeout(DEADLINE_S)
        while not self.waiting:
            assert self._take(), "the daemon hung up"
        frame = self.waiting.popleft()
        told = wire.decode_told(frame)
        own = (
            Head(*HEADER.unpack(told.frame)) if isinstance(told, Deliver) and told.is_own else None
        )
        if self.consumes and not isinstance(told, Farewell):
            self._consume(HEAD_SIZE + len(frame.body) + (own.length if own is not None else 0))
        if isinstance(told, Destined):
            self.destinations[told.number] = told.destination
        elif isinstance(told, Deliver):
            sender = self.destinations[told.number].sender.user
            assert told.order is not None
            assert own is None or own.first_no in self.sent, "it is told what it did not send"
            messages = self.sent[own.first_no] if own is not None else messages_of(told.frame)
            for sub, message in enumerate(messages, told.order.sub):
                self.got.append((sender, told.order._replace(sub=sub), message))
        elif isinstance(told, View):
            self.views.append(told)
        elif isinstance(told, Receipt):
            self.receipts.append(told)
        return told

    def _consume(self, size: int) -> None:
        try:
            self.stream.sendall(wire.encode_consumed(size))
        except (BrokenPipeError, ConnectionResetError):
            return  # it has said what there was to say

    def hear_one(self, kind: type[Kind]) -> Kind:
        """Skip to the next of a kind."""
        while True:
            told = self.hear()
            if isinstance(told, kind):
                return told

    def hear_messages(self, count: int) -> list[bytes]:
        """Wait until so many messages are here, from the first on."""
        while len(self.got) < count:
            self.hear()
        return [message for _, _, message in self.got]

    def hear_all(self) -> list[Told]:
        """Return everything up to the end of the stream."""
        told: list[Told] = []
        self.stream.settimeout(DEADLINE_S)
        while self.waiting or self._take():
            while self.waiting:
                told.append(self.hear())
        return told
