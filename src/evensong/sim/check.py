"""The invariants of the single ring, after every step of a run.

The stepped processor is checked against a summary of each ring it belongs to, so a step costs
little; every 500th step everything is computed afresh from all processors and must agree.
I15, that a healed network converges, is judged by the run itself (`run.py`).
"""

import zlib
from typing import Final, NoReturn, final

from evensong.core.core import Core
from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Install,
    Ordered,
    Persist,
    Service,
    StateChange,
    TokenVisit,
    Unicast,
)
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.node import Node
from evensong.core.stable import decode_record
from evensong.core.totem import wire
from evensong.core.totem.frames import RETX, RegularMessage
from evensong.core.totem.ordering import Ring
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.states import State, StateMachine
from evensong.errors import InvariantBroken
from evensong.sim.machine import Processor

FULL_CHECK_EVERY: Final = 500
SENDING: Final = (Broadcast, Unicast)  # a union written in place would be built at every effect


def ring_of(core: Core | None) -> SingleRing | None:
    """Return the ring that a core is or has; None if there is none."""
    engine = core.engine if isinstance(core, Node) else core
    return engine if isinstance(engine, SingleRing) else None


def machine_of(processor: Processor) -> StateMachine:
    """Return the state machine of a processor that is up."""
    ring = ring_of(processor.core)
    assert ring is not None
    return ring.machine


@final
class RingSummary:
    """What is known of one ring over all of its processors."""

    __slots__ = (
        "broadcast_last",
        "committed",
        "content",
        "first_seq",
        "frozen",
        "installed",
        "members",
        "recovered",
        "rings",
        "safe_max",
        "safe_told",
        "seq_max",
        "token",
        "token_seq",
    )

    def __init__(self) -> None:
        self.token_seq = -1  # the highest forwarded
        self.token = b""
        self.seq_max = 0  # the highest seq ever broadcast
        self.first_seq = 0  # the first delivered in the regular configuration
        self.safe_told = 0  # the highest safe line that came with a delivery
        self.content: Final[dict[int, tuple[ProcessorId, bytes]]] = {}  # sender, payload by seq
        self.broadcast_last: Final[dict[ProcessorId, int]] = {}  # on its last visit
        self.safe_max = 0  # the highest safe line anybody has
        self.rings: Final[dict[ProcessorId, Ring]] = {}  # whoever still keeps this ring's buffer
        self.members: tuple[ProcessorId, ...] = ()
        self.committed: Final[set[ProcessorId]] = set()
        self.recovered: Final[set[ProcessorId]] = set()
        self.installed: Final[set[ProcessorId]] = set()
        # What each member of a recovery pass held of its old ring when it froze it.
        self.frozen: Final[dict[ProcessorId, tuple[RingId, list[tuple[int, ProcessorId]]]]] = {}


@final
class Progress:
    """What is remembered of one life, to see that it only moves forward."""

    __slots__ = (
        "after_install",
        "ceiling",
        "conf",
        "fail_set",
        "proc_set",
        "promised",
        "regular_digest",
        "seq",
        "transitional_digest",
    )

    def __init__(self) -> None:
        self.ceiling = 0  # what its store has
        self.proc_set: frozenset[ProcessorId] = frozenset()
        self.fail_set: frozenset[ProcessorId] = frozenset()
        self.after_install = True
        self.promised = False
        self.conf: Configuration | None = None
        self.seq = 0  # delivered last in the regular configuration; 0 before the first
        self.regular_digest: tuple[int, int] = (0, 0)
        self.transitional_digest: tuple[int, int] = (0, 0)


@final
class Invariants:
    """An observer of a world that raises `InvariantBroken` at the step that breaks one."""

    def __init__(self) -> None:
        self.steps = 0
        self.summaries: Final[dict[RingId, RingSummary]] = {}
        self.progress: Final[dict[ProcessorId, Progress]] = {}
        self.processors: Final[dict[ProcessorId, Processor]] = {}
        self.transitional_members: Final[dict[RingId, tuple[ProcessorId, ...]]] = {}
        # What was delivered between two installations, by who went through both together.
        self.passages: Final[
            dict[tuple[RingId, RingId], tuple[tuple[int, int], tuple[int, int]]]
        ] = {}

    # -- the observer's calls ----------------------------------------------------------------

    def began(self, processor: Processor) -> None:
        """Watch a new life."""
        self.processors[processor.node] = processor
        self.progress[processor.node] = Progress()

    def ended(self, processor: Processor) -> None:
        """Stop watching: what a dead processor holds counts no more."""
        node = processor.node
        for summary in self.summaries.values():
            summary.rings.pop(node, None)
        del self.processors[node]

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Check what a processor just did."""
        if isinstance(effect, Deliver):
            self._check_delivery(processor.node, effect)
        elif isinstance(effect, SENDING):
            self._check_datagram(processor.node, effect.datagram)
        elif isinstance(effect, TokenVisit):
            self._check_visit(processor, effect)
        elif isinstance(effect, Install):
            self._check_install(processor.node, effect.configuration)
        elif isinstance(effect, StateChange):
            self._note_state(processor, effect)
        elif isinstance(effect, Persist):
            self.progress[processor.node].ceiling = decode_record(effect.record).ring_seq

    def stepped(self, processor: Processor) -> None:
        """Check the processor that was stepped, now and then all of them."""
        core = ring_of(processor.core)
        assert core is not None
        machine = core.machine
        self._check_ring(machine, machine.ring)
        if machine.old is not machine.ring:
            self._check_ring(machine, machine.old)
        self._check_sets(machine)
        self._check_promise(machine)
        if not core.halted:
            self._check_timers(machine)
        self.steps += 1
        if self.steps % FULL_CHECK_EVERY == 0:
            self.check_everything()

    # -- what a processor does ---------------------------------------------------------------

    def summary(self, ring_id: RingId) -> RingSummary:
        """Return what is known of a ring."""
        summary = self.summaries.get(ring_id)
        if summary is None:
            summary = self.summaries[ring_id] = RingSummary()
        return summary

    def _check_datagram(self, node: ProcessorId, datagram: bytes) -> None:
        kind = datagram[0]
        if kind == wire.REGULAR:
            message = wire.decode_regular(datagram)
            ring_id = message.ring_id
            self._check_broadcast(node, message)
        elif kind == wire.TOKEN:
            token = wire.decode_token(datagram)
            ring_id = token.ring_id
            summary = self.summary(ring_id)
            if token.token_seq > summary.token_seq:
                summary.token_seq = token.token_seq
                summary.token = datagram
                if token.seq != summary.seq_max:
                    self._broken("I3", node, f"token says seq {token.seq}, not {summary.seq_max}")
            elif token.token_seq == summary.token_seq and datagram != summary.token:
                self._broken("I1", node, f"two tokens {token.token_seq} on ring {ring_id}")
        elif kind in (wire.JOIN, wire.PART):
            return
        else:
            ring_id = RingId(*wire.RING_FRAME.unpack_from(datagram)[3:])
        self._check_ceiling(node, ring_id)

    def _check_ceiling(self, node: ProcessorId, ring_id: RingId) -> None:
        ceiling = self.progress[node].ceiling
        if ring_id.seq > ceiling:
            self._broken("I12", node, f"ring {ring_id} sent above the durable ceiling {ceiling}")

    def _check_broadcast(self, node: ProcessorId, message: RegularMessage) -> None:
        summary = self.summary(message.ring_id)
        content = (message.sender_id, message.payload)
        seq = message.seq
        known = summary.content.setdefault(seq, content)
        if known != content:
            self._broken("I2", node, f"two messages {seq} on ring {message.ring_id}")
        if message.flags & RETX:
            return
        if seq != summary.seq_max + 1:
            self._broken("I3", node, f"broadcast {seq} after {summary.seq_max}")
        summary.seq_max = seq

    def _check_visit(self, processor: Processor, visit: TokenVisit) -> None:
        node = processor.node
        parameters = machine_of(processor).parameters
        broadcast = visit.sent + visit.resent
        if broadcast > parameters.messages_max:
            self._broken("I4", node, f"{broadcast} messages in one visit")
        last = self.summary(visit.ring_id).broadcast_last
        last[node] = broadcast
        if not 0 <= visit.fcc <= parameters.window_size or sum(last.values()) != visit.fcc:
            self._broken("I4", node, f"fcc {visit.fcc}; broadcast in the last rotation: {last}")

    def _check_delivery(self, node: ProcessorId, delivered: Deliver) -> None:
        conf = self.progress[node].conf
        for message in delivered.messages():
            if conf is None or delivered.conf_id != conf.conf_id:
                text = f"delivers {message.seq} in {delivered.conf_id}, not {conf}"
                self._broken("I7", node, text)
            self._check_safe_line(node, message.ring_id, delivered.safe_line)
            self._check_place(node, message, conf)

    def _check_place(self, node: ProcessorId, message: Ordered, conf: Configuration) -> None:
        progress = self.progress[node]
        seq = message.seq
        key = zlib.crc32(message.payload, seq % 2**32)
        if conf.transitional:
            count, digest = progress.transitional_digest
            progress.transitional_digest = (count + 1, digest * 31 + key & 2**64 - 1)
            return
        count, digest = progress.regular_digest
        progress.regular_digest = (count + 1, digest * 31 + key & 2**64 - 1)
        if message.ring_id != conf.conf_id:
            self._broken("I7", node, f"delivers a message of {message.ring_id} in {conf}")
        if progress.seq and seq != progress.seq + 1:
            self._broken("I7", node, f"delivers {seq} after {progress.seq} in {conf}")
        if not progress.seq:
            summary = self.summary(conf.conf_id)
            summary.first_seq = summary.first_seq or seq
            if seq != summary.first_seq:
                text = f"begins {conf} with {seq}, others with {summary.first_seq}"
                self._broken("I7", node, text)
        progress.seq = seq
        if message.service is Service.SAFE:
            installed = self.summary(conf.conf_id).installed
            absent = [member for member in conf.members if member not in installed]
            if absent:
                self._broken("I10", node, f"safe {seq} in {conf} before {absent} came")

    def _check_safe_line(self, node: ProcessorId, ring_id: RingId, safe_line: int) -> None:
        """What a delivery says of the safe line is true of everybody who is still there."""
        summary = self.summary(ring_id)
        if safe_line <= summary.safe_told:
            return
        summary.safe_told = safe_line
        for other, theirs in summary.rings.items():
            if theirs.buffer.aru < safe_line:
                text = f"tells a safe line {safe_line}; {other} has {theirs.buffer.aru}"
                self._broken("I5", node, text)

    def _check_install(self, node: ProcessorId, conf: Configuration) -> None:
        progress = self.progress[node]
        before = progress.conf
        if conf.transitional:
            members = self.transitional_members.setdefault(conf.conf_id, conf.members)
            if members != conf.members:
                self._broken("I11", node, f"{conf} has members {members} elsewhere")
        else:
            self._check_regular_install(node, conf, before)
            progress.seq = 0
            progress.regular_digest = progress.transitional_digest = (0, 0)
            progress.after_install = True
            progress.promised = False
        progress.conf = conf

    def _check_regular_install(
        self, node: ProcessorId, conf: Configuration, before: Configuration | None
    ) -> None:
        summary = self.summary(conf.conf_id)
        summary.installed.add(node)
        if summary.members and summary.members != conf.members:
            self._broken("I9", node, f"{conf} has members {summary.members} elsewhere")
        summary.members = conf.members
        if len(conf.members) > 1:
            late = [member for member in conf.members if member not in summary.recovered]
            if late or not summary.recovered <= summary.committed:
                self._broken("I9", node, f"{conf} before {late} forwarded its commit token twice")
        if before is None:
            return
        progress = self.progress[node]
        delivered = (progress.regular_digest, progress.transitional_digest)
        passage = (before.conf_id, conf.conf_id)
        known = self.passages.setdefault(passage, delivered)
        if known != delivered:
            self._broken("I11", node, f"delivered {delivered} in passing {passage}, others {known}")

    def _note_state(self, processor: Processor, change: StateChange) -> None:
        summary = self.summary(change.ring_id)
        if change.state == "commit":
            summary.committed.add(processor.node)
            self._check_ceiling(processor.node, change.ring_id)  # it may travel in parts
        elif change.state == "recovery":
            machine = machine_of(processor)
            summary.recovered.add(processor.node)
            messages = machine.old.buffer.messages
            held = [(seq, message.sender_id) for seq, message in messages.items()]
            summary.frozen[processor.node] = (machine.old.ring_id, held)

    # -- what a processor is -----------------------------------------------------------------

    def _check_ring(self, machine: StateMachine, ring: Ring) -> None:
        node = machine.my_id
        summary = self.summary(ring.ring_id)
        buffer = ring.buffer
        if node not in summary.rings:
            self._adopt(node, ring)
        if buffer.high > summary.seq_max and len(ring.members) > 1:
            self._broken("I3", node, f"holds {buffer.high} beyond {summary.seq_max}")
        if ring.my_safe > buffer.aru:
            self._broken("I5", node, f"safe line {ring.my_safe} beyond aru {buffer.aru}")
        if ring.my_safe > summary.safe_max:
            summary.safe_max = ring.my_safe
            for other, theirs in summary.rings.items():
                if theirs.buffer.aru < ring.my_safe:
                    text = f"safe line {ring.my_safe}, but {other} has {theirs.buffer.aru}"
                    self._broken("I5", node, text)
        if buffer.released > ring.my_safe:  # what is safe here, everybody has (I5)
            self._broken("I6", node, f"releases {buffer.released} beyond {ring.my_safe}")
        if machine.state is State.OPERATIONAL and ring.high_delivered > buffer.aru:
            self._broken("I7", node, f"delivered {ring.high_delivered} beyond aru {buffer.aru}")

    def _adopt(self, node: ProcessorId, ring: Ring) -> None:
        """Note that a processor keeps another ring's buffer from now on, or that it let one go."""
        machine = machine_of(self.processors[node])
        kept = (machine.ring.ring_id, machine.old.ring_id)
        for ring_id, summary in self.summaries.items():
            if node in summary.rings and ring_id not in kept:
                del summary.rings[node]
        self.summary(ring.ring_id).rings[node] = ring

    def _check_sets(self, machine: StateMachine) -> None:
        membership = machine.membership
        progress = self.progress[machine.my_id]
        proc_set, fail_set = membership.proc_set, membership.fail_set
        if progress.proc_set is proc_set and progress.fail_set is fail_set:
            return
        if not fail_set < proc_set or machine.my_id in fail_set:
            self._broken("I8", machine.my_id, f"proc {sorted(proc_set)}, fail {sorted(fail_set)}")
        if not progress.after_install and not (
            progress.proc_set <= proc_set and progress.fail_set <= fail_set
        ):
            self._broken("I8", machine.my_id, "a set shrank without an installation")
        progress.after_install = machine.state is State.OPERATIONAL
        progress.proc_set, progress.fail_set = proc_set, fail_set

    def _check_promise(self, machine: StateMachine) -> None:
        recovery = machine.recovery
        progress = self.progress[machine.my_id]
        if recovery is None or not machine.old.ending.received_flg:
            progress.promised = False
            return
        if progress.promised:
            return
        progress.promised = True
        frozen = self.summary(recovery.ring_id).frozen
        old = machine.old
        for member in recovery.trans_memb:
            if member not in frozen:
                if recovery.retrans_flg_count:
                    self._broken("I13", machine.my_id, f"promises before {member} froze")
                continue  # all had promised before this pass; that was checked then
            ring_id, held = frozen[member]
            for seq, sender_id in held:
                owed = ring_id == old.ring_id and sender_id in old.ending.deliver_memb
                if owed and not old.buffer.has(seq):
                    text = f"promises without {seq} of {old.ring_id}, which {member} held"
                    self._broken("I13", machine.my_id, text)

    def _check_timers(self, machine: StateMachine) -> None:
        timers = machine.timers
        is_gathering = machine.state is State.GATHER
        needs_token = not is_gathering and len(machine.ring.members) > 1
        if timers.join.is_armed() != is_gathering:
            self._broken("I14", machine.my_id, f"join timer in {machine.state.value}")
        if needs_token and not timers.token_loss.is_armed():
            self._broken("I14", machine.my_id, f"no token-loss timer in {machine.state.value}")
        if machine.state is State.COMMIT and not timers.token_loss.is_armed():
            self._broken("I14", machine.my_id, "no token-loss timer in commit")

    # -- everything afresh -------------------------------------------------------------------

    def check_everything(self) -> None:
        """Compute the invariants from all processors; the summaries must agree."""
        keepers: dict[RingId, dict[ProcessorId, Ring]] = {}
        for node, processor in self.processors.items():
            core = ring_of(processor.core)
            if core is None or core.halted:
                continue
            machine = core.machine
            for ring in (machine.ring, machine.old):
                keepers.setdefault(ring.ring_id, {})[node] = ring
            self._check_timers(machine)
            durable = decode_record(processor.store.record).ring_seq
            if machine.my_ring_id.seq > durable:
                self._broken("I12", node, f"{machine.my_ring_id} above the store's {durable}")
        for ring_id, rings in keepers.items():
            summary = self.summary(ring_id)
            for node, ring in rings.items():
                if summary.rings.get(node) is not ring:
                    self._broken("full", node, f"ring {ring_id} is not in the summary")
                self._check_buffer(node, ring, summary)
            aru_min = min(ring.buffer.aru for ring in rings.values())
            safe_max = max(ring.my_safe for ring in rings.values())
            if safe_max > aru_min or safe_max > summary.safe_max:
                self._broken("I5", NO_RING.rep, f"{ring_id}: safe {safe_max}, aru {aru_min}")

    def _check_buffer(self, node: ProcessorId, ring: Ring, summary: RingSummary) -> None:
        buffer = ring.buffer
        seqs = sorted(buffer.messages)
        aru = buffer.released
        for seq in seqs:
            if seq == aru + 1:
                aru = seq
        if aru != buffer.aru or (seqs and seqs[-1] != buffer.high):
            self._broken("full", node, f"aru {buffer.aru}, computed {aru}; high {buffer.high}")
        if len(ring.members) == 1:
            return
        for seq in seqs:
            message = ring.message(seq)
            if summary.content.get(seq) != (message.sender_id, message.payload):
                self._broken("I2", node, f"holds another message {seq} of {ring.ring_id}")

    def _broken(self, invariant: str, node: ProcessorId, text: str) -> NoReturn:
        raise InvariantBroken(invariant, f"processor {node}: {text}")
