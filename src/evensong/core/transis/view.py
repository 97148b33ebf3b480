"""One view: its graph, and when a message of it is delivered [Transis §3].

| service | delivered |
| --- | --- |
| BASIC | when it is first received |
| CAUSAL | when every regular message in its past has been |
| AGREED | when ToTo has decided on it |
| SAFE | at its place in that order, when it is stable as well |

BASIC messages count as delivered for all others. Regular messages of one sender other than BASIC
ones are delivered in the order of their numbers, so only the first of each sender's queue is ever
looked at. When the view ends, `close` delivers what is left, the same at all who go on together.

What can be promised for all members is delivered in the view, also then. What can be promised only
for those who go on together comes in a transitional configuration of these, as on a ring: from the
first safe message on that is not stable, or else the first that the votes do not decide on. Places
are counted on there, under its name: who parts may have ordered the same messages otherwise.
"""

from collections import deque
from random import Random
from typing import Final, NamedTuple, final

from evensong.core.effects import (
    Deliver,
    Effect,
    Install,
    Part,
    SafeLine,
    Service,
    WindowGrown,
)
from evensong.core.ids import Configuration, ProcessorId
from evensong.core.transis.dag import Graph, Node
from evensong.core.transis.frames import REGULAR, Message, ViewId
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.repair import Requests, Resends
from evensong.core.transis.toto import ToTo
from evensong.core.transis.window import Window

BASIC: Final = Service.BASIC  # looked up once: an Enum's attribute is not cheap
CAUSAL: Final = Service.CAUSAL
SAFE: Final = Service.SAFE
NO_PLACE: Final = 0  # of what is not ordered; places begin at 1


@final
class Placed(NamedTuple):
    """A message as it is delivered; (ring_id, seq) is its place, if it has one."""

    sender_id: ProcessorId
    ring_id: ViewId
    seq: int
    service: Service
    timestamp: int
    payload: bytes

    @property
    def first_seq(self) -> int:
        """Return its place: it is a part of one."""
        return self.seq

    @property
    def last_seq(self) -> int:
        """Return its place."""
        return self.seq

    def at(self, seq: int) -> "Placed":
        """Return the message at a place of the part."""
        assert seq == self.seq
        return self

    def cut(self, first_seq: int, last_seq: int) -> "Placed":
        """Return what lies between two places of the part, both included."""
        assert first_seq == last_seq == self.seq
        return self

    def payloads(self) -> list[bytes]:
        """Return the payload of each message of the part."""
        return [self.payload]

    def where(self, seq: int) -> tuple[bytes, int, int]:
        """Return what the payload at a place lies in, and from where to where."""
        assert seq == self.seq
        return self.payload, 0, len(self.payload)

    def bytes_at(self, at: int) -> set[int]:
        """Return which bytes stand at this place of the payloads."""
        return {*self.payload[at : at + 1]}


@final
class View:
    """What one processor knows and does in one view."""

    __slots__ = (
        "_bound",
        "_conf_id",
        "_decided",
        "_effects",
        "_parts",
        "_unsafe",
        "_waiting",
        "graph",
        "my_index",
        "n_ordered",
        "procs",
        "requests",
        "resends",
        "safe_line",
        "settled",
        "settled_seen",
        "toto",
        "view_id",
        "window",
        "window_max",
    )

    def __init__(
        self,
        view_id: ViewId,
        members: tuple[tuple[ProcessorId, int], ...],
        my_id: ProcessorId,
        parameters: Parameters,
        rng: Random,
        effects: list[Effect],
    ) -> None:
        size = len(members)
        self.view_id: Final = view_id
        self._conf_id = view_id  # in which messages are delivered: it, or what ends it
        self.procs: Final = tuple([proc for proc, _ in members])
        self.my_index: Final = self.procs.index(my_id)
        self.graph: Final = Graph(members)
        self.toto: Final = ToTo(size, allack=bool(parameters.allack))
        self.window: Final = Window(parameters, size)
        self.requests: Final = Requests(size, parameters, rng)
        self.resends: Final = Resends(parameters, rng)
        self.n_ordered = 0  # messages delivered in the total order: their places
        self.safe_line = 0  # everybody has the ordered messages up to this place
        self.window_max = 0  # the most messages that were unstable at once
        self.settled = 0  # regular messages that everybody has
        self.settled_seen = 0  # as the stuck detector saw it last
        # Nobody has more unstable messages than this, and what is stable for their sender when it
        # sends the next is stable for whoever inserts that.
        self._bound: Final = size * parameters.w_high
        self._effects: Final = effects
        self._waiting: Final[list[deque[Node]]] = [deque() for _ in members]  # to be delivered
        self._decided: Final[deque[Node]] = deque()  # ordered, and not yet delivered
        self._unsafe: Final[deque[Node]] = deque()  # ordered and delivered, and not yet stable
        self._parts: Final[list[Part]] = []  # that the next effect will deliver

    # -- taking in ---------------------------------------------------------------------------

    def receive_basic(self, message: Message) -> None:
        """Deliver a BASIC message at its first reception, whatever else is missing."""
        if message.kind == REGULAR and message.service is BASIC:
            self._parts.append(self._placed(message, NO_PLACE))
            self._hand_over(after_gap=False)

    def insert(self, message: Message) -> Node:
        """Put a message whose predecessors are there into the graph, and count what it says."""
        graph = self.graph
        node = graph.insert(message)
        if message.kind == REGULAR:
            if message.service is BASIC:
                node.is_delivered = True
            else:
                self._waiting[node.index].append(node)
                if graph.is_ordered(node):
                    self.toto.add(node)
        if graph.is_countable(node):
            self.toto.vote(node, graph.acked[node.index])
            newly = graph.count(node)
            if newly:
                self._note_stable(newly)
        return node

    def _note_stable(self, newly: list[Node]) -> None:
        self.window.on_stable(len(newly))
        for node in newly:
            self.settled += node.message.kind == REGULAR
            if node.is_delivered:
                self.graph.forget(node)

    # -- delivering --------------------------------------------------------------------------

    def advance(self) -> None:
        """Deliver everything that may be delivered by now."""
        decided = self._decided
        while True:
            self._deliver_causal()
            if not decided:
                decided.extend(self.toto.decide())
                if not decided:
                    break
            node = decided[0]
            if node.message.service is SAFE and not self.graph.is_stable(node):
                break  # the rest of the order waits behind it
            self._unsafe.append(node)
            self._deliver_ordered(decided.popleft())
        self._hand_over(after_gap=False)
        self._raise_safe_line()
        self._note_window()

    def _note_window(self) -> None:
        size = self.graph.window
        if size > self.window_max:
            self.window_max = size
            self._effects.append(WindowGrown(self.view_id, size, self._bound))

    def _deliver_causal(self) -> None:
        has_delivered = True
        while has_delivered:
            has_delivered = False
            for queue in self._waiting:
                while queue and queue[0].message.service is CAUSAL and self._is_due(queue[0]):
                    has_delivered = True
                    self._deliver(queue.popleft(), NO_PLACE)

    def _is_due(self, node: Node) -> bool:
        """Whether all regular messages in its past have been delivered."""
        past = node.past
        for at, queue in enumerate(self._waiting):
            if queue and queue[0].number <= past[at] and queue[0] is not node:
                return False
        return True

    def _deliver_ordered(self, node: Node) -> None:
        first = self._waiting[node.index].popleft()
        assert first is node
        self.n_ordered += 1
        self._deliver(node, self.n_ordered)

    def _deliver(self, node: Node, place: int) -> None:
        node.is_delivered = True
        self._parts.append(self._placed(node.message, place))
        self.graph.forget(node)

    def _placed(self, message: Message, place: int) -> Placed:
        return Placed(
            message.sender_id,
            self._conf_id,
            place,
            message.service,
            message.timestamp,
            message.payload,
        )

    def _hand_over(self, *, after_gap: bool) -> None:
        if self._parts:
            parts = self._parts.copy()
            self._parts.clear()
            self._effects.append(Deliver(self._conf_id, parts, self.safe_line, after_gap=after_gap))

    def _raise_safe_line(self) -> None:
        unsafe = self._unsafe
        before = self.safe_line
        while unsafe and self.graph.is_stable(unsafe[0]):
            unsafe.popleft()
            self.safe_line += 1
        if self.safe_line > before:
            self._effects.append(SafeLine(self.view_id, self.safe_line))

    # -- the end -----------------------------------------------------------------------------

    def close(self, passage: Configuration) -> None:
        """Deliver what is left, with the votes that there are: none will come.

        Who goes on together has the same countable messages, so all deliver the same in the same
        order: first what ToTo still decides, with safe messages waiting for nobody; then the rest
        by name, in an order that respects the graph. `passage` is the transitional configuration of
        those who go on.

        What is left is all that is here: the quiet rule and rule A see to it that this is the past
        of the finals of those who go on. The simulator holds it against the whole graph; an assert
        would let a member that breaks these rules stop the others.
        """
        chosen = [*self._decided] or self.toto.decide()
        self._decided.clear()
        while chosen:
            for node in chosen:
                self._deliver_causal()
                is_safe = node.message.service is not SAFE or self.graph.is_stable(node)
                if self._conf_id == self.view_id:
                    if is_safe:
                        self._unsafe.append(node)
                    else:
                        self._pass_over(passage)
                self._deliver_ordered(node)
            chosen = self.toto.decide()
        self._deliver_causal()
        if self._conf_id == self.view_id:
            self._pass_over(passage)
        self._hand_over(after_gap=False)
        while self.toto.candidates:
            for node in self.toto.take_least():
                self._deliver_ordered(node)
                self._deliver_causal()
        self._hand_over(after_gap=True)
        assert not any(self._waiting)

    def _pass_over(self, passage: Configuration) -> None:
        """Go on among those who go on together."""
        self._hand_over(after_gap=False)
        self._raise_safe_line()
        self._conf_id = passage.conf_id
        self._effects.append(Install(passage))
