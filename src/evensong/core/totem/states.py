"""The state x event table of a processor on a ring, as code [SRP §4, §5, §6].

One `on_<event>` a row, one branch a state, no default; the four states change only in the `enter_*`
methods, each with a recorded cause. The token is handled in `holder.py`, consensus in
`membership.py`, the exchange of old messages in `recovery.py`; here they are put together. The
table in ARCHITECTURE.md is the map.
Deviation: tokens are discarded in Gather and Commit, and old-ring messages are kept there without
being delivered; see docs/deviations.md#no-delivery-while-forming.
"""

from enum import Enum
from random import Random
from typing import Final, assert_never, final

from evensong.core.core import Source
from evensong.core.effects import Broadcast, Effect, Install, Persist, StateChange, Unicast
from evensong.core.ids import NO_PROCESSOR, NO_RING, Configuration, ProcessorId, RingId
from evensong.core.stable import StableRecord, encode_record
from evensong.core.timer import NEVER
from evensong.core.totem import wire
from evensong.core.totem.commit import convert, entry_of, is_turn_of, propose, successor_of
from evensong.core.totem.frames import (
    ENCAP,
    Beacon,
    CommitToken,
    HoldCancel,
    Join,
    Leave,
    MembEntry,
    RegularMessage,
    RegularToken,
)
from evensong.core.totem.holder import TokenHolder, VisitEnd
from evensong.core.totem.membership import RING_SEQ_LEAP, Membership, Strangers, Weight
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.parts import split
from evensong.core.totem.recovery import Recovery, close_ring
from evensong.core.totem.timers import Timers

RING_SEQ_STEP: Final = 4  # room for the transitional configuration's id, two below [SRP §5]


class State(Enum):
    """The states of the membership protocol."""

    OPERATIONAL = "operational"
    GATHER = "gather"
    COMMIT = "commit"
    RECOVERY = "recovery"


@final
class StateMachine:
    """One processor's states and what they are about: its rings, its proposal, its recovery."""

    __slots__ = (
        "cause",
        "ceiling",
        "drops",
        "effects",
        "frame_no",
        "holder",
        "incarnation",
        "joined_at",
        "membership",
        "met",
        "met_by_state",
        "my_entry",
        "my_id",
        "my_ring_id",
        "old",
        "parameters",
        "recovery",
        "ring",
        "rng",
        "stale_joins_until",
        "state",
        "strangers",
        "timers",
        "timestamp_high",
    )

    def __init__(
        self,
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
        effects: list[Effect],
    ) -> None:
        self.my_id: Final = my_id
        self.incarnation: Final = incarnation
        self.parameters: Final = parameters
        self.rng: Final = rng
        self.effects: Final = effects
        self.ceiling = record.ring_seq  # Invariant: no ring id above it was put in a datagram.
        self.timestamp_high: Final = record.timestamp_high
        self.state = State.OPERATIONAL
        self.my_ring_id = RingId(record.ring_seq + RING_SEQ_STEP, my_id)
        # `old` is the ring installed last; `ring` the one whose token counts. They differ in
        # Recovery only, when `ring` is the one that forms.
        self.old = self.ring = Ring(self.my_ring_id, (my_id,), my_id, incarnation, parameters)
        self.membership: Final = Membership(my_id)
        self.strangers: Final = Strangers(parameters, rng)
        self.recovery: Recovery | None = None
        self.my_entry: MembEntry | None = None  # what I wrote into the commit token
        self.timers: Final = Timers(parameters)
        self.holder: Final = TokenHolder(self.ring, source, parameters, self.timers, effects)
        self.frame_no = 0
        self.cause = ""  # why the installed ring came to its end
        self.joined_at = -NEVER  # when I last broadcast a Join
        self.stale_joins_until = -NEVER
        self.drops: Final[dict[str, int]] = {}  # by reason
        self.met_by_state: Final[dict[State, set[str]]] = {state: set() for state in State}
        self.met = self.met_by_state[self.state]  # the events that met this state

    def drop(self, reason: str) -> None:
        """Count a datagram that had no effect."""
        self.drops[reason] = self.drops.get(reason, 0) + 1

    # -- calls and datagrams -----------------------------------------------------------------

    def on_start(self, now: int) -> None:
        """Install a ring of one, above every ring id used before, and look for others."""
        self._reserve(self.my_ring_id.seq)
        alone = Configuration(
            self.my_ring_id, NO_RING, (self.my_id,), transitional=False, cause="start"
        )
        self.effects.append(Install(alone))
        self.enter_gather(now, "start", NO_PROCESSOR)

    def on_submit(self, now: int) -> None:
        """Wake an idle ring: there is something to send."""
        self.met.add("submit")
        state = self.state
        if state is State.OPERATIONAL:
            if len(self.ring.members) == 1:
                self.holder.deliver_alone()
            elif (token := self.holder.held_token) is not None:
                self._conclude(self.holder.send_held(now), token, now)
            elif self.ring.may_rest_elsewhere():
                self.holder.cancel_hold()
        elif state is State.GATHER or state is State.COMMIT or state is State.RECOVERY:
            pass  # the packets wait at the source until a token comes
        else:
            assert_never(state)

    def on_pause(self, now: int) -> None:
        """Suspect nobody for my own lateness: I was suspended, or the machine was busy."""
        self.met.add("pause")
        self.timers.forgive(now)
        self.stale_joins_until = now + self.parameters.join  # those that come now were queued

    def on_regular(self, message: RegularMessage, transmitter: ProcessorId, now: int) -> None:
        """Keep a message of my ring; hear of other rings from theirs."""
        state = self.state
        if message.ring_id == self.ring.ring_id and state is State.OPERATIONAL:
            self.met.add("regular")
            if message.flags & ENCAP:
                self.drop("recovery traffic of an installed ring")  # everybody has it
            else:
                refused = self.holder.store(message, now)
                if refused:
                    self.drop(refused)
        elif message.ring_id == self.ring.ring_id and state is State.RECOVERY:
            self.met.add("regular")
            self._store_in_recovery(message, now)
        elif message.ring_id == self.old.ring_id and state is not State.OPERATIONAL:
            self.met.add("regular of the old ring")
            self._store_for_old_ring(message)
        else:
            self._hear_stranger("regular", transmitter, message.ring_id, now)

    def deliver_stored(self) -> None:
        """Deliver what the messages that came have made deliverable; not while a ring forms."""
        if self.state is State.OPERATIONAL:
            self.effects.extend(self.ring.deliver_ready())

    def on_token(self, token: RegularToken, transmitter: ProcessorId, now: int) -> None:
        """Take the token if it is mine to take [SRP §4]."""
        state = self.state
        ring = self.ring
        if token.ring_id != ring.ring_id:
            self.met.add("token of another ring")
            self.drop("token of another ring")
        elif state is State.GATHER or state is State.COMMIT:
            self.met.add("token")
            self.drop("token while forming a ring")
        elif state is State.OPERATIONAL or state is State.RECOVERY:
            self.met.add("token")
            if token.token_seq <= ring.my_token_seq:
                self.drop("token seen before")
            elif not self.holder.can_accept(token, transmitter, self.recovery):
                self.drop("token that cannot be")
            else:
                self._conclude(self.holder.accept(token, self.recovery, now), token, now)
        else:
            assert_never(state)

    def on_join(self, join: Join, now: int) -> None:
        """Weigh a proposal [SRP §5]."""
        state = self.state
        self.met.add("join")
        membership = self.membership
        sender_id = join.sender_id
        if now < self.stale_joins_until:
            self.drop("join queued while I was paused")
        elif self._is_in_quarantine(join, now):
            self.drop("join in quarantine")
        elif state is State.OPERATIONAL:
            if self.my_id in join.fail_set:
                self.drop("join against me")
            elif sender_id in membership.my_memb and join.ring_seq < self.my_ring_id.seq:
                self.drop("join of an earlier formation")
            elif membership.weigh(join) is Weight.IGNORED:
                self.drop("join ignored")
            else:
                self.enter_gather(now, "join", sender_id)
        elif state is State.GATHER:
            self._gather_join(join, now)
        elif state is State.COMMIT or state is State.RECOVERY:
            # Nobody sends Joins in Commit or Recovery: a member that does has given this ring up.
            if sender_id in membership.proposed() and join.ring_seq >= self.my_ring_id.seq:
                membership.weigh(join)
                self.enter_gather(now, "join: a member gave the forming ring up", sender_id)
            else:
                self.drop("join of an earlier formation")
        else:
            assert_never(state)

    def _is_in_quarantine(self, join: Join, now: int) -> bool:
        """Whether it comes from a deaf processor, or one that never comes and has not heard me.

        One that names me has heard of me. Were it shut out too, the two sides of a healed network
        could keep each other out in turn, for ever: while the one is open, the other is shut.
        """
        sender_id = join.sender_id
        has_heard_me = self.my_id in join.proc_set - join.fail_set
        return sender_id not in self.membership.proc_set and (
            self.strangers.is_deaf(sender_id, now)
            or (not has_heard_me and self.strangers.is_shut_out(sender_id, now))
        )

    def _gather_join(self, join: Join, now: int) -> None:
        weight = self.membership.weigh(join)
        if weight is Weight.NEWS:
            self.enter_gather(now, "join", join.sender_id)
        elif weight is Weight.AGREES:
            self._try_to_form(now)
        elif weight is Weight.BEHIND or weight is Weight.IGNORED:
            self.drop("join without news")
        else:
            assert_never(weight)

    def on_commit(self, commit: CommitToken, now: int) -> None:
        """Fill my entry in the first rotation, learn from it in the second [SRP §5]."""
        state = self.state
        self.met.add("commit")
        if state is State.GATHER:
            if self._is_proposed(commit):
                self.enter_commit(commit, now)
            else:
                self.drop("commit of another proposal")
        elif state is State.COMMIT:
            expected = 1 if commit.ring_id.rep == self.my_id else 2
            is_filled = commit.memb[-1].filled
            if commit.ring_id != self.my_ring_id or not is_filled or commit.rotation != expected:
                self.drop("commit seen before")
            elif (
                commit.member_ids() != self.membership.proposed()
                or self.my_entry not in commit.memb
                or commit.token_seq > 2 * len(commit.memb)
            ):
                self.drop("commit that cannot be")
            else:
                self.enter_recovery(commit, now)
        elif state is State.RECOVERY:
            recovery = self.recovery
            assert recovery is not None
            is_mine = commit.ring_id == self.my_ring_id and commit.ring_id.rep == self.my_id
            if is_mine and commit.rotation == 2 and not recovery.token_originated:
                recovery.token_originated = True
                token = convert(recovery, self.my_id)
                self._conclude(self.holder.accept(token, recovery, now), token, now)
            else:
                self.drop("commit seen before")
        elif state is State.OPERATIONAL:
            self.drop("commit while operational")
        else:
            assert_never(state)

    def on_beacon(self, beacon: Beacon, transmitter: ProcessorId, now: int) -> None:
        """Hear of another ring."""
        self._hear_stranger("beacon", transmitter, beacon.ring_id, now)

    def on_hold_cancel(self, cancel: HoldCancel, now: int) -> None:
        """Let an idle token go: somebody has something to send."""
        self.met.add("hold_cancel")
        if cancel.ring_id != self.ring.ring_id or self.state is not State.OPERATIONAL:
            self.drop("hold_cancel of another ring")
            return
        self.holder.note_call()
        if self.holder.held_token is not None:
            self._release_held_token(now)

    def on_leave(self, leave: Leave, transmitter: ProcessorId, now: int) -> None:
        """Go on without a processor that departs in good order; who leaves my ring names it."""
        self.met.add("leave")
        membership = self.membership
        is_stale = leave.ring_id.seq < self.old.ring_id.seq
        is_foreign = self.state is State.OPERATIONAL and leave.ring_id != self.ring.ring_id
        if transmitter not in membership.proposed() or is_stale or is_foreign:
            self.drop("leave of somebody else")
            return
        membership.fail(transmitter)
        self.enter_gather(now, "leave", transmitter)

    def _hear_stranger(
        self, what: str, transmitter: ProcessorId, ring_id: RingId, now: int
    ) -> None:
        """React to a sign of another ring, unless it is an echo of the past.

        It is the transmitter that is alive; the originator of a retransmitted message need not be.
        """
        state = self.state
        membership = self.membership
        if transmitter in membership.my_memb and ring_id.seq <= self.my_ring_id.seq:
            self.met.add(what + " of a past ring")
            self.drop(what + " of a past ring")
            return
        self.met.add("foreign " + what)
        if state is State.OPERATIONAL or state is State.GATHER:
            if transmitter in membership.proc_set and state is State.GATHER:
                self.drop("stranger already known")
            elif self.strangers.is_quiet(transmitter, now):
                self.drop("stranger damped")
            elif not membership.can_add(transmitter):
                self.drop("stranger beyond the largest ring")
            else:
                membership.add(transmitter)
                self.enter_gather(now, "foreign " + what, transmitter)
        elif state is State.COMMIT or state is State.RECOVERY:
            self.drop("stranger while forming a ring")
        else:
            assert_never(state)

    # -- timers ------------------------------------------------------------------------------

    def on_token_loss(self, now: int) -> None:
        """Give up on the token, or on the ring that was to be formed [SRP §5]."""
        state = self.state
        self.met.add("token_loss")
        if state is State.OPERATIONAL:
            self.enter_gather(now, "token loss", NO_PROCESSOR)
        elif state is State.GATHER or state is State.COMMIT or state is State.RECOVERY:
            membership = self.membership
            limit = self.parameters.form_retry_limit
            blamed = membership.count_failed_attempt(membership.proposed(), limit)
            self.enter_gather(now, f"token loss in {state.value}", blamed)
        else:
            assert_never(state)

    def on_token_retransmit(self, now: int) -> None:
        """Send the token or commit token again: nobody has shown that it arrived [SRP §4]."""
        self.met.add("token_retransmit")
        assert self.state is not State.GATHER
        self.holder.resend_token(now)

    def on_consensus_timeout(self, now: int) -> None:
        """Go on without those who did not agree [SRP §5]."""
        self.met.add("consensus_timeout")
        assert self.state is State.GATHER
        membership = self.membership
        if membership.has_consensus():
            self._form_alone(now)  # nobody else was heard since the start
            return
        silent = membership.fail_silent()
        self.enter_gather(now, "consensus timeout", min(silent))

    def on_join_timeout(self, now: int) -> None:
        """Say my proposal again: the Join may have got lost."""
        self.met.add("join_timeout")
        assert self.state is State.GATHER
        self._broadcast_join(now)

    def on_hold_timeout(self, now: int) -> None:
        """Let the held token of an idle ring go round once."""
        self.met.add("hold_timeout")
        assert self.holder.held_token is not None
        self._release_held_token(now)

    def on_beacon_timeout(self, now: int) -> None:
        """Show that the ring exists, unless its messages did."""
        self.met.add("beacon_timeout")
        assert self.state is State.OPERATIONAL
        if now - self.holder.regular_at >= self.parameters.beacon:
            sign = Beacon(self.ring.ring_id, len(self.ring.members))
            self.effects.append(Broadcast(wire.encode_beacon(sign, self.my_id, self.incarnation)))
        self.timers.beacon.start(now)

    # -- the four states ---------------------------------------------------------------------

    def enter_gather(self, now: int, cause: str, about: ProcessorId) -> None:
        """Propose a membership and look who shares it [SRP §5]."""
        if self.state is State.OPERATIONAL:
            self.cause = cause
        self.recovery = None  # a failed recovery; what it taught is in the old ring's buffer
        self._use(self.old)
        self._change_state(State.GATHER)
        self.timers.stop_circulating()
        sets = self.membership.begin_round()
        self.effects.append(StateChange("gather", self.my_ring_id, cause, about, *sets))
        self._offer_join(now)
        self.timers.consensus.start(now)
        self._try_to_form(now)

    def enter_commit(self, commit: CommitToken, now: int) -> None:
        """Commit to the proposed ring and pass its commit token on [SRP §5]."""
        self.timers.stop_gathering()
        self._change_state(State.COMMIT)
        self.my_ring_id = commit.ring_id
        self._reserve(commit.ring_id.seq)
        self.my_entry = commit.memb[commit.memb_index()] = entry_of(self.old)
        self.effects.append(StateChange("commit", commit.ring_id, "consensus", NO_PROCESSOR))
        self._forward_commit(commit, now)

    def enter_recovery(self, commit: CommitToken, now: int) -> None:
        """Freeze the old ring and exchange what its members lack [SRP §6]."""
        self.effects.append(
            StateChange("recovery", commit.ring_id, "commit token came twice", NO_PROCESSOR)
        )
        commit.rotation = 2
        self._forward_commit(commit, now)
        self.recovery = Recovery(commit, self.old)
        ring = Ring(
            commit.ring_id, commit.member_ids(), self.my_id, self.incarnation, self.parameters
        )
        self._use(ring)
        self._change_state(State.RECOVERY)

    def enter_operational(self, now: int) -> None:
        """Install the ring: one action, no step of the network in between [SRP §6]."""
        recovery = self.recovery
        assert recovery is not None
        assert self.state is State.RECOVERY
        self.effects.append(
            StateChange("operational", self.ring.ring_id, "recovered", NO_PROCESSOR)
        )
        self.effects.extend(recovery.closing(self.cause))
        self.recovery = None
        self._settle(self.ring, recovery.install_seq, now)
        self.holder.deliver()  # what faster members have sent on the ring meanwhile

    def _form_alone(self, now: int) -> None:
        """Form a ring of one: commit and recovery without a network."""
        old = self.old
        ring_id = self._next_ring_id()
        self.my_ring_id = ring_id
        self._reserve(ring_id.seq)
        entry = entry_of(old)
        self.timers.stop_gathering()
        members = (self.my_id,)
        self.effects.append(
            StateChange("operational", ring_id, "nobody else is here", NO_PROCESSOR)
        )
        self.effects.extend(
            close_ring(old, members, entry.high_delivered, ring_id, members, self.cause)
        )
        self._use(Ring(ring_id, members, self.my_id, self.incarnation, self.parameters))
        self._settle(self.ring, 0, now)
        self.holder.deliver_alone()

    def _settle(self, ring: Ring, install_seq: int, now: int) -> None:
        self._change_state(State.OPERATIONAL)
        suspect = self.old.suspect()
        self.old = ring
        ring.high_delivered = ring.install_seq = install_seq  # the rest was no messages
        absent = self.membership.install(ring.members)
        self.strangers.came(ring.members)
        self.strangers.missed(absent, now)
        if suspect in absent:
            self.strangers.accuse(suspect, now)
        if ring.is_representative():
            self.timers.beacon.start(now)

    def _use(self, ring: Ring) -> None:
        self.ring = ring
        self.holder.use(ring)

    def _change_state(self, state: State) -> None:
        self.state = state
        self.met = self.met_by_state[state]

    # -- forming a ring ----------------------------------------------------------------------

    def _offer_join(self, now: int) -> None:
        """Broadcast my proposal at once, unless I just did: a herd's Joins come in one."""
        gap = self.parameters.join * len(self.membership.proc_set) // 256
        if now - self.joined_at >= gap:
            self._broadcast_join(now)
        else:
            self.timers.join.deadline = self.joined_at + gap

    def _broadcast_join(self, now: int) -> None:
        membership = self.membership
        sets = membership.proc_set, membership.fail_set
        join = Join(self.my_id, self.incarnation, *sets, self._ring_seq_known())
        self.effects.append(Broadcast(wire.encode_join(join)))
        self.joined_at = now
        self.timers.join.start_late(now, self.rng.randrange(self.parameters.join // 4 + 1))

    def _try_to_form(self, now: int) -> None:
        membership = self.membership
        if not membership.has_consensus():
            return
        members = membership.proposed()
        if len(members) > 1 and members[0] == self.my_id:
            self.enter_commit(propose(self._next_ring_id(), members), now)
        elif len(members) > 1 and self.timers.consensus.is_armed():
            # The commit token should come within this time. Joins that repeat the agreement must
            # not extend it: the representative may be dead, and the others go on sending them.
            self.timers.consensus.stop()
            self.timers.token_loss.start(now)
        elif len(members) == 1 and len(membership.proc_set) > 1:
            self._form_alone(now)
        # else nobody was heard since the start: wait for as long as consensus may take

    def _next_ring_id(self) -> RingId:
        return RingId(self._ring_seq_known() + RING_SEQ_STEP, self.my_id)

    def _ring_seq_known(self) -> int:
        return max(self.my_ring_id.seq, self.membership.max_join_seq)

    def _is_proposed(self, commit: CommitToken) -> bool:
        return (
            commit.member_ids() == self.membership.proposed()
            and self.my_ring_id.seq < commit.ring_id.seq <= self._ring_seq_known() + RING_SEQ_LEAP
            and commit.ring_id.rep != self.my_id
            and is_turn_of(self.my_id, commit)
        )

    def _forward_commit(self, commit: CommitToken, now: int) -> None:
        commit.token_seq += 1
        successor = successor_of(self.my_id, commit)
        frame = wire.encode_commit(commit, self.my_id, self.incarnation)
        self.frame_no = (self.frame_no + 1) % 2**32
        datagrams = split(frame, self.frame_no, self.parameters.datagram_max)
        self.holder.remember([Unicast(successor, datagram) for datagram in datagrams], 0, now)

    def _reserve(self, ring_seq: int) -> None:
        """Make sure that this ring seq is durable before it is put in a datagram."""
        if ring_seq > self.ceiling:
            self.ceiling = ring_seq + self.parameters.ceiling_stride
            record = StableRecord(self.ceiling, self.incarnation, self.timestamp_high)
            self.effects.append(Persist(encode_record(record)))

    # -- messages and tokens -----------------------------------------------------------------

    def _store_in_recovery(self, message: RegularMessage, now: int) -> None:
        recovery = self.recovery
        assert recovery is not None
        inner = wire.decapsulate(message.payload) if message.flags & ENCAP else None
        refused = self.holder.store(message, now)
        if refused:
            self.drop(refused)
        elif inner is not None:
            recovery.take_old_message(inner)

    def _store_for_old_ring(self, message: RegularMessage) -> None:
        """Keep a message of the ring that ends, without delivering it."""
        old = self.old
        if old.ending.frozen:
            # A transitional peer may lack it: it told what it has before this one came to me.
            self.drop("message for a frozen ring")
        elif old.buffer.has(message.seq):
            self.drop("message received before")
        elif not old.can_hold(message) or message.flags & ENCAP:
            self.drop("message that cannot be")
        else:
            old.buffer.add(message.seq, message)

    def _conclude(self, end: VisitEnd, token: RegularToken, now: int) -> None:
        """Draw the membership's conclusion from a visit of the token."""
        if end is VisitEnd.INSTALLS:
            self.enter_operational(now)
        elif end is VisitEnd.ACCUSES:
            self.membership.fail(token.aru_id)
            self.enter_gather(now, "fail to receive", token.aru_id)
        elif end is VisitEnd.PASSED_ON or end is VisitEnd.HELD:
            pass
        else:
            assert_never(end)

    def _release_held_token(self, now: int) -> None:
        token = self.holder.held_token
        assert token is not None
        self._conclude(self.holder.release_held_token(now), token, now)
