"""Each invariant is seen to break where something is tampered with; the rest by mutants."""

from collections.abc import Callable

import pytest

from evensong.core.effects import Broadcast, Deliver, Install, Service
from evensong.core.ids import Configuration
from evensong.core.transis import wire
from evensong.core.transis.frames import NACK, NULL, Message, Nack, Proposal
from evensong.core.transis.view import Placed
from evensong.core.unit import UnitId, encode_unit
from evensong.errors import InvariantBroken
from evensong.sim.transis.oracle import WholeGraph
from tests.core.transis.chains import VIEW, message
from tests.core.transis.test_membership import A, B, join
from tests.sim.transis.stage import Stage


@pytest.fixture
def stage() -> Stage:
    made = Stage(1, 2, 3)
    made.form()
    made.send(1, "said")
    made.run(10_000)
    return made


def tampered(stage: Stage) -> Message:
    """Return my latest message with another content."""
    machine = stage.core(1).machine
    return wire.make_message(
        NULL,
        wire.NO_SERVICE,
        1,
        machine.incarnation,
        machine.view.view_id,
        machine.flow.counter,
        machine.flow.counter - 1,
        (),
        77,
        b"",
        None,
        False,
        0,
    )


def say_otherwise(stage: Stage) -> None:
    head = stage.core(1).machine.flow.head(NULL)
    stage.effect(stage.world.by_node[1], Broadcast(head + tampered(stage).frame))


def lengthen_the_past(stage: Stage) -> None:
    stage.run(30_000)
    graph = stage.core(1).machine.view.graph
    number = max(graph.nodes[0])
    graph.nodes[0][number].past[1] += 1
    stage.invariants.notes[1].inserted[0] = number - 1
    stage.stepped(stage.world.by_node[1])


def hold_what_nobody_sent(stage: Stage) -> None:
    stage.core(1).machine.view.graph.inserted[1] += 9
    stage.stepped(stage.world.by_node[1])


def delivery(stage: Stage, seq: int, service: Service) -> Deliver:
    view_id = stage.core(1).machine.view.view_id
    payload = encode_unit(UnitId(2, 1, 99), b"")
    return Deliver(view_id, [Placed(2, view_id, seq, service, 0, payload)], 0, after_gap=False)


def deliver_what_nobody_sent(stage: Stage) -> None:
    stage.effect(stage.world.by_node[1], delivery(stage, 0, Service.CAUSAL))


def skip_a_place(stage: Stage) -> None:
    stage.effect(stage.world.by_node[1], delivery(stage, 7, Service.AGREED))


def fill_the_window(stage: Stage) -> None:
    stage.core(1).machine.view.graph.window = 10**6
    stage.stepped(stage.world.by_node[1])


def give_myself_up(stage: Stage) -> None:
    agreement = stage.core(1).machine.agreement
    agreement.begin((), [agreement.me])
    stage.stepped(stage.world.by_node[1])


def install(stage: Stage, seq: int, members: tuple[int, ...]) -> None:
    old = stage.core(1).machine.view.view_id
    conf = Configuration(old._replace(seq=seq), old, members, transitional=False, cause="")
    stage.effect(stage.world.by_node[1], Install(conf))


def pass_over(stage: Stage, leap: int, members: tuple[int, ...]) -> None:
    here = stage.core(1).machine.view.view_id
    before = here._replace(seq=here.seq - leap)
    there = here._replace(seq=here.seq + 1)
    conf = Configuration(there, before, members, transitional=True, cause="")
    stage.effect(stage.world.by_node[1], Install(conf))


def ask_for_what_all_have(stage: Stage) -> None:
    stage.run(30_000)
    view = stage.core(2).machine.view
    assert view.graph.stable[0]
    datagram = wire.encode_nack(Nack(((1, 1, 1),)), stage.core(1).machine.flow.head(NACK))
    stage.effect(stage.world.by_node[1], Broadcast(datagram))


@pytest.mark.parametrize(
    ("invariant", "tamper"),
    [
        ("L2", say_otherwise),
        ("L3", lengthen_the_past),
        ("L4", hold_what_nobody_sent),
        ("L5", deliver_what_nobody_sent),
        ("L6", skip_a_place),
        ("L9", fill_the_window),
        ("L10", give_myself_up),
        ("L11", lambda stage: install(stage, 3, (1, 9))),
        ("L11", lambda stage: pass_over(stage, 1, (1,))),
        ("L11", lambda stage: pass_over(stage, 0, (1, 9))),
        ("L12", lambda stage: install(stage, 1, (1,))),
        ("L15", ask_for_what_all_have),
    ],
)
def test_what_is_tampered_with_breaks_its_invariant(
    stage: Stage, invariant: str, tamper: Callable[[Stage], None]
) -> None:
    if invariant == "L11":
        stage.invariants.view_nos[1] = 1
    with pytest.raises(InvariantBroken, match=f"^{invariant}: "):
        tamper(stage)


def test_who_passes_over_before_a_causal_message_that_others_have_in_the_view_is_seen(
    stage: Stage,
) -> None:
    stage.send(1, "because", service=Service.CAUSAL)
    stage.run(10_000)
    units = stage.invariants.notes[2].passing.units
    unit_id, view_id = max(units)
    units.remove((unit_id, view_id))
    units.add((unit_id, view_id._replace(seq=view_id.seq + 1)))
    stage.crash(3)
    with pytest.raises(InvariantBroken, match=r"^L11: .*delivered other messages"):
        stage.run(500_000)


@pytest.mark.parametrize("is_more", [True, False])
def test_who_leaves_a_view_with_more_or_less_than_its_cut_is_seen(
    stage: Stage, *, is_more: bool
) -> None:
    stage.send(2, "because", service=Service.CAUSAL)
    stage.run(10_000)
    for node in (1, 2):  # all who go on alike: nobody differs from anybody
        units = stage.invariants.notes[node].passing.units
        unit_id, view_id = max(units)
        if is_more:
            units.add((unit_id._replace(origin_no=99), view_id))
        else:
            units.remove((unit_id, view_id))
    stage.crash(3)
    with pytest.raises(InvariantBroken, match=r"^L11: .*leaves .* differs from that in"):
        stage.run(500_000)


def test_a_cut_is_the_past_of_some_messages() -> None:
    graph = WholeGraph(VIEW, ((1, 1), (2, 1), (3, 1)))
    for word in ("A1", "a1B1.", "C1-", "c1B2.", "B3!"):
        assert graph.add(message(word)) == ""
    assert graph.past_of([message("a1B1.")]) == [1, 1, 0]
    assert graph.past_of([message("c1B2."), message("A1")]) == [1, 2, 1]
    assert graph.units_in([1, 2, 1]) == {UnitId(1, 1, 1)}  # neither null messages nor BASIC ones
    assert graph.units_in([0, 3, 0]) == {UnitId(2, 1, 3)}


def test_another_order_than_the_votes_give_is_seen_in_the_end(stage: Stage) -> None:
    stage.send(2, "and", "so", "on")
    stage.run(20_000)
    found = stage.invariants.look_back()
    assert (found.checked, found.violations) == (4, [])
    (order,) = [one for one in stage.invariants.orders.values() if len(one) == 4]
    order[1], order[2] = order[2], order[1]
    (violation,) = stage.invariants.look_back().violations
    assert violation.property_id == "L7"
    order[1], order[2] = order[2], order[1]
    order.append(order[0])  # more than there is to be ordered
    (violation,) = stage.invariants.look_back().violations
    assert "but the votes give []" in violation.text


def test_the_whole_graph_refuses_what_cannot_be() -> None:
    graph = WholeGraph(VIEW, ((1, 1), (2, 1)))
    assert graph.add(message("A1")) == ""
    assert graph.add(message("a2B1")) == "acknowledges 1's 2, which does not exist"
    assert graph.add(message("A3")) == "number 3 after 1"
    assert graph.add(message("C1")) == "sent by who is no member"
    proposal = Proposal((A, B), ())
    assert graph.add(join(A, proposal, 2)) == ""
    assert graph.add(message("A3")) == "a regular message after its sender's JOIN"
