"""What a processor sends in its view, and how it sees to it that nothing is lost [Transis §3].

Sending, acknowledging, asking for what is missing and sending it again. Nothing here changes the
membership; while that changes (`is_quiet`) only JOINs are originated: from its first JOIN until the
next view a processor sends no regular and no null message, so that a message is delivered in the
view in which it was sent, or nowhere.
"""

from typing import Final, final

from evensong.core.core import Source
from evensong.core.effects import Broadcast, Effect, Packet, Sent
from evensong.core.ids import ProcessorId
from evensong.core.timer import NEVER
from evensong.core.transis import wire
from evensong.core.transis.frames import (
    JOIN,
    NACK,
    NULL,
    REGULAR,
    RETR,
    Message,
    Nack,
    Proposal,
)
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.repair import RESENDS_MAX
from evensong.core.transis.timers import Timers
from evensong.core.transis.view import NO_PLACE, View
from evensong.core.transis.window import BLOCKED


@final
class Flow:
    """The traffic of one processor in its present view."""

    __slots__ = (
        "_base",
        "_effects",
        "_incarnation",
        "_my_id",
        "_parameters",
        "_source",
        "_unacked",
        "counter",
        "drops",
        "failed",
        "is_quiet",
        "timers",
        "view",
    )

    def __init__(
        self,
        my_id: ProcessorId,
        incarnation: int,
        parameters: Parameters,
        source: Source,
        view: View,
        effects: list[Effect],
    ) -> None:
        self._my_id: Final = my_id
        self._incarnation: Final = incarnation
        self._parameters: Final = parameters
        self._source: Final = source
        self._effects: Final = effects
        self.timers: Final = Timers(parameters)
        self.counter = 0  # of my latest message in this life
        self.drops: Final[dict[str, int]] = {}  # by reason
        self.begin_view(view)

    def begin_view(self, view: View) -> None:
        """Begin with an empty graph; counters go on."""
        self.view = view
        self._base = self.counter
        self._unacked = 0  # regular messages of others that I have not acknowledged
        self.is_quiet = False
        self.failed: list[bool] = [False] * view.graph.size  # the members that I have given up

    def drop(self, reason: str) -> None:
        """Count a datagram that had no effect."""
        self.drops[reason] = self.drops.get(reason, 0) + 1

    # -- sending -----------------------------------------------------------------------------

    def head(self, kind: int) -> bytes:
        """Lay out how my frames begin."""
        return wire.encode_head(kind, self._my_id, self._incarnation, self.view.view_id)

    def broadcast(self, datagram: bytes) -> None:
        """Send to everybody."""
        self._effects.append(Broadcast(datagram))

    def _make(self, kind: int, packet: Packet | None, proposal: Proposal | None) -> Message:
        """Make my next message: it acknowledges all that I could deliver and have not yet."""
        graph = self.view.graph
        self.counter += 1
        return wire.make_message(
            kind,
            packet.service if packet is not None else wire.NO_SERVICE,
            self._my_id,
            self._incarnation,
            self.view.view_id,
            self.counter,
            self._base,
            graph.acks_of(self.view.my_index),
            packet.timestamp if packet is not None else 0,
            packet.payload if packet is not None else b"",
            proposal,
            graph.orphan_count > self.view.window.w_high,
            self._parameters.allack,
        )

    def _originate(self, message: Message, now: int) -> None:
        self.view.insert(message)
        self._unacked = 0
        self.timers.ack.stop()
        if not self.is_quiet:
            self.timers.heartbeat.start(now)

    def originate_null(self, now: int) -> None:
        """Say that I am there, and acknowledge."""
        message = self._make(NULL, None, None)
        self.broadcast(self.head(NULL) + message.frame)
        self._originate(message, now)
        self._advance(now)

    def originate_join(self, proposal: Proposal, now: int) -> Message:
        """Publish a proposal."""
        self.is_quiet = True
        message = self._make(JOIN, None, proposal)
        self.repeat_join(message)
        self._originate(message, now)
        self._advance(now)
        return message

    def repeat_join(self, message: Message) -> None:
        """Transmit a JOIN of mine; a repetition is the same message."""
        self.broadcast(self.head(JOIN) + message.frame)

    def pump(self, now: int) -> None:
        """Send what waits, as far as the window allows."""
        view = self.view
        source = self._source
        while not self.is_quiet and source.backlog():
            at = view.window.send_at(view.graph.window, now)
            if at == BLOCKED:
                self.timers.pace.stop()
                break
            if at > now:
                self.timers.pace.deadline = at
                break
            self.timers.pace.stop()
            packets = source.pull(1)
            if not packets:
                break
            self._send(packets[0], now)

    def _send(self, packet: Packet, now: int) -> None:
        view = self.view
        message = self._make(REGULAR, packet, None)
        self._effects.append(Sent(view.view_id, NO_PLACE, [packet]))
        if view.graph.size > 1:  # alone, nobody will ever need it
            self.broadcast(self.head(REGULAR) + message.frame)
        view.window.on_sent(now)
        self._originate(message, now)
        view.receive_basic(message)
        self._advance(now)

    # -- receiving ---------------------------------------------------------------------------

    def receive(self, message: Message, is_resent: bool, now: int) -> bool:
        """Keep a message of my view; return whether there may be something to insert."""
        view = self.view
        graph = view.graph
        index = graph.index_of(message)
        if index is None:
            self.drop("sender is no member")
            return False
        self.hear_repair(view, message, is_resent, now)
        if not graph.is_new(index, message.number):
            self.drop("message seen before")
            return False
        is_next = message.number == graph.inserted[index] + 1
        if graph.orphan_count >= self._parameters.orphans_max and not is_next:
            self.drop("too many orphans")
            return False
        if not graph.keep(message, index):
            self.drop("message that cannot be")
            return False
        if is_resent:
            view.requests.on_repair(index, now)
        if message.is_slow:
            view.window.on_slow(now)
        view.receive_basic(message)
        return True

    def hear_repair(self, view: View, message: Message, is_resent: bool, now: int) -> None:
        """Hear that somebody sends a message again: I need not."""
        index = view.graph.index_of(message)
        if is_resent and index is not None and message.view_id == view.view_id:
            view.resends.cancel(index, message.number, now)

    def insert_ready(self, now: int) -> None:
        """Insert the orphans that may be, deliver what may be, and see what is missing."""
        view = self.view
        graph = view.graph
        limits = self._limits()
        message = graph.next_ready(limits)
        while message is not None:
            view.insert(message)
            if message.kind == REGULAR:
                self._unacked += 1
                if not self.timers.ack.is_armed() and not self.is_quiet:
                    self.timers.ack.start(now)
            message = graph.next_ready(limits)
        self._advance(now)
        self._note_missing(limits, now)
        if not self.is_quiet and self._unacked >= max(1, self._parameters.w_low // 2):
            # Else who only listens would slow down who speaks: the window waits for everybody.
            self.originate_null(now)

    def _limits(self) -> list[int] | None:
        return self.view.graph.needed(self.failed) if any(self.failed) else None

    def _advance(self, now: int) -> None:
        view = self.view
        view.advance()
        stuck = self.timers.stuck
        if view.graph.window < view.window.w_high or self.is_quiet:
            stuck.stop()
        elif not stuck.is_armed() or view.settled != view.settled_seen:
            stuck.start(now)
        view.settled_seen = view.settled

    def is_blocked(self, now: int) -> bool:
        """Whether the window is full."""
        return self.view.window.delay(self.view.graph.window, now) == BLOCKED

    # -- what is missing ---------------------------------------------------------------------

    def _note_missing(self, limits: list[int] | None, now: int) -> None:
        view = self.view
        graph = view.graph
        known, deadlines = graph.known, view.requests.deadlines
        for index, inserted in enumerate(graph.inserted):
            if known[index] > inserted:
                limit = limits[index] if limits is not None else NEVER
                is_missing = bool(graph.missing(index, limit, 1))
                view.requests.note(index, now, is_missing=is_missing)
            elif deadlines[index] != NEVER:
                view.requests.note(index, now, is_missing=False)

    def ask(self, now: int) -> None:
        """Ask everybody for what is missing and due to be asked for."""
        view = self.view
        limits = self._limits()
        ranges: list[tuple[ProcessorId, int, int]] = []
        for index, deadline in enumerate(view.requests.deadlines):
            if deadline > now:
                continue
            limit = limits[index] if limits is not None else NEVER
            room = wire.RANGES_MAX - len(ranges)
            missing = view.graph.missing(index, limit, room)
            if not missing:
                view.requests.note(index, now, is_missing=False)
                continue
            ranges += [(view.procs[index], first, last) for first, last in missing]
            if view.requests.is_first(index):
                view.window.on_loss()
            view.requests.asked(index, now)
            if len(ranges) == wire.RANGES_MAX:
                break
        if ranges:
            self.broadcast(wire.encode_nack(Nack(tuple(ranges)), self.head(NACK)))

    def answer(self, view: View, nack: Nack, requester: ProcessorId, now: int) -> None:
        """Plan to send again what I hold of what somebody lacks; ask for none of it myself."""
        graph = view.graph
        size = graph.size
        at = graph.index_by_member.get(requester, 0)
        for member, first, last in nack.ranges:
            index = graph.index_by_member.get(member)
            if index is None:
                continue
            if first <= graph.inserted[index] + 1 <= last:
                view.requests.on_request(index, now)
            rank = 0 if index == view.my_index else (view.my_index - at) % size or size
            for number in range(first, min(last, first + RESENDS_MAX) + 1):
                if graph.held(index, number) is not None:
                    view.resends.plan(index, number, rank, now)
                    if not rank:
                        view.window.on_loss()

    def resend(self, view: View, now: int) -> None:
        """Send again what is due."""
        for index, number in view.resends.take_due(now):
            message = view.graph.held(index, number)
            if message is not None:
                self.retransmit(message)

    def retransmit(self, message: Message) -> None:
        """Send somebody's message again, as it is."""
        self.broadcast(self.head(RETR) + message.frame)

    def deadline(self) -> int:
        """When something is to be done next."""
        view = self.view
        return min(self.timers.deadline(), view.requests.deadline(), view.resends.deadline())
