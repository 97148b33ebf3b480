"""How soon the survivors of a crash have a new configuration: beside corosync, in the same run.

Three daemons in network namespaces of their own, every one flooding with messages of 1 KiB. One is
killed without warning, the time until the survivors deliver their next regular configuration is
taken, it is started again, and so on with the next. The systems take turns, so that a machine that
slows down slows all: ours with the profile `fast`, corosync at its lowest stable timeouts, ours
with the profile `lan`. Before, each floods for a minute, and whoever is suspected then is counted.
With `--candidates` three settings of each are tried instead, and the best ones are compared: see
`bench/candidates.py`.

    python -m bench.failover [--kills 20] [--flood 60] [--transport udpu] [--realtime] [--json]
    python -m bench.failover --candidates [--flood 120] [--long 600] [--write docs/performance.md]

Needs root, corosync with its headers, gcc and iproute2; exits with 3 if something is missing, and
with 1 if a bar is missed.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.peers import document
from bench.peers.client import compile_client
from bench.peers.command import parser_of, run
from bench.peers.corosync import LOWEST, Corosync, patience
from bench.peers.figures import Noise, Spread, wake_lateness_us
from bench.peers.network import CannotMeasure, Network
from bench.peers.ours import Break, Evensong
from bench.peers.waiting import now_us, wait_for
from evensong.core.totem.parameters import PROFILES

NODES = 3
SIZE = 1_024
KILLS_A_TURN = 4
DISTURBED_MAX = 4  # kills a turn that may meet a broken ring before the turn is given up
RATIO_MAX = 0.6  # ours to corosync's, medians
AIM_MS = 110
LAN_LOSSES_MAX = 2.2  # median of the profile `lan`, in token losses
EXCUSED_MAX = 2  # suspicions in the flood for which somebody's own lateness accounts
MS = 1_000

Cluster = Evensong | Corosync


class Crash(NamedTuple):
    """One kill: when the survivors noticed and when they had a new configuration, since then."""

    victim: int
    noticed_us: int | None
    first_us: int
    last_us: int


def wait_for_views(cluster: Cluster, victim: int, killed_at: int) -> Crash:
    survivors = [node for node in range(1, NODES + 1) if node != victim]

    def is_over() -> bool:
        return all(cluster.view_without(victim, node) is not None for node in survivors)

    wait_for(f"{cluster.name}: a view without node {victim}", is_over)
    views = [cluster.view_without(victim, node) or 0 for node in survivors]
    noticed = cluster.breaks(killed_at) if isinstance(cluster, Evensong) else []
    noticed_us = noticed[0].at - killed_at if noticed else None
    return Crash(victim, noticed_us, min(views) - killed_at, max(views) - killed_at)


class Turn(NamedTuple):
    """The kills of one turn; those into a ring that was broken already tell nothing."""

    crashes: list[Crash]
    disturbed: int


def take_turn(cluster: Cluster, kills: int, first: int, rng: random.Random) -> Turn:
    seen: list[Crash] = []
    disturbed = 0
    while len(seen) < kills and disturbed <= DISTURBED_MAX:
        cluster.flood(SIZE)
        began = now_us()
        time.sleep(rng.uniform(0.3, 0.8))
        victim = (first + len(seen) + disturbed) % NODES + 1
        killed_at = cluster.kill(victim)
        crash = wait_for_views(cluster, victim, killed_at)
        if cluster.is_disturbed(began, killed_at):
            disturbed += 1
        else:
            seen.append(crash)
        cluster.start(victim)
    return Turn(seen, disturbed)


class Suspicion(NamedTuple):
    """A ring of all that ended in the flood, as each node tells it, and the worst lateness."""

    at_s: float
    told: list[str]
    lag_us: int


def suspicions(breaks: list[Break], began: int, nodes: int = NODES) -> list[Suspicion]:
    """Put together what the nodes tell of one ring's end.

    Rings of fewer follow from that: they end when those who were lost come back.
    """
    by_ring: dict[str, list[Break]] = {}
    for one in breaks:
        if len(one.members) == nodes:
            by_ring.setdefault(one.ring, []).append(one)
    return [
        Suspicion(
            round((ends[0].at - began) / 1e6, 3),
            [f"n{one.node}: {one.cause}, own lateness {one.lag_us / MS:.1f} ms" for one in ends],
            max(one.lag_us for one in ends),
        )
        for ends in by_ring.values()
    ]


def flooded(cluster: Cluster, seconds: float) -> tuple[int, float]:
    """Flood for so long; return when it began, and the rate at which one node delivered."""
    cluster.flood(SIZE)
    began, before = now_us(), cluster.delivered()
    time.sleep(seconds)
    return began, (cluster.delivered() - before) / seconds


def flood(cluster: Cluster, seconds: float) -> dict[str, object]:
    """Flood and count who is suspected meanwhile."""
    began, rate = flooded(cluster, seconds)
    told: dict[str, object] = {"seconds": seconds, "delivered_per_s": round(rate)}
    if isinstance(cluster, Evensong):
        token_loss = PROFILES["fast"].token_loss
        seen = suspicions(cluster.breaks(began), began)
        told["excused"] = [one._asdict() for one in seen if one.lag_us > token_loss // 3]
        told["without_lag"] = [one._asdict() for one in seen if one.lag_us <= token_loss // 3]
    else:
        views = [
            [at for at, _ in cluster.views(node) if at > began] for node in range(1, NODES + 1)
        ]
        told["views"] = max(map(len, views))
    return told


class Result(NamedTuple):
    """Everything that one run has shown."""

    transport: str
    is_realtime: bool
    floods: dict[str, dict[str, object]]
    crashes: dict[str, list[Crash]]
    disturbed: dict[str, int]  # kills into a ring that was broken already, not counted
    noise: dict[str, float]
    wake_late_us: Spread

    def spread_ms(self, name: str) -> Spread:
        return Spread.of([one.last_us for one in self.crashes[name]], MS)

    def median_ms(self, name: str, which: Callable[[Crash], int | None]) -> float | None:
        times = [time for time in map(which, self.crashes[name]) if time is not None]
        return statistics.median(times) / MS if times else None

    def ratio(self) -> float:
        return self.spread_ms("fast").p50 / self.spread_ms("corosync").p50

    def bars(self) -> dict[str, bool]:
        lan_max_ms = LAN_LOSSES_MAX * PROFILES["lan"].token_loss / MS
        bars = {
            f"fast: median <= {RATIO_MAX} of corosync's": self.ratio() <= RATIO_MAX,
            f"lan: median <= {lan_max_ms:.0f} ms": self.spread_ms("lan").p50 <= lan_max_ms,
        }
        if "fast" in self.floods:
            excused, others = self.floods["fast"]["excused"], self.floods["fast"]["without_lag"]
            assert isinstance(excused, list)
            bars["flood: nobody suspected without lag"] = not others
            bars[f"flood: at most {EXCUSED_MAX} suspected with lag"] = len(excused) <= EXCUSED_MAX
        return bars

    def as_json(self) -> str:
        told = {
            "transport": self.transport,
            "realtime": self.is_realtime,
            "floods": self.floods,
            "crashes": {
                name: [one._asdict() for one in crashes] for name, crashes in self.crashes.items()
            },
            "disturbed": self.disturbed,
            "spread_ms": {name: self.spread_ms(name)._asdict() for name in self.crashes},
            "ratio": round(self.ratio(), 3),
            "noise": self.noise,
            "wake_late_us": self.wake_late_us._asdict(),
            "bars": self.bars(),
        }
        return json.dumps(told)

    def table(self) -> str:
        lines = [
            f"kill -9 to the last survivor's new configuration, ms; {NODES} nodes, 1 KiB flood",
            f"{'':<12}{'median':>8}{'least':>8}{'p90':>8}{'most':>8}{'noticed':>9}{'first':>8}",
        ]
        for name in self.crashes:
            spread = self.spread_ms(name)
            noticed = self.median_ms(name, lambda one: one.noticed_us)
            told_noticed = f"{noticed:.1f}" if noticed else "-"
            first = self.median_ms(name, lambda one: one.first_us)
            lines.append(
                f"{name:<12}{spread.p50:>8.1f}{spread.least:>8.1f}{spread.p90:>8.1f}"
                f"{spread.most:>8.1f}{told_noticed:>9}{first:>8.1f}   {spread.samples} kills"
                f", {self.disturbed[name]} more into a broken ring"
            )
        lines.append(f"fast to corosync ({self.transport}): {self.ratio():.2f}; aim: {AIM_MS} ms")
        lines += [f"flood, {name}: {json.dumps(one)}" for name, one in self.floods.items()]
        late, noise = self.wake_late_us, self.noise
        lines.append(
            f"machine: {noise['cores']} cores, others used {noise['others_cores']}, stolen "
            f"{noise['stolen_cores']}; a sleep ends {late.p50:.0f} us late, p99 {late.p99:.0f}"
        )
        lines += [f"{'holds ' if holds else 'MISSED'}  {bar}" for bar, holds in self.bars().items()]
        return "\n".join(lines)


def measure(kills: int, flood_s: float, transport: str, *, is_realtime: bool) -> Result:
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made, Network(NODES) as network:
        directory = Path(made)
        client = compile_client(directory)
        turns: dict[str, Callable[[Path], Cluster]] = {
            "fast": lambda home: Evensong(network, home, client, "fast", is_realtime=is_realtime),
            "corosync": lambda home: Corosync(
                network,
                home,
                client,
                transport,
                (*LOWEST, *patience(transport)),
                is_realtime=is_realtime,
            ),
            "lan": lambda home: Evensong(network, home, client, "lan", is_realtime=is_realtime),
        }
        noise = Noise()
        floods: dict[str, dict[str, object]] = {}
        for name in ("fast", "corosync") if flood_s else ():
            progress(f"{name}: flood for {flood_s:.0f} s")
            with turns[name](directory / f"{name}-flood") as cluster:
                floods[name] = flood(cluster, flood_s)
        seen: dict[str, list[Crash]] = {name: [] for name in turns}
        disturbed = dict.fromkeys(turns, 0)
        rng = random.Random(1)
        for first in range(0, kills, KILLS_A_TURN):
            for name, make in turns.items():
                progress(f"{name}: kill {first + 1} and on, of {kills}")
                with make(directory / f"{name}-{first}") as cluster:
                    turn = take_turn(cluster, min(KILLS_A_TURN, kills - first), first, rng)
                seen[name] += turn.crashes
                disturbed[name] += turn.disturbed
        silent = [name for name, crashes in seen.items() if not crashes]
        if silent:
            raise CannotMeasure(f"{silent[0]}: every kill met a broken ring; others are too busy")
        return Result(
            transport,
            is_realtime,
            floods,
            seen,
            disturbed,
            noise.so_far(),
            Spread.of(wake_lateness_us(), 1),
        )


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = parser_of(
        "Measure fail-over beside corosync.", "python -m bench.failover --kills 20 --json"
    )
    parser.add_argument("--kills", type=int, default=20, help="of each system (default: 20)")
    parser.add_argument("--flood", type=float, help="seconds before (default: 60; 120 of each)")
    parser.add_argument(
        "--candidates", action="store_true", help="three settings of each; the best are compared"
    )
    parser.add_argument(
        "--long", type=float, default=600, help="seconds of flood of who wins (default: 600)"
    )
    parser.add_argument("--write", type=Path, help="with --candidates: a document with marks")
    args = parser.parse_args(words)
    if not args.candidates:
        if args.write:
            parser.error("--write goes with --candidates")
        flood_s = 60 if args.flood is None else args.flood
        return run(
            lambda: measure(args.kills, flood_s, args.transport, is_realtime=args.realtime),
            as_json=args.json,
        )
    from bench import candidates  # it stands on what is here

    lasts = candidates.Lasts(args.kills, 120 if args.flood is None else args.flood, args.long)

    def choose() -> candidates.Choice:
        chosen = candidates.measure(lasts, args.transport, is_realtime=args.realtime)
        if args.write:
            part = f"{document.candidates(chosen.told())}\n\n{chosen.machine()}"
            told = document.replaced(args.write.read_text(), candidates.MARKS, part)
            args.write.write_text(told)
        return chosen

    return run(choose, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
