"""Connections for programs with asyncio; what is decided is decided in `dialogue`.

Nothing is done behind the program's back: no task runs, and nothing reconnects by itself.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Generator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeAlias, final

from msgspec import Struct

from evensong.client.address import WELCOME_S, open_stream, socket_path
from evensong.client.consignment import Consignment, flags_of
from evensong.client.dialogue import Dialogue, Listing
from evensong.client.flights import Flight, Held
from evensong.client.link import CLOSE_S, Link
from evensong.client.message import MessageId, Service
from evensong.client.naming import send_named
from evensong.client.packing import as_bytes
from evensong.client.replica import Policy, Replica, check_state
from evensong.client.rules import name_of_program
from evensong.client.streams import Event, Stream
from evensong.core.groups.events import MemberId, OrderId
from evensong.errors import ConnectionLost, NotMember, Unreachable


@final
class Receipt(Struct, frozen=True, eq=False, gc=False):
    """What becomes of what was sent; for `send_many`, of the last of it and all before.

    >>> async def main():
    ...     async with evensong.connect(address) as es:
    ...         receipt = await es.send("orders", b"buy 5")
    ...         order = await receipt.ordered()
    ...         held = await receipt.safe()
    ...         return held.members, order >= await receipt.ordered()
    >>> asyncio.run(main())
    ((1,), True)
    """

    _link: Link
    _flights: list[Flight]
    _index: int  # in the last of them

    @property
    def id(self) -> MessageId | str:
        """The message's identity, which receivers see as `Message.id`."""
        return self._flights[-1].id_of(self._index)

    async def ordered(self) -> OrderId | None:
        """Wait for its place in the order: it is delivered at our daemon, and will be elsewhere.

        What is not ordered (BASIC, FIFO and CAUSAL on Transis) has no place: then this waits until
        it is delivered at our daemon, and returns None. Raises `OutcomeUnknown` if the daemon is
        lost first.
        """
        last = self._flights[-1]
        while not last.has_come(self._index):
            await self._link.until(last.wakes)
        for flight in self._flights:  # mostly before the last one, or refused
            while not flight.has_come(0):
                await self._link.until(flight.wakes)
        return last.order_of(self._index)

    async def safe(self) -> Held:
        """Wait until it is known who holds it, and return who: all of the ring, or those left.

        Raises `OutcomeUnknown` if the daemon is lost first, and `NotOffered` if it is not ordered.
        """
        await self.ordered()
        last = self._flights[-1]
        last.held_by(self._index)
        self._link.dialogue.watch_safe(last)
        while (held := last.held_by(self._index)) is None:
            await self._link.until(last.wakes)
        return held

    def __repr__(self) -> str:
        return f"<receipt of {self.id}>"


Sending: TypeAlias = Coroutine[None, None, Receipt]  # to be awaited


@final
class Batches:
    """A stream, in batches: everything that is there, each time; never an empty list."""

    __slots__ = ("_link", "_stream")

    def __init__(self, link: Link, stream: Stream) -> None:
        self._link: Final = link
        self._stream: Final = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        stream = self._stream
        while True:
            batch = stream.take()
            self._link.flush_soon()
            if batch:
                return batch
            await self._link.until_more(stream)


@final
class Events:
    """A stream, event by event; no generator, since a wait for the next may be cancelled."""

    __slots__ = ("_link", "_stream")

    def __init__(self, link: Link, stream: Stream) -> None:
        self._link: Final = link
        self._stream: Final = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        stream = self._stream
        at = stream.at
        if at < len(stream.batch):  # the usual case, without a call
            stream.at = at + 1
            return stream.batch[at]
        while (event := stream.take_one()) is None:
            self._link.flush_soon()
            await self._link.until_more(stream)
        self._link.flush_soon()  # what taking it in has led to
        return event


@final
class Group:
    """A group that this program is a member of; iterate it for its views and messages, in order.

    By asking for the next event a program says that it has applied those before it: in a group
    with state, snapshots are taken there.
    """

    __slots__ = ("_link", "_stream", "name")

    def __init__(self, link: Link, name: str, stream: Stream) -> None:
        self._link: Final = link
        self._stream: Final = stream
        self.name: Final = name

    def send(
        self, payload: bytes, *, service: Service = Service.AGREED, id: str | None = None
    ) -> Sending:
        """Send a message to the group; see `Connection.send`."""
        return _send(self._link, self.name, payload, service, id)

    def send_many(self, payloads: Sequence[bytes], *, service: Service = Service.AGREED) -> Sending:
        """Send messages to the group; see `Connection.send_many`."""
        return _send_many(self._link, self.name, payloads, service)

    def batches(self) -> AsyncIterator[list[Event]]:
        """Iterate over everything that has come, list by list: the fast way to read."""
        self._link.dialogue.streams.claim(self._stream)
        return Batches(self._link, self._stream)

    def __aiter__(self) -> AsyncIterator[Event]:
        self._link.dialogue.streams.claim(self._stream)
        return Events(self._link, self._stream)

    async def leave(self) -> None:
        """Leave the group; whoever iterates it comes to an end, after what came before."""
        await self._link.answered(self._link.dialogue.leave(self.name))


@final
class Joining:
    """What `join` returns: await it, or enter it and leave the group at the end of the block."""

    __slots__ = ("_link", "_name", "_policy", "_state", "_stream")

    def __init__(self, link: Link, name: str, state: Replica | None, policy: Policy) -> None:
        self._link: Final = link
        self._name: Final = name
        self._state: Final = state
        self._policy: Final[Policy] = policy
        self._stream: Stream | None = None

    def __await__(self) -> Generator[object, None, Group]:
        return self._join().__await__()

    async def _join(self) -> Group:
        dialogue = self._link.dialogue
        answer = dialogue.join(self._name, self._state, self._policy)
        try:
            self._stream = await self._link.answered(answer)
        except asyncio.CancelledError:
            dialogue.withdraw(self._name)  # nobody would read it
            self._link.flush_soon()
            raise
        return Group(self._link, self._name, self._stream)

    async def __aenter__(self) -> Group:
        return await self._join()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave; what has come and was not read is let go, else it could hold the answer up."""
        stream, dialogue = self._stream, self._link.dialogue
        assert stream is not None
        dialogue.streams.abandon(stream)
        if not stream.is_over and dialogue.ended is None:
            # Either it is no member any more, or the daemon will take its leave when it can.
            with suppress(ConnectionLost, NotMember, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._link.answered(dialogue.leave(self._name))


@final
class Connection:
    """A connection to a daemon; iterate it for everything that its groups are told, in one order.

    Messages to the private name (`str(es.member)`) come by the connection's own stream only: who
    reads nothing but groups never sees them, though their senders' receipts say `ordered`.

    >>> async def main():
    ...     async with evensong.connect(address, name="ann") as es:
    ...         async with es.join("orders") as group:
    ...             await group.send(b"buy 5")
    ...             async for event in group:
    ...                 match event:
    ...                     case View(members=members):
    ...                         print("members:", *[member.user for member in members])
    ...                     case Message(payload=payload, sender=sender):
    ...                         print(sender.user, "says", payload)
    ...                         break
    >>> asyncio.run(main())
    members: ann
    ann says b'buy 5'
    """

    __slots__ = ("_link",)

    def __init__(self, link: Link) -> None:
        self._link: Final = link

    @property
    def member(self) -> MemberId:
        """Who this program is; as text, the private name at which it can be sent messages."""
        return self._link.dialogue.member

    @property
    def is_slow(self) -> bool:
        """Whether the daemon has warned that too little is read; it hangs up if that goes on.

        True until what waited at the time of the warning has been read.
        """
        return self._link.dialogue.is_slow

    @property
    def message_max(self) -> int:
        """How many bytes a message may have."""
        return self._link.dialogue.message_max

    def send(
        self,
        to: str | Sequence[str],
        payload: bytes,
        *,
        service: Service = Service.AGREED,
        id: str | None = None,
    ) -> Sending:
        """Send a message to a group, a private name, or several: at one place in the order.

        Returns as soon as there is room for it, without a round trip; waits while there is none.
        The sender need not be a member. With `id` the message has that identity instead of one of
        its own: who sends it again after `OutcomeUnknown` is recognised by it. The id's bytes and
        one more count towards `message_max`.

        Raises `TooLarge` or `BadName`, and nothing was sent; raises `ConnectionLost`, and this
        message was not sent.
        """
        return _send(self._link, to, payload, service, id)

    def send_many(
        self,
        to: str | Sequence[str],
        payloads: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
    ) -> Sending:
        """Send messages, in order, packed as tightly as they go; returns a receipt for all.

        Waits for room as often as it has to. If the connection is lost on the way it raises
        `OutcomeUnknown`: some may be ordered, and the first ones are if any are. If it is cancelled
        the first ones have been sent.
        """
        return _send_many(self._link, to, payloads, service)

    def batches(self) -> AsyncIterator[list[Event]]:
        """Iterate over everything that has come, list by list: the fast way to read."""
        streams = self._link.dialogue.streams
        streams.claim(streams.everything)
        return Batches(self._link, streams.everything)

    def __aiter__(self) -> AsyncIterator[Event]:
        streams = self._link.dialogue.streams
        streams.claim(streams.everything)
        return Events(self._link, streams.everything)

    def join(
        self, group: str, *, state: Replica | None = None, policy: Policy = "merge"
    ) -> Joining:
        """Become a member of a group: `async with es.join("orders") as group`.

        With `state`, the program's replica gets the group's state before the first message, and is
        asked for snapshots and merges; all members have to join so, else it may wait for its state
        for ever. `policy` says what becomes of sides that meet: `"merge"`, or `"primary-wins"`.
        """
        check_state(state, policy)
        return Joining(self._link, group, state, policy)

    async def groups(self) -> Listing:
        """Return all groups that the daemon knows of, each with its members."""
        return await self._link.answered(self._link.dialogue.list_groups())

    async def close(self) -> None:
        """Say goodbye; what was sent goes out first. Closing twice is closing once.

        A daemon that does not answer for 5 s is given up without a word: of what was sent last only
        receipts tell.
        """
        await self._link.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


@final
class Connecting:
    """What `connect` returns: await it, or enter it and close the connection at the end."""

    __slots__ = ("_connection", "_name", "_path")

    def __init__(self, path: str, name: str) -> None:
        self._path: Final = path
        self._name: Final = name
        self._connection: Connection | None = None

    def __await__(self) -> Generator[object, None, Connection]:
        return self._connect().__await__()

    async def _connect(self) -> Connection:
        link = Link(Dialogue(self._name), open_stream(self._path))
        try:
            async with asyncio.timeout(WELCOME_S):
                await link.answered(link.dialogue.welcome)
        except ConnectionLost as error:
            link.abort()
            raise Unreachable(f"{self._path}: {error}") from None
        except TimeoutError:
            link.abort()
            raise Unreachable(f"{self._path}: the daemon does not answer") from None
        except BaseException:
            link.abort()
            raise
        return Connection(link)

    async def __aenter__(self) -> Connection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._connection is not None
        await self._connection.close()


def connect(address: str | os.PathLike[str], *, name: str = "") -> Connecting:
    """Connect to a daemon: `async with evensong.connect("unix:///…/client.sock") as es`.

    The address may also be a path, of the socket or of the daemon's state directory. The name is
    for people: 1 to 32 bytes without `#`; it is part of the private name. Raises `Unreachable` if
    no daemon answers there, `BadName` if the name cannot be one.
    """
    return Connecting(socket_path(address), name_of_program(name))


async def _send(
    link: Link,
    to: str | Sequence[str],
    payload: bytes,
    service: Service,
    chosen: str | None,
) -> Receipt:
    dialogue = link.dialogue
    while not dialogue.can_send():
        await link.until(dialogue.room)
    body, flags = as_bytes(payload), flags_of(service)
    if chosen is None:
        flight, index = dialogue.send(to, body, flags)
    else:
        flight, index = send_named(dialogue, to, body, flags, chosen)
    link.flush_soon()
    return Receipt(link, [flight], index)


async def _send_many(
    link: Link, to: str | Sequence[str], payloads: Sequence[bytes], service: Service
) -> Receipt:
    dialogue = link.dialogue
    parcel = Consignment(dialogue, to, payloads, service)
    while not parcel.go_on():
        await link.until(dialogue.room)
    link.flush_soon()
    return Receipt(link, parcel.flights, parcel.flights[-1].count - 1)
