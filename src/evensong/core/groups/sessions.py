"""The sessions of one daemon: what its processes ask for is checked here and put in their lanes.

Nothing takes effect here: joins, leaves and messages do when they come back in the order. A request
that cannot be honoured is refused at once, with a code, and leaves no trace.
"""

from collections.abc import Sequence
from typing import Final, final

from evensong.core.groups.control import (
    GONE,
    JOIN,
    LEAVE,
    control_frame,
    encode_wish,
    is_address,
)
from evensong.core.groups.directory import Directory
from evensong.core.groups.events import (
    Destination,
    Error,
    ErrorCode,
    MemberId,
    SessionEvent,
    SessionId,
    Welcome,
    is_group_name,
    is_user_name,
)
from evensong.core.groups.frame import (
    HEADER_SIZE,
    MESSAGE_NO_MAX,
    UNORDERED,
    WHOLE,
    Head,
    as_agreed,
    decode_head,
    has_table,
)
from evensong.core.groups.limits import (
    BATCH_MAX,
    GROUPS_MAX,
    JOINED_MAX,
    RESERVED,
    SESSIONS_MAX,
    SETS_MAX,
    Limits,
)
from evensong.core.groups.sendqueue import SendQueue
from evensong.core.ids import ProcessorId
from evensong.errors import MalformedFrame

NO_SESSION: Final[SessionId] = 0


@final
class Session:
    """One connected process."""

    __slots__ = (
        "has_joined",
        "has_sent",
        "joins_under_way",
        "member",
        "next_no",
        "sets",
        "wishes_under_way",
    )

    def __init__(self, member: MemberId) -> None:
        self.member: Final = member
        self.sets: Final[dict[int, Destination]] = {}
        self.next_no = 0  # numbers of messages rise; gaps are the client's affair
        self.joins_under_way = 0
        self.wishes_under_way = 0  # joins and leaves
        self.has_joined = False  # has asked for it: others may come to know it
        self.has_sent = False  # others keep its destinations


@final
class Sessions:
    """All open sessions."""

    __slots__ = (
        "_directory",
        "_events",
        "_incarnation",
        "_last",
        "_my_id",
        "_queue",
        "frame_max",
        "limits",
        "open",
    )

    def __init__(
        self,
        my_id: ProcessorId,
        incarnation: int,
        limits: Limits,
        queue: SendQueue,
        directory: Directory,
        events: list[SessionEvent],
    ) -> None:
        self._my_id: Final = my_id
        self._incarnation: Final = incarnation
        self.limits: Final = limits
        self._queue: Final = queue
        self._directory: Final = directory
        self._events: Final = events
        self._last = NO_SESSION
        self.open: Final[dict[SessionId, Session]] = {}
        # Of several messages; alone, one may be as long as a message may.
        self.frame_max: Final = max(queue.uncut_max, min(BATCH_MAX, limits.message_max))

    def open_session(self, user: str, request_id: int) -> SessionId:
        """Open a session, or refuse it."""
        if not is_user_name(user):
            return self._refuse(NO_SESSION, ErrorCode.BAD_NAME, request_id)
        if len(self.open) >= SESSIONS_MAX:
            return self._refuse(NO_SESSION, ErrorCode.TOO_MANY, request_id)
        self._last += 1
        session = self._last
        member = MemberId(self._my_id, self._incarnation, session, user)
        self.open[session] = Session(member)
        self._queue.open(session)
        self._directory.version += 1  # somebody may have a message for its private name
        limits = self.limits
        self._events.append(Welcome(session, member, self.frame_max, limits.message_max))
        return session

    def close_session(self, session: SessionId) -> None:
        """Close a session; its lane empties by itself."""
        closed = self.open.pop(session)
        farewell = b""
        if closed.has_joined or closed.has_sent:
            farewell = control_frame(session, encode_wish(GONE, 0, closed.member.user, ""))
        self._directory.version += 1
        self._queue.close(session, farewell)

    def join(self, session: SessionId, group: str, request_id: int) -> None:
        """Put a wish to join into the session's lane."""
        asking = self.open[session]
        joined = len(self._directory.groups_of.get(asking.member, ()))
        if joined + asking.joins_under_way >= JOINED_MAX:
            self._refuse(session, ErrorCode.TOO_MANY, request_id)
        elif self._wish(asking, JOIN, group, request_id):
            asking.joins_under_way += 1
            asking.has_joined = True

    def leave(self, session: SessionId, group: str, request_id: int) -> None:
        """Put a wish to leave into the session's lane."""
        self._wish(self.open[session], LEAVE, group, request_id)

    def _wish(self, asking: Session, op: int, group: str, request_id: int) -> bool:
        session = asking.member.session
        if not is_group_name(group) or group.startswith(RESERVED):
            self._refuse(session, ErrorCode.BAD_NAME, request_id)
            return False
        content = encode_wish(op, request_id, asking.member.user, group)
        if not self._queue.push_control(session, control_frame(session, content)):
            self._refuse(session, ErrorCode.QUEUE_FULL, request_id)
            return False
        asking.wishes_under_way += 1
        return True

    def define_set(
        self, session: SessionId, set_no: int, groups: Sequence[str], request_id: int
    ) -> None:
        """Keep a destination under a number; others are told when it is first used."""
        asking = self.open[session]
        names = tuple(dict.fromkeys(groups))
        if not 0 <= set_no < SETS_MAX or not 0 < len(names) <= GROUPS_MAX:
            self._refuse(session, ErrorCode.BAD_SET, request_id)
        elif not all(is_address(name) for name in names):
            self._refuse(session, ErrorCode.BAD_NAME, request_id)
        else:
            asking.sets[set_no] = Destination(asking.member, names)

    def send(self, session: SessionId, frame: bytes, request_id: int) -> None:
        """Put a frame into the session's lane."""
        asking = self.open[session]
        try:
            head = decode_head(frame)
        except MalformedFrame:
            self._refuse(session, ErrorCode.BAD_FRAME, request_id)
            return
        refused = self._flaw(asking, head, len(frame))
        if refused is None and head.places > 1 and not has_table(frame, head.places):
            refused = ErrorCode.BAD_FRAME  # its receivers could not read it
        if refused is None:
            if head.flags & UNORDERED and not self._queue.has_unordered:
                frame, head = as_agreed(frame), head._replace(flags=head.flags & ~UNORDERED)
            if self._queue.push(frame, head, asking.sets[head.group_set]):
                asking.next_no = head.first_no + head.places
                asking.has_sent = True
                return
            refused = ErrorCode.QUEUE_FULL
        self._refuse(session, refused, request_id)

    def _flaw(self, asking: Session, head: Head, size: int) -> ErrorCode | None:
        """Return what is wrong with a frame of this size, if anything is."""
        kind, _, session, first_no, group_set, places, length = head
        if (
            kind != WHOLE
            or length != size - HEADER_SIZE
            or session != asking.member.session
            or not asking.next_no <= first_no <= MESSAGE_NO_MAX - places
        ):
            return ErrorCode.BAD_FRAME
        if group_set not in asking.sets:
            return ErrorCode.UNKNOWN_SET
        if places > 1:
            return ErrorCode.TOO_LARGE if size > self.frame_max else None
        return ErrorCode.TOO_LARGE if length > self.limits.message_max else None

    def _refuse(self, session: SessionId, code: ErrorCode, request_id: int) -> SessionId:
        self._events.append(Error(session, code, request_id))
        return NO_SESSION

    def is_here(self, member: MemberId) -> bool:
        """Whether a process is connected to this daemon, now."""
        return (
            member.daemon == self._my_id
            and member.incarnation == self._incarnation
            and member.session in self.open
            and member.user == self.open[member.session].member.user
        )
