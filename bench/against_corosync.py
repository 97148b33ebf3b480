"""Messages a second from client to clients: beside corosync, in the same run.

Three daemons in network namespaces of their own, paths of 1500 bytes, a client at each, all of
them sending messages of 100 bytes, agreed; what one client hears is counted. Both are encrypted
(corosync by its transport `knet`). The systems take turns: ours by batches, ours message by
message, corosync. Its client is written in C and keeps 500 messages undelivered.

    python -m bench.against_corosync [--turns 5] [--seconds 4] [--size 100] [--json]

Needs root, corosync with its headers, gcc and iproute2; exits with 3 if something is missing, and
with 1 if a bar is missed.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.peers.client import compile_client
from bench.peers.command import parser_of, run
from bench.peers.corosync import Corosync
from bench.peers.figures import Noise
from bench.peers.network import Network
from bench.peers.ours import Evensong
from evensong.bench.groups import Load, Place, load_with

NODES = 3
WARM_UP_S = 2.0  # corosync's client tells its count once a second
TRANSPORT = "knet"
RATIOS = {"batch": 5.0, "message": 1.5}  # ours to corosync's, medians, for messages of 100 bytes
JUDGED_SIZE = 100


class Result(NamedTuple):
    """Everything that one run has shown."""

    size: int
    rates: dict[str, list[float]]  # messages a second at one client, by turn
    noise: dict[str, float]

    def rate(self, name: str) -> float:
        return statistics.median(self.rates[name])

    def ratio(self, name: str) -> float:
        return self.rate(name) / max(1.0, self.rate("corosync"))

    def bars(self) -> dict[str, bool]:
        if self.size != JUDGED_SIZE:
            return {}
        return {
            f"{api}: at least {least} of corosync's rate": self.ratio(api) >= least
            for api, least in RATIOS.items()
        }

    def as_json(self) -> str:
        told = {
            "size": self.size,
            "delivered_per_s": {name: self.rate(name) for name in self.rates},
            "delivered_per_s_all": self.rates,
            "ratio": {api: round(self.ratio(api), 3) for api in RATIOS},
            "noise": self.noise,
            "bars": self.bars(),
        }
        return json.dumps(told)

    def table(self) -> str:
        lines = [
            f"{NODES} daemons, a client at each, messages of {self.size} bytes, encrypted",
            f"{'':<10}{'messages/s':>12}{'least':>10}{'most':>10}{'ratio':>8}",
        ]
        for name, rates in self.rates.items():
            lines.append(
                f"{name:<10}{self.rate(name):>12,.0f}{min(rates):>10,.0f}{max(rates):>10,.0f}"
                f"{self.ratio(name):>8.2f}"
            )
        noise = self.noise
        lines.append(
            f"machine: {noise['cores']} cores, others used {noise['others_cores']}, "
            f"stolen {noise['stolen_cores']}"
        )
        lines += [f"{'holds ' if holds else 'MISSED'}  {bar}" for bar, holds in self.bars().items()]
        return "\n".join(lines)


def ours(cluster: Evensong, load: Load, seconds: float) -> float:
    places = [Place(cluster.state(node), cluster.pid(node)) for node in range(1, NODES + 1)]
    return load_with(places, load, seconds).delivered_per_s


def theirs(cluster: Corosync, size: int, seconds: float) -> float:
    cluster.flood(size)
    time.sleep(WARM_UP_S)
    before, began = _told_next(cluster)
    time.sleep(seconds)
    after, ended = _told_next(cluster)
    cluster.stop_flood()
    return (after - before) / (ended - began)


def _told_next(cluster: Corosync) -> tuple[int, float]:
    """Wait until the client tells its count again; return it, and when."""
    before = cluster.delivered()
    while (count := cluster.delivered()) == before:
        time.sleep(0.005)
    return count, time.monotonic()


def measure(turns: int, seconds: float, size: int, *, is_realtime: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made, Network(NODES) as network:
        directory = Path(made)
        client = compile_client(directory)
        noise = Noise()
        rates: dict[str, list[float]] = {name: [] for name in (*RATIOS, "corosync")}
        for number in range(turns):
            for name, seen in rates.items():
                print(f"{name}: turn {number + 1} of {turns}", file=sys.stderr, flush=True)
                home = directory / f"{name}-{number}"
                if name == "corosync":
                    with Corosync(
                        network, home, client, TRANSPORT, is_realtime=is_realtime
                    ) as corosync:
                        seen.append(theirs(corosync, size, seconds))
                else:
                    with Evensong(network, home, client, "lan", is_realtime=is_realtime) as cluster:
                        seen.append(ours(cluster, Load(size, "agreed", name, 0), seconds))
        return Result(size, rates, noise.so_far())


def main() -> int:
    parser = parser_of(
        "Measure messages from client to clients beside corosync.",
        "python -m bench.against_corosync --turns 5 --json",
    )
    parser.add_argument("--turns", type=int, default=5, help="of each system (default: 5)")
    parser.add_argument("--seconds", type=float, default=4, help="of each turn (default: 4)")
    parser.add_argument("--size", type=int, default=JUDGED_SIZE, help="of a message (default: 100)")
    args = parser.parse_args()
    return run(
        lambda: measure(args.turns, args.seconds, args.size, is_realtime=args.realtime),
        as_json=args.json,
    )


if __name__ == "__main__":
    sys.exit(main())
