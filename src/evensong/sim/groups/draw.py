"""A seed decides a run with clients: the swarm's machines and faults, and what clients do.

Machines, weather and faults of a seed are those of the same seed without clients.
"""

from dataclasses import replace
from random import Random
from typing import Final

from evensong.core.ids import ProcessorId
from evensong.sim.faults import Calm
from evensong.sim.groups import acts
from evensong.sim.groups.acts import GROUPS, PRIVATE, SEATS, Act, Acts, Clients
from evensong.sim.groups.run import run_setup
from evensong.sim.run import Outcome
from evensong.sim.setup import CLIENTS, TRANSIS, Setup, derive
from evensong.sim.swarm import MS, swarm

DRAW: Final = 1  # the stream of this file, apart from that of the run itself
SERVE: Final = 2  # and that of services, where an engine has more than two
SHARES: Final = ((0.0, 0.0), (0.3, 0.1), (0.3, 0.1), (0.7, 0.0), (0.1, 0.6))  # causal, basic


def run(seed: int, nodes: int | None = None, messages: int | None = None) -> Outcome:
    """Run what a seed decides, with clients and with every check."""
    return run_setup(draw(seed, nodes, messages))


def draw(seed: int, nodes: int | None = None, messages: int | None = None) -> Setup:
    """Draw a run with clients from a seed."""
    return with_clients(swarm(seed, nodes, 0), messages)


def with_clients(setup: Setup, messages: int | None = None) -> Setup:
    """Draw what clients do in a run that is drawn."""
    seed = setup.options.seed
    rng = derive(seed, CLIENTS, DRAW)
    total = messages if messages is not None else rng.randint(150, 300)
    calm_at = max(fault.at_us for fault in setup.plan if isinstance(fault, Calm))
    clients = Clients(
        acts=_Acts(rng, setup.options.nodes, calm_at).draw(total),
        payload_max=rng.choice((512, 600, 1_300)),
        chunk_bytes=rng.choice((64, 200, 2_000)),
        pause_us=rng.choice((50, 2_000, 10_000)),
        primary_wins=rng.random() < 0.25,
    )
    if setup.options.engine == TRANSIS:
        clients = replace(clients, acts=_with_services(derive(seed, CLIENTS, SERVE), clients.acts))
    return replace(setup, clients=clients)


def _with_services(rng: Random, drawn: Acts) -> Acts:
    """Draw who asks for less than agreed delivery; everything else stays as it was drawn."""
    causal, basic = rng.choice(SHARES)
    served = []
    for act in drawn:
        lot = rng.random()
        if not act.safe and act.kind in (acts.SEND, acts.ASK):
            is_causal = lot < causal
            is_basic = not is_causal and lot < causal + basic
            served.append(replace(act, causal=is_causal, basic=is_basic))
        else:
            served.append(act)
    return tuple(served)


class _Acts:
    """Draws what clients do."""

    def __init__(self, rng: Random, ids: tuple[ProcessorId, ...], calm_at: int) -> None:
        self.rng = rng
        self.ids = ids
        self.seats = [
            (node, seat)
            for node in ids
            for seat in range(SEATS)
            if rng.random() < rng.choice((0.4, 0.7, 1.0))
        ] or [(ids[0], 0)]
        self.end = calm_at + 10 * MS
        self.safe = rng.choice((0.0, 0.1, 0.5))
        self.large = rng.choice((0.0, 0.1, 0.4))
        self.comings = rng.choice((0.02, 0.1, 0.2))  # joins, leaves and closes among the acts
        self.moments = [rng.randrange(calm_at) for _ in range(rng.choice((0, 0, 4)))]

    def draw(self, total: int) -> tuple[Act, ...]:
        rng = self.rng
        drawn: list[Act] = []
        sent = 0
        while sent < total:
            node, seat = rng.choice(self.seats)
            at = self._when()
            lot = rng.random()
            if lot < self.comings:
                drawn.append(self._coming(at, node, seat))
            else:
                drawn.append(
                    self._message(at, node, seat, min(total - sent, rng.choice((1, 1, 3))))
                )
                sent += drawn[-1].count
        return tuple(sorted(drawn, key=lambda act: (act.at_us, act.node, act.seat)))

    def _when(self) -> int:
        rng = self.rng
        if self.moments and rng.random() < 0.7:
            return rng.choice(self.moments) + rng.randrange(5 * MS)
        return rng.randrange(self.end)

    def _coming(self, at: int, node: ProcessorId, seat: int) -> Act:
        rng = self.rng
        kind = rng.choice((acts.JOIN, acts.JOIN, acts.JOIN, acts.LEAVE, acts.LEAVE, acts.CLOSE))
        groups = () if kind == acts.CLOSE else (rng.choice(GROUPS),)
        return Act(at, node, seat, kind, groups)

    def _message(self, at: int, node: ProcessorId, seat: int, count: int) -> Act:
        rng = self.rng
        groups = tuple(rng.sample(GROUPS, rng.choice((1, 1, 1, 2, 3))))
        if rng.random() < 0.1:
            groups = (*groups[1:], f"{PRIVATE}{rng.choice(self.ids)}.{rng.randrange(SEATS)}")
        size = rng.choice((8, 40, 90))
        if rng.random() < self.large:
            size = rng.randint(600, 6_000)
        kind = acts.ASK if rng.random() < 0.1 else acts.SEND
        is_safe = rng.random() < self.safe
        return Act(at, node, seat, kind, groups, size, count, is_safe, rng.random() < 0.1)
