"""What an idle ring costs, and how fast it wakes: beside corosync, in the same run.

Three daemons in network namespaces of their own have nothing to do: the CPU time of each is taken.
Then one of them is handed a message of 100 bytes a hundred times a second, and the time until that
daemon delivers it is taken, from the moment at which it was due, as its client sees it. The first
node is where the token rests; the second has to ask for it. The systems take turns.

    python -m bench.idle [--turns 3] [--seconds 10] [--transport udpu] [--realtime] [--json]

Needs root, corosync with its headers, gcc and iproute2; exits with 3 if something is missing, and
with 1 if a bar is missed.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.peers.client import compile_client
from bench.peers.command import parser_of, run
from bench.peers.corosync import Corosync
from bench.peers.figures import Noise, Spread, cpu_s, wake_lateness_us
from bench.peers.network import Network
from bench.peers.ours import Evensong

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = 3
SIZE = 100
RATE = 100
SENDERS = (1, 2)
CPU_SHARE_MAX = 0.03  # of a core, the median over daemons and turns, in the profile `lan`
RATIO_MAX = 1.3  # ours to corosync's, medians of all samples of one sender

Cluster = Evensong | Corosync


class Idleness(NamedTuple):
    """One turn of one system."""

    cpu_shares: list[float]  # of a core, by daemon
    took_us: dict[int, list[int]]  # by sender


def take_turn(cluster: Cluster, seconds: float) -> Idleness:
    cluster.probe(SENDERS[-1], SIZE, RATE, RATE)  # the ring stands; what is lazy has been done
    time.sleep(1)
    pids = [cluster.pid(node) for node in range(1, NODES + 1)]
    began, before = time.monotonic(), list(map(cpu_s, pids))
    time.sleep(seconds)
    used = [now - then for now, then in zip(map(cpu_s, pids), before, strict=True)]
    lasted = time.monotonic() - began
    took = {node: cluster.probe(node, SIZE, RATE, int(seconds * RATE)) for node in SENDERS}
    return Idleness([one / lasted for one in used], took)


class Result(NamedTuple):
    """Everything that one run has shown."""

    transport: str
    is_realtime: bool
    turns: dict[str, list[Idleness]]
    noise: dict[str, float]
    wake_late_us: Spread

    def cpu_share(self, name: str) -> float:
        return statistics.median(share for turn in self.turns[name] for share in turn.cpu_shares)

    def took(self, name: str, sender: int) -> Spread:
        return Spread.of([one for turn in self.turns[name] for one in turn.took_us[sender]], 1)

    def turn_medians(self, name: str, sender: int) -> list[float]:
        return [statistics.median(turn.took_us[sender]) for turn in self.turns[name]]

    def ratio(self, name: str, sender: int) -> float:
        return self.took(name, sender).p50 / self.took("corosync", sender).p50

    def bars(self) -> dict[str, bool]:
        share = self.cpu_share("lan")
        bars = {f"lan: an idle daemon uses <= {CPU_SHARE_MAX:.0%}": share <= CPU_SHARE_MAX}
        for sender in SENDERS:
            is_held = self.ratio("lan", sender) <= RATIO_MAX
            bars[f"lan: p50 of node {sender} <= {RATIO_MAX} of corosync's"] = is_held
        return bars

    def as_json(self) -> str:
        told = {
            "transport": self.transport,
            "realtime": self.is_realtime,
            "cpu_share": {name: self.cpu_share(name) for name in self.turns},
            "cpu_shares": {
                name: [turn.cpu_shares for turn in turns] for name, turns in self.turns.items()
            },
            "took_us": {
                name: {sender: self.took(name, sender)._asdict() for sender in SENDERS}
                for name in self.turns
            },
            "samples_us": {
                name: [turn.took_us for turn in turns] for name, turns in self.turns.items()
            },
            "ratio": {sender: round(self.ratio("lan", sender), 3) for sender in SENDERS},
            "noise": self.noise,
            "wake_late_us": self.wake_late_us._asdict(),
            "bars": self.bars(),
        }
        return json.dumps(told)

    def table(self) -> str:
        lines = [
            f"an idle ring of {NODES}: CPU of a daemon; submit to own delivery at {RATE}/s, us",
            f"{'':<10}{'cpu':>7}{'sender':>8}{'p50':>8}{'p90':>8}{'p99':>8}{'ratio':>7}  by turn",
        ]
        for name in self.turns:
            for sender in SENDERS:
                took = self.took(name, sender)
                medians = ", ".join(f"{one:.0f}" for one in self.turn_medians(name, sender))
                lines.append(
                    f"{name:<10}{self.cpu_share(name):>7.2%}{sender:>8}{took.p50:>8.0f}"
                    f"{took.p90:>8.0f}{took.p99:>8.0f}{self.ratio(name, sender):>7.2f}  {medians}"
                )
        late, noise = self.wake_late_us, self.noise
        lines.append(
            f"machine: {noise['cores']} cores, others used {noise['others_cores']}, stolen "
            f"{noise['stolen_cores']}; a sleep ends {late.p50:.0f} us late, p99 {late.p99:.0f}"
        )
        lines += [f"{'holds ' if holds else 'MISSED'}  {bar}" for bar, holds in self.bars().items()]
        return "\n".join(lines)


def measure(turns: int, seconds: float, transport: str, *, is_realtime: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made, Network(NODES) as network:
        directory = Path(made)
        client = compile_client(directory)
        systems: dict[str, Callable[[Path], Cluster]] = {
            "lan": lambda home: Evensong(network, home, client, "lan", is_realtime=is_realtime),
            "corosync": lambda home: Corosync(
                network, home, client, transport, is_realtime=is_realtime
            ),
            "busy": lambda home: Evensong(
                network, home, client, "lan", is_realtime=is_realtime, extra="busy = true"
            ),
            "fast": lambda home: Evensong(network, home, client, "fast", is_realtime=is_realtime),
        }
        noise = Noise()
        seen: dict[str, list[Idleness]] = {name: [] for name in systems}
        for number in range(turns):
            for name, make in systems.items():
                print(f"{name}: turn {number + 1} of {turns}", file=sys.stderr, flush=True)
                with make(directory / f"{name}-{number}") as cluster:
                    seen[name].append(take_turn(cluster, seconds))
        return Result(
            transport, is_realtime, seen, noise.so_far(), Spread.of(wake_lateness_us(), 1)
        )


def main() -> int:
    parser = parser_of(
        "Measure an idle ring beside corosync.", "python -m bench.idle --turns 3 --json"
    )
    parser.add_argument("--turns", type=int, default=3, help="of each system (default: 3)")
    parser.add_argument("--seconds", type=float, default=10, help="of each step (default: 10)")
    args = parser.parse_args()
    return run(
        lambda: measure(args.turns, args.seconds, args.transport, is_realtime=args.realtime),
        as_json=args.json,
    )


if __name__ == "__main__":
    sys.exit(main())
