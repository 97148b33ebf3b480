"""Nodes: groups above a real ring, driven by the simulator."""

import pytest

from evensong.core.groups.events import Delivered, Receipt, SafeUpTo, SessionId
from evensong.core.groups.frame import SAFE, encode_whole, messages_of
from evensong.core.groups.layer import State
from evensong.core.node import Node
from evensong.sim.faults import Partition
from evensong.sim.setup import Options, Setup
from evensong.sim.swarm import swarm
from tests.core.groups.simulated import Simulated, node_of


def settled(*nodes: int) -> Simulated:
    """Return nodes that have formed one ring."""
    simulated = Simulated(Setup(Options(nodes)), 0)
    assert simulated.world.run_until(simulated.is_settled, 2_000_000)
    return simulated


def node_at(simulated: Simulated, number: int) -> Node:
    return node_of(simulated.world.by_node[number])


def member(simulated: Simulated, number: int, group: str) -> SessionId:
    session = node_at(simulated, number).open_session("ann", 0, simulated.world.now)
    node_at(simulated, number).join(session, group, 0, simulated.world.now)
    tell(simulated, number)
    return session


def send(simulated: Simulated, number: int, session: SessionId, body: bytes, flags: int) -> None:
    node = node_at(simulated, number)
    sender = node.groups.sessions.open[session].member
    simulated.onlooker.facts.sent(sender, 1, ("g",), (body,), flags)
    node.define_set(session, 0, ["g"], 0)
    node.send(session, encode_whole(session, 1, 0, flags, [body]), 0, simulated.world.now)
    tell(simulated, number)


def tell(simulated: Simulated, number: int) -> None:
    simulated.world.tell(simulated.world.by_node[number], node_at(simulated, number))


def bodies(simulated: Simulated, number: int) -> list[bytes]:
    told = simulated.onlooker.watchers[number].told
    return [
        body for event in told if isinstance(event, Delivered) for body in messages_of(event.frame)
    ]


@pytest.mark.parametrize("flags", [0, SAFE])
def test_a_message_goes_from_a_session_to_the_members_at_all_nodes(flags: int) -> None:
    simulated = settled(1, 2, 3)
    sessions = {number: member(simulated, number, "g") for number in (1, 2, 3)}
    assert simulated.world.run_until(simulated.is_settled, simulated.world.now + 1_000_000)
    send(simulated, 2, sessions[2], b"credo", flags)
    assert simulated.world.run_until(simulated.is_settled, simulated.world.now + 1_000_000)
    assert [bodies(simulated, number) for number in (1, 2, 3)] == [[b"credo"]] * 3
    told = simulated.onlooker.watchers[2].told
    (receipt,) = [event for event in told if isinstance(event, Receipt)]
    lines = [event for event in told if isinstance(event, SafeUpTo)]
    assert receipt.order is not None
    assert lines[-1].ring_id == receipt.order.ring_id
    assert lines[-1].seq >= receipt.order.seq
    assert simulated.check_order() == []


def test_a_node_alone_sends_whatever_it_is_given_at_once() -> None:
    simulated = settled(1)
    session = member(simulated, 1, "g")
    send(simulated, 1, session, bytes(50_000), 0)
    assert bodies(simulated, 1) == [bytes(50_000)]
    assert node_at(simulated, 1).groups.queue.queued_bytes == 0


def test_a_message_cut_by_a_lost_neighbour_begins_again_in_the_same_call() -> None:
    """A ring of one is installed and sends within one call of the engine."""
    simulated = settled(1, 2)
    session = member(simulated, 1, "g")
    assert simulated.world.run_until(simulated.is_settled, simulated.world.now + 1_000_000)
    body = bytes(range(250)) * 2_000
    send(simulated, 1, session, body, 0)
    groups = node_at(simulated, 1).groups
    limit = simulated.world.now + 1_000_000
    assert simulated.world.run_until(lambda: bool(groups.assembly.unfinished), limit, 100)
    simulated.world.schedule(simulated.world.now, Partition(simulated.world.now, ((1,), (2,))))
    assert simulated.world.run_until(lambda: groups.configuration.members == (1,), limit)
    assert groups.state is State.REGULAR
    assert bodies(simulated, 1) == [body]
    assert groups.assembly.orphans == 0
    assert groups.drops == {}


def test_a_node_says_when_it_wants_to_be_called() -> None:
    simulated = settled(1, 2)
    node = node_at(simulated, 1)
    assert node.deadline() == node.engine.deadline()
    assert node.pairs() == node.engine.pairs()
    assert node.drain() == []


@pytest.mark.parametrize("seed", range(12))
def test_a_swarm_of_faults_breaks_no_promise_of_the_groups(seed: int) -> None:
    simulated = Simulated(swarm(seed), seed)
    simulated.run()
    assert simulated.check_order() == []
    assert simulated.onlooker.facts.relevant["G3"]
