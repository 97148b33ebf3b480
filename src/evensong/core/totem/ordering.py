"""One ring as one of its processors knows it: the order of its messages, and how far they got.

What a token holder does to the token's fields and to its own buffer [SRP §4]; `ring.py` puts the
steps in the paper's order. A `Ring` lives from the moment its processor enters recovery for it
until the next ring is installed; how it ends is kept in its `Ending`.
Invariant: released <= my_safe <= my_aru, released <= high_delivered; none falls in a ring's life.
"""

from collections import deque
from itertools import groupby, repeat
from operator import itemgetter, sub
from typing import Final, final

from evensong.core.buffer import ReceiveBuffer
from evensong.core.core import Weigh
from evensong.core.effects import Broadcast, Deliver, Effect, Packet, Sent, Service, Unicast
from evensong.core.ids import NO_PROCESSOR, ProcessorId, RingId
from evensong.core.run import Run, run_of
from evensong.core.totem.flow import FlowControl
from evensong.core.totem.frames import (
    ENCAP,
    RETX,
    Kept,
    Range,
    RegularMessage,
    RegularToken,
    Stretch,
)
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.rows import HEAD, PARTS, REST, Outgoing
from evensong.core.totem.wire import (
    MESSAGE,
    PACKET_MAX,
    PAYLOAD_MAX,
    REGULAR,
    REGULAR_SIZE,
    SEQ_MAX,
    SERVICES,
    encapsulate,
    encode_regular,
    encode_token,
)

SAFE: Final = Service.SAFE  # looked up once: an Enum's attribute is not cheap
PLAIN: Final = frozenset([0, RETX])  # flags of what is no recovery traffic
REGULAR_MAX: Final = REGULAR_SIZE + PAYLOAD_MAX
unpack_head: Final = HEAD.unpack
unpack_rest: Final = REST.unpack
unpack_parts: Final = PARTS.unpack_from
PAYLOAD_OF: Final = itemgetter(1)  # of a packet
# Who has sent so many messages in a row is likely to send the next one: the token of an idle ring
# rests there soon. It goes round longer, and is nearer to everybody, while several send.
SOLE_MESSAGES: Final = 8
SOLE_ROTATIONS: Final = 3  # by then what was safe is known to be, everywhere
# For so many visits nobody else may have sent if the token is to linger. One visit of a busy ring
# has more than a few messages of one sender, and the others wait for their turn.
ALONE_VISITS: Final = 8
LINGER_MAX: Final = 4_000  # us for which the token waits with them for the next one, at most
SERVICE_AND_TIME: Final = itemgetter(0, 2)


@final
class Ending:
    """How a ring ends for one processor: what it promised, and what it learnt, over all passes.

    It outlives a failed recovery: members that installed may have delivered safe messages counting
    on our promise, so it binds whatever configuration we install in the end [SRP §6, EVS §4].
    """

    __slots__ = ("deliver_memb", "frozen", "high_ring_delivered", "received_flg")

    def __init__(self, my_id: ProcessorId) -> None:
        self.frozen = False  # no message of the ring is taken directly any more
        self.received_flg = False  # promised: everything of deliver_memb will be delivered
        self.deliver_memb = frozenset([my_id])  # the obligation set
        self.high_ring_delivered = 0  # safe by what earlier passes' commit tokens said


@final
class Ring:
    """The ordering state of one processor on one ring."""

    __slots__ = (
        "aru_forwarded",
        "buffer",
        "ending",
        "flow",
        "high_delivered",
        "idle_visits",
        "incarnation",
        "install_seq",
        "members",
        "my_id",
        "my_last_seq",
        "my_safe",
        "my_token_seq",
        "others",
        "parameters",
        "predecessor",
        "ring_id",
        "seq_seen",
        "seqs_visited",
        "speaker",
        "spoke",
        "spoke_safe",
        "stuck_for",
        "stuck_id",
        "stuck_since",
        "stuck_visits",
        "successor",
    )

    def __init__(
        self,
        ring_id: RingId,
        members: tuple[ProcessorId, ...],
        my_id: ProcessorId,
        incarnation: int,
        parameters: Parameters,
    ) -> None:
        self.ring_id: Final = ring_id
        self.members: Final = members
        self.others: Final = frozenset(members) - {my_id}
        self.my_id: Final = my_id
        self.incarnation: Final = incarnation
        self.parameters: Final = parameters
        self.successor: Final = members[(members.index(my_id) + 1) % len(members)]
        self.predecessor: Final = members[members.index(my_id) - 1]
        self.buffer: Final[ReceiveBuffer[Kept]] = ReceiveBuffer(parameters.receive_horizon)
        self.flow: Final = FlowControl(parameters.window_size, parameters.messages_max)
        self.ending: Final = Ending(my_id)
        self.my_token_seq = -1
        self.aru_forwarded = 0  # the aru of the token I last forwarded
        self.my_safe = 0  # everybody has all up to here
        self.high_delivered = 0
        # The token's seq as my latest visits left it: a message is requested when it has been
        # missed on miss_count of them, so that what is merely in flight is not.
        self.seqs_visited: Final[deque[int]] = deque([0], maxlen=parameters.miss_count)
        self.install_seq = 0  # up to here it is recovery traffic
        self.my_last_seq = 0  # of what I broadcast
        self.seq_seen = -1  # the token's seq when it came last
        self.idle_visits = 0  # visits in a row that found nothing to do
        self.speaker = NO_PROCESSOR  # who sent what was delivered last,
        self.spoke = 0  # and how many messages in a row,
        self.spoke_safe = False  # of which the last one was safe
        self.stuck_id = NO_PROCESSOR  # who holds the aru down, and for how long it has
        self.stuck_for = 0
        self.stuck_since = 0
        self.stuck_visits = 0  # visits in a row that found the same processor behind at one aru

    def is_representative(self) -> bool:
        """Whether this processor leads the ring."""
        return self.ring_id.rep == self.my_id

    def can_hold(self, message: RegularMessage) -> bool:
        """Whether the message can be an honest one of this ring; all honest ones pass."""
        return self.buffer.is_in_reach(message.seq) and message.sender_id in self.members

    def add_run(self, run: Run) -> bool:
        """Keep messages of one sender on this ring, all new and in order; False if it is not that.

        The checks are those of `decode_regular`, `can_hold` and `has`. What fails one is left to
        them, one by one: they know what it is. No step of Python is taken for a single message
        here, for a busy ring spends most of its time with these.
        """
        buffers, starts, stops = run
        count = len(buffers)
        sizes = [*map(sub, stops, starts)]
        if min(sizes) < REGULAR_SIZE or max(sizes) > REGULAR_MAX:
            return False
        heads, seqs, rests = zip(*map(unpack_parts, buffers, starts), strict=True)
        kind, transmitter, _, sender_id, ring_seq, ring_rep = unpack_head(heads[0])
        code, flags, timestamp = unpack_rest(rests[0])
        buffer = self.buffer
        messages = buffer.messages
        first, last = seqs[0], seqs[-1]
        if (
            kind != REGULAR
            or RingId(ring_seq, ring_rep) != self.ring_id
            or transmitter not in self.others
            or sender_id not in self.members
            or heads.count(heads[0]) != count
            or not buffer.aru < first <= last <= buffer.aru + buffer.horizon
            or seqs != tuple(range(first, first + count))
            or not messages.keys().isdisjoint(seqs)
            or code not in SERVICES
            or flags not in PLAIN
            or timestamp > SEQ_MAX
            or rests.count(rests[0]) != count
        ):
            return False
        service = SERVICES[code]
        where = self.ring_id, first
        stretch = Stretch(sender_id, *where, service, flags, timestamp, run, REGULAR_SIZE)
        messages.update(zip(seqs, repeat(stretch)))
        buffer.settle(first, last)
        return True

    def add_row(self, row: Stretch, transmitter: ProcessorId) -> bool:
        """Keep the messages of a row, all new and in order; False if they are not that."""
        buffer = self.buffer
        messages = buffer.messages
        first, last = row.first_seq, row.last_seq
        if (
            row.ring_id != self.ring_id
            or transmitter not in self.others
            or row.sender_id not in self.members
            or not buffer.aru < first <= last <= buffer.aru + buffer.horizon
            or not (first > buffer.high or messages.keys().isdisjoint(range(first, last + 1)))
        ):
            return False
        if first == last:  # a packet as wide as a row
            messages[first] = row
        else:
            messages.update(zip(range(first, last + 1), repeat(row)))
        buffer.settle(first, last)
        return True

    def is_plausible(self, token: RegularToken) -> bool:
        """Whether the token can be an honest one of this ring; all honest ones pass."""
        rtr = token.rtr
        return (
            self.buffer.high <= token.seq  # whoever broadcast more would have the token after me
            and self.buffer.is_in_reach(token.seq)
            and token.token_seq - self.my_token_seq <= len(self.members)
            and (token.aru_id == NO_PROCESSOR or token.aru_id in self.members)
            and token.retrans_flg == (token.retrans_setter in self.members)
            and (token.retrans_flg or token.retrans_setter == NO_PROCESSOR)
            and (not rtr or sum(count for _, count in rtr) <= self.parameters.receive_horizon)
            and self.flow.is_plausible(token)
        )

    def count_idle(self, token: RegularToken) -> None:
        """Count the visits that bring no news; all processors do, so all know when it is idle."""
        seq = token.seq
        if seq == self.seq_seen and token.aru == seq and not token.rtr and not token.backlog:
            self.idle_visits += 1
        else:
            self.idle_visits = 0
            self.seq_seen = seq

    def rests_after(self) -> int:
        """After how many visits without news the token may rest.

        Every processor comes to the same: nothing is new, so all have delivered the same messages.
        """
        usual = self.parameters.idle_rotations
        return min(SOLE_ROTATIONS, usual) if self.spoke >= SOLE_MESSAGES else usual

    def is_idle(self) -> bool:
        """Whether the token may rest."""
        return self.idle_visits >= self.rests_after()

    def may_rest_elsewhere(self) -> bool:
        """Whether the token may be resting, or be about to, with somebody else."""
        is_sole = self.spoke >= SOLE_MESSAGES and self.speaker != self.my_id
        is_sole = is_sole and self.flow.silent_visits >= ALONE_VISITS - 1  # else it knows of me
        return is_sole or self.idle_visits >= self.rests_after() - 1

    def rests_here(self, seq: int) -> bool:
        """Whether an idle token with this seq rests with me: who sent last often sends next.

        Before anybody has sent anything on this ring, it rests with the representative.
        """
        if seq <= self.install_seq:
            return self.is_representative()
        return seq == self.my_last_seq

    def is_mine(self) -> bool:
        """Whether I alone have been sending, for a while."""
        is_speaker = self.speaker == self.my_id and self.spoke >= SOLE_MESSAGES
        return is_speaker and self.flow.alone_visits >= ALONE_VISITS

    def linger_us(self) -> int:
        """How long the token may linger: nobody may take it for lost."""
        parameters = self.parameters
        return min(LINGER_MAX, parameters.hold // 2, parameters.token_retransmit // 2)

    def may_linger(self, token: RegularToken) -> bool:
        """Whether the token may stay with me for a moment: nobody needs it before I do."""
        is_everywhere = token.aru == token.seq == self.high_delivered  # so nobody asks for repair
        is_waited_for = self.spoke_safe or token.backlog != self.flow.my_pbl
        return self.is_mine() and is_everywhere and not is_waited_for

    def resend_requested(self, token: RegularToken, weigh: Weigh) -> tuple[list[Effect], int]:
        """Take the requests off the token that I can answer, oldest first [SRP §4].

        Return the repairs, and what they weigh together.
        """
        messages = self.buffer.messages
        released = self.buffer.released
        repairs_max = self.flow.repairs_max(token)
        repairs: list[Effect] = []
        left: list[int] = []
        weight = 0
        for seq in elements(token.rtr):
            if seq in messages and weight < repairs_max:
                message = self.message(seq)
                # What recovery wraps weighs what it weighed before.
                wrapping = MESSAGE.size if message.flags & ENCAP else 0
                weight += weigh([Packet(message.service, message.payload[wrapping:])])
                repairs.append(self._broadcast(message, RETX))
            elif seq > released:
                left.append(seq)
        token.rtr = ranges(left)
        return repairs, min(weight, repairs_max)  # the last one may be wider than the room for it

    def new_max(self, token: RegularToken, backlog: int, resent: int) -> int:
        """How many messages I may broadcast now, after so many retransmissions."""
        room = self.buffer.released + self.parameters.receive_horizon - token.seq
        requested = sum(count for _, count in token.rtr) if token.rtr else 0
        return self.flow.new_max(token, backlog, max(0, room), resent, requested)

    def broadcast_new(self, token: RegularToken, packets: list[Packet]) -> list[Effect]:
        """Give packets their places in the order [SRP §4]."""
        effects: list[Effect] = []
        for (service, timestamp), alike in groupby(packets, SERVICE_AND_TIME):
            effects.append(self._broadcast_alike(token, [*alike], service, timestamp))
        return effects

    def _broadcast_alike(
        self, token: RegularToken, packets: list[Packet], service: Service, timestamp: int
    ) -> Sent:
        ring_id, my_id = self.ring_id, self.my_id
        first = token.seq + 1
        last = token.seq = self.my_last_seq = token.seq + len(packets)
        seqs = range(first, last + 1)
        payloads = [*map(PAYLOAD_OF, packets)]
        run = run_of(payloads)
        assert max(run.stops) <= PACKET_MAX
        stretch = Stretch(my_id, ring_id, first, service, 0, timestamp, run, 0)
        self.buffer.messages.update(zip(seqs, repeat(stretch)))
        self.buffer.settle(first, last)
        told = (ring_id, first, service, timestamp, payloads)
        return Sent(ring_id, first, packets, Outgoing(my_id, self.incarnation, *told))

    def broadcast_old(
        self, token: RegularToken, old_messages: list[RegularMessage]
    ) -> list[Effect]:
        """Carry messages of the old ring, in recovery [SRP §6]."""
        effects: list[Effect] = []
        for old_message in old_messages:
            token.seq += 1
            message = RegularMessage(
                self.my_id,
                self.ring_id,
                token.seq,
                old_message.service,
                ENCAP,
                0,
                encapsulate(old_message),
            )
            self.buffer.add(message.seq, message)
            effects.append(self._broadcast(message, 0))
        return effects

    def order(self, packet: Packet, seq: int) -> RegularMessage:
        """Make a packet the message with this seq, and keep it."""
        service, payload, timestamp = packet
        assert len(payload) <= PACKET_MAX
        message = RegularMessage(self.my_id, self.ring_id, seq, service, 0, timestamp, payload)
        self.buffer.add(seq, message)
        return message

    def _broadcast(self, message: RegularMessage, flag: int) -> Broadcast:
        return Broadcast(encode_regular(message, flag, self.my_id, self.incarnation))

    def acknowledge(self, token: RegularToken) -> None:
        """Lower or raise the aru [SRP §4]."""
        # Only who lowered it may raise it; else a processor with a hole could be overruled.
        my_aru = self.buffer.aru
        if my_aru < token.aru or token.aru_id == self.my_id or token.aru_id == NO_PROCESSOR:
            token.aru = my_aru
            token.aru_id = NO_PROCESSOR if my_aru == token.seq else self.my_id

    def count_stuck(self, token: RegularToken, requests_came: bool, now: int) -> bool:
        """Whether the processor that holds the aru down has failed to receive for too long.

        The limit is a time, with a minimum of visits: a slow ring needs both to accuse somebody.
        """
        if token.aru_id == NO_PROCESSOR or token.aru != self.aru_forwarded:
            self.stuck_id = NO_PROCESSOR
            self.stuck_visits = self.stuck_for = 0
            return False
        if self.stuck_id != token.aru_id:
            self.stuck_id = token.aru_id
            self.stuck_since = now
        self.stuck_for = now - self.stuck_since
        if not requests_came and not token.rtr:
            return False  # nothing is asked of anybody on my part of the ring
        self.stuck_visits += 1
        return (
            token.aru_id != self.my_id  # one never accuses oneself
            and self.stuck_visits > self.parameters.fail_to_rcv_visits_min
            and self.stuck_for > self.parameters.fail_to_rcv_time
        )

    def suspect(self) -> ProcessorId:
        """Return who has failed to receive for half of the time that accuses, or nobody.

        One processor accuses; the others know by this whom, and why, when it is gone.
        """
        is_long = 2 * self.stuck_for > self.parameters.fail_to_rcv_time
        return self.stuck_id if is_long else NO_PROCESSOR

    def request_missing(self, token: RegularToken) -> None:
        """Ask for what I lack, unless it may still be in flight [SRP §4]."""
        buffer = self.buffer
        seqs_visited = self.seqs_visited
        seqs_visited.append(token.seq)
        upto = seqs_visited[0]
        if buffer.aru >= upto:
            return
        wanted = buffer.missing(upto)
        if token.rtr:
            wanted = sorted({*wanted, *elements(token.rtr)})
        token.rtr = ranges(wanted)[: self.parameters.rtr_max]

    def advance_safe_line(self, token: RegularToken) -> bool:
        """Learn from the token I forward; return whether more is safe now.

        An aru forwarded on two visits in a row is everybody's: who lacks something lowers it at the
        visit in between, and alone may raise it again, after me.
        """
        line = min(token.aru, self.aru_forwarded)
        self.aru_forwarded = token.aru
        if line <= self.my_safe:
            return False
        self.my_safe = line
        return True

    def pass_on(self, token: RegularToken) -> Unicast:
        """Hand the token to the next processor."""
        token.token_seq += 1
        self.my_token_seq = token.token_seq
        return Unicast(self.successor, encode_token(token, self.my_id, self.incarnation))

    def deliver_ready(self) -> list[Effect]:
        """Deliver what the order and the safe line allow [SRP §4]."""
        messages = self.buffer.messages
        ready: list[Kept] = []
        seq = self.high_delivered + 1
        while seq <= self.buffer.aru:
            kept = messages[seq]
            last = kept.last_seq
            if kept.service is SAFE and last > self.my_safe:
                last = self.my_safe
                if last < seq:
                    break  # a safe message that is not safe yet blocks all behind it
            is_whole = seq == kept.first_seq and last == kept.last_seq
            ready.append(kept if is_whole else kept.cut(seq, last))
            if kept.sender_id != self.speaker:
                self.speaker = kept.sender_id
                self.spoke = 0
            self.spoke += last - seq + 1
            self.spoke_safe = kept.service is SAFE
            seq = last + 1
        if not ready:
            return []
        self.high_delivered = seq - 1
        return [Deliver(self.ring_id, ready, self.my_safe, after_gap=False)]

    def message(self, seq: int) -> RegularMessage:
        """Return a message that is here."""
        return self.buffer.messages[seq].at(seq)

    def consume_recovery_traffic(self) -> None:
        """Count recovery traffic as delivered: what it carried is with the old ring's messages.

        Else an exchange larger than the buffers' horizon would never end.
        """
        messages = self.buffer.messages
        while self.high_delivered + 1 in messages:
            if not self.message(self.high_delivered + 1).flags & ENCAP:
                return
            self.high_delivered += 1

    def release(self) -> None:
        """Forget what is delivered here and received everywhere."""
        upto = min(self.my_safe, self.high_delivered)
        if upto > self.buffer.released:
            self.buffer.release(upto)


def ranges(seqs: list[int]) -> list[Range]:
    """Fold ascending seqs into ranges."""
    folded: list[Range] = []
    first = before = -1
    for seq in seqs:
        if seq != before + 1:
            if first >= 0:
                folded.append((first, before - first + 1))
            first = seq
        before = seq
    if first >= 0:
        folded.append((first, before - first + 1))
    return folded


def elements(folded: list[Range]) -> list[int]:
    """Unfold ranges into seqs."""
    return [seq for first, count in folded for seq in range(first, first + count)]
