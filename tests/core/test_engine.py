from random import Random

import pytest

from evensong.core import engine
from evensong.core.effects import Deliver, Install
from evensong.core.engine import ENGINES, TRANSIS, make_engine, name_of, profile, wrapping
from evensong.core.groups.events import Delivered, Receipt, ViewChange
from evensong.core.groups.frame import encode_whole
from evensong.core.groups.limits import Limits
from evensong.core.node import Node
from evensong.core.stable import FIRST_START
from evensong.core.totem.ring import SingleRing
from evensong.core.transis.lansis import Lansis
from evensong.sim.workload import Queue

SECOND_US = 1_000_000
HEARD = (ViewChange, Receipt, Delivered)


def test_parameters_say_which_engine_it_is() -> None:
    made = [
        make_engine(1, FIRST_START, 1, profile(name, "lan", 3), Random(0), Queue(1, 1))
        for name in ENGINES
    ]
    assert [type(one) for one in made] == [SingleRing, Lansis]
    assert [name_of(one.machine.parameters) for one in made] == list(ENGINES)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("told", ["fast", "lan", "wan"])
@pytest.mark.parametrize("processors", [1, 3, 20])
def test_profiles_suit_small_and_large_clusters(name: str, told: str, processors: int) -> None:
    parameters = profile(name, told, processors)
    parameters.check(processors)
    assert parameters.messages_at_once() > 0
    assert parameters.patience() > 0
    assert parameters.agreement() > 0


def test_a_datagram_has_room_for_what_an_engine_says_besides() -> None:
    assert wrapping(profile(TRANSIS, "lan", 3), 2) < wrapping(profile(TRANSIS, "lan", 3), 3)
    room = wrapping(profile(TRANSIS, "lan", 50), 50)
    assert room == wrapping(profile(TRANSIS, "lan", 50), engine.ACKS_ROOM + 1)


@pytest.mark.parametrize("name", ENGINES)
def test_a_node_alone_serves_its_sessions_on_either_engine(name: str) -> None:
    node = Node(1, FIRST_START, 7, profile(name, "lan", 1), Random(0), Limits(), (1,))
    node.start(0)
    session = node.open_session("ann", 0, 1)
    node.join(session, "g", 0, 2)
    node.define_set(session, 0, ["g"], 0)
    node.send(session, encode_whole(session, 1, 0, 0, [b"credo"]), 0, 3)
    while node.deadline() < SECOND_US:  # a ring looks for others first
        node.expire(node.deadline())
    told = [type(event) for event in node.drain_events()]
    assert [one for one in told if one in HEARD] == [ViewChange, Receipt, Delivered]
    effects = node.drain()
    places = [(m.ring_id, m.seq) for e in effects if isinstance(e, Deliver) for m in e.messages()]
    assert places == sorted(set(places))
    kinds = [e.configuration.transitional for e in effects if isinstance(e, Install)]
    assert kinds == [False, True, False][: len(kinds)]
