"""evensong for programs without asyncio: the same names, the same meaning, calls that block.

>>> with evensong.sync.connect(address, name="ann") as es, es.join("orders") as group:
...     receipt = group.send(b"buy 5")
...     for event in group:
...         if isinstance(event, Message):
...             print(event.sender.user, "says", event.payload)
...             break
ann says b'buy 5'

Bytes move only while a call waits: a program that does something else for long is a slow one. A
connection belongs to one thread at a time. Calls that wait take a `timeout` in seconds where that
makes sense; `TimeoutError` says nothing about what was waited for, which may still happen. With a
`timeout` of 0 they take what is there: after `select`, call `next_event(0)` until it raises.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, final

from evensong.client.address import socket_path
from evensong.client.blocking import CLOSE_S, FOREVER, Line, Patience
from evensong.client.consignment import Consignment, flags_of
from evensong.client.dialogue import Listing
from evensong.client.flights import Flight, Held
from evensong.client.message import MessageId, Service
from evensong.client.naming import send_named
from evensong.client.packing import as_bytes
from evensong.client.replica import Policy, Replica, check_state
from evensong.client.rules import name_of_program
from evensong.client.streams import Event, Stream
from evensong.core.groups.events import MemberId, OrderId
from evensong.errors import ConnectionClosed, ConnectionLost, NotMember

__all__ = ["Connection", "Group", "Receipt", "connect"]


@final
class Receipt:
    """What becomes of what was sent; for `send_many`, of the last of it and all before."""

    __slots__ = ("_flights", "_index", "_line")

    def __init__(self, line: Line, flights: list[Flight], index: int) -> None:
        self._line: Final = line
        self._flights: Final = flights
        self._index: Final = index  # in the last of them

    @property
    def id(self) -> MessageId | str:
        """The message's identity, which receivers see as `Message.id`."""
        return self._flights[-1].id_of(self._index)

    def ordered(self, timeout: float | None = None) -> OrderId | None:
        """Wait for its place in the order; raises `OutcomeUnknown` if the daemon is lost first.

        What is not ordered has none: then it is delivered at our daemon, and None is returned.
        """
        return self._ordered(Patience(timeout))

    def _ordered(self, patience: Patience) -> OrderId | None:
        last = self._flights[-1]
        self._line.until(lambda: last.has_come(self._index), patience)
        self._line.until(lambda: all(one.has_come(0) for one in self._flights), patience)
        return last.order_of(self._index)

    def safe(self, timeout: float | None = None) -> Held:
        """Wait until it is known who holds it; raises `OutcomeUnknown` as `ordered` does.

        Raises `NotOffered` if it is not ordered: then nobody tells who has it.
        """
        patience = Patience(timeout)
        last = self._flights[-1]
        self._ordered(patience)
        last.held_by(self._index)
        self._line.dialogue.watch_safe(last)
        self._line.until(lambda: last.held_by(self._index) is not None, patience)
        held = last.held_by(self._index)
        assert held is not None
        return held

    def __repr__(self) -> str:
        return f"<receipt of {self.id}>"


@final
class Reading:
    """A stream that is read."""

    __slots__ = ("_line", "_stream")

    def __init__(self, line: Line, stream: Stream) -> None:
        line.dialogue.streams.claim(stream)
        self._line: Final = line
        self._stream: Final = stream

    def next_event(self, timeout: float | None) -> Event:
        """Return the next event; raise what ended the stream, or `StopIteration`."""
        stream = self._stream
        patience: Patience | None = None  # an event that is there should not cost a look at a clock
        while (event := stream.take_one()) is None:
            patience = patience or Patience(timeout)
            self._wait(patience)
        return event

    def next_batch(self) -> list[Event]:
        """Return everything that is there, when there is something."""
        stream = self._stream
        while not (batch := stream.take()):
            self._wait(FOREVER)
        return batch

    def _wait(self, patience: Patience) -> None:
        stream = self._stream
        if stream.is_over:
            if stream.error is not None:
                raise stream.error.with_traceback(None)
            raise StopIteration
        woken: list[bool] = []

        def wake() -> None:
            woken.append(True)

        stream.wakes.add(wake)
        try:
            self._line.until(lambda: bool(woken), patience)
        finally:
            stream.wakes.discard(wake)


@final
class Batches:
    """A stream, in batches: everything that is there, each time; never an empty list."""

    __slots__ = ("_reading",)

    def __init__(self, reading: Reading) -> None:
        self._reading: Final = reading

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[Event]:
        return self._reading.next_batch()


@final
class Events:
    """A stream, event by event."""

    __slots__ = ("_reading",)

    def __init__(self, reading: Reading) -> None:
        self._reading: Final = reading

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        return self._reading.next_event(None)


@final
class Group:
    """A group that this program is a member of; iterate it for its views and messages, in order."""

    __slots__ = ("_line", "_stream", "name")

    def __init__(self, line: Line, name: str, stream: Stream) -> None:
        self._line: Final = line
        self._stream: Final = stream
        self.name: Final = name

    def send(
        self, payload: bytes, *, service: Service = Service.AGREED, id: str | None = None
    ) -> Receipt:
        """Send a message to the group; see `Connection.send`."""
        return _send(self._line, self.name, payload, service, id)

    def send_many(self, payloads: Sequence[bytes], *, service: Service = Service.AGREED) -> Receipt:
        """Send messages to the group; see `Connection.send_many`."""
        return _send_many(self._line, self.name, payloads, service)

    def batches(self) -> Iterator[list[Event]]:
        """Iterate over everything that has come, list by list: the fast way to read."""
        return Batches(Reading(self._line, self._stream))

    def __iter__(self) -> Iterator[Event]:
        return Events(Reading(self._line, self._stream))

    def next_event(self, timeout: float | None = None) -> Event:
        """Return the next event; `TimeoutError` if none comes in time."""
        return _next(Reading(self._line, self._stream), timeout, f"{self.name} was left")

    def leave(self) -> None:
        """Leave the group; whoever iterates it comes to an end, after what came before."""
        self._line.answered(self._line.dialogue.leave(self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave; what has come and was not read is let go, else it could hold the answer up."""
        stream, dialogue = self._stream, self._line.dialogue
        dialogue.streams.abandon(stream)
        if not stream.is_over and dialogue.ended is None:
            # Either it is no member any more, or the daemon will take its leave when it can.
            with suppress(ConnectionLost, NotMember, TimeoutError):
                self._line.answered(dialogue.leave(self.name), CLOSE_S)


@final
class Connection:
    """A connection to a daemon; iterate it for everything that its groups are told, in one order.

    Messages to the private name (`str(es.member)`) come by the connection's own stream only: who
    reads nothing but groups never sees them, though their senders' receipts say `ordered`.
    """

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line: Final = line

    @property
    def member(self) -> MemberId:
        """Who this program is; as text, the private name at which it can be sent messages."""
        return self._line.dialogue.member

    @property
    def is_slow(self) -> bool:
        """Whether the daemon has warned that too little is read; it hangs up if that goes on.

        True until what waited at the time of the warning has been read.
        """
        return self._line.dialogue.is_slow

    @property
    def message_max(self) -> int:
        """How many bytes a message may have."""
        return self._line.dialogue.message_max

    def fileno(self) -> int:
        """Return the socket's number, for `select`: readable when something may have come."""
        return self._line.fileno()

    def send(
        self,
        to: str | Sequence[str],
        payload: bytes,
        *,
        service: Service = Service.AGREED,
        id: str | None = None,
    ) -> Receipt:
        """Send a message to a group, a private name, or several: at one place in the order.

        Returns as soon as there is room for it, without a round trip; waits while there is none.
        Raises `TooLarge`, `BadName` or `ConnectionLost`: this message was not sent.
        """
        return _send(self._line, to, payload, service, id)

    def send_many(
        self,
        to: str | Sequence[str],
        payloads: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
    ) -> Receipt:
        """Send messages, in order, packed as tightly as they go; returns a receipt for all.

        If the connection is lost on the way it raises `OutcomeUnknown`: some may be ordered.
        """
        return _send_many(self._line, to, payloads, service)

    def batches(self) -> Iterator[list[Event]]:
        """Iterate over everything that has come, list by list: the fast way to read."""
        return Batches(Reading(self._line, self._line.dialogue.streams.everything))

    def __iter__(self) -> Iterator[Event]:
        return Events(Reading(self._line, self._line.dialogue.streams.everything))

    def next_event(self, timeout: float | None = None) -> Event:
        """Return the next event of any group; `TimeoutError` if none comes in time."""
        reading = Reading(self._line, self._line.dialogue.streams.everything)
        return _next(reading, timeout, "the connection was closed")

    def join(self, group: str, *, state: Replica | None = None, policy: Policy = "merge") -> Group:
        """Become a member of a group; as a context, it is left at the end of the block.

        With `state`, the program's replica gets the group's state before the first message, and is
        asked for snapshots and merges; all members have to join so, else it may wait for its state
        for ever. `policy` says what becomes of sides that meet: `"merge"`, or `"primary-wins"`.
        """
        check_state(state, policy)
        dialogue = self._line.dialogue
        answer = dialogue.join(group, state, policy)
        try:
            stream = self._line.answered(answer)
        except BaseException:  # of a signal handler, say
            dialogue.withdraw(group)  # nobody would read it
            self._line.flush()
            raise
        return Group(self._line, group, stream)

    def groups(self) -> Listing:
        """Return all groups that the daemon knows of, each with its members."""
        return self._line.answered(self._line.dialogue.list_groups())

    def close(self) -> None:
        """Say goodbye; what was sent goes out first. Closing twice is closing once.

        A daemon that does not answer for 5 s is given up without a word.
        """
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(address: str | os.PathLike[str], *, name: str = "") -> Connection:
    """Connect to a daemon; see `evensong.connect`, with which it shares addresses and errors."""
    return Connection(Line(socket_path(address), name_of_program(name)))


def _send(
    line: Line,
    to: str | Sequence[str],
    payload: bytes,
    service: Service,
    chosen: str | None,
) -> Receipt:
    dialogue = line.dialogue
    if not dialogue.can_send():
        line.until(dialogue.can_send)
    body, flags = as_bytes(payload), flags_of(service)
    if chosen is None:
        flight, index = dialogue.send(to, body, flags)
    else:
        flight, index = send_named(dialogue, to, body, flags, chosen)
    line.flush()
    return Receipt(line, [flight], index)


def _send_many(
    line: Line, to: str | Sequence[str], payloads: Sequence[bytes], service: Service
) -> Receipt:
    consignment = Consignment(line.dialogue, to, payloads, service)
    while not consignment.go_on():
        line.until(line.dialogue.can_send)
    line.flush()
    return Receipt(line, consignment.flights, consignment.flights[-1].count - 1)


def _next(reading: Reading, timeout: float | None, end: str) -> Event:
    try:
        return reading.next_event(timeout)
    except StopIteration:
        raise ConnectionClosed(end) from None
