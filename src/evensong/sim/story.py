"""What happened in a run, told for people: one line an event, alike ones told once.

Lines of different processors that say the same within a short while are told together (`*` where
all that run do it, each at its own time), but only where that keeps every processor's own order: a
story never hides that two processors did things in different orders. That an idle ring's token is
resent while its representative holds it is not told: it did arrive.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, final

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Halt,
    Install,
    Ordered,
    Persist,
    SafeLine,
    Sent,
    StateChange,
    TokenVisit,
    Unicast,
    WindowGrown,
)
from evensong.core.ids import NO_PROCESSOR, ProcessorId, RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import ENCAP, RETX, RegularToken
from evensong.core.totem.ring import SingleRing
from evensong.core.transis import frames
from evensong.core.transis import wire as lansis_wire
from evensong.core.transis.lansis import Lansis
from evensong.core.unit import body_of, decode_unit
from evensong.sim.machine import Processor
from evensong.sim.world import Observer

EVERYBODY_LABEL: Final = "*"
TEXT_WIDTH: Final = 36
TOGETHER_US: Final = 10_000  # further apart, the same is not done together
IN_A_ROW: Final = 5  # names that are told by the first and the last of them


def _successor(name: str) -> str:
    """Return the name after it, where names end in a number; else nothing."""
    stem = name.rstrip("0123456789")
    return f"{stem}{int(name[len(stem) :]) + 1}" if len(stem) < len(name) else ""


class Line(NamedTuple):
    """Something that a processor did."""

    at_us: int
    node: ProcessorId
    text: str
    note: str = ""


class _Run(NamedTuple):
    """Deliveries in a row that differ in their number alone; they are told in one line."""

    sender: str
    first: int
    last: int
    body: str
    note: str
    at: int  # its place among the lines

    def follows(self, before: "_Run") -> bool:
        is_alike = (self.sender, self.body, self.note) == (before.sender, before.body, before.note)
        return is_alike and self.first == before.last + 1

    def told(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}..{self.last}"
        return f'delivers {self.sender}:{numbers} "{self.body}"'


def _no_clock() -> int:
    return 0


@final
class Audience:
    """Several observers of one world, told in turn."""

    def __init__(self, *observers: Observer) -> None:
        self._observers: Final = observers

    def began(self, processor: Processor) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.began(processor)

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.effect(processor, effect)

    def stepped(self, processor: Processor) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.stepped(processor)

    def ended(self, processor: Processor) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.ended(processor)


@final
class Story:
    """An observer that writes down what processors do."""

    def __init__(self, name_by_node: Mapping[ProcessorId, str]) -> None:
        self.lines: Final[list[Line]] = []
        self.now: Callable[[], int] = _no_clock
        self.is_muted = True
        self.silent_topics: Final[set[str]] = set()
        self._names: Final = name_by_node
        self._lives: Final[dict[ProcessorId, list[int]]] = {}  # incarnations, in order
        self._last_unicast: Final[dict[ProcessorId, bytes]] = {}
        self._processors: Final[dict[ProcessorId, Processor]] = {}
        self._runs: Final[dict[ProcessorId, _Run]] = {}  # deliveries that may still grow

    # The observer's calls

    def began(self, processor: Processor) -> None:
        """Tell that a processor starts."""
        self._processors[processor.node] = processor
        lives = self._lives.setdefault(processor.node, [])
        lives.append(processor.incarnation)
        self._tell("lives", processor, "starts", f"life {len(lives)}")

    def ended(self, processor: Processor) -> None:
        """Tell that a processor is gone."""
        self._tell("lives", processor, "leaves" if processor.left else "stops")

    def stepped(self, processor: Processor) -> None:
        """Say nothing: effects were told as they were performed."""

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Tell what an effect means."""
        core = processor.core
        if isinstance(effect, Broadcast):
            if isinstance(core, Lansis):
                self._tell_frame(processor, effect.datagram, core.machine.parameters.allack)
            else:
                self._tell_broadcast(processor, effect.datagram)
        elif isinstance(effect, Unicast):
            if not isinstance(core, Lansis):  # there it is only asked who is still well
                self._tell_unicast(processor, effect)
        elif isinstance(effect, Deliver):
            for message in effect.messages():
                self._tell_delivery(processor, effect, message)
        elif isinstance(effect, Install):
            conf = effect.configuration
            members = self._list(conf.members)
            text = f"installs {self._conf(processor, conf.conf_id)} of {members}"
            self._tell("installs", processor, text, f"({conf.cause})")
        elif isinstance(effect, StateChange):
            cause = effect.cause
            if effect.about != NO_PROCESSOR:
                cause += f", {self._name(effect.about)}"
            self._tell("states", processor, f"enters {effect.state}", f"({cause})")
        elif isinstance(effect, Halt):
            self._tell("lives", processor, "halts", f"({effect.reason})")
        elif isinstance(effect, Persist):
            self._tell("writes", processor, "writes its stable record")
        elif isinstance(effect, Sent | SafeLine | TokenVisit | WindowGrown):
            pass  # a story is about what is received; the trace has these

    # Telling

    def _tell(self, topic: str, processor: Processor, text: str, note: str = "") -> None:
        if not self.is_muted and topic not in self.silent_topics:
            self.lines.append(Line(self.now(), processor.node, text, note))

    def _tell_again(self, topic: str, processor: Processor, text: str, note: str) -> None:
        """Tell a retransmission; the second and later ones in a row are counted, not told."""
        node = processor.node
        for at, line in enumerate(self.lines):
            if line.node == node and line.text == text and line.note.startswith(note):
                count = int(line.note.removeprefix(note).removeprefix(" x") or 1) + 1
                self.lines[at] = line._replace(note=f"{note} x{count}")
                return
        self._tell(topic, processor, text, note)

    def _tell_broadcast(self, processor: Processor, datagram: bytes) -> None:
        if datagram[0] != wire.REGULAR:
            return
        message = wire.decode_regular(datagram)
        if message.flags & RETX:
            text = f"resends {message.seq} of {self._ring(message.ring_id)}"
            self._tell_again("repairs", processor, text, "(requested)")
        elif message.flags & ENCAP:
            inner = wire.decapsulate(message.payload)
            text = f"exchanges {inner.seq} of {self._ring(inner.ring_id)}"
            self._tell("exchanges", processor, text, f"on ring {self._ring(message.ring_id)}")

    def _tell_frame(self, processor: Processor, datagram: bytes, mode: int) -> None:
        """Tell what is said in a broadcast domain, in the paper's notation."""
        kind = datagram[0]
        if kind == frames.NACK:
            ranges = lansis_wire.decode_nack(datagram).ranges
            asked = ", ".join(
                self._mark(member, first).upper() + (f"..{last}" if last > first else "")
                for member, first, last in ranges
            )
            self._tell("requests", processor, f"asks for {asked}")
            return
        if kind not in (*frames.IN_GRAPH, frames.RETR):
            return
        message = lansis_wire.decode_message(datagram[lansis_wire.HEAD.size :], mode)
        acks = "".join(self._mark(member, number) for member, number in message.acks)
        name = acks + self._mark(message.sender_id, message.number).upper()
        if kind == frames.RETR:
            self._tell_again("repairs", processor, f"resends {name}", "(requested)")
        else:
            self._tell("graph", processor, f"sends {name}", f"({frames.KIND_NAMES[kind]})")

    def _mark(self, node: ProcessorId, number: int) -> str:
        return f"{self._name(node)}{number}"

    def _tell_unicast(self, processor: Processor, effect: Unicast) -> None:
        datagram = effect.datagram
        if self._last_unicast.get(processor.node) == datagram:
            kind = wire.KIND_NAMES[datagram[0]]
            if datagram[0] == wire.TOKEN:
                token = wire.decode_token(datagram)
                if self._rests_with(effect.to, token):
                    return
                kind += f" {token.token_seq}"
            text = f"resends {kind} to {self._name(effect.to)}"
            self._tell_again("resends", processor, text, "(token_retransmit)")
        self._last_unicast[processor.node] = datagram

    def _rests_with(self, node: ProcessorId, token: RegularToken) -> bool:
        """Whether the token did arrive: its ring is idle and the representative holds it."""
        processor = self._processors.get(node)
        core = processor.core if processor else None
        if not isinstance(core, SingleRing):
            return False
        held = core.machine.holder.held_token
        return (
            held is not None and held.ring_id == token.ring_id and held.token_seq == token.token_seq
        )

    def _tell_delivery(self, processor: Processor, delivered: Deliver, message: Ordered) -> None:
        payload = message.payload
        unit_id = decode_unit(payload)
        earlier = self._lives[unit_id.sender].index(unit_id.incarnation)
        sender = self._name(unit_id.sender) + "'" * earlier
        body = body_of(payload).decode("utf-8", "replace")
        note = f"{message.service.name.lower()}, {self._conf(processor, delivered.conf_id)}"
        if delivered.after_gap:
            note += ", after a gap"
        if self.is_muted or "deliveries" in self.silent_topics:
            return
        run = _Run(sender, unit_id.origin_no, unit_id.origin_no, body, note, len(self.lines))
        before = self._runs.get(processor.node)
        if before is not None and run.follows(before) and self._is_latest(processor.node, before):
            run = run._replace(first=before.first, at=before.at)
            line = self.lines[run.at]
            self.lines[run.at] = line._replace(text=run.told())
        else:
            self._tell("deliveries", processor, run.told(), note)
        self._runs[processor.node] = run

    def _is_latest(self, node: ProcessorId, run: "_Run") -> bool:
        """Whether the processor has done nothing else since."""
        return run.at < len(self.lines) and not any(
            line.node == node for line in self.lines[run.at + 1 :]
        )

    def _name(self, node: ProcessorId) -> str:
        return self._names.get(node, str(node))

    def _list(self, nodes: Sequence[ProcessorId]) -> str:
        """Name processors; many in a row, such as a1 to a25, by the first and the last."""
        rows: list[list[str]] = []
        for name in map(self._name, nodes):
            if rows and _successor(rows[-1][-1]) == name:
                rows[-1].append(name)
            else:
                rows.append([name])
        told = [f"{row[0]}..{row[-1]}" if len(row) >= IN_A_ROW else ",".join(row) for row in rows]
        return ",".join(told)

    def _conf(self, processor: Processor, conf_id: RingId) -> str:
        """Name the configuration that a processor is in."""
        is_domain = isinstance(processor.core, Lansis)
        conf = processor.configuration
        kind = "view" if is_domain else "ring"
        if conf is not None and conf.transitional:
            kind = "transitional"
        return f"{kind} {conf_id.seq if is_domain else self._ring(conf_id)}"

    def _ring(self, ring_id: RingId) -> str:
        return f"{ring_id.seq}.{self._name(ring_id.rep)}"

    def take(self, running: Sequence[ProcessorId]) -> list[str]:
        """Return what was told since the last time, folded."""
        told = fold(self.lines)
        self.lines.clear()
        self._runs.clear()
        everybody = set(running)
        rows = []
        for nodes, line in told:
            if len(nodes) > 1 and set(nodes) == everybody:
                label = EVERYBODY_LABEL
            else:
                label = self._list(nodes)
            rows.append((label, line))
        width = max((len(label) for label, _ in rows), default=0)
        return [_render(label, width, line) for label, line in rows]


def _render(label: str, width: int, line: Line) -> str:
    text = line.text
    if line.note:
        text = f"{text:<{TEXT_WIDTH}} {line.note}"
    return f"{label:<{width}}  {text}"


def fold(lines: Sequence[Line]) -> list[tuple[tuple[ProcessorId, ...], Line]]:
    """Tell alike lines of different processors together, keeping every processor's order.

    Each processor's lines are a queue. A line is told for all that have it at their heads, once
    nobody has it further back; if every head waits for somebody like that, the oldest is told as
    far as it goes.
    """
    queues: dict[ProcessorId, deque[Line]] = {}
    for line in lines:
        queues.setdefault(line.node, deque()).append(line)
    told: list[tuple[tuple[ProcessorId, ...], Line]] = []
    while True:
        heads = sorted([queue[0] for queue in queues.values() if queue], key=_when)
        if not heads:
            return told
        chosen = next((line for line in heads if _is_ripe(line, queues)), heads[0])
        nodes = [line.node for line in heads if _is_alike(line, chosen)]
        for node in nodes:
            queues[node].popleft()
        told.append((tuple(sorted(nodes)), chosen))


def _when(line: Line) -> tuple[int, ProcessorId]:
    return line.at_us, line.node


def _is_alike(one: Line, other: Line) -> bool:
    is_near = abs(one.at_us - other.at_us) <= TOGETHER_US
    return one.text == other.text and one.note == other.note and is_near


def _is_ripe(line: Line, queues: Mapping[ProcessorId, deque[Line]]) -> bool:
    """Whether everybody who is about to tell this line has it at the head."""
    return all(
        _is_alike(queue[0], line) or not any(_is_alike(later, line) for later in queue)
        for queue in queues.values()
        if queue
    )
