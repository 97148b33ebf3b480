"""What programs ask of a message's delivery, and what they get, on daemons of both engines."""

import asyncio
from pathlib import Path

import pytest

import evensong
import evensong.sync
from evensong import Connection, Group, Message, NotOffered, Service
from evensong.client.consignment import flags_of
from evensong.client.flights import Flight
from evensong.core.engine import ENGINES, TRANSIS
from evensong.core.groups.events import MemberId, OrderId
from evensong.core.groups.frame import BASIC, CAUSAL, SAFE
from evensong.core.ids import RingId
from evensong.ipc import frames, wire
from evensong.sim.evs.groups import check_groups
from evensong.trace.judge import judge
from tests.daemon.local import LocalCluster

PATIENCE_S = 120.0  # how long something may take on a busy machine before the test fails
UNORDERED = (Service.BASIC, Service.FIFO, Service.CAUSAL)


def test_a_frame_says_what_its_program_asked_for() -> None:
    asked = {one: flags_of(one) for one in Service}
    assert asked == {
        Service.BASIC: BASIC,
        Service.FIFO: CAUSAL,
        Service.CAUSAL: CAUSAL,
        Service.AGREED: 0,
        Service.SAFE: SAFE,
    }


@pytest.mark.parametrize("other", ["safe", 2, None, True])
def test_what_is_no_service_is_not_offered(other: object) -> None:
    with pytest.raises(NotOffered, match="service is one of"):
        flags_of(other)


def test_what_has_no_place_is_told_so() -> None:
    order = OrderId(RingId(4, 1), 7, 2)
    for place in (order, None):
        receipt = frames.Receipt(5, 3, place, comes_back=True)
        assert wire.decode_receipt(wire.encode_receipt(*receipt)[9:]) == receipt
        told = (1, place, RingId(4, 1), True)
        encoded = b"".join(wire.encode_deliver(*told, b"frame"))
        assert wire.decode_deliver(encoded[9:]) == frames.Deliver(*told, False, b"frame")


def test_a_flight_without_a_place_has_come_and_nobody_tells_who_holds_it() -> None:
    flight = Flight(MemberId(1, 1, 1, "ann"), 1, 1, 10, is_safe=False)
    assert not flight.has_come(0)
    assert flight.held_by(0) is None
    flight.is_delivered = True
    assert flight.has_come(0)
    assert flight.order_of(0) is None
    with pytest.raises(NotOffered, match=r"message 1\.1\.1\.1 is not ordered"):
        flight.held_by(0)


async def messages(group: Group, count: int) -> list[Message]:
    """Read so many messages."""
    found: list[Message] = []
    async for event in group:
        if isinstance(event, Message):
            found.append(event)
            if len(found) == count:
                return found
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("engine", ENGINES)
def test_every_service_at_programs_of_two_daemons(tmp_path: Path, engine: str) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1), name="ann") as ann,
            evensong.connect(cluster.state(2), name="bob") as bob,
            ann.join("g") as mine,
            bob.join("g") as theirs,
            bob.join("h"),
        ):
            await one_of_each(ann, mine, theirs)
            await in_order(ann, mine, theirs)
            await large_and_to_several(ann, mine, theirs)

    async def one_of_each(ann: Connection, mine: Group, theirs: Group) -> None:
        for service in Service:
            receipt = await ann.send("g", service.value.encode(), service=service)
            place = await receipt.ordered()
            is_placed = engine != TRANSIS or service not in UNORDERED
            assert (place is not None) is is_placed
            if is_placed:
                assert (await receipt.safe()).members == (1, 2)
            else:
                with pytest.raises(NotOffered):
                    await receipt.safe()
            for group in (mine, theirs):
                (message,) = await messages(group, 1)
                assert message.payload == service.value.encode()
                assert message.order == place
                assert (message.place is None) is (place is None)
                assert not message.reduced
                wanted = service
                if service in UNORDERED and engine != TRANSIS:
                    wanted = Service.AGREED
                elif service is Service.FIFO:
                    wanted = Service.CAUSAL
                assert message.service is wanted

    async def in_order(ann: Connection, mine: Group, theirs: Group) -> None:
        """Whatever is not BASIC comes as it was sent; all comes once."""
        sent = [(b"%d" % number, [*Service][number % 5]) for number in range(500)]
        for payload, service in sent:
            await ann.send("g", payload, service=service)
        kept = [payload for payload, service in sent if service is not Service.BASIC]
        for group in (mine, theirs):
            heard = [one.payload for one in await messages(group, 500)]
            assert sorted(heard) == sorted(payload for payload, _ in sent)
            assert [one for one in heard if one in kept] == kept

    async def large_and_to_several(ann: Connection, mine: Group, theirs: Group) -> None:
        large = bytes(range(256)) * 1_024
        for service in UNORDERED:
            receipt = await ann.send(["g", "h"], large, service=service)
            await receipt.ordered()
            receipt = await ann.send_many("g", [b"%d" % n for n in range(3_000)], service=service)
            await receipt.ordered()
            for group in (mine, theirs):
                first, *rest = await messages(group, 3_001)
                assert (first.payload, first.groups) == (large, ("g", "h"))
                assert [int(one.payload) for one in rest] == [*range(3_000)]

    with LocalCluster(tmp_path, 2, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))
        cluster.wait_until_quiet(cluster.nodes)
        judgement = judge(cluster.lives())
        assert judgement.verdicts.holds, judgement.verdicts.explain()
        verdicts = check_groups(judgement.history)
        assert not verdicts.failed, verdicts.explain()


class Seen:
    """A state to which it is all one in which order messages come."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.twice: list[int] = []

    def add(self, message: Message) -> None:
        number = int(message.payload)
        if number in self.seen:
            self.twice.append(number)
        self.seen.add(number)

    def snapshot(self) -> bytes:
        return b" ".join(b"%d" % number for number in sorted(self.seen))

    def restore(self, snapshot: bytes) -> None:
        self.seen = set(map(int, snapshot.split()))

    def merge(self, snapshots: list[bytes]) -> None:
        self.seen = {int(number) for one in snapshots for number in one.split()}


@pytest.mark.parametrize("engine", ENGINES)
def test_who_joins_misses_no_causal_message_and_gets_none_twice(
    tmp_path: Path, engine: str
) -> None:
    total = 600

    async def keep(group: Group, replica: Seen) -> None:
        async for event in group:
            if isinstance(event, Message):
                replica.add(event)
            if len(replica.seen) == total:
                return

    async def talk(es: Connection, numbers: range) -> None:
        for number in numbers:
            service = Service.CAUSAL if number % 4 else Service.AGREED
            await es.send("seen", b"%d" % number, service=service)
            await asyncio.sleep(0)

    async def main(cluster: LocalCluster) -> None:
        states = [Seen(), Seen(), Seen()]
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1)) as ann,
            evensong.connect(cluster.state(2)) as bob,
            evensong.connect(cluster.state(3)) as cid,
            ann.join("seen", state=states[0]) as first,
        ):
            keeping = [asyncio.ensure_future(keep(first, states[0]))]
            talking = asyncio.gather(talk(ann, range(0, total, 2)), talk(cid, range(1, total, 2)))
            for es, state in ((bob, states[1]), (cid, states[2])):
                group = await es.join("seen", state=state)
                keeping.append(asyncio.ensure_future(keep(group, state)))
            await talking
            await asyncio.gather(*keeping)
        assert [state.seen for state in states] == [{*range(total)}] * 3
        assert [state.twice for state in states] == [[], [], []]

    with LocalCluster(tmp_path, 3, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def test_a_program_without_asyncio_is_told_the_same(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1, engine=TRANSIS) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with evensong.sync.connect(cluster.state(1)) as es, es.join("g") as group:
            receipt = es.send("g", b"credo", service=Service.CAUSAL)
            assert receipt.ordered(PATIENCE_S) is None
            with pytest.raises(NotOffered):
                receipt.safe(PATIENCE_S)
            assert es.send("g", b"amen").ordered(PATIENCE_S) is not None
            heard = [group.next_event(PATIENCE_S) for _ in range(3)]
            told = [(one.payload, one.order is None) for one in heard if isinstance(one, Message)]
            assert told == [(b"credo", True), (b"amen", False)]
