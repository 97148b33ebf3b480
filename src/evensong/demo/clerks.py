"""Clients of the demonstration: a clerk at every daemon keeps the ledger and makes entries in it.

All are members of the group `ledger`, those at odd nodes of `audit` too; an agreed entry goes to
the ledger alone, a safe one to both groups, at one place in the order. A clerk whose daemon is
killed is gone with it; the one that comes with the next daemon has an empty ledger and gets the
state from the others.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, final

import evensong
from evensong.client.connection import Connection, Group
from evensong.client.message import Message, Service
from evensong.daemon.driver import clock
from evensong.demo.ledger import Entry, Ledger, decode_entry
from evensong.errors import EvensongError

LEDGER: Final = "ledger"
AUDIT: Final = "audit"
ACCOUNTS: Final = ("altus", "bassus", "cantus", "tenor")
BATCHES: Final = {"agreed": 4, "safe": 2}  # entries at a time
PERIOD_S: Final = 0.02  # between two batches, with `NODES` daemons
NODES: Final = 5
SETTLE_S: Final = 30.0


class Wait(NamedTuple):
    """How long a clerk waited until its own daemon had delivered what it said."""

    service: str
    began_us: int
    took_us: int


class Book(NamedTuple):
    """What one clerk's ledger came to."""

    node: int
    entries: int
    digest: str
    restored: int
    merged: int
    audited: int  # entries that it heard of in `audit`


@final
class _Clerk:
    """One client of one daemon."""

    def __init__(self, state: Path, node: int, period_s: float, waits: list[Wait]) -> None:
        self.node: Final = node
        self.ledger: Final = Ledger()
        self.answers: Final = dict.fromkeys(BATCHES, 0)
        self.audited = 0
        self.is_over = False  # its daemon is gone, or it was told to stop
        self.is_silent = False
        self._state: Final = state
        self._period_s: Final = period_s
        self._waits: Final = waits
        self._rng: Final = Random(node)

    async def work(self) -> None:
        """Keep the ledger, and make entries until told to be silent."""
        try:
            async with AsyncExitStack() as stack:
                name = f"clerk-{self.node}"
                es = await stack.enter_async_context(evensong.connect(self._state, name=name))
                ledger = await stack.enter_async_context(es.join(LEDGER, state=self.ledger))
                tasks = [self._keep(ledger)] + [self._speak(es, service) for service in BATCHES]
                if self.node % 2:
                    tasks.append(self._audit(await stack.enter_async_context(es.join(AUDIT))))
                await asyncio.gather(*tasks)
        except EvensongError:
            pass  # it was killed or stops; whoever wants to know looks at the daemon
        finally:
            self.is_over = True

    async def _keep(self, ledger: Group) -> None:
        async for batch in ledger.batches():
            for event in batch:
                if isinstance(event, Message):
                    self.ledger.apply(str(event.id), decode_entry(event.payload))

    async def _audit(self, audit: Group) -> None:
        async for batch in audit.batches():
            self.audited += sum(isinstance(event, Message) for event in batch)

    async def _speak(self, es: Connection, service: str) -> None:
        to = [LEDGER, AUDIT] if service == "safe" else [LEDGER]
        while not self.is_silent:
            began_us = clock()
            entries = [self._entry().encode() for _ in range(BATCHES[service])]
            receipt = await es.send_many(to, entries, service=Service(service))
            await receipt.ordered()
            self._waits.append(Wait(service, began_us, clock() - began_us))
            self.answers[service] += 1
            spent_s = (clock() - began_us) / 1_000_000
            await asyncio.sleep(max(0.0, self._period_s - spent_s))
        self.answers.pop(service)

    def _entry(self) -> Entry:
        origin, target = self._rng.sample(ACCOUNTS, 2)
        return Entry(origin, target, self._rng.randint(1, 100))


@final
class Clerks:
    """The clients of all daemons, in one thread. The load is the same however many share it."""

    def __init__(self, nodes: int) -> None:
        self.waits: Final[list[Wait]] = []
        self._period_s: Final = PERIOD_S * nodes / NODES
        self._clerks: Final[list[_Clerk]] = []
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def join(self, state: Path, node: int) -> None:
        """Let a clerk work at a daemon."""
        clerk = _Clerk(state, node, self._period_s, self.waits)
        self._clerks.append(clerk)
        asyncio.run_coroutine_threadsafe(clerk.work(), self._loop)

    def heard(self) -> int:
        """Return how many entries their clerks have heard so far."""
        return sum(BATCHES[wait.service] for wait in list(self.waits))

    def answers(self) -> dict[str, int]:
        """Return how often each clerk whose daemon is there has been answered, by service."""
        return {
            f"{clerk.node} {service}": count
            for clerk in self._clerks
            if not clerk.is_over
            for service, count in list(clerk.answers.items())
        }

    def hush(self) -> None:
        """Let everybody make no more entries."""
        for clerk in self._clerks:
            clerk.is_silent = True

    def is_silent(self) -> bool:
        """Whether everybody has heard the last of its own entries, or lost its daemon."""
        return all(clerk.is_over or not clerk.answers for clerk in self._clerks)

    def books(self) -> Sequence[Book]:
        """Return what the ledgers of clerks that still work came to, by node."""
        working = [clerk for clerk in self._clerks if not clerk.is_over]
        return [
            Book(
                clerk.node,
                len(clerk.ledger.entries),
                clerk.ledger.digest(),
                clerk.ledger.restored,
                clerk.ledger.merged,
                clerk.audited,
            )
            for clerk in sorted(working, key=lambda one: one.node)
        ]

    def stop(self) -> None:
        """Let everybody leave; whoever still waits does not any more."""
        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(SETTLE_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SETTLE_S)
            self._loop.close()

    async def _leave(self) -> None:
        working = asyncio.all_tasks() - {asyncio.current_task()}
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
