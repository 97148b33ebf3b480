"""What a connection has been told, handed to whoever reads it: the connection, or its groups.

There is one order, and several may read it: the connection's own stream has everything, a group's
has what concerns the group. Each reads at its own pace, and what all of its readers have taken is
consumed: only that is reported to the daemon, so that whoever reads slowly is sent slowly.

Who reads. A group is read from its joining on, the connection from its beginning; but when the
connection's stream is taken from for the first time, groups that nobody has read so far are let go
(they would hold everything up), and the other way round. A stream that was let go may be read
later: it begins there.

Leaving is not reading: of a group that is left in mid-stream only its own part is forgotten, in the
connection's stream too if nobody reads that. Else what nobody reads could hold the answer up.

A group with state (replica.py) is read by itself only, and is not in the connection's stream: by
asking for more, its reader says that it has applied what came before, and snapshots depend on
that.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, final

from evensong.client.flights import Wakes
from evensong.client.message import Delivery, Message
from evensong.client.replica import Replication
from evensong.core.groups.events import View
from evensong.errors import EvensongError, MalformedFrame

Event: TypeAlias = Message | View


@final
class Parcel:
    """Something that was told, and how many have yet to take it."""

    __slots__ = ("content", "readers", "size", "within")

    def __init__(self, content: Delivery | View, size: int) -> None:
        self.content: Final = content
        self.size: Final = size  # bytes at the daemon
        self.readers = 0
        self.within: list[Stream] = []  # what it belongs to, if it is in the connection's stream


@final
class Stream:
    """What one reader has not taken yet."""

    __slots__ = (
        "_consumed",
        "_parcels",
        "_replication",
        "at",
        "batch",
        "error",
        "is_abandoned",
        "is_claimed",
        "is_fed",
        "is_over",
        "malformed",
        "wakes",
    )

    def __init__(
        self, consumed: Callable[[int], None], replication: Replication | None = None
    ) -> None:
        self._consumed: Final = consumed
        self._replication: Final = replication
        self._parcels: Final[deque[Parcel]] = deque()
        self.batch: list[Event] = []  # of which single events are being taken: the next is at `at`
        self.at = 0
        self.wakes: Final = Wakes()  # called when there is more, or nothing more will come
        self.is_claimed = False  # somebody has begun to read it
        self.is_abandoned = False  # its group is being left, and nobody will read the rest
        self.is_fed = True
        self.is_over = False  # nothing more will come
        self.error: EvensongError | None = None  # why, if nobody asked for it
        self.malformed = 0  # frames of other programs whose tables were false

    # -- in ----------------------------------------------------------------------------------

    def put(self, parcel: Parcel) -> None:
        """Take in what was told."""
        parcel.readers += 1
        self._parcels.append(parcel)
        self.wakes.call()

    def end(self, error: EvensongError | None) -> None:
        """Say that nothing more will come.

        What is there may still be taken, but counts as consumed: nobody may ever come for it.
        """
        if not self.is_over:
            for parcel in self._parcels:
                self._release(parcel)
            self.is_over = True
            self.error = error
            self.wakes.call()

    def let_go(self) -> None:
        """Forget what was not taken, and take in nothing more until it is read."""
        self.is_fed = False
        while self._parcels:
            self._release(self._parcels.popleft())
        self.batch = []
        self.at = 0

    def forget_abandoned(self) -> None:
        """Forget what was not taken and belongs to nothing but groups that are being left."""
        parcels = list(self._parcels)
        self._parcels.clear()
        for parcel in parcels:
            if all(stream.is_abandoned for stream in parcel.within):
                self._release(parcel)
            else:
                self._parcels.append(parcel)

    # -- out ---------------------------------------------------------------------------------

    def take(self) -> list[Event]:
        """Return everything that is there, in order; empty if there is nothing, for now or ever."""
        if self.at < len(self.batch):
            rest = self.batch[self.at :]
            self.batch = []
            self.at = 0
            return rest
        if self._replication is not None:
            return self._take_applied(self._replication)
        events: list[Event] = []
        while self._parcels:
            parcel = self._parcels.popleft()
            self._cut(parcel.content, events)
            self._release(parcel)
        return events

    def take_one(self) -> Event | None:
        """Return the next event; None if there is none, for now or ever."""
        if self.at >= len(self.batch):
            self.batch = []
            self.batch = self.take()
            self.at = 0
            if not self.batch:
                return None
        event = self.batch[self.at]
        self.at += 1
        return event

    def is_drained(self) -> bool:
        """Whether all of the last batch has been taken."""
        return self.at >= len(self.batch)

    def _take_applied(self, replication: Replication) -> list[Event]:
        """Let the state transfer see what came, until the program has to apply what it shows."""
        events: list[Event] = []
        while replication.go_on(events) and self._parcels:
            parcel = self._parcels.popleft()
            content = parcel.content
            if isinstance(content, View):
                replication.on_view(content)
            else:
                messages: list[Event] = []
                self._cut(content, messages)
                replication.on_messages(content, messages)
            self._release(parcel)
        return events

    def _cut(self, content: Delivery | View, events: list[Event]) -> None:
        if isinstance(content, View):
            events.append(content)
            return
        try:
            events.extend(content.messages())
        except MalformedFrame:
            self.malformed += 1  # daemons do not look at tables; nobody gets anything of it

    def _release(self, parcel: Parcel) -> None:
        if self.is_over:
            return  # counted when it ended
        parcel.readers -= 1
        if not parcel.readers:
            self._consumed(parcel.size)


@final
class Streams:
    """The connection's stream and those of its groups."""

    __slots__ = ("_consumed", "_own", "everything", "groups", "private_name")

    def __init__(self, consumed: Callable[[int], None]) -> None:
        self._consumed: Final = consumed
        self.everything: Final = Stream(consumed)
        self.groups: Final[dict[str, Stream]] = {}
        self._own: Final[set[str]] = set()  # groups with state
        self.private_name = ""

    def open(self, group: str, replication: Replication | None) -> Stream:
        """Begin a group's stream."""
        stream = Stream(self._consumed, replication)
        self.groups[group] = stream
        if replication is not None:
            self._own.add(group)
        elif self.everything.is_claimed:
            stream.let_go()
        return stream

    def close(self, group: str) -> None:
        """End a group's stream: it was left."""
        stream = self.groups.pop(group, None)
        self._own.discard(group)
        if stream is not None:
            stream.end(None)

    def let_go(self) -> None:
        """Let go of all of them: nobody will read any more."""
        for stream in (self.everything, *self.groups.values()):
            stream.let_go()

    def end(self, error: EvensongError | None) -> None:
        """End all of them."""
        for stream in (self.everything, *self.groups.values()):
            stream.end(error)

    def has_state(self, group: str) -> bool:
        """Whether a group was joined with state."""
        return group in self._own

    def claim(self, stream: Stream) -> None:
        """Say that somebody reads a stream now."""
        if stream.is_claimed:
            return
        stream.is_claimed = True
        stream.is_fed = True
        if stream is self.everything:
            for name, other in self.groups.items():
                if not other.is_claimed and name not in self._own:
                    other.let_go()
        elif not self.everything.is_claimed:
            self.everything.let_go()

    def abandon(self, stream: Stream) -> None:
        """Say that a group is being left and nobody reads the rest of it; others lose nothing."""
        stream.is_abandoned = True
        stream.let_go()
        if not self.everything.is_claimed:
            self.everything.forget_abandoned()

    def put(self, names: tuple[str, ...], parcel: Parcel) -> None:
        """Hand something to whoever reads one of these groups, and to the connection."""
        parcel.readers = 1  # this call, so that it is consumed at once if nobody reads it
        within = parcel.within
        for name in names:
            stream = self.groups.get(name)
            if stream is None:
                if name == self.private_name:
                    within.append(self.everything)
                continue
            if stream.is_fed:
                stream.put(parcel)
            if name not in self._own and (not stream.is_abandoned or self.everything.is_claimed):
                within.append(stream)
        if within and self.everything.is_fed:
            self.everything.put(parcel)
        parcel.readers -= 1
        if not parcel.readers:
            self._consumed(parcel.size)
