"""How fast the simulator is: datagrams a second on one thread, on a busy ring of five.

Three things are measured in turn, several times: a floor (the same number of events through a bare
heap, which tells how fast the machine is just now), the simulator with nothing looking on, and the
simulator with invariants after every step and the whole history kept. CPU time is counted, so that
other work on the machine disturbs as little as it can. The last line is one JSON object.

    python bench/simulator.py [--quick]
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from evensong.sim.check import Invariants
from evensong.sim.engines import TOTEM
from evensong.sim.history import History
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from evensong.sim.world import World

PROCESSORS = 5
STEP_US = 1_000
UNITS = 4  # a processor and step: the ring is busy, its window is not exhausted
OFF_MIN = 40_000  # datagrams a second that we hold ourselves to
ON_SHARE_MIN = 0.25


class Speed(NamedTuple):
    """One measurement."""

    events: int
    seconds: float

    def rate(self) -> float:
        return self.events / self.seconds


def busy_ring(virtual_ms: int) -> Setup:
    nodes = tuple(range(1, PROCESSORS + 1))
    workload = tuple(
        Burst(at * STEP_US, node, UNITS, body_max=64, safe=0.25)
        for at in range(virtual_ms)
        for node in nodes
    )
    return Setup(Options(nodes, weather=Weather(latency_us=50, jitter_us=20)), (), workload)


def simulate(setup: Setup, virtual_ms: int, make: Callable[[Setup], World]) -> Speed:
    world = make(setup)
    started = time.process_time()
    world.run(virtual_ms * STEP_US)
    seconds = time.process_time() - started
    assert world.deliveries > 0
    return Speed(world.datagrams, seconds)


def unwatched(setup: Setup) -> World:
    return World(setup, TOTEM)


def watched(setup: Setup) -> World:
    return World(setup, TOTEM, History(), Invariants())


def bare_heap(events: int) -> Speed:
    """Push and pop as many entries as the simulator has datagrams, some 30 waiting at a time."""
    heap: list[tuple[int, int, bytes]] = []
    datagram = bytes(100)
    started = time.process_time()
    for number in range(events):
        heappush(heap, (number * 7919 % 1_000 + number, number, datagram))
        if number >= 30:
            heappop(heap)
    return Speed(events, time.process_time() - started)


def said(name: str, speeds: list[Speed]) -> str:
    rates = sorted(speed.rate() for speed in speeds)
    return (
        f"{name:<34} {statistics.median(rates):>11,.0f}/s   "
        f"({rates[0]:,.0f} to {rates[-1]:,.0f}, {len(rates)} times)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the simulator.")
    parser.add_argument(
        "--quick", action="store_true", help="a second or two instead of half a minute"
    )
    args = parser.parse_args()
    virtual_ms, times = (150, 3) if args.quick else (600, 7)
    setup = busy_ring(virtual_ms)
    simulate(busy_ring(50), 50, unwatched)  # what is imported and compiled lazily is now
    floor: list[Speed] = []
    off: list[Speed] = []
    on: list[Speed] = []
    for _ in range(times):  # interleaved: a machine that slows down slows all three
        gc.collect()
        off.append(simulate(setup, virtual_ms, unwatched))
        gc.collect()
        on.append(simulate(setup, virtual_ms, watched))
        floor.append(bare_heap(off[-1].events))
    assert len({speed.events for speed in off + on}) == 1, "looking on changes nothing"
    ratio = statistics.median(b.rate() / a.rate() for a, b in zip(off, on, strict=True))
    print(f"{PROCESSORS} processors, one thread, {off[0].events:,} datagrams a run, CPU time")
    print(said("floor: a bare heap, events", floor))
    print(said("datagrams, nothing looking on", off))
    print(said("datagrams, invariants and history", on))
    print(f"looking on leaves {ratio:.0%} of the speed")
    result = {
        "processors": PROCESSORS,
        "datagrams": off[0].events,
        "repetitions": times,
        "floor_per_s": round(statistics.median(speed.rate() for speed in floor)),
        "off_per_s": round(statistics.median(speed.rate() for speed in off)),
        "on_per_s": round(statistics.median(speed.rate() for speed in on)),
        "off_spread": [round(speed.rate()) for speed in sorted(off, key=Speed.rate)],
        "on_spread": [round(speed.rate()) for speed in sorted(on, key=Speed.rate)],
        "on_to_off": round(ratio, 3),
        "off_min": OFF_MIN,
        "on_to_off_min": ON_SHARE_MIN,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
