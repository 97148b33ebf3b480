"""Replicas above the group layer: a small library that transfers state, on an order in memory.

A replica's state is the list of messages that it has applied. Whenever two members that take each
other for kin have come to the same place of the stream, their states must be equal.
"""

from random import Random

from evensong.core.groups.events import Delivered, MemberId, SessionId, View, ViewChange
from evensong.core.groups.frame import messages_of
from evensong.core.groups.notes import Key, Place
from evensong.core.groups.steps import Apply, Merge, Restore, Show, Take
from evensong.core.groups.transfer import Transfer
from tests.core.groups.order import Daemon, Order

GROUP = "g"
MESSAGE = b"m"
NOTE = b"n"

Moments = dict[Place, list[tuple[Key, frozenset[Key], tuple[bytes, ...]]]]


class Client:
    """One process with a replica."""

    def __init__(self, daemon: Daemon, moments: Moments, *, primary_wins: bool = False) -> None:
        self.daemon = daemon
        self.moments = moments
        self.session: SessionId = daemon.open("ann")
        self.member: MemberId = daemon.groups.sessions.open[self.session].member
        self.transfer = Transfer(self.member, primary_wins=primary_wins, chunk_bytes=300)
        self.state: list[bytes] = []
        self.did: list[str] = []
        self.seen = len(daemon.watcher.told)
        daemon.join(self.session, GROUP)

    def listen(self) -> None:
        """Take in what the daemon has told since."""
        told = self.daemon.watcher.told
        for event in told[self.seen :]:
            if isinstance(event, ViewChange) and self.session in event.sessions:
                self.transfer.on_view(event.view)
                self.perform(event.view.view_id[:3])
            elif isinstance(event, Delivered) and self.session in event.sessions:
                assert event.order is not None
                for index, body in enumerate(messages_of(event.frame)):
                    place = (event.conf_id, event.order.seq, event.order.sub + index)
                    if body[:1] == NOTE:
                        self.transfer.on_note(event.destination.sender, place, body[1:])
                    else:
                        self.transfer.on_message(place, body[1:])
                    self.perform(place)
        self.seen = len(told)

    def perform(self, place: Place) -> None:
        for step in self.transfer.drain():
            if isinstance(step, Take):
                self.did.append("take")
                self.transfer.taken(step.place, b"\n".join(self.state))
            elif isinstance(step, Restore):
                self.did.append("restore")
                self.state = split(step.snapshot)
            elif isinstance(step, Merge):
                self.did.append(f"merge {len(step.snapshots)}")
                every = {one for snapshot in step.snapshots for one in split(snapshot)}
                self.state = sorted(every)
            elif isinstance(step, Apply):
                assert isinstance(step.message, bytes)
                self.state.append(step.message)
            else:
                assert isinstance(step, Show)
                assert isinstance(step.view, View)
        self.check(place)

    def check(self, place: Place) -> None:
        transfer = self.transfer
        if not transfer.is_live():
            return
        key = self.member[:3]
        kin = frozenset(transfer.kin)
        state = tuple(self.state)
        for other, others_kin, others_state in self.moments.setdefault(place, []):
            if other in kin and key in others_kin:
                assert others_state == state, f"{key} and {other} differ at {place}"
        self.moments[place].append((key, kin, state))

    def speak(self, notes_max: int = 1_000) -> bool:
        """Send notes that wait; return whether there were any."""
        for count in range(notes_max):
            note = self.transfer.next_note()
            if note is None:
                return count > 0
            self.daemon.send(self.session, GROUP, NOTE + note)
        return True

    def say(self, body: bytes) -> None:
        self.daemon.send(self.session, GROUP, MESSAGE + body)


def split(snapshot: bytes) -> list[bytes]:
    return snapshot.split(b"\n") if snapshot else []


class Library:
    """Clients on an order."""

    def __init__(self, order: Order, *, primary_wins: bool = False) -> None:
        self.order = order
        self.primary_wins = primary_wins
        self.moments: Moments = {}
        self.clients: list[Client] = []

    def client(self, node: int) -> Client:
        client = Client(self.order[node], self.moments, primary_wins=self.primary_wins)
        self.clients.append(client)
        return client

    def run(self) -> None:
        """Let everything be sent and heard until nothing is left."""
        busy = True
        while busy:
            self.order.run()
            for client in self.clients:
                client.listen()
            busy = sum(client.speak() for client in self.clients) > 0

    def forget(self, node: int) -> None:
        """A daemon is gone, and its clients with it."""
        self.clients = [one for one in self.clients if one.daemon.node != node]

    def check_equal(self) -> None:
        """Everybody has the same state."""
        assert all(client.transfer.has_state for client in self.clients)
        assert len({tuple(client.state) for client in self.clients}) <= 1


class Chaos:
    """Random joins, talk, losses and meetings; at the end all replicas must be equal."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.order = Order(1, 2, 3, 4, rng=self.rng)
        self.library = Library(self.order, primary_wins=seed % 4 == 0)
        self.serial = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        for node in (1, 2, 3, 4):
            if node not in self.order.daemons:
                self.order.start(node)
        self.order.form((1, 2, 3, 4))
        self.library.run()
        self.library.check_equal()

    def step(self) -> None:
        rng = self.rng
        clients = self.library.clients
        act = rng.randrange(40)
        if act == 0 or not clients:
            if len(clients) < 6:
                self.library.client(rng.choice(sorted(self.order.daemons)))
        elif act == 1:
            self.change()
        elif act == 2 and len(clients) > 3:
            client = clients.pop(rng.randrange(len(clients)))
            client.daemon.close(client.session)
        elif act < 10:
            self.serial += 1
            rng.choice(clients).say(b"%d" % self.serial + b"." * rng.choice((0, 200)))
        elif act < 20:
            rng.choice(clients).speak(rng.randint(1, 4))
        elif act < 28:
            rng.choice(clients).daemon.pull(rng.randint(1, 6))
        else:
            client = rng.choice(clients)
            client.daemon.deliver(rng.randint(1, 20))
            for one in clients:
                if one.daemon is client.daemon:
                    one.listen()

    def change(self) -> None:
        rng = self.rng
        order = self.order
        if rng.random() < 0.2 and len(order.daemons) > 2:
            node = rng.choice(sorted(order.daemons))
            order.crash(node)
            self.library.forget(node)
        absent = [node for node in (1, 2, 3, 4) if node not in order.daemons]
        if absent and rng.random() < 0.5:
            order.start(rng.choice(absent))
        parts: dict[int, list[int]] = {}
        for node in order.daemons:
            parts.setdefault(rng.choice((0, 0, 1)), []).append(node)
        order.form(*parts.values(), broken=[n for n in order.daemons if rng.random() < 0.1])
