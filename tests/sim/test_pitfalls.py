"""The pitfalls that are about bytes, parameters and the order of effects; scenarios have the rest.

docs/protocols/pitfalls.md is the table of all of them.
"""

import re

import pytest

from evensong.core.effects import Deliver, Effect, Halt, Packet, Service, StateChange, Unicast
from evensong.core.ids import RingId
from evensong.core.stable import FIRST_START
from evensong.core.totem import wire
from evensong.core.totem.frames import ENCAP, Beacon, RegularMessage
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.errors import BadParameters, MalformedFrame
from evensong.sim.engines import TOTEM
from evensong.sim.faults import Crash
from evensong.sim.inject import strike
from evensong.sim.machine import Processor
from evensong.sim.setup import CORES, PARAMETERS, Options, Setup, derive
from evensong.sim.workload import Burst, Queue
from evensong.sim.world import World
from tests.core.totem.bench import ordered

RING = RingId(8, 1)


class Steps:
    """An observer that keeps every step's effects, with the state that it began in."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, list[Effect]]] = []
        self._effects: list[Effect] = []
        self._state = ""

    def began(self, processor: Processor) -> None:
        self._effects = []

    def ended(self, processor: Processor) -> None:
        self._effects = []

    def effect(self, processor: Processor, effect: Effect) -> None:
        self._effects.append(effect)

    def stepped(self, processor: Processor) -> None:
        self.steps.append((processor.state, self._effects))
        self._effects = []


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, list[Effect]]]:
    bursts = tuple(Burst(at, node, 3, safe=0.5) for at in (9_000, 12_000) for node in (1, 2, 3))
    watcher = Steps()
    world = World(Setup(Options((1, 2, 3)), (), bursts), TOTEM, None, watcher)
    world.run(12_300)
    strike(world, Crash(0, 3))
    assert world.run_until(world.is_quiet, 1_000_000)
    return watcher.steps


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"consensus": 4_000}, "consensus > 2 * join"),  # 4: shorter than Joins take
        ({"token_loss": 11_000}, "token_loss >= 4 * token_retransmit"),
        ({"rtr_max": 33}, "rtr_max <= 32"),  # 12: more than a token can carry
        ({"messages_max": 51}, "messages_max <= window_size"),  # 13
    ],
)
def test_parameters_that_cannot_work_are_refused(wrong: dict[str, int], rule: str) -> None:
    with pytest.raises(BadParameters, match=re.escape(rule)):
        PARAMETERS._replace(**wrong).check(3)


def test_the_longest_token_fits_in_a_datagram() -> None:  # 12
    longest = wire.TOKEN_FRAME.size + wire.RTR_MAX * wire.RTR.size
    assert longest <= Parameters().datagram_max
    assert Parameters().rtr_max <= wire.RTR_MAX


def test_one_id_in_two_places_stops_the_earlier_one() -> None:  # 10
    core = SingleRing(1, FIRST_START, 5, PARAMETERS, derive(0, CORES), Queue(1, 5))
    core.start(0)
    core.drain()
    core.receive(wire.encode_beacon(Beacon(RING, 1), 1, 4), 1_000)  # a late one of mine
    assert core.drain() == []
    core.receive(wire.encode_beacon(Beacon(RING, 1), 1, 6), 2_000)
    (halt,) = core.drain()
    assert isinstance(halt, Halt)
    assert "processor id 1 is in use" in halt.reason


def test_the_token_is_passed_on_before_anything_is_delivered(
    steps: list[tuple[str, list[Effect]]],
) -> None:  # 16
    both = 0
    for _, effects in steps:
        kinds = [type(effect) for effect in effects]
        if Unicast in kinds and Deliver in kinds:
            assert kinds.index(Unicast) < kinds.index(Deliver)
            both += 1
    assert both


def test_nothing_is_delivered_while_a_ring_forms(
    steps: list[tuple[str, list[Effect]]],
) -> None:  # 20
    installed = 0
    for state, effects in steps:
        if state != "operational":
            assert not any(isinstance(effect, Deliver) for effect in effects)
        for at, effect in enumerate(effects):
            if isinstance(effect, StateChange) and effect.state == "operational":
                assert not any(isinstance(before, Deliver) for before in effects[:at])
                installed += 1
    assert installed


def test_the_largest_message_can_be_exchanged() -> None:  # 17
    def carried(size: int) -> RegularMessage:
        old = RegularMessage(1, RING, 1, Service.SAFE, 0, 0, bytes(size))
        new = RegularMessage(2, RingId(12, 1), 1, Service.SAFE, ENCAP, 0, wire.encapsulate(old))
        outer = wire.decode_regular(wire.encode_regular(new, 0, 2, 1))
        return wire.decapsulate(outer.payload)

    largest = wire.PACKET_MAX
    assert len(carried(largest).payload) == largest
    with pytest.raises(MalformedFrame, match="regular: size"):
        carried(largest + 1)


def test_a_timestamp_travels_with_its_message() -> None:  # 21
    ring_of_one = SingleRing(1, FIRST_START, 5, PARAMETERS, derive(0, CORES), queue := Queue(1, 5))
    ring_of_one.start(0)
    ring_of_one.expire(PARAMETERS.consensus)
    queue.packets.append(Packet(Service.SAFE, b"credo", 77))
    ring_of_one.drain()
    ring_of_one.submit(PARAMETERS.consensus + 1)
    stamps = [one.timestamp for one in ordered(ring_of_one.drain())]
    assert stamps == [77]
