"""What every processor observably did in a run: the input of the EVS check and of the trace.

One `Life` per incarnation of a processor. Rows carry `pos`, the number of deliveries made before
them in that life, so that deliveries, sends and events interleave exactly.

What clients were told is beside that: `heard` and `said`, a row for each frame and session, and
events of the kinds in `GROUP_ETYPES`; docs/trace.md says what is in them.
"""

from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import (
    Deliver,
    Sent,
    Service,
    StateChange,
    TokenVisit,
    WindowGrown,
)
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.unit import UnitId, decode_unit, digest

GROUP_ETYPES: Final = ("gview", "left", "open", "close", "dest")  # about sessions and groups
CUT: Final = ("", "lost")  # how a life ends whose last rows may be missing
LifeId: TypeAlias = tuple[ProcessorId, int]  # node, incarnation
Aux: TypeAlias = tuple[tuple[str, str], ...]


class Send(NamedTuple):
    """A unit at its first broadcast."""

    unit_id: UnitId
    ring_id: RingId
    seq: int
    conf_no: int
    pos: int
    service: Service
    size: int
    digest: int
    t_us: int
    messages: int = 1  # in the unit


class Delivery(NamedTuple):
    """A unit delivered here; its `pos` is its index in the life's list.

    `conf_no` is the configuration the engine says it delivers in; the one it observably is in
    follows from the `pos` of the `conf` events.
    """

    unit_id: UnitId
    ring_id: RingId
    seq: int
    conf_no: int
    service: Service
    reduced: bool
    safe_line: int
    after_gap: bool
    size: int
    digest: int
    t_us: int
    messages: int = 1


class FrameId(NamedTuple):
    """A frame's identity: who sent it, and the number of its first message."""

    sender: ProcessorId
    incarnation: int
    session: int
    first_no: int

    def __str__(self) -> str:
        return f"{self.sender}/{self.incarnation}.{self.session}:{self.first_no}"


class GroupSend(NamedTuple):
    """A frame of a session when the packet that ends it is first broadcast."""

    session: int
    first_no: int
    ring_id: RingId
    seq: int
    conf_no: int
    pos: int  # frames told to the session before: what it may have known
    service: Service
    dest_no: int  # its groups, by the `dest` events of the life; -1: nobody knows
    size: int
    digest: int
    t_us: int
    messages: int


class GroupDelivery(NamedTuple):
    """A frame told to a session; its `pos` is its index in the session's list.

    `conf_no` is the configuration as the group layer had told the session by then.
    """

    frame_id: FrameId
    ring_id: RingId
    seq: int
    sub: int  # of its first message, in the packet
    conf_no: int
    service: Service
    reduced: bool
    dest_no: int
    size: int
    digest: int
    t_us: int
    messages: int


class Event(NamedTuple):
    """Everything else: start, conf, state, token, fail, stop, fault_inject, quiesce, gview …"""

    pos: int
    t_us: int
    etype: str
    conf_no: int
    conf: Configuration | None = None
    cause: str = ""
    aux: Aux = ()


@final
class Life:
    """One incarnation of a processor."""

    __slots__ = (
        "confs",
        "deliveries",
        "ended",
        "events",
        "has_groups",
        "heard",
        "incarnation",
        "node",
        "said",
        "sends",
    )

    def __init__(self, node: ProcessorId, incarnation: int) -> None:
        self.node: Final = node
        self.incarnation: Final = incarnation
        self.confs: Final[list[Configuration]] = []  # by conf_no
        self.sends: Final[list[Send]] = []
        self.deliveries: Final[list[Delivery]] = []
        self.events: Final[list[Event]] = []  # `pseq` is the index
        self.heard: Final[dict[int, list[GroupDelivery]]] = {}  # by session
        self.said: Final[list[GroupSend]] = []
        self.has_groups = True  # False: of what sessions were told something is missing
        self.ended = ""  # "" (the recording stops), "fail", "stop", "quiesce" or "lost"

    @property
    def is_cut(self) -> bool:
        """Whether the life may have gone on where its recording stops."""
        return self.ended in CUT

    def _event(
        self,
        etype: str,
        now: int,
        conf: Configuration | None = None,
        cause: str = "",
        aux: Aux = (),
    ) -> None:
        conf_no = len(self.confs) - 1
        self.events.append(Event(len(self.deliveries), now, etype, conf_no, conf, cause, aux))

    def start(self, now: int, aux: Aux = ()) -> None:
        """Begin the life; `aux` tells what the run is made with."""
        self._event("start", now, aux=aux)

    def install(self, configuration: Configuration, now: int) -> None:
        """Record a configuration change."""
        self.confs.append(configuration)
        self._event("conf", now, configuration, configuration.cause)

    def send(self, sent: Sent, now: int) -> None:
        """Record the first broadcast of units."""
        for seq, packet in enumerate(sent.packets, sent.first_seq):
            service, payload, _ = packet
            self.sends.append(
                Send(
                    decode_unit(payload),
                    sent.ring_id,
                    seq,
                    len(self.confs) - 1,
                    len(self.deliveries),
                    service,
                    len(payload),
                    digest(payload),
                    now,
                )
            )

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Record deliveries."""
        conf_no = self._conf_no(delivered.conf_id)
        is_reduced = bool(self.confs) and self.confs[-1].transitional
        for message in delivered.messages():
            payload = message.payload
            unit_id = decode_unit(payload)
            if unit_id.sender != message.sender_id:
                # As the engine attributes it: a unit that nobody sent, and EVS1.3 will say so.
                unit_id = unit_id._replace(sender=message.sender_id)
            self.deliveries.append(
                Delivery(
                    unit_id,
                    message.ring_id,
                    message.seq,
                    conf_no,
                    message.service,
                    is_reduced and message.service is Service.SAFE,
                    delivered.safe_line,
                    delivered.after_gap,
                    len(payload),
                    digest(payload),
                    now,
                )
            )

    def change_state(self, change: StateChange, now: int) -> None:
        """Record a move of the membership's state machine."""
        aux: tuple[tuple[str, str], ...] = (
            ("state", change.state),
            ("ring", str(change.ring_id)),
            ("about", str(change.about)),
        )
        if change.proposed:
            proposed = (" ".join(map(str, nodes)) for nodes in (change.proposed, change.failed))
            aux += tuple(zip(("proposed", "failed"), proposed, strict=True))
        self._event("state", now, cause=change.cause, aux=aux)

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Record a visit of the token."""
        aux = (
            ("ring", str(visit.ring_id)),
            ("token_seq", str(visit.token_seq)),
            ("seq", str(visit.seq)),
            ("aru", str(visit.aru)),
            ("fcc", str(visit.fcc)),
            ("sent", str(visit.sent)),
            ("resent", str(visit.resent)),
        )
        self._event("token", now, aux=aux)

    def grow_window(self, grown: WindowGrown, now: int) -> None:
        """Record that more is under way than before."""
        aux = (
            ("view", str(grown.view_id)),
            ("window", str(grown.size)),
            ("bound", str(grown.bound)),
        )
        self._event("window", now, aux=aux)

    def note(self, etype: str, now: int, cause: str = "", aux: Aux = ()) -> None:
        """Record a fault done to this processor, or what its sessions were told."""
        self._event(etype, now, cause=cause, aux=aux)

    def note_lag(self, late_us: int, now: int) -> None:
        """Record that this processor was not let run for so long."""
        self._event("lag", now, aux=(("late_us", str(late_us)),))

    def end(self, how: str, now: int, cause: str = "", aux: Aux = ()) -> None:
        """Close the life: `fail` (crash), `stop` (left in good order), `quiesce` (end of run).

        Or `lost`: it is over, and what it did last is not known.
        """
        assert not self.ended
        self.ended = how
        self._event(how, now, cause=cause, aux=aux)

    def _conf_no(self, conf_id: RingId) -> int:
        """Return the number of the configuration the engine names, -1 if it never installed it."""
        for conf_no in range(len(self.confs) - 1, -1, -1):  # nearly always the latest
            if self.confs[conf_no].conf_id == conf_id:
                return conf_no
        return -1

    def conf_id(self, conf_no: int) -> RingId:
        """Return the id of the life's configuration number `conf_no`."""
        return self.confs[conf_no].conf_id if conf_no >= 0 else NO_RING


@final
class History:
    """All lives of a run, in the order in which they began."""

    __slots__ = ("lives",)

    def __init__(self) -> None:
        self.lives: Final[dict[LifeId, Life]] = {}

    def begin(self, node: ProcessorId, incarnation: int, now: int, aux: Aux = ()) -> Life:
        """Open a life; `aux` tells what the run is made with."""
        assert (node, incarnation) not in self.lives
        life = Life(node, incarnation)
        self.lives[node, incarnation] = life
        life.start(now, aux)
        return life
