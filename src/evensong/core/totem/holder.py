"""What a processor does with the token, and with the messages of the ring it belongs to [SRP §4].

A visit repairs, broadcasts, acknowledges, requests, passes the token on and delivers, in this
order; what it means for the membership is left to `ring.py`, which is told how the visit ended.
"""

from enum import Enum
from typing import Final, final

from evensong.core.core import Source
from evensong.core.effects import Broadcast, Effect, Packet, SafeLine, Sent, TokenVisit
from evensong.core.ids import ProcessorId
from evensong.core.run import Run
from evensong.core.timer import NEVER
from evensong.core.totem.frames import RegularMessage, RegularToken, Stretch
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.recovery import Recovery
from evensong.core.totem.timers import Timers
from evensong.core.totem.wire import encode_hold_cancel

BACKLOG_SHOWN_MAX: Final = 2**20  # what one processor tells of its backlog; keeps the sum encodable
FEW: Final = 8  # packets; whoever sends at full speed has more that wait for the token


class VisitEnd(Enum):
    """How a visit of the token ended."""

    HELD = "the ring is idle, the token rests here"
    PASSED_ON = "the next processor has it"
    ACCUSES = "somebody fails to receive; the token is discarded"
    INSTALLS = "passed on, and recovery is complete"


@final
class TokenHolder:
    """One processor's hands: the ring in use, the token when it is here, what was sent last."""

    __slots__ = (
        "effects",
        "held_sent",
        "held_token",
        "held_weight",
        "hold_cancelled",
        "is_called",
        "is_hurried",
        "last_token",
        "last_token_seq",
        "parameters",
        "regular_at",
        "ring",
        "source",
        "timers",
    )

    def __init__(
        self,
        ring: Ring,
        source: Source,
        parameters: Parameters,
        timers: Timers,
        effects: list[Effect],
    ) -> None:
        self.ring = ring
        self.source: Final = source
        self.parameters: Final = parameters
        self.timers: Final = timers
        self.effects: Final = effects
        self.last_token: list[Effect] = []  # what I forwarded last, to be sent again if it got lost
        self.last_token_seq = 0  # the seq that it carried
        self.held_token: RegularToken | None = None
        self.held_sent = 0  # messages broadcast while it has been held,
        self.held_weight = 0  # and what they weigh
        self.hold_cancelled = False
        self.is_called = False  # somebody has asked for the token since I last had it
        self.is_hurried = False  # somebody waits to hear that messages are safe
        self.regular_at = -NEVER  # when the ring last carried a message

    def use(self, ring: Ring) -> None:
        """Serve another ring; what was held or sent for the one before is void."""
        self.ring = ring
        self.held_token = None
        self.held_sent = self.held_weight = 0
        self.hold_cancelled = self.is_called = False
        self.regular_at = -NEVER

    def remember(self, forwarded: list[Effect], seq: int, now: int) -> None:
        """Expect a sign that what I forward has arrived, else send it again [SRP §4]."""
        self.effects.extend(forwarded)
        self.last_token = forwarded
        self.last_token_seq = seq
        self.timers.token_loss.start(now)
        self.timers.token_retransmit.start(now)

    def resend_token(self, now: int) -> None:
        """Send the token or commit token again: nobody has shown that it arrived [SRP §4]."""
        assert self.last_token
        self.effects.extend(self.last_token)
        self.timers.token_retransmit.start(now)

    def store(self, message: RegularMessage, now: int) -> str:
        """Keep a message of the ring in use; return why not, or nothing."""
        ring = self.ring
        buffer = ring.buffer
        seq = message.seq
        held = self.held_token
        if not ring.can_hold(message) or (held is not None and seq > held.seq):
            return "message that cannot be"  # or who has sent it, without the token?
        if buffer.has(seq):
            return "message received before"
        timers = self.timers
        if seq > self.last_token_seq:
            timers.token_retransmit.stop()  # somebody had the token after me
        buffer.add(seq, message)
        self.regular_at = now
        timers.token_loss.start(now)
        return ""

    def store_run(self, run: Run, now: int) -> bool:
        """Keep messages of the ring in use, `store` for all at once; False if they are no run."""
        if self.held_token is not None or not self.ring.add_run(run):
            return False
        self.note_traffic(now)
        return True

    def keep_row(self, row: Stretch, transmitter: ProcessorId) -> bool:
        """Keep messages of the ring in use, all at once; False if not all are new.

        It is `store` for each, once the traffic is noted too: after the last row is early enough.
        """
        return self.held_token is None and self.ring.add_row(row, transmitter)

    def note_traffic(self, now: int) -> None:
        """Note that messages came which were kept together: whoever sent them had the token."""
        timers = self.timers
        if self.ring.buffer.high > self.last_token_seq:
            timers.token_retransmit.stop()
        self.regular_at = now
        timers.token_loss.start(now)

    def deliver_alone(self) -> None:
        """On a ring of one, a message is ordered and safe as soon as it is there.

        What comes while we pull waits for the next call: a source may never run dry.
        """
        ring = self.ring
        assert len(ring.members) == 1
        left = self.source.backlog()
        if not left:
            return
        while left > 0:
            packets = self.source.pull(min(left, self.parameters.messages_max))
            left -= max(1, self.source.weight(packets))
            for packet in packets:
                message = ring.order(packet, ring.buffer.aru + 1)
                self.effects.append(Sent(ring.ring_id, message.seq, [packet]))
                ring.my_safe = message.seq
                self.effects.extend(ring.deliver_ready())
                ring.release()
        self.effects.append(SafeLine(ring.ring_id, ring.my_safe))

    def can_accept(
        self, token: RegularToken, transmitter: ProcessorId, recovery: Recovery | None
    ) -> bool:
        """Whether an honest ring can have sent me this token: there is one only, and not here.

        In recovery the representative makes the first one itself. A token comes from the processor
        before me: on its way to another it may have been copied to me, as it was, without the key.
        """
        ring = self.ring
        is_mine_to_make = recovery is not None and not recovery.token_originated
        return (
            transmitter == ring.predecessor
            and self.held_token is None
            and not (is_mine_to_make and ring.is_representative())
            and ring.is_plausible(token)
        )

    def accept(self, token: RegularToken, recovery: Recovery | None, now: int) -> VisitEnd:
        """Take a token that is new: act on it, or let it rest; what waits for it goes out first.

        Where much waits more will come, which is less work if the next visit sends it together.
        """
        ring = self.ring
        ring.my_token_seq = token.token_seq
        self.timers.token_retransmit.stop()
        ring.count_idle(token)
        rest_us = self._rest_us(token) if recovery is None else 0
        waiting = self.source.backlog() if rest_us else 0
        if not rest_us or waiting > FEW or (waiting and not self._may_send_held()):
            return self.visit(token, recovery, now)
        self.held_token = token
        self.timers.hold.start_for(now, rest_us)
        self.timers.token_loss.start(now)
        return self.send_held(now, was_held=False) if waiting else VisitEnd.HELD

    def _rest_us(self, token: RegularToken) -> int:
        """How long the token may stay here, as far as others are concerned; 0 if it may not.

        On an idle ring it rests. With who alone has been sending it lingers for a moment: what is
        sent next gets its place at once, in place of waiting for a token that serves nobody else
        meanwhile. Nobody waits for that: no safe message, no repair, no other's backlog.
        """
        ring = self.ring
        if not ring.rests_here(token.seq):
            return 0
        if ring.is_idle():
            return self.parameters.hold
        is_needed = self.is_called or self.is_hurried
        return ring.linger_us() if not is_needed and ring.may_linger(token) else 0

    def release_held_token(self, now: int, *, was_held: bool = True) -> VisitEnd:
        """Let a token that rests go on: its visit happens now, or is done."""
        token = self.held_token
        assert token is not None
        self.held_token = None
        self.timers.hold.stop()
        return self.visit(token, None, now, was_held=was_held)

    def send_held(self, now: int, *, was_held: bool = True) -> VisitEnd:
        """Broadcast what there is; if I alone have been sending, the token stays meanwhile.

        It is one visit that takes a moment: what is sent counts as of it when the token goes. A
        token that has only come, and goes on at once, was not held.
        """
        ring, token = self.ring, self.held_token
        assert token is not None
        if not self._may_send_held():
            return self.release_held_token(now)
        packets = self._pulled(token, self._backlog(), self.held_weight)
        self.effects.extend(ring.broadcast_new(token, packets))
        self.held_sent += len(packets)
        self.held_weight += self.source.weight(packets)
        hold = self.timers.hold
        hold.deadline = min(hold.deadline, now + ring.linger_us())
        self.regular_at = now
        self.deliver()
        is_done = ring.high_delivered == token.seq and not ring.spoke_safe and not self._backlog()
        return VisitEnd.HELD if is_done else self.release_held_token(now, was_held=was_held)

    def _may_send_held(self) -> bool:
        """Whether the token may stay while I broadcast: nobody else misses it."""
        return not self.is_hurried and self.ring.is_mine()

    def note_call(self) -> None:
        """Note that somebody asks for the token, which may be on its way to me only now."""
        self.ring.idle_visits = 0
        self.is_called = True

    def cancel_hold(self) -> None:
        """Ask whoever holds the token of an idle ring to let it go; once is enough."""
        ring = self.ring
        if not self.hold_cancelled:
            self.hold_cancelled = True
            cancel = encode_hold_cancel(ring.ring_id, ring.my_id, ring.incarnation)
            self.effects.append(Broadcast(cancel))

    def visit(
        self,
        token: RegularToken,
        recovery: Recovery | None,
        now: int,
        *,
        was_held: bool = False,
    ) -> VisitEnd:
        """Act on the token, step by step in the paper's order [SRP §4]."""
        ring = self.ring
        requests_came = bool(token.rtr)
        resent, repairs = self._resend_requested(token) if requests_came else (0, 0)
        held_sent, self.held_sent = self.held_sent, 0
        repairs += self.held_weight  # what was broadcast of this visit already
        self.held_weight = 0
        backlog = self._backlog() if recovery is None else 0
        if recovery is None:
            sent, weight = self._broadcast_new(token, backlog, repairs) if backlog else (0, 0)
        else:
            sent, weight = self._broadcast_old(token, recovery, repairs)
        ring.acknowledge(token)
        if ring.count_stuck(token, requests_came, now):
            return VisitEnd.ACCUSES
        ring.request_missing(token)
        if recovery is None:
            is_complete = False
            backlog = self._backlog() if sent else backlog
        else:
            is_complete = recovery.count_visit(token, ring.buffer.aru)
            backlog = len(recovery.retrans_queue)
        ring.flow.account(token, weight + repairs, backlog)
        forward = ring.pass_on(token)
        sent += held_sent
        self.effects.append(
            TokenVisit(
                ring.ring_id,
                token.token_seq,
                token.seq,
                token.aru,
                token.fcc,
                sent,
                resent,
                was_held=was_held,
            )
        )
        self.remember([forward], token.seq, now)
        self.hold_cancelled = self.is_called = False
        if sent:
            self.regular_at = now
        is_safer = ring.advance_safe_line(token)
        if recovery is None:
            if is_safer:
                self.effects.append(SafeLine(ring.ring_id, ring.my_safe))
            self.deliver()  # after passing the token on: the ring does not wait for us
        else:
            ring.consume_recovery_traffic()
            ring.release()
        return VisitEnd.INSTALLS if is_complete else VisitEnd.PASSED_ON

    def deliver(self) -> None:
        """Deliver what may be delivered, and forget what everybody has."""
        self.effects.extend(self.ring.deliver_ready())
        self.ring.release()

    def _resend_requested(self, token: RegularToken) -> tuple[int, int]:
        """Answer requests; return how many messages were sent again, and what they weigh."""
        repairs, weight = self.ring.resend_requested(token, self.source.weight)
        self.effects.extend(repairs)
        return len(repairs), weight

    def _broadcast_new(self, token: RegularToken, backlog: int, repairs: int) -> tuple[int, int]:
        """Broadcast what the source has; return how many messages, and what they weigh."""
        packets = self._pulled(token, backlog, repairs)
        self.effects.extend(self.ring.broadcast_new(token, packets))
        return len(packets), self.source.weight(packets)

    def _pulled(self, token: RegularToken, backlog: int, repairs: int) -> list[Packet]:
        """Return what the source has and this visit may broadcast after so much."""
        allowed = self.ring.new_max(token, backlog, repairs)
        return self.source.pull(allowed) if allowed else []

    def _broadcast_old(
        self, token: RegularToken, recovery: Recovery, repairs: int
    ) -> tuple[int, int]:
        """In recovery, the old ring's messages go where new ones would [SRP §6]."""
        allowed = self.ring.new_max(token, len(recovery.retrans_queue), repairs)
        messages, weight = recovery.next_old_messages(allowed, self.source.weight)
        self.effects.extend(self.ring.broadcast_old(token, messages))
        return len(messages), weight

    def _backlog(self) -> int:
        return min(self.source.backlog(), BACKLOG_SHOWN_MAX)
