"""What is not ordered, where an engine has it: how it is packed, and when it is told."""

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from

from evensong.client.replica import NOTES
from evensong.core.effects import Deliver, Packet, Service
from evensong.core.groups.control import (
    AsOf,
    SetPart,
    control_frame,
    decode_control,
    encode_as_of,
    encode_sets,
    encode_wish,
)
from evensong.core.groups.events import (
    Cause,
    Delivered,
    Receipt,
    SessionEvent,
    SessionId,
    ViewChange,
)
from evensong.core.groups.frame import (
    BASIC,
    CAUSAL,
    CONTROL,
    FIRST,
    LAST,
    MIDDLE,
    SAFE,
    UNORDERED,
    WHOLE,
    decode_head,
    encode_whole,
    messages_of,
)
from evensong.core.groups.layer import EARLY_MAX, Groups
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import decode_packet, encode_packet
from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.core.transis.view import Placed
from evensong.core.unit import UnitId

LIMITS = Limits(payload_max=600)
ALONE = {1: RingId(2, 1), 2: RingId(2, 2)}
VIEW = RingId(4, 7)
JOIN = 1


class Pair:
    """Two daemons' layers in one view of a broadcast domain; a test decides what comes when."""

    def __init__(self, *, has_unordered: bool = True) -> None:
        self.layers = {
            node: Groups(node, 1, LIMITS, (1, 2), has_unordered=has_unordered) for node in (1, 2)
        }
        self.seq = 0
        for node, layer in self.layers.items():
            install(layer, ALONE[node], (node,))
            install(layer, RingId(3, node), (node,), transitional=True)
            install(layer, VIEW, (1, 2))
        self.run()

    def pull(self, node: ProcessorId) -> list[Packet]:
        return self.layers[node].queue.pull(1_000)

    def hand(self, to: ProcessorId, sender: ProcessorId, packet: Packet, seq: int) -> None:
        part = Placed(sender, VIEW, seq, packet.service, 0, packet.payload)
        self.layers[to].on_deliver(Deliver(VIEW, [part], 0, after_gap=False))

    def run(self) -> None:
        """Deliver everything everywhere, what is ordered in one order."""
        packets = [(node, packet) for node in (1, 2) for packet in self.pull(node)]
        while packets:
            for sender, packet in packets:
                is_loose = packet.service in (Service.CAUSAL, Service.BASIC)
                self.seq += not is_loose
                for to in (1, 2):
                    self.hand(to, sender, packet, 0 if is_loose else self.seq)
            packets = [(node, packet) for node in (1, 2) for packet in self.pull(node)]

    def member(self, node: ProcessorId, group: str) -> SessionId:
        layer = self.layers[node]
        session = layer.open_session("ann")
        layer.define_set(session, 0, (group,))
        layer.join(session, group)
        self.run()
        self.told(1), self.told(2)
        return session

    def send(
        self, node: ProcessorId, session: SessionId, number: int, body: bytes, flags: int
    ) -> None:
        self.layers[node].send(session, encode_whole(session, number, 0, flags, [body]))

    def told(self, node: ProcessorId) -> list[SessionEvent]:
        return self.layers[node].drain()


def install(
    layer: Groups,
    conf_id: RingId,
    members: tuple[ProcessorId, ...],
    *,
    transitional: bool = False,
) -> None:
    prev = layer.configuration.conf_id
    layer.on_install(Configuration(conf_id, prev, members, transitional=transitional, cause="test"))


def bodies(events: list[SessionEvent]) -> list[bytes]:
    return [
        body
        for event in events
        if isinstance(event, Delivered)
        for body in messages_of(event.frame)
    ]


def kinds(packet: Packet) -> list[object]:
    """Return what a packet holds: control messages by class, frames by kind."""
    found: list[object] = []
    for kind, _, _, _, _, _, length, at in decode_packet(packet.payload)[1]:
        content = packet.payload[at : at + length]
        found.append(type(decode_control(content)) if kind == CONTROL else kind)
    return found


# -- packing -----------------------------------------------------------------------------------


@given(services=lists(sampled_from([0, SAFE, CAUSAL, BASIC]), min_size=1, max_size=20))
def test_a_packet_is_of_one_service_and_the_lane_keeps_its_order(services: list[int]) -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    for number, flags in enumerate(services, 1):
        pair.send(1, ann, number, b"%d" % number, flags)
    ends: list[tuple[int, Service]] = []
    for packet in pair.pull(1):
        for kind, flags, _, first_no, *_ in decode_packet(packet.payload)[1]:
            if kind == WHOLE:
                ends.append((first_no, packet.service))
                wanted = {SAFE: Service.SAFE, CAUSAL: Service.CAUSAL, BASIC: Service.BASIC}
                is_company = flags == 0 and packet.service is Service.SAFE
                assert is_company or packet.service is wanted.get(flags, Service.AGREED)
    assert [number for number, _ in ends] == [*range(1, len(services) + 1)]


def test_a_basic_packet_brings_along_what_it_refers_to() -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"one", BASIC)
    pair.send(1, ann, 2, b"two", BASIC)
    (packet,) = pair.pull(1)
    assert packet.service is Service.BASIC
    assert kinds(packet) == [AsOf, SetPart, WHOLE, WHOLE]


def test_what_is_announced_in_a_causal_packet_holds_for_agreed_ones_behind_it() -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"one", CAUSAL)
    pair.send(1, ann, 2, b"two", 0)
    causal, agreed = pair.pull(1)
    assert (causal.service, kinds(causal)) == (Service.CAUSAL, [SetPart, WHOLE])
    assert (agreed.service, kinds(agreed)) == (Service.AGREED, [WHOLE])


@pytest.mark.parametrize("flags", [CAUSAL, BASIC])
def test_what_is_too_large_for_a_packet_is_causal_in_all_its_pieces(flags: int) -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, bytes(3_000), flags)
    packets = pair.pull(1)
    assert {packet.service for packet in packets} == {Service.CAUSAL}
    pieces = [kind for packet in packets for kind in kinds(packet) if kind is not SetPart]
    assert pieces == [FIRST, *[MIDDLE] * (len(pieces) - 2), LAST]
    for packet in packets:
        pair.hand(2, 1, packet, 0)
        pair.hand(1, 1, packet, 0)
    (receipt, delivered) = pair.told(1)
    assert isinstance(receipt, Receipt)
    assert receipt.order is None
    assert isinstance(delivered, Delivered)
    assert decode_head(delivered.frame).flags == flags


@pytest.mark.parametrize(
    ("has_unordered", "service"), [(True, Service.SAFE), (False, Service.AGREED)]
)
def test_joins_and_leaves_are_safe_where_something_is_not_ordered(
    has_unordered: bool, service: Service
) -> None:
    pair = Pair(has_unordered=has_unordered)
    layer = pair.layers[1]
    ann = layer.open_session("ann")
    layer.join(ann, "g")
    layer.leave(ann, "g")
    layer.close_session(ann)
    assert {packet.service for packet in pair.pull(1)} == {service}


@pytest.mark.parametrize(
    ("has_unordered", "service"), [(True, Service.SAFE), (False, Service.AGREED)]
)
def test_notes_are_safe_where_something_is_not_ordered(
    has_unordered: bool, service: Service
) -> None:
    """By them members agree where a state is taken, as by joins."""
    pair = Pair(has_unordered=has_unordered)
    layer = pair.layers[1]
    ann = layer.open_session("ann")
    layer.define_set(ann, 0, ["g", NOTES])
    layer.send(ann, encode_whole(ann, 1, 0, 0, [b"an offer"]))
    assert [packet.service for packet in pair.pull(1)][-1] is service


@pytest.mark.parametrize("flags", [CAUSAL, BASIC])
def test_a_ring_takes_less_than_agreed_for_agreed(flags: int) -> None:
    pair = Pair(has_unordered=False)
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"one", flags)
    pair.run()
    receipt, delivered = pair.told(1)
    assert isinstance(receipt, Receipt)
    assert isinstance(delivered, Delivered)
    assert receipt.order == delivered.order is not None
    assert not decode_head(delivered.frame).flags & UNORDERED


@pytest.mark.parametrize("flags", [SAFE | CAUSAL, SAFE | BASIC, CAUSAL | BASIC])
def test_a_frame_asks_for_one_service(flags: int) -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"one", flags)
    assert not pair.pull(1)


# -- delivering --------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [CAUSAL, BASIC])
def test_it_is_told_without_a_place_and_so_is_its_receipt(flags: int) -> None:
    pair = Pair()
    pair.member(2, "g")
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"one", flags)
    pair.run()
    receipt, mine = pair.told(1)
    (theirs,) = pair.told(2)
    assert isinstance(receipt, Receipt)
    assert (receipt.first_no, receipt.count, receipt.order) == (1, 1, None)
    for told in (mine, theirs):
        assert isinstance(told, Delivered)
        assert (told.order, told.reduced, told.conf_id) == (None, False, VIEW)


def test_a_basic_packet_may_overtake_the_announcement_of_its_destination() -> None:
    pair = Pair()
    pair.member(2, "g")
    ann = pair.member(1, "g")
    pair.send(1, ann, 1, b"agreed", 0)
    pair.send(1, ann, 2, b"basic", BASIC)
    agreed, basic = pair.pull(1)
    pair.hand(2, 1, basic, 0)
    assert bodies(pair.told(2)) == [b"basic"]
    pair.hand(2, 1, agreed, pair.seq + 1)
    assert bodies(pair.told(2)) == [b"agreed"]


def test_a_basic_packet_waits_for_the_view_in_which_it_was_sent() -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    layer = pair.layers[2]
    bob = layer.open_session("bob")
    layer.join(bob, "g")
    (wish,) = pair.pull(2)
    pair.seq += 1
    pair.hand(1, 2, wish, pair.seq)  # ann sees bob
    pair.send(1, ann, 1, b"welcome", BASIC)
    (basic,) = pair.pull(1)
    pair.told(2)
    pair.hand(2, 1, basic, 0)
    assert layer.held_packets() == 1
    assert pair.told(2) == []
    pair.hand(2, 2, wish, pair.seq)
    view, message = pair.told(2)
    assert isinstance(view, ViewChange)
    assert view.view.cause is Cause.JOIN
    assert bodies([message]) == [b"welcome"]
    assert layer.held_packets() == 0


def test_what_waits_for_a_change_that_never_comes_is_dropped_with_the_view() -> None:
    pair = Pair()
    layer = pair.layers[2]
    frames = [control_frame(0, encode_as_of(2**40))]
    payload = encode_packet(UnitId(1, 1, 99), 1, frames)
    for _ in range(EARLY_MAX + 3):
        pair.hand(2, 1, Packet(Service.BASIC, payload), 0)
    assert layer.held_packets() == EARLY_MAX
    assert layer.drops == {"basic: too early": 3}
    install(layer, RingId(5, 2), (2,), transitional=True)
    assert layer.held_packets() == 0
    assert layer.drops["basic: as of a change that never came"] == EARLY_MAX


def test_what_is_held_while_sides_meet_is_told_behind_the_view_whatever_it_is_as_of() -> None:
    pair = Pair()
    ann = pair.member(1, "g")
    bob = pair.member(2, "g")
    for node, layer in pair.layers.items():
        install(layer, RingId(5, node), (node,), transitional=True)
        install(layer, RingId(6, node), (node,))
    for node, layer in pair.layers.items():
        install(layer, RingId(7, node), (node,), transitional=True)
        install(layer, RingId(8, 1), (1, 2))
    pair.send(1, ann, 1, b"causal", CAUSAL)
    pair.send(1, ann, 2, b"basic", BASIC)
    state, causal, basic = pair.pull(1)
    (theirs,) = pair.pull(2)
    pair.told(2)
    for packet, seq in ((basic, 0), (state, 1), (causal, 0)):
        pair.hand(2, 1, packet, seq)
    assert pair.told(2) == []
    pair.hand(2, 2, theirs, 2)
    view, *messages = pair.told(2)
    assert isinstance(view, ViewChange)
    assert {one.session for one in view.view.members} == {ann, bob}
    assert bodies(messages) == [b"basic", b"causal"]


@pytest.mark.parametrize("service", [Service.CAUSAL, Service.BASIC])
def test_a_wish_without_a_place_is_dropped(service: Service) -> None:
    pair = Pair()
    wish = control_frame(5, encode_wish(JOIN, 1, "eve", "g"))
    as_of = control_frame(0, encode_as_of(0))
    frames = [as_of, wish] if service is Service.BASIC else [wish]
    payload = encode_packet(UnitId(1, 1, 99), len(frames), frames)
    pair.hand(2, 1, Packet(service, payload), 0)
    layer = pair.layers[2]
    assert not layer.directory.groups
    assert sum(layer.drops.values()) == 1


@given(
    junk=lists(binary(max_size=40), max_size=4),
    session=integers(0, 3),
    places=integers(1, 3),
)
def test_basic_packets_of_any_content_do_no_harm(
    junk: list[bytes], session: int, places: int
) -> None:
    pair = Pair()
    pair.member(2, "g")
    frames = [control_frame(0, encode_as_of(0))]
    frames += [control_frame(session, one) for one in junk]
    frames += [control_frame(session, one) for one in encode_sets("eve", ("g",), 100)]
    frames.append(encode_whole(session, 1, 0, BASIC, [b"x"] * places))
    payload = encode_packet(UnitId(1, 1, 99), len(frames) - 1 + places, frames)
    pair.hand(2, 1, Packet(Service.BASIC, payload), 0)
    told = pair.told(2)
    assert bodies(told) == [b"x"] * places or pair.layers[2].drops
