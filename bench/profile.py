"""Where the time of a message goes, from the program that sends it to the one that hears it.

Daemons on loopback, sealed, without traces, a client at each that sends as fast as it may, by
batches. Each size is measured twice on the same daemons: undisturbed, for the CPU that all
processes use by the kernel's count, and while py-spy looks at the first daemon and the first
client. Samples are of wall time and slow what they look at, so they only divide that CPU among the
stages (`bench/profiling/stages.py`); samples that wait are left out.

    python -m bench.profile [--size 100 --size 1024] [--nodes 3] [--seconds 8] [--json]
                            [--write docs/performance.md] [--py-spy PATH]

With `--write` the budget and a flame graph of each kind of process go into a document. Needs
py-spy, and where processes may not look at their equals (Yama), root.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.local import DATAGRAM, local_ring
from bench.peers import document
from bench.peers.figures import Noise
from bench.peers.network import CannotMeasure
from bench.profiling import flame
from bench.profiling.spy import Spy, found
from bench.profiling.stacks import Stack, by_stage
from bench.profiling.stages import CLIENT, DAEMON, KINDS, WAY
from evensong.bench.groups import SETTINGS, Load, Place, load_with
from evensong.bench.member import SIZE_LEAST
from evensong.bench.ring import LENGTH_FIELD, SEALED
from evensong.cli.up import interruptible
from evensong.errors import EvensongError

NAME = "bench-profile"
SIZE = 100
RATE = 200  # samples a second
ATTACH_S = 2.0  # the load goes on for so much longer than is sampled
LOST = (CannotMeasure, EvensongError, OSError)


class Row(NamedTuple):
    """What one stage costs, in all processes of its kind together."""

    stage: str
    kind: str
    share: float  # of the CPU of all processes
    packet_us: float  # for a plain datagram's worth of messages
    message_ns: float  # for a message that one client hears


class Profile(NamedTuple):
    """What was seen at one size."""

    size: int
    nodes: int
    delivered_per_s: float  # at one client, undisturbed
    sampled_per_s: float  # at one client, while samples were taken
    cpu_us: Mapping[str, float]  # of all processes of a kind, for each message, undisturbed
    stacks: Mapping[str, Counter[Stack]]  # by kind
    noise: Mapping[str, float]  # undisturbed

    def messages_in_packet(self) -> float:
        """Return how many messages a plain datagram holds; large ones are cut."""
        return SEALED.payload(DATAGRAM) / (self.size + LENGTH_FIELD)

    def samples(self, kind: str) -> int:
        return sum(self.stacks[kind].values())

    def budget(self) -> list[Row]:
        """Return what each stage costs, in the order in which a message goes."""
        counts = {kind: by_stage(self.stacks[kind], kind) for kind in KINDS}
        whole = sum(self.cpu_us.values())
        rows = []
        for stage, kind in WAY:
            us = self.cpu_us[kind] * counts[kind][stage] / max(1, self.samples(kind))
            rows.append(
                Row(
                    stage,
                    kind,
                    us / whole if whole else 0.0,
                    us * self.messages_in_packet(),
                    us * 1e3,
                )
            )
        return rows

    def table(self) -> str:
        """Return it as a paragraph and a table of Markdown."""
        rows = self.budget()
        sums = [("all daemons", DAEMON), ("all clients", CLIENT)]
        for name, kind in sums:
            rows.append(_sum(name, kind, [one for one in self.budget() if one.kind == kind]))
        rows.append(_sum("all", "", self.budget()))
        lines = [
            [
                one.stage,
                one.kind,
                f"{100 * one.share:.1f} %",
                f"{one.packet_us:.2f}",
                f"{one.message_ns:,.0f}",
            ]
            for one in rows
        ]
        seen = ", ".join(f"{self.samples(kind):,} of a {kind}" for kind in KINDS)
        noise = self.noise
        return (
            f"{self.nodes} daemons, messages of {document.size_of(self.size)}: "
            f"{self.delivered_per_s:,.0f} a second at one client, {self.sampled_per_s:,.0f} while "
            f"samples were taken; {self.messages_in_packet():.2f} messages a packet. Samples: "
            f"{seen}. {noise['cores']:.0f} cores; other things took {noise['others_cores']} of "
            f"them.\n\n"
            + document.table(["", "counted in", "share", "us a packet", "ns a message"], lines)
        )

    def told(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "size": self.size,
            "nodes": self.nodes,
            "delivered_per_s": self.delivered_per_s,
            "sampled_per_s": self.sampled_per_s,
            "messages_in_packet": round(self.messages_in_packet(), 3),
            "cpu_us_per_message": dict(self.cpu_us),
            "samples": {kind: self.samples(kind) for kind in KINDS},
            "budget": [one._asdict() for one in self.budget()],
            "noise": dict(self.noise),
        }

    def pictures(self) -> dict[str, tuple[str, str]]:
        """Return a flame graph for each kind of process: file, title, content."""
        made: dict[str, tuple[str, str]] = {}
        for kind in KINDS:
            title = f"A {kind} of {self.nodes}, messages of {document.size_of(self.size)}"
            made[f"{NAME}-{self.size}-{kind}.svg"] = (
                title,
                flame.drawn(f"{title}: shares of its time", self.stacks[kind], kind),
            )
        return made


def _sum(name: str, kind: str, rows: Sequence[Row]) -> Row:
    return Row(
        name,
        kind,
        sum(one.share for one in rows),
        sum(one.packet_us for one in rows),
        sum(one.message_ns for one in rows),
    )


def measure(size: int, nodes: int, seconds: float, program: str, rate: int) -> Profile:
    """Load daemons of their own twice, undisturbed and looked at."""
    load = Load(size, "agreed", "batch", 0)
    with (
        local_ring(nodes, SETTINGS) as ring,
        tempfile.TemporaryDirectory(prefix="evensong-bench-") as made,
        Spy(program, Path(made), seconds, rate) as spy,
    ):
        places = [Place(ring.state(node), ring.pid(node)) for node in ring.nodes()]
        progress(f"{document.size_of(size)}: undisturbed")
        noise = Noise()
        heard = load_with(places, load, seconds)
        quiet = noise.so_far()
        progress(f"{document.size_of(size)}: looked at")
        sampled = load_with(places, load, seconds + ATTACH_S, meanwhile=spy.begin)
        stacks = spy.stacks()
    clients_us = heard.cpu_us - heard.daemons_cpu_us
    cpu_us = {DAEMON: heard.daemons_cpu_us, CLIENT: clients_us}
    rates = heard.delivered_per_s, sampled.delivered_per_s
    return Profile(size, nodes, *rates, cpu_us, stacks, quiet)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(profiles: Sequence[Profile]) -> str:
    return "\n\n".join(one.table() for one in profiles)


def write(profiles: Sequence[Profile], path: Path) -> None:
    """Put budgets and flame graphs into a document, in place of those of the run before."""
    parts = []
    for one in profiles:
        parts.append(one.table())
        for file, (title, drawing) in one.pictures().items():
            path.with_name(file).write_text(drawing + "\n")
            parts.append(f"![{title}]({file})")
    path.write_text(document.replaced(path.read_text(), NAME, "\n\n".join(parts)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Say where the time of a message goes.",
        epilog="example: python -m bench.profile --size 100 --size 1024 --json",
    )
    parser.add_argument(
        "--size", type=int, action="append", help=f"of a message, or several (default: {SIZE})"
    )
    parser.add_argument("--nodes", type=int, default=3, help="daemons (default: 3)")
    parser.add_argument("--seconds", type=float, default=8, help="of each load (default: 8)")
    parser.add_argument("--rate", type=int, default=RATE, help=f"samples/s (default: {RATE})")
    parser.add_argument("--py-spy", help="where it is, if not on PATH")
    parser.add_argument("--write", type=Path, help="a document with marks; pictures go beside it")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(words)
    sizes = list(dict.fromkeys(args.size or [SIZE]))
    if min(sizes) < SIZE_LEAST:
        parser.error(f"--size: at least {SIZE_LEAST}")
    try:
        with interruptible():
            program = found(args.py_spy)
            profiles = [
                measure(size, args.nodes, args.seconds, program, args.rate) for size in sizes
            ]
    except LOST as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    if args.write:
        write(profiles, args.write)
    print(json.dumps([one.told() for one in profiles]) if args.json else table(profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
