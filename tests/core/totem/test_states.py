"""The state x event table, cell by cell [SRP §4]: tokens, messages and strangers."""

import pytest

from evensong.core.effects import Deliver, StateChange, Unicast
from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import ENCAP, Beacon
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.states import State
from tests.core.totem.bench import (
    delivered,
    join_from,
    joins,
    message,
    next_token,
    reach,
    regular,
    ring_of,
    token_from,
    tokens,
)
from tests.core.totem.table import (
    COMMIT,
    FOREIGN,
    GATHER,
    OPERATIONAL,
    RECOVERY,
    STRANGER,
    cell,
    dropped,
    in_states,
)

# -- the token -------------------------------------------------------------------------------


@cell("token of my ring", OPERATIONAL)
def test_the_token_is_acted_on_and_passed_to_the_next() -> None:
    _, desk = reach(OPERATIONAL)
    token = next_token(desk)
    desk.outbox.put(b"one", b"two")
    effects = desk.receive(token_from(1, token))
    assert [one.seq for one in tokens(effects)] == [token.seq + 2]
    assert [one.to for one in effects if isinstance(one, Unicast)] == [3]
    assert delivered(effects) == [b"one", b"two"]


@cell("token of my ring", GATHER, COMMIT)
@in_states(GATHER, COMMIT)
def test_a_token_is_discarded_while_a_ring_is_agreed_on(state: State) -> None:
    _, desk = reach(state)
    assert dropped(desk, token_from(1, next_token(desk)), "token while forming a ring")


@cell("token of my ring", RECOVERY)
def test_in_recovery_the_new_rings_token_goes_round_and_no_application_message_is_sent() -> None:
    _, desk = reach(RECOVERY)
    desk.outbox.put(b"waits")
    effects = desk.receive(token_from(1, next_token(desk)))
    assert [one.ring_id for one in tokens(effects)] == [desk.machine.my_ring_id]
    assert desk.outbox.backlog() == 1
    assert delivered(effects) == []


@cell("token of another ring", *State)
@in_states(*State)
def test_another_rings_token_is_discarded(state: State) -> None:
    _, desk = reach(state)
    token = next_token(desk)
    token = type(token)(RingId(96, 1), 1_000)
    assert dropped(desk, token_from(1, token), "token of another ring")


def test_in_recovery_the_old_rings_token_is_another_rings() -> None:
    bench, desk = reach(OPERATIONAL)
    old_token = token_from(1, next_token(desk))
    bench.loses = lambda source, target, datagram: datagram[0] == wire.TOKEN
    bench.run_until(lambda: desk.state is RECOVERY)
    assert dropped(desk, old_token, "token of another ring")


def test_a_token_already_acted_on_is_dropped() -> None:
    _, desk = reach(OPERATIONAL)
    token = token_from(1, next_token(desk))
    assert len(tokens(desk.receive(token))) == 1
    assert dropped(desk, token, "token seen before")


def test_a_token_that_rests_here_is_not_taken_twice() -> None:
    bench = ring_of(1, 2, 3)
    rep = bench[1]
    bench.run_until(lambda: rep.machine.holder.held_token is not None)
    held = rep.machine.holder.held_token
    assert held is not None
    hold_until = rep.machine.timers.hold.deadline
    rep.now += 100
    assert dropped(rep, token_from(3, held), "token seen before")
    assert rep.machine.holder.held_token is held
    assert rep.machine.timers.hold.deadline == hold_until


def test_a_token_that_cannot_be_honest_is_dropped() -> None:
    _, desk = reach(OPERATIONAL)
    token = next_token(desk)
    token.fcc = 51
    assert dropped(desk, token_from(1, token), "token that cannot be")


@in_states(OPERATIONAL, RECOVERY)
def test_a_token_that_was_copied_to_me_on_its_way_to_another_is_dropped(state: State) -> None:
    _, desk = reach(state)
    token = next_token(desk)
    assert dropped(desk, token_from(3, token), "token that cannot be")
    assert len(tokens(desk.receive(token_from(1, token)))) == 1


def test_a_ring_of_one_takes_no_token() -> None:
    bench = ring_of(1)
    token = next_token(bench[1])
    token.token_seq = 0
    assert dropped(bench[1], token_from(2, token), "token that cannot be")


def test_the_token_is_passed_on_before_anything_is_delivered() -> None:
    _, desk = reach(OPERATIONAL)
    desk.outbox.put(b"one")
    effects = desk.receive(token_from(1, next_token(desk)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Unicast) < kinds.index(Deliver)


def test_somebody_who_never_receives_is_accused_after_the_time_and_the_visits() -> None:
    parameters = Parameters(fail_to_rcv_time=10_000, fail_to_rcv_visits_min=20)
    _, desk = reach(OPERATIONAL, parameters=parameters)
    visits = 0
    while desk.state is OPERATIONAL:
        token = next_token(desk)
        token.seq, token.aru, token.aru_id, token.rtr = 1, 0, 3, [(1, 1)]
        if not visits:
            desk.receive(regular(token.ring_id, 1, 1))
        effects = desk.receive(token_from(1, token))
        visits += 1
        desk.now += 600
    assert visits > 20
    assert desk.machine.membership.fail_set == {3}
    assert not tokens(effects)  # the token ends here
    assert [one.cause for one in effects if isinstance(one, StateChange)] == ["fail to receive"]


# -- messages --------------------------------------------------------------------------------


@cell("message of my ring", OPERATIONAL)
def test_a_message_of_my_ring_is_delivered_in_its_turn() -> None:
    _, desk = reach(OPERATIONAL)
    ring = desk.machine.ring
    seq = ring.buffer.aru + 1
    assert delivered(desk.receive(regular(ring.ring_id, seq + 1, 3, b"second"))) == []
    assert delivered(desk.receive(regular(ring.ring_id, seq, 1, b"first"))) == [
        b"first",
        b"second",
    ]
    datagram = regular(ring.ring_id, seq, 1, b"first")
    assert dropped(desk, datagram, "message received before")


@cell("message of my ring", GATHER, COMMIT)
@in_states(GATHER, COMMIT)
def test_a_message_of_the_ring_that_ends_is_kept_and_not_delivered(state: State) -> None:
    _, desk = reach(state)
    old = desk.machine.old
    seq = old.buffer.aru + 1
    datagram = regular(old.ring_id, seq, 3, b"late")
    assert desk.receive(datagram) == []
    assert old.message(seq).payload == b"late"
    assert dropped(desk, datagram, "message received before")


@cell("message of my ring", RECOVERY)
def test_in_recovery_a_message_of_the_old_ring_comes_inside_one_of_the_new() -> None:
    _, desk = reach(RECOVERY)
    machine = desk.machine
    inner = message(machine.old.ring_id, machine.old.buffer.aru + 1, 3, b"exchanged")
    outer = regular(machine.my_ring_id, 1, 1, wire.encapsulate(inner), flags=ENCAP)
    assert desk.receive(outer) == []
    assert machine.ring.buffer.aru == 1
    assert machine.old.message(inner.seq).payload == b"exchanged"


def test_in_recovery_an_application_message_of_a_faster_member_waits() -> None:
    _, desk = reach(RECOVERY)
    assert desk.receive(regular(desk.machine.my_ring_id, 1, 1, b"early")) == []
    assert desk.machine.ring.message(1).payload == b"early"


def test_in_recovery_a_late_message_of_the_old_ring_is_dropped() -> None:
    # A transitional peer may lack it, and nobody would exchange it.
    _, desk = reach(RECOVERY)
    old = desk.machine.old
    seq = old.buffer.aru + 1
    assert dropped(desk, regular(old.ring_id, seq, 3), "message for a frozen ring")
    assert not old.buffer.has(seq)


def test_the_old_ring_stays_frozen_when_recovery_fails() -> None:
    bench, desk = reach(RECOVERY)
    bench.flight.clear()
    desk.wait_for(desk.machine.timers.token_loss)
    assert desk.state is GATHER
    old = desk.machine.old
    late = regular(old.ring_id, old.buffer.aru + 1, 3)
    assert dropped(desk, late, "message for a frozen ring")


def test_recovery_traffic_of_an_installed_ring_is_dropped() -> None:
    _, desk = reach(OPERATIONAL)
    ring = desk.machine.ring
    seq = ring.buffer.aru + 1
    datagram = regular(ring.ring_id, seq, 1, b"x" * 60, flags=ENCAP)
    assert dropped(desk, datagram, "recovery traffic of an installed ring")


@pytest.mark.parametrize(("seq", "sender"), [(5_000, 1), (1, 7)])
@in_states(*State)
def test_a_message_that_cannot_be_is_dropped(state: State, seq: int, sender: int) -> None:
    _, desk = reach(state)
    ring = desk.machine.ring
    if state is OPERATIONAL or state is RECOVERY:
        seq += ring.buffer.aru
    datagram = regular(ring.ring_id, seq, sender, transmitter=1)
    if state is GATHER or state is COMMIT:
        datagram = regular(ring.ring_id, ring.buffer.aru + seq, sender, transmitter=1)
    assert dropped(desk, datagram, "message that cannot be")


# -- strangers -------------------------------------------------------------------------------


@cell("foreign message", OPERATIONAL)
def test_a_foreign_message_proposes_its_transmitter_not_its_originator() -> None:
    _, desk = reach(OPERATIONAL)
    effects = desk.receive(regular(FOREIGN, 1, 77, transmitter=STRANGER))
    assert desk.state is GATHER
    assert desk.machine.membership.proc_set == {1, 2, 3, STRANGER}
    assert joins(effects)[0].proc_set == {1, 2, 3, STRANGER}


def test_a_member_that_shows_a_newer_ring_is_foreign() -> None:
    _, desk = reach(OPERATIONAL)
    newer = RingId(desk.machine.my_ring_id.seq + 4, 1)
    desk.receive(regular(newer, 1, 1))
    assert desk.state is GATHER


@in_states(*State)
def test_a_member_that_shows_a_past_ring_is_an_echo(state: State) -> None:
    _, desk = reach(state)
    past = RingId(4, 3)
    assert dropped(desk, regular(past, 1, 3), "regular of a past ring")
    beacon = wire.encode_beacon(Beacon(past, 1), 3, 1)
    assert dropped(desk, beacon, "beacon of a past ring")


@cell("foreign message", GATHER)
@cell("foreign beacon", GATHER)
@pytest.mark.parametrize("is_beacon", [False, True])
def test_in_gather_an_unknown_stranger_is_added_and_a_known_one_is_not_news(
    is_beacon: bool,
) -> None:
    _, desk = reach(GATHER)
    sign = regular(FOREIGN, 1, STRANGER)
    if is_beacon:
        sign = wire.encode_beacon(Beacon(FOREIGN, 1), STRANGER, 1)
    desk.now += 1_000
    effects = desk.receive(sign)
    assert desk.state is GATHER
    assert joins(effects)[0].proc_set == {1, 2, 3, STRANGER}
    assert desk.machine.timers.consensus.deadline == desk.now + 8_000
    assert dropped(desk, sign, "stranger already known")


@cell("foreign message", COMMIT, RECOVERY)
@cell("foreign beacon", COMMIT, RECOVERY)
@in_states(COMMIT, RECOVERY)
def test_strangers_wait_while_a_ring_forms(state: State) -> None:
    _, desk = reach(state)
    assert dropped(desk, regular(FOREIGN, 1, STRANGER), "stranger while forming a ring")
    beacon = wire.encode_beacon(Beacon(FOREIGN, 1), STRANGER, 1)
    assert dropped(desk, beacon, "stranger while forming a ring")
    assert STRANGER not in desk.machine.membership.proc_set


@cell("foreign beacon", OPERATIONAL)
def test_a_foreign_beacon_proposes_its_transmitter() -> None:
    _, desk = reach(OPERATIONAL)
    effects = desk.receive(wire.encode_beacon(Beacon(FOREIGN, 1), STRANGER, 1))
    assert desk.state is GATHER
    assert joins(effects)[0].proc_set == {1, 2, 3, STRANGER}


def test_a_stranger_that_never_came_is_damped() -> None:
    _, desk = reach(OPERATIONAL)
    desk.machine.strangers.missed(frozenset([STRANGER]), desk.now)
    assert dropped(desk, regular(FOREIGN, 1, STRANGER), "stranger damped")


def test_no_stranger_is_added_beyond_the_largest_ring() -> None:
    _, desk = reach(GATHER)
    desk.receive(join_from(100, set(range(1, 100)) | set(range(100, 129))))
    assert len(desk.machine.membership.proc_set) == 128
    datagram = regular(RingId(100, 200), 1, 200)
    assert dropped(desk, datagram, "stranger beyond the largest ring")
