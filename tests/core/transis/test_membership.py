import pytest

from evensong.core.transis import wire
from evensong.core.transis.frames import JOIN, Entry, Message, Proposal
from evensong.core.transis.membership import (
    Agreement,
    Passage,
    next_view_id,
    passage_id,
    view_id_of,
)
from evensong.core.transis.parameters import Parameters
from tests.core.transis.chains import VIEW, Place

A, B, C, D = (Entry(proc, 1, VIEW.seq) for proc in range(1, 5))


def agreement(*mates: Entry) -> Agreement:
    made = Agreement(A, tuple(mates))
    made.begin((), ())
    return made


def publish(made: Agreement) -> Proposal:
    proposal = made.conclude()
    made.record(made.me, proposal, join(made.me, proposal))
    made.published.append(proposal)
    return proposal


def join(entry: Entry, proposal: Proposal, counter: int = 9) -> Message:
    return wire.make_message(
        JOIN,
        wire.NO_SERVICE,
        entry.proc,
        entry.incarnation,
        VIEW._replace(seq=entry.view_no),
        counter,
        0,
        (),
        0,
        b"",
        proposal,
        False,
        0,
    )


def test_it_takes_the_very_same_proposal_of_everybody_who_is_required() -> None:
    made = agreement(A, B, C)
    made.failed.add(C)
    proposal = publish(made)
    assert made.finals(proposal) is None
    made.record(B, Proposal((A, B, C), ()), join(B, Proposal((A, B, C), ())))
    assert made.finals(proposal) is None
    made.record(B, proposal, join(B, proposal))
    assert [one.sender_id for one in made.finals(proposal) or ()] == [1, 2]


def test_the_first_message_that_publishes_a_proposal_counts() -> None:
    made = agreement(A, B)
    proposal = publish(made)
    made.record(B, proposal, join(B, proposal, 3))
    made.record(B, proposal, join(B, proposal, 4))
    assert [one.counter for one in made.finals(proposal) or ()] == [9, 3]


def test_a_mates_word_on_who_has_failed_is_taken_over_and_a_foreigners_is_not() -> None:
    made = agreement(A, B, C)
    assert made.take_over(Proposal((A, B, C), (C,)), is_mate=True)
    assert made.failed == {C}
    assert made.take_over(Proposal((A, B, C, D), (B,)), is_mate=False)
    assert made.joint == {A, B, C, D}
    assert made.failed == {C}
    assert not made.take_over(Proposal((A, B), ()), is_mate=True)


def test_whom_a_later_life_outranks_has_failed() -> None:
    made = agreement(A, B)
    made.joint.add(B._replace(incarnation=2, view_no=1))
    assert publish(made).failed == (B,)


def test_other_entries_of_my_own_processor_have_failed() -> None:
    made = agreement(A, B)
    made.joint.add(A._replace(view_no=9))
    made.joint.add(A._replace(incarnation=2))
    assert publish(made).failed == (A._replace(view_no=9), A._replace(incarnation=2))


def test_a_wrong_entry_of_a_member_does_not_outrank_the_true_one() -> None:
    made = agreement(A, B)
    made.joint.add(B._replace(view_no=9))
    assert publish(made).failed == ()


def test_who_is_silent_is_late_and_who_only_lags_is_not() -> None:
    made = agreement(A, B, C, D)
    proposal = publish(made)
    lagging = Proposal(proposal.joint, ())
    made.failed.add(D)
    publish(made)
    made.record(C, lagging, join(C, lagging))
    assert made.late() == [B]
    made.record(B, lagging, join(B, lagging))
    assert made.late() == [B, C]  # nobody is silent: then time is up for all


def test_who_accuses_others_than_the_silent_lags_for_good() -> None:
    made = agreement(A, B, C, D)
    publish(made)
    accusing = Proposal((A, B, C, D), (D,))
    made.record(C, accusing, join(C, accusing))
    made.record(D, Proposal((A, B, C, D), ()), join(D, Proposal((A, B, C, D), ())))
    assert made.late() == [B, C]


def test_a_view_id_tells_two_agreements_of_one_round_apart() -> None:
    one = Proposal((A, B, C), (C,))
    other = Proposal((A, B, C), (B,))
    first = next_view_id(one, [join(A, one), join(B, one)])
    second = next_view_id(other, [join(A, other, 10), join(C, other)])
    assert first.seq == second.seq == VIEW.seq + 2
    assert first != second


def test_a_views_number_is_above_those_of_all_who_come_into_it() -> None:
    far = Entry(4, 1, 40)
    gone = Entry(5, 1, 90)
    proposal = Proposal((A, far, gone), (gone,))
    assert next_view_id(proposal, [join(A, proposal), join(far, proposal)]).seq == 42


def test_a_passage_has_a_name_of_its_own_between_two_views() -> None:
    proposal = Proposal((A, B, Entry(4, 1, 5)), ())
    mates = [join(A, proposal), join(B, proposal)]
    view_id = next_view_id(proposal, [*mates, join(Entry(4, 1, 5), proposal)])
    ours, theirs = passage_id(view_id, mates), passage_id(view_id, [join(Entry(4, 1, 5), proposal)])
    assert VIEW.seq < ours.seq == theirs.seq < view_id.seq
    assert ours != theirs


def test_who_is_heard_in_a_view_that_i_proposed_before_is_followed() -> None:
    view = Place(3).view
    view.graph.inserted[:] = [9, 9, 9]
    made = agreement(A, B, C)
    first = publish(made)
    for entry in (B, C):
        made.record(entry, first, join(entry, first))
    view_id = next_view_id(first, [join(entry, first) for entry in (A, B, C)])
    assert made.older(view_id, view) is None  # it is no earlier one yet
    made.joint.add(D)
    publish(made)
    older = made.older(view_id, view)
    assert older is not None
    assert older[0] == first
    assert made.older(view_id._replace(rep=1), view) is None
    made.failed.add(C)
    assert made.older(view_id, view) is None  # not with whom I have given up since
    made.failed.clear()
    view.graph.inserted[:] = [9, 9, 8]
    assert made.older(view_id, view) is None  # nor without its final in my graph


def test_a_final_whose_past_is_lost_is_out_of_reach() -> None:
    view = Place(3).view
    view.graph.inserted[:] = [9, 9, 8]
    made = agreement(A, B, C)
    proposal = publish(made)
    for entry in (B, C):
        made.record(entry, proposal, join(entry, proposal))
    assert made.late() == []
    assert made.out_of_reach(view) == [C]


def test_no_view_id_is_nobodys() -> None:
    assert view_id_of(3, [(1, 1, 1)]).rep != 0


@pytest.mark.parametrize(("now", "is_helped"), [(1_000, False), (3_001, True)])
def test_who_is_late_is_helped_when_it_can_know_better(now: int, is_helped: bool) -> None:
    proposal = Proposal((A, B), ())
    finals = [join(A, proposal), join(B, proposal)]
    passage = Passage(proposal, finals, 1_000, Parameters(nack_delay=2_000))
    assert passage.help_for(B, now) == (finals[:1] if is_helped else [])
    assert passage.help_for(B, now + 10) == []
    assert passage.help_for(C, 9_000) == []
    assert passage.help_for(B, now + 40_000) == finals[:1]
