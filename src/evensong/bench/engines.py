"""What the engines cost when all send: the cores themselves, in one process, without a network.

Frames are handed from core to core as they are: nothing is sealed, no socket, no client, no group
is in the way, and nothing gets lost. Whoever has received the messages of one transmitter in a row
takes them together, and a token waits for the data before it, as in a daemon. Time is virtual, so
that no timeout depends on the machine; what is measured is the CPU time of this process, which has
the work of all processors in it and the handing over besides.

Engines take turns, so that a machine that slows down slows both. beside.py measures daemons.
"""

import gc
import struct
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, final

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Install,
    Packet,
    Sent,
    Service,
    Unicast,
)
from evensong.core.ids import ProcessorId
from evensong.core.run import run_of
from evensong.core.stable import FIRST_START
from evensong.core.timer import NEVER
from evensong.core.totem.parameters import Parameters
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.sim.engines import engine_of
from evensong.sim.machine import Inbox
from evensong.sim.setup import ENGINES, Options

if TYPE_CHECKING:
    from evensong.core.core import Core

Taken = TypeVar("Taken")  # what a turn comes to
HOP_US: Final = 50  # virtual time of one sweep
DRAIN_MAX: Final = 64  # data datagrams before a waiting token
FORM_US: Final = 60_000_000
WARM_UP: Final = 200  # messages that do not count
NODES: Final = range(3, 11)
SIZE: Final = 1_024
NAME: Final = struct.Struct("!IQ")  # sender, number
BACKLOG: Final = 1_000


@final
class Flood:
    """A source that never runs dry, once it is opened."""

    __slots__ = ("_fill", "_node", "is_open", "sent")

    def __init__(self, node: ProcessorId, size: int) -> None:
        self._node: Final = node
        self._fill: Final = bytes(size - NAME.size)
        self.is_open = False
        self.sent = 0

    def backlog(self) -> int:
        """Say that there is more."""
        return BACKLOG if self.is_open else 0

    def weight(self, packets: Sequence[Packet]) -> int:
        """All are plain."""
        return len(packets)

    def pull(self, packets_max: int) -> list[Packet]:
        """Make the next packets."""
        if not self.is_open:
            return []
        first = self.sent + 1
        self.sent += packets_max
        return [
            Packet(Service.AGREED, NAME.pack(self._node, number) + self._fill)
            for number in range(first, self.sent + 1)
        ]


class Listener(Protocol):
    """Who wants to see what is delivered."""

    def __call__(self, node: ProcessorId, delivered: Deliver) -> None:
        """Look at it."""
        ...


@final
class Loopback:
    """Processors of one engine that hand each other their frames."""

    def __init__(
        self, engine: str, nodes: int, size: int, listener: Listener | None = None
    ) -> None:
        ids = tuple(range(1, nodes + 1))
        options = Options(
            ids,
            engine=engine,
            parameters=Parameters.for_ring(nodes),
            lansis=LansisParameters.for_domain(nodes),
        )
        made = engine_of(options)
        self.now = 0
        self.delivered = [0] * nodes
        self.members: Final = [0] * nodes  # of the present configuration
        self.installs = 0
        self._listener: Final = listener
        self._due: Final = [NEVER] * nodes  # when each core wants to be called
        self._floods: Final = [Flood(node, size) for node in ids]
        self._inboxes: Final = [Inbox(made.kinds.regular, made.kinds.token, DRAIN_MAX) for _ in ids]
        self._cores: Final[list[Core]] = [
            made.make(node, FIRST_START, 1, options.parameters, Random(node), self._floods[at])
            for at, node in enumerate(ids)
        ]

    def form(self) -> None:
        """Let all be one configuration, and let them flood."""
        for at, core in enumerate(self._cores):
            core.start(self.now)
            self._perform(at)
        size = len(self._cores)
        while self.members != [size] * size:
            assert self.now < FORM_US, "no configuration of all"
            self.sweep()
        for at, core in enumerate(self._cores):
            self._floods[at].is_open = True
            core.submit(self.now)
            self._perform(at)

    def sweep(self) -> None:
        """Let every core take in what it was sent, and act on its timers; time goes on."""
        is_idle = True
        now = self.now
        for at, core in enumerate(self._cores):
            inbox = self._inboxes[at]
            while len(inbox):
                is_idle = False
                core.receive_run(run_of(inbox.take_row()), now)
                self._perform(at)
            if self._due[at] <= now:
                is_idle = False
                core.expire(now)
                self._perform(at)
        self.now += HOP_US
        if is_idle:
            self.now = max(self.now, min(self._due))

    def _perform(self, at: int) -> None:
        for effect in self._cores[at].drain():
            if isinstance(effect, Broadcast):
                self._broadcast(at, [effect.datagram])
            elif isinstance(effect, Unicast):
                self._inboxes[effect.to - 1].put(effect.datagram)
            elif isinstance(effect, Sent):
                if effect.outgoing is not None:
                    self._broadcast(at, effect.outgoing.datagrams())
            elif isinstance(effect, Deliver):
                self.delivered[at] += effect.count()
                if self._listener is not None:
                    self._listener(at + 1, effect)
            elif isinstance(effect, Install):
                self.installs += 1
                conf = effect.configuration
                self.members[at] = 0 if conf.transitional else len(conf.members)
        self._due[at] = self._cores[at].deadline()

    def _broadcast(self, at: int, datagrams: Sequence[bytes]) -> None:
        for other, inbox in enumerate(self._inboxes):
            if other != at:
                for datagram in datagrams:
                    inbox.put(datagram)


class Turn(NamedTuple):
    """What one run came to."""

    nodes: int
    messages: int  # ordered, and delivered by the first processor
    cpu_s: float  # of all processors
    view_changes: int

    def per_s(self) -> float:
        """Return messages a second if each processor has a CPU like this one to itself."""
        return self.messages * self.nodes / self.cpu_s

    def cpu_us(self) -> float:
        """Return what a message costs one processor."""
        return self.cpu_s * 1e6 / self.messages / self.nodes

    def together_per_s(self) -> float:
        """Return messages a second of all processors together on this one CPU."""
        return self.messages / self.cpu_s


def measure(engine: str, nodes: int, size: int, seconds: float) -> Turn:
    """Let the cores of an engine flood for so many seconds of CPU time."""
    loopback = Loopback(engine, nodes, size)
    loopback.form()
    while loopback.delivered[0] < WARM_UP:
        loopback.sweep()
    installs, first = loopback.installs, loopback.delivered[0]
    was_enabled = gc.isenabled()
    gc.disable()  # as in a daemon
    try:
        started = time.process_time()
        while (cpu_s := time.process_time() - started) < seconds:
            loopback.sweep()
    finally:
        if was_enabled:
            gc.enable()
    messages = loopback.delivered[0] - first
    return Turn(nodes, messages, cpu_s, loopback.installs - installs)


def measure_all(
    nodes: Sequence[int], size: int, seconds: float, turns: int, advance: Callable[[], None]
) -> dict[tuple[str, int], list[Turn]]:
    """Measure the cores of every engine with every number of processors, in turns."""
    return in_turns(lambda engine, n: measure(engine, n, size, seconds), nodes, turns, advance)


def in_turns(
    one: Callable[[str, int], Taken], nodes: Sequence[int], turns: int, advance: Callable[[], None]
) -> dict[tuple[str, int], list[Taken]]:
    """Let every engine be measured with every number of processors, in turns."""
    taken: dict[tuple[str, int], list[Taken]] = {}
    for turn in range(turns):
        for n in nodes:
            # The other first the next time: whoever comes first may find the machine warmer.
            for engine in ENGINES if turn % 2 == 0 else reversed(ENGINES):
                taken.setdefault((engine, n), []).append(one(engine, n))
                advance()
    return dict(sorted(taken.items()))
