"""Rings of many daemons on this machine, on loopback: flooded, nearly idle, and hurt."""

import base64
import random
import time
from typing import NamedTuple

from bench.failover import suspicions
from bench.local import Ring, local_ring
from bench.peers.waiting import now_us, wait_for
from evensong.daemon.control import ask

WARM_UP_S = 1.0
LIGHT_PAUSE_S = 0.003  # between messages; a ring is idle after thirty rotations without
LIGHT = base64.b64encode(bytes(100)).decode()
MS = 1_000


class Lasts(NamedTuple):
    """How much of everything."""

    seconds: float = 3.0  # of flood
    kills: int = 3
    warm_up_s: float = WARM_UP_S


class Grown(NamedTuple):
    """What a ring did in one turn."""

    packets_per_s: float  # at one daemon
    rotation_us: float
    packets_a_rotation: float
    rotation_p99_us: int
    idle_rotation_us: float  # with a message now and then, which keeps the token going
    cpu_us: float  # of all daemons, for a packet
    suspected: int  # rings of all that ended in the flood, without anybody's lateness
    excused: int  # and with it
    failover_ms: list[float]  # of each kill, until the last survivor goes on
    recovery_ms: list[float]  # the part of it after the first has noticed
    disturbed: int  # kills into a ring that was broken already, not counted


def grow(nodes: int, lasts: Lasts) -> Grown:
    """Take one turn with so many daemons."""
    with local_ring(nodes) as ring:
        patience = ring.settings().parameters.patience()
        ring.flood()
        time.sleep(lasts.warm_up_s)
        began_us = now_us()
        flooded = _look(ring, lasts.seconds)
        seen = suspicions(ring.breaks(began_us), began_us, nodes)
        rotation = ring.status(1)["rotation"]
        assert isinstance(rotation, dict)
        ring.flood(0)
        excused = sum(one.lag_us > patience // 3 for one in seen)
        idle = _lightly(ring, min(1.5, lasts.seconds))
        hurt = _hurt(ring, lasts.kills)
        return Grown(
            flooded.packets / flooded.seconds,
            flooded.rotation_us(),
            flooded.packets / max(1, flooded.visits),
            rotation["p99_us"],
            idle.rotation_us(),
            1e6 * flooded.cpu_s / max(1, flooded.packets),
            len(seen) - excused,
            excused,
            [one.took_us / MS for one in hurt.kills],
            [one.recovery_us / MS for one in hurt.kills if one.recovery_us is not None],
            hurt.disturbed,
        )


class Looked(NamedTuple):
    """What one daemon did in a while, and all of them used."""

    seconds: float
    packets: int
    visits: int
    cpu_s: float

    def rotation_us(self) -> float:
        return 1e6 * self.seconds / max(1, self.visits)


def _look(ring: Ring, seconds: float) -> Looked:
    began, cpu_before, before = time.monotonic(), ring.cpu_s(), ring.status(1)
    time.sleep(seconds)
    after, cpu_after, ended = ring.status(1), ring.cpu_s(), time.monotonic()
    return Looked(
        ended - began,
        _more(after, before, "delivered"),
        _more(after, before, "token_visits"),
        cpu_after - cpu_before,
    )


def _more(after: dict[str, object], before: dict[str, object], name: str) -> int:
    now, then = after[name], before[name]
    assert isinstance(now, int)
    assert isinstance(then, int)
    return now - then


def _lightly(ring: Ring, seconds: float) -> Looked:
    """Have one after the other send a message, so that the token keeps going round."""
    began, before = time.monotonic(), ring.status(1)
    number = 0
    while time.monotonic() < began + seconds:
        node = 1 + number % len(ring.nodes())
        ask(ring.state(node), {"do": "send", "payloads": [LIGHT]})
        number += 1
        time.sleep(LIGHT_PAUSE_S)
    after, ended = ring.status(1), time.monotonic()
    visits = _more(after, before, "token_visits")
    return Looked(ended - began, _more(after, before, "delivered"), visits, 0.0)


class Kill(NamedTuple):
    """One kill: when the last survivor went on since then, and since the first noticed."""

    took_us: int
    recovery_us: int | None


class Hurt(NamedTuple):
    """Some kills; those into a ring that was broken already tell nothing."""

    kills: list[Kill]
    disturbed: int


def _hurt(ring: Ring, kills: int) -> Hurt:
    rng = random.Random(1)
    seen: list[Kill] = []
    disturbed = 0
    for number in range(kills):
        victim = 1 + number % len(ring.nodes())
        began = now_us()
        ring.flood()
        time.sleep(rng.uniform(0.3, 0.6))
        killed_at = ring.kill(victim)
        survivors = ring.running()

        def is_over(victim: int = victim, survivors: list[int] = survivors) -> bool:
            return all(ring.view_without(victim, node) is not None for node in survivors)

        wait_for(f"{len(survivors)} survivors go on", is_over)
        last = max(ring.view_without(victim, node) or 0 for node in survivors)
        breaks = ring.breaks(began)
        if any(one.at < killed_at for one in breaks):
            disturbed += 1
        else:
            recovery = last - breaks[0].at if breaks else None
            seen.append(Kill(last - killed_at, recovery))
        ring.flood(0)
        ring.start_again(victim)
    return Hurt(seen, disturbed)
