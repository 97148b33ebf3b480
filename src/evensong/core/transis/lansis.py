"""Lansis as an engine: bytes and deadlines in, effects out [Transis §3].

The door to the protocol: it decodes what comes off the wire, counts and drops what is wrong,
notices that this processor itself was late, and hands the rest to the state machine in `states.py`.
"""

from collections.abc import Mapping
from random import Random
from typing import Final, final

from evensong.core.core import Core, Source
from evensong.core.effects import Effect, Halt
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.timer import NEVER, Timer
from evensong.core.transis import wire
from evensong.core.transis.frames import AJ, IN_GRAPH, LEAVE, NACK, PING, PONG, RETR, Head
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.states import VIEW_NO_LEAP, State, StateMachine
from evensong.errors import MalformedFrame


@final
class Lansis(Core):
    """One processor in a broadcast domain."""

    __slots__ = ("_due", "_effects", "halted", "machine")

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
        self.halted = False
        self._due = NEVER  # the deadline that the driver was told last

    def start(self, now: int) -> None:
        """Install a view of one, above every one used before, and be heard."""
        self.machine.on_start(now)

    def submit(self, now: int) -> None:
        """Say that the source has something to send."""
        if not self.halted:
            self._notice_pause(now)
            self.machine.on_submit(now)

    def receive(self, datagram: bytes, now: int) -> None:
        """Take in a datagram; drop it, with a reason counted, if anything about it is wrong."""
        if self.halted:
            return
        self._notice_pause(now)
        try:
            self._receive(datagram, now)
        except MalformedFrame as malformed:
            self.machine.flow.drop(malformed.reason)

    def expire(self, now: int) -> None:
        """Act on every timer that is due."""
        if self.halted:
            return
        self._notice_pause(now)
        machine = self.machine
        timers = machine.flow.timers
        if timers.agree.is_due(now):
            machine.on_agree_timeout(now)
        if timers.collect.is_due(now):
            machine.on_collect_timeout(now)
        if timers.repeat.is_due(now):
            machine.on_repeat_timeout(now)
        if timers.offer.is_due(now):
            machine.on_offer_timeout(now)
        if now >= machine.watch.deadline:
            machine.on_silence(now)
        if timers.stuck.is_due(now):
            machine.on_stuck(now)
        if now >= machine.flow.view.requests.deadline():
            machine.on_nack_timeout(now)
        machine.on_resend_timeout(now)
        if timers.ack.is_due(now) or timers.heartbeat.is_due(now):
            machine.on_null_timeout(now)
        if timers.pace.is_due(now):
            machine.on_pace_timeout(now)

    def leave(self, now: int) -> None:
        """Tell the others that I go, twice for it may get lost, and stop."""
        if self.halted:
            return
        for _ in range(2):
            self.machine.flow.broadcast(self.machine.flow.head(LEAVE))
        self._stop()

    def deadline(self) -> int:
        """When to call `expire` next."""
        self._due = NEVER if self.halted else self.machine.deadline()
        return self._due

    def drain(self) -> list[Effect]:
        """Return the effects since the last drain."""
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def pairs(self) -> set[tuple[str, str]]:
        """Return the (state, event) pairs that this processor has been through."""
        met = self.machine.met_by_state
        return {(state.value, event) for state in State for event in met[state]}

    def drops(self) -> Mapping[str, int]:
        """Return how many datagrams had no effect, by reason."""
        return self.machine.flow.drops

    def alarms(self) -> tuple[tuple[str, Timer], ...]:
        """Return the timers that fire only when something is wrong, with their names."""
        timers = self.machine.flow.timers
        return ("agree", timers.agree), ("collect", timers.collect), ("stuck", timers.stuck)

    def _receive(self, datagram: bytes, now: int) -> None:
        machine = self.machine
        head = wire.decode_head(datagram)
        kind = head.kind
        if head.transmitter == machine.my_id:
            self._meet_myself(head)
        elif head.view_id.seq > machine.view.view_id.seq + VIEW_NO_LEAP:
            raise MalformedFrame("head: a leap in view numbers")
        elif kind in IN_GRAPH or kind == RETR:
            message = wire.decode_message(datagram[wire.HEAD.size :], machine.parameters.allack)
            is_own = (message.sender_id, message.incarnation) == (
                head.transmitter,
                head.incarnation,
            )
            if kind != RETR and not (is_own and message.kind == kind):
                raise MalformedFrame("message: not its transmitter's")
            machine.on_transmitter(head, now)
            machine.on_message(message, kind == RETR, now)
        elif kind == NACK:
            nack = wire.decode_nack(datagram)
            machine.on_transmitter(head, now)
            machine.on_nack(nack, head, now)
        elif kind == AJ:
            attempt = wire.decode_attempt(datagram)
            machine.on_transmitter(head, now)
            machine.on_attempt(attempt, head, now)
        else:
            wire.decode_bare(datagram)
            if kind == LEAVE:
                machine.on_leave(head, now)
                return
            machine.on_transmitter(head, now)
            if kind == PING:
                machine.on_ping(head)
            elif kind == PONG:
                machine.on_pong()

    def _meet_myself(self, head: Head) -> None:
        machine = self.machine
        if head.incarnation > machine.incarnation:
            # The later one goes on: a processor cannot tell an earlier self's late datagram from a
            # twin that started before it, but nothing honest comes from a later self.
            self._effects.append(
                Halt(
                    f"processor id {machine.my_id} is in use: "
                    f"incarnation {head.incarnation} has started"
                )
            )
            self._stop()
        else:
            machine.flow.drop("own datagram")

    def _notice_pause(self, now: int) -> None:
        """See whether the driver comes much later than it was told to."""
        if now - self._due > self.machine.parameters.heartbeat:
            self.machine.on_pause(now)
            self.deadline()

    def _stop(self) -> None:
        self.halted = True
        self.machine.stop()
