"""One client's stream: whole frames come in, and what it is told waits in a bounded queue.

Frames wait as they are, in one part or several, shared with other connections that are told the
same. Short ones are joined when they can be written, long ones handed to the kernel as they are.
Whatever is begun is written to the end, so a frame that is urgent always finds a place between two
others; urgent frames mind neither the queue nor the window. What the client has itself is left out
of a frame and counts all the same, against both, as if it were written.

Level-triggered epoll calls again and again for what nobody takes, and for a client that has gone
whatever one asks for. So a connection that neither wants to read nor can write is not watched.
"""

import socket
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, final

from evensong.core.groups.sessions import NO_SESSION
from evensong.daemon.watch import OVER, READ, WRITE, Watch
from evensong.errors import MalformedFrame
from evensong.ipc import wire
from evensong.ipc.frames import Frame, Why
from evensong.ipc.splitter import Splitter
from evensong.ipc.unsent import Part, rest_of

if TYPE_CHECKING:
    from evensong.core.groups.events import Destination, SessionId

READ_BYTES: Final = 65_536  # of one connection in one turn
READ_INTO: Final = memoryview(bytearray(READ_BYTES))  # one for all: frames are copied out of it
PIECE: Final = 262_144  # bytes that are written at once, or one frame that is longer
LONG: Final = 4_096  # bytes of a part, on average, from which on joining costs more than it saves
WRITE_BYTES: Final = 4 * PIECE  # to one connection in one turn, about
NOT_WATCHED: Final = -1


class Owner(Protocol):
    """Who keeps the connections."""

    def may_read(self, connection: "Connection") -> bool:
        """Whether it may be read in this turn; if not, `read` is called in a later one."""
        ...

    def on_asked(self, connection: "Connection") -> None:
        """Do what a client says, or some of it."""
        ...

    def on_writable(self, connection: "Connection") -> None:
        """See that more is written when the turn ends."""
        ...

    def on_malformed(self, connection: "Connection", reason: str) -> None:
        """Hang up on a client that does not say frames."""
        ...

    def on_full(self, connection: "Connection") -> None:
        """Hang up on a client for which too much waits."""
        ...

    def on_gone(self, connection: "Connection") -> None:
        """Forget a client; its stream is closed."""
        ...


@final
class Connection:
    """One client."""

    def __init__(
        self,
        stream: socket.socket,
        watch: Watch,
        owner: Owner,
        peer: tuple[int, int],
        queued_max: int,
        window: int,
        now: int,
    ) -> None:
        self.pid, self.uid = peer
        self.session: SessionId = NO_SESSION
        self.user = ""
        self.hello_id = 0  # of the request that opened the session
        self.splitter: Final = Splitter(wire.SMALL_MAX)
        self.asked: Final[deque[Frame]] = deque()  # what the client said and has not been done
        self.told: Final[dict[int, Destination]] = {}  # destinations, by number
        self.wants_safe_lines = False
        self.is_throttled = False
        self.is_closing = False  # nothing more is read; gone when what waits is written
        self.sent_while_throttled = 0  # bytes
        self.queued = 0  # bytes that wait to be written, or to be left out
        self.unconsumed = 0  # bytes, written or left out, that the client is not done with
        self.progress_at = now  # when it last took something
        self.began_at: Final = now
        self.closing_at = 0
        self.is_slow = False
        self._is_gone = False
        self._stream: Final = stream
        self._watch: Final = watch
        self._owner: Final = owner
        self._queued_max: Final = queued_max
        self._window: Final = window
        # How many bytes each counts for, how many of them are left out, and its parts.
        self._frames: Final[deque[tuple[int, int, tuple[Part, ...]]]] = deque()
        self._urgent: Final[list[bytes]] = []
        self._begun: list[Part] = []  # what is being written
        self._begun_size = 0
        self._is_reading = True
        self._is_blocked = False  # the stream takes nothing more for now
        self._watched = NOT_WATCHED
        self.wait()

    # -- what the client says ----------------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        is_over = events & OVER and not self._is_reading  # writing will find it out
        if events & WRITE or is_over:
            self._is_blocked = False
            self._owner.on_writable(self)
        if events & (READ | OVER):
            self.read()

    def read(self) -> None:
        """Take in what the client says, if it may be read."""
        if not self._is_reading or self._is_gone or self.asked or not self._owner.may_read(self):
            return
        try:
            size = self._stream.recv_into(READ_INTO)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self.close()
            return
        try:
            frames = self.splitter.feed(READ_INTO[:size])
        except MalformedFrame as malformed:
            self._owner.on_malformed(self, malformed.reason)
            return
        if frames:
            self.asked.extend(frames)
            self._owner.on_asked(self)

    def set_reading(self, is_reading: bool) -> None:
        """Read on, or leave what the client says where it is."""
        if self._is_reading != is_reading and not self.is_closing:
            self._is_reading = is_reading
            self.wait()

    # -- what it is told ---------------------------------------------------------------------

    def put(self, *parts: Part, left_out: int = 0) -> None:
        """Tell the client something of its groups, in order: the parts of one frame.

        So many bytes are left out of it, since the client has them.
        """
        if not self.is_closing:
            size = sum(map(len, parts)) + left_out
            self._frames.append((size, left_out, parts))
            self._count(size)

    def put_news(self, frame: bytes) -> None:
        """Tell the client something else: whether it reads its groups or not, and in order."""
        if not self.is_closing:
            self._urgent.append(frame)
            self._count(len(frame))

    def _count(self, size: int) -> None:
        self.queued += size
        if 2 * self.queued > self._queued_max:
            if self.queued > self._queued_max:
                self._owner.on_full(self)
            else:
                self.warn()

    def warn(self) -> None:
        """Tell the client that it takes too little; once, until it has caught up."""
        if not self.is_slow:
            self.is_slow = True
            ahead = self._begun_size + sum(map(len, self._urgent))  # comes before the warning
            self.put_first(wire.encode_slow(self.queued - ahead, self._queued_max))

    def is_held_up(self) -> bool:
        """Whether something waits, answers and receipts too, until the client has consumed."""
        return bool(self._frames) and self.unconsumed >= self._window

    def put_first(self, frame: bytes) -> None:
        """Tell the client something ahead of what waits."""
        if not self.is_closing:
            self._urgent.append(frame)
            self.queued += len(frame)

    def consumed(self, size: int) -> bool:
        """Take in that the client is done with so many bytes; False if it never got them."""
        if size > self.unconsumed:
            return False
        self.unconsumed -= size
        return True

    def flush(self, now: int) -> None:
        """Write what can be written."""
        left = WRITE_BYTES
        while left > 0 and not self._is_blocked and not self._is_gone and self._begin():
            try:
                written = self._stream.sendmsg(self._begun)
            except BlockingIOError:
                self._is_blocked = True
                break
            except OSError:
                self.close()
                return
            self._drop(written)
            self.queued -= written
            self.unconsumed += written
            self.progress_at = now
            left -= written
        if self._is_gone:
            return
        if self.is_slow and 4 * self.queued < self._queued_max and not self.is_held_up():
            self.is_slow = False
        if self.is_closing and not self.queued:
            self.close()
        else:
            self.wait()

    def _begin(self) -> bool:
        """See that something is begun; False if there is nothing that may be."""
        if self._begun:
            return True
        frames = self._frames
        parts: list[Part] = [*self._urgent]
        self._urgent.clear()
        size = sum(map(len, parts))
        left_out = 0
        if self.unconsumed < self._window:
            while frames and (not parts or size + frames[0][0] <= PIECE):
                more, without, frame = frames.popleft()
                size += more
                left_out += without
                parts += frame
        if not parts:
            return False
        size -= left_out
        self.queued -= left_out
        self.unconsumed += left_out
        self._begun = parts if size >= LONG * len(parts) else [b"".join(parts)]
        self._begun_size = size
        return True

    def _drop(self, written: int) -> None:
        """Take off what is being written what has been."""
        self._begun_size -= written
        self._begun = rest_of(self._begun, written)

    # -- the end -----------------------------------------------------------------------------

    def finish(self, why: Why, text: str, now: int, request_id: int = 0) -> None:
        """Hang up: what is begun or urgent is written, then a farewell, and nothing else."""
        if self.is_closing:
            return
        self._frames.clear()
        self.queued = self._begun_size + sum(map(len, self._urgent))
        self.put_first(wire.encode_farewell(request_id, why, text))
        self._is_reading = False
        self.is_closing = True
        self.closing_at = now

    def say_goodbye(self, why: Why, text: str, now: int) -> None:
        """Hang up now, behind all that waits, as far as the client takes it."""
        if not self.is_closing:
            farewell = wire.encode_farewell(0, why, text)
            self._frames.append((len(farewell), 0, (farewell,)))
            self.queued += len(farewell)
            self.unconsumed = 0
            self._is_blocked = False
            self.flush(now)
        self.close()

    def close(self) -> None:
        """Hang up at once."""
        if not self._is_gone:
            self._is_gone = True
            self.is_closing = True
            self._unwatch()
            self._stream.close()
            self._owner.on_gone(self)

    # -- being called ------------------------------------------------------------------------

    def wait(self) -> None:
        """Be called when there is something to do."""
        events = READ if self._is_reading and not self.asked else 0
        if self.queued and self._can_begin():
            events |= WRITE
        if events == self._watched or (not events and self._watched == NOT_WATCHED):
            return
        if not events:
            self._unwatch()
        elif self._watched == NOT_WATCHED:
            self._watch.add(self._stream.fileno(), self._on_ready, events)
            self._watched = events
        else:
            self._watch.change(self._stream.fileno(), events)
            self._watched = events

    def _can_begin(self) -> bool:
        return bool(self._begun or self._urgent) or self.unconsumed < self._window

    def _unwatch(self) -> None:
        if self._watched != NOT_WATCHED:
            self._watched = NOT_WATCHED
            self._watch.remove(self._stream.fileno())
