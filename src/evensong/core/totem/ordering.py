"""One ring as one of its processors knows it: the order of its messages, and how far they got.

What a token holder does to the token's fields and to its own buffer [SRP §4]; `ring.py` puts the
steps in the paper's order. A `Ring` lives from the moment its processor enters recovery for it
until the next ring is installed; how it ends is kept in its `Ending`.
Invariant: released <= my_safe <= my_aru, released <= high_delivered; none falls in a ring's life.
"""

import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, final

from evensong.core.buffer import ReceiveBuffer
from evensong.core.effects import Broadcast, Deliver, Effect, Packet, Sent, Service, Unicast
from evensong.core.ids import NO_PROCESSOR, ProcessorId, RingId
from evensong.core.totem.flow import FlowControl
from evensong.core.totem.frames import ENCAP, RETX, Range, RegularMessage, RegularToken
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.wire import (
    AGREED_CODE,
    PACKET_MAX,
    PAYLOAD_MAX,
    REGULAR,
    REGULAR_SIZE,
    SAFE_CODE,
    SEQ_MAX,
    SERVICES,
    encapsulate,
    encode_regular,
    encode_token,
)

SAFE: Final = Service.SAFE  # looked up once: an Enum's attribute is not cheap
PLAIN: Final = frozenset([0, RETX])  # flags of what is no recovery traffic
REGULAR_MAX: Final = REGULAR_SIZE + PAYLOAD_MAX
HEAD: Final = struct.Struct("!BIQIQI")  # what all messages of one sender on one ring begin with
HEAD_SIZE: Final = HEAD.size
REST: Final = struct.Struct("!QBBQ")
unpack_head: Final = HEAD.unpack_from
unpack_rest: Final = REST.unpack_from
pack_rest: Final = REST.pack


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
        "members",
        "my_id",
        "my_safe",
        "my_token_seq",
        "others",
        "parameters",
        "predecessor",
        "ring_id",
        "seq_seen",
        "seqs_visited",
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
        self.buffer: Final[ReceiveBuffer[RegularMessage]] = ReceiveBuffer(
            parameters.receive_horizon
        )
        self.flow: Final = FlowControl(parameters.window_size, parameters.messages_max)
        self.ending: Final = Ending(my_id)
        self.my_token_seq = -1
        self.aru_forwarded = 0  # the aru of the token I last forwarded
        self.my_safe = 0  # everybody has all up to here
        self.high_delivered = 0
        # The token's seq as my latest visits left it: a message is requested when it has been
        # missed on miss_count of them, so that what is merely in flight is not.
        self.seqs_visited: Final[deque[int]] = deque([0], maxlen=parameters.miss_count)
        self.seq_seen = -1  # the token's seq when it came last
        self.idle_visits = 0  # visits in a row that found nothing to do
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

    def add_run(self, datagrams: Sequence[bytes], start: int) -> int:
        """Keep the new messages of this ring from there on, up to anything else; return how many.

        The checks are those of `decode_regular`, `can_hold` and `has`; what fails one is left to
        them, which know what it is.
        """
        buffer = self.buffer
        messages = buffer.messages
        aru = buffer.aru
        reach = aru + buffer.horizon
        high = buffer.high
        ring_id = self.ring_id
        others, members, services = self.others, self.members, SERVICES
        kept = 0
        head = b"?"  # what the one before began with: the same transmitter, sender and ring
        sender_id = NO_PROCESSOR
        for datagram in islice(datagrams, start, None):
            if not REGULAR_SIZE <= len(datagram) <= REGULAR_MAX:
                break
            if not datagram.startswith(head):
                kind, transmitter, _, sender_id, ring_seq, ring_rep = unpack_head(datagram)
                if (
                    kind != REGULAR
                    or (ring_seq, ring_rep) != ring_id
                    or transmitter not in others
                    or sender_id not in members
                ):
                    break
                head = datagram[:HEAD_SIZE]
            seq, code, flags, timestamp = unpack_rest(datagram, HEAD_SIZE)
            if (
                not aru < seq <= reach
                or seq in messages
                or flags not in PLAIN
                or code not in services
                or timestamp > SEQ_MAX
            ):
                break
            messages[seq] = RegularMessage(
                sender_id, ring_id, seq, services[code], flags, timestamp, datagram[REGULAR_SIZE:]
            )
            if seq > high:
                high = seq
            kept += 1
        buffer.settle(high)
        return kept

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

    def is_idle(self) -> bool:
        """Whether the representative may hold the token."""
        return self.idle_visits >= self.parameters.idle_rotations

    def resend_requested(self, token: RegularToken) -> list[Effect]:
        """Take the requests off the token that I can answer, oldest first [SRP §4]."""
        messages = self.buffer.messages
        released = self.buffer.released
        repairs_max = self.flow.repairs_max(token)
        repairs: list[Effect] = []
        left: list[int] = []
        for seq in elements(token.rtr):
            if seq in messages and len(repairs) < repairs_max:
                repairs.append(self._broadcast(messages[seq], RETX))
            elif seq > released:
                left.append(seq)
        token.rtr = ranges(left)
        return repairs

    def new_max(self, token: RegularToken, backlog: int, resent: int) -> int:
        """How many messages I may broadcast now, after so many retransmissions."""
        room = self.buffer.released + self.parameters.receive_horizon - token.seq
        requested = sum(count for _, count in token.rtr)
        return self.flow.new_max(token, backlog, max(0, room), resent, requested)

    def broadcast_new(self, token: RegularToken, packets: list[Packet]) -> list[Effect]:
        """Give packets their places in the order [SRP §4]."""
        effects: list[Effect] = []
        ring_id, my_id = self.ring_id, self.my_id
        messages = self.buffer.messages
        head = HEAD.pack(REGULAR, my_id, self.incarnation, my_id, *ring_id)
        seq = token.seq
        for packet in packets:
            seq += 1
            service, payload, timestamp = packet
            assert len(payload) <= PACKET_MAX
            messages[seq] = RegularMessage(my_id, ring_id, seq, service, 0, timestamp, payload)
            code = SAFE_CODE if service is SAFE else AGREED_CODE
            effects.append(Sent(ring_id, seq, packet))
            effects.append(Broadcast(head + pack_rest(seq, code, 0, timestamp) + payload))
        self.buffer.settle(seq)
        token.seq = seq
        return effects

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
        ready: list[RegularMessage] = []
        seq = self.high_delivered + 1
        message = messages.get(seq)
        # A safe message that is not safe yet blocks all behind it.
        while message is not None and (message.service is not SAFE or seq <= self.my_safe):
            ready.append(message)
            seq += 1
            message = messages.get(seq)
        if not ready:
            return []
        self.high_delivered = seq - 1
        return [Deliver(self.ring_id, ready, self.my_safe, after_gap=False)]

    def consume_recovery_traffic(self) -> None:
        """Count recovery traffic as delivered: what it carried is with the old ring's messages.

        Else an exchange larger than the buffers' horizon would never end.
        """
        messages = self.buffer.messages
        while True:
            message = messages.get(self.high_delivered + 1)
            if message is None or not message.flags & ENCAP:
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
