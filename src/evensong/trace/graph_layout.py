"""Where things stand in the picture of a causal graph: a lane a processor, time to the right.

Time is not even: a moment in which much happens is as wide as that takes, and where nothing happens
it is cut short. But it never runs back, what happens at one moment keeps its order, and an effect
stands to the right of its cause.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from evensong.core.ids import ProcessorId
from evensong.core.transis.frames import REGULAR
from evensong.sim.transis.memoir import Entrance, Happening, Memoir, Name, Post, Receipt, Turn

LEFT: Final = 64  # left of the first moment, for the names of lanes
RIGHT: Final = 40
US: Final = 0.03  # how wide a microsecond is, where nothing else decides
GAP_MAX: Final = 46.0  # how wide it is when nothing happens
LEAN: Final = 16.0  # by which an effect is at least to the right of its cause
MESSAGE: Final = 26.0  # between two messages of a lane
NULL: Final = 17.0
STACK: Final = 32.0  # between two columns of deliveries
ENTRANCE: Final = 22.0
PIP: Final = 5.0  # a member's mark on the ballot of a message
PIPS_MAX: Final = 12  # members; of more only the number of votes is told


class Span(NamedTuple):
    """A part of a run."""

    from_us: int
    to_us: int  # not included

    def has(self, at_us: int) -> bool:
        """Whether a moment is in it."""
        return self.from_us <= at_us < self.to_us


class Stack(NamedTuple):
    """What a processor delivers at one moment."""

    proc: ProcessorId
    at_us: int
    x: float
    receipts: list[Receipt]


class Stay(NamedTuple):
    """A processor's time in a view, as far as the picture shows it."""

    entrance: Entrance
    x: float
    to_x: float


@final
class Layout:
    """The places of what happens within a span."""

    def __init__(self, memoir: Memoir, span: Span) -> None:
        self.memoir: Final = memoir
        self.span: Final = span
        self.procs: Final = sorted({one.proc for one in memoir.happenings})
        self.posts: Final[dict[Name, Post]] = {}  # those that are shown
        self.x: Final[dict[Name, float]] = {}
        self.stacks: Final[list[Stack]] = []
        self.turns: Final[list[tuple[Turn, float]]] = []
        self.moments: Final[list[tuple[int, float]]] = []  # time and place, both ascending
        self._entrances: Final[list[tuple[Entrance, float]]] = []
        self._busy: Final[dict[tuple[ProcessorId, str], float]] = {}  # how far a lane is taken
        self._x = float(LEFT)
        self._at_us = span.from_us
        for one in sorted(memoir.happenings, key=lambda one: one.serial):
            if span.has(one.at_us):
                self._place(one)
            elif one.at_us < span.from_us and isinstance(one, Entrance | Turn):
                self._remember(one)
        self.width: Final = self._x + RIGHT
        self.stays: Final[list[Stay]] = self._find_stays()

    def _remember(self, one: Entrance | Turn) -> None:
        """Know in which view a lane is when the span begins."""
        self._entrances[:] = [kept for kept in self._entrances if kept[0].proc != one.proc]
        if isinstance(one, Entrance):
            self._entrances.append((one, float(LEFT)))

    def _place(self, one: Happening) -> None:
        self._x += min(GAP_MAX, (one.at_us - self._at_us) * US)
        self._at_us = one.at_us
        if isinstance(one, Post):
            self._place_post(one)
        elif isinstance(one, Receipt):
            self._place_receipt(one)
        elif isinstance(one, Entrance):
            self._claim(one.proc, "message", ENTRANCE)
            self._entrances.append((one, self._x))
            self._busy[one.proc, "width"] = ENTRANCE
        else:
            self._claim(one.proc, "message", ENTRANCE / 2)
            self.turns.append((one, self._x))
        self.moments.append((one.at_us, self._x))

    def _claim(self, proc: ProcessorId, row: str, wide: float) -> None:
        """Go so far to the right that the lane is free, and take the next bit of it."""
        self._x = max(self._x, self._busy.get((proc, row), 0.0))
        self._busy[proc, row] = self._x + wide

    def _place_post(self, post: Post) -> None:
        message = post.node.message
        causes = [Name(post.name.view_id, *ack) for ack in message.acks]
        self._x = max([self._x, *(self.x[one] + LEAN for one in causes if one in self.x)])
        wide = NULL
        if message.kind == REGULAR:
            members = len(self.memoir.graphs[post.name.view_id].members)
            wide = max(MESSAGE, (members + 1) * PIP if members <= PIPS_MAX else 0.0)
        before = self._busy.get((post.proc, "width"), 0.0)
        # A message stands in the middle of its place, so half of the one before counts as well.
        self._x = max(self._x, self._busy.get((post.proc, "message"), 0.0) + (wide - before) / 2)
        self._busy[post.proc, "message"] = self._x + wide
        self._busy[post.proc, "width"] = wide
        self.posts[post.name] = post
        self.x[post.name] = self._x

    def _place_receipt(self, receipt: Receipt) -> None:
        for stack in reversed(self.stacks):
            if stack.at_us != receipt.at_us:
                break
            if stack.proc == receipt.proc:
                stack.receipts.append(receipt)
                return
        self._claim(receipt.proc, "stack", STACK)
        self.stacks.append(Stack(receipt.proc, receipt.at_us, self._x, [receipt]))

    def _find_stays(self) -> list[Stay]:
        found = []
        marks: list[tuple[Entrance | Turn, float]] = [*self._entrances, *self.turns]
        for entrance, x in self._entrances:
            ends = [
                at
                for one, at in marks
                if one.proc == entrance.proc and one.serial > entrance.serial
            ]
            found.append(Stay(entrance, x, min(ends, default=self.width - RIGHT / 2)))
        return found


def count_posts(memoir: Memoir, span: Span) -> int:
    """Return how many messages a picture of a span has."""
    return sum(span.has(post.at_us) for post in memoir.posts.values())


def largest_span(memoir: Memoir, from_us: int, posts_max: int) -> Span:
    """Return the longest span from a moment on that has at most so many messages."""
    times = sorted(post.at_us for post in memoir.posts.values() if post.at_us >= from_us)
    end = max((one.at_us for one in memoir.happenings), default=from_us) + 1
    return Span(from_us, times[posts_max] if len(times) > posts_max else max(end, from_us + 1))


def ticks(moments: Sequence[tuple[int, float]], apart: float) -> list[tuple[int, float]]:
    """Return moments that stand at least so far apart, for the axis."""
    found: list[tuple[int, float]] = []
    for at_us, x in moments:
        if not found or (x >= found[-1][1] + apart and at_us > found[-1][0]):
            found.append((at_us, x))
    return found
