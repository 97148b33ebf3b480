"""A message of 16 MiB among five daemons, of which one is killed while it is under way."""

import asyncio
import hashlib
from pathlib import Path
from random import Random

import pytest

import evensong
from evensong import MessageId, OrderId, OutcomeUnknown, TooLarge
from tests.client.company import Company, Heard, Member, becomes_of, company
from tests.daemon.local import LocalCluster
from tests.daemon.test_sessions import clients_of

SIZE = 16 * 2**20
CARRIER = 1  # the daemon that has it to send
EVERYBODY = (1, 2, 3, 4, 5)


def left_to_send(cluster: LocalCluster) -> int:
    """Return how many bytes the carrier's daemon has yet to put on the ring for it."""
    sessions = clients_of(cluster, CARRIER)["sessions"]
    assert isinstance(sessions, list)
    (left,) = [one["to_send"] for one in sessions if one["user"] == "carrier"]
    assert isinstance(left, int)
    return left


async def under_way(cluster: LocalCluster, left_max: int) -> int:
    """Wait until the daemon has all of it, and not much of it is left; return how much is."""
    has_begun = False
    while True:
        left = left_to_send(cluster)
        has_begun = has_begun or left > 0
        if has_begun and left <= left_max:
            return left
        await asyncio.sleep(0.002)


async def check_carried(together: Company, victim: int, left_max: int) -> None:
    """Send it, kill a daemon when no more than so much is left, and see what all have heard."""
    cluster = together.cluster
    for node in EVERYBODY:
        await together.add(node)
    together.let_talk(EVERYBODY)
    payload = Random(16).randbytes(SIZE)
    carrier = await evensong.connect(cluster.state(CARRIER), name="carrier")
    receipt = await carrier.send("g", payload)
    await under_way(cluster, left_max)
    said = together.said()
    cluster.kill(victim)
    survivors = [node for node in EVERYBODY if node != victim]
    end = await becomes_of(receipt)
    for node in survivors:
        await together.members[node].until_view(survivors)
    members = await together.fence(survivors)
    await carrier.close()
    found = check_one_order(members)
    assert all(one.digest == hashlib.sha256(payload).digest() for one in found)
    if victim == CARRIER:
        assert len(found) <= 1
        assert isinstance(end, OutcomeUnknown) or [one.order for one in found] == [end]
    else:
        assert [one.order for one in found] == [end]
        for member in members:
            check_others_went_on(member.heard, found[0].order, survivors, said)
            view = await member.until_view(survivors)
            assert all(one.user != "carrier" for one in member.heard[: view.after])


def check_one_order(members: list[Member]) -> list[Heard]:
    """See that all heard the same, in one order; return what the carrier said of it."""
    streams = [member.stream() for member in members]
    assert all(stream == streams[0] for stream in streams)
    orders = [order for order, _, _ in streams[0]]
    assert orders == sorted(set(orders))
    return [one for one in members[0].heard if one.user == "carrier"]


def check_others_went_on(
    heard: list[Heard], large: OrderId, survivors: list[int], said: dict[str, int]
) -> None:
    """See that something which each said while it was under way was ordered before it."""
    before = [one for one in heard if one.order < large]
    for user in (f"at{node}" for node in survivors):
        assert said[user] < max(one.number() for one in before if one.user == user)


@pytest.mark.parametrize(
    ("victim", "left_max"),
    [
        pytest.param(3, SIZE * 3 // 4, id="a bystander"),
        pytest.param(CARRIER, SIZE // 2, id="its daemon, halfway"),
        pytest.param(CARRIER, 2**17, id="its daemon, at the end"),
    ],
)
def test_a_large_message_is_delivered_whole_or_not_at_all(
    tmp_path: Path, victim: int, left_max: int
) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with company(cluster, "g") as together:
            await check_carried(together, victim, left_max)

    with LocalCluster(tmp_path, len(EVERYBODY)) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def test_a_message_beyond_the_limit_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with company(cluster, "g") as together:
            ann = await together.add(1)
            before = await ann.group.send(b"before")
            for size in (SIZE + 1, 17 * 2**20):
                with pytest.raises(TooLarge) as refusal:
                    await ann.group.send(bytes(size))
                assert (refusal.value.size, refusal.value.size_max) == (size, SIZE)
                with pytest.raises(TooLarge):
                    await ann.group.send_many([b"small", bytes(size)])
            after = await ann.group.send(b"after")
            assert isinstance(before.id, MessageId)
            assert after.id == before.id._replace(number=before.id.number + 1)
            await ann.until_heard("at1", b"after")
            assert [one.opening for one in ann.heard] == [b"before", b"after"]
            assert clients_of(cluster, 1)["refused_requests"] == 0

    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))
