"""The state x event table, cell by cell [SRP §5]: an idle ring, timers, and the whole table."""

from evensong.core.effects import Broadcast, Effect, Service, TokenVisit
from evensong.core.ids import RingId
from evensong.core.run import run_of
from evensong.core.totem import wire
from evensong.core.totem.holder import FEW
from evensong.core.totem.ordering import ALONE_VISITS, SOLE_MESSAGES, SOLE_ROTATIONS, Ring
from evensong.core.totem.parameters import PROFILES, Parameters
from evensong.core.totem.states import State
from tests.core.totem import test_states, test_states_forming
from tests.core.totem.bench import (
    HOP_US,
    Bench,
    Desk,
    datagrams,
    delivered,
    installed,
    join_from,
    joins,
    next_token,
    reach,
    regular,
    ring_of,
    token_from,
    tokens,
)
from tests.core.totem.table import (
    CELLS,
    COMMIT,
    EVENTS,
    FORMING,
    GATHER,
    OPERATIONAL,
    RECOVERY,
    cell,
    commit_for,
    commit_from,
    dropped,
    in_states,
)

# -- an idle ring ----------------------------------------------------------------------------


def idle_ring(parameters: Parameters | None = None) -> Bench:
    bench = ring_of(1, 2, 3, parameters=parameters)
    assert not any(bench[node].core.rests() for node in (1, 2, 3))
    bench.run_until(lambda: bench[1].machine.holder.held_token is not None)
    assert [bench[node].core.rests() for node in (1, 2, 3)] == [True, False, False]
    bench.flight.clear()
    return bench


@cell("hold timer", OPERATIONAL)
def test_a_held_token_goes_round_once_in_a_while() -> None:
    rep = idle_ring()[1]
    assert rep.machine.timers.hold.deadline <= rep.now + 5_000
    effects = rep.wait_for(rep.machine.timers.hold)
    assert len(tokens(effects)) == 1
    assert rep.machine.holder.held_token is None


@cell("hold timer", *FORMING)
@cell("beacon timer", *FORMING)
@in_states(*FORMING)
def test_neither_holding_nor_showing_a_ring_belongs_to_a_ring_that_forms(state: State) -> None:
    _, rep = reach(state, node=1)
    assert not rep.machine.timers.hold.is_armed()
    assert not rep.machine.timers.beacon.is_armed()


def test_a_held_token_is_void_when_the_ring_ends() -> None:
    rep = idle_ring()[1]
    rep.receive(join_from(3, {1, 2, 3}, ring_seq=99))
    assert rep.state is GATHER
    assert rep.machine.holder.held_token is None


@cell("submit", OPERATIONAL)
def test_a_held_token_is_let_go_when_its_holder_has_something_to_send() -> None:
    effects = idle_ring()[1].submit(b"wake")
    assert delivered(effects) == [b"wake"]
    assert len(tokens(effects)) == 1


def test_who_does_not_hold_the_idle_token_asks_for_it_once() -> None:
    desk = idle_ring()[2]
    assert [type(one) for one in desk.submit(b"one")] == [Broadcast]
    assert desk.submit(b"two") == []


def test_on_a_ring_that_is_not_idle_a_submission_waits_for_the_token() -> None:
    _, desk = reach(OPERATIONAL)
    assert desk.submit(b"one") == []
    assert desk.outbox.backlog() == 1


def test_on_a_ring_of_one_a_message_is_delivered_at_once() -> None:
    bench = ring_of(1)
    assert delivered(bench[1].submit(b"a", b"b", service=Service.SAFE)) == [b"a", b"b"]
    assert not bench[1].machine.ring.buffer.messages


@cell("submit", *FORMING)
@in_states(*FORMING)
def test_while_a_ring_forms_submissions_wait(state: State) -> None:
    _, desk = reach(state)
    assert desk.submit(b"one") == []
    assert desk.outbox.backlog() == 1


@cell("hold cancel", OPERATIONAL)
def test_a_held_token_is_let_go_when_somebody_asks() -> None:
    rep = idle_ring()[1]
    cancel = wire.encode_hold_cancel(rep.machine.my_ring_id, 2, 1)
    assert len(tokens(rep.receive(cancel))) == 1
    assert rep.machine.ring.idle_visits == 0
    assert rep.receive(cancel) == []


def test_others_know_that_the_token_of_a_sole_sender_rests_soon() -> None:
    bench = idle_ring()
    bench[2].outbox.put(*[b"%d" % number for number in range(SOLE_MESSAGES)])
    bench.take(2, bench[2].submit(b"last"))
    bench.run_until(lambda: bench[2].core.rests() and bench[2].machine.ring.is_idle())
    assert bench[2].machine.ring.idle_visits == SOLE_ROTATIONS
    bench.take(3, bench[3].submit(b"now"))
    assert bench[3].machine.holder.hold_cancelled  # it is not for the hold to end that it waits
    bench.run_until(lambda: b"now" in bench.payloads(1))


def speaking(parameters: Parameters | None = None) -> Bench:
    """Return a ring on which the second has sent enough messages to be the sole speaker."""
    bench = idle_ring(parameters)
    bench[2].outbox.put(*[b"%d" % number for number in range(SOLE_MESSAGES)])
    bench.take(2, bench[2].submit(b"last"))
    bench.run_until(lambda: bench[2].machine.ring.speaker == 2)
    return bench


def lingering(parameters: Parameters | None = None) -> tuple[Bench, Desk]:
    """Return a ring whose token lingers with the one that alone has been sending, and that one."""
    bench = speaking(parameters)
    desk = bench[2]
    for _ in range(2 * ALONE_VISITS):
        desk.outbox.put(b"and on")
        bench.run_until(lambda: not desk.outbox.backlog())
    bench.run_until(desk.core.rests)
    assert not desk.machine.ring.is_idle()
    return bench, desk


def arrival(bench: Bench, node: int) -> list[Effect]:
    """Carry what is under way until the token is next to come to a node, and hand it over."""
    while (due := bench.flight[0])[1] != node or due[2][0] != wire.TOKEN:
        bench.step()
    return bench[node].receive(bench.flight.popleft()[2])


def test_the_token_lingers_with_who_alone_has_been_sending() -> None:
    bench, desk = lingering()
    now = max(desk.now, bench.now)
    assert 0 < desk.machine.timers.hold.deadline - now <= desk.machine.ring.linger_us()
    assert len(tokens(desk.wait_for(desk.machine.timers.hold))) == 1


def test_what_is_sent_while_the_token_lingers_gets_its_place_at_once() -> None:
    bench, desk = lingering()
    until = desk.machine.timers.hold.deadline
    for payload in (b"one", b"two"):
        effects = desk.submit(payload)
        assert delivered(effects) == [payload]
        assert not tokens(effects)
        bench.take(2, effects)
    assert desk.machine.timers.hold.deadline == until, "who else may send need not wait longer"
    (token,) = tokens(desk.wait_for(desk.machine.timers.hold))
    assert token.fcc == 2, "it counts as sent at this visit"


def test_what_waited_for_the_token_goes_out_at_once_and_the_token_lingers() -> None:
    bench, desk = lingering()
    bench.take(2, desk.wait_for(desk.machine.timers.hold))
    assert desk.submit(b"while it was away") == []
    bench.run_until(desk.core.rests)
    assert b"while it was away" in bench.payloads(2)
    assert not desk.machine.ring.is_idle()
    assert delivered(desk.submit(b"and on")) == [b"and on"]
    (token,) = tokens(desk.wait_for(desk.machine.timers.hold))
    assert token.fcc == 2


def test_a_token_that_goes_on_as_soon_as_it_has_come_was_not_held() -> None:
    bench, desk = lingering()
    bench.take(2, desk.wait_for(desk.machine.timers.hold))
    assert desk.submit(b"commit", service=Service.SAFE) == []
    visits = [one for one in arrival(bench, 2) if isinstance(one, TokenVisit)]
    assert [(visit.sent, visit.was_held) for visit in visits] == [(1, False)]


def test_a_token_for_which_much_waits_does_not_linger() -> None:
    bench, desk = lingering()
    bench.take(2, desk.wait_for(desk.machine.timers.hold))
    assert desk.submit(*[b"%d" % number for number in range(FEW + 1)]) == []
    assert len(tokens(arrival(bench, 2))) == 1
    assert not desk.core.rests()


def test_what_is_sent_while_the_token_lingers_keeps_to_a_visits_share() -> None:
    _, desk = lingering()
    most = desk.machine.parameters.messages_max
    effects = desk.submit(*[b"%d" % number for number in range(most - 1)])
    assert not tokens(effects)
    effects = desk.submit(b"a", b"b", b"c")
    assert [token.fcc for token in tokens(effects)] == [most]
    assert desk.outbox.backlog() == 2


def test_a_safe_message_sends_a_lingering_token_on() -> None:
    _, desk = lingering()
    assert len(tokens(desk.submit(b"commit", service=Service.SAFE))) == 1


def test_a_token_lingers_with_nobody_while_somebody_waits_for_the_safe_line() -> None:
    _, desk = lingering()
    desk.core.hurry(is_on=True)
    assert len(tokens(desk.submit(b"one"))) == 1
    bench = idle_ring()
    bench[2].core.hurry(is_on=True)
    bench[2].outbox.put(*[b"%d" % number for number in range(SOLE_MESSAGES)])
    bench.take(2, bench[2].submit(b"last"))
    bench.run_until(lambda: bench[2].machine.holder.held_token is not None)
    assert bench[2].machine.ring.is_idle()


def test_many_messages_of_one_visit_do_not_make_a_sole_sender() -> None:
    bench = ring_of(1, 2, 3)
    bench[1].outbox.put(b"one of another")
    bench.run_until(lambda: not bench[1].outbox.backlog())
    bench[2].outbox.put(*[b"%d" % number for number in range(SOLE_MESSAGES)])
    bench.run_until(lambda: not bench[2].outbox.backlog())
    visit = bench[2].machine.ring.my_token_seq
    bench.run_until(lambda: bench[2].machine.ring.my_token_seq > visit)
    assert not bench[2].core.rests()


def test_who_has_just_sent_does_not_call() -> None:
    bench = ring_of(1, 2, 3)
    bench[3].outbox.put(b"me first")
    bench.run_until(lambda: not bench[3].machine.ring.idle_visits)
    bench[2].outbox.put(*[b"%d" % number for number in range(SOLE_MESSAGES)])
    bench.run_until(lambda: bench[3].machine.ring.spoke == SOLE_MESSAGES)
    assert bench[3].submit(b"me again") == []
    bench.run_until(lambda: b"me again" in bench.payloads(1))


def test_who_else_has_something_to_send_calls_a_lingering_token() -> None:
    bench, _ = lingering()
    (cancel,) = bench[3].submit(b"me too")
    assert isinstance(cancel, Broadcast)
    assert len(tokens(bench[2].receive(cancel.datagram))) == 1


def test_who_calls_before_the_token_is_here_need_not_call_again() -> None:
    bench, desk = lingering()
    bench.take(2, desk.submit(b"and on"))
    bench.take(2, desk.wait_for(desk.machine.timers.hold))
    sent_on = desk.machine.ring.my_token_seq
    cancel = wire.encode_hold_cancel(desk.machine.my_ring_id, 3, 1)
    assert desk.receive(cancel) == []
    bench.run_until(lambda: desk.core.rests() or desk.machine.ring.my_token_seq > sent_on)
    assert not desk.core.rests()


def test_a_token_does_not_linger_while_somebody_lacks_a_message() -> None:
    bench, desk = lingering(Parameters(miss_count=2))
    bench.loses = lambda _source, target, datagram: target == 3 and datagram[0] != wire.TOKEN
    bench.take(2, desk.submit(b"lost on its way"))
    bench.take(2, desk.wait_for(desk.machine.timers.hold))
    bench.loses = lambda _source, _target, _datagram: False
    bench.run_until(lambda: desk.core.rests() or b"lost on its way" in bench.payloads(3))
    assert b"lost on its way" in bench.payloads(3)


def test_nobody_takes_a_token_that_lingers_for_a_lost_one() -> None:
    for parameters in (*PROFILES.values(), Parameters(token_retransmit=1_000, hold=900)):
        ring = Ring(RingId(4, 1), (1, 2, 3), 2, 1, parameters)
        assert 0 < 2 * ring.linger_us() <= parameters.token_retransmit
        assert ring.linger_us() < parameters.hold


def test_what_was_sent_while_the_token_lingered_is_of_its_ring_only() -> None:
    _, desk = lingering()
    desk.submit(b"one")
    desk.receive(join_from(3, {1, 2, 3}, ring_seq=99))
    assert desk.state is GATHER
    desk.machine.holder.use(desk.machine.ring)
    assert not desk.machine.holder.held_sent
    assert not desk.machine.holder.held_weight


def test_a_token_is_not_held_by_who_has_something_to_send() -> None:
    bench = idle_ring()
    rep = bench[1]
    bench.take(1, rep.wait_for(rep.machine.timers.hold))
    rep.outbox.put(b"now")
    bench.run_until(lambda: b"now" in bench.payloads(3))
    assert rep.machine.holder.held_token is None


@cell("hold cancel", *FORMING)
@in_states(*FORMING)
def test_a_hold_cancel_means_nothing_to_a_ring_that_forms(state: State) -> None:
    _, desk = reach(state)
    cancel = wire.encode_hold_cancel(desk.machine.ring.ring_id, 3, 1)
    assert dropped(desk, cancel, "hold_cancel of another ring")


def rests_with(bench: Bench) -> list[int]:
    return [node for node in bench.desks if bench[node].machine.holder.held_token is not None]


def spoken_last_by(node: int) -> Bench:
    """Return a ring whose idle token rests with somebody who has sent."""
    bench = ring_of(1, 2, 3)
    bench.submit(node, b"first")
    bench.run_until(lambda: rests_with(bench) != [])
    assert rests_with(bench) == [node]
    return bench


def test_an_idle_token_goes_to_rest_with_one_speaker_after_the_other() -> None:
    bench = spoken_last_by(3)
    for node in (2, 3, 1, 2):
        ring_id = bench[1].machine.ring.ring_id
        bench.submit(node, b"by %d" % node, service=Service.SAFE)
        bench.run_until(lambda node=node: rests_with(bench) == [node])  # type: ignore[misc]
        assert [bench.payloads(one)[-1] for one in (1, 2, 3)] == [b"by %d" % node] * 3
        bench.run(4 * bench[1].machine.parameters.hold)  # it goes round, and rests there again
        bench.run_until(lambda: rests_with(bench) != [])
        assert rests_with(bench) == [node]
        assert bench[1].machine.ring.ring_id == ring_id


def test_nobody_else_can_have_sent_while_the_token_rests_here() -> None:
    bench = spoken_last_by(3)
    desk = bench[3]
    ring = desk.machine.ring
    lies = [regular(ring.ring_id, ring.buffer.high + ahead, 1) for ahead in (1, 2)]
    assert dropped(desk, lies[0], "message that cannot be")
    desk.core.receive_run(run_of(lies), desk.now)
    assert desk.drops["message that cannot be"] == 3
    bench.submit(3, b"a", b"b", b"c")
    bench.run_until(lambda: bench.payloads(1)[-3:] == [b"a", b"b", b"c"])
    assert bench.payloads(3) == bench.payloads(1)


def test_a_lost_hold_cancel_costs_no_more_than_the_hold() -> None:
    bench = spoken_last_by(3)
    bench.loses = lambda _source, _target, datagram: datagram[0] == wire.HOLD_CANCEL
    at = bench.now
    bench.submit(2, b"unheard")
    bench.run_until(lambda: all(b"unheard" in bench.payloads(node) for node in (1, 2, 3)))
    assert bench.now - at <= bench[1].machine.parameters.hold + 20 * HOP_US
    assert bench.is_ring(1, 2, 3)


def test_who_holds_the_idle_token_may_leave_and_the_others_go_on() -> None:
    bench = spoken_last_by(3)
    bench.take(3, bench[3].leave())
    bench.run_until(lambda: bench.is_ring(1, 2))
    bench.submit(2, b"without it")
    bench.run_until(lambda: b"without it" in bench.payloads(1))
    bench.run_until(lambda: bench[2].machine.holder.held_token is not None)
    assert bench[1].machine.holder.held_token is None


def test_who_holds_the_idle_token_may_be_cut_off_and_both_sides_go_on() -> None:
    bench = spoken_last_by(3)
    bench.loses = lambda source, target, _datagram: 3 in (source, target)
    bench.flight.clear()
    bench.run_until(lambda: bench.is_ring(1, 2) and bench.is_ring(3))
    bench.submit(2, b"here")
    bench.submit(3, b"there")
    bench.run_until(lambda: b"here" in bench.payloads(1) and b"there" in bench.payloads(3))
    bench.loses = lambda _source, _target, _datagram: False
    bench.run_until(lambda: bench.is_ring(1, 2, 3))
    bench.run_until(lambda: rests_with(bench) != [])
    assert rests_with(bench) == [1]  # nobody has spoken on this ring


@cell("beacon timer", OPERATIONAL)
def test_the_representative_of_a_quiet_ring_shows_that_it_exists() -> None:
    bench = ring_of(1, 2, 3)
    rep = bench[1]
    deadline = rep.machine.timers.beacon.deadline
    bench.run_until(lambda: rep.machine.timers.beacon.deadline != deadline)
    said = [effect for node, effect in bench.told if node == 1]
    beacon = wire.decode_beacon(datagrams(said, wire.BEACON)[0])
    assert (beacon.ring_id, beacon.memb_count) == (rep.machine.my_ring_id, 3)
    assert rep.machine.timers.beacon.deadline == deadline + 50_000


def test_messages_of_the_ring_are_beacon_enough() -> None:
    bench = ring_of(1, 2, 3)
    rep = bench[1]
    deadline = rep.machine.timers.beacon.deadline
    bench.run_until(lambda: bench.now >= deadline - 5_000)
    bench.submit(3, b"sign of life")
    bench.run_until(lambda: rep.machine.timers.beacon.deadline != deadline)
    said = [effect for _, effect in bench.told]
    assert datagrams(said, wire.BEACON) == []


def test_only_the_representative_shows_the_ring() -> None:
    bench, _ = reach(OPERATIONAL)
    armed = [desk.machine.timers.beacon.is_armed() for desk in bench.desks.values()]
    assert armed == [True, False, False]


# -- timers ----------------------------------------------------------------------------------


@cell("token loss", OPERATIONAL)
def test_without_token_or_message_the_ring_is_given_up() -> None:
    _, desk = reach(OPERATIONAL)
    effects = desk.wait_for(desk.machine.timers.token_loss)
    assert desk.state is GATHER
    assert joins(effects)[0].proc_set == {1, 2, 3}
    assert desk.machine.membership.failed_attempts == {}


@cell("token loss", GATHER)
def test_in_gather_a_commit_token_that_does_not_come_counts_as_a_failed_attempt() -> None:
    _, desk = reach(GATHER)
    assert not desk.machine.timers.token_loss.is_armed()
    for attempt in range(1, 4):
        for sender in (1, 3):
            desk.receive(join_from(sender, {1, 2, 3}))
        desk.wait_for(desk.machine.timers.token_loss)
        assert desk.state is GATHER
        assert desk.machine.membership.failed_attempts == {(1, 2, 3): attempt}
    assert desk.machine.membership.fail_set == {3}


@cell("token loss", COMMIT, RECOVERY)
@in_states(COMMIT, RECOVERY)
def test_a_formation_that_comes_to_nothing_counts_as_a_failed_attempt(state: State) -> None:
    _, desk = reach(state)
    old = desk.machine.old
    desk.wait_for(desk.machine.timers.token_loss)
    assert desk.state is GATHER
    assert desk.machine.membership.failed_attempts == {(1, 2, 3): 1}
    assert desk.machine.ring is desk.machine.old is old


@cell("token retransmit", OPERATIONAL, RECOVERY)
@in_states(OPERATIONAL, RECOVERY)
def test_a_token_that_nobody_has_shown_to_have_is_sent_again_unchanged(state: State) -> None:
    _, desk = reach(state)
    first = datagrams(desk.receive(token_from(1, next_token(desk))), wire.TOKEN)
    again = desk.wait_for(desk.machine.timers.token_retransmit)
    assert datagrams(again, wire.TOKEN) == first
    assert desk.machine.timers.token_retransmit.deadline == desk.now + 3_000


@cell("token retransmit", COMMIT)
def test_a_commit_token_that_nobody_has_shown_to_have_is_sent_again() -> None:
    _, desk = reach(GATHER)
    first = datagrams(desk.receive(commit_from(1, commit_for(desk, 1))), wire.COMMIT)
    again = desk.wait_for(desk.machine.timers.token_retransmit)
    assert datagrams(again, wire.COMMIT) == first


@cell("token retransmit", GATHER)
def test_in_gather_no_token_is_sent_again() -> None:
    _, desk = reach(GATHER)
    assert not desk.machine.timers.token_retransmit.is_armed()


def test_a_message_sent_after_my_token_shows_that_it_arrived() -> None:
    _, desk = reach(OPERATIONAL)
    token = next_token(desk)
    token.seq, token.aru, token.aru_id = 2, 0, 3
    desk.receive(token_from(1, token))
    timer = desk.machine.timers.token_retransmit
    desk.receive(regular(token.ring_id, 1, 1))
    assert timer.is_armed()  # a message from before my visit shows nothing
    desk.receive(regular(token.ring_id, 3, 3))
    assert not timer.is_armed()


@cell("join timer", GATHER)
def test_in_gather_the_proposal_is_said_again() -> None:
    _, desk = reach(GATHER)
    deadline = desk.machine.timers.join.deadline
    assert desk.now + 2_000 <= deadline <= desk.now + 2_500
    assert joins(desk.expire(deadline))[0].proc_set == {1, 2, 3}
    assert desk.machine.timers.join.is_armed()


@cell("join timer", OPERATIONAL, COMMIT, RECOVERY)
@cell("consensus timer", OPERATIONAL, COMMIT, RECOVERY)
@in_states(OPERATIONAL, COMMIT, RECOVERY)
def test_outside_gather_no_join_is_sent_and_no_consensus_awaited(state: State) -> None:
    for node in (1, 2):
        _, desk = reach(state, node)
        assert not desk.machine.timers.join.is_armed()
        assert not desk.machine.timers.consensus.is_armed()


@cell("consensus timer", GATHER)
def test_those_who_do_not_agree_in_time_are_given_up() -> None:
    _, desk = reach(GATHER)
    desk.receive(join_from(1, {1, 2, 3}))
    desk.machine.timers.join.stop()
    effects = desk.wait_for(desk.machine.timers.consensus)
    assert desk.machine.membership.fail_set == {3}
    assert joins(effects)[0].fail_set == {3}


def test_who_hears_nobody_forms_a_ring_of_one() -> None:
    _, desk = reach(GATHER)
    desk.machine.timers.join.stop()
    effects = desk.wait_for(desk.machine.timers.consensus)
    assert desk.state is OPERATIONAL
    assert [(one.transitional, one.members) for one in installed(effects)] == [
        (True, (2,)),
        (False, (2,)),
    ]


def test_a_start_waits_for_others_before_it_forms_a_ring_of_one() -> None:
    desk = Desk(2)
    assert [one.members for one in installed(desk.start())] == [(2,)]
    assert desk.state is GATHER
    deadline = desk.machine.timers.consensus.deadline
    assert deadline == 8_000
    while desk.state is GATHER:
        desk.wait()
    assert desk.now == deadline
    assert desk.state is OPERATIONAL


def test_joins_of_a_herd_are_gathered() -> None:
    desk = Desk(2)
    desk.start()
    effects = desk.receive(join_from(3, set(range(3, 67))))
    assert joins(effects) == []
    assert desk.machine.timers.join.deadline == 2_000 * 65 // 256
    assert len(joins(desk.wait())) == 1


def test_every_cell_of_the_table_has_its_test() -> None:
    assert test_states  # importing them noted their cells
    assert test_states_forming
    assert {(state, event) for state in State for event in EVENTS} - CELLS == set()
