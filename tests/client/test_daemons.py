"""Programs against real daemons: the first example, a large message, a daemon that dies."""

import asyncio
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import evensong
import evensong.sync
from evensong import (
    Connection,
    ConnectionLost,
    Group,
    Held,
    Message,
    OrderId,
    OutcomeUnknown,
    Service,
    TooLarge,
    Unreachable,
    View,
)
from evensong.core.engine import ENGINES
from tests.client.company import company
from tests.daemon.local import LocalCluster

EXAMPLE = Path(__file__).with_name("first_example.py")
PATIENCE_S = 60.0  # how long something may take on a busy machine before the test fails


def start_example(cluster: LocalCluster, node: int, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLE), f"unix://{cluster.state(node)}/client.sock", name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)


def lines(program: subprocess.Popen[str], count: int) -> list[str]:
    assert program.stdout is not None
    return [program.stdout.readline().rstrip("\n") for _ in range(count)]


async def next_message(group: Group) -> Message:
    async for event in group:
        if isinstance(event, Message):
            return event
    raise AssertionError("the stream ended")


def test_the_readme_has_the_example_word_for_word() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.split("```python\n", 1)[1].split("```", 1)[0]
    assert EXAMPLE.read_text().partition('"""\n\n')[2] == shown


def test_the_first_example_two_programs_one_group(tmp_path: Path) -> None:
    directory = tmp_path / ("in a directory with a name" * 5)  # longer than an address can be
    directory.mkdir()
    with LocalCluster(directory, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with start_example(cluster, 1, "ann") as ann:
            assert lines(ann, 2) == ["members: ann", "ann: ann is here"]
            with start_example(cluster, 2, "bob") as bob:
                assert lines(bob, 2) == ["members: ann bob", "bob: bob is here"]
                assert lines(ann, 2) == ["members: ann bob", "bob: bob is here"]
                bob.kill()
            assert lines(ann, 1) == ["members: ann"]
            ann.kill()


@pytest.mark.parametrize("engine", ENGINES)
def test_two_daemons_carry_messages_of_all_sizes_in_one_order(tmp_path: Path, engine: str) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1), name="ann") as ann,
            evensong.connect(cluster.state(2), name="bob") as bob,
            ann.join("g") as mine,
            bob.join("g") as theirs,
        ):
            large = bytes(range(256)) * 4_096
            await ann.send_many("g", [b"%d" % number for number in range(20_000)])
            await bob.send("g", large)
            agreed = await ann.send("g", b"agreed")
            safe = await bob.send("g", b"safe", service=Service.SAFE)
            assert (await agreed.safe()).members == (1, 2)
            assert (await safe.safe()).members == (1, 2)
            assert not (await safe.safe()).reduced
            streams: list[list[tuple[OrderId | None, bytes]]] = []
            for group in (mine, theirs):
                heard = [await next_message(group) for _ in range(20_003)]
                streams.append([(one.order, one.payload) for one in heard])
            assert streams[0] == streams[1]
            orders = [order for order, _ in streams[0] if order is not None]
            assert orders == sorted(orders)
            assert len(orders) == 20_003
            assert sum(payload == large for _, payload in streams[0]) == 1
            with pytest.raises(TooLarge):
                await ann.send("g", bytes(17 * 2**20))
            async with evensong.connect(cluster.state(1)) as late:
                early = await late.send("g", b"nobody talks any more")
                await early.ordered()
                assert (await (await ann.send("g", b"but this")).safe()).members == (1, 2)
                assert (await early.safe()).members == (1, 2)  # it asks when all has been told

    with LocalCluster(tmp_path, 2, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def test_a_daemon_killed_under_a_program_leaves_no_receipt_hanging(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        ann = await evensong.connect(cluster.state(1), name="ann")
        receipts = []

        async def talk() -> None:
            while True:
                receipts.append(await ann.send("g", bytes(100)))
                if len(receipts) == 1_000:
                    await receipts[0].ordered()
                elif len(receipts) == 2_000:
                    cluster.signal(1, signal.SIGKILL)

        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectionLost):
                await talk()
            waits = [one.ordered() for one in receipts] + [one.safe() for one in receipts]
            ends = await asyncio.gather(*waits, return_exceptions=True)
        assert len(receipts) >= 2_000
        assert isinstance(ends[0], tuple)
        assert isinstance(ends[-1], OutcomeUnknown)
        assert all(isinstance(end, tuple | OutcomeUnknown) for end in ends)
        await ann.close()
        with pytest.raises(Unreachable):
            await evensong.connect(cluster.state(1))
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(2), name="ann") as again,
            again.join("g") as group,
        ):
            await group.send(b"here again")
            assert (await next_message(group)).payload == b"here again"

    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("service", [Service.AGREED, Service.SAFE])
def test_receipts_that_are_waited_for_end_when_the_daemon_is_killed(
    tmp_path: Path, service: Service, engine: str
) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with company(cluster, "g") as together:
            bob = await together.add(2)
            ann = await evensong.connect(cluster.state(1), name="ann")
            ordered: list[asyncio.Task[OrderId | None]] = []
            safe: list[asyncio.Task[Held]] = []

            async def talk() -> None:
                for number in itertools.count():
                    receipt = await ann.send("g", b"%d" % number, service=service)
                    ordered.append(asyncio.create_task(receipt.ordered()))
                    safe.append(asyncio.create_task(receipt.safe()))
                    if number == 300:
                        await asyncio.wait([ordered[0], safe[0]])
                    elif number == 600:
                        cluster.signal(1, signal.SIGKILL)
                    await asyncio.sleep(0)  # those who wait are waiting when the daemon dies

            with pytest.raises(ConnectionLost):
                await talk()
            ends = await asyncio.gather(*ordered, return_exceptions=True)
            safe_ends = await asyncio.gather(*safe, return_exceptions=True)
            await ann.close()
            await bob.until_view([2])
            await together.fence([2])
        heard = [one.opening for one in bob.heard if one.user == "ann"]
        check_ends(ends, safe_ends, heard)

    with LocalCluster(tmp_path, 2, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def check_ends(ordered: Sequence[object], safe: Sequence[object], heard: list[bytes]) -> None:
    """See that every wait came to an end, and that what is known to be held elsewhere is."""
    assert all(isinstance(end, OrderId | OutcomeUnknown) for end in ordered)
    assert all(isinstance(end, Held | OutcomeUnknown) for end in safe)
    assert isinstance(ordered[0], OrderId)
    assert isinstance(ordered[-1], OutcomeUnknown)
    assert isinstance(safe[-1], OutcomeUnknown)
    assert heard == [b"%d" % number for number in range(len(heard))]
    held = [number for number, end in enumerate(safe) if isinstance(end, Held)]
    assert held == list(range(len(held)))
    assert len(heard) >= len(held) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_state_survives_a_daemon(tmp_path: Path, engine: str) -> None:
    class Total:
        def __init__(self) -> None:
            self.total = 0

        def snapshot(self) -> bytes:
            return b"%d" % self.total

        def restore(self, snapshot: bytes) -> None:
            self.total = int(snapshot)

        def merge(self, snapshots: list[bytes]) -> None:
            self.total = max(map(int, snapshots))

    async def keep(group: Group, replica: Total, enough: int) -> None:
        async for event in group:
            if isinstance(event, Message):
                replica.total += int(event.payload)
            if replica.total == enough:
                return

    async def main(cluster: LocalCluster) -> None:
        first, second = Total(), Total()
        ann = await evensong.connect(cluster.state(1), name="ann")
        mine = await ann.join("total", state=first)
        async with asyncio.timeout(PATIENCE_S), evensong.connect(cluster.state(2)) as bob:
            await ann.send_many("total", [b"1"] * 1_000)
            await keep(mine, first, 1_000)
            async with bob.join("total", state=second) as theirs:
                reading = asyncio.ensure_future(keep(mine, first, 2_000))
                await ann.send_many("total", [b"1"] * 1_000)
                await keep(theirs, second, 2_000)
                await reading
                assert first.total == second.total == 2_000
                cluster.kill(1)
                await bob.send("total", b"1")
                await until_alone(theirs, second)
                assert second.total == 2_001
        await ann.close()

    async def until_alone(group: Group, replica: Total) -> None:
        """Read until the message and the view without the other are here, whichever is first."""
        members = 2
        async for event in group:
            if isinstance(event, View):
                members = len(event.members)
            else:
                replica.total += int(event.payload)
            if members == 1 and replica.total == 2_001:
                return

    with LocalCluster(tmp_path, 2, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def test_receipts_and_answers_come_though_nobody_reads(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1)) as ann,
            ann.join("g") as group,
        ):
            for _ in range(8):  # twice what a daemon tells a program that does not read
                await (await group.send(bytes(2**20))).ordered()
            assert await ann.groups() == {"g": (ann.member,)}
            sizes = [len(one.payload) async for one in some(group, 9) if isinstance(one, Message)]
            assert sizes == [2**20] * 8

    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


async def some(group: Group, count: int) -> AsyncIterator[Message | View]:
    """Take so many events of a group."""
    events = aiter(group)
    for _ in range(count):
        yield await anext(events)


def test_who_forgets_to_read_is_warned(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with evensong.sync.connect(cluster.state(1)) as es:
            group = es.join("g")
            until = time.monotonic() + PATIENCE_S
            while not es.is_slow:
                assert time.monotonic() < until
                receipt = es.send("g", bytes(60_000))
                receipt.ordered(PATIENCE_S)
            for event in group:
                if isinstance(event, Message) and event.id == receipt.id:
                    break
            assert not es.is_slow


def test_a_cause_comes_before_its_effect_whatever_groups_they_are_sent_to(tmp_path: Path) -> None:
    """The paper's case: p sends m1 to G; q, having it, sends m2 to H; r in both sees m1 first."""

    async def answer(es: Connection, group: Group) -> None:
        async for event in group:
            if isinstance(event, Message):
                await es.send("H", event.payload)

    async def main(cluster: LocalCluster) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1), name="p") as p,
            evensong.connect(cluster.state(2), name="q") as q,
            evensong.connect(cluster.state(3), name="r") as r,
            q.join("G") as group,
            r.join("G"),
            r.join("H"),
        ):
            answering = asyncio.ensure_future(answer(q, group))
            heard: list[tuple[str, bytes]] = []
            for number in range(100):
                await p.send("G", b"%d" % number)
            async for event in r:
                if isinstance(event, Message):
                    heard.append((event.groups[0], event.payload))
                    if len(heard) == 200:
                        break
            answering.cancel()
            for number in range(100):
                cause = heard.index(("G", b"%d" % number))
                assert cause < heard.index(("H", b"%d" % number))

    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))
