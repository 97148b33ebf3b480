"""Whatever bytes come up from the ring or down from a session, the layer stands."""

from random import Random

import pytest

from evensong.core.effects import Deliver, Service
from evensong.core.groups.control import control_frame, encode_sets, encode_state, encode_wish
from evensong.core.groups.directory import Entry, GroupState
from evensong.core.groups.events import Error, MemberId, OrderId
from evensong.core.groups.exchange import encode_component
from evensong.core.groups.frame import FIRST, LAST, MIDDLE, Head, encode_frame, encode_whole
from evensong.core.groups.layer import Groups, State
from evensong.core.groups.packet import encode_packet
from evensong.core.ids import RingId
from evensong.core.totem.frames import RegularMessage
from evensong.core.unit import UnitId
from tests.core.groups.order import Daemon, Order

ROUNDS = 3_000


def frames(rng: Random) -> list[tuple[int, bytes]]:
    """Return some frames as an honest daemon could send them, each with its places."""
    joined = OrderId(RingId(rng.choice((4, 400)), 1), rng.randint(1, 9), 0)
    entry = Entry(joined, MemberId(rng.randint(1, 3), 1, rng.randint(1, 2), "eve"))
    component = rng.choice([(1,), (2,), (2, 3), (1, 2, 3)])
    state = encode_component(component, rng.randint(0, 99), [GroupState("g", (entry,))])
    session = rng.randint(0, 3)
    return [
        (2, encode_whole(session, 1, rng.randint(0, 1), rng.randint(0, 3), [b"a", b"bc"])),
        (0, encode_frame(Head(FIRST, 0, session, 1, 0, 0, 0), b"\0\0\0\6ab")),
        (0, encode_frame(Head(MIDDLE, 0, session, 1, 0, 0, 0), b"cd")),
        (1, encode_frame(Head(LAST, 0, session, 1, 0, 1, 0), b"ef")),
        (1, control_frame(session, encode_wish(rng.randint(1, 2), 0, "eve", "g"))),
        (1, control_frame(session, encode_wish(3, 0, "eve", ""))),
        (1, control_frame(session, encode_sets("eve", ("g", "h"), 400)[0], rng.randint(0, 1))),
        (1, control_frame(0, encode_state(state, 400)[0])),
    ]


def payload(rng: Random, sender: int) -> bytes:
    chosen = rng.choices(frames(rng), k=rng.randint(1, 4))
    places = sum(one for one, _ in chosen)
    whole = bytearray(encode_packet(UnitId(sender, 1, 1), places, [one for _, one in chosen]))
    for _ in range(rng.choice((0, 0, 1, 3))):
        whole[rng.randrange(len(whole))] = rng.randrange(256)
    return bytes(whole[: rng.choice((len(whole), len(whole), rng.randint(0, len(whole))))])


def beset(daemon: Daemon, rng: Random) -> None:
    """Hand over hostile packets in the regular, or the transitional, configuration."""
    groups = daemon.groups
    for seq in range(1_000, 1_000 + ROUNDS):
        sender = rng.randint(1, 3)
        ring_id = daemon.ring.ring_id
        message = RegularMessage(sender, ring_id, seq, Service.AGREED, 0, 0, payload(rng, sender))
        groups.on_deliver(Deliver(ring_id, [message], 0, after_gap=False))
    groups.drain()


def together(seed: int) -> tuple[Order, Daemon, Random]:
    order = Order(1, 2, 3)
    order.form((1, 2, 3))
    order.run()
    session = order[1].open("ann")
    order[1].join(session, "g")
    order.run()
    return order, order[1], Random(seed)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_packets_in_a_regular_configuration(seed: int) -> None:
    _, daemon, rng = together(seed)
    beset(daemon, rng)
    assert daemon.groups.state is State.REGULAR
    assert daemon.groups.drops


@pytest.mark.parametrize("seed", range(3))
def test_hostile_packets_during_an_exchange_and_after_it(seed: int) -> None:
    order, daemon, rng = together(seed)
    order.form((1,), (2, 3))
    order.form((1, 2, 3))
    assert daemon.groups.state is State.EXCHANGING
    beset(daemon, rng)
    assert daemon.groups.drops or daemon.groups.held_packets()


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_process_harms_nobody(seed: int) -> None:
    rng = Random(seed)
    groups = Groups(1, 1, Order(1).limits, (1,))
    session = groups.open_session("eve")
    groups.define_set(session, 0, ["g"])
    for number in range(ROUNDS):
        frame = bytearray(encode_whole(session, number, 0, rng.randint(0, 3), [b"ab", b"c"]))
        for _ in range(rng.randint(0, 3)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        groups.send(session, bytes(frame[: rng.randint(0, 2 * len(frame))]))
    errors = [event for event in groups.drain() if isinstance(event, Error)]
    assert errors
    packets = groups.queue.pull(1_000_000)
    assert packets
    assert groups.queue.queued_bytes == 0
