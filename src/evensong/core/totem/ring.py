"""The single ring as an engine: bytes and deadlines in, effects out.

The door to the protocol: it decodes what comes off the wire, counts and drops what is wrong,
notices that this processor itself was late, and hands the rest to the state machine in `states.py`.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, final

from evensong.core.core import Core, Source
from evensong.core.effects import Broadcast, Effect, Halt
from evensong.core.ids import NO_PROCESSOR, ProcessorId
from evensong.core.run import Run
from evensong.core.stable import StableRecord
from evensong.core.timer import NEVER, Timer
from evensong.core.totem import wire
from evensong.core.totem.commit import is_passed_to
from evensong.core.totem.frames import Stretch
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.parts import Parts
from evensong.core.totem.rows import DECODERS, decode_row
from evensong.core.totem.states import State, StateMachine
from evensong.errors import MalformedFrame

# Looked up once for each message otherwise.
OPERATIONAL: Final = State.OPERATIONAL
A_ROW: Final = bytes([wire.ROW])
unpack_header: Final = wire.HEADER.unpack_from
decode_regular: Final = wire.decode_regular


@final
class SingleRing(Core):
    """One processor on a ring."""

    __slots__ = ("_due", "_effects", "_pause_us", "halted", "machine", "parts")

    def __init__(
        self,
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> None:
        assert incarnation > record.incarnation
        self._effects: Final[list[Effect]] = []
        self.machine: Final = StateMachine(
            my_id, record, incarnation, parameters, rng, source, self._effects
        )
        self.parts: Final = Parts()
        self.halted = False
        self._due = NEVER  # the deadline that the driver was told last
        self._pause_us: Final = parameters.token_loss // 2  # to be later than this is a pause

    def start(self, now: int) -> None:
        """Install a ring of one, above every ring id used before, and look for others."""
        self.machine.on_start(now)

    def submit(self, now: int) -> None:
        """Say that the source has something to send: wake an idle ring."""
        if not self.halted:
            self._notice_pause(now)
            self.machine.on_submit(now)

    def receive(self, datagram: bytes, now: int) -> None:
        """Take in a datagram; drop it, with a reason counted, if anything about it is wrong."""
        if self.halted:
            return
        if now - self._due > self._pause_us:
            self._notice_pause(now)
        try:
            self._receive(datagram, now)
        except MalformedFrame as malformed:
            self.machine.drop(malformed.reason)

    def receive_run(self, run: Run, now: int) -> None:
        """Take in datagrams that came together; messages of one sender are taken in at once."""
        if self.halted:
            return
        self._notice_pause(now)
        machine = self.machine
        if machine.state is OPERATIONAL and machine.holder.store_run(run, now):
            machine.met.add("regular")
            machine.deliver_stored()
            return
        for datagram in run.frames():
            self.receive(datagram, now)

    def receive_many(self, datagrams: Sequence[bytes], now: int) -> None:
        """Take in datagrams in this order; what rows of my ring carry is delivered at once."""
        if self.halted:
            return
        self._notice_pause(now)
        has_kept = False
        for datagram in datagrams:
            if datagram[:1] == A_ROW and self._has_kept_row(datagram):
                has_kept = True
                continue
            if has_kept:  # what comes next may end this ring
                has_kept = False
                self._deliver_rows(now)
            self.receive(datagram, now)
        if has_kept:
            self._deliver_rows(now)

    def _has_kept_row(self, datagram: bytes) -> bool:
        """Keep the messages of a row, if all of them are new and of my ring; False if not."""
        machine = self.machine
        if machine.state is not OPERATIONAL:
            return False
        try:
            row = decode_row(datagram, machine.ring.ring_id)
        except MalformedFrame:
            return False
        _, transmitter, _ = unpack_header(datagram)
        return machine.holder.keep_row(row, transmitter)

    def _deliver_rows(self, now: int) -> None:
        """Do once for rows that were kept what need not be done for each."""
        machine = self.machine
        machine.met.add("regular")
        machine.holder.note_traffic(now)
        machine.deliver_stored()

    def _receive_row(self, row: Stretch, transmitter: ProcessorId, now: int) -> None:
        machine = self.machine
        if machine.state is OPERATIONAL and machine.holder.keep_row(row, transmitter):
            self._deliver_rows(now)
            return
        for seq in range(row.first_seq, row.last_seq + 1):
            machine.on_regular(row.at(seq), transmitter, now)
        machine.deliver_stored()

    def rests(self) -> bool:
        """Whether the token of an idle ring is here."""
        return self.machine.holder.held_token is not None

    def hurry(self, *, is_on: bool) -> None:
        """Let the token linger with nobody, or again: only when it goes round is more safe."""
        self.machine.holder.is_hurried = is_on

    def expire(self, now: int) -> None:
        """Act on every timer that is due."""
        if self.halted:
            return
        self._notice_pause(now)
        machine = self.machine
        timers = machine.timers
        if timers.token_loss.is_due(now):
            machine.on_token_loss(now)
        if timers.token_retransmit.is_due(now):
            machine.on_token_retransmit(now)
        if timers.consensus.is_due(now):
            machine.on_consensus_timeout(now)
        if timers.join.is_due(now):
            machine.on_join_timeout(now)
        if timers.hold.is_due(now):
            machine.on_hold_timeout(now)
        if timers.beacon.is_due(now):
            machine.on_beacon_timeout(now)

    def leave(self, now: int) -> None:
        """Tell the others that I go, twice for it may get lost, and stop."""
        if self.halted:
            return
        machine = self.machine
        farewell = wire.encode_leave(machine.my_ring_id, machine.my_id, machine.incarnation)
        self._effects.extend([Broadcast(farewell), Broadcast(farewell)])
        self._stop()

    def deadline(self) -> int:
        """When to call `expire` next."""
        self._due = self.machine.timers.deadline()
        return self._due

    def drain(self) -> list[Effect]:
        """Return the effects since the last drain."""
        if not self._effects:
            return []  # an idle ring is asked often
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def pairs(self) -> set[tuple[str, str]]:
        """Return the (state, event) pairs that this processor has been through."""
        met = self.machine.met_by_state
        return {(state.value, event) for state in State for event in met[state]}

    def drops(self) -> Mapping[str, int]:
        """Return how many datagrams had no effect, by reason."""
        return self.machine.drops

    def alarms(self) -> tuple[tuple[str, Timer], ...]:
        """Return the timers that fire only when something is wrong, with their names."""
        timers = self.machine.timers
        return (
            ("token loss", timers.token_loss),
            ("token retransmit", timers.token_retransmit),
            ("consensus", timers.consensus),
            ("join", timers.join),
        )

    def _receive(self, datagram: bytes, now: int) -> None:
        if len(datagram) < wire.HEADER_SIZE:
            raise MalformedFrame("header: size")
        machine = self.machine
        kind, transmitter, incarnation = unpack_header(datagram)
        if transmitter == machine.my_id:
            self._meet_myself(kind, datagram, incarnation)
        elif transmitter == NO_PROCESSOR:
            raise MalformedFrame("header: nobody")
        elif kind == wire.REGULAR:
            message = decode_regular(datagram, machine.ring.ring_id)
            machine.on_regular(message, transmitter, now)
            machine.deliver_stored()
        elif kind == wire.ROW:
            self._receive_row(decode_row(datagram, machine.ring.ring_id), transmitter, now)
        elif kind == wire.TOKEN:
            machine.on_token(wire.decode_token(datagram), transmitter, now)
        elif kind == wire.JOIN:
            machine.on_join(wire.decode_join(datagram), now)
        elif kind == wire.COMMIT:
            commit = wire.decode_commit(datagram)
            if is_passed_to(machine.my_id, commit, transmitter):
                machine.on_commit(commit, now)
            else:
                machine.drop("commit from elsewhere")
        elif kind == wire.BEACON:
            machine.on_beacon(wire.decode_beacon(datagram), transmitter, now)
        elif kind == wire.HOLD_CANCEL:
            machine.on_hold_cancel(wire.decode_hold_cancel(datagram), now)
        elif kind == wire.LEAVE:
            machine.on_leave(wire.decode_leave(datagram), transmitter, now)
        elif kind == wire.PART:
            whole = self.parts.add(datagram)
            if whole is not None:
                self._receive(whole, now)
        else:
            raise MalformedFrame("header: kind")

    def _meet_myself(self, kind: int, datagram: bytes, incarnation: int) -> None:
        if kind not in DECODERS:
            raise MalformedFrame("header: kind")
        DECODERS[kind](datagram)  # noise must not stop me
        machine = self.machine
        if incarnation > machine.incarnation:
            # The later one goes on: a processor cannot tell an earlier self's late datagram from a
            # twin that started before it, but nothing honest comes from a later self.
            self._effects.append(
                Halt(
                    f"processor id {machine.my_id} is in use: incarnation {incarnation} has started"
                )
            )
            self._stop()
        else:
            machine.drop("own datagram")

    def _notice_pause(self, now: int) -> None:
        """See whether the driver comes much later than it was told to."""
        if now - self._due > self._pause_us:
            self.machine.on_pause(now)
            self.deadline()

    def _stop(self) -> None:
        self.halted = True
        self.machine.timers.stop_all()
