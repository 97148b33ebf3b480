"""The commit token [SRP §5]."""

from evensong.core.ids import NO_PROCESSOR, NO_RING, RingId
from evensong.core.totem.commit import convert, entry_of, is_turn_of, propose, successor_of
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.recovery import Recovery
from tests.core.totem.bench import entry, message

OLD = RingId(8, 1)
NEW = RingId(12, 1)


def old_ring(*seqs: int, my_id: int = 2) -> Ring:
    ring = Ring(OLD, (1, 2, 3), my_id, 1, Parameters())
    for seq in seqs:
        ring.buffer.add(seq, message(OLD, seq, 1))
    return ring


def test_a_proposal_is_empty_and_in_ring_order() -> None:
    commit = propose(NEW, (1, 2, 5))
    assert commit.member_ids() == (1, 2, 5)
    assert (commit.rotation, commit.token_seq, commit.memb_index()) == (1, 0, 0)
    assert all(one.old_ring_id == NO_RING and not one.filled for one in commit.memb)


def test_an_entry_tells_what_a_member_has_of_its_old_ring() -> None:
    ring = old_ring(1, 2, 5)
    ring.high_delivered = 1
    told = entry_of(ring)
    assert told.filled
    assert (told.member_id, told.old_ring_id) == (2, OLD)
    assert (told.my_aru, told.high_delivered, told.high_received) == (2, 1, 5)
    assert told.obligation == {2}
    assert not told.received_flg


def test_what_an_earlier_pass_taught_and_promised_is_told_again() -> None:
    ring = old_ring(1, 2)
    ring.ending.high_ring_delivered = 2
    ring.ending.received_flg = True
    ring.ending.deliver_memb = frozenset([2, 3])
    told = entry_of(ring)
    assert told.high_delivered == 2
    assert told.received_flg
    assert told.obligation == {2, 3}


def test_a_member_fills_its_entry_when_all_before_it_have() -> None:
    commit = propose(NEW, (1, 2, 3))
    assert [is_turn_of(member, commit) for member in (1, 2, 3)] == [True, False, False]
    commit.memb[0] = entry(1, OLD)
    assert [is_turn_of(member, commit) for member in (1, 2, 3)] == [False, True, False]
    commit.rotation = 2
    assert not is_turn_of(2, commit)


def test_the_commit_token_goes_round_by_ascending_id() -> None:
    commit = propose(NEW, (1, 2, 5))
    assert [successor_of(member, commit) for member in (1, 2, 5)] == [2, 5, 1]


def test_conversion_makes_a_new_rings_first_token() -> None:
    commit = propose(NEW, (1, 2))
    commit.memb[:] = [entry(1, OLD, my_aru=2), entry(2, OLD, my_aru=2)]
    commit.timestamp = 77
    token = convert(Recovery(commit, old_ring(1, 2, my_id=1)), 1)
    assert token.ring_id == NEW
    assert (token.token_seq, token.seq, token.aru, token.fcc, token.backlog) == (0, 0, 0, 0, 0)
    assert (token.aru_id, token.rtr) == (NO_PROCESSOR, [])
    assert (token.retrans_flg, token.retrans_setter) == (False, NO_PROCESSOR)
    assert token.timestamp == 77


def test_who_converts_with_messages_to_exchange_says_so() -> None:
    commit = propose(NEW, (1, 2))
    commit.memb[:] = [entry(1, OLD, my_aru=2), entry(2, OLD, my_aru=1)]
    token = convert(Recovery(commit, old_ring(1, 2, my_id=1)), 1)
    assert (token.retrans_flg, token.retrans_setter) == (True, 1)
