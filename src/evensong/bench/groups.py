"""How many messages a second the members of one group hear, end to end, and after how long.

Daemons on loopback, sealed, and one client process at each; all clients send. Rates are of what one
client hears. Counting begins after a warm-up and is cut at both ends by the same clock.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from evensong.bench.member import Task
from evensong.bench.ring import cpu_s
from evensong.cli.up import Cluster, lay_out
from evensong.core.engine import TOTEM
from evensong.daemon.control import ask
from evensong.errors import Unreachable

WARM_UP_S: Final = 1.0
READY_S: Final = 30.0
SETTINGS: Final = 'trace = "off"\n'
Meanwhile: TypeAlias = Callable[[Sequence[int], Sequence[int]], None]  # daemons, clients: pids


class Load(NamedTuple):
    """What is sent."""

    size: int
    service: str
    api: str
    rate: float  # messages a second over all clients; 0: as fast as they are taken
    arrivals: str = "steady"  # or chance: at a rate, when messages are due


class Heard(NamedTuple):
    """What came of it."""

    delivered_per_s: float  # at one client, the median
    least_per_s: float  # at the client that heard least
    samples_us: list[int]  # from sending, or being due, to the sender's own delivery, ascending
    cpu_us: float  # of all daemons and clients, for each message that was ordered
    resent: int  # packets that were sent again
    daemons_cpu_us: float  # of the daemons alone, for each message that was ordered
    beside_cpu_us: float  # of processes that stood beside, for each message that was ordered


class Place(NamedTuple):
    """A daemon, and how to start a client beside it."""

    state: Path
    pid: int
    within: Sequence[str] = ()  # what to put before a client's command


def measure(nodes: int, load: Load, seconds: float) -> Heard:
    """Start a cluster here, load it, and stop it."""
    with daemons(nodes, TOTEM) as places:
        return load_with(places, load, seconds)


@contextmanager
def daemons(nodes: int, engine: str) -> Iterator[list[Place]]:
    """Start a cluster here that is one ring, or one view, and stop it in the end."""
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
        settings = f'{SETTINGS}engine = "{engine}"\n'
        configs = lay_out(Path(made), nodes, "lan", is_insecure=False, extra=settings)
        cluster = Cluster(configs)
        try:
            cluster.start()
            cluster.wait_for_one_ring()
            yield [
                Place(cluster.state_of(config), cluster.processes[config].pid) for config in configs
            ]
        finally:
            cluster.stop()


def _nothing_else(_daemons: Sequence[int], _clients: Sequence[int]) -> None:
    """Let them work."""


def load_with(
    places: Sequence[Place],
    load: Load,
    seconds: float,
    beside: Sequence[int] = (),
    meanwhile: Meanwhile = _nothing_else,
) -> Heard:
    """Load daemons that are one ring; return what their clients heard.

    `beside` are processes that are looked at meanwhile: of daemons without such a client.
    `meanwhile` is called when counting begins, and must not take long.
    """
    members = [_start(number, place, places, load) for number, place in enumerate(places, start=1)]
    try:
        for member in members:
            if _line(member) != "ready":
                raise Unreachable("bench: a client did not come up; see what it said above")
        return _count(members, places, seconds, beside, meanwhile)
    finally:
        for member in members:
            member.kill()
            member.communicate()  # closes its streams as well


def _start(
    number: int, place: Place, places: Sequence[Place], load: Load
) -> "subprocess.Popen[str]":
    task = Task(
        f"unix://{place.state}/client.sock",
        f"bench-{number}",
        len(places),
        load.size,
        load.service,
        load.api,
        load.rate / len(places),
        load.arrivals,
    )
    return subprocess.Popen(
        [*place.within, sys.executable, "-m", "evensong.bench.member", json.dumps(task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for us; we end them
    )


def _line(member: "subprocess.Popen[str]") -> str:
    assert member.stdout is not None
    return member.stdout.readline().strip()


def _count(
    members: "Sequence[subprocess.Popen[str]]",
    places: Sequence[Place],
    seconds: float,
    beside: Sequence[int],
    meanwhile: Meanwhile,
) -> Heard:
    now = time.monotonic_ns()
    span = (now + int(WARM_UP_S * 1e9), now + int((WARM_UP_S + seconds) * 1e9))
    for member in members:
        assert member.stdin is not None
        member.stdin.write(json.dumps(span) + "\n")
        member.stdin.flush()
    daemons, clients = [place.pid for place in places], [member.pid for member in members]
    time.sleep(max(0.0, span[0] - time.monotonic_ns()) / 1e9)
    groups = (daemons, clients, [*beside])
    before, resent_before = [*map(cpu_s, groups)], _resent(places)
    meanwhile(daemons, clients)
    time.sleep(max(0.0, span[1] - time.monotonic_ns()) / 1e9)
    used = [now - then for now, then in zip(map(cpu_s, groups), before, strict=True)]
    daemons_s, clients_s, beside_s = used
    resent = _resent(places) - resent_before
    told = [json.loads(_line(member) or "{}") for member in members]
    if not all(told):
        raise Unreachable("bench: a client failed; see what it said above")
    counts = [one["delivered"] for one in told]
    middle = statistics.median(counts)
    return Heard(
        middle / seconds,
        min(counts) / seconds,
        sorted(sample for one in told for sample in one["samples_us"]),
        1e6 * (daemons_s + clients_s) / max(1, middle),
        resent,
        1e6 * daemons_s / max(1, middle),
        1e6 * beside_s / max(1, middle),
    )


def _resent(places: Sequence[Place]) -> int:
    total = 0
    for place in places:
        resent = ask(place.state, {"do": "status"})["resent"]
        assert isinstance(resent, int)
        total += resent
    return total


def quantile(ascending: Sequence[int], share: float) -> int:
    """Return the sample below which so much of all lies; 0 if there is none."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else 0


def told(nodes: int, load: Load, turns: Sequence[Heard], seconds: float) -> dict[str, object]:
    """Return the figures of several turns as one object."""
    rates = [turn.delivered_per_s for turn in turns]
    samples = sorted(sample for turn in turns for sample in turn.samples_us)
    middle: Callable[[Sequence[float]], float] = statistics.median
    return {
        "nodes": nodes,
        "size": load.size,
        "service": load.service,
        "api": load.api,
        "rate": load.rate,
        "seconds": seconds,
        "turns": len(turns),
        "delivered_per_s": middle(rates),
        "delivered_per_s_all": rates,
        "least_per_s": min(turn.least_per_s for turn in turns),
        "mb_per_s": middle(rates) * load.size / 1e6,
        "samples": len(samples),
        "p50_us": quantile(samples, 0.5),
        "p99_us": quantile(samples, 0.99),
        "cpu_us_per_message": middle([turn.cpu_us for turn in turns]),
        "retransmissions": sum(turn.resent for turn in turns),
    }
