"""Every invariant fires on a state or an act planted to break it: a check must be able to fail."""

from collections.abc import Callable

import pytest

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Install,
    Service,
    StateChange,
    TokenVisit,
    Unicast,
)
from evensong.core.ids import Configuration, RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import RETX, Beacon, RegularMessage
from evensong.errors import InvariantBroken
from evensong.sim.check import machine_of
from tests.sim.stage import Stage


class Planted:
    """A sound ring of three, at whose processor 2 something is planted."""

    def __init__(self) -> None:
        self.stage = Stage(1, 2, 3)
        self.stage.form()
        self.stage.send(1, b"a", b"b", safe=True)
        self.stage.send(3, b"c", b"d")
        self.stage.run(4_000)
        self.invariants = self.stage.invariants
        self.invariants.check_everything()
        self.processor = self.stage.world.by_node[2]
        self.machine = machine_of(self.processor)
        self.ring = self.machine.ring
        self.ring_id = self.ring.ring_id
        self.summary = self.invariants.summary(self.ring_id)
        assert self.processor.configuration is not None
        self.conf: Configuration = self.processor.configuration
        self.progress = self.invariants.progress[2]
        self.next_seq = self.summary.seq_max + 1

    def message(self, seq: int, payload: bytes = b"x", flag: int = 0) -> Broadcast:
        said = RegularMessage(1, self.ring_id, seq, Service.AGREED, 0, 0, payload)
        return Broadcast(wire.encode_regular(said, flag, 2, 1))

    def deliver(self, seq: int, conf_id: RingId, service: Service = Service.AGREED) -> Deliver:
        message = RegularMessage(1, self.ring_id, seq, service, 0, 0, b"x" * 40)
        return Deliver(conf_id, [message], 0, after_gap=False)

    def does(self, *effects: object) -> None:
        for effect in effects:
            self.invariants.effect(self.processor, effect)  # type: ignore[arg-type]

    def steps(self) -> None:
        self.invariants.stepped(self.processor)


def two_tokens(planted: Planted) -> None:
    token = wire.decode_token(planted.summary.token)
    token.timestamp += 1
    planted.does(Unicast(3, wire.encode_token(token, 2, 1)))


def two_messages_of_one_seq(planted: Planted) -> None:
    planted.does(planted.message(1, b"another", RETX))


def another_message_in_a_buffer(planted: Planted) -> None:
    planted.ring.buffer.release(planted.ring.buffer.released)
    planted.stage.send(1, b"e")
    while not planted.ring.buffer.messages:
        planted.stage.run(20)
    seq = max(planted.ring.buffer.messages)
    said = RegularMessage(3, planted.ring_id, seq, Service.AGREED, 0, 0, b"forged")
    planted.ring.buffer.messages[seq] = said
    planted.invariants.check_everything()


def a_seq_left_out(planted: Planted) -> None:
    planted.does(planted.message(planted.next_seq + 1))


def a_token_that_knows_less(planted: Planted) -> None:
    token = wire.decode_token(planted.summary.token)
    token.token_seq += 1
    token.seq -= 1
    token.aru = 0
    planted.does(Unicast(3, wire.encode_token(token, 2, 1)))


def a_message_nobody_sent(planted: Planted) -> None:
    seq = planted.next_seq
    said = RegularMessage(3, planted.ring_id, seq, Service.AGREED, 0, 0, b"?")
    planted.ring.buffer.add(seq, said)
    planted.steps()


def a_visit_too_long(planted: Planted) -> None:
    planted.does(TokenVisit(planted.ring_id, 99, 9, 9, 18, 10, 8))


def a_count_that_is_not_the_rotations(planted: Planted) -> None:
    planted.does(TokenVisit(planted.ring_id, 99, 9, 9, 9, 3, 0))


def a_window_exceeded(planted: Planted) -> None:
    planted.summary.broadcast_last.update({1: 17, 2: 17, 3: 17})
    planted.does(TokenVisit(planted.ring_id, 99, 9, 9, 51, 17, 0))


def a_safe_line_beyond_my_own_aru(planted: Planted) -> None:
    planted.ring.my_safe = planted.ring.buffer.aru + 1
    planted.steps()


def a_safe_line_beyond_anothers_aru(planted: Planted) -> None:
    planted.summary.seq_max += 1
    said = RegularMessage(2, planted.ring_id, planted.next_seq, Service.AGREED, 0, 0, b"?")
    planted.ring.buffer.add(planted.next_seq, said)
    planted.ring.my_safe = planted.next_seq
    planted.steps()


def a_message_released_that_is_not_safe(planted: Planted) -> None:
    planted.summary.seq_max += 1
    said = RegularMessage(2, planted.ring_id, planted.next_seq, Service.AGREED, 0, 0, b"?")
    planted.ring.buffer.add(planted.next_seq, said)
    planted.ring.buffer.release(planted.next_seq)
    planted.steps()


def a_delivery_in_another_configuration(planted: Planted) -> None:
    planted.does(planted.deliver(planted.next_seq, RingId(4, 2)))


def a_delivery_that_leaves_one_out(planted: Planted) -> None:
    planted.does(planted.deliver(planted.next_seq + 1, planted.ring_id))


def a_safe_line_that_is_not_true(planted: Planted) -> None:
    told = planted.deliver(planted.next_seq, planted.ring_id)
    planted.does(Deliver(told.conf_id, told.parts, 999, after_gap=False))


def a_first_delivery_that_is_not_the_others(planted: Planted) -> None:
    planted.progress.seq = 0
    planted.summary.first_seq = planted.next_seq + 5
    planted.does(planted.deliver(planted.next_seq, planted.ring_id))


def a_delivery_beyond_the_aru(planted: Planted) -> None:
    planted.ring.high_delivered = planted.ring.buffer.aru + 1
    planted.steps()


def oneself_failed(planted: Planted) -> None:
    planted.machine.membership.fail_set = frozenset([2])
    planted.steps()


def one_failed_that_is_not_proposed(planted: Planted) -> None:
    planted.machine.membership.fail_set = frozenset([9])
    planted.steps()


def a_set_that_shrank(planted: Planted) -> None:
    planted.progress.after_install = False
    planted.machine.membership.proc_set = frozenset([1, 2])
    planted.steps()


def another_idea_of_the_members(planted: Planted) -> None:
    other = Configuration(planted.ring_id, RingId(6, 2), (1, 2), transitional=False, cause="")
    planted.does(Install(other))


def an_installation_before_the_commit_token_came_twice(planted: Planted) -> None:
    new = Configuration(RingId(12, 1), RingId(10, 1), (1, 2), transitional=False, cause="")
    planted.does(StateChange("commit", new.conf_id, "", 0), Install(new))


def a_safe_delivery_before_all_installed(planted: Planted) -> None:
    planted.summary.installed.discard(3)
    planted.does(planted.deliver(planted.next_seq, planted.ring_id, Service.SAFE))


def two_ideas_of_a_transitional_configuration(planted: Planted) -> None:
    for members in ((1, 2), (2, 3)):
        planted.does(
            Install(
                Configuration(RingId(10, 2), planted.ring_id, members, transitional=True, cause="")
            )
        )


def different_deliveries_on_one_passage(planted: Planted) -> None:
    trans = Configuration(RingId(10, 2), planted.ring_id, (2, 3), transitional=True, cause="")
    ring_id = RingId(12, 2)
    planted.invariants.passages[trans.conf_id, ring_id] = ((1, 1), (0, 0))
    for state in ("commit", "recovery"):
        for node in (2, 3):
            processor = planted.stage.world.by_node[node]
            planted.invariants.effect(processor, StateChange(state, ring_id, "", 0))
    new = Configuration(ring_id, trans.conf_id, (2, 3), transitional=False, cause="")
    planted.does(Install(trans), Install(new))


def a_ring_seq_above_the_ceiling(planted: Planted) -> None:
    sign = Beacon(RingId(5_000, 2), 1)
    planted.does(Broadcast(wire.encode_beacon(sign, 2, 1)))


def a_ring_seq_above_what_the_store_has(planted: Planted) -> None:
    planted.machine.my_ring_id = RingId(5_000, 2)
    planted.invariants.check_everything()


def a_promise_without_what_was_promised(planted: Planted) -> None:
    stage = planted.stage
    stage.world.network.part([[1, 2], [3]])
    assert stage.world.run_until_state(2, "recovery", stage.world.now + 100_000)
    recovery = planted.machine.recovery
    assert recovery is not None
    frozen = planted.invariants.summary(recovery.ring_id).frozen
    frozen[1] = (planted.ring_id, [(planted.next_seq, 1)])
    planted.machine.old.ending.received_flg = True
    planted.machine.old.ending.deliver_memb = frozenset([1, 2])
    planted.steps()


def a_promise_before_all_have_frozen(planted: Planted) -> None:
    stage = planted.stage
    stage.world.network.part([[1, 2], [3]])
    assert stage.world.run_until_state(2, "recovery", stage.world.now + 100_000)
    recovery = planted.machine.recovery
    assert recovery is not None
    planted.invariants.summary(recovery.ring_id).frozen.pop(1, None)
    planted.machine.old.ending.received_flg = True
    recovery.retrans_flg_count = 2
    planted.steps()


def a_join_timer_outside_gather(planted: Planted) -> None:
    planted.machine.timers.join.start(0)
    planted.steps()


def no_token_loss_timer(planted: Planted) -> None:
    planted.machine.timers.token_loss.stop()
    planted.steps()


def no_join_timer_in_gather(planted: Planted) -> None:
    stage = planted.stage
    stage.world.network.part([[1], [2], [3]])
    assert stage.world.run_until_state(2, "gather", stage.world.now + 100_000)
    planted.machine.timers.join.stop()
    planted.steps()


PLANTED = {
    "I1": [two_tokens],
    "I2": [two_messages_of_one_seq, another_message_in_a_buffer],
    "I3": [a_seq_left_out, a_token_that_knows_less, a_message_nobody_sent],
    "I4": [a_visit_too_long, a_count_that_is_not_the_rotations, a_window_exceeded],
    "I5": [
        a_safe_line_beyond_my_own_aru,
        a_safe_line_beyond_anothers_aru,
        a_safe_line_that_is_not_true,
    ],
    "I6": [a_message_released_that_is_not_safe],
    "I7": [
        a_delivery_in_another_configuration,
        a_delivery_that_leaves_one_out,
        a_delivery_beyond_the_aru,
        a_first_delivery_that_is_not_the_others,
    ],
    "I8": [oneself_failed, one_failed_that_is_not_proposed, a_set_that_shrank],
    "I9": [another_idea_of_the_members, an_installation_before_the_commit_token_came_twice],
    "I10": [a_safe_delivery_before_all_installed],
    "I11": [two_ideas_of_a_transitional_configuration, different_deliveries_on_one_passage],
    "I12": [a_ring_seq_above_the_ceiling, a_ring_seq_above_what_the_store_has],
    "I13": [a_promise_without_what_was_promised, a_promise_before_all_have_frozen],
    "I14": [a_join_timer_outside_gather, no_token_loss_timer, no_join_timer_in_gather],
}
CASES = [(invariant, plant) for invariant, plants in PLANTED.items() for plant in plants]


@pytest.mark.parametrize(("invariant", "plant"), CASES, ids=[plant.__name__ for _, plant in CASES])
def test_an_invariant_fires(invariant: str, plant: Callable[[Planted], None]) -> None:
    planted = Planted()
    with pytest.raises(InvariantBroken) as caught:
        plant(planted)
    assert caught.value.invariant == invariant


def test_a_sound_ring_breaks_none() -> None:
    planted = Planted()
    planted.steps()
    planted.invariants.check_everything()
    assert list(PLANTED) == [f"I{number}" for number in range(1, 15)]
