"""What becomes of what was sent and asked: answers that are to come.

An `Answer` is asked for once and given once. A `Flight` is a frame on its way: it gets its place
in the order, if it is ordered, when its daemon delivers it, and is known to be held by all members
some time later, or neither if the daemon is lost first. Whoever waits leaves a call in `wakes`.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar, final

from evensong.client.message import MessageId
from evensong.core.groups.events import MemberId, OrderId
from evensong.core.ids import ProcessorId
from evensong.errors import EvensongError, NotOffered, OutcomeUnknown, Refused

Value = TypeVar("Value")
Wake: TypeAlias = Callable[[], None]


class Held(NamedTuple):
    """Who is known to hold a message."""

    members: tuple[ProcessorId, ...]  # daemons, ascending
    reduced: bool  # they are fewer than the ring on which it was ordered


@final
class Wakes:
    """Who waits for something: each is called once."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Wake] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: Wake) -> None:
        """Wait."""
        self._calls.append(call)

    def discard(self, call: Wake) -> None:
        """Wait no more."""
        if call in self._calls:
            self._calls.remove(call)

    def call(self) -> None:
        """Tell all who wait."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()


@final
class Answer(Generic[Value]):
    """The answer to one request."""

    __slots__ = ("_error", "_values", "is_done", "wakes")

    def __init__(self) -> None:
        self.is_done = False
        self.wakes: Final = Wakes()
        self._values: Final[list[Value]] = []
        self._error: EvensongError | None = None

    def give(self, value: Value) -> None:
        """Answer."""
        self._values.append(value)
        self._finish()

    def fail(self, error: EvensongError) -> None:
        """Answer by an error."""
        self._error = error
        self._finish()

    def result(self) -> Value:
        """Return what was answered, or raise it; only when done."""
        assert self.is_done
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _finish(self) -> None:
        assert not self.is_done
        self.is_done = True
        self.wakes.call()


@final
class Flight:
    """A frame that was sent."""

    __slots__ = (
        "chosen",
        "count",
        "first_no",
        "held",
        "is_delivered",
        "is_safe",
        "lost",
        "order",
        "refused",
        "sender",
        "size",
        "wakes",
    )

    def __init__(
        self, sender: MemberId, first_no: int, count: int, size: int, *, is_safe: bool
    ) -> None:
        self.sender: Final = sender
        self.first_no: Final = first_no
        self.count = count  # messages; a frame that is still open takes more
        self.size = size  # bytes
        self.is_safe: Final = is_safe
        self.chosen: Final[dict[int, str]] = {}  # ids of its messages that the program chose
        self.is_delivered = False  # at its daemon
        self.order: OrderId | None = None  # of the first message, once delivered; None: it has none
        self.held: Held | None = None
        self.lost = ""  # why nothing more will be known
        self.refused = ""  # why the daemon did not take it
        self.wakes: Final = Wakes()  # called when more is known

    def id_of(self, index: int) -> MessageId | str:
        """Return the identity of one of its messages."""
        return self.chosen.get(index) or MessageId(*self.sender[:3], self.first_no + index)

    def has_come(self, index: int) -> bool:
        """Return whether it is delivered at its daemon; raise if one of its messages never is."""
        if not self.is_delivered:
            self._raise(index)
        return self.is_delivered

    def order_of(self, index: int) -> OrderId | None:
        """Return the place of one of its messages; None if it has none, or has not come yet."""
        if self.order is None:
            self.has_come(index)
            return None
        ring_id, seq, sub = self.order
        return OrderId(ring_id, seq, sub + index)

    def held_by(self, index: int) -> Held | None:
        """Return who is known to hold one of its messages; None if that is not known yet."""
        if self.is_delivered and self.order is None:
            raise NotOffered(f"message {self.id_of(index)} is not ordered: nobody tells who has it")
        if self.held is None:
            self._raise(index)
        return self.held

    def _raise(self, index: int) -> None:
        if self.refused:
            raise Refused(self.refused)
        if self.lost:
            raise OutcomeUnknown(self.id_of(index), self.lost)
