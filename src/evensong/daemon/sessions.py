"""Client connections: who may come in, what they ask for, what they are told, and who must go.

All of a turn's requests are handed to the node together when the turn ends, and all that a client
is told in a turn is written to it in one go, behind whatever the ring has to send. A client that
takes too little is told so, and dropped before it costs the others anything; one that sends too
much is not read. A frame is laid out once for all clients: destinations have one number for all of
them, and each is told what a number means before the first frame that needs it. Its sender has the
content already, and is told that it is delivered.
"""

import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, final

from evensong.core.groups.events import (
    Closed,
    Delivered,
    Destination,
    Error,
    Left,
    Receipt,
    Reconfigured,
    SafeUpTo,
    SessionEvent,
    SessionId,
    Throttle,
    ViewChange,
    Welcome,
)
from evensong.core.groups.frame import HEADER_SIZE
from evensong.core.groups.sessions import NO_SESSION
from evensong.core.ids import NO_RING
from evensong.core.timer import NEVER
from evensong.daemon.connection import Connection
from evensong.daemon.control import EXHAUSTED, NOTHING, Answer
from evensong.daemon.credentials import gid_of, is_allowed, peer_of
from evensong.daemon.driver import Driver, clock
from evensong.daemon.local_socket import listen
from evensong.daemon.watch import READ
from evensong.errors import MalformedFrame
from evensong.ipc import wire
from evensong.ipc.frames import (
    CLIENT_SOCKET,
    JOIN,
    LEAVE,
    SEND,
    VERSION,
    Bye,
    Consumed,
    Hello,
    Join,
    Leave,
    ListGroups,
    Ping,
    Request,
    SafeLines,
    Send,
    SetGroups,
    Why,
)
from evensong.ipc.unsent import Part

WISHES: Final = (JOIN, LEAVE)
CONNECTIONS_MAX: Final = 256
WINDOW: Final = 4 * 2**20  # bytes, or what may wait for a client if that is less
FEW: Final = 2  # clients that are written to before the ring is served
TURN_READS: Final = 4  # clients that are read in one turn
THROTTLED_BYTES: Final = 131_072  # that a client may send before it knows that it should not
WISHES_MAX: Final = 16  # joins and leaves of one client that are under way
TURN_US: Final = 3_000  # that clients' requests may take in one turn; one of them may take longer
STUCK_US: Final = 5_000_000  # a client that takes nothing for so long while half its queue is full
HELD_UP_US: Final = 1_000_000  # how long a full window may keep something back without a word
LINGER_US: Final = 5_000_000  # how long a client may take to hear that it is dropped
SILENT_US: Final = 10_000_000  # how long a connection may stay that does not say who it is
NUMBERS: Final = 4_096  # destinations that have a number at one time
LINES_MAX: Final = 10  # of the log, between two times that connections are tended


class Access(NamedTuple):
    """Who may be a client."""

    mode: int  # of the socket
    group: str  # whose members may; empty: only this user and root


@final
class Sessions:
    """The clients of one daemon."""

    def __init__(
        self,
        state: Path,
        access: Access,
        driver: Driver,
        message_max: int,
        queued_max: int,
        say: Callable[[str], None],
    ) -> None:
        self.queued_max: Final = queued_max
        self._window: Final = min(WINDOW, queued_max)
        self.drops: Final[dict[str, int]] = {}  # clients that were hung up on, by reason
        self.refused_requests = 0
        self.ended: Callable[[SessionId, str], None] = _ignore_end  # told who ends, and why
        self._gid: Final = gid_of(access.group)
        self._path: Final = state / CLIENT_SOCKET
        self._driver: Final = driver
        self._node: Final = driver.core
        self._groups: Final = driver.core.groups
        self._request_max: Final = wire.request_max(message_max)
        self._say: Final = say
        self._lines_left = LINES_MAX
        self._connections: Final[dict[Connection, None]] = {}
        self._by_session: Final[dict[SessionId, Connection]] = {}
        self._asking: Final[deque[Connection]] = deque()  # whose sessions were refused
        self._to_flush: Final[dict[Connection, None]] = {}
        self._numbers: Final[dict[Destination, int]] = {}
        self._numbered: Final[list[Destination | None]] = [None] * NUMBERS
        self._next_number = 0
        self._reads_left = TURN_READS
        self._passed_over: Final[dict[Connection, None]] = {}  # ready, and not read in this turn
        self._waiting: Final[dict[Connection, None]] = {}  # who has asked for more than was done
        self._wishing: Final[dict[Connection, None]] = {}  # who goes on when its wishes are done
        self._asked_since = 0  # when the first request of this turn was begun; 0: there was none
        self.deadline = NEVER  # when there is something to go on with
        self._has_asked = False  # the node was asked for something in this turn
        self._is_paused = False  # no descriptor is left for another connection
        self._line: SafeUpTo | None = None  # the latest
        self._listening: Final = listen(
            state, CLIENT_SOCKET, access.mode, CONNECTIONS_MAX, self._gid
        )
        driver.watch.add(self._listening.fileno(), self._on_connection)
        driver.tell = self.tell
        driver.turn_ends.append(self.end_turn)
        driver.write_few = self.write_few
        driver.timed.append(self)
        driver.chores.append(self.tend)

    # -- coming in ---------------------------------------------------------------------------

    def _on_connection(self, _events: int) -> None:
        try:
            stream, _ = self._listening.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._is_paused = True
                self._driver.watch.change(self._listening.fileno(), NOTHING)
            return  # else it went away again
        stream.setblocking(False)
        # The larger, the less often daemon and client take turns; the kernel may allow less.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._window // 8)
        pid, uid = peer_of(stream)
        if not is_allowed(stream, self._gid):
            self._turn_away(stream, Why.NOT_ALLOWED, "another user's process")
            self._drop(f"process {pid} of user {uid}", "another user's process")
        elif len(self._connections) >= CONNECTIONS_MAX:
            self._turn_away(stream, Why.TOO_MANY, f"{CONNECTIONS_MAX} clients are here")
            self._drop(f"process {pid} of user {uid}", "too many connections")
        else:
            watch, now = self._driver.watch, clock()
            made = Connection(stream, watch, self, (pid, uid), self.queued_max, self._window, now)
            self._connections[made] = None

    def _turn_away(self, stream: socket.socket, why: Why, text: str) -> None:
        with stream:
            try:
                stream.send(wire.encode_farewell(0, why, text))
            except OSError:
                return  # it did not wait for the answer

    # -- what clients say --------------------------------------------------------------------

    def may_read(self, connection: Connection) -> bool:
        """Whether it may be read in this turn; who may not is among the first in the next."""
        if not self._reads_left:
            self._passed_over[connection] = None
            return False
        self._reads_left -= 1
        return True

    def _read_passed_over(self) -> None:
        """Begin a turn with those who had none: epoll always names the same ones first."""
        for connection in list(self._passed_over)[:TURN_READS]:
            del self._passed_over[connection]
            connection.read()

    def on_writable(self, connection: Connection) -> None:
        """See that more is written when the turn ends."""
        self._to_flush[connection] = None

    def on_asked(self, connection: Connection) -> None:
        """Do what a client says; what is too much for this turn is done in the next ones."""
        self._has_asked = True
        send = self._groups.send
        asked = connection.asked
        while asked:
            if not self._is_time_left():
                self._waiting[connection] = None
                break
            frame = asked.popleft()
            opcode, request_id, body = frame
            if opcode == SEND and connection.session and not connection.is_closing:
                send(connection.session, body, request_id)
                if connection.is_throttled:
                    connection.sent_while_throttled += len(body)
                continue
            if connection.is_closing:
                asked.clear()
                return
            if opcode in WISHES and self._wishes_much(connection):
                asked.appendleft(frame)
                self._wishing[connection] = None
                break
            try:
                self._do(connection, wire.decode_request(frame), request_id)
            except MalformedFrame as malformed:
                self.on_malformed(connection, malformed.reason)
        if connection.sent_while_throttled > THROTTLED_BYTES:
            connection.set_reading(False)
        if not connection.is_closing:
            connection.wait()  # who has asked for more than was done is not read

    def _wishes_much(self, connection: Connection) -> bool:
        """Whether so many joins and leaves are under way that the next one should wait for them.

        Each shows its group to all of its members: without this, one client could keep all
        daemons busy with views.
        """
        if connection.session == NO_SESSION:
            return False
        return self._groups.sessions.open[connection.session].wishes_under_way >= WISHES_MAX

    def _is_time_left(self) -> bool:
        now = clock()
        if not self._asked_since:
            self._asked_since = now
        return now - self._asked_since < TURN_US

    def _go_on(self) -> None:
        """Do what was too much for the turn before."""
        self._asked_since = 0
        for connection in list(self._waiting):
            if not self._is_time_left():
                break  # those who come next are the first in the next turn
            del self._waiting[connection]
            self.on_asked(connection)
        self._asked_since = 0

    def expire(self, _now: int) -> None:
        """Be called at the deadline; what is to be done is done when the turn ends."""

    def _do(self, connection: Connection, request: Request, request_id: int) -> None:
        if isinstance(request, Ping):
            self._put_news(connection, wire.encode_pong(request_id))
        elif isinstance(request, Bye):
            self._hang_up(connection, Why.ASKED, "", request_id)
        elif isinstance(request, Hello):
            self._greet(connection, request, request_id)
        elif not connection.session:
            raise MalformedFrame("stream: before HELLO")
        elif isinstance(request, Consumed):
            if not connection.consumed(request.size):
                raise MalformedFrame("stream: consumed more than there was")
            connection.progress_at = clock()
            self._to_flush[connection] = None
        else:
            self._ask(connection, request, request_id)

    def _ask(
        self,
        connection: Connection,
        request: Join | Leave | SetGroups | Send | ListGroups | SafeLines,
        request_id: int,
    ) -> None:
        session, groups = connection.session, self._groups
        if isinstance(request, Join):
            groups.join(session, request.group, request_id)
        elif isinstance(request, Leave):
            groups.leave(session, request.group, request_id)
        elif isinstance(request, SetGroups):
            groups.define_set(session, request.set_no, request.groups, request_id)
        elif isinstance(request, Send):
            groups.send(session, request.frame, request_id)
        elif isinstance(request, SafeLines):
            connection.wants_safe_lines = request.wanted
            self._tell_hurry()
            if request.wanted and self._line is not None:  # an idle ring would tell no other
                line = wire.encode_safe_line(self._line.ring_id, self._line.seq)
                self._put_news(connection, line)
        else:
            known = groups.directory.groups
            listed = [(name, known[name].members()) for name in sorted(known)]
            for frame in wire.encode_groups_are(request_id, listed):
                self._put_news(connection, frame)

    def _greet(self, connection: Connection, hello: Hello, request_id: int) -> None:
        if connection.session:
            raise MalformedFrame("stream: a second HELLO")
        if hello.version != VERSION:
            self._hang_up(connection, Why.VERSION, f"this daemon speaks {VERSION}", request_id)
            return
        session = self._groups.open_session(hello.user, request_id)
        if session == NO_SESSION:
            self._asking.append(connection)
            return
        connection.session = session
        connection.user = hello.user
        connection.hello_id = request_id
        connection.splitter.body_max = self._request_max
        self._by_session[session] = connection

    # -- what clients are told ---------------------------------------------------------------

    def tell(self, events: list[SessionEvent]) -> None:
        """Hand session events on, in order."""
        find = self._by_session.get
        for event in events:
            if isinstance(event, Delivered):
                self._deliver(event)
            elif isinstance(event, Receipt):
                told = (event.first_no, event.count, event.order, event.comes_back)
                self._put_news(find(event.session), wire.encode_receipt(*told))
            elif isinstance(event, SafeUpTo):
                self._line = event
                self._tell_safe_line(event)
            elif isinstance(event, ViewChange):
                frame = wire.encode_view(event.view)
                for session in event.sessions:
                    self._put_to(find(session), frame)
            elif isinstance(event, Reconfigured):
                frame = _config(event)
                for connection in list(self._by_session.values()):
                    self._put_news(connection, frame)
            elif isinstance(event, Left):
                frame = wire.encode_left(event.request_id, event.group, event.order)
                self._put_to(find(event.session), frame)
            elif isinstance(event, Throttle):
                self._throttle(find(event.session), event.is_on)
            elif isinstance(event, Welcome):
                self._welcome(find(event.session), event)
            elif isinstance(event, Error):
                self._tell_error(event)
            else:
                _nothing_to_tell(event)

        for connection in list(self._wishing):
            if not self._wishes_much(connection):
                del self._wishing[connection]
                self._waiting[connection] = None

    def _deliver(self, event: Delivered) -> None:
        destination = event.destination
        number = self._numbers.get(destination)
        if number is None:
            number = self._give_number(destination)
        told = (number, event.order, event.conf_id, event.reduced, event.frame)
        parts = wire.encode_deliver(*told)
        for session in event.sessions:
            connection = self._by_session.get(session)
            if connection is None:
                continue
            if connection.told.get(number) is not destination:
                connection.told[number] = destination
                self._put(connection, wire.encode_destination(number, destination))
            if session == event.own:
                left_out = len(event.frame) - HEADER_SIZE
                self._put(connection, wire.encode_own(*told), left_out=left_out)
            else:
                self._put(connection, *parts)

    def _give_number(self, destination: Destination) -> int:
        """Number a destination; the one that had the number longest loses it."""
        number = self._next_number
        self._next_number = (number + 1) % NUMBERS
        before = self._numbered[number]
        if before is not None:
            del self._numbers[before]
        self._numbered[number] = destination
        self._numbers[destination] = number
        return number

    def _tell_safe_line(self, event: SafeUpTo) -> None:
        wanting = [one for one in self._by_session.values() if one.wants_safe_lines]
        if wanting:
            frame = wire.encode_safe_line(event.ring_id, event.seq)
            for connection in wanting:
                self._put_news(connection, frame)

    def _tell_hurry(self) -> None:
        """Let the ring know whether anybody waits for safe lines."""
        waiting = any(one.wants_safe_lines for one in self._by_session.values())
        self._node.hurry(is_on=waiting)

    def _tell_error(self, event: Error) -> None:
        self.refused_requests += 1
        connection = self._by_session.get(event.session)
        if event.session == NO_SESSION:
            connection = self._asking.popleft()
        self._put_news(connection, wire.encode_error(event.request_id, event.code))

    def _welcome(self, connection: Connection | None, event: Welcome) -> None:
        if connection is None:
            return
        frame = wire.encode_welcome(
            connection.hello_id, event.member, event.frame_max, event.message_max, self._window
        )
        self._put_news(connection, frame)
        groups = self._groups
        if groups.configuration.conf_id != NO_RING:
            now = Reconfigured(
                groups.configuration.conf_id,
                groups.configuration.members,
                primary=groups.primary,
                transitional=groups.configuration.transitional,
            )
            self._put_news(connection, _config(now))

    def _throttle(self, connection: Connection | None, is_on: bool) -> None:
        if connection is None:
            return
        connection.is_throttled = is_on
        connection.sent_while_throttled = 0
        connection.put_first(wire.encode_throttle(is_on))
        self._to_flush[connection] = None
        if not is_on:
            connection.set_reading(True)

    def _put_to(self, connection: Connection | None, frame: bytes) -> None:
        if connection is not None:
            self._put(connection, frame)

    def _put(self, connection: Connection, *parts: Part, left_out: int = 0) -> None:
        connection.put(*parts, left_out=left_out)
        self._to_flush[connection] = None

    def _put_news(self, connection: Connection | None, frame: bytes) -> None:
        if connection is not None:
            connection.put_news(frame)
            self._to_flush[connection] = None

    # -- turns -------------------------------------------------------------------------------

    def end_turn(self, now: int) -> None:
        """Hand the turn's requests to the node, and write what clients are told."""
        if self._waiting:
            self._go_on()
        self._asked_since = 0
        self._reads_left = TURN_READS
        if self._passed_over:
            self._read_passed_over()
        while self._has_asked or self._to_flush:
            if self._has_asked:
                self._hand_over(now)
            else:
                connection, _ = self._to_flush.popitem()
                connection.flush(now)  # it may be found to be gone
        self.deadline = now if self._waiting else NEVER

    def write_few(self, now: int) -> None:
        """Write what clients are told before the turn ends, if they are few."""
        if len(self._to_flush) <= FEW:
            while self._to_flush:
                connection, _ = self._to_flush.popitem()
                connection.flush(now)

    def _hand_over(self, now: int) -> None:
        self._has_asked = False
        if self._groups.queue.queued_bytes and not self._driver.how:
            self._node.submit(now)
        self._driver.perform()

    def tend(self, now: int) -> None:
        """Look after those who do not move. A chore."""
        self._lines_left = LINES_MAX
        if self._is_paused:
            self._is_paused = False
            self._driver.watch.change(self._listening.fileno(), READ)
        for connection in list(self._connections):
            if connection.is_closing:
                if now - connection.closing_at >= LINGER_US:
                    connection.close()
            elif 2 * connection.queued > self.queued_max:
                if now - connection.progress_at >= STUCK_US:
                    self._hang_up(connection, Why.SLOW, "takes nothing", reason="slow consumer")
            elif connection.is_held_up():
                if now - connection.progress_at >= HELD_UP_US:
                    connection.warn()
                    self._to_flush[connection] = None
            elif not connection.session and now - connection.began_at >= SILENT_US:
                self._hang_up(connection, Why.MALFORMED, "no HELLO", reason="no HELLO")

    # -- going -------------------------------------------------------------------------------

    def on_malformed(self, connection: Connection, reason: str) -> None:
        """Hang up on a client that does not say frames."""
        self._hang_up(connection, Why.MALFORMED, reason, reason=f"malformed: {reason}")

    def on_full(self, connection: Connection) -> None:
        """Hang up on a client for which too much waits."""
        text = f"{self.queued_max} bytes waited"
        self._hang_up(connection, Why.SLOW, text, reason="slow consumer")

    def on_gone(self, connection: Connection) -> None:
        """Forget a client; its stream is closed."""
        self._end_session(connection, "disconnect")
        self._connections.pop(connection, None)
        self._to_flush.pop(connection, None)
        self._passed_over.pop(connection, None)
        self._waiting.pop(connection, None)
        self._wishing.pop(connection, None)

    def _hang_up(
        self, connection: Connection, why: Why, text: str, request_id: int = 0, reason: str = ""
    ) -> None:
        """Let a client go; its session ends now, with a reason if it was not asked for."""
        if connection.is_closing:
            return
        if reason:
            user = "".join(letter for letter in connection.user if letter.isprintable())
            self._drop(f"{user or 'a client'} (process {connection.pid})", reason)
        connection.finish(why, text, clock(), request_id)
        self._end_session(connection, reason or "asked")
        self._to_flush[connection] = None

    def _end_session(self, connection: Connection, why: str) -> None:
        session, connection.session = connection.session, NO_SESSION
        if session != NO_SESSION:
            del self._by_session[session]
            self._groups.close_session(session)
            if connection.wants_safe_lines:
                self._tell_hurry()
            self.ended(session, why)
            self._has_asked = True

    def _drop(self, who: str, reason: str) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + 1
        if self._lines_left:
            self._lines_left -= 1
            self._say(f"hangs up on {who}: {reason}")

    def close(self) -> None:
        """Say goodbye to all, and take the socket's name away."""
        now = clock()
        for connection in list(self._connections):
            connection.say_goodbye(Why.STOPPING, "the daemon stops", now)
        self._driver.watch.remove(self._listening.fileno())
        self._listening.close()
        self._path.unlink(missing_ok=True)

    # -- what is told of them ----------------------------------------------------------------

    def status(self) -> Answer:
        """Return who is here, what waits for whom, and who was hung up on."""
        here = sorted(self._by_session.items())
        return {
            "connections": len(self._connections),
            "queued": sum(one.queued for one in self._connections),
            "queued_max": self.queued_max,
            "to_send": self._groups.queue.queued_bytes,
            "groups": len(self._groups.directory.groups),
            "held_back": self._groups.held_packets(),
            "refused_requests": self.refused_requests,
            "dropped": dict(sorted(self.drops.items())),
            "malformed_packets": dict(sorted(self._groups.drops.items())),
            "sessions": [
                {
                    "session": session,
                    "user": one.user,
                    "pid": one.pid,
                    "uid": one.uid,
                    "queued": one.queued,
                    "unconsumed": one.unconsumed,
                    "to_send": self._groups.queue.queued(session),
                    "throttled": one.is_throttled,
                    "slow": one.is_slow,
                }
                for session, one in here
            ],
        }


def _ignore_end(_session: SessionId, _why: str) -> None:
    """Do nothing: nobody keeps a trace."""


def _nothing_to_tell(_event: Closed) -> None:
    """The session's client has gone already."""


def _config(event: Reconfigured) -> bytes:
    return wire.encode_config(
        event.conf_id, event.members, primary=event.primary, transitional=event.transitional
    )
