"""Sides of a partition write to a state of their own; when they meet, `merge` makes them one."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from evensong import Message
from evensong.core.engine import ENGINES
from evensong.core.ids import ProcessorId
from tests.client.company import Company, Member, company
from tests.daemon.local import LocalCluster

LEFT, RIGHT = (1, 2, 3), (4, 5)
EVERYBODY = LEFT + RIGHT


class Votes:
    """A replica: who voted, how often; it keeps what it was asked to merge."""

    def __init__(self) -> None:
        self.cast: dict[str, int] = {}
        self.merged: list[list[bytes]] = []

    def apply(self, message: Message) -> None:
        who = message.sender.user
        self.cast[who] = self.cast.get(who, 0) + 1

    def snapshot(self) -> bytes:
        return json.dumps(self.cast, sort_keys=True).encode()

    def restore(self, snapshot: bytes) -> None:
        self.cast = json.loads(snapshot)

    def merge(self, snapshots: list[bytes]) -> None:
        self.merged.append(snapshots)
        sides = [json.loads(snapshot) for snapshot in snapshots]
        everybody = sorted({who for side in sides for who in side})
        self.cast = {who: max(side.get(who, 0) for side in sides) for who in everybody}


def cut(cluster: LocalCluster, nodes: Sequence[ProcessorId], peers: Sequence[ProcessorId]) -> None:
    for node in nodes:
        cluster.ask(node, do="ignore", peers=list(peers))


async def vote(members: Sequence[Member], word: bytes, times: int) -> None:
    """Let each vote, and hear what all of them have voted."""
    for member in members:
        await member.group.send_many([b""] * (times - 1) + [word])
    for member in members:
        for other in members:
            await member.until_heard(other.name, word)


async def part_and_meet(together: Company, votes: dict[ProcessorId, Votes]) -> None:
    cluster = together.cluster
    for node in EVERYBODY:
        await together.add(node, state=votes[node], apply=votes[node].apply)
    members = together.members
    left, right = ([members[node] for node in side] for side in (LEFT, RIGHT))
    await vote([*left, *right], b"together", 10)
    assert all(one.cast == {f"at{node}": 10 for node in EVERYBODY} for one in votes.values())
    cut(cluster, LEFT, RIGHT)
    cut(cluster, RIGHT, LEFT)
    for node in EVERYBODY:
        await members[node].until_view(LEFT if node in LEFT else RIGHT)
    await vote(left, b"left", 100)
    await vote(right, b"right", 1_000)
    sides = [votes[1].snapshot(), votes[4].snapshot()]
    for node in EVERYBODY:
        assert votes[node].snapshot() == sides[node in RIGHT]
        assert votes[node].merged == []
    assert sides[0] != sides[1]
    seen = {node: len(members[node].views) for node in EVERYBODY}
    cut(cluster, EVERYBODY, ())
    for node in EVERYBODY:
        await members[node].until_view(EVERYBODY, seen[node])
    await vote([*left, *right], b"again", 1)
    for node in EVERYBODY:
        assert votes[node].merged == [sides]
        meeting = await members[node].until_view(EVERYBODY, seen[node])
        assert sorted(map(len, meeting.view.components)) == [len(RIGHT), len(LEFT)]


@pytest.mark.parametrize("engine", ENGINES)
def test_sides_that_meet_merge_their_states_into_one(tmp_path: Path, engine: str) -> None:
    votes = {node: Votes() for node in EVERYBODY}

    async def main(cluster: LocalCluster) -> None:
        async with company(cluster, "votes") as together:
            await part_and_meet(together, votes)

    with LocalCluster(tmp_path, len(EVERYBODY), engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))
    wanted = {f"at{node}": 111 if node in LEFT else 1_011 for node in EVERYBODY}
    assert [one.cast for one in votes.values()] == [wanted] * len(EVERYBODY)
