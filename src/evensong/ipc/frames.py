"""What a client asks of its daemon, and what the daemon tells it; wire.py lays it out.

A client says `Hello` first, and nothing but `Ping` and `Bye` before it is answered: by `Welcome`,
or by `Refused`, and then it may try again. Whatever needs an answer carries a request id of the
client's choice, and the answer carries it back; 0 means that none is wanted. What the daemon tells
unasked comes in one order, the order of its deliveries, and has request id 0.

What a client sent itself it has already: of a frame that comes back to its sender the daemon says
where it was delivered, by its header, and leaves the content out. The client keeps what it sends
until its `Receipt` says that it does not come back, or it has.

The window. Every byte of what the daemon writes counts, heads included, and so does every byte that
it leaves out: else who sends and does not read could have more and more to keep. While `window`
bytes or more are not consumed, it begins nothing new but `Throttled`, `Slow` and `Farewell`; what
it has begun, a frame or up to 256 KiB of frames, it writes to the end. A client says what it has
consumed (`Consumed`) at the latest when that is a quarter of the window since it last did. What
cannot be written waits at the daemon, up to a limit: see `Slow`.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from evensong.core.groups.events import (
    Destination,
    ErrorCode,
    MemberId,
    OrderId,
    Reconfigured,
    View,
)
from evensong.core.ids import RingId

VERSION: Final = 2
CLIENT_SOCKET: Final = "client.sock"  # in the state directory of the daemon

# What a client says.
HELLO: Final = 1
JOIN: Final = 2
LEAVE: Final = 3
SET: Final = 4
SEND: Final = 5
CONSUMED: Final = 6
PING: Final = 7
BYE: Final = 8
GROUPS: Final = 9
SAFE_LINES: Final = 10

# What a daemon says.
WELCOME: Final = 129
DESTINATION: Final = 130
DELIVER: Final = 131
VIEW: Final = 132
LEFT: Final = 133
RECEIPT: Final = 134
SAFE_LINE: Final = 135
CONFIG: Final = 136
ERROR: Final = 137
THROTTLE: Final = 138
SLOW: Final = 139
PONG: Final = 140
GROUPS_ARE: Final = 141
FAREWELL: Final = 142


class Frame(NamedTuple):
    """One frame of the stream, either way."""

    opcode: int
    request_id: int
    body: bytes


# -- client to daemon --------------------------------------------------------------------------


class Hello(NamedTuple):
    """The first thing a client says."""

    version: int
    user: str


class Join(NamedTuple):
    """Answered by the `View` that has the client in it, as subject of a JOIN; or by `Refused`."""

    group: str


class Leave(NamedTuple):
    """Answered by `HasLeft` or `Refused`."""

    group: str


class SetGroups(NamedTuple):
    """Names a destination; a number may be used again, for what is sent later."""

    set_no: int
    groups: tuple[str, ...]


class Send(NamedTuple):
    """A frame of kind WHOLE (core/groups/frame.py); answered by `Receipt`s or by `Refused`."""

    frame: bytes


class Consumed(NamedTuple):
    """The client is done with so many bytes more of what the daemon wrote or left out."""

    size: int


class Ping(NamedTuple):
    """Answered by `Pong`, behind whatever waits for the client."""


class Bye(NamedTuple):
    """The client goes; what it has sent goes out. Answered by `Farewell`."""


class ListGroups(NamedTuple):
    """Answered by `GroupsAre`."""


class SafeLines(NamedTuple):
    """Whether the client wants to be told `SafeLine`s; at first it is not."""

    wanted: bool


Request: TypeAlias = (
    Hello | Join | Leave | SetGroups | Send | Consumed | Ping | Bye | ListGroups | SafeLines
)

# -- daemon to client --------------------------------------------------------------------------


class Welcome(NamedTuple):
    """The session is open; a `Reconfigured` with the configuration of now comes next."""

    member: MemberId
    frame_max: int  # bytes of a frame of several messages, its header too
    message_max: int  # bytes of a message
    window: int  # bytes


class Destined(NamedTuple):
    """From now on this number, of a daemon's choice, stands for this destination.

    It comes before the first `Deliver` with it. A number may be used again, for another.
    """

    number: int
    destination: Destination


class Deliver(NamedTuple):
    """A frame for the client: messages of one sender to one destination."""

    number: int  # of the destination
    order: OrderId | None  # of the first message; the next have the next sub. None: not ordered
    conf_id: RingId  # the configuration of delivery, as views name it
    reduced: bool  # in a transitional one: promised for its members only
    is_own: bool  # the client has sent it, and has its content
    frame: bytes | memoryview  # of kind WHOLE, where it lies in what was said; own: its header


class HasLeft(NamedTuple):
    """The client has left the group; nothing more of it will come."""

    group: str
    order: OrderId


class Receipt(NamedTuple):
    """A frame that the client sent is delivered, at its place if it is ordered."""

    first_no: int
    places: int  # messages first_no .. first_no + places - 1
    order: OrderId | None  # of the first; the next have the next sub. None: not ordered
    comes_back: bool  # its own `Deliver` follows


class SafeLine(NamedTuple):
    """Every member of the ring has all of its messages up to seq."""

    ring_id: RingId
    seq: int


class Refused(NamedTuple):
    """A request was refused and had no effect; the frame's request id says which."""

    code: ErrorCode


class Throttled(NamedTuple):
    """The client should stop sending, or may send again. One that goes on is not read."""

    is_on: bool


class Slow(NamedTuple):
    """The client takes too little: so many bytes wait for it, and at the limit it is dropped."""

    queued: int
    limit: int


class Pong(NamedTuple):
    """Here I am."""


class GroupsAre(NamedTuple):
    """Groups and their members, as the daemon knows them; several frames if they are many.

    A group with many members may go on in the next frame.
    """

    is_last: bool
    groups: tuple[tuple[str, tuple[MemberId, ...]], ...]


class Why(Enum):
    """Why a daemon hangs up."""

    ASKED = 1  # the client said Bye
    STOPPING = 2  # the daemon stops
    SLOW = 3  # the client did not take what waited for it
    MALFORMED = 4  # the client said something that is no frame, or out of turn
    NOT_ALLOWED = 5  # the client runs as another user
    TOO_MANY = 6  # connections
    VERSION = 7  # the client speaks another version


class Farewell(NamedTuple):
    """The last thing a daemon says."""

    why: Why
    text: str  # for people; may be empty


Told: TypeAlias = (
    Welcome
    | Destined
    | Deliver
    | View
    | HasLeft
    | Receipt
    | SafeLine
    | Reconfigured
    | Refused
    | Throttled
    | Slow
    | Pong
    | GroupsAre
    | Farewell
)
