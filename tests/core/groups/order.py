"""A total order in memory: lists of packets and configurations that keep the promises of EVS.

An `Order` is a few daemons' group layers without an engine. A regular configuration is a list of
packets; each of its daemons has come to some place in it. A change of the configuration gives the
daemons that go together the same rest, as an engine would: what one of them has delivered all do,
then the transitional configuration, then what is left up to a gap, and behind it only what one of
them has sent. Everything the layers say is held against their promises
by the simulator's `Watcher`.
"""

from collections.abc import Collection
from random import Random

from evensong.core.effects import Deliver, Packet, SafeLine, Service
from evensong.core.groups.control import SetPart, StatePart, Wish, decode_control
from evensong.core.groups.events import SessionEvent, SessionId, View, ViewChange
from evensong.core.groups.frame import CONTROL, encode_whole
from evensong.core.groups.layer import Groups
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import decode_packet
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.sim.groups.facts import Facts
from evensong.sim.groups.watch import Watcher

LIMITS = Limits(payload_max=600)
EVENTS: dict[type[object], str] = {
    type(None): "frame",
    Wish: "wish",
    SetPart: "set",
    StatePart: "state",
}


class Ring:
    """A regular configuration and its packets."""

    def __init__(self, ring_id: RingId, members: tuple[ProcessorId, ...]) -> None:
        self.ring_id = ring_id
        self.members = members
        self.log: list[RegularMessage] = []
        self.sure = 0  # everybody has so many: a safe packet behind them was delivered

    def append(self, sender: ProcessorId, packet: Packet) -> None:
        seq = len(self.log) + 1
        service, payload, timestamp = packet
        message = RegularMessage(sender, self.ring_id, seq, service, 0, timestamp, payload)
        self.log.append(message)


class Daemon:
    """One daemon's layer, where it is in the order, and what its sessions were told."""

    def __init__(
        self,
        node: ProcessorId,
        incarnation: int,
        ring: Ring,
        electorate: tuple[ProcessorId, ...],
        facts: Facts,
        limits: Limits,
    ) -> None:
        self.node = node
        self.groups = Groups(node, incarnation, limits, electorate)
        self.watcher = Watcher(node, self.groups, facts)
        self.facts = facts
        self.ring = ring
        self.at = 0  # packets of the ring that were delivered
        self.is_stuck = False  # its new configuration broke before it was installed
        self.events: list[SessionEvent] = []  # since they were looked at last
        self.sets: dict[tuple[SessionId, tuple[str, ...]], int] = {}
        self.numbers: dict[SessionId, int] = {}
        alone = Configuration(ring.ring_id, NO_RING, (node,), transitional=False, cause="start")
        self.install(alone)

    # Sessions

    def open(self, user: str) -> SessionId:
        session = self.groups.open_session(user)
        self.settle()
        return session

    def join(self, session: SessionId, *groups: str) -> None:
        for group in groups:
            self.groups.join(session, group)
        self.settle()

    def leave(self, session: SessionId, group: str) -> None:
        self.groups.leave(session, group)
        self.settle()

    def close(self, session: SessionId) -> None:
        self.groups.close_session(session)
        self.settle()

    def send(
        self, session: SessionId, groups: str | tuple[str, ...], *bodies: bytes, flags: int = 0
    ) -> int:
        """Send messages in one frame; return the first one's number."""
        names = (groups,) if isinstance(groups, str) else groups
        set_no = self.sets.get((session, names))
        if set_no is None:
            set_no = len([one for one, _ in self.sets if one == session])
            self.sets[session, names] = set_no
            self.groups.define_set(session, set_no, names)
        first_no = self.numbers.get(session, 1)
        self.numbers[session] = first_no + len(bodies)
        member = self.groups.sessions.open[session].member
        self.facts.sent(member, first_no, names, bodies, flags)
        self.groups.send(session, encode_whole(session, first_no, set_no, flags, bodies))
        self.settle()
        return first_no

    def views(self, session: SessionId, group: str) -> list[View]:
        """Return the views of a group that a session has been shown."""
        return [
            event.view
            for event in self.watcher.told
            if isinstance(event, ViewChange)
            and session in event.sessions
            and event.view.group == group
        ]

    # The order

    def pull(self, packets_max: int = 1_000) -> int:
        """Send what waits, as the holder of the token would; return how many packets that were."""
        if self.is_stuck:
            return 0
        packets = self.groups.queue.pull(packets_max)
        for packet in packets:
            self.ring.append(self.node, packet)
        self.settle()
        return len(packets)

    def deliver(self, count: int = 1_000_000) -> None:
        """Deliver the next packets of the regular configuration."""
        if self.is_stuck:
            return
        for message in self.ring.log[self.at : self.at + count]:
            self.hand(self.ring.ring_id, message)
            self.at += 1
            if message.service is Service.SAFE:
                self.ring.sure = max(self.ring.sure, self.at)

    def hand(self, conf_id: RingId, message: RegularMessage) -> None:
        for kind, _, _, _, _, _, length, at in decode_packet(message.payload)[1]:
            control = decode_control(message.payload[at : at + length]) if kind == CONTROL else None
            self.meet(EVENTS[type(control)])
        self.watcher.expect(message)
        self.groups.on_deliver(Deliver(conf_id, [message], 0, after_gap=False))
        self.settle()

    def install(self, configuration: Configuration) -> None:
        self.watcher.installs(transitional=configuration.transitional)
        together = [one for one in self.groups.together if one in configuration.members]
        if configuration.transitional:
            self.meet("transitional")
        else:
            self.meet("nobody else" if tuple(together) == configuration.members else "others")
        self.groups.on_install(configuration)
        assert configuration.transitional or not self.groups.assembly.unfinished, "D5"
        self.settle()

    def meet(self, event: str) -> None:
        self.facts.pairs.add((self.groups.state.name, event))

    def tell_safe_line(self, seq: int) -> None:
        self.meet("safe line")
        self.groups.on_safe_line(SafeLine(self.ring.ring_id, seq))
        self.settle()

    def settle(self) -> None:
        events = self.groups.drain()
        self.events.extend(events)
        self.watcher.see(events)

    def take_events(self) -> list[SessionEvent]:
        taken, self.events = self.events, []
        return taken


class Order:
    """Daemons that begin alone."""

    def __init__(
        self,
        *nodes: ProcessorId,
        electorate: tuple[ProcessorId, ...] = (),
        limits: Limits = LIMITS,
        rng: Random | None = None,
    ) -> None:
        self.rng = rng
        self.facts = Facts()
        self.electorate = electorate or nodes
        self.limits = limits
        self.ring_seq = 0
        self.incarnations = dict.fromkeys(nodes, 0)
        self.daemons: dict[ProcessorId, Daemon] = {}
        for node in nodes:
            self.start(node)

    def __getitem__(self, node: ProcessorId) -> Daemon:
        return self.daemons[node]

    def start(self, node: ProcessorId) -> Daemon:
        """Start a daemon, or start it again; it is alone."""
        assert node not in self.daemons
        self.incarnations[node] += 1
        self.ring_seq += 4
        ring = Ring(RingId(self.ring_seq, node), (node,))
        incarnation = self.incarnations[node]
        daemon = Daemon(node, incarnation, ring, self.electorate, self.facts, self.limits)
        self.daemons[node] = daemon
        return daemon

    def crash(self, node: ProcessorId) -> None:
        del self.daemons[node]

    def run(self, *nodes: ProcessorId) -> None:
        """Let these daemons, or all, send and deliver until nothing is left."""
        chosen = [self.daemons[node] for node in nodes or tuple(self.daemons)]
        busy = True
        while busy:
            busy = sum(daemon.pull() for daemon in chosen) > 0
            for daemon in chosen:
                daemon.deliver()

    def form(self, *parts: Collection[ProcessorId], broken: Collection[ProcessorId] = ()) -> None:
        """Install new regular configurations; `broken` daemons do not come to install theirs."""
        for part in parts:
            members = tuple(sorted(part))
            self.ring_seq += 4
            ring = Ring(RingId(self.ring_seq, members[0]), members)
            came_from: dict[RingId, list[Daemon]] = {}
            for node in members:
                daemon = self.daemons[node]
                came_from.setdefault(daemon.ring.ring_id, []).append(daemon)
            for together in came_from.values():
                self._go_together(together, ring, broken)

    def _go_together(
        self, together: list[Daemon], ring: Ring, broken: Collection[ProcessorId]
    ) -> None:
        old = together[0].ring
        nodes = tuple([daemon.node for daemon in together])
        split = max(daemon.at for daemon in together)
        gap = len(old.log)
        if self.rng is not None and nodes != old.members:
            gap = self.rng.randint(max(split, old.sure), gap)
        rest = old.log[split:gap] + [one for one in old.log[gap:] if one.sender_id in nodes]
        transitional_id = RingId(ring.ring_id.seq - 2, nodes[0])
        for daemon in together:
            if daemon.node in broken:
                daemon.is_stuck = True
                continue
            daemon.is_stuck = False
            daemon.deliver(split - daemon.at)
            daemon.install(
                Configuration(transitional_id, old.ring_id, nodes, transitional=True, cause="test")
            )
            for message in rest:
                daemon.hand(transitional_id, message)
            daemon.install(
                Configuration(
                    ring.ring_id, transitional_id, ring.members, transitional=False, cause="test"
                )
            )
            daemon.ring = ring
            daemon.at = 0


def members_of(view: View) -> list[str]:
    """Return the users in a view, in the order in which they joined."""
    return [member.user for member in view.members]
