"""A client that sends more than the ring takes, or only listens: `python -m bench.eager TASK`.

It says `ready` when everybody is in its view, begins at a line of input, says `flows` when it hears
the first message, is told from when to when to count, and prints what it saw as one line of JSON.
It keeps nothing back by itself: it hands over message after message and waits only where the
library makes it. It ends with its input.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import NamedTuple

import evensong
from evensong import Group, MemberId, Message, View
from evensong.bench.member import SAMPLES_MAX, STAMP, batch_of
from evensong.errors import EvensongError

GROUP = "overload"
SAMPLED = 16  # messages of a batch whose latency is looked at


class Task(NamedTuple):
    """What a client is to do."""

    address: str
    name: str
    members: int
    size: int
    sends: bool
    pause_s: float  # after each batch that it takes; a slow client has one


class Seen:
    """What a client has heard while it counted."""

    def __init__(self, me: MemberId) -> None:
        self._me = me
        self.begin_ns, self.end_ns = 2**63, 0
        self.full = asyncio.Event()  # everybody is in a view
        self.flows = asyncio.Event()  # a message has come
        self.delivered = 0
        self.samples: list[int] = []

    def take(self, batch: list[Message | View]) -> None:
        now = time.monotonic_ns()
        if not self.begin_ns <= now < self.end_ns:
            return
        messages = [one for one in batch if isinstance(one, Message)]
        self.delivered += len(messages)
        for one in messages[:: 1 + len(messages) // SAMPLED]:
            if one.sender == self._me and len(self.samples) < SAMPLES_MAX:
                self.samples.append((now - STAMP.unpack_from(one.payload)[0]) // 1_000)


async def _listen(task: Task, group: Group, seen: Seen) -> None:
    async for batch in group.batches():
        for event in [] if seen.flows.is_set() else batch:
            if isinstance(event, Message):
                seen.flows.set()
            elif len(event.members) >= task.members:
                seen.full.set()
        seen.take(batch)
        if seen.flows.is_set() and task.pause_s:
            await asyncio.sleep(task.pause_s)


async def _send(task: Task, group: Group) -> None:
    rest = bytes(task.size - STAMP.size)
    count = batch_of(task.size)
    while True:
        payload = STAMP.pack(time.monotonic_ns()) + rest
        await group.send_many([payload] * count)


async def take_part(task: Task) -> dict[str, object]:
    """Do it, and return what was seen, and how it ended if too early."""
    ended = ""
    seen: Seen | None = None
    with suppress(asyncio.CancelledError):
        try:
            async with (
                evensong.connect(task.address, name=task.name) as connection,
                connection.join(GROUP) as group,
            ):
                seen = Seen(connection.member)
                await _until_the_end(task, group, seen)
        except EvensongError as error:  # hung up on, for one that is slow
            ended = type(error).__name__
    if seen is None:
        return {"delivered": 0, "samples_us": [], "ended": ended}
    return {"delivered": seen.delivered, "samples_us": seen.samples, "ended": ended}


async def _until_the_end(task: Task, group: Group, seen: Seen) -> None:
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(_listen(task, group, seen))]
    await seen.full.wait()
    print("ready", flush=True)
    await loop.run_in_executor(None, _line)
    if task.sends:
        tasks.append(asyncio.create_task(_send(task, group)))
    await seen.flows.wait()
    print("flows", flush=True)
    line = await loop.run_in_executor(None, _line)
    seen.begin_ns, seen.end_ns = json.loads(line)
    threading.Thread(target=_end_with_input, daemon=True).start()
    left_s = (seen.end_ns - time.monotonic_ns()) / 1e9
    done, _ = await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in done:
        one.result()  # raises what has ended it


def _line() -> str:
    """Return a line of input; end at once when there is none any more."""
    line = sys.stdin.readline()
    if not line:
        os._exit(1)
    return line


def _end_with_input() -> None:
    """End at once when whoever started this is gone."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Take part as the argument says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this ends it
    task = Task(*json.loads(sys.argv[1]))
    print(json.dumps(asyncio.run(take_part(task))), flush=True)


if __name__ == "__main__":
    main()
