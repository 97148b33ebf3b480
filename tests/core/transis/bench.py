"""Cores of a broadcast domain wired by hand: datagrams are carried one at a time, in order.

As `tests/core/totem/bench.py`, for the other engine; the cores can be frozen and put back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from evensong.core.effects import Broadcast, Effect, Packet, Service, Unicast
from evensong.core.ids import ProcessorId
from evensong.core.stable import FIRST_START
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.states import State

HOP_US = 10
STEPS_MAX = 50_000


class Outbox:
    """What waits to be sent."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []

    def backlog(self) -> int:
        return len(self.packets)

    def weight(self, packets: Sequence[Packet]) -> int:
        return len(packets)

    def pull(self, packets_max: int) -> list[Packet]:
        taken = self.packets[:packets_max]
        del self.packets[:packets_max]
        return taken


class Bench:
    """A few cores and what is on its way between them."""

    def __init__(self, *nodes: ProcessorId, parameters: Parameters) -> None:
        self.outboxes = {node: Outbox() for node in nodes}
        self.cores = {
            node: Lansis(node, FIRST_START, 1, parameters, Random(node), outbox)
            for node, outbox in self.outboxes.items()
        }
        self.flight: deque[tuple[ProcessorId, bytes]] = deque()
        self.loses: Callable[[ProcessorId, ProcessorId, bytes], bool] = lambda *_: False
        self.said: list[tuple[ProcessorId, bytes]] = []
        self.now = 0
        for node, core in self.cores.items():
            core.start(self.now)
            self._take(node)

    def __getitem__(self, node: ProcessorId) -> Lansis:
        return self.cores[node]

    def submit(self, node: ProcessorId, payload: bytes, service: Service) -> None:
        self.outboxes[node].packets.append(Packet(service, payload))
        self.cores[node].submit(self.now)
        self._take(node)

    def _take(self, node: ProcessorId) -> None:
        """Send what a call asked for on its way."""
        effects: list[Effect] = self.cores[node].drain()
        for effect in effects:
            if isinstance(effect, Broadcast):
                self._send(node, [one for one in self.cores if one != node], effect.datagram)
            elif isinstance(effect, Unicast) and effect.to in self.cores:
                self._send(node, [effect.to], effect.datagram)

    def _send(self, source: ProcessorId, targets: list[ProcessorId], datagram: bytes) -> None:
        self.said.append((source, datagram))
        for target in targets:
            if not self.loses(source, target, datagram):
                self.flight.append((target, datagram))

    def step(self) -> None:
        """Carry one datagram or, if none is on its way, let the next timer fire."""
        node, due = min(self.cores.items(), key=lambda one: (one[1].deadline(), one[0]))
        deadline = due.deadline()
        if not self.flight or deadline <= self.now:
            self.now = max(self.now, deadline)
            due.expire(self.now)
        else:
            self.now += HOP_US
            node, datagram = self.flight.popleft()
            self.cores[node].receive(datagram, self.now)
        self._take(node)

    def run_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(STEPS_MAX):
            if holds():
                return
            self.step()
        raise AssertionError("it never came to that")

    def run(self, for_us: int) -> None:
        until = self.now + for_us
        self.run_until(lambda: self.now >= until)

    def is_view(self, *nodes: ProcessorId) -> bool:
        return all(
            self.cores[node].machine.state is State.STABLE
            and self.cores[node].machine.view.procs == nodes
            for node in nodes
        )


def view_of(*nodes: ProcessorId, parameters: Parameters) -> Bench:
    """Return a bench whose cores are in one view."""
    bench = Bench(*nodes, parameters=parameters)
    bench.run_until(lambda: bench.is_view(*nodes))
    return bench
