"""The rules of consensus one by one [SRP §5], and damping (docs/deviations.md#damping)."""

from random import Random

import pytest

from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem.frames import Join
from evensong.core.totem.membership import Membership, Strangers, Weight
from evensong.core.totem.parameters import Parameters

PARAMETERS = Parameters()
BEACON = PARAMETERS.beacon


def membership_of(*members: int, my_id: int = 2) -> Membership:
    membership = Membership(my_id)
    membership.install(members)
    return membership


def join(sender: int, proc: set[int], fail: set[int] | None = None, ring_seq: int = 0) -> Join:
    return Join(sender, 1, frozenset(proc), frozenset(fail or set()), ring_seq)


# -- weighing --------------------------------------------------------------------------------


def test_equal_sets_agree() -> None:
    membership = membership_of(1, 2, 3)
    assert membership.weigh(join(1, {1, 2, 3})) is Weight.AGREES
    assert not membership.has_consensus()
    assert membership.weigh(join(3, {1, 2, 3})) is Weight.AGREES
    assert membership.has_consensus()


def test_subsets_are_no_news() -> None:
    membership = membership_of(1, 2, 3)
    membership.fail(1)
    assert membership.weigh(join(3, {2, 3})) is Weight.BEHIND
    assert membership.weigh(join(3, {1, 2, 3})) is Weight.BEHIND
    assert 3 not in membership.agreed


def test_a_processor_held_to_have_failed_is_not_heard() -> None:
    membership = membership_of(1, 2, 3)
    membership.fail(1)
    assert membership.weigh(join(1, {1, 2, 3, 4})) is Weight.IGNORED
    assert membership.proc_set == {1, 2, 3}


def test_new_processors_are_news() -> None:
    membership = membership_of(1, 2)
    assert membership.weigh(join(5, {4, 5})) is Weight.NEWS
    assert membership.proc_set == {1, 2, 4, 5}
    assert membership.fail_set == frozenset()


def test_a_member_of_my_ring_is_believed_about_failures() -> None:
    membership = membership_of(1, 2, 3)
    assert membership.weigh(join(1, {1, 2, 3}, {3})) is Weight.NEWS
    assert membership.fail_set == {3}


def test_an_outsider_may_not_break_up_my_ring() -> None:
    membership = membership_of(1, 2, 3)
    assert membership.weigh(join(5, {1, 2, 3, 5, 6}, {3, 6})) is Weight.NEWS
    assert membership.fail_set == {6}


def test_who_accuses_me_is_held_to_have_failed_and_i_am_not() -> None:
    membership = membership_of(1, 2, 3)
    assert membership.weigh(join(1, {1, 2, 3}, {2})) is Weight.NEWS
    assert membership.fail_set == {1}
    assert 2 in membership.proposed()


def test_who_accuses_me_and_others_is_believed_about_nobody() -> None:
    membership = membership_of(1, 2, 3)
    membership.weigh(join(1, {1, 2, 3}, {2, 3}))
    assert membership.fail_set == {1}


def test_the_largest_ring_seq_is_remembered_whatever_else_a_join_says() -> None:
    membership = membership_of(1, 2, 3)
    membership.fail(1)
    for seq, said in enumerate(
        [join(3, {2, 3}, ring_seq=7), join(3, {1, 2, 3}, {1}, 8), join(1, {1, 9}, ring_seq=9)], 7
    ):
        membership.weigh(said)
        assert membership.max_join_seq == seq
    membership.weigh(join(3, {2, 3}, ring_seq=1))
    assert membership.max_join_seq == 9


def test_a_proposal_beyond_the_largest_ring_is_ignored_as_a_whole() -> None:
    membership = membership_of(1, 2)
    crowd = set(range(1, PROCESSORS_MAX + 1))
    assert membership.weigh(join(200, {*crowd, 200} - {1}, ring_seq=99)) is Weight.IGNORED
    assert membership.max_join_seq == 0
    assert membership.weigh(join(5, crowd)) is Weight.NEWS
    assert not membership.can_add(200)
    assert membership.can_add(5)


def test_sets_only_grow_until_a_ring_is_installed() -> None:
    membership = membership_of(1, 2, 3)
    membership.weigh(join(3, {1, 2, 3, 4}, {1}))
    membership.begin_round()
    membership.weigh(join(4, {2, 4}))
    membership.begin_round()
    assert membership.proc_set == {1, 2, 3, 4}
    assert membership.fail_set == {1}
    assert membership.install((2, 3)) == {1, 4}
    assert membership.proc_set == {2, 3}
    assert membership.fail_set == frozenset()


# -- rounds ----------------------------------------------------------------------------------


def test_consensus_needs_everybody_proposed() -> None:
    membership = membership_of(1, 2, 3)
    membership.weigh(join(1, {1, 2, 3}))
    assert not membership.has_consensus()
    membership.fail(3)
    assert membership.has_consensus()


def test_a_join_heard_just_before_i_changed_is_not_lost() -> None:
    membership = membership_of(1, 2)
    membership.weigh(join(3, {1, 2, 3}))
    membership.begin_round()
    assert membership.agreed == {2, 3}


def test_a_round_forgets_who_agreed_to_something_else() -> None:
    membership = membership_of(1, 2, 3)
    membership.weigh(join(1, {1, 2, 3}))
    membership.add(4)
    membership.begin_round()
    assert membership.agreed == {2}


def test_the_silent_are_given_up_and_their_joins_forgotten() -> None:
    membership = membership_of(1, 2, 3)
    membership.weigh(join(1, {1, 2, 3, 4}))
    membership.begin_round()
    assert membership.fail_silent() == {3, 4}
    assert membership.proposed() == (1, 2)
    assert not membership.last_joins


def test_nobody_holds_himself_to_have_failed() -> None:
    with pytest.raises(AssertionError):
        membership_of(1, 2).fail(2)


# -- failed attempts -------------------------------------------------------------------------


def test_past_the_limit_of_attempts_the_highest_other_id_is_blamed() -> None:
    membership = membership_of(1, 2, 3)
    members = membership.proposed()
    assert [membership.count_failed_attempt(members, 2) for _ in range(3)] == [0, 0, 3]
    assert membership.fail_set == {3}


def test_the_highest_does_not_blame_itself() -> None:
    membership = membership_of(1, 2, 3, my_id=3)
    assert membership.count_failed_attempt((1, 2, 3), 0) == 2
    assert membership.fail_set == {2}


def test_attempts_count_per_membership() -> None:
    membership = membership_of(1, 2, 3)
    membership.count_failed_attempt((1, 2, 3), 1)
    assert membership.count_failed_attempt((2, 3), 1) == 0
    assert membership.count_failed_attempt((1, 2, 3), 1) == 3


def test_who_is_alone_blames_nobody() -> None:
    membership = membership_of(2)
    assert membership.count_failed_attempt((2,), 0) == 0


def test_a_failed_attempt_forgets_agreements() -> None:
    membership = membership_of(1, 2)
    membership.weigh(join(3, {1, 2, 3}))
    membership.count_failed_attempt(membership.proposed(), 2)
    membership.begin_round()
    assert membership.agreed == {2}


def test_an_installation_forgets_attempts_and_joins() -> None:
    membership = membership_of(1, 2)
    membership.weigh(join(3, {1, 2, 3}))
    membership.count_failed_attempt((1, 2, 3), 1)
    membership.install((1, 2, 3))
    assert not membership.failed_attempts
    assert not membership.last_joins
    assert membership.agreed == {2}
    assert membership.my_memb == {1, 2, 3}


# -- strangers -------------------------------------------------------------------------------


def strangers() -> Strangers:
    return Strangers(PARAMETERS, Random(1))


def test_a_processor_that_was_never_missed_is_heard() -> None:
    assert not strangers().is_quiet(9, 0)
    assert not strangers().is_shut_out(9, 0)


def test_a_missed_processor_is_left_alone_for_one_to_two_beacons() -> None:
    known = strangers()
    known.missed(frozenset([9]), 0)
    assert known.is_quiet(9, BEACON - 1)
    assert not known.is_quiet(9, 2 * BEACON)
    assert not known.is_shut_out(9, 0)


def test_damping_doubles_up_to_sixteen_beacons() -> None:
    known = strangers()
    for factor in (1, 2, 4, 8, 16, 16, 16):
        known.missed(frozenset([9]), 0)
        assert known.is_quiet(9, factor * BEACON - 1)
        assert not known.is_quiet(9, 2 * factor * BEACON)


def test_past_the_limit_of_formations_its_joins_are_shut_out_too() -> None:
    known = strangers()
    for _ in range(PARAMETERS.form_retry_limit):
        known.missed(frozenset([9]), 0)
        assert not known.is_shut_out(9, 0)
    known.missed(frozenset([9]), 1_000)
    assert known.is_shut_out(9, 1_000 + 16 * BEACON - 1)
    assert not known.is_shut_out(9, 1_000 + 16 * BEACON)


def test_who_came_is_forgiven() -> None:
    known = strangers()
    for _ in range(5):
        known.missed(frozenset([8, 9]), 0)
    known.came((1, 9))
    assert not known.is_quiet(9, 0)
    assert known.is_quiet(8, 0)
    known.missed(frozenset([9]), 0)
    assert not known.is_quiet(9, 2 * BEACON)


def test_no_more_strangers_are_kept_than_a_ring_can_have() -> None:
    known = strangers()
    for stranger in range(1, 3 * PROCESSORS_MAX):
        known.missed(frozenset([stranger]), 0)
    assert len(known.strangers) == PROCESSORS_MAX
    assert not known.is_quiet(1, 0)
