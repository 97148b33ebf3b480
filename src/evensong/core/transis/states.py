"""The state x event table of a processor in a broadcast domain, as code [Transis §3, §4].

One `on_<event>` a row, one branch a state; the three states change only in the `enter_*` methods,
each with a recorded cause. The graph and delivery are in `view.py`, what is sent and repaired in
`flow.py`, proposals in `membership.py`; here they are put together. The table in
docs/protocols/transis.md is the map.
"""

from collections.abc import Iterable
from enum import Enum
from random import Random
from typing import Final, assert_never, final

from evensong.core.core import Source
from evensong.core.effects import Effect, Install, Persist, StateChange, Unicast
from evensong.core.ids import NO_PROCESSOR, NO_RING, Configuration, ProcessorId
from evensong.core.stable import StableRecord, encode_record
from evensong.core.timer import NEVER
from evensong.core.transis import wire
from evensong.core.transis.detection import Acquaintances, Candidates, Watch
from evensong.core.transis.flow import Flow
from evensong.core.transis.frames import (
    AJ,
    JOIN,
    PING,
    PONG,
    AttemptJoin,
    Entry,
    Head,
    Message,
    Nack,
    Proposal,
    ViewId,
)
from evensong.core.transis.membership import (
    Agreement,
    Passage,
    next_view_id,
    passage_id,
    view_id_of,
)
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.view import View

RELAYED: Final = ", sent again"  # behind a cause: by somebody else, who may be all that is heard
VIEW_NO_LEAP: Final = 2**40  # no honest view is so far ahead; whoever followed could not go back


class State(Enum):
    """The states of the membership."""

    STABLE = "stable"
    COLLECT = "collect"
    AGREE = "agree"


@final
class StateMachine:
    """One processor's states and what they are about: its view, its proposal, its acquaintances."""

    __slots__ = (
        "_cands",
        "_early",
        "acquaintances",
        "agreement",
        "cause",
        "ceiling",
        "effects",
        "flow",
        "heard_since",
        "incarnation",
        "met",
        "met_by_state",
        "my_id",
        "parameters",
        "passage",
        "previous",
        "rng",
        "state",
        "timestamp_high",
        "view",
        "watch",
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
        self.ceiling = record.ring_seq  # Invariant: no view_no above it was put in a datagram.
        self.timestamp_high: Final = record.timestamp_high
        self.state = State.STABLE
        view_id = view_id_of(record.ring_seq + 1, [(my_id, incarnation, 0)])
        self.view = View(view_id, ((my_id, incarnation),), my_id, parameters, rng, effects)
        self.previous: View | None = None  # kept for members that are late
        self.passage: Passage | None = None
        self.agreement = Agreement(self.my_entry(), (self.my_entry(),))
        self.flow: Final = Flow(my_id, incarnation, parameters, source, self.view, effects)
        self.watch = Watch(1, 0, parameters, 0)
        self.acquaintances: Final = Acquaintances(parameters, rng)
        self.cause = ""  # why the present view comes to its end
        self.heard_since = 0  # when the present view was installed
        self._cands: Final = Candidates(my_id, self.acquaintances)
        self._early: Final[list[Message]] = []  # of views that are not installed yet
        self.met_by_state: Final[dict[State, set[str]]] = {state: set() for state in State}
        self.met = self.met_by_state[self.state]  # the events that met this state

    def my_entry(self) -> Entry:
        """Return what I am in my present view."""
        return Entry(self.my_id, self.incarnation, self.view.view_id.seq)

    # -- calls -------------------------------------------------------------------------------

    def on_start(self, now: int) -> None:
        """Be alone, in a view above every one of an earlier life, and be heard."""
        self._reserve(self.view.view_id.seq)
        alone = Configuration(
            self.view.view_id, NO_RING, (self.my_id,), transitional=False, cause="start"
        )
        self.effects.append(Install(alone))
        self.enter_stable(now, "start", NO_PROCESSOR)

    def _reserve(self, view_no: int) -> None:
        """Make a view number, and this life, durable before anyone hears of it."""
        if view_no > self.ceiling:
            self.ceiling = view_no - 1 + self.parameters.ceiling_stride
            record = StableRecord(self.ceiling, self.incarnation, self.timestamp_high)
            self.effects.append(Persist(encode_record(record)))

    def on_submit(self, now: int) -> None:
        """Send what the window allows; in AGREE it waits for the next view."""
        self.met.add("submit")
        self.flow.pump(now)

    def on_pause(self, now: int) -> None:
        """Suspect nobody for my own lateness: I was suspended, or the machine was busy."""
        self.met.add("pause")
        self.watch.forgive(now)
        timers = self.flow.timers
        for timer in (timers.agree, timers.collect, timers.stuck):
            if timer.is_armed():
                timer.start(now)

    # -- whoever transmits -------------------------------------------------------------------

    def on_transmitter(self, head: Head, now: int) -> None:
        """Learn from a frame where its transmitter is."""
        proc, incarnation, view_id = head.transmitter, head.incarnation, head.view_id
        is_latest = self.acquaintances.hear(proc, incarnation, view_id.seq)
        mine = self.view.view_id
        if view_id.seq > mine.seq and self.state is State.AGREE:
            self._follow(view_id, now)
            mine = self.view.view_id
        index = self.view.graph.index_by_member.get(proc)
        if index is None:
            if is_latest and head.kind != JOIN:  # a JOIN says more than that it is foreign
                self.on_foreign(proc, "foreign message", now)
            return
        member_incarnation = self.view.graph.members[index][1]
        if incarnation < member_incarnation:
            return  # an earlier self of a member
        if incarnation > member_incarnation:
            self.on_break(proc, "restarted", now)
        elif view_id == mine:
            self.watch.hear(index, now)
            self._release_previous()
        elif view_id.seq >= mine.seq:
            self.on_break(proc, "is in another view", now)

    def on_foreign(self, proc: ProcessorId, cause: str, now: int) -> None:
        """Hear a processor that is not in my view."""
        self.met.add("foreign")
        state = self.state
        if state is State.STABLE:
            if not self.acquaintances.is_left_alone(proc, now):
                self.flow.broadcast(self._attempt())
                self.enter_collect(now, cause, proc)
        elif state is State.COLLECT or state is State.AGREE:
            pass  # it is being collected; or it comes again after the change
        else:
            assert_never(state)

    def on_break(self, proc: ProcessorId, why: str, now: int) -> None:
        """Give a member up."""
        self.met.add("break")
        state = self.state
        if state is State.STABLE or state is State.COLLECT:
            failed = [entry for entry in self.agreement.mates if entry.proc == proc]
            self.enter_agree(now, why, proc, (), failed)
            self._try_install(now)
        elif state is State.AGREE:
            pass  # there only the time to agree judges
        else:
            assert_never(state)

    def _attempt(self) -> bytes:
        return wire.encode_attempt(self.view.graph.members, self.flow.head(AJ))

    # -- messages of the graph ---------------------------------------------------------------

    def on_message(self, message: Message, is_resent: bool, now: int) -> None:
        """Take in a message of a graph: of my view, or a proposal of whatever view."""
        is_mine = message.view_id == self.view.view_id
        if message.sender_id == self.my_id:
            self.flow.hear_repair(self.view, message, is_resent, now)
            return
        if message.kind == JOIN:
            self._on_proposal(message, is_resent, now)
        if not is_mine:
            self._on_message_of_another_view(message, is_resent, now)
        elif message.view_id == self.view.view_id:
            self.met.add("message")
            if self.flow.receive(message, is_resent, now):
                self._insert_ready(now)
        self._try_install(now)

    def _on_message_of_another_view(self, message: Message, is_resent: bool, now: int) -> None:
        self.met.add("message of another view")
        state = self.state
        if self.previous is not None and message.view_id == self.previous.view_id:
            self.flow.hear_repair(self.previous, message, is_resent, now)
        elif state is State.AGREE:
            # Whoever installed before me goes on there already.
            is_later = message.view_id.seq > self.view.view_id.seq
            if is_later and len(self._early) < self.parameters.early_max:
                self._early.append(message)
        elif state is State.STABLE or state is State.COLLECT:
            pass  # what is missed of a view that I come to will be asked for
        else:
            assert_never(state)

    def _insert_ready(self, now: int) -> None:
        self.flow.insert_ready(now)
        self.flow.pump(now)

    # -- proposals ---------------------------------------------------------------------------

    def _on_proposal(self, message: Message, is_resent: bool, now: int) -> None:
        """Hear a JOIN on its reception, whether or not it can be inserted yet."""
        proposal, entry = message.proposal, message.entry()
        assert proposal is not None
        if not is_resent and self.passage is not None and proposal == self.passage.proposal:
            for needed in self.passage.help_for(entry, now):
                self.flow.retransmit(needed)
        is_mate = message.view_id == self.view.view_id
        if is_mate and entry[:2] not in self.view.graph.members:
            self.flow.drop("join of no member in its name")
            return
        if max(one.view_no for one in proposal.joint) > self.view.view_id.seq + VIEW_NO_LEAP:
            self.flow.drop("join with a leap in view numbers")
            return
        self.met.add("join of a mate" if is_mate else "join of a foreigner")
        agreement = self.agreement
        if self.state is State.AGREE and (
            entry in agreement.failed or entry not in agreement.joint
        ):
            return  # its turn comes after the change
        how = RELAYED if is_resent else ""
        if agreement.me in proposal.failed:
            self._on_accused(entry, is_mate, f"accused me{how}", now)
        elif agreement.me not in proposal.joint:
            self._on_proposal_without_me(entry, proposal, f"foreign message{how}", now)
        else:
            self._on_proposal_with_me(message, is_mate, f"join message{how}", now)

    def _on_accused(self, entry: Entry, is_mate: bool, cause: str, now: int) -> None:
        """Hear that somebody will never agree with me."""
        if not is_mate:
            return  # it may learn better; else the time to agree judges
        if self.state is State.AGREE:
            self.agreement.failed.add(entry)
            self._enlarge(now, cause, entry.proc)
        else:
            self.on_break(entry.proc, cause, now)

    def _on_proposal_without_me(self, entry: Entry, said: Proposal, cause: str, now: int) -> None:
        if entry.proc in self.view.graph.index_by_member or self.acquaintances.is_outdated(entry):
            return
        self.on_foreign(entry.proc, cause, now)
        if self.state is State.COLLECT:
            self._cands.collect(said.required())

    def _on_proposal_with_me(self, message: Message, is_mate: bool, cause: str, now: int) -> None:
        proposal, entry = message.proposal, message.entry()
        assert proposal is not None
        agreement = self.agreement
        state = self.state
        if state is State.AGREE:
            agreement.record(entry, proposal, message)
            if agreement.take_over(proposal, is_mate=is_mate):
                self._enlarge(now, cause, entry.proc)
        elif state is State.STABLE or state is State.COLLECT:
            mates = agreement.mates
            is_unfit = any(mate in proposal.failed for mate in mates)
            if not is_mate and (is_unfit or self.acquaintances.is_outdated(entry)):
                self.flow.drop("join that cannot be followed")
                return
            agreement.record(entry, proposal, message)
            joint = {*proposal.joint, *self._cands.fit()}
            self.enter_agree(now, cause, entry.proc, joint, proposal.failed)
        else:
            assert_never(state)

    def _enlarge(self, now: int, cause: str, about: ProcessorId) -> None:
        """Propose more than before: others, or fewer of them; and record why."""
        if self.agreement.conclude() != self.agreement.current():
            self._enter(State.AGREE, cause, about)
        self._publish(now)

    def _publish(self, now: int) -> None:
        """Say what I propose; all know then that I shall agree to nothing less."""
        agreement = self.agreement
        proposal = agreement.conclude()
        timers = self.flow.timers
        self.flow.failed = agreement.mates_failed(self.view.procs)
        timers.agree.start(now)
        if agreement.published and proposal == agreement.current():
            return
        message = self.flow.originate_join(proposal, now)
        agreement.record(agreement.me, proposal, message)
        agreement.published.append(proposal)
        timers.repeat.start(now)

    # -- installing --------------------------------------------------------------------------

    def _try_install(self, now: int) -> None:
        """Go on to the next view if all who are required have published what I have."""
        if self.state is State.AGREE:
            proposal = self.agreement.current()
            finals = self.agreement.complete(proposal, self.view)
            if finals is not None:
                self._install(proposal, finals, now)

    def _follow(self, view_id: ViewId, now: int) -> None:
        """Go after somebody who installed what I proposed before, and could have installed."""
        older = self.agreement.older(view_id, self.view)
        if older is not None:
            self._install(*older, now)

    def _install(self, proposal: Proposal, finals: list[Message], now: int) -> None:
        """End the present view at the cut of the finals, and begin the next."""
        old = self.view
        mates = [one for one in finals if one.view_id == old.view_id]
        view_id = next_view_id(proposal, finals)
        passage = Configuration(
            passage_id(view_id, mates),
            old.view_id,
            tuple([one.sender_id for one in mates]),
            transitional=True,
            cause=self.cause,
        )
        self._reserve(view_id.seq)
        old.close(passage)
        members = tuple([(entry.proc, entry.incarnation) for entry in proposal.required()])
        self.view = View(view_id, members, self.my_id, self.parameters, self.rng, self.effects)
        self.previous = old
        self.passage = Passage(proposal, finals, now, self.parameters)
        self.heard_since = now
        entries = [Entry(proc, incarnation, view_id.seq) for proc, incarnation in members]
        self.agreement = Agreement(self.my_entry(), tuple(entries))
        self.watch = Watch(len(members), self.view.my_index, self.parameters, now)
        self.flow.begin_view(self.view)
        self.effects.append(
            Install(
                Configuration(
                    view_id, passage.conf_id, self.view.procs, transitional=False, cause=self.cause
                )
            )
        )
        known = old.graph.members
        strangers = [one.proc for one in proposal.joint if one[:2] not in known]
        gained = [member[0] for member in members if member not in known]
        lost = [proc for proc in old.procs if proc not in self.view.procs]
        self.acquaintances.on_change(strangers, gained, lost, now)
        early = [message for message in self._early if message.view_id == view_id]
        self._early.clear()
        self.enter_stable(now, "installed", NO_PROCESSOR)
        for message in early:
            self.on_message(message, True, now)

    def _release_previous(self) -> None:
        """Forget the view before when all members of this one have been heard in it."""
        if self.previous is not None and self.watch.has_heard_all(self.heard_since):
            self.previous = None

    # -- what else is said -------------------------------------------------------------------

    def on_attempt(self, attempt: AttemptJoin, head: Head, now: int) -> None:
        """Hear that somebody has heard strangers."""
        state = self.state
        if head.view_id == self.view.view_id:
            self.met.add("aj of a mate")
            if state is State.STABLE:
                self.enter_collect(now, "a member heard foreign messages", head.transmitter)
        elif head.transmitter in self.view.graph.index_by_member:
            self.flow.drop("aj of a member elsewhere")
        else:
            self.met.add("aj of a foreigner")
            if state is State.COLLECT:
                self._cands.collect(
                    [Entry(*member, head.view_id.seq) for member in attempt.members]
                )

    def on_nack(self, nack: Nack, head: Head, now: int) -> None:
        """Send again what I hold, of my view or of the one before."""
        self.met.add("nack")
        for view in (self.view, self.previous):
            if view is not None and view.view_id == head.view_id:
                self.flow.answer(view, nack, head.transmitter, now)

    def on_ping(self, head: Head) -> None:
        """Answer, in whatever state."""
        self.met.add("ping")
        self.effects.append(Unicast(head.transmitter, self.flow.head(PONG)))

    def on_pong(self) -> None:
        """Know that it is there: its transmitter has been heard."""
        self.met.add("pong")

    def on_leave(self, head: Head, now: int) -> None:
        """Go on without a member that departs in good order."""
        self.met.add("leave")
        proc, incarnation = head.transmitter, head.incarnation
        if self.state is State.AGREE:
            gone = [
                entry
                for entry in sorted(self.agreement.joint)
                if entry[:2] == (proc, incarnation) and entry not in self.agreement.failed
            ]
            if gone and proc != self.my_id:
                self.agreement.failed.update(gone)
                self._enlarge(now, "left", proc)
                self._try_install(now)
        elif (proc, incarnation) in self.view.graph.members:
            self.on_break(proc, "left", now)

    # -- timers ------------------------------------------------------------------------------

    def on_silence(self, now: int) -> None:
        """Probe who is not heard; give up who does not answer."""
        self.met.add("silence_timeout")
        ask, silent = self.watch.look(now)
        if self.state is State.AGREE:
            return
        for index in ask:
            self.effects.append(Unicast(self.view.procs[index], self.flow.head(PING)))
        if silent:
            procs = [self.view.procs[index] for index in silent]
            failed = [entry for entry in self.agreement.mates if entry.proc in procs]
            self.enter_agree(now, "silent", procs[0], (), failed)
            self._try_install(now)

    def on_collect_timeout(self, now: int) -> None:
        """Propose who was collected, if anybody was."""
        self.met.add("collect_timeout")
        cands = self._cands.fit()
        if all(entry in self.agreement.mates for entry in cands):
            self.enter_stable(now, "nobody to join with", NO_PROCESSOR)
        else:
            others = [entry.proc for entry in cands if entry not in self.agreement.mates]
            self.enter_agree(now, "join", others[0], cands, ())
            self._try_install(now)

    def on_offer_timeout(self, now: int) -> None:
        """Say again who is here: the lowest of us does it for all."""
        self.met.add("offer_timeout")
        if self.my_id == self.view.procs[0]:
            self.flow.broadcast(self._attempt())
        self.flow.timers.offer.start(now)

    def on_agree_timeout(self, now: int) -> None:
        """Go on without who has not agreed in time."""
        self.met.add("agree_timeout")
        agreement = self.agreement
        cause = "agree timeout"
        late = agreement.late()
        if not late:
            cause = "its past is lost"
            late = agreement.out_of_reach(self.view) or agreement.doubled()
        agreement.failed.update(late)
        self._enlarge(now, cause, late[0].proc if late else NO_PROCESSOR)
        self._insert_ready(now)
        self._try_install(now)

    def on_repeat_timeout(self, now: int) -> None:
        """Say my latest proposal again, the very same message."""
        self.met.add("repeat_timeout")
        agreement = self.agreement
        self.flow.repeat_join(agreement.pubs[agreement.me][agreement.current()])
        self.flow.timers.repeat.start(now)

    def on_stuck(self, now: int) -> None:
        """Give up who keeps the window from moving."""
        self.met.add("stuck_timeout")
        self.flow.timers.stuck.stop()
        behind = [at for at in self.view.graph.oldest_unstable() if at != self.view.my_index]
        if behind and self.flow.is_blocked(now):
            procs = [self.view.procs[at] for at in behind]
            failed = [entry for entry in self.agreement.mates if entry.proc in procs]
            self.enter_agree(now, "stuck", procs[0], (), failed)
            self._try_install(now)

    def on_nack_timeout(self, now: int) -> None:
        """Ask for what is missing."""
        self.met.add("nack_timeout")
        self.flow.ask(now)

    def on_resend_timeout(self, now: int) -> None:
        """Send again what somebody asked for."""
        for view in (self.view, self.previous):
            if view is not None and now >= view.resends.deadline():
                self.met.add("resend_timeout")
                self.flow.resend(view, now)

    def on_null_timeout(self, now: int) -> None:
        """Acknowledge, or say that I am there."""
        self.met.add("null_timeout")
        self.flow.originate_null(now)
        self.flow.pump(now)

    def on_pace_timeout(self, now: int) -> None:
        """Send the next message."""
        self.met.add("pace_timeout")
        self.flow.timers.pace.stop()
        self.flow.pump(now)

    # -- the states --------------------------------------------------------------------------

    def enter_stable(self, now: int, cause: str, about: ProcessorId) -> None:
        """Be in a view with nothing to change about it."""
        is_new = cause in ("start", "installed")
        self._cands.clear()
        self.flow.timers.stop_collecting()
        self.flow.timers.stop_agreeing()
        self._enter(State.STABLE, cause, about)
        if is_new:
            self.flow.originate_null(now)  # it tells the others that I am in
            self.flow.pump(now)

    def enter_collect(self, now: int, cause: str, about: ProcessorId) -> None:
        """Find out who is there, without commitment."""
        timers = self.flow.timers
        self._cands.clear()
        quarter = self.parameters.collect // 4
        timers.collect.start_late(now, self.rng.randrange(2 * quarter + 1) - quarter)
        timers.offer.start(now)
        self._enter(State.COLLECT, cause, about)

    def enter_agree(
        self,
        now: int,
        cause: str,
        about: ProcessorId,
        joint: Iterable[Entry],
        failed: Iterable[Entry],
    ) -> None:
        """Propose the next view; from here on I send nothing else until it is installed."""
        self.flow.timers.stop_flow()
        self.flow.timers.stop_collecting()
        self.agreement.begin(joint, failed)
        self.cause = cause
        self._cands.clear()
        self._enter(State.AGREE, cause, about)
        self._publish(now)

    def _enter(self, state: State, cause: str, about: ProcessorId) -> None:
        self.state = state
        self.met = self.met_by_state[state]
        proposed, failed = self.agreement.procs() if state is State.AGREE else ((), ())
        self.effects.append(
            StateChange(state.value, self.view.view_id, cause, about, proposed, failed)
        )

    def deadline(self) -> int:
        """When something is to be done next."""
        at = min(self.flow.deadline(), self.watch.deadline)
        if self.previous is not None:
            at = min(at, self.previous.resends.deadline())
        return at

    def stop(self) -> None:
        """Wait for nothing any more."""
        self.flow.timers.stop_all()
        self.previous = None
        self.watch.deadline = NEVER
