"""Both engines on real daemons, side by side: how much they carry, and how long a message takes.

Daemons on loopback, sealed, and one client process at each, which all send. First as fast as they
are taken: what one client hears is the throughput. Then at a rate that asks little, each when
chance has it: how long an agreed message takes from being due to its sender's own delivery.
Engines take turns, so that a machine that slows down slows both.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from evensong.bench.groups import Load, Place, daemons, load_with, quantile
from evensong.daemon.control import ask

RATE: Final = 300.0  # messages a second over all clients, for latency


class Beside(NamedTuple):
    """What one turn of one engine came to."""

    delivered_per_s: float  # at one client, the median
    least_per_s: float  # at the client that heard least
    cpu_us: float  # of all daemons and clients, for each message, at full speed
    resent: int  # packets that were sent again
    samples: int
    p50_us: int  # of agreed messages, at the rate
    p99_us: int
    view_changes: int  # at all daemons, while they were loaded


def measure(engine: str, nodes: int, size: int, seconds: float) -> Beside:
    """Start daemons of an engine, load them fully, then a little, and stop them."""
    with daemons(nodes, engine) as places:
        before = _configurations(places)
        full = load_with(places, Load(size, "agreed", "batch", 0), seconds)
        calm = load_with(places, Load(size, "agreed", "message", RATE, "chance"), seconds)
        return Beside(
            full.delivered_per_s,
            full.least_per_s,
            full.cpu_us,
            full.resent + calm.resent,
            len(calm.samples_us),
            quantile(calm.samples_us, 0.5),
            quantile(calm.samples_us, 0.99),
            _configurations(places) - before,
        )


def _configurations(places: Sequence[Place]) -> int:
    total = 0
    for place in places:
        count = ask(place.state, {"do": "status"})["configurations"]
        assert isinstance(count, int)
        total += count
    return total
