"""Sentences of the paper on Transis, in our words, each proved on a small broadcast domain.

[Transis] is in docs/papers.md. Messages are written as there: `a2B1` is B's first, which
acknowledges A's second; see `tests/core/transis/chains.py`.
"""

from itertools import pairwise, permutations

import pytest

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.core.transis import wire
from evensong.core.transis.frames import AJ, IN_GRAPH, JOIN, NACK, PING, REGULAR, RETR, Message
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.states import State
from evensong.core.transis.window import BLOCKED, Window
from evensong.sim.faults import Heal, Partition, Restart
from tests.core.transis.chains import Place
from tests.sim.transis.stage import Stage

CALM = {"heartbeat": 200_000, "collect": 400_000, "agree": 800_000}  # nothing but what is told


def stage_of(*nodes: ProcessorId, **parameters: int) -> Stage:
    stage = Stage(*nodes, **parameters)
    stage.form()
    stage.datagrams.clear()
    return stage


def said(stage: Stage, *kinds: int) -> list[tuple[ProcessorId, bytes]]:
    """Return what was broadcast of some kinds since the view was formed, and by whom."""
    heads = [(wire.decode_head(datagram), datagram) for datagram in stage.datagrams]
    return [(head.transmitter, datagram) for head, datagram in heads if head.kind in kinds]


def messages(stage: Stage, *kinds: int) -> list[Message]:
    """Return the messages of the graph that were broadcast; without kinds, all."""
    found = said(stage, *(kinds or IN_GRAPH))
    return [wire.decode_message(datagram[wire.HEAD.size :], 0) for _, datagram in found]


def state_of(stage: Stage, node: ProcessorId) -> State:
    return stage.core(node).machine.state


# -- services [Transis §3] --------------------------------------------------------------------


def test_a_basic_message_is_delivered_as_soon_as_it_is_received() -> None:
    """[Transis §3]"""
    assert Place(3).hear("a1B2-") == "B2"  # neither A1 nor B1 is here


def test_what_a_processor_sent_or_received_before_a_message_is_delivered_before_it() -> None:
    """[Transis §3]"""
    place = Place(3)
    assert place.hear("b1C1~") == ""  # C had received B1
    assert place.hear("B2~") == ""  # B had sent B1
    assert place.hear("B1~") == "B1 B2 C1"


def test_a_causal_message_is_delivered_when_all_its_predecessors_have_been() -> None:
    """[Transis §3.1]"""
    place = Place(5)
    assert place.hear("A1 a1B1~ B2~") == ""  # A1 has its place in the order when half have voted
    assert place.hear("a1C1.") == "A1 B1 B2"


def test_causal_messages_that_have_nothing_to_do_with_each_other_need_not_wait() -> None:
    """[Transis §3]"""
    assert Place(3).hear("B1~ C1~") == "B1 C1"
    assert Place(3).hear("C1~ B1~") == "C1 B1"


def test_agreed_messages_come_in_one_order_also_those_sent_concurrently() -> None:
    """[Transis §3]"""
    stage = stage_of(1, 2, 3, 4)
    for n in range(5):
        for node in (4, 3, 2, 1):
            stage.send(node, f"{n} of {node}")
        stage.run(300)
    stage.run(50_000)
    assert len(stage.delivered[1]) == 20
    assert len({tuple(order) for order in stage.delivered.values()}) == 1


def test_the_agreed_order_is_consistent_with_the_causal_one() -> None:
    """[Transis §3]"""
    place = Place(3)
    told = place.hear("C1 c1B1 b1A1 a1C2. c2A2. c2B2.")
    assert told == "C1 B1 A1"  # by name it would be A1 B1 C1


def test_an_agreed_message_takes_at_best_half_of_the_processors_and_one_more() -> None:
    """[Transis §3.1]"""
    place = Place(5)
    assert place.hear("A1 a1B1.") == ""  # two have spoken
    assert place.hear("a1C1.") == "A1"  # three have


def test_a_safe_message_is_delivered_when_everybody_has_acknowledged_it() -> None:
    """[Transis §3]"""
    place = Place(3)
    assert place.hear("A1! a1B1.") == ""
    assert place.hear("b1C1.") == "A1"  # through B's


def test_the_safe_service_does_not_block_when_a_processor_crashes() -> None:
    """[Transis §3]"""
    stage = stage_of(1, 2, 3)
    stage.crash(3)
    stage.send(1, "after all", service=Service.SAFE)
    stage.run(10_000)
    assert stage.delivered[1] == stage.delivered[2] == []
    stage.run(500_000)
    assert stage.delivered[1] == stage.delivered[2] == ["after all'"]  # safe for those who are left
    assert stage.views[1][-1] == (1, 2)


# -- the protocol [Transis §3.1] --------------------------------------------------------------


def test_a_message_is_transmitted_once_for_all_destinations() -> None:
    """[Transis §3.1]"""
    stage = stage_of(1, 2, 3, 4, 5)
    stage.send(2, "all of you")
    stage.run(50_000)
    assert [len(order) for order in stage.delivered.values()] == [1] * 5
    assert [source for source, _ in said(stage, REGULAR, RETR)] == [2]


def test_every_processor_numbers_its_messages_without_gaps() -> None:
    """[Transis §3.1]"""
    stage = stage_of(1, 2, 3)
    stage.send(1, "a", "b", "c")
    stage.send(2, "d")
    stage.run(50_000)
    for node in (1, 2, 3):
        counters = [one.counter for one in messages(stage) if one.sender_id == node]
        assert counters == [*range(counters[0], counters[0] + len(counters))]


def test_an_acknowledgement_is_sent_once_and_a_chain_of_them_acknowledges_the_rest() -> None:
    """[Transis §3.1]"""
    place = Place(3, me="C")
    place.hear("A1~ A2~ a2B1~ B2~ B3~")
    assert place.view.graph.acks_of(2) == ((2, 3),)  # b3 stands for A1, A2, B1 and B2
    place.hear("b3C1~")
    assert place.view.graph.acks_of(2) == ()  # nothing is left to be acknowledged


def test_a_loss_is_seen_by_what_others_acknowledge() -> None:
    """[Transis §3.1]"""
    place = Place(3)
    assert place.hear("A1~ A2~ a2B1~ B2~ b3C1~") == "A1 A2 B1 B2"
    assert place.view.graph.missing(1, 99, 9) == [(3, 3)]  # B3, of which only C1 tells


def test_what_is_missing_is_asked_for_and_any_participant_sends_it_again() -> None:
    """[Transis §3.1]"""
    stage = stage_of(1, 2, 3, **CALM)
    stage.rule("drop", "regular", source=2, target=3)
    stage.send(2, "lost")
    stage.run(1_000)
    stage.crash(2)  # who cannot answer any more
    stage.send(1, "said after it")
    stage.run(30_000)
    assert [source for source, _ in said(stage, NACK)] == [3]
    assert [source for source, _ in said(stage, RETR)] == [1]
    (again,) = messages(stage, RETR)
    assert again.frame in [one.frame for one in messages(stage, REGULAR)]  # the very same


def test_what_could_be_delivered_is_acknowledged_not_what_was_received() -> None:
    """[Transis §3.1]"""
    place = Place(3, me="C")
    place.hear("B1~ A2~")  # A1 is missing
    assert place.view.graph.acks_of(2) == ((2, 1),)
    place.hear("A1~")
    assert place.view.graph.acks_of(2) == ((1, 2), (2, 1))


def test_all_see_the_same_graph_however_it_is_revealed_to_them() -> None:
    """[Transis §3.1]"""
    words = ["A1", "B1", "a1C1.", "b1C2!", "c2A2.", "a2B2."]
    for shuffled in permutations(words):
        place = Place(3)
        delivered = [place.hear(word) for word in shuffled]
        assert " ".join(filter(None, delivered)) == "A1 B1 C2"
        assert place.view.graph.inserted == [2, 2, 2]


@pytest.mark.parametrize("first", ["A1 B1 a1C1. b1C2.", "B1 A1 a1C1. b1C2.", "a1C1. b1C2. B1 A1"])
def test_delivery_depends_on_the_graph_alone_and_on_no_time(first: str) -> None:
    """[Transis §3.1]"""
    assert Place(3).hear(first) == "A1 B1"


def test_a_message_that_everybody_has_is_discarded() -> None:
    """[Transis §3.1]"""
    place = Place(3)
    place.hear("A1 a1B1.")
    assert place.view.graph.held(0, 1) is not None
    place.hear("b1C1.")
    assert place.view.graph.held(0, 1) is None


def test_the_window_is_of_the_messages_of_all_that_not_all_have() -> None:
    """[Transis §3.1]"""
    place = Place(3)
    place.hear("A1 B1 B2 b2C1")
    assert place.view.graph.window == 4
    place.hear("a1B3.")
    assert place.view.graph.window == 4  # of A it is known to B, and not to C
    place.hear("b3C2. b2A2. c2A3.")
    assert place.view.graph.window == 1  # C1, of which B has said nothing


def test_the_delay_grows_with_the_window_from_nothing_to_for_ever() -> None:
    """[Transis §3.1]"""
    window = Window(Parameters(), 3)
    delays = [window.delay(size, 0) for size in range(65)]
    assert delays[0] == 0
    assert delays[:64] == sorted(delays[:64])
    assert delays[63] > 0
    assert delays[64] == BLOCKED


def test_when_losses_occur_it_slows_down() -> None:
    """[Transis §3.1]"""
    window = Window(Parameters(), 3)
    before = window.delay(24, 0)
    window.on_loss()
    assert window.delay(24, 0) > before


def test_a_window_that_is_stuck_is_released_by_the_membership() -> None:
    """[Transis §3.1]"""
    stage = stage_of(1, 2, 3, w_low=2, w_high=6)
    stage.rule("drop", "regular", target=3)  # 3 speaks, and has nothing to acknowledge
    stage.rule("drop", "retr", target=3)
    stage.send(1, *[f"{n}" for n in range(20)])
    stage.run(20_000)
    assert len(messages(stage, REGULAR)) < 20
    stage.run(400_000)
    assert stage.delivered[1][-1] == stage.delivered[2][-1] == "19"
    assert (1, 2) in stage.views[1]


# -- membership [Transis §4] ------------------------------------------------------------------


def test_a_processor_that_comes_up_is_a_configuration_by_itself() -> None:
    """[Transis §4]"""
    stage = Stage(1, 2)
    assert stage.views == {1: [(1,)], 2: [(2,)]}


def test_a_processor_that_comes_up_again_repeats_no_identifier() -> None:
    """[Transis §1]"""
    stage = stage_of(1, 2)
    stage.run(100_000)
    stage.crash(2)
    stage.run(100_000)
    stage.strike(Restart(0, 2))
    stage.run(300_000)
    mine = {one.frame: one for one in messages(stage) if one.sender_id == 2}.values()
    names = [(one.incarnation, one.counter) for one in mine]
    assert len({life for life, _ in names}) == 2
    assert len(set(names)) == len(names)


def test_messages_are_taken_and_delivered_while_the_membership_changes() -> None:
    """[Transis §4]"""
    stage = stage_of(1, 2, 3)
    stage.crash(3)
    while state_of(stage, 1) is not State.AGREE:
        stage.run(100)
    stage.send(1, "meanwhile")
    stage.run(300_000)
    assert stage.delivered[1] == stage.delivered[2] == ["meanwhile"]


def test_a_break_is_told_to_the_others_and_nothing_is_installed_before_all_agree() -> None:
    """[Transis §4.1]"""
    stage = stage_of(1, 2, 3)
    stage.crash(3)
    stage.rule("hold", "join", target=1)
    while not said(stage, JOIN):
        stage.run(100)
    stage.run(2_000)
    for one in messages(stage, JOIN):
        assert one.proposal is not None
        assert [entry.proc for entry in one.proposal.failed] == [3]
    assert stage.views[1] == []  # 1 has heard of nobody else who agrees


def test_the_last_messages_of_who_failed_are_the_same_for_all_who_are_left() -> None:
    """[Transis §4.1]"""
    stage = stage_of(1, 2, 3)
    stage.rule("drop", "regular", source=3, target=2)
    stage.send(3, "my last", service=Service.CAUSAL)
    stage.run(300)
    stage.crash(3)
    stage.run(500_000)
    assert stage.views[1] == stage.views[2] == [(1, 2)]
    assert stage.delivered[1] == stage.delivered[2] == ["my last"]
    stage.finish()


def test_a_foreign_message_triggers_a_join_and_each_side_publishes_who_it_is() -> None:
    """[Transis §4.2]"""
    stage = stage_of(1, 2, 3, 4)
    stage.strike(Partition(0, ((1, 2), (3, 4))))
    stage.run(500_000)
    assert stage.views[1][-1] == (1, 2)
    stage.datagrams.clear()
    stage.strike(Heal(0))
    stage.run(500_000)
    published = {
        tuple(proc for proc, _ in wire.decode_attempt(datagram).members)
        for _, datagram in said(stage, AJ)
    }
    assert published == {(1, 2), (3, 4)}


def test_any_number_of_sets_of_any_size_join_at_once() -> None:
    """[Transis §4.2]"""
    stage = stage_of(1, 2, 3, 4, 5, 6)
    stage.strike(Partition(0, ((1, 2, 3), (4, 5), (6,))))
    stage.run(800_000)
    assert [stage.views[node][-1] for node in (1, 4, 6)] == [(1, 2, 3), (4, 5), (6,)]
    before = {node: len(views) for node, views in stage.views.items()}
    stage.strike(Heal(0))
    stage.run(800_000)
    for node, views in stage.views.items():
        assert views[-1] == (1, 2, 3, 4, 5, 6)
        assert len(views) == before[node] + 1  # in one step


def test_who_collects_is_not_committed() -> None:
    """[Transis §4.2]"""
    stage = stage_of(1, 2)
    core = stage.core(1)
    view_id = core.machine.view.view_id._replace(rep=77)
    core.receive(wire.encode_head(PING, 9, 1, view_id), stage.world.now)
    assert state_of(stage, 1) is State.COLLECT
    stage.send(2, "as ever")
    stage.run(200_000)  # nothing more is heard of it
    assert state_of(stage, 1) is State.STABLE
    assert stage.views == {1: [], 2: []}
    assert stage.delivered[1] == ["as ever"]


def test_a_join_set_moves_only_to_a_larger_one_and_when_all_agree_it_is_accepted() -> None:
    """[Transis §4.2]"""
    stage = Stage(1, 2, 3, 4, 5)
    stage.form()
    proposals: dict[tuple[int, int], list[Message]] = {}
    for one in messages(stage, JOIN):
        proposals.setdefault((one.sender_id, one.view_id.seq), []).append(one)
    accepted = []
    for published in proposals.values():
        sets = [set(one.proposal.joint) for one in published if one.proposal is not None]
        assert all(before <= after for before, after in pairwise(sets))
        accepted.append(published[-1].proposal)
    assert len(set(accepted)) == 1  # the last that each published is the very same


def test_halves_of_a_partition_go_on_by_themselves_and_merge() -> None:
    """[Transis §4.2]; fifty of them are in tests/scenarios/t04_fifty_part_and_join.txt"""
    stage = stage_of(1, 2, 3, 4)
    stage.strike(Partition(0, ((1, 2), (3, 4))))
    stage.run(500_000)
    stage.send(1, "left")
    stage.send(4, "right")
    stage.run(100_000)
    assert stage.delivered == {1: ["left"], 2: ["left"], 3: ["right"], 4: ["right"]}
    stage.strike(Heal(0))
    stage.run(500_000)
    assert all(views[-1] == (1, 2, 3, 4) for views in stage.views.values())
    stage.finish()
