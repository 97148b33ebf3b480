"""How many datagrams a second the simulator carries, one thread, checks and history off.

Counted is processor time, so that a busy machine does not spoil the figure.

    python bench/simulator.py [processors]

Three loads: a ring that is mostly idle, one with some traffic and one that is saturated.
"""

import gc
import sys
import time

from evensong.sim.engines import TOTEM
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from evensong.sim.world import World

WARM_UP_US = 20_000
END_US = 500_000
EVERY_US = 10_000


def measure(processors: int, units: int) -> tuple[int, float]:
    nodes = tuple(range(1, processors + 1))
    times = range(0, END_US, EVERY_US) if units else ()
    workload = tuple(Burst(at, node, units) for at in times for node in nodes)
    setup = Setup(Options(nodes, weather=Weather(jitter_us=50)), (), workload)
    world = World(setup, TOTEM)
    world.run(WARM_UP_US)
    before = world.datagrams
    started = time.process_time()
    world.run(END_US)
    return world.datagrams - before, time.process_time() - started


def main() -> None:
    processors = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    gc.disable()
    for name, units in (("idle", 0), ("some", 20), ("saturated", 200)):
        datagrams, seconds = max((measure(processors, units) for _ in range(3)), key=_rate)
        rate = datagrams / seconds
        print(f"{processors} processors, {name:<10} {datagrams:>8} datagrams {rate:>9.0f}/s")


def _rate(measured: tuple[int, float]) -> float:
    return measured[0] / measured[1]


if __name__ == "__main__":
    main()
