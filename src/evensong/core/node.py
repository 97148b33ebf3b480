"""One processor: an engine below, groups above it, put together by hand.

A `Node` is a `Core`, so whatever drives an engine drives it: the calls, the one deadline and the
effects are the engine's, unchanged and in the engine's order. What is new is above: session calls
go in, and `drain_events` returns what to tell the sessions. Which engine it is, and what any engine
owes the groups, is in engine.py.

How a driver changes (daemon/driver.py, sim/world.py): it makes a `Node` where it made an
engine, and gives its own source to the node, which is the engine's source; performs what
`drain` returns as before (`Deliver` and `Install` are for its trace now, the node has acted on
them); then hands the events of `drain_events` to the sessions that they name, in order. Session
calls may come at any time between two other calls.

Foreign packets are what a driver sends for tests: the groups pass over them, but they are units of
this life as any other, so they are named when they are pulled, by the same count.

The way up: after every call, and before the engine pulls, effects that the engine has made so far
are shown to the groups, in order. Before it pulls, because an engine may install a configuration
and send in it within one call; what is packed must know that the configuration is new.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, Protocol, final

from evensong.core.core import Core
from evensong.core.effects import Deliver, Effect, Install, Packet, SafeLine
from evensong.core.engine import Engine, Parameters, has_unordered, make_engine
from evensong.core.groups.events import SessionEvent, SessionId
from evensong.core.groups.layer import Groups
from evensong.core.groups.limits import Limits
from evensong.core.ids import ProcessorId
from evensong.core.run import Run
from evensong.core.stable import StableRecord
from evensong.core.unit import Origin


class Foreign(Protocol):
    """Packets that are not of groups."""

    def backlog(self) -> int:
        """How many packets wait."""
        ...

    def pull(self, packets_max: int, origin: Origin) -> list[Packet]:
        """Hand over the next packets, at most so many, named as units of this origin."""
        ...


@final
class Node(Core):
    """One processor with process groups, on whichever engine its parameters are of."""

    __slots__ = ("_effects", "engine", "foreign", "groups")

    def __init__(
        self,
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        limits: Limits,
        electorate: tuple[ProcessorId, ...],
        foreign: Foreign | None = None,
    ) -> None:
        self.foreign: Final = foreign
        self._effects: Final[list[Effect]] = []
        self.groups: Final = Groups(
            my_id, incarnation, limits, electorate, has_unordered=has_unordered(parameters)
        )
        self.engine: Final[Engine] = make_engine(my_id, record, incarnation, parameters, rng, self)

    # -- the engine's contract ---------------------------------------------------------------

    def start(self, now: int) -> None:
        """Begin; called once, before anything else."""
        self.engine.start(now)
        self._settle(now)

    def submit(self, now: int) -> None:
        """Say that foreign packets wait, or that the groups' queue was filled directly."""
        self.engine.submit(now)
        self._settle(now)

    def receive(self, datagram: bytes, now: int) -> None:
        """Take in a datagram."""
        self.engine.receive(datagram, now)
        self._settle(now)

    def receive_run(self, run: Run, now: int) -> None:
        """Take in datagrams that came together, in this order."""
        self.engine.receive_run(run, now)
        self._settle(now)

    def receive_all(self, runs: Sequence[Run], datagrams: Sequence[bytes], now: int) -> None:
        """Take in what came in one turn, runs first: as one by one, but looked at once."""
        for run in runs:
            self.engine.receive_run(run, now)
        self.engine.receive_many(datagrams, now)
        self._settle(now)

    def expire(self, now: int) -> None:
        """Act on every timer that is due."""
        self.engine.expire(now)
        self._settle(now)

    def leave(self, now: int) -> None:
        """Depart in good order; other daemons learn of it by the configuration that follows."""
        self.engine.leave(now)
        self._climb()

    def deadline(self) -> int:
        """When to call `expire` next."""
        return self.engine.deadline()

    def rests(self) -> bool:
        """Whether nothing goes on, and whatever is submitted now gets its place at once."""
        return self.engine.rests()

    def hurry(self, *, is_on: bool) -> None:
        """Say whether a session waits to hear that messages are safe."""
        self.engine.hurry(is_on=is_on)

    def drain(self) -> list[Effect]:
        """Return the effects since the last drain."""
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def has_effects(self) -> bool:
        """Whether there are effects to drain."""
        return bool(self._effects)

    def pairs(self) -> set[tuple[str, str]]:
        """Return which events met which states of the engine."""
        return self.engine.pairs()

    # -- the engine's source -----------------------------------------------------------------

    def backlog(self) -> int:
        """How many packets wait."""
        self._climb()
        backlog = self.groups.queue.backlog()
        return backlog + self.foreign.backlog() if self.foreign is not None else backlog

    def pull(self, packets_max: int) -> list[Packet]:
        """Hand over the next packets, packed now; foreign ones get half, if they need it."""
        self._climb()
        foreign, queue = self.foreign, self.groups.queue
        if foreign is None or not (waiting := foreign.backlog()):
            return queue.pull(packets_max)
        # Who is asked for one packet at a time gives of either in turn.
        reserved = min(waiting, packets_max // 2 or queue.origin.last_no & 1)
        packets = queue.pull(packets_max - reserved)
        packets += foreign.pull(packets_max - queue.weight(packets), queue.origin)
        return packets

    def weight(self, packets: Sequence[Packet]) -> int:
        """What packets count for: how many plain ones hold as much."""
        return self.groups.queue.weight(packets)

    # -- sessions ----------------------------------------------------------------------------

    def open_session(self, user: str, request_id: int, now: int) -> SessionId:
        """Open a session; see `Groups` for this and the next ones."""
        session = self.groups.open_session(user, request_id)
        self._offer(now)
        return session

    def close_session(self, session: SessionId, now: int) -> None:
        """End a session."""
        self.groups.close_session(session)
        self._offer(now)

    def join(self, session: SessionId, group: str, request_id: int, now: int) -> None:
        """Ask to be a member of a group."""
        self.groups.join(session, group, request_id)
        self._offer(now)

    def leave_group(self, session: SessionId, group: str, request_id: int, now: int) -> None:
        """Ask to be no member any more."""
        self.groups.leave(session, group, request_id)
        self._offer(now)

    def define_set(
        self, session: SessionId, set_no: int, groups: Sequence[str], request_id: int
    ) -> None:
        """Name a destination."""
        self.groups.define_set(session, set_no, groups, request_id)

    def send(self, session: SessionId, frame: bytes, request_id: int, now: int) -> None:
        """Send a frame."""
        self.groups.send(session, frame, request_id)
        self._offer(now)

    def send_many(
        self, session: SessionId, frames: Sequence[bytes], request_id: int, now: int
    ) -> None:
        """Send frames that came together, in this order."""
        for frame in frames:
            self.groups.send(session, frame, request_id)
        self._offer(now)

    def drain_events(self) -> list[SessionEvent]:
        """Return the session events since the last time, in order."""
        return self.groups.drain()

    # -- between the layers ------------------------------------------------------------------

    def _offer(self, now: int) -> None:
        """Tell the engine if there is something to send."""
        if self.groups.queue.queued_bytes:
            self.engine.submit(now)
            self._settle(now)

    def _settle(self, now: int) -> None:
        """Show the groups what the engine did; offer what they answer.

        Alone nothing else would make the engine ask again: a packet more than it was told of may be
        left, or one that came of what it delivered. Elsewhere the token comes round, or a message.
        """
        self._climb()
        groups = self.groups
        queue = groups.queue
        before = -1
        while len(groups.configuration.members) == 1 and queue.origin.last_no != before:
            before = queue.origin.last_no
            if queue.queued_bytes:
                self.engine.submit(now)
                self._climb()

    def _climb(self) -> None:
        """Show the groups what the engine did, in order."""
        effects = self.engine.drain()
        if not effects:
            return
        groups = self.groups
        for effect in effects:
            if isinstance(effect, Deliver):
                groups.on_deliver(effect)
            elif isinstance(effect, SafeLine):
                groups.on_safe_line(effect)
            elif isinstance(effect, Install):
                groups.on_install(effect.configuration)
        self._effects.extend(effects)
