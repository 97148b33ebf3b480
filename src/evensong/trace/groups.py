"""What a trace says of groups, in words that a file can hold; shared by every driver.

A frame's destination, the names it was sent to and whether its sender wanted it back, gets a number
in each life, told once by a `dest` event. Members are written `node/incarnation.session`, views by
their id: configuration, place in it, counter. Names of groups may hold anything; where one could
not be shown to a person it is escaped.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import Sent, Service
from evensong.core.groups.control import SetPart, decode_control
from evensong.core.groups.events import Cause, Left, MemberId, SessionId, View, ViewId, Welcome
from evensong.core.groups.frame import (
    BASIC,
    CAUSAL,
    CONTROL,
    FIRST,
    HEADER_SIZE,
    LAST,
    SAFE,
    SELF_DISCARD,
    TOTAL,
    WHOLE,
)
from evensong.core.groups.packet import FOREIGN, VERSION_AT, decode_packet
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame

Aux: TypeAlias = tuple[tuple[str, str], ...]
Member: TypeAlias = tuple[int, int, int]  # node, incarnation, session
KNOWN_MAX: Final = 65_536  # destinations that are remembered; more get new numbers
UNKNOWN: Final = -1  # the number of a destination that nobody has announced
CAUSES: Final = {cause: cause.name.lower() for cause in Cause}


def shown(name: str) -> str:
    """Return a name as it may be shown and told from every other.

    >>> print(shown("orders"), shown("a" + chr(7)))
    orders a\\u0007
    """
    return name if name.isprintable() and "\\" not in name else json.dumps(name)[1:-1]


def member_text(member: MemberId) -> str:
    """Return the identity of a member: node, incarnation and session."""
    return f"{member.daemon}/{member.incarnation}.{member.session}"


def members_text(members: Iterable[MemberId]) -> str:
    """Return members in their order."""
    return " ".join(map(member_text, members))


def member_of(text: str) -> Member:
    """Read a member back; raise `ValueError` if it is none."""
    node, incarnation, session = map(int, text.replace(".", "/").split("/"))
    return (node, incarnation, session)


def view_text(view_id: ViewId) -> str:
    """Return the id of a view: its configuration, its place there, its counter."""
    return f"{view_id.conf_id}:{view_id.seq}.{view_id.sub}:{view_id.counter}"


def view_aux(
    view: View, conf_no: int, sessions: Sequence[SessionId], at: Sequence[int] | None
) -> Aux:
    """Return what a `gview` event tells; `at` is how much each session had been told before."""
    aux = [
        ("group", shown(view.group)),
        ("view", view_text(view.view_id)),
        ("kind", "transitional" if view.transitional else "regular"),
        ("members", members_text(view.members)),
        ("stayed", members_text(view.stayed)),
        ("subject", member_text(view.subject) if view.subject is not None else ""),
        ("conf_no", str(conf_no)),
        ("sessions", " ".join(map(str, sessions))),
    ]
    if at is not None:
        aux.append(("at", " ".join(map(str, at))))
    return tuple(aux)


def left_aux(left: Left, conf_no: int, at: int | None) -> Aux:
    """Return what a `left` event tells."""
    place = f"{left.order.seq}.{left.order.sub}"
    aux = [
        ("group", shown(left.group)),
        ("session", str(left.session)),
        ("place", place),
        ("conf_no", str(conf_no)),
    ]
    if at is not None:
        aux.append(("at", str(at)))
    return tuple(aux)


def open_aux(welcome: Welcome) -> Aux:
    """Return what an `open` event tells."""
    return (("session", str(welcome.session)), ("user", shown(welcome.member.user)))


def close_aux(session: SessionId, at: int | None) -> Aux:
    """Return what a `close` event tells."""
    aux = [("session", str(session))]
    if at is not None:
        aux.append(("at", str(at)))
    return tuple(aux)


class Shown(NamedTuple):
    """A `gview` event read back: who was shown which view of a group, and where."""

    group: str
    view: str
    conf_id: RingId
    seq: int
    sub: int
    counter: int
    transitional: bool
    members: tuple[Member, ...]
    stayed: tuple[Member, ...]
    subject: Member | None
    conf_no: int
    sessions: tuple[SessionId, ...]
    at: tuple[int, ...] | None  # how much each had been told before; None: that was not recorded

    @property
    def is_network(self) -> bool:
        """Whether a change of the network was the reason: before all messages of its ring."""
        return self.seq == 0


def read_view(aux: Mapping[str, str]) -> Shown:
    """Read what a `gview` event tells; raise `ValueError` or `KeyError` if it makes no sense."""
    conf, place, counter = aux["view"].split(":")
    ring_seq, rep = map(int, conf.split("."))
    seq, sub = map(int, place.split("."))
    sessions = tuple(map(int, aux["sessions"].split()))
    at = tuple(map(int, aux["at"].split())) if "at" in aux else None
    if not sessions or (at is not None and len(at) != len(sessions)):
        raise ValueError("a view that is shown to nobody, or nowhere")
    return Shown(
        aux["group"],
        aux["view"],
        RingId(ring_seq, rep),
        seq,
        sub,
        int(counter),
        aux["kind"] == "transitional",
        tuple(map(member_of, aux["members"].split())),
        tuple(map(member_of, aux["stayed"].split())),
        member_of(aux["subject"]) if aux["subject"] else None,
        int(aux["conf_no"]),
        sessions,
        at,
    )


class Departure(NamedTuple):
    """A `left` event read back: a session is a member no more."""

    group: str
    session: SessionId
    seq: int
    sub: int
    conf_no: int
    at: int | None


def read_left(aux: Mapping[str, str]) -> Departure:
    """Read what a `left` event tells; raise `ValueError` or `KeyError` if it makes no sense."""
    seq, sub = map(int, aux["place"].split("."))
    at = int(aux["at"]) if "at" in aux else None
    return Departure(aux["group"], int(aux["session"]), seq, sub, int(aux["conf_no"]), at)


def read_dest(aux: Mapping[str, str]) -> tuple[int, "To"]:
    """Read what a `dest` event tells; raise `ValueError` or `KeyError` if it makes no sense."""
    names = json.loads(aux["groups"])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("a destination that names no groups")
    return int(aux["dest_no"]), To(tuple(names), aux["discard"] == "1")


def check_event(etype: str, aux: Mapping[str, str]) -> None:
    """Raise `ValueError` or `KeyError` if an event about groups makes no sense."""
    if etype == "gview":
        read_view(aux)
    elif etype == "left":
        read_left(aux)
    elif etype == "dest":
        read_dest(aux)
    elif etype in ("open", "close"):
        int(aux["session"])
        int(aux.get("at", 0))


class To(NamedTuple):
    """Where a frame goes."""

    names: tuple[str, ...]  # of groups, and private ones
    is_discarded: bool  # its sender does not want it back

    def aux(self, dest_no: int) -> Aux:
        """Return what a `dest` event tells."""
        return (
            ("dest_no", str(dest_no)),
            ("groups", json.dumps([shown(name) for name in self.names], ensure_ascii=False)),
            ("discard", str(int(self.is_discarded))),
        )


@final
class Destinations:
    """The numbers of destinations in one life."""

    __slots__ = ("_numbers", "next_no")

    def __init__(self) -> None:
        self._numbers: Final[dict[To, int]] = {}
        self.next_no = 0

    def find(self, to: To) -> int | None:
        """Return the number of a destination; None if it has none yet."""
        return self._numbers.get(to)

    def add(self, to: To) -> int:
        """Give a destination a number."""
        if len(self._numbers) >= KNOWN_MAX:
            self._numbers.clear()
        number = self._numbers[to] = self.next_no
        self.next_no += 1
        return number


class Said(NamedTuple):
    """A frame of a session that is whole on the ring."""

    session: SessionId
    first_no: int
    messages: int
    flags: int
    to: To | None  # None: not announced
    seq: int
    size: int
    digest: int


@final
class Sayings:
    """Finds the frames of sessions in the packets that a daemon sends.

    A large frame goes in pieces, and counts when its last one is sent; its digest is taken piece by
    piece. What it is sent to was announced in the same lane before.
    """

    __slots__ = ("_begun", "_pieces", "_sets")

    def __init__(self) -> None:
        self._sets: Final[dict[tuple[SessionId, int], tuple[str, ...]]] = {}
        self._begun: Final[dict[tuple[SessionId, int], tuple[str, ...]]] = {}
        self._pieces: Final[dict[SessionId, tuple[int, int, int]]] = {}  # first_no, size, digest

    def find(self, sent: Sent) -> Iterator[Said]:
        """Yield the frames that end in these packets, in order."""
        for seq, packet in enumerate(sent.packets, sent.first_seq):
            payload = packet.payload
            if payload.startswith(FOREIGN, VERSION_AT):
                continue
            try:
                _, frames = decode_packet(payload)
            except MalformedFrame:
                continue
            content = memoryview(payload)
            for kind, flags, session, first_no, group_set, places, length, at in frames:
                piece = content[at : at + length]
                if kind == WHOLE:
                    size, digest = length, zlib.crc32(piece)
                elif kind == CONTROL:
                    self._announce(session, group_set, bytes(piece))
                    continue
                else:
                    size, digest = self._add_piece(kind, session, first_no, piece)
                    if kind != LAST:
                        continue
                names = self._sets.get((session, group_set))
                to = To(names, bool(flags & SELF_DISCARD)) if names is not None else None
                yield Said(session, first_no, places, flags, to, seq, size, digest)

    def _add_piece(
        self, kind: int, session: SessionId, first_no: int, piece: memoryview
    ) -> tuple[int, int]:
        size = digest = 0
        if kind == FIRST:
            piece = piece[TOTAL.size :]
        else:
            number, size, digest = self._pieces.pop(session, (first_no, 0, 0))
            if number != first_no:
                size = digest = 0
        size, digest = size + len(piece), zlib.crc32(piece, digest)
        if kind != LAST:
            self._pieces[session] = (first_no, size, digest)
        return size, digest

    def _announce(self, session: SessionId, set_no: int, content: bytes) -> None:
        try:
            part = decode_control(content)
        except MalformedFrame:
            return
        if isinstance(part, SetPart):
            key = (session, set_no)
            names = self._begun.pop(key, ()) + part.names
            (self._sets if part.is_end else self._begun)[key] = names

    def forget(self, session: SessionId) -> None:
        """Forget a session that has sent its last."""
        self._pieces.pop(session, None)
        for kept in (self._sets, self._begun):
            for key in [key for key in kept if key[0] == session]:
                del kept[key]


def service_of(flags: int) -> Service:
    """Return the service that a frame's flags ask for."""
    if flags & SAFE:
        return Service.SAFE
    if flags & CAUSAL:
        return Service.CAUSAL
    return Service.BASIC if flags & BASIC else Service.AGREED


def digest_of(frame: bytes | memoryview) -> int:
    """Return a hash of what a whole frame holds, without its header."""
    return zlib.crc32(memoryview(frame)[HEADER_SIZE:])
