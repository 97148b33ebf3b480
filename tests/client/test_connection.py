"""Programs with asyncio, on a real socket."""

import asyncio
import doctest
import socket
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

import evensong
import evensong.cli.main
import evensong.client.address
import evensong.client.blocking
import evensong.client.connection
import evensong.client.message
import evensong.client.packing
import evensong.sync
from evensong import (
    BadAddress,
    BadName,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    Group,
    Message,
    OutcomeUnknown,
    Refused,
    Service,
    TooLarge,
    Unreachable,
    View,
)
from evensong.client.dialogue import Dialogue
from evensong.client.link import Link
from evensong.core.groups.events import MemberId
from evensong.ipc import wire
from evensong.ipc.frames import Why
from tests.client.server import Server, serving

PATIENCE_S = 30.0  # how long something may take on a busy machine before the test fails


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


async def next_message(group: Group | Connection) -> Message:
    async with asyncio.timeout(PATIENCE_S):
        async for event in group:
            if isinstance(event, Message):
                return event
    raise AssertionError("the stream ended")


def test_two_programs_share_a_group(server: Server) -> None:
    async def main() -> None:
        async with (
            evensong.connect(server.address, name="ann") as ann,
            evensong.connect(server.address, name="bob") as bob,
            ann.join("orders") as orders,
            bob.join("orders") as same,
        ):
            receipt = await orders.send(b"buy 5", service=Service.SAFE)
            message = await next_message(same)
            assert (message.payload, message.sender, message.id) == (
                b"buy 5",
                ann.member,
                receipt.id,
            )
            assert await receipt.ordered() == message.order
            assert (await receipt.safe()).members == (1,)
            assert await bob.groups() == {"orders": (ann.member, bob.member)}

    asyncio.run(main())


def test_batches_and_events_tell_the_same(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address, name="ann") as ann:
            group = await ann.join("g")
            receipt = await ann.send_many("g", [b"%d" % number for number in range(3_000)])
            await receipt.ordered()
            first = await next_message(group)
            got = [first]
            async for batch in group.batches():
                got += [event for event in batch if isinstance(event, Message)]
                if len(got) == 3_000:
                    break
            assert [int(message.payload) for message in got] == list(range(3_000))
            assert got[-1].id == receipt.id
            assert got[-1].order == await receipt.ordered()
            await group.leave()
            assert [event async for event in group] == []

    asyncio.run(main())


def test_sending_waits_when_the_window_is_full_and_goes_on(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address, name="ann") as ann:
            server.freeze()
            sent = 0

            async def flood() -> None:
                nonlocal sent
                for _ in range(300):
                    receipt = await ann.send("g", bytes(10_000))
                    sent += 1
                await receipt.ordered()

            flooding = asyncio.create_task(flood())
            await asyncio.sleep(0)  # it runs until it has to wait
            assert 100 <= sent <= 110
            server.thaw()
            async with asyncio.timeout(PATIENCE_S):
                await flooding
            assert sent == 300

    asyncio.run(main())


def test_a_daemon_that_dies_leaves_nothing_hanging(server: Server) -> None:
    async def main() -> None:
        ann = await evensong.connect(server.address, name="ann")
        group = await ann.join("g")
        done = await ann.send("g", b"done")
        await done.ordered()
        server.freeze()
        receipts = [await ann.send("g", b"%d" % number) for number in range(500)]
        waits: list[Coroutine[None, None, object]] = [receipt.ordered() for receipt in receipts]
        waits += [receipt.safe() for receipt in receipts]
        tasks = [asyncio.ensure_future(wait) for wait in waits]

        async def fill() -> None:
            while True:
                await ann.send("g", bytes(10_000))

        async def fill_many() -> None:
            await ann.send_many("g", [bytes(1_000)] * 10_000)

        async def join() -> None:
            await ann.join("h")

        async def read() -> None:
            async for _ in group.batches():
                pass

        others = [asyncio.ensure_future(one()) for one in (fill_many, fill, join, read)]
        for _ in range(20):
            await asyncio.sleep(0)
        server.kill()
        async with asyncio.timeout(PATIENCE_S):
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            rest = await asyncio.gather(*others, return_exceptions=True)
        assert {type(end) for end in ends} == {OutcomeUnknown}
        assert [type(end) for end in rest] == [
            OutcomeUnknown,
            ConnectionLost,
            ConnectionLost,
            ConnectionLost,
        ]
        assert await done.ordered()
        with pytest.raises(OutcomeUnknown):
            await done.safe()
        with pytest.raises(ConnectionLost):
            await ann.send("g", b"late")
        await ann.close()
        with pytest.raises(Unreachable):
            await evensong.connect(server.address)

    asyncio.run(main())


def test_what_was_sent_before_closing_arrives(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address, name="bob") as bob, bob.join("g") as group:
            async with evensong.connect(server.address, name="ann") as ann:
                receipt = await ann.send("g", b"last words")
            with pytest.raises(ConnectionClosed):
                await ann.send("g", b"more")
            await ann.close()
            assert (await next_message(group)).id == receipt.id

    asyncio.run(main())


def test_closing_twice_at_once_is_closing_once(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address, name="bob") as bob, bob.join("g") as group:
            ann = await evensong.connect(server.address, name="ann")
            receipt = await ann.send_many("g", [bytes(1_000)] * 1_000)
            await asyncio.gather(ann.close(), ann.close())
            ids = [(await next_message(group)).id for _ in range(1_000)]
            assert ids[-1] == receipt.id

    asyncio.run(main())


def test_leaving_a_group_loses_nothing_of_the_others(server: Server) -> None:
    async def main() -> None:
        async with (
            evensong.connect(server.address, name="ann") as ann,
            evensong.connect(server.address, name="bob") as bob,
        ):
            await ann.join("b")
            for to in ("b", str(ann.member)):
                await (await bob.send(to, to.encode())).ordered()
            async with ann.join("a"):
                await (await bob.send("a", b"nobody reads it")).ordered()
                await (await bob.send(["a", "b"], b"both")).ordered()
            await (await bob.send("b", b"last")).ordered()
            heard = [await next_message(ann) for _ in range(4)]
            said = [b"b", str(ann.member).encode(), b"both", b"last"]
            assert [message.payload for message in heard] == said

    asyncio.run(main())


def test_a_wait_that_is_cancelled_loses_nothing_and_leaves_nothing(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address, name="ann") as ann, ann.join("g") as group:
            events = aiter(group)
            assert isinstance(await anext(events), View)
            for _ in range(50):
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            assert not ann._link.dialogue.streams.groups["g"].wakes
            await group.send(b"x")
            assert (await next_message(group)).payload == b"x"

    asyncio.run(main())


def test_a_joining_that_is_cancelled_is_undone(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address) as ann:
            joining = asyncio.ensure_future(ann.join("g"))
            await asyncio.sleep(0)
            joining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await joining
            await (await ann.send("elsewhere", b"")).ordered()
            assert await ann.groups() == {}

    asyncio.run(main())


def test_who_has_cancelled_a_joining_can_join_at_once(server: Server) -> None:
    async def main() -> None:
        async with evensong.connect(server.address) as ann, asyncio.timeout(PATIENCE_S):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await ann.join("g")
            async with ann.join("g") as group:
                assert isinstance(await anext(aiter(group)), View)

    asyncio.run(main())


def test_leaving_does_not_wait_for_a_daemon_that_does_not_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evensong.client.connection, "CLOSE_S", 0.1)

    async def main() -> None:
        async with evensong.connect(server.address) as ann, asyncio.timeout(PATIENCE_S):
            async with ann.join("g"):
                server.freeze()
            server.thaw()
            async with ann.join("g") as group:
                assert isinstance(await anext(aiter(group)), View)

    asyncio.run(main())


def test_a_group_that_was_not_read_can_be_left(tmp_path: Path) -> None:
    async def main() -> None:
        with serving(tmp_path, window=10_000) as server:
            async with asyncio.timeout(PATIENCE_S):
                async with evensong.connect(server.address) as ann, ann.join("g") as group:
                    for _ in range(50):
                        await group.send(bytes(1_000))

    asyncio.run(main())
    assert list(tmp_path.iterdir()) != [tmp_path]


def test_state_reaches_a_program_that_joins(server: Server) -> None:
    class Sum:
        def __init__(self) -> None:
            self.total = 0

        def snapshot(self) -> bytes:
            return b"%d" % self.total

        def restore(self, snapshot: bytes) -> None:
            self.total = int(snapshot)

        def merge(self, snapshots: list[bytes]) -> None:
            self.total = sum(map(int, snapshots))

    async def keep(group: Group, replica: Sum, enough: int) -> None:
        async for event in group:
            if isinstance(event, Message):
                replica.total += int(event.payload)
            if replica.total == enough:
                return

    async def main() -> None:
        first, second = Sum(), Sum()
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(server.address) as ann,
            ann.join("sum", state=first) as mine,
            evensong.connect(server.address) as bob,
        ):
            await ann.send_many("sum", [b"1"] * 10)
            await keep(mine, first, 10)
            async with bob.join("sum", state=second) as theirs:
                await ann.send_many("sum", [b"1"] * 10)
                await asyncio.gather(keep(mine, first, 20), keep(theirs, second, 20))
        assert first.total == second.total == 20

    asyncio.run(main())


def test_bad_requests_are_refused_before_anything_is_sent(server: Server) -> None:
    async def main() -> None:
        with pytest.raises(BadAddress):
            evensong.connect("http://localhost")
        for name in ("a#b", "x" * 33, 5):
            with pytest.raises(
                BadName, match=f"{name!r}: a name is 1 to 32 bytes of text without #"
            ):
                await evensong.connect(server.address, name=name)  # type: ignore[arg-type]
        async with evensong.connect(server.path.parent) as es:
            for to in ("", [], ["ok", "#no"]):
                with pytest.raises(BadName):
                    await es.send(to, b"")
                with pytest.raises(BadName):
                    await es.send_many(to, [b""])
            with pytest.raises(TooLarge):
                await es.send("g", bytes(es.message_max + 1))
            with pytest.raises(TooLarge):
                await es.send_many("g", [b"", bytes(es.message_max + 1)])
            with pytest.raises(Refused):
                await es.send_many("g", [])
            with pytest.raises(Refused):
                es.join("g", policy="mine")  # type: ignore[arg-type]
            with pytest.raises(Refused, match="no method snapshot"):
                es.join("g", state=object())  # type: ignore[arg-type]
            with pytest.raises(Refused, match=r"Service\.SAFE, not 'safe'"):
                await es.send("g", b"", service="safe")  # type: ignore[arg-type]
            with pytest.raises(Refused, match="service"):
                await es.send_many("g", [b""], service="safe")  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                await es.send("g", "text")  # type: ignore[arg-type]
            assert not es.is_slow

    asyncio.run(main())


@pytest.mark.parametrize(
    "module",
    [
        evensong.client.address,
        evensong.client.connection,
        evensong.client.message,
        evensong.client.packing,
    ],
    ids=lambda module: module.__name__,
)
def test_examples_in_docstrings_run(module: object, server: Server) -> None:
    names = {"evensong": evensong, "address": server.address, "View": View, "Message": Message}
    result = doctest.testmod(module, extraglobs=names)  # type: ignore[arg-type]
    assert result.attempted
    assert not result.failed


def test_what_a_daemon_said_last_is_heard_though_writing_failed_first() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        here.setblocking(False)
        link = Link(Dialogue("ann"), here)
        member = MemberId(1, 1, 1, "ann")
        there.send(wire.encode_welcome(1, member, 1_000, 10_000, 10_000))
        await link.answered(link.dialogue.welcome)
        waiting = asyncio.ensure_future(link.answered(link.dialogue.join("g", None, "merge")))
        await asyncio.sleep(0)
        there.send(wire.encode_farewell(0, Why.SLOW, "reads nothing"))
        there.close()
        link.dialogue.send("g", b"x", 0)
        link.flush_soon()
        with pytest.raises(ConnectionLost, match="reads nothing"):
            await waiting
        link.abort()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["asyncio", "sync", "command"])
def test_a_daemon_that_does_not_answer_is_not_waited_for_without_limit(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(evensong.client.connection, "WELCOME_S", 0.05)
    monkeypatch.setattr(evensong.client.blocking, "WELCOME_S", 0.05)
    path = str(tmp_path / "client.sock")

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await evensong.connect(path)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as suspended:
        suspended.bind(path)
        suspended.listen()
        if kind == "command":
            assert evensong.cli.main.main(["groups", path]) == 3
            assert "the daemon does not answer" in capsys.readouterr().err
        elif kind == "sync":
            with pytest.raises(Unreachable, match="the daemon does not answer"):
                evensong.sync.connect(path)
        else:
            with pytest.raises(Unreachable, match="the daemon does not answer"):
                asyncio.run(main())
