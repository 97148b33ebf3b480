"""A company: a member of one group at each of several daemons, who listens, and talks if asked to.

What members hear is kept in its order and with its hour, so that a test says what happened between
what, and never how long something may take.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import evensong
from evensong import ConnectionLost, Group, Message, OrderId, OutcomeUnknown, Receipt, View
from evensong.client.replica import Replica
from evensong.core.ids import ProcessorId
from tests.daemon.local import LocalCluster

PATIENCE_S = 120.0  # how long something may take on a busy machine before the test fails
ROUND = 5  # messages that a talker has under way at a time
SHOWN = 64  # bytes of a payload that are kept


class Heard(NamedTuple):
    """A message that was heard."""

    order: OrderId
    user: str  # who sent it
    opening: bytes
    digest: bytes
    at_us: int

    @classmethod
    def of(cls, message: Message) -> "Heard":
        digest = hashlib.sha256(message.payload).digest()
        at_us = time.monotonic_ns() // 1_000
        assert message.order is not None
        return cls(message.order, message.sender.user, message.payload[:SHOWN], digest, at_us)

    def number(self) -> int:
        """Which of a talker's messages it is."""
        return int(self.opening)


class SeenView(NamedTuple):
    """A view that was seen, and how many messages had been heard before it."""

    view: View
    after: int
    at_us: int


class Member:
    """One of the company."""

    def __init__(self, node: ProcessorId, es: evensong.Connection, group: Group) -> None:
        self.node = node
        self.es = es
        self.group = group
        self.heard: list[Heard] = []
        self.views: list[SeenView] = []
        self.said = 0
        self.is_silent = True
        self._news = asyncio.Event()

    @property
    def name(self) -> str:
        return self.es.member.user

    async def listen(self, apply: Callable[[Message], None]) -> None:
        """Hear everything until the connection ends."""
        with suppress(ConnectionLost):
            async for event in self.group:
                if isinstance(event, Message):
                    apply(event)
                    self.heard.append(Heard.of(event))
                else:
                    at_us = time.monotonic_ns() // 1_000
                    self.views.append(SeenView(event, len(self.heard), at_us))
                self._news.set()

    async def talk(self) -> None:
        """Say number after number, a few at a time, until told to be silent or cut off."""
        self.is_silent = False
        with suppress(ConnectionLost, OutcomeUnknown):
            while not self.is_silent:
                numbers = range(self.said + 1, self.said + ROUND + 1)
                self.said += ROUND
                receipt = await self.group.send_many([b"%d" % number for number in numbers])
                await receipt.ordered()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what was heard."""
        while not holds():
            self._news.clear()
            await self._news.wait()

    async def until_heard(self, user: str, opening: bytes) -> Heard:
        """Wait for a message, and return it."""
        looked_at = 0

        def is_here() -> bool:
            nonlocal looked_at
            while looked_at < len(self.heard):
                one = self.heard[looked_at]
                if one.user == user and one.opening == opening:
                    return True
                looked_at += 1
            return False

        await self.until(is_here)
        return self.heard[looked_at]

    async def until_view(self, members: Iterable[ProcessorId], since: int = 0) -> SeenView:
        """Wait for a regular view of members at these daemons alone, after so many others."""
        wanted = sorted(members)

        def found() -> list[SeenView]:
            return [
                seen
                for seen in self.views[since:]
                if not seen.view.transitional
                and sorted(one.daemon for one in seen.view.members) == wanted
            ]

        await self.until(lambda: bool(found()))
        return found()[0]

    def stream(self) -> list[tuple[OrderId, str, bytes]]:
        """Return what was heard, without its hours."""
        return [(one.order, one.user, one.digest) for one in self.heard]


class Company:
    """Members at daemons, and what they do meanwhile."""

    def __init__(self, cluster: LocalCluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self.members: dict[ProcessorId, Member] = {}
        self._doing: list[asyncio.Task[None]] = []

    async def add(
        self,
        node: ProcessorId,
        *,
        address: str = "",
        state: Replica | None = None,
        apply: Callable[[Message], None] = lambda message: None,
    ) -> Member:
        """Let somebody join at a daemon, and listen from then on."""
        es = await evensong.connect(address or self.cluster.state(node), name=f"at{node}")
        group = await es.join(self.group, state=state)
        member = self.members[node] = Member(node, es, group)
        self._doing.append(asyncio.create_task(member.listen(apply)))
        return member

    def let_talk(self, nodes: Iterable[ProcessorId]) -> None:
        """Let these talk from now on."""
        self._doing += [asyncio.create_task(self.members[node].talk()) for node in nodes]

    def said(self) -> dict[str, int]:
        """Return how many messages each has handed over."""
        return {member.name: member.said for member in self.members.values()}

    async def fence(self, nodes: Iterable[ProcessorId]) -> list[Member]:
        """Let these fall silent, and hear each other's last word; then all have heard all."""
        members = [self.members[node] for node in nodes]
        for member in members:
            member.is_silent = True
        for member in members:
            await member.group.send(b"last")
        for member in members:
            for other in members:
                await member.until_heard(other.name, b"last")
        return members

    async def leave(self) -> None:
        for member in self.members.values():
            await member.es.close()
        for task in self._doing:
            task.cancel()
        await asyncio.gather(*self._doing, return_exceptions=True)


@asynccontextmanager
async def company(cluster: LocalCluster, group: str) -> AsyncIterator[Company]:
    """Gather a company, to be filled; it is over before patience is."""
    gathered = Company(cluster, group)
    async with asyncio.timeout(PATIENCE_S):
        try:
            yield gathered
        finally:
            await gathered.leave()


async def becomes_of(receipt: Receipt) -> OrderId | OutcomeUnknown | None:
    """Wait for a receipt's end."""
    try:
        return await receipt.ordered()
    except OutcomeUnknown as unknown:
        return unknown
