"""Writes down what sessions are told and what they send, for the trace of a daemon.

Views, and the comings and goings of sessions, are written at every level but `off`. At `events`
every frame is a row: one for all sessions of this daemon that are told it, and one at its sender's
daemon when all of it has been sent. At other levels nothing is looked at but views and the like.
"""

from collections.abc import Callable
from typing import Final, final

from evensong.core.effects import Sent
from evensong.core.groups.events import (
    Closed,
    Delivered,
    Destination,
    Left,
    Reconfigured,
    SessionEvent,
    SessionId,
    ViewChange,
    Welcome,
)
from evensong.core.groups.frame import HEADER, HEADER_SIZE, SELF_DISCARD
from evensong.core.ids import Configuration, RingId
from evensong.daemon.listener import Listener
from evensong.daemon.spool import Spool
from evensong.trace import groups, session_rows
from evensong.trace.groups import UNKNOWN, Destinations, Said, Sayings, To
from evensong.trace.schema import CODE_BY_SERVICE
from evensong.trace.spool import frame as spooled

RARE: Final = frozenset([ViewChange, Left, Reconfigured, Welcome])
NUMBERS_MAX: Final = 65_535  # senders, or audiences, of one file


@final
class Telling(Listener):
    """The trace of a daemon's sessions, in the spool of its ring."""

    def __init__(self, spool: Spool, clock: Callable[[], int]) -> None:
        self._spool: Final = spool
        self._clock: Final = clock
        self._has_rows: Final = spool.has_rows
        self._conf_no = -1  # of the configuration that sessions have been told of
        self._ring_conf_no = -1
        self._told: Final[dict[SessionId, int]] = {}
        self._sayings: Final = Sayings()
        self._destinations: Final = Destinations()
        # The same objects come again and again until the next regular configuration.
        self._known: Final[dict[tuple[Destination, bool], int]] = {}
        self._file = -1  # the spool that these have their numbers in
        self._senders: Final[dict[tuple[int, int, int], int]] = {}
        self._audiences: Final[dict[tuple[SessionId, ...], int]] = {}
        self._rows: list[bytes] = []  # of one frame of the spool
        self._head: tuple[RingId, int, int, bool] = (RingId(0, 0), 0, -1, False)
        self._heard: Final[dict[tuple[SessionId, ...], int]] = {}  # rows, by audience
        self._said: list[bytes] = []
        self._said_head: tuple[int, RingId, int, int] = (0, RingId(0, 0), 0, -1)
        spool.flushing = self.flush
        spool.told = self._told

    # What the driver tells

    def install(self, configuration: Configuration, now: int) -> None:
        """Count configurations of the ring."""
        self._ring_conf_no += 1

    def send(self, sent: Sent, now: int) -> None:
        """Note the frames of sessions that are whole with these packets."""
        for said in self._sayings.find(sent):
            head = (now, sent.ring_id, self._said_head[2], self._ring_conf_no)
            if not self._said or head != self._said_head:
                self._end_said()
                self._said_head = (now, sent.ring_id, said.seq, self._ring_conf_no)
            self._said.append(self._said_row(said, now))
        if self._said:
            self._spool.hurry(now)

    def _said_row(self, said: Said, now: int) -> bytes:
        return session_rows.SAID_ROW.pack(
            said.session,
            self._number(said.to, now) if said.to is not None else UNKNOWN,
            said.first_no,
            said.messages,
            said.seq - self._said_head[2],
            said.size,
            said.digest,
            CODE_BY_SERVICE[groups.service_of(said.flags)],
        )

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Write down what is left; the spool's own end follows."""
        self.flush()

    # What the sessions are told

    def tell(self, events: list[SessionEvent]) -> None:
        """Note what sessions are about to be told."""
        if self._has_rows:
            self._note(events)
        elif not RARE.isdisjoint(map(type, events)):
            self._note([event for event in events if type(event) in RARE])

    def closed(self, session: SessionId, why: str) -> None:
        """Note that a session has ended."""
        self.flush()
        at = self._told.get(session, 0) if self._has_rows else None
        self._spool.note("close", self._clock(), why, dict(groups.close_aux(session, at)))

    def _note(self, events: list[SessionEvent]) -> None:
        now = self._clock()
        if self._file != self._spool.file_no:
            self._forget_numbers()
        self._end_said()  # it was sent before this is told
        for event in events:
            if isinstance(event, Delivered):
                self._hear(event, now)
            elif type(event) in RARE:
                self._end_rows(now)
                self._note_rare(event, now)
            elif isinstance(event, Closed):  # what it had still to send has been sent
                self._sayings.forget(event.session)
                self._told.pop(event.session, None)
        self._end_rows(now)

    def _note_rare(self, event: SessionEvent, now: int) -> None:
        note = self._spool.note
        if isinstance(event, ViewChange):
            at = [self._told.get(one, 0) for one in event.sessions] if self._has_rows else None
            aux = groups.view_aux(event.view, self._conf_no, event.sessions, at)
            note("gview", now, groups.CAUSES[event.view.cause], dict(aux))
        elif isinstance(event, Left):
            where = self._told.get(event.session, 0) if self._has_rows else None
            note("left", now, "", dict(groups.left_aux(event, self._conf_no, where)))
        elif isinstance(event, Welcome):
            note("open", now, "", dict(groups.open_aux(event)))
        elif isinstance(event, Reconfigured):
            self._conf_no += 1
            self._known.clear()

    def _hear(self, event: Delivered, now: int) -> None:
        content = event.frame
        _, flags, _, first_no, _, places, _ = HEADER.unpack_from(content)
        ring_id, seq, sub = event.order or (event.conf_id, 0, 0)
        head = self._head
        if len(self._senders) >= NUMBERS_MAX or len(self._audiences) >= NUMBERS_MAX:
            self._end_rows(now)
            self._spool.begin_anew()
            self._forget_numbers()
        is_placed = bool(seq)  # rows of one head are all ordered, or none is
        if not self._rows or (head[0], head[3], head[1] > 0) != (ring_id, event.reduced, is_placed):
            self._end_rows(now)
            head = self._head = (ring_id, seq, self._conf_no, event.reduced)
        sender = event.destination.sender
        key = (event.destination, bool(flags & SELF_DISCARD))
        dest_no = self._known.get(key)
        if dest_no is None:
            dest_no = self._known[key] = self._number(To(key[0].groups, key[1]), now)
        sender_no = self._senders.get(sender[:3])
        if sender_no is None:
            sender_no = self._add_sender(sender[:3], now)
        audience = self._audiences.get(event.sessions)
        if audience is None:
            audience = self._add_audience(event.sessions, now)
        self._heard[event.sessions] = self._heard.get(event.sessions, 0) + 1
        self._rows.append(
            session_rows.TOLD_ROW.pack(
                sender_no,
                audience,
                dest_no,
                first_no,
                places,
                seq - head[1],
                sub,
                len(content) - HEADER_SIZE,
                groups.digest_of(content),
                CODE_BY_SERVICE[groups.service_of(flags)],
            )
        )

    # Numbers

    def _number(self, to: To, now: int) -> int:
        number = self._destinations.find(to)
        if number is None:
            number = self._destinations.add(to)
            self._spool.note("dest", now, "", dict(to.aux(number)))
        return number

    def _add_sender(self, sender: tuple[int, int, int], now: int) -> int:
        number = self._senders[sender] = len(self._senders)
        body = session_rows.SENDER_BODY.pack(*sender)
        self._spool.put(spooled(session_rows.SENDER, body), now)
        return number

    def _add_audience(self, sessions: tuple[SessionId, ...], now: int) -> int:
        number = self._audiences[sessions] = len(self._audiences)
        body = session_rows.encode_audience(sessions)
        self._spool.put(spooled(session_rows.AUDIENCE, body), now)
        return number

    def _forget_numbers(self) -> None:
        self._file = self._spool.file_no
        self._senders.clear()
        self._audiences.clear()

    # What waits

    def flush(self) -> None:
        """Hand everything over to the spool."""
        self._end_rows(self._clock())
        self._end_said()

    def _end_rows(self, now: int) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        for sessions, count in self._heard.items():
            for session in sessions:
                self._told[session] = self._told.get(session, 0) + count
        self._heard.clear()
        ring_id, seq, conf_no, reduced = self._head
        head = session_rows.TOLD_HEAD.pack(now, *ring_id, seq, conf_no, reduced)
        self._spool.put(spooled(session_rows.TOLD, head + b"".join(rows)), now)

    def _end_said(self) -> None:
        if self._said:
            rows, self._said = self._said, []
            now, ring_id, seq, conf_no = self._said_head
            head = session_rows.SAID_HEAD.pack(now, *ring_id, seq, conf_no)
            self._spool.put(spooled(session_rows.SAID, head + b"".join(rows)), now)
