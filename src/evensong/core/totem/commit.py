"""The commit token: proposed by the representative, it collects, then it tells [SRP §5]."""

from evensong.core.ids import NO_RING, ProcessorId, RingId
from evensong.core.totem.frames import CommitToken, MembEntry, RegularToken
from evensong.core.totem.ordering import Ring
from evensong.core.totem.recovery import Recovery


def propose(ring_id: RingId, members: tuple[ProcessorId, ...]) -> CommitToken:
    """Return a commit token that nobody has filled yet."""
    nobody = frozenset[ProcessorId]()
    memb = [MembEntry(member, False, NO_RING, 0, 0, 0, False, nobody) for member in members]
    return CommitToken(ring_id, memb)


def entry_of(old: Ring) -> MembEntry:
    """Return what a member tells of its old ring when the commit token first passes."""
    ending = old.ending
    return MembEntry(
        old.my_id,
        True,
        old.ring_id,
        old.buffer.aru,
        max(old.high_delivered, old.my_safe, ending.high_ring_delivered),
        old.buffer.high,
        ending.received_flg,
        ending.deliver_memb,
    )


def is_turn_of(my_id: ProcessorId, commit: CommitToken) -> bool:
    """Whether the first rotation has come to me: all before me have filled their entries."""
    return (
        commit.rotation == 1
        and commit.memb_index() == commit.member_ids().index(my_id)
        and commit.token_seq <= len(commit.memb)
    )


def successor_of(my_id: ProcessorId, commit: CommitToken) -> ProcessorId:
    """Return who gets the commit token after me."""
    members = commit.member_ids()
    return members[(members.index(my_id) + 1) % len(members)]


def is_passed_to(my_id: ProcessorId, commit: CommitToken, transmitter: ProcessorId) -> bool:
    """Whether it comes from the member before me: somebody may have copied it to another one."""
    members = commit.member_ids()
    return my_id in members and members[members.index(my_id) - 1] == transmitter


def convert(recovery: Recovery, my_id: ProcessorId) -> RegularToken:
    """Return the new ring's first token: the commit token has come back for the second time."""
    token = RegularToken(recovery.ring_id)
    token.timestamp = recovery.commit.timestamp
    if recovery.retrans_queue:
        token.retrans_flg = True
        token.retrans_setter = my_id
    return token
