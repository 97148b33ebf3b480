"""Load made inside a daemon, for tests and measurements: as much as the ring takes."""

from collections.abc import Iterator

from evensong.core.effects import Packet, Service
from evensong.daemon.driver import Driver, clock

AHEAD = 2  # visits' worth of packets that wait at any time


def packets(service: Service, size: int, until: int) -> Iterator[Packet]:
    """Yield packets of so many bytes until a point in time."""
    body = bytes(size)  # the unit around it has a number
    while clock() < until:
        yield Packet(service, body)


def flood(driver: Driver, service: Service, size: int, seconds: float) -> None:
    """Keep this daemon's outbox filled for so long; none stops an earlier flood."""
    until = clock() + int(seconds * 1_000_000)
    driver.feed(packets(service, size, until), AHEAD * driver.core.machine.parameters.messages_max)
