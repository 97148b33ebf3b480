"""Load made inside a daemon, for tests and measurements: as much as the ring takes."""

from collections.abc import Iterator
from itertools import repeat

from evensong.core.effects import Service
from evensong.core.groups.packet import FOREIGN
from evensong.daemon.driver import Driver, clock

AHEAD = 2  # visits' worth of packets that wait at any time
LOOK_EVERY = 16  # messages between two looks at the clock


def bodies(size: int, until: int) -> Iterator[bytes]:
    """Yield so many bytes at a time, until a point in time."""
    body = FOREIGN + bytes(size)  # the unit around it has a number
    while clock() < until:
        yield from repeat(body, LOOK_EVERY)


def flood(driver: Driver, service: Service, size: int, seconds: float) -> None:
    """Keep this daemon's outbox filled for so long; none stops an earlier flood."""
    until = clock() + int(seconds * 1_000_000)
    ahead = AHEAD * driver.core.engine.machine.parameters.messages_max
    driver.feed(service, bodies(size, until), ahead)
