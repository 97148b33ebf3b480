"""What the group layer tells sessions, and the names it uses for processes, places and views.

`Groups` appends these to a list; whoever drives it hands each to the sessions that it names, in
order. A session sees messages and views in one order, the order of its daemon's deliveries.
The union is closed: whoever handles it handles every member or does not type-check.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.groups.limits import GROUP_NAME_BYTES_MAX, USER_NAME_BYTES_MAX
from evensong.core.ids import PROCESSOR_MAX, ProcessorId, RingId

SessionId: TypeAlias = int  # of one daemon, from 1; never used twice in one incarnation


class MemberId(NamedTuple):
    """A process that talks to a daemon: its identity, unique for ever, and a name for people.

    The incarnation is the daemon's, so that a restarted one never names two processes alike.
    """

    daemon: ProcessorId
    incarnation: int
    session: SessionId
    user: str = ""

    def __str__(self) -> str:
        """Return the private name: messages may be addressed to it as to a group."""
        return f"#{self.user}#{self.daemon}#{self.incarnation}.{self.session}"


def is_group_name(name: str) -> bool:
    """Whether a group may be called so: 1 to 64 bytes of UTF-8 that do not begin with `#`."""
    return is_text(name, GROUP_NAME_BYTES_MAX) and not name.startswith("#")


def is_user_name(name: str) -> bool:
    """Whether a process may be called so: 1 to 32 bytes of UTF-8 without `#`."""
    return is_text(name, USER_NAME_BYTES_MAX) and "#" not in name


def is_text(name: str, bytes_max: int) -> bool:
    """Whether it can be written in UTF-8 in so many bytes, and is not empty."""
    try:
        return 0 < len(name.encode()) <= bytes_max
    except UnicodeEncodeError:
        return False  # half a surrogate pair


def parse_private_name(name: str) -> MemberId | None:
    """Read a private name back; None if it is none."""
    parts = name.split("#")
    if len(parts) != 4 or parts[0] or not is_user_name(parts[1]):
        return None
    incarnation, dot, session = parts[3].partition(".")
    if not dot or not all(_is_number(part) for part in (parts[2], incarnation, session)):
        return None
    member = MemberId(int(parts[2]), int(incarnation), int(session), parts[1])
    is_possible = (
        0 < member.daemon <= PROCESSOR_MAX
        and member.incarnation < 2**64
        and 0 < member.session < 2**32
    )
    return member if is_possible and str(member) == name else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20


class OrderId(NamedTuple):
    """A message's place in the total order: where its packet was sequenced, and where in it.

    It rises strictly at every member. `sub` counts messages over the whole packet; a frame is told
    the place of its first message, the next ones follow.
    """

    ring_id: RingId  # never the configuration of delivery, which may differ by member
    seq: int
    sub: int


class ViewId(NamedTuple):
    """A view's identity: the same id is the same list of members; a member sees it rise.

    The first three say where in the order the group became so: the configuration *in which* the
    change was delivered, and the place of the control message that caused it. A change of the
    network comes before every message of its configuration and has seq 0. In the name of a
    transitional configuration the lowest daemon of those whose directories were equal in it stands
    for the lowest of all.
    """

    conf_id: RingId
    seq: int
    sub: int
    counter: int  # of changes to any group; it rises, with gaps


class Cause(Enum):
    """Why a group's members changed."""

    JOIN = 1
    LEAVE = 2
    DISCONNECT = 3
    NETWORK = 4


@final
class View:
    """Who is in a group from this place of the order on.

    A regular view tells the difference to the regular view before it, a transitional one the
    difference to the view before it. Who was apart in between is in `left` and in `joined`.

    - `group`: its name; `view_id`: the same id is the same list of members; a member sees it rise
    - `members`: who is in it, in the order in which they joined
    - `stayed`: the members that came from the view before together with whoever reads this
    - `joined`: the other members; `left`: those of the view before that are not in `stayed`
    - `components`: the members by where they come from, a tuple for each side; one if no sides met
    - `cause`: `Cause.JOIN`, `LEAVE`, `DISCONNECT` or `NETWORK`
    - `subject`: who joined, left or disconnected; None if it was the network
    - `primary`: whether its daemons are a majority of the electorate
    - `transitional`: whether it stands between two regular ones, when a ring broke: what is
      delivered under it is promised for these members only
    """

    __slots__ = (
        "cause",
        "components",
        "group",
        "joined",
        "left",
        "members",
        "primary",
        "stayed",
        "subject",
        "transitional",
        "view_id",
    )

    def __init__(
        self,
        group: str,
        view_id: ViewId,
        members: tuple[MemberId, ...],
        joined: tuple[MemberId, ...],
        left: tuple[MemberId, ...],
        stayed: tuple[MemberId, ...],
        components: tuple[tuple[MemberId, ...], ...],
        cause: Cause,
        subject: MemberId | None,
        *,
        primary: bool,
        transitional: bool,
    ) -> None:
        self.group: Final = group
        self.view_id: Final = view_id
        self.members: Final = members  # in the order in which they joined
        self.joined: Final = joined  # members that are not in `stayed`
        self.left: Final = left  # members of the view before that are not in `stayed`
        self.stayed: Final = stayed  # came from the view before together with whoever reads this
        self.components: Final = components  # members by where they come from; one if no merge
        self.cause: Final = cause
        self.subject: Final = subject  # who joined, left or disconnected; None for the network
        self.primary: Final = primary  # its daemons are a majority of the electorate
        self.transitional: Final = transitional  # guarantees cover these members only

    def __repr__(self) -> str:
        members = " ".join(str(member) for member in self.members)
        kind = "transitional view" if self.transitional else "view"
        return f"<{kind} of {self.group} {tuple(self.view_id)}: {members}; {self.cause.name}>"


@final
class Destination:
    """Who sent a frame, and to which groups and private names: one object for many frames.

    The object is the same for all frames of one session to one set within a configuration, so
    that a session's connection may tell it once.
    """

    __slots__ = ("groups", "sender")

    def __init__(self, sender: MemberId, groups: tuple[str, ...]) -> None:
        self.sender: Final = sender
        self.groups: Final = groups


@final
class Welcome:
    """The session is open."""

    __slots__ = ("frame_max", "member", "message_max", "session")

    def __init__(
        self, session: SessionId, member: MemberId, frame_max: int, message_max: int
    ) -> None:
        self.session: Final = session
        self.member: Final = member  # its text is the private name
        self.frame_max: Final = frame_max  # bytes of a frame of several messages, its header too
        self.message_max: Final = message_max  # bytes of a message


@final
class Delivered:
    """A frame for some sessions of this daemon; each message of it once to each session."""

    __slots__ = ("conf_id", "destination", "frame", "order", "own", "reduced", "sessions")

    def __init__(
        self,
        sessions: tuple[SessionId, ...],
        destination: Destination,
        order: OrderId | None,
        frame: bytes | memoryview,
        conf_id: RingId,
        reduced: bool,
        own: SessionId,
    ) -> None:
        self.sessions: Final = sessions  # at least one
        self.destination: Final = destination
        # Of the frame's first message; the next have the next sub. None: it is not ordered.
        self.order: Final = order
        self.frame: Final = frame  # header and all, always of kind WHOLE: see frame.py
        self.conf_id: Final = conf_id  # the configuration of delivery, as views name it
        self.reduced: Final = reduced  # in a transitional one: promised for its members only
        self.own: Final = own  # the one of the sessions that has sent it; NO_SESSION: none of them


@final
class ViewChange:
    """A group has changed; for those of its members that are sessions of this daemon."""

    __slots__ = ("sessions", "view")

    def __init__(self, sessions: tuple[SessionId, ...], view: View) -> None:
        self.sessions: Final = sessions  # at least one
        self.view: Final = view


@final
class Left:
    """The session has left the group; nothing more of it will come."""

    __slots__ = ("group", "order", "request_id", "session")

    def __init__(self, session: SessionId, group: str, order: OrderId, request_id: int) -> None:
        self.session: Final = session
        self.group: Final = group
        self.order: Final = order
        self.request_id: Final = request_id


@final
class Receipt:
    """A frame that the session sent is delivered here, at its place if it is ordered."""

    __slots__ = ("comes_back", "count", "first_no", "order", "session")

    def __init__(
        self,
        session: SessionId,
        first_no: int,
        count: int,
        order: OrderId | None,
        comes_back: bool,
    ) -> None:
        self.session: Final = session
        self.first_no: Final = first_no
        self.count: Final = count  # messages first_no .. first_no + count - 1
        self.order: Final = order  # of the first; the next have the next sub. None: it has none
        self.comes_back: Final = comes_back  # `Delivered` to the session itself follows


@final
class SafeUpTo:
    """Every member of the ring has all of its messages up to seq; for sessions that wait for it.

    It may come before the receipt of a message that it covers: whoever waits keeps the latest.
    """

    __slots__ = ("ring_id", "seq")

    def __init__(self, ring_id: RingId, seq: int) -> None:
        self.ring_id: Final = ring_id
        self.seq: Final = seq


@final
class Reconfigured:
    """The daemon's configuration changed; for all sessions.

    At a regular one, whatever was ordered on an earlier ring and is not known to be safe is known
    to be held by the members of the transitional configuration before it.
    """

    __slots__ = ("conf_id", "members", "primary", "transitional")

    def __init__(
        self,
        conf_id: RingId,
        members: tuple[ProcessorId, ...],
        *,
        primary: bool,
        transitional: bool,
    ) -> None:
        self.conf_id: Final = conf_id
        self.members: Final = members
        self.primary: Final = primary
        self.transitional: Final = transitional


class ErrorCode(Enum):
    """Why a request of a session was refused; a refused request had no effect."""

    BAD_NAME = 1  # of a user, a group or a private name
    BAD_FRAME = 2  # bytes that are no frame, or one that a session may not send
    TOO_LARGE = 3  # a message beyond message_max, or several in a frame beyond frame_max
    UNKNOWN_SET = 4  # a frame to a set of groups that was not defined
    BAD_SET = 5  # no groups, too many, or a number out of range
    ALREADY_MEMBER = 6
    NOT_MEMBER = 7
    QUEUE_FULL = 8  # more bytes queued than one session may have
    TOO_MANY = 9  # sessions of the daemon, or groups of the session


@final
class Error:
    """A request was refused; definite: it had no effect."""

    __slots__ = ("code", "request_id", "session")

    def __init__(self, session: SessionId, code: ErrorCode, request_id: int) -> None:
        self.session: Final = session
        self.code: Final = code
        self.request_id: Final = request_id


@final
class Throttle:
    """The session should stop sending, or may send again."""

    __slots__ = ("is_on", "session")

    def __init__(self, session: SessionId, *, is_on: bool) -> None:
        self.session: Final = session
        self.is_on: Final = is_on


@final
class Closed:
    """Everything that the session had sent is on its way; its number is not used again."""

    __slots__ = ("session",)

    def __init__(self, session: SessionId) -> None:
        self.session: Final = session


SessionEvent: TypeAlias = (
    Welcome
    | Delivered
    | ViewChange
    | Left
    | Receipt
    | SafeUpTo
    | Reconfigured
    | Error
    | Throttle
    | Closed
)
