"""Random schedules: sessions that come and go, talk and change groups while the network breaks."""

from random import Random

from evensong.core.groups.events import SessionId
from evensong.core.groups.frame import SAFE, SELF_DISCARD
from evensong.core.groups.limits import Limits
from tests.core.groups.order import Daemon, Order

NODES = (1, 2, 3, 4)
NAMES = ("g", "h", "i")


class Schedule:
    """One run that follows from its seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        limits = Limits(payload_max=self.rng.choice((520, 600, 1_400)))
        self.order = Order(*NODES, limits=limits, rng=self.rng)
        self.calm = self.rng.choice((5, 20, 60))  # steps of talk for one change of the network
        self.bodies = 0

    def run(self, steps: int) -> None:
        """Do random things, then heal and let everything be delivered."""
        if self.rng.random() < 0.7:
            self.gather()
        for _ in range(steps):
            if self.rng.randrange(self.calm) == 0:
                self.change()
            else:
                self.talk()
        self.heal()
        self.check_end()

    # What happens

    def gather(self) -> None:
        """Begin as a cluster that has been up for a while."""
        self.order.form(NODES)
        for daemon in self.order.daemons.values():
            for user in ("ann", "bob"):
                daemon.join(daemon.open(user), *self.rng.sample(NAMES, 2))
        self.order.run()

    def talk(self) -> None:
        daemon = self.rng.choice(list(self.order.daemons.values()))
        session = self.session_of(daemon)
        act = self.rng.randrange(12)
        if session is None or act == 0:
            if len(daemon.groups.sessions.open) < 3:
                daemon.open(self.rng.choice(("ann", "bob", "eve")))
        elif act == 1:
            daemon.join(session, self.rng.choice(NAMES))
        elif act == 2 and self.rng.random() < 0.5:
            daemon.leave(session, self.rng.choice(NAMES))
        elif act == 3 and self.rng.random() < 0.2:
            daemon.close(session)
        elif act <= 6:
            self.send(daemon, session)
        elif act <= 8:
            daemon.pull(self.rng.randint(1, 4))
        else:
            daemon.deliver(self.rng.randint(1, 8))
            daemon.tell_safe_line(daemon.ring.sure)

    def send(self, daemon: Daemon, session: SessionId) -> None:
        rng = self.rng
        names: list[str] = rng.sample(NAMES, rng.randint(1, 2))
        if rng.random() < 0.1:
            other = rng.choice(list(self.order.daemons.values()))
            names = [str(one.member) for one in other.groups.sessions.open.values()] or names
        flags = (SAFE if rng.random() < 0.3 else 0) | (SELF_DISCARD if rng.random() < 0.1 else 0)
        large = rng.random() < 0.2
        sizes = [rng.randint(600, 4_000)] if large else [rng.randint(0, 60) for _ in range(3)]
        daemon.send(session, tuple(names), *map(self.body, sizes), flags=flags)

    def body(self, size: int) -> bytes:
        self.bodies += 1
        return (b"%d." % self.bodies).ljust(size, b"x")

    def session_of(self, daemon: Daemon) -> SessionId | None:
        sessions = sorted(daemon.groups.sessions.open)
        return self.rng.choice(sessions) if sessions else None

    def change(self) -> None:
        rng = self.rng
        order = self.order
        if rng.random() < 0.15 and len(order.daemons) > 2:
            order.crash(rng.choice(sorted(order.daemons)))
        absent = [node for node in NODES if node not in order.daemons]
        if absent and rng.random() < 0.5:
            order.start(rng.choice(absent))
        parts: dict[int, list[int]] = {}
        for node in order.daemons:
            parts.setdefault(rng.randrange(2), []).append(node)
        broken = [node for node in order.daemons if rng.random() < 0.15]
        order.form(*parts.values(), broken=broken)

    def heal(self) -> None:
        order = self.order
        for node in NODES:
            if node not in order.daemons:
                order.start(node)
        order.form(NODES)
        order.run()

    # What must be true at the end

    def check_end(self) -> None:
        """Everything is quiet, all directories are equal, and they hold who should be there."""
        daemons = list(self.order.daemons.values())
        assert len({daemon.groups.directory.digest() for daemon in daemons}) == 1
        here = {one.member for daemon in daemons for one in daemon.groups.sessions.open.values()}
        assert set(daemons[0].groups.directory.groups_of) <= here
        for daemon in daemons:
            groups = daemon.groups
            assert not groups.held_packets()
            assert not groups.queue.queued_bytes
            assert not groups.assembly.unfinished
            assert groups.drops == {}
        self.order.facts.check_together()
