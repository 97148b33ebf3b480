"""A link to a daemon that says things which no honest one does, or goes; and what is left then."""

import asyncio
import copy
import pickle
import socket
from pathlib import Path
from threading import Thread

import pytest

import evensong
from evensong import ConnectionLost, Message, Unreachable
from evensong.client.dialogue import Dialogue
from evensong.client.link import Link
from evensong.client.message import Delivery
from evensong.core.groups.events import Destination, MemberId, OrderId
from evensong.core.groups.frame import encode_whole
from evensong.core.groups.limits import COPIED_MAX
from evensong.core.ids import RingId
from evensong.ipc import wire
from evensong.ipc.frames import Why
from evensong.ipc.splitter import HEAD

ME = MemberId(1, 1, 1, "ann")
RING = RingId(4, 1)


def delivered(number: int, payloads: list[bytes]) -> bytes:
    frame = encode_whole(2, number, 0, 0, payloads)
    return b"".join(wire.encode_deliver(0, OrderId(RING, number, 0), RING, False, frame))


def welcome() -> bytes:
    known = wire.encode_destination(0, Destination(MemberId(2, 1, 2, "bob"), (str(ME),)))
    return wire.encode_welcome(1, ME, 60_000, 100_000, 100_000) + known


async def linked() -> tuple[Link, socket.socket]:
    here, there = socket.socketpair()
    here.setblocking(False)
    link = Link(Dialogue("ann"), here)
    there.send(welcome())
    await link.answered(link.dialogue.welcome)
    link.dialogue.streams.claim(link.dialogue.streams.everything)
    return link, there


class Failing(Exception):
    """Something that is our own fault."""


def test_nothing_comes_behind_what_could_not_be_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Delivery.__init__

    def fail(self: Delivery, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        if self.first_no == 2:
            raise Failing

    monkeypatch.setattr(Delivery, "__init__", fail)
    seen: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: seen.append(context.get("exception"))
        )
        link, there = await linked()
        there.send(b"".join(delivered(number, [b"x"]) for number in (1, 2, 3)))
        async with asyncio.timeout(30):
            await link.until(link.dialogue.streams.everything.wakes)
        assert isinstance(link.dialogue.ended, ConnectionLost)
        assert "Failing" in str(link.dialogue.ended)
        assert len(link.dialogue.streams.everything.take()) == 1
        with pytest.raises(OSError, match="Broken pipe"):
            there.send(b"more")
        there.close()

    asyncio.run(main())
    assert [type(one) for one in seen] == [Failing]


def test_a_link_keeps_nothing_of_what_comes_behind_a_malformed_frame() -> None:
    dialogue = Dialogue("ann")
    dialogue.feed(welcome())
    head = HEAD.pack(2**32 - 1, 131, 0)
    dialogue.feed(head[:3])
    dialogue.feed(head[3:])
    assert isinstance(dialogue.ended, ConnectionLost)
    before = dialogue._splitter.waiting()
    dialogue.feed(bytes(100_000))
    assert dialogue._splitter.waiting() == before < 100


def test_who_is_turned_away_leaves_no_socket_behind(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "client.sock"))
        listening.listen()
        accepted: list[socket.socket] = []

        def turn_away() -> None:
            accepted.append(listening.accept()[0])
            accepted[0].send(wire.encode_farewell(0, Why.NOT_ALLOWED, "not you"))

        thread = Thread(target=turn_away)
        thread.start()

        async def main() -> None:
            with pytest.raises(Unreachable, match="not you"):
                await evensong.connect(tmp_path)

        asyncio.run(main())
        thread.join()
        with accepted[0] as there:
            there.settimeout(30)
            while there.recv(1_000):
                pass  # what it said; then it has hung up


@pytest.mark.parametrize("size", [5, COPIED_MAX])
def test_messages_can_be_handed_to_other_processes(size: int) -> None:
    dialogue = Dialogue("ann")
    dialogue.feed(welcome())
    dialogue.streams.claim(dialogue.streams.everything)
    dialogue.feed(delivered(7, [b"x" * size, b"y"]))
    first, second = dialogue.streams.everything.take()
    for copied in (pickle.loads(pickle.dumps(second)), copy.deepcopy(second)):
        assert isinstance(first, Message)
        assert isinstance(second, Message)
        assert isinstance(copied, Message)
        assert (copied.payload, copied.order, copied.id) == (b"y", second.order, second.id)
        assert copied._delivery.content == second._delivery.content
