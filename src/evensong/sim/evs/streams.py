"""What clients were told, prepared for the properties of groups.

A stream is what one session was told, in order: frames, and between them views of its groups. A
stay is the time that a session spends under one view of one group, until the next view of it, until
it leaves, or until its stream ends. Frames have a place in the order, the one that the ring gave
them; a stay has a horizon, the place up to which its session surely was told everything.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import Service
from evensong.core.engine import TRANSIS
from evensong.core.ids import NO_RING, RingId
from evensong.sim.history import FrameId, GroupDelivery, History, Life, LifeId
from evensong.trace.groups import Departure, Member, Shown, To, read_dest, read_left, read_view

Place: TypeAlias = tuple[RingId, int, int]  # ring, seq, sub
NOWHERE: Final[Place] = (NO_RING, 0, 0)
END: Final[Place] = (RingId(2**64, 0), 0, 0)  # behind everything
NOWHERE_TO: Final = To((), is_discarded=False)

VIEW: Final = "view"  # how a stay ends: the next view of its group,
LEFT: Final = "left"  # the session left the group,
CLOSE: Final = "close"  # or ended,
QUIESCE: Final = "quiesce"  # or the run did, with nothing under way,
FAIL: Final = "fail"  # or its daemon,
CUT: Final = ""  # or what is known of it


class Told(NamedTuple):
    """A frame in a stream."""

    pos: int
    row: GroupDelivery
    to: To

    @property
    def is_placed(self) -> bool:
        """Whether it is ordered."""
        return self.row.seq > 0

    @property
    def is_basic(self) -> bool:
        """Whether it is in order with nothing that came before it."""
        return self.row.service is Service.BASIC

    @property
    def place(self) -> Place:
        """Where it was sequenced."""
        return self.row.ring_id, self.row.seq, self.row.sub

    @property
    def last_place(self) -> Place:
        """Where the last of its messages is."""
        return self.row.ring_id, self.row.seq, self.row.sub + self.row.messages - 1


class Turn(NamedTuple):
    """A view in a stream, or that the session leaves a group."""

    at: int  # frames before it
    what: Shown | Departure
    cause: str


@final
class Stream:
    """What one session was told."""

    __slots__ = ("closed_at", "frames", "life", "member", "told", "turns")

    def __init__(self, life: Life, session: int, to_by_no: dict[int, To]) -> None:
        self.life: Final = life
        self.member: Final[Member] = (life.node, life.incarnation, session)
        rows = life.heard.get(session, [])
        self.told: Final = [
            Told(pos, row, to_by_no.get(row.dest_no, NOWHERE_TO)) for pos, row in enumerate(rows)
        ]
        self.frames: Final[dict[FrameId, Told]] = {}  # as they first came
        for told in self.told:
            self.frames.setdefault(told.row.frame_id, told)
        self.turns: Final[list[Turn]] = []  # in order
        self.closed_at: int | None = None

    @property
    def name(self) -> str:
        """How witnesses call it."""
        node, incarnation, session = self.member
        return f"{node}/{incarnation}.{session}"

    def first_told(self) -> list[Told]:
        """Return its frames in order, without those that came before."""
        return list(self.frames.values())

    @property
    def end(self) -> str:
        """How it ends."""
        if self.closed_at is not None:
            return CLOSE
        if self.life.is_cut:
            return CUT
        return QUIESCE if self.life.ended == "quiesce" else FAIL


class Stay(NamedTuple):
    """A session under one view of one group."""

    stream: Stream
    shown: Shown
    start: int  # positions in the stream
    stop: int
    how: str  # it ends
    following: Shown | None  # the next view, if that is how
    horizon: Place

    def frames(self) -> Iterator[Told]:
        """Yield the frames to the group that came under the view."""
        group = self.shown.group
        for told in self.stream.told[self.start : self.stop]:
            if group in told.to.names:
                yield told


@final
class GroupReading:
    """A history as the properties of groups need it."""

    def __init__(self, history: History) -> None:
        self.lives: Final[dict[LifeId, Life]] = history.lives
        # Whether sides of a partition may give one frame different places, each under the id of
        # its own transitional configuration, and a frame has none yet when it is sent.
        self.has_sides: Final = any(
            ("engine", TRANSIS) in event.aux
            for life in history.lives.values()
            for event in life.events[:1]
        )
        self.showings: Final[list[tuple[Life, Shown]]] = []  # also of lives with nothing else
        self.destinations: Final[dict[LifeId, dict[int, To]]] = {}
        self.streams: Final[dict[Member, Stream]] = {}
        self.whole: Final[set[LifeId]] = set()  # lives of which all is known up to their end
        for life in history.lives.values():
            self._read(life)
        self.stays: Final = [stay for one in self.streams.values() for stay in stays_of(one)]

    def _read(self, life: Life) -> None:
        is_whole = life.has_groups
        to_by_no = self.destinations.setdefault((life.node, life.incarnation), {})
        opened: list[int] = []
        rest: list[tuple[str, dict[str, str], str]] = []
        for event in life.events:
            aux = dict(event.aux)
            if event.etype == "gview":
                shown = read_view(aux)
                self.showings.append((life, shown))
                is_whole = is_whole and shown.at is not None
                rest.append((event.etype, aux, event.cause))
            elif event.etype == "dest":
                number, to = read_dest(aux)
                to_by_no[number] = to
            elif event.etype == "open":
                opened.append(int(aux["session"]))
            elif event.etype in ("left", "close"):
                rest.append((event.etype, aux, event.cause))
        if not is_whole:
            return  # nothing is known of what its sessions were told
        if opened and not life.is_cut:
            self.whole.add((life.node, life.incarnation))
        made = {session: Stream(life, session, to_by_no) for session in opened}
        for etype, aux, cause in rest:
            _add_event(made, etype, aux, cause)
        self.streams.update((stream.member, stream) for stream in made.values())


def _add_event(made: dict[int, Stream], etype: str, aux: dict[str, str], cause: str) -> None:
    if etype == "gview":
        shown = read_view(aux)
        for session, at in zip(shown.sessions, shown.at or (), strict=True):
            made[session].turns.append(Turn(at, shown, cause))
    elif etype == "left":
        departure = read_left(aux)
        made[departure.session].turns.append(Turn(departure.at or 0, departure, cause))
    else:
        made[int(aux["session"])].closed_at = int(aux.get("at", 0))


def stays_of(stream: Stream) -> Iterator[Stay]:
    """Yield the stays of a session, group by group."""
    by_group: dict[str, list[Turn]] = {}
    for turn in stream.turns:
        by_group.setdefault(turn.what.group, []).append(turn)
    for turns in by_group.values():
        for number, turn in enumerate(turns):
            if isinstance(turn.what, Shown):
                after = turns[number + 1] if number + 1 < len(turns) else None
                yield _stay(stream, turn.at, turn.what, after)


def _stay(stream: Stream, start: int, shown: Shown, after: Turn | None) -> Stay:
    stop, how, following = len(stream.told), stream.end, None
    horizon = END if how == QUIESCE else NOWHERE
    if after is not None:
        stop, what, _ = after
        how = VIEW if isinstance(what, Shown) else LEFT
        following = what if isinstance(what, Shown) else None
        horizon = NOWHERE
        if what.seq:  # it has a place among the messages of its ring
            horizon = (ring_of(stream.life, what.conf_no), what.seq, what.sub)
    stay = Stay(stream, shown, start, stop, how, following, horizon)
    last = max((told.place for told in stay.frames() if told.is_placed), default=NOWHERE)
    return stay._replace(horizon=max(horizon, last))


def ring_of(life: Life, conf_no: int) -> RingId:
    """Return the ring whose messages a configuration delivers."""
    if not 0 <= conf_no < len(life.confs):
        return NO_RING
    conf = life.confs[conf_no]
    return conf.prev_id if conf.transitional else conf.conf_id


def is_private_to(name: str, member: Member) -> bool:
    """Whether a name is the private one of a member."""
    return name.startswith("#") and name.endswith(f"#{member[0]}#{member[1]}.{member[2]}")
