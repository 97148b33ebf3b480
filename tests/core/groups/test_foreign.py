"""Packets that are not of groups: they share the way, the count and nothing else."""

from random import Random

import pytest

from evensong.core.effects import Deliver, Packet, Service
from evensong.core.groups.frame import encode_whole
from evensong.core.groups.layer import Groups, State
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import FOREIGN, VERSION_AT
from evensong.core.ids import Configuration, RingId
from evensong.core.node import Node
from evensong.core.stable import FIRST_START
from evensong.core.totem.frames import RegularMessage
from evensong.core.totem.parameters import PROFILES
from evensong.core.unit import Origin, UnitId, decode_unit, encode_unit

ALONE = RingId(4, 1)
MET = RingId(8, 1)


class Chatter:
    """A source with so many packets."""

    def __init__(self, count: int) -> None:
        self.count = count

    def backlog(self) -> int:
        return self.count

    def pull(self, packets_max: int, origin: Origin) -> list[Packet]:
        taken = min(packets_max, self.count)
        self.count -= taken
        return [Packet(Service.AGREED, origin.unit(FOREIGN + b"x")) for _ in range(taken)]


def node_with(foreign: Chatter, messages: int) -> Node:
    """Return a node that has not begun, with messages of a session that fill a packet each."""
    limits = Limits(payload_max=1_000)
    node = Node(1, FIRST_START, 7, PROFILES["lan"], Random(0), limits, (1,), foreign)
    session = node.groups.open_session("anna")
    node.groups.define_set(session, 0, ["g"])
    for number in range(messages):
        node.groups.send(session, encode_whole(session, number, 0, 0, [bytes(900)]))
    return node


@pytest.mark.parametrize(
    ("foreign", "messages", "pulled"), [(100, 100, 5), (2, 100, 2), (100, 0, 10), (0, 100, 0)]
)
def test_foreign_packets_leave_half_of_a_visit_to_the_groups(
    foreign: int, messages: int, pulled: int
) -> None:
    node = node_with(Chatter(foreign), messages)
    assert node.backlog() >= foreign + messages
    packets = node.pull(10)
    assert len(packets) == 10
    units = [decode_unit(packet.payload) for packet in packets]
    assert units == [UnitId(1, 7, number) for number in range(1, 11)]
    assert sum(packet.payload.startswith(FOREIGN, 22) for packet in packets) == pulled


def test_foreign_packets_are_neither_held_back_nor_malformed() -> None:
    groups = Groups(1, 7, Limits(), (1, 2))
    for conf_id, members in ((ALONE, (1,)), (MET, (1,)), (MET, (1, 2))):
        is_transitional = conf_id == MET and members == (1,)
        groups.on_install(
            Configuration(conf_id, ALONE, members, transitional=is_transitional, cause="")
        )
    assert groups.state is State.EXCHANGING
    payload = encode_unit(UnitId(2, 9, 1), FOREIGN + b"whatever")
    message = RegularMessage(2, MET, 1, Service.AGREED, 0, 0, payload)
    groups.on_deliver(Deliver(MET, [message], 0, after_gap=False))
    assert groups.held_packets() == 0
    assert groups.drops == {}


def test_an_engine_that_pulls_one_at_a_time_gets_of_either_in_turn() -> None:
    node = node_with(Chatter(100), 100)
    packets = [packet for _ in range(10) for packet in node.pull(1)]
    assert len(packets) == 10
    is_foreign = [packet.payload.startswith(FOREIGN, VERSION_AT) for packet in packets]
    assert is_foreign.count(True) == 5
