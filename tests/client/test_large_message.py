"""A message of 16 MiB among five daemons, of which one is killed while it is under way."""

import asyncio
import hashlib
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

import evensong
from evensong import Connection, MessageId, OrderId, OutcomeUnknown, Receipt, TooLarge
from tests.client.company import ROUND, Company, Member, becomes_of, company
from tests.daemon.local import LocalCluster
from tests.daemon.test_sessions import clients_of

SIZE = 16 * 2**20
LARGE = Random(16).randbytes(SIZE)
CARRIER = 1  # the daemon that has it to send
EVERYBODY = (1, 2, 3, 4, 5)
POLL_S = 0.002
SENT_MAX = 20  # large messages, of which one is caught under way


def left_to_send(cluster: LocalCluster) -> int:
    """Return how many bytes the carrier's daemon has yet to put on the ring for it."""
    sessions = clients_of(cluster, CARRIER)["sessions"]
    assert isinstance(sessions, list)
    (left,) = [one["to_send"] for one in sessions if one["user"] == "carrier"]
    assert isinstance(left, int)
    return left


async def until_left(cluster: LocalCluster, left_max: int) -> None:
    """Wait until the daemon has had all of it, and not much of it is left."""
    has_begun = False
    while True:
        left = left_to_send(cluster)
        has_begun = has_begun or left > 0
        if has_begun and left <= left_max:
            return
        await asyncio.sleep(POLL_S)


async def check_carried(together: Company, left_max: int) -> None:
    """Send it, kill its daemon when no more than so much is left, and see what all have heard."""
    cluster = together.cluster
    carrier = await evensong.connect(cluster.state(CARRIER), name="carrier")
    receipt = await carrier.send("g", LARGE)
    await until_left(cluster, left_max)
    cluster.kill(CARRIER)
    end = await becomes_of(receipt)
    members = await all_heard_all(together, CARRIER)
    await carrier.close()
    found = check_one_order(members)
    assert len(found) <= 1
    assert isinstance(end, OutcomeUnknown) or found == [end]


async def check_carried_on(together: Company, victim: int) -> None:
    """Kill a bystander in the midst of it, and see that it and what others say are carried on."""
    carrier = await evensong.connect(together.cluster.state(CARRIER), name="carrier")
    sent, receipt, said = await caught_under_way(together, carrier, victim)
    together.cluster.kill(victim)
    end = await becomes_of(receipt)
    members = await all_heard_all(together, victim)
    await carrier.close()
    assert isinstance(end, OrderId)
    found = check_one_order(members)
    assert (len(found), found[-1]) == (sent, end)
    for member in members:
        check_others_went_on(member, end, said)
        view = await member.until_view(one.node for one in members)
        assert all(one.order < end for one in member.heard[: view.after])


async def caught_under_way(
    together: Company, carrier: Connection, victim: int
) -> tuple[int, Receipt, dict[str, int]]:
    """Send it, and stop a daemon, so that no token goes round, while a good part of it is left.

    One that is through before the daemon stops is followed by another. Return how many were sent,
    the last one's receipt, and how much each had said when a quarter of it was on its way.
    """
    cluster = together.cluster
    for sent in range(1, SENT_MAX + 1):
        receipt = await carrier.send("g", LARGE)
        await until_left(cluster, SIZE * 3 // 4)
        said = together.said()
        await together.members[CARRIER].until(partial(all_said_more, together, said))
        cluster.signal(victim, signal.SIGSTOP)
        if left_to_send(cluster) > SIZE // 4:
            return sent, receipt, said
        cluster.signal(victim, signal.SIGCONT)
        await receipt.ordered()
    pytest.fail(f"{SENT_MAX} large messages went through before others had said anything")


def all_said_more(together: Company, said: dict[str, int]) -> bool:
    """Whether each had a round of messages ordered which it had not begun before."""
    return all(together.said()[user] >= number + 2 * ROUND for user, number in said.items())


async def all_heard_all(together: Company, victim: int) -> list[Member]:
    """Wait until those who are left are a view, and have heard each other's last word."""
    survivors = [node for node in EVERYBODY if node != victim]
    for node in survivors:
        await together.members[node].until_view(survivors)
    return await together.fence(survivors)


def check_one_order(members: list[Member]) -> list[OrderId]:
    """See that all heard the same, in one order, and large ones whole; return these."""
    streams = [member.stream() for member in members]
    assert all(stream == streams[0] for stream in streams)
    orders = [order for order, _, _ in streams[0]]
    assert orders == sorted(set(orders))
    large = [(order, digest) for order, user, digest in streams[0] if user == "carrier"]
    assert all(digest == hashlib.sha256(LARGE).digest() for _, digest in large)
    return [order for order, _ in large]


def check_others_went_on(member: Member, large: OrderId, said: dict[str, int]) -> None:
    """See that something which each said while it was under way was ordered before it."""
    before = [one for one in member.heard if one.order < large]
    for user, number in said.items():
        assert number < max(one.number() for one in before if one.user == user)


def run_company(tmp_path: Path, check: Callable[[Company], Awaitable[None]]) -> None:
    """Let one at each of five daemons listen and talk, and check something meanwhile."""

    async def main(cluster: LocalCluster) -> None:
        async with company(cluster, "g") as together:
            for node in EVERYBODY:
                await together.add(node)
            together.let_talk(EVERYBODY)
            await check(together)

    with LocalCluster(tmp_path, len(EVERYBODY)) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


@pytest.mark.parametrize(
    "left_max",
    [pytest.param(SIZE // 2, id="halfway"), pytest.param(2**17, id="at the end")],
)
def test_a_large_message_whose_daemon_dies_is_delivered_whole_or_not_at_all(
    tmp_path: Path, left_max: int
) -> None:
    run_company(tmp_path, lambda together: check_carried(together, left_max))


def test_a_large_message_is_carried_on_when_a_bystander_dies(tmp_path: Path) -> None:
    run_company(tmp_path, lambda together: check_carried_on(together, victim=3))


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
