"""One member of a group under load, a process of its own: `python -m evensong.bench.member TASK`.

It says `ready` once everybody is in its view, is told on its input from when to when to count,
sends all the while, and prints what it saw as one line of JSON. The clock is the machine's
monotonic one, which all processes share; a message carries when it was sent, or was due.
"""

import asyncio
import json
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final, NamedTuple

import evensong
from evensong import Group, MemberId, Message, Receipt, Service, View

GROUP: Final = "bench"
STAMP: Final = struct.Struct("!q")  # nanoseconds
SIZE_LEAST: Final = STAMP.size
AHEAD_BYTES: Final = 500_000  # own messages under way, at full speed
FRAME_BYTES: Final = 57_400  # handed over at a time: what one frame holds,
ENTRY_BYTES: Final = 2  # and what a message takes there beside itself
SAMPLES_MAX: Final = 50_000  # latencies that are kept
TICK_NS: Final = 500_000  # between two looks at what is due, if it is much,
LONG_TICK_NS: Final = 2_000_000  # and if it is so much that looks would cost as much as messages
MUCH_PER_S: Final = 10_000
LEAST_NS: Final = 1_000  # to sleep; 0 would be for ever
TOGETHER: Final = 256  # messages that are sent at once, at a rate
SAMPLED: Final = 32  # messages of a batch whose latency is looked at; else one in so many


class Task(NamedTuple):
    """What a member is to do."""

    address: str
    name: str
    members: int
    size: int
    service: str  # agreed, safe
    api: str  # batch, message
    rate: float  # messages a second; 0: as fast as they are taken
    arrivals: str = "steady"  # or chance: at a rate, when messages are due


class Span(NamedTuple):
    """From when to when to count, in nanoseconds."""

    begin_ns: int
    end_ns: int


class Counts:
    """What a member has heard."""

    def __init__(self, me: MemberId) -> None:
        self._me: Final = me
        self.span = Span(2**63, 0)
        self.delivered = 0
        self.samples: Final[list[int]] = []

    def batch(self, batch: list[Message | View]) -> None:
        """Count messages that came together."""
        if self.has_begun():
            self.delivered += [*map(type, batch)].count(Message)
            few = batch[:: 1 + len(batch) // SAMPLED]
            self.sample([one for one in few if isinstance(one, Message)])

    def has_begun(self) -> bool:
        """Whether what comes now counts."""
        return self.span.begin_ns <= time.monotonic_ns() < self.span.end_ns

    def sample(self, messages: list[Message]) -> None:
        """Keep how long those took that are mine."""
        now = time.monotonic_ns()
        for one in messages:
            if one.sender == self._me and len(self.samples) < SAMPLES_MAX:
                self.samples.append((now - STAMP.unpack_from(one.payload)[0]) // 1_000)


def batch_of(size: int) -> int:
    """How many messages of this size are handed over at a time."""
    return max(1, FRAME_BYTES // (ENTRY_BYTES + size))


class Sender:
    """Sends as much as it may, or what is due."""

    def __init__(self, task: Task, group: Group) -> None:
        self._task: Final = task
        self._group: Final = group
        self._service: Final = Service.SAFE if task.service == "safe" else Service.AGREED
        self._rest: Final = bytes(task.size - STAMP.size)

    async def run(self) -> None:
        """Send until cancelled."""
        if self._task.rate:
            await self._at_a_rate()
        else:
            await self._at_full_speed()

    async def _at_full_speed(self) -> None:
        batch = batch_of(self._task.size)
        under_way: deque[Receipt] = deque()
        while True:
            under_way.append(await self._send(time.monotonic_ns(), batch))
            if len(under_way) * batch * self._task.size >= AHEAD_BYTES:
                await under_way.popleft().ordered()

    async def _at_a_rate(self) -> None:
        began, period_ns = time.monotonic_ns(), 1e9 / self._task.rate
        tick_ns = LONG_TICK_NS if self._task.rate > MUCH_PER_S else TICK_NS
        # The loop's own timers are a millisecond late, and a thread that sleeps waits for this one
        # to let go of the interpreter; a signal does neither.
        ticks = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, ticks.set)
        dues = self._dues(began, period_ns)
        due = next(dues)
        while True:
            now = time.monotonic_ns()
            stamps: list[int] = []
            while due <= now and len(stamps) < TOGETHER:
                stamps.append(due)
                due = next(dues)
            if stamps:
                await self._send_due(stamps)
            ticks.clear()
            rest_ns = max(due, now + tick_ns) - time.monotonic_ns()
            signal.setitimer(signal.ITIMER_REAL, max(rest_ns, LEAST_NS) / 1e9)
            await ticks.wait()

    def _dues(self, began: int, period_ns: float) -> Iterator[int]:
        """Yield when each message is due: evenly, or by chance as telephones ring."""
        if self._task.arrivals == "steady":
            yield from (began + int(number * period_ns) for number in count())
        rng = Random(self._task.name)
        at = float(began)
        while True:
            at += rng.expovariate(1.0) * period_ns
            yield int(at)

    async def _send_due(self, stamps: list[int]) -> None:
        """Send messages that are due, each with the time at which it was."""
        payloads = [STAMP.pack(stamp) + self._rest for stamp in stamps]
        if self._task.api == "batch" and len(payloads) > 1:
            await self._group.send_many(payloads, service=self._service)
        else:
            for payload in payloads:
                await self._group.send(payload, service=self._service)

    async def _send(self, stamp: int, count: int) -> Receipt:
        """Send so many messages; return the last one's receipt."""
        payload = STAMP.pack(stamp) + self._rest
        if self._task.api == "batch":
            return await self._group.send_many([payload] * count, service=self._service)
        receipts = [await self._group.send(payload, service=self._service) for _ in range(count)]
        return receipts[-1]


async def take_part(task: Task) -> dict[str, object]:
    """Do it, and return what was seen."""
    async with (
        evensong.connect(task.address, name=task.name) as connection,
        connection.join(GROUP) as group,
    ):
        counts = Counts(connection.member)
        full = asyncio.Event()
        listening = asyncio.create_task(_listen(task, group, counts, full))
        await full.wait()
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        line = await loop.run_in_executor(None, sys.stdin.readline)
        counts.span = Span(*json.loads(line))
        sending = asyncio.create_task(Sender(task, group).run())
        await asyncio.sleep((counts.span.end_ns - time.monotonic_ns()) / 1e9)
        sending.cancel()
        listening.cancel()
        await asyncio.gather(sending, listening, return_exceptions=True)
        return {"delivered": counts.delivered, "samples_us": counts.samples}


async def _listen(task: Task, group: Group, counts: Counts, full: asyncio.Event) -> None:
    if task.api == "batch":
        async for batch in group.batches():
            if not full.is_set():
                _see_views(batch, task.members, full)
            counts.batch(batch)
    else:
        every = 1 if task.rate else SAMPLED
        is_counted = False
        heard = 0
        async for event in group:
            if isinstance(event, Message):
                heard += 1
                if is_counted:
                    counts.delivered += 1
                if not heard % every:
                    is_counted = counts.has_begun()
                    if is_counted:
                        counts.sample([event])
            else:
                _see_views([event], task.members, full)


def _see_views(batch: list[Message | View], members: int, full: asyncio.Event) -> None:
    for event in batch:
        if isinstance(event, View) and len(event.members) >= members:
            full.set()


def main() -> None:
    """Take part as the argument says."""
    task = Task(*json.loads(sys.argv[1]))
    print(json.dumps(asyncio.run(take_part(task))), flush=True)


if __name__ == "__main__":
    main()
