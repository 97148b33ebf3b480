"""What each thing costs: a trace, the seal, safe delivery, filtering, a state, multicast.

Three daemons on loopback, a client at each; of five and more daemons three have one. Ways take
turns, and a figure is the median of its turns. Needs no root and nothing but evensong.

    python -m bench.costs [COST …] [--turns 5] [--seconds 3] [--json]
"""

import argparse
import json
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from evensong.bench.groups import Load, Place, load_with, quantile
from evensong.bench.ring import cpu_s
from evensong.cli.up import Cluster, lay_out
from evensong.client.message import Message
from evensong.errors import EvensongError
from evensong.sync import connect

NODES = 3
SIZE = 100
MIB = 1 << 20
STATE_MIB = 16
FLOOD = Load(SIZE, "agreed", "batch", 0)
SLOW = Load(SIZE, "agreed", "message", 300)
LARGER = Load(1_024, "agreed", "batch", 0)
CROWDS = (5, 8)  # daemons
MULTICAST = 'multicast = "239.255.101.7:{port}"\nmulticast_interface = "127.0.0.1"'
LEVELS = ("off", "views", "digests", "events")
Figures = dict[str, float]


class Way(NamedTuple):
    """One way of doing it, and what is measured of a turn."""

    settings: str
    is_insecure: bool
    take: "Callable[[list[Place], float], Figures]"
    nodes: int = NODES


def rate(load: Load) -> "Callable[[list[Place], float], Figures]":
    """Return what takes the rate of a load, and the daemons' time for a message."""

    def take(places: list[Place], seconds: float) -> Figures:
        clients, others = places[:NODES], places[NODES:]
        heard = load_with(clients, load, seconds, [place.pid for place in others])
        return {
            "delivered_per_s": heard.delivered_per_s,
            "daemons_us": heard.daemons_cpu_us + heard.beside_cpu_us,
            "p50_us": quantile(heard.samples_us, 0.5),
        }

    return take


def bystander(group: str) -> "Callable[[list[Place], float], Figures]":
    """Return what takes the time of a daemon whose client is in another group, or in none."""

    def take(places: list[Place], seconds: float) -> Figures:
        *active, watched = places
        if group:
            with connect(watched.state, name="other") as es, es.join(group):
                return _watched(active, watched, seconds)
        return _watched(active, watched, seconds)

    return take


def _watched(active: list[Place], watched: Place, seconds: float) -> Figures:
    heard = load_with(active, FLOOD, seconds, [watched.pid])
    return {"delivered_per_s": heard.delivered_per_s, "daemon_us": heard.beside_cpu_us}


def member(places: list[Place], seconds: float) -> Figures:
    """Take the time of a daemon whose client is in the group."""
    heard = load_with(places, FLOOD, seconds)
    return {
        "delivered_per_s": heard.delivered_per_s,
        "daemon_us": heard.daemons_cpu_us / len(places),
    }


class Kept:
    """A replica of many bytes."""

    def __init__(self, size: int) -> None:
        self.state = bytes(size)

    def snapshot(self) -> bytes:
        return self.state

    def restore(self, snapshot: bytes) -> None:
        self.state = snapshot

    def merge(self, snapshots: list[bytes]) -> None:
        self.state = max(snapshots, key=len)


def transfer(places: list[Place], _seconds: float) -> Figures:
    """Hand a state to who joins; return how long that took, and the daemons' time for it."""
    donor, joiner = Kept(STATE_MIB * MIB), Kept(0)
    pids = [place.pid for place in places]
    with (
        connect(places[0].state, name="donor") as first,
        connect(places[1].state, name="joiner") as second,
        first.join("kept", state=donor) as theirs,
    ):

        def read() -> None:
            while not isinstance(theirs.next_event(), Message):
                pass

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        began, before = time.monotonic(), cpu_s(pids)
        with second.join("kept", state=joiner) as mine:
            while not joiner.state:
                mine.next_event()
            lasted, used = time.monotonic() - began, cpu_s(pids) - before
            second.send("kept", b"done").ordered()
            reading.join()
    return {"mib_per_s": STATE_MIB / lasted, "daemons_ms_per_mib": 1e3 * used / STATE_MIB}


COSTS: Mapping[str, Mapping[str, Way]] = {
    "tracing": {level: Way(f'trace = "{level}"', False, rate(FLOOD)) for level in LEVELS},
    "sealing": {
        "sealed": Way("", False, rate(FLOOD)),
        "insecure": Way("", True, rate(FLOOD)),
    },
    "safe": {
        "agreed": Way("", False, rate(FLOOD)),
        "safe": Way("", False, rate(FLOOD._replace(service="safe"))),
        "agreed at 300/s": Way("", False, rate(SLOW)),
        "safe at 300/s": Way("", False, rate(SLOW._replace(service="safe"))),
    },
    "filtering": {
        "a member": Way("", False, member),
        "no client": Way("", False, bystander("")),
        "in another group": Way("", False, bystander("other")),
    },
    "multicast": {
        f"{nodes} {said}": Way(settings, False, rate(LARGER), nodes)
        for nodes in CROWDS
        for said, settings in (("unicast", ""), ("multicast", MULTICAST))
    },
    "state": {f"{STATE_MIB} MiB": Way("", False, transfer)},
}


def free_port() -> int:
    """Return a port that is free now, for a group to be heard at."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def daemons(way: Way) -> Iterator[list[Place]]:
    """Start a cluster as a way has it."""
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
        settings = way.settings.replace("{port}", str(free_port()))
        configs = lay_out(Path(made), way.nodes, "lan", is_insecure=way.is_insecure, extra=settings)
        cluster = Cluster(configs)
        try:
            cluster.start()
            cluster.wait_for_one_ring()
            yield [
                Place(cluster.state_of(config), cluster.processes[config].pid) for config in configs
            ]
        finally:
            cluster.stop()


def measure(names: Sequence[str], turns: int, seconds: float) -> dict[str, dict[str, Figures]]:
    """Return the medians of each way of each cost."""
    told: dict[str, dict[str, Figures]] = {}
    for name in names:
        seen: dict[str, list[Figures]] = {way: [] for way in COSTS[name]}
        for turn in range(turns):
            for said, way in COSTS[name].items():
                print(f"{name}, {said}: turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
                with daemons(way) as places:
                    seen[said].append(way.take(places, seconds))
        told[name] = {said: medians(figures) for said, figures in seen.items()}
    return told


def medians(turns: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: statistics.median([turn[name] for turn in turns]) for name in turns[0]}


def table(told: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the figures for people; each beside that of the first way of its kind."""
    lines: list[str] = []
    for name, ways in told.items():
        first = next(iter(ways.values()))
        for said, figures in ways.items():
            shown = [
                f"{figure} {value:,.2f}"
                + (f" ({value / first[figure]:.2f})" if first.get(figure) else "")
                for figure, value in figures.items()
            ]
            lines.append(f"{name:<10}{said:<18}{', '.join(shown)}")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Measure what each thing costs.",
        epilog="example: python -m bench.costs tracing sealing --turns 5 --json",
    )
    parser.add_argument("names", nargs="*", metavar="COST", help=f"of {', '.join(COSTS)} (all)")
    parser.add_argument("--turns", type=int, default=5, help="of each way (default: 5)")
    parser.add_argument("--seconds", type=float, default=3, help="of each turn (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    args = parser.parse_args(words)
    unknown = set(args.names) - set(COSTS)
    if unknown:
        parser.error(f"{min(unknown)} is none of {', '.join(COSTS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        told = measure(args.names or list(COSTS), args.turns, args.seconds)
    except EvensongError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    print(json.dumps(told) if args.json else table(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
