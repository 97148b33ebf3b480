"""Sentences of the single ring's papers, in our words, each proved on a small ring.

[SRP] is the journal article and the slides on it, [TPG] the overview; see docs/papers.md.
"""

from evensong.core.effects import Broadcast, Effect, Service, StateChange, TokenVisit, Unicast
from evensong.core.ids import NO_PROCESSOR, ProcessorId
from evensong.core.totem import wire
from evensong.core.totem.frames import RETX
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.states import State
from evensong.sim import inject
from evensong.sim.check import machine_of
from evensong.sim.faults import Crash, Restart
from evensong.sim.history import Life
from evensong.sim.machine import Processor
from evensong.sim.network import DROP, Rule
from tests.core.totem.bench import (
    commits,
    join_from,
    joins,
    messages,
    next_token,
    ordered,
    reach,
    regular,
    ring_of,
    token_from,
    tokens,
)
from tests.sim.stage import Stage

ALWAYS = 2**31


def life(stage: Stage, node: ProcessorId) -> Life:
    return stage.history.lives[node, 1]


def delivered(stage: Stage, node: ProcessorId) -> list[tuple[ProcessorId, int]]:
    return [(one.unit_id.sender, one.unit_id.origin_no) for one in life(stage, node).deliveries]


def states(stage: Stage, node: ProcessorId) -> list[str]:
    events = life(stage, node).events
    return [dict(event.aux)["state"] for event in events if event.etype == "state"]


def stage_of(*nodes: ProcessorId) -> Stage:
    stage = Stage(*nodes)
    stage.form()
    return stage


# -- total order [SRP §4] ---------------------------------------------------------------------


def test_only_the_holder_of_the_token_broadcasts_messages() -> None:
    """[SRP §4]"""
    bench = ring_of(1, 2, 3)
    for node in (1, 2, 3):
        bench.submit(node, b"%d" % node)
    start = len(bench.told)
    bench.run(3_000)
    said = [(node, one) for node, one in bench.told[start:] if isinstance(one, Broadcast | Unicast)]
    for index, (node, effect) in enumerate(said):
        if effect.datagram[0] == wire.REGULAR:
            later = [who for who, one in said[index:] if one.datagram[0] == wire.TOKEN]
            assert later[0] == node  # whoever broadcasts passes the token on next


def test_several_messages_may_be_sent_on_one_visit() -> None:
    """[SRP §4]"""
    _, desk = reach(State.OPERATIONAL)
    desk.outbox.put(b"a", b"b", b"c")
    effects = desk.receive(token_from(1, next_token(desk)))
    assert [one.payload for one in messages(effects)] == [b"a", b"b", b"c"]


def test_the_token_goes_round_when_nobody_has_anything_to_say() -> None:
    """[SRP §4]"""
    bench = ring_of(1, 2, 3)
    start = len(bench.told)
    bench.run(300)
    visits = [node for node, one in bench.told[start:] if isinstance(one, TokenVisit)]
    assert set(visits) == {1, 2, 3}


def test_each_new_message_takes_the_tokens_next_seq() -> None:
    """[SRP §4; TPG]"""
    _, desk = reach(State.OPERATIONAL)
    token = next_token(desk)
    desk.outbox.put(b"a", b"b")
    effects = desk.receive(token_from(1, token))
    assert [one.seq for one in messages(effects)] == [token.seq + 1, token.seq + 2]
    assert tokens(effects)[0].seq == token.seq + 2


def test_a_gap_in_the_seqs_is_requested_on_the_token() -> None:
    """[SRP §4; TPG]"""
    _, desk = reach(State.OPERATIONAL)
    token = next_token(desk)
    token.seq = token.aru = token.seq + 3
    desk.receive(regular(token.ring_id, token.seq - 1, 1))
    effects = desk.receive(token_from(1, token))
    assert tokens(effects)[0].rtr == [(token.seq - 2, 1), (token.seq, 1)]


def test_requests_are_answered_before_anything_new_is_sent() -> None:
    """[SRP §4]"""
    _, desk = reach(State.OPERATIONAL)
    token = next_token(desk)
    token.seq += 1
    desk.receive(regular(token.ring_id, token.seq, 1, b"old"))
    token.rtr, token.aru_id = [(token.seq, 1)], 3
    desk.outbox.put(b"new")
    effects = desk.receive(token_from(1, token))
    assert [(one.payload, one.flags) for one in messages(effects)] == [(b"old", RETX), (b"new", 0)]
    assert tokens(effects)[0].rtr == []


def test_who_received_less_lowers_the_aru_and_puts_its_name_to_it() -> None:
    """[SRP §4]"""
    _, desk = reach(State.OPERATIONAL)
    token = next_token(desk)
    token.seq = token.aru = token.seq + 2
    passed = tokens(desk.receive(token_from(1, token)))[0]
    assert (passed.aru, passed.aru_id) == (token.seq - 2, 2)


def test_an_aru_equal_to_seq_moves_in_step_with_it() -> None:
    """[SRP §4]"""
    _, desk = reach(State.OPERATIONAL)
    desk.outbox.put(b"a", b"b")
    passed = tokens(desk.receive(token_from(1, next_token(desk))))[0]
    assert passed.aru == passed.seq
    assert passed.aru_id == NO_PROCESSOR


def test_a_copy_of_the_token_is_recognised_by_its_token_seq() -> None:
    """[SRP §4]"""
    _, desk = reach(State.OPERATIONAL)
    token = token_from(1, next_token(desk))
    assert tokens(desk.receive(token))
    assert desk.receive(token) == []


def test_a_token_lost_in_flight_is_sent_again_and_no_ring_is_formed() -> None:
    """[SRP §4; TPG]"""
    stage = stage_of(1, 2, 3)
    ring_id = machine_of(stage.world.by_node[1]).my_ring_id
    stage.world.network.add_rule(Rule(DROP, wire.TOKEN, times=2))
    stage.send(2, b"still here", safe=True)
    stage.run(20_000)
    assert delivered(stage, 3) == [(2, 1)]
    assert machine_of(stage.world.by_node[1]).my_ring_id == ring_id
    stage.check_end()


def test_all_deliver_in_the_same_order() -> None:
    """[SRP §2]"""
    stage = stage_of(1, 2, 3)
    for n in range(10):
        for node in (3, 1, 2):
            stage.send(node, b"%d" % n, safe=n % 3 == 0)
        stage.run(130)
    stage.run(10_000)
    assert len(delivered(stage, 1)) == 30
    assert delivered(stage, 1) == delivered(stage, 2) == delivered(stage, 3)
    stage.check_end()


def test_an_agreed_message_is_delivered_when_all_before_it_have_been() -> None:
    """[SRP §2; TPG]"""
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    seq = ring.buffer.aru + 1
    assert desk.receive(regular(ring.ring_id, seq + 1, 1)) == []
    assert len(ordered(desk.receive(regular(ring.ring_id, seq, 1)))) == 2


def test_a_safe_message_is_delivered_when_everybody_is_known_to_have_it() -> None:
    """[SRP §2; TPG]"""
    stage = stage_of(1, 2, 3)
    stage.world.network.add_rule(Rule(DROP, wire.REGULAR, 1, 3, times=1))
    seen: list[bool] = []

    def look(processor: Processor) -> None:
        if any(delivered(stage, node) for node in (1, 2)):
            seen.append(machine_of(stage.world.by_node[3]).ring.buffer.aru >= 1)

    stage.on_step = look
    stage.send(1, b"safe", safe=True)
    stage.run(20_000)
    assert seen
    assert all(seen)


def test_a_message_known_to_be_everywhere_is_forgotten() -> None:
    """[TPG]"""
    stage = stage_of(1, 2, 3)
    stage.send(1, b"a", b"b", b"c")
    stage.run(10_000)
    assert all(not machine_of(stage.world.by_node[n]).ring.buffer.messages for n in (1, 2, 3))


# -- flow control [SRP §4.3] ------------------------------------------------------------------


def test_no_rotation_broadcasts_more_than_the_window_and_no_visit_more_than_its_own() -> None:
    """[SRP §4.3]"""
    parameters = Parameters(window_size=8, messages_max=5)
    bench = ring_of(1, 2, 3, parameters=parameters)
    for node in (1, 2, 3):
        bench.submit(node, *[b"%d" % n for n in range(40)])
    bench.run_until(lambda: len(bench.payloads(3)) == 120)
    visits = [(node, one) for node, one in bench.told if isinstance(one, TokenVisit)]
    for index in range(len(visits) - 2):
        rotation = visits[index : index + 3]
        assert sum(one.sent + one.resent for _, one in rotation) <= 8
    assert max(one.sent + one.resent for _, one in visits) <= 5


def test_the_window_is_shared_by_backlog() -> None:
    """[SRP §4.3]"""
    bench = ring_of(1, 2, parameters=Parameters(window_size=20, messages_max=20))
    for node in (1, 2):
        bench[node].outbox.put(*[b"%d" % node] * 60)
    start = len(bench.told)
    bench.run_until(lambda: len(bench.payloads(1)) >= 60)
    visits = [one.sent for _, one in bench.told[start:] if isinstance(one, TokenVisit)]
    # The first takes the whole window, for nobody has told yet what waits. Then 40 and 60 wait: two
    # fifths and three fifths of the window.
    assert visits[:4] == [20, 0, 8, 12]


# -- membership [SRP §5] ----------------------------------------------------------------------


def test_a_lost_token_a_join_or_a_foreign_message_leads_to_gather() -> None:
    """[SRP §5]"""
    for happens in ("token loss", "join", "foreign message"):
        _, desk = reach(State.OPERATIONAL)
        if happens == "token loss":
            desk.wait_for(desk.machine.timers.token_loss)
        elif happens == "join":
            desk.receive(join_from(9, {9}))
        else:
            ring_id = type(desk.machine.my_ring_id)(99, 9)
            desk.receive(regular(ring_id, 1, 9))
        assert desk.state is State.GATHER


def test_a_join_that_changes_my_sets_makes_me_say_so() -> None:
    """[SRP §5]"""
    _, desk = reach(State.GATHER)
    desk.now += 1_000
    said = joins(desk.receive(join_from(3, {1, 2, 3, 4}, {1})))
    assert [(sorted(one.proc_set), sorted(one.fail_set)) for one in said] == [([1, 2, 3, 4], [1])]


def test_consensus_is_everybody_proposed_saying_the_same() -> None:
    """[SRP §5]"""
    _, rep = reach(State.GATHER, node=1)
    assert commits(rep.receive(join_from(2, {1, 2, 3}))) == []
    assert len(commits(rep.receive(join_from(3, {1, 2, 3})))) == 1


def test_the_commit_token_collects_in_one_rotation_and_tells_in_the_next() -> None:
    """[SRP §5]"""
    bench = ring_of(1, 2, 3)
    said = [one for _, effect in bench.told for one in commits([effect])]
    assert [one.memb_index() for one in said] == [1, 2, 3, 3, 3, 3]
    assert [one.rotation for one in said] == [1, 1, 1, 2, 2, 2]


def test_nobody_installs_a_ring_of_which_another_member_has_another_idea() -> None:
    """[SRP §3]"""
    stage = stage_of(1, 2, 3, 4)
    stage.world.network.part([[1, 2, 3], [4]])
    stage.run(100_000)
    ideas = {machine_of(stage.world.by_node[node]).ring.members for node in (1, 2, 3)}
    assert ideas == {(1, 2, 3)}
    stage.check_end()


def test_every_processor_installs_some_configuration_whatever_happens_to_others() -> None:
    """[SRP §3; TPG]"""
    stage = stage_of(1, 2, 3)
    for node in (1, 3):
        inject.strike(stage.world, Crash(0, node))
    stage.run(100_000)
    assert machine_of(stage.world.by_node[2]).ring.members == (2,)
    assert machine_of(stage.world.by_node[2]).state is State.OPERATIONAL


def test_somebody_who_fails_to_receive_is_left_out_by_the_others() -> None:
    """[SRP §5]"""
    stage = Stage(1, 2, 3)
    stage.form()
    stage.world.network.add_rule(Rule(DROP, wire.REGULAR, target=3, times=ALWAYS))
    stage.send(1, b"heard by two")
    stage.run(400_000)
    causes = [event.cause for event in life(stage, 1).events + life(stage, 2).events]
    assert "fail to receive" in causes
    assert (1, 2) in [conf.members for conf in life(stage, 1).confs]


def test_a_restarted_processor_is_admitted_again() -> None:
    """[SRP §5; TPG]"""
    stage = stage_of(1, 2, 3)
    inject.strike(stage.world, Crash(0, 3))
    stage.run(60_000)
    inject.strike(stage.world, Restart(0, 3))
    stage.run(60_000)
    assert machine_of(stage.world.by_node[1]).ring.members == (1, 2, 3)
    stage.check_end()


def test_two_parts_of_a_network_go_on_and_merge() -> None:
    """[SRP §5; TPG]"""
    stage = stage_of(1, 2, 3, 4)
    stage.world.network.part([[1, 2], [3, 4]])
    stage.run(100_000)
    stage.send(1, b"here")
    stage.send(3, b"there")
    stage.run(20_000)
    assert delivered(stage, 2) == [(1, 1)]
    assert delivered(stage, 4) == [(3, 1)]
    stage.check_end()
    assert machine_of(stage.world.by_node[4]).ring.members == (1, 2, 3, 4)


# -- recovery [SRP §6] ------------------------------------------------------------------------


def crashed_with_a_message_missing() -> Stage:
    """Return a ring that lost 4, whose safe message had reached 1 and 2 but not 3."""
    stage = stage_of(1, 2, 3, 4)
    stage.world.network.add_rule(Rule(DROP, wire.REGULAR, target=3, seq=1, times=ALWAYS))
    stage.send(4, b"to two of three", safe=True)
    stage.run(1_000)
    inject.strike(stage.world, Crash(0, 4))
    stage.world.network.rules.clear()
    stage.run(100_000)
    return stage


def test_the_states_follow_each_other_to_a_new_ring() -> None:
    """[SRP §5]"""
    stage = crashed_with_a_message_missing()
    assert states(stage, 1)[-4:] == ["gather", "commit", "recovery", "operational"]


def test_old_messages_are_exchanged_so_that_all_who_go_together_have_the_same() -> None:
    """[SRP §6]"""
    stage = crashed_with_a_message_missing()
    assert delivered(stage, 1) == delivered(stage, 2) == delivered(stage, 3) == [(4, 1)]
    stage.check_end(4)


def test_two_configuration_changes_are_delivered_the_transitional_one_first() -> None:
    """[SRP §6; TPG]"""
    stage = crashed_with_a_message_missing()
    confs = life(stage, 3).confs[-2:]
    assert [conf.transitional for conf in confs] == [True, False]
    assert [conf.members for conf in confs] == [(1, 2, 3), (1, 2, 3)]


def test_what_cannot_be_promised_for_the_old_ring_is_delivered_in_the_transitional_one() -> None:
    """[SRP §6; TPG]"""
    stage = crashed_with_a_message_missing()
    only = life(stage, 3).deliveries[0]
    assert only.service is Service.SAFE
    assert life(stage, 3).confs[only.conf_no].transitional


def test_no_message_of_an_application_is_sent_before_the_ring_is_installed() -> None:
    """[SRP §6]"""
    stage = stage_of(1, 2, 3)
    sent_in: list[str] = []

    def see(processor: Processor, effect: Effect) -> None:
        if isinstance(effect, Broadcast) and effect.datagram[0] == wire.REGULAR:
            message = wire.decode_regular(effect.datagram)
            if not message.flags & 1:
                sent_in.append(machine_of(processor).state.value)
        if isinstance(effect, StateChange) and effect.state == "gather":
            processor.queue.submit_body(b"waits", Service.AGREED)

    stage.on_effect = see
    inject.strike(stage.world, Crash(0, 3))
    stage.run(100_000)
    assert set(sent_in) == {"operational"}
