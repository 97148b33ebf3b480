"""A large state into a group under load, and the donor's daemon is killed halfway."""

import asyncio
import hashlib
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from evensong import Message
from evensong.core.ids import ProcessorId
from evensong.sim.history import History
from evensong.trace.changes import Change, changes
from tests.client.company import Company, Member, company
from tests.client.tap import Passage, Tap, tapped
from tests.daemon.local import LocalCluster

MIB = 2**20
AHEAD = 6 * MIB  # no donor is so far ahead of what the joiner has read
DONOR, NEXT, OTHER, JOINER = 1, 2, 3, 4
SURVIVORS = (NEXT, OTHER, JOINER)
STEP = 1_000_003  # from cell to cell that messages change


class Board:
    """A replica of many bytes, some of which every message changes."""

    def __init__(self) -> None:
        self.cells = bytearray(64)
        self.applied = 0
        self.digests: list[tuple[int, str]] = []  # of the whole, where somebody says its last word
        self.asked: list[str] = []

    def apply(self, message: Message) -> None:
        if message.payload.startswith(b"grow "):
            size = int(message.payload[5:])
            self.cells = bytearray(Random(size).randbytes(size))
        at = self.applied * STEP % (len(self.cells) - len(message.payload))
        self.cells[at : at + len(message.payload)] = message.payload
        self.applied += 1
        if message.payload == b"last":
            self.digests.append((self.applied, hashlib.sha256(self.cells).hexdigest()))

    def snapshot(self) -> bytes:
        self.asked.append("snapshot")
        return self.applied.to_bytes(8) + self.cells

    def restore(self, snapshot: bytes) -> None:
        self.asked.append("restore")
        self.applied = int.from_bytes(snapshot[:8])
        self.cells = bytearray(memoryview(snapshot)[8:])

    def merge(self, snapshots: list[bytes]) -> None:
        raise AssertionError(f"{len(snapshots)} sides, and there was only one")


class Transfer:
    """The whole scene: who is there, and what was seen of it."""

    def __init__(self, together: Company, size: int) -> None:
        self.together = together
        self.boards = {node: Board() for node in together.cluster.nodes}
        self.size = size
        self.kill_at = min(size // 2, size - AHEAD)
        self.killed_us = 0

    async def join(self, node: ProcessorId, address: str = "") -> Member:
        board = self.boards[node]
        return await self.together.add(node, address=address, state=board, apply=board.apply)

    def on_piece(self, passage: Passage) -> None:
        """Kill the donor's daemon once so much has come from it."""
        if not self.killed_us and passage.passed >= self.kill_at:
            assert passage.donor == DONOR
            self.killed_us = time.monotonic_ns() // 1_000
            self.together.cluster.kill(DONOR)

    async def perform(self) -> list[Member]:
        """Let it happen; return those who are left when all of them have heard all."""
        begin = b"grow %d" % self.size  # so that those who are there do not need a transfer too
        first = [await self.join(node) for node in (DONOR, NEXT, OTHER)]
        await first[0].group.send(begin)
        for member in first:
            await member.until_heard(f"at{DONOR}", begin)
        for board in self.boards.values():
            board.asked.clear()
        self.together.let_talk((DONOR, NEXT, OTHER))
        async with tapped(self.together.cluster.state(JOINER), self.on_piece) as tap:
            joiner = await self.join(JOINER, tap.address)
            await joiner.until(lambda: bool(joiner.heard))
            members = await self.together.fence(SURVIVORS)
            await joiner.es.close()
        check_passages(tap)
        return members


def check_passages(tap: Tap) -> None:
    """See that the kill came after the first piece and before the last, and another went on."""
    first, second = tap.passages.values()
    assert (first.donor, second.donor) == (DONOR, NEXT)
    assert 0 < first.passed < first.size
    assert second.passed == second.size


def change_since(cluster: LocalCluster, killed_us: int) -> Change:
    """Return how the ring of those who are left came about, as their traces tell it."""
    history = History()
    for one in cluster.lives():
        history.lives[one.life.node, one.life.incarnation] = one.life
    (found,) = [one for one in changes(history) if one.installed_us > killed_us]
    assert found.conf.members == SURVIVORS
    return found


def longest_gap_us(member: Member, joiner: Member) -> int:
    """Return how long a member heard nothing, between the joining and the joiner's first message.

    It talks all the while, and hears itself.
    """
    (begins,) = [
        seen.at_us for seen in member.views if any(one.daemon == JOINER for one in seen.view.joined)
    ]
    hours = [one.at_us for one in member.heard if begins <= one.at_us <= joiner.heard[0].at_us]
    return max(after - before for before, after in pairwise(hours))


def test_a_donor_killed_halfway_is_replaced_and_nobody_waits(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    size = int(request.config.getoption("--state-mib")) * MIB

    async def main(cluster: LocalCluster) -> tuple[Transfer, list[Member]]:
        async with company(cluster, "board") as together:
            transfer = Transfer(together, size)
            return transfer, await transfer.perform()

    with LocalCluster(tmp_path, 4, extra='trace = "views"') as cluster:
        cluster.start()
        cluster.wait_for_ring()
        transfer, members = asyncio.run(main(cluster))
        change = change_since(cluster, transfer.killed_us)
    boards = transfer.boards
    assert boards[JOINER].asked == ["restore"]
    assert [boards[node].asked for node in (DONOR, NEXT, OTHER)] == [["snapshot"]] * 2 + [[]]
    assert len(boards[JOINER].digests) == len(SURVIVORS)
    assert boards[NEXT].digests == boards[OTHER].digests == boards[JOINER].digests
    following, other, joiner = (member.stream() for member in members)
    assert following == other
    assert joiner == following[-len(joiner) :]
    took_us = change.installed_us - transfer.killed_us
    for member in members[:2]:
        assert longest_gap_us(member, members[2]) < 2 * took_us
