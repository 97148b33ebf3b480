"""Recovery: the old ring's messages are exchanged on the new ring, then it is installed [SRP §6].

A `Recovery` is one pass. Everything that decides where messages are delivered is computed from the
commit token, which all members have alike; a value remembered locally could differ between two
processors that go together, and they would deliver the same message in different configurations.
"""

from collections import deque
from typing import Final, final

from evensong.core.core import Weigh
from evensong.core.effects import Deliver, Effect, Install, Packet, Service
from evensong.core.ids import NO_PROCESSOR, Configuration, ProcessorId, RingId
from evensong.core.totem.frames import CommitToken, RegularMessage, RegularToken
from evensong.core.totem.ordering import Ring


@final
class Recovery:
    """One pass of recovery at one processor."""

    __slots__ = (
        "commit",
        "deliver_memb",
        "high_ring_delivered",
        "install_rotations",
        "install_seq",
        "old",
        "retrans_flg_count",
        "retrans_queue",
        "ring_id",
        "token_originated",
        "trans_memb",
    )

    def __init__(self, commit: CommitToken, old: Ring) -> None:
        ending = old.ending
        together = [entry for entry in commit.memb if entry.old_ring_id == old.ring_id]
        self.ring_id: Final = commit.ring_id
        self.commit: Final = commit
        self.old: Final = old
        self.trans_memb: Final = tuple(entry.member_id for entry in together)
        self.high_ring_delivered: Final = max(entry.high_delivered for entry in together)
        low_ring_aru = min(entry.my_aru for entry in together)
        all_received = all(
            entry.received_flg and entry.obligation == together[0].obligation for entry in together
        )
        # A message that reaches me directly from now on would be one that my peers may lack.
        ending.frozen = True
        ending.received_flg = False
        ending.high_ring_delivered = self.high_ring_delivered
        self.deliver_memb: Final = frozenset(self.trans_memb).union(
            *[entry.obligation.intersection(old.members) for entry in together]
        )
        self.retrans_queue: Final[deque[int]] = deque()
        if not all_received:
            messages = old.buffer.messages
            self.retrans_queue.extend(sorted(seq for seq in messages if seq > low_ring_aru))
        else:
            self._promise()
        self.retrans_flg_count = 0  # visits in a row that found nobody with messages to exchange
        self.install_seq = 0
        self.install_rotations = 0
        self.token_originated = False

    def take_old_message(self, message: RegularMessage) -> None:
        """Keep an old-ring message that came encapsulated; nobody needs to send it again."""
        old = self.old
        if message.ring_id != old.ring_id:
            return
        if not old.buffer.has(message.seq) and old.can_hold(message):
            old.buffer.add(message.seq, message)
        if self.retrans_queue and message.seq in self.retrans_queue:
            self.retrans_queue.remove(message.seq)

    def next_old_messages(self, room: int, weigh: Weigh) -> tuple[list[RegularMessage], int]:
        """Take the next messages off the queue to be exchanged; return what they weigh, too."""
        queue = self.retrans_queue
        messages: list[RegularMessage] = []
        weight = 0
        while queue and weight < room:
            message = self.old.message(queue.popleft())
            weight += weigh([Packet(message.service, message.payload)])
            messages.append(message)
        return messages, min(weight, room)  # the last one may be wider than what was left

    def count_visit(self, token: RegularToken, my_aru: int) -> bool:
        """Follow retrans_flg over the visits; return whether to install now [SRP §6]."""
        my_id = self.old.my_id
        if self.retrans_queue:
            if not token.retrans_flg:
                token.retrans_flg = True
                token.retrans_setter = my_id
        elif token.retrans_flg and token.retrans_setter == my_id:
            token.retrans_flg = False
            token.retrans_setter = NO_PROCESSOR
        self.retrans_flg_count = 0 if token.retrans_flg else self.retrans_flg_count + 1
        if self.retrans_flg_count == 2:
            self.install_seq = token.seq  # the exchange ends here, by the token, for all alike
        if self.retrans_flg_count >= 2 and my_aru >= self.install_seq:
            self._promise()
        if self.retrans_flg_count >= 3 and token.aru >= self.install_seq:
            self.install_rotations += 1
        else:
            self.install_rotations = 0
        return self.install_rotations == 2

    def _promise(self) -> None:
        """Take the obligation over: I have, and will deliver, everything of deliver_memb.

        Deviation: not before; see docs/deviations.md#obligations-are-promised.
        """
        ending = self.old.ending
        ending.received_flg = True
        ending.deliver_memb = self.deliver_memb

    def closing(self, cause: str) -> list[Effect]:
        """Return the one atomic action that ends the old ring and installs the new one [SRP §6]."""
        members = self.commit.member_ids()
        return close_ring(
            self.old, self.trans_memb, self.high_ring_delivered, self.ring_id, members, cause
        )


def close_ring(
    old: Ring,
    trans_memb: tuple[ProcessorId, ...],
    high_ring_delivered: int,
    ring_id: RingId,
    members: tuple[ProcessorId, ...],
    cause: str,
) -> list[Effect]:
    """Deliver what is left of the old ring, each in the configuration it can be promised in."""
    messages = old.buffer.messages
    effects: list[Effect] = []
    safe_line = old.my_safe
    # The regular part: everybody in the old ring is known to have the safe messages here.
    seq = old.high_delivered + 1
    while seq in messages:
        message = old.message(seq)
        if message.service is Service.SAFE and seq > high_ring_delivered:
            break
        if message.service is Service.SAFE:
            safe_line = max(safe_line, seq)  # somebody has delivered it: everybody has all before
        effects.append(Deliver(old.ring_id, [message], safe_line, after_gap=False))
        seq += 1
    transitional_id = RingId(ring_id.seq - 2, trans_memb[0])
    effects.append(
        Install(
            Configuration(transitional_id, old.ring_id, trans_memb, transitional=True, cause=cause)
        )
    )
    # The transitional part: up to the first gap, everything; behind it only what a member of the
    # obligation set sent, for others' messages there may follow ones that are lost [EVS §4].
    after_gap = False
    for later in range(seq, old.buffer.high + 1):
        if later not in messages:
            after_gap = True
        elif not after_gap or messages[later].sender_id in old.ending.deliver_memb:
            message = old.message(later)
            effects.append(Deliver(transitional_id, [message], safe_line, after_gap=after_gap))
    effects.append(
        Install(Configuration(ring_id, transitional_id, members, transitional=False, cause=cause))
    )
    return effects
