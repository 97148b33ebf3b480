"""The state x event table, cell by cell [SRP §5]: joins, commit tokens and departures."""

import pytest

from evensong.core.effects import StateChange, Unicast
from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.core.totem.commit import propose
from evensong.core.totem.membership import RING_SEQ_LEAP
from evensong.core.totem.states import State
from tests.core.totem.bench import (
    Desk,
    commits,
    entry,
    join_from,
    joins,
    reach,
    tokens,
)
from tests.core.totem.table import (
    COMMIT,
    GATHER,
    OPERATIONAL,
    RECOVERY,
    STRANGER,
    cell,
    commit_for,
    commit_from,
    dropped,
    in_states,
)

# -- joins -----------------------------------------------------------------------------------


@cell("join", OPERATIONAL)
@pytest.mark.parametrize("proc_set", [{STRANGER}, {1, 2, 3, STRANGER}, {1, 3, STRANGER}])
def test_a_strangers_join_ends_the_ring(proc_set: set[int]) -> None:
    _, desk = reach(OPERATIONAL)
    effects = desk.receive(join_from(STRANGER, proc_set))
    assert desk.state is GATHER
    assert joins(effects)[0].proc_set == {1, 2, 3, STRANGER}


def test_a_members_join_of_now_ends_the_ring() -> None:
    _, desk = reach(OPERATIONAL)
    desk.receive(join_from(3, {1, 2, 3}, ring_seq=desk.machine.my_ring_id.seq))
    assert desk.state is GATHER


def test_a_members_join_of_the_formation_of_this_very_ring_is_dropped() -> None:
    _, desk = reach(OPERATIONAL)
    ring_seq = desk.machine.my_ring_id.seq - 1
    datagram = join_from(3, {1, 2, 3}, ring_seq=ring_seq)
    assert dropped(desk, datagram, "join of an earlier formation")


def test_a_join_against_me_does_not_end_my_ring() -> None:
    _, desk = reach(OPERATIONAL)
    datagram = join_from(3, {1, 2, 3}, {2}, ring_seq=99)
    assert dropped(desk, datagram, "join against me")


def test_a_join_too_large_to_be_followed_does_not_end_my_ring() -> None:
    _, desk = reach(OPERATIONAL)
    crowd = set(range(50, 50 + 128))
    assert dropped(desk, join_from(50, crowd), "join ignored")


@in_states(*State)
def test_a_ring_seq_that_leaps_ahead_is_followed_step_by_step(state: State) -> None:
    _, desk = reach(state)
    known = desk.machine.membership.max_join_seq
    desk.receive(join_from(3, {1, 2, 3, 4}, ring_seq=known + 3 * RING_SEQ_LEAP))
    assert desk.machine.membership.max_join_seq in (known, known + RING_SEQ_LEAP)


@cell("join", GATHER)
def test_in_gather_news_starts_the_round_afresh() -> None:
    _, desk = reach(GATHER)
    desk.now += 2_000
    effects = desk.receive(join_from(3, {1, 2, 3, 4}))
    assert desk.state is GATHER
    assert joins(effects)[0].proc_set == {1, 2, 3, 4}
    assert desk.machine.timers.consensus.deadline == desk.now + 8_000


def test_in_gather_a_join_without_news_is_dropped() -> None:
    _, desk = reach(GATHER)
    assert dropped(desk, join_from(3, {2, 3}), "join without news")


def test_the_representative_sends_the_commit_token_when_all_agree() -> None:
    _, rep = reach(GATHER, node=1)
    assert rep.receive(join_from(2, {1, 2, 3}, ring_seq=40)) == []
    effects = rep.receive(join_from(3, {1, 2, 3}))
    assert rep.state is COMMIT
    commit = commits(effects)[0]
    assert commit.ring_id == RingId(44, 1)
    assert commit.member_ids() == (1, 2, 3)
    assert commit.memb_index() == 1
    assert [one.to for one in effects if isinstance(one, Unicast)] == [2]


def test_who_is_not_the_representative_waits_for_the_commit_token() -> None:
    _, desk = reach(GATHER)
    desk.receive(join_from(1, {1, 2, 3}))
    desk.receive(join_from(3, {1, 2, 3}))
    assert desk.state is GATHER
    assert not desk.machine.timers.consensus.is_armed()
    assert desk.machine.timers.token_loss.deadline == desk.now + 15_000


def test_repeated_agreement_does_not_extend_the_wait_for_the_commit_token() -> None:
    _, desk = reach(GATHER)
    desk.receive(join_from(1, {1, 2, 3}))
    desk.receive(join_from(3, {1, 2, 3}))
    deadline = desk.machine.timers.token_loss.deadline
    desk.now += 2_000
    desk.receive(join_from(3, {1, 2, 3}))
    assert desk.machine.timers.token_loss.deadline == deadline


@cell("join", COMMIT, RECOVERY)
@in_states(COMMIT, RECOVERY)
def test_a_member_that_gave_the_forming_ring_up_throws_it_back_to_gather(state: State) -> None:
    _, desk = reach(state)
    machine = desk.machine
    desk.receive(join_from(3, {1, 2, 3}, ring_seq=machine.my_ring_id.seq))
    assert desk.state is GATHER
    assert machine.recovery is None
    assert machine.ring is machine.old


@in_states(COMMIT, RECOVERY)
def test_a_join_from_before_the_agreement_is_dropped(state: State) -> None:
    _, desk = reach(state)
    older = desk.machine.my_ring_id.seq - 1
    datagram = join_from(3, {1, 2, 3}, ring_seq=older)
    assert dropped(desk, datagram, "join of an earlier formation")


@in_states(COMMIT, RECOVERY)
def test_an_outsiders_join_waits_while_a_ring_forms(state: State) -> None:
    _, desk = reach(state)
    datagram = join_from(STRANGER, {1, 2, 3, STRANGER}, ring_seq=99)
    assert dropped(desk, datagram, "join of an earlier formation")


def quarantined() -> Desk:
    _, desk = reach(OPERATIONAL)
    for _ in range(3):
        desk.machine.strangers.missed(frozenset([STRANGER]), desk.now)
    return desk


def test_a_quarantined_processors_join_is_dropped() -> None:
    assert dropped(quarantined(), join_from(STRANGER, {STRANGER, 8}), "join in quarantine")
    against = join_from(STRANGER, {2, STRANGER}, {2})
    assert dropped(quarantined(), against, "join in quarantine")


def test_a_quarantined_processor_that_names_me_is_heard() -> None:
    desk = quarantined()
    desk.receive(join_from(STRANGER, {2, STRANGER}))
    assert desk.state is GATHER


# -- the commit token ------------------------------------------------------------------------


@cell("commit token", OPERATIONAL)
def test_who_is_operational_commits_to_nothing() -> None:
    _, desk = reach(OPERATIONAL)
    datagram = commit_from(1, commit_for(desk, 1, ring_seq=40))
    assert dropped(desk, datagram, "commit while operational")


@cell("commit token", GATHER)
def test_in_gather_the_commit_token_of_my_proposal_is_filled_and_passed_on() -> None:
    _, desk = reach(GATHER)
    effects = desk.receive(commit_from(1, commit_for(desk, 1)))
    assert desk.state is COMMIT
    commit = commits(effects)[0]
    assert commit.memb_index() == 2
    assert commit.memb[1].old_ring_id == desk.machine.old.ring_id
    assert [one.to for one in effects if isinstance(one, Unicast)] == [3]
    assert desk.machine.my_ring_id == commit.ring_id


@pytest.mark.parametrize(
    ("filled", "rotation", "ring_seq"),
    [(0, 1, 0), (2, 1, 0), (3, 2, 0), (1, 1, 8), (1, 1, 2 * RING_SEQ_LEAP)],
)
def test_in_gather_a_commit_token_that_is_not_mine_to_fill_is_dropped(
    filled: int, rotation: int, ring_seq: int
) -> None:
    _, desk = reach(GATHER)
    datagram = commit_from(1, commit_for(desk, filled, rotation, ring_seq))
    assert dropped(desk, datagram, "commit of another proposal")


def test_a_commit_token_that_was_forwarded_more_often_than_can_be_is_dropped() -> None:
    _, desk = reach(GATHER)
    worn = commit_for(desk, 1)
    worn.token_seq = 4
    assert dropped(desk, commit_from(1, worn), "commit of another proposal")
    _, desk = reach(COMMIT)
    worn = commit_for(desk, 3, 2)
    worn.token_seq = 7
    assert dropped(desk, commit_from(1, worn), "commit that cannot be")


def test_in_gather_a_commit_token_of_other_members_is_dropped() -> None:
    _, desk = reach(GATHER)
    other = propose(RingId(40, 1), (1, 2, 3, 4))
    other.memb[0] = entry(1, desk.machine.old.ring_id)
    assert dropped(desk, commit_from(1, other), "commit of another proposal")


@cell("commit token", COMMIT)
def test_the_commit_token_that_comes_again_full_begins_recovery() -> None:
    _, desk = reach(COMMIT)
    effects = desk.receive(commit_from(1, commit_for(desk, 3, 2)))
    assert desk.state is RECOVERY
    assert [one.rotation for one in commits(effects)] == [2]


def test_the_representative_begins_the_second_rotation() -> None:
    _, rep = reach(COMMIT, node=1)
    effects = rep.receive(commit_from(3, commit_for(rep, 3, 1)))
    assert rep.state is RECOVERY
    assert [one.rotation for one in commits(effects)] == [2]


@pytest.mark.parametrize(("filled", "rotation"), [(1, 1), (2, 1), (3, 1)])
def test_in_commit_a_commit_token_seen_before_is_dropped(filled: int, rotation: int) -> None:
    _, desk = reach(COMMIT)
    datagram = commit_from(1, commit_for(desk, filled, rotation))
    assert dropped(desk, datagram, "commit seen before")


def test_in_commit_another_rings_commit_token_is_dropped() -> None:
    _, desk = reach(COMMIT)
    datagram = commit_from(1, commit_for(desk, 3, 2, ring_seq=400))
    assert dropped(desk, datagram, "commit seen before")


@pytest.mark.parametrize("members", [(1, 2), (1, 2, 3, 4)])
def test_in_commit_a_commit_token_whose_members_changed_on_the_way_is_dropped(
    members: tuple[int, ...],
) -> None:
    _, desk = reach(COMMIT)
    other = propose(desk.machine.my_ring_id, members)
    other.memb[:] = [entry(member, desk.machine.old.ring_id) for member in members]
    other.rotation = 2
    assert dropped(desk, commit_from(1, other), "commit that cannot be")


@in_states(GATHER, COMMIT, RECOVERY)
def test_a_commit_token_that_does_not_come_from_the_member_before_me_is_dropped(
    state: State,
) -> None:
    _, desk = reach(state)
    commit = commit_for(desk, 1) if state is GATHER else commit_for(desk, 3, 2)
    assert dropped(desk, commit_from(3, commit), "commit from elsewhere")
    without_me = propose(desk.machine.my_ring_id, (1, 3))
    assert dropped(desk, commit_from(1, without_me), "commit from elsewhere")


def test_in_commit_a_commit_token_that_lost_my_entry_is_dropped() -> None:
    _, desk = reach(COMMIT)
    other = commit_for(desk, 3, 2)
    other.memb[1] = entry(2, RingId(4, 2))
    assert dropped(desk, commit_from(1, other), "commit that cannot be")


@cell("commit token", RECOVERY)
def test_the_representative_makes_the_commit_token_the_new_rings_token_once() -> None:
    _, rep = reach(RECOVERY, node=1)
    full = commit_from(3, commit_for(rep, 3, 2))
    effects = rep.receive(full)
    assert [one.ring_id for one in tokens(effects)] == [rep.machine.my_ring_id]
    assert dropped(rep, full, "commit seen before")


def test_in_recovery_others_drop_the_commit_token() -> None:
    _, desk = reach(RECOVERY)
    assert dropped(desk, commit_from(1, commit_for(desk, 3, 2)), "commit seen before")


def test_a_ring_seq_is_durable_before_anybody_hears_of_it() -> None:
    _, desk = reach(GATHER)
    kinds = [type(one).__name__ for one in desk.receive(commit_from(1, commit_for(desk, 1)))]
    assert "Persist" not in kinds  # the ceiling is far above
    _, desk = reach(GATHER)
    kinds = [
        type(one).__name__
        for one in desk.receive(commit_from(1, commit_for(desk, 1, ring_seq=5_000)))
    ]
    assert "Persist" in kinds
    assert kinds.index("Persist") < kinds.index("Unicast")


# -- leaving ---------------------------------------------------------------------------------


@cell("leave", *State)
@in_states(*State)
def test_a_processor_that_departs_is_held_to_have_failed(state: State) -> None:
    _, desk = reach(state)
    effects = desk.receive(wire.encode_leave(desk.machine.my_ring_id, 3, 1))
    assert desk.state is GATHER
    assert desk.machine.membership.fail_set == {3}
    assert [one.cause for one in effects if isinstance(one, StateChange)] == ["leave"]


@in_states(*State)
def test_the_departure_of_a_stranger_or_of_long_ago_is_nothing_to_us(state: State) -> None:
    _, desk = reach(state)
    ring_id = desk.machine.my_ring_id
    assert dropped(desk, wire.encode_leave(ring_id, STRANGER, 1), "leave of somebody else")
    assert dropped(desk, wire.encode_leave(RingId(4, 3), 3, 1), "leave of somebody else")


def test_who_leaves_an_installed_ring_names_it() -> None:
    _, desk = reach(State.OPERATIONAL)
    seq, rep = desk.machine.my_ring_id
    for ring_id in (RingId(seq + 4, rep), RingId(seq, rep + 1)):
        assert dropped(desk, wire.encode_leave(ring_id, 3, 1), "leave of somebody else")
