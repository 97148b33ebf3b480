"""Load made inside a daemon, for tests and measurements: as much as the ring takes."""

from evensong.core.effects import Packet, Service
from evensong.core.groups.packet import FOREIGN
from evensong.daemon.driver import Driver, clock

AHEAD = 2  # visits' worth of packets that wait at any time


def flood(driver: Driver, service: Service, size: int, seconds: float) -> None:
    """Keep this daemon's outbox filled for so long; none stops an earlier flood."""
    until = clock() + int(seconds * 1_000_000)
    packet = Packet(service, FOREIGN + bytes(size))  # the unit around it gets a number

    def more(count: int) -> list[Packet]:
        return [packet] * count if clock() < until else []

    driver.feed(more, AHEAD * driver.core.engine.machine.parameters.messages_at_once())
