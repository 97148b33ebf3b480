"""Ours and corosync side by side, in the same network namespaces, both encrypted, in turns.

    python -m bench.compare [--turns 5] [--anew] [--json] [--write docs/performance.md]
    python -m bench.compare --full [--turns 5]

What is measured is in `bench/peers/cells.py`, what is asked of it in `bench/peers/acceptance.py`.
Each finished cell is a line of JSON in a file (`--results`); a run that is started again with it
goes on behind its last one. Corosync is measured with the best of several settings for each MTU,
which are tried first.

Needs root, corosync with its headers, gcc and iproute2, and installs nothing; exits with 3 if
something is missing, with 1 if a bar is missed. Ctrl-C leaves nothing running, and what is
measured so far stays in the file.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench import candidates, failover
from bench.peers import document, marks, pictures, takes
from bench.peers.acceptance import RATE, Verdict, judge
from bench.peers.cells import (
    BRIEF_TIMES,
    FAILOVER,
    FLOOD,
    FLOOR,
    FULL_TIMES,
    MARK,
    OURS,
    SHORT_TIMES,
    THEIRS,
    TUNE,
    TUNINGS,
    Cell,
    Stop,
    Times,
    full,
    seconds,
    short,
    tuned,
)
from bench.peers.client import compile_client
from bench.peers.corosync import PROGRAMS, Corosync
from bench.peers.figures import Noise
from bench.peers.ledger import Entry, Figures, Ledger
from bench.peers.network import CannotMeasure, Network, require
from bench.peers.ours import Evensong
from evensong.errors import EvensongError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

DOCUMENT = Path("docs/performance.md")
LOST = (CannotMeasure, EvensongError, OSError, subprocess.SubprocessError)


class Comparison:
    """A run: goes through what is not measured yet, stop by stop."""

    def __init__(self, ledger: Ledger, times: Times, directory: Path) -> None:
        self._ledger = ledger
        self._times = times
        self._directory = directory
        self._client = compile_client(directory)
        self._homes = count(1)

    def run(self, stops: Sequence[Stop]) -> None:
        """Go through all stops; cells that are in the ledger are left out."""
        left = [self._left(stop) for stop in stops]
        while left:
            stop, *left = left
            if stop.cells:
                minutes = seconds([stop, *left], self._times) / 60
                progress(f"turn {stop.turn + 1}, {stop.cells[0].system}; {minutes:.0f} min to go")
                self._visit(stop)

    def _left(self, stop: Stop) -> Stop:
        cells = tuple(cell for cell in stop.cells if not self._ledger.has(cell, stop.turn))
        return Stop(stop.turn, cells)

    def _visit(self, stop: Stop) -> None:
        first = stop.cells[0]
        if first.kind == FAILOVER:
            self._note(first, stop.turn, partial(fail_over, self._times))
            return
        if first.kind == MARK:
            for cell in stop.cells:
                self._note(cell, stop.turn, partial(marks.measure, cell, self._times))
            return
        with Network(first.nodes, first.mtu) as network:
            if first.kind == FLOOR:
                for cell in stop.cells:
                    self._note(
                        cell,
                        stop.turn,
                        partial(takes.take_floor, cell, network, self._times),
                    )
                return
            while stop.cells:
                # A cell that fails may have hurt its daemons: those after it get others.
                self._with_daemons(network, stop)
                stop = self._left(stop)

    def _with_daemons(self, network: Network, stop: Stop) -> None:
        first = stop.cells[0]
        try:
            with self._cluster(network, first) as cluster:
                for cell in stop.cells:
                    is_well = self._note(
                        cell,
                        stop.turn,
                        partial(takes.take, cell, cluster, self._ledger, self._times),
                    )
                    if not is_well:
                        return
        except LOST as error:
            if not self._ledger.has(first, stop.turn):
                self._ledger.add(Entry(first, stop.turn, {"failed": _why(error)}))
            progress(f"{first}: {_why(error)}")

    def _cluster(
        self, network: Network, cell: Cell
    ) -> "AbstractContextManager[Evensong | Corosync]":
        home = self._directory / f"{cell.system}-{next(self._homes)}"
        if cell.system == OURS:
            return Evensong(network, home, self._client, "lan", is_realtime=False)
        name = cell.way if cell.kind == TUNE else best_tuning(self._ledger, cell.mtu)
        lines = tuned(name, cell.mtu)
        return Corosync(network, home, self._client, "knet", lines, is_realtime=False)

    def _note(self, cell: Cell, turn: int, measure: "takes.Measure") -> bool:
        """Measure, and write it down; whether it went well."""
        progress(f"  {cell}")
        noise = Noise()
        try:
            figures: Figures = measure()
        except LOST as error:
            figures = {"failed": _why(error)}
            progress(f"  {cell}: {_why(error)}")
        self._ledger.add(Entry(cell, turn, {**figures, "noise": noise.so_far()}))
        return "failed" not in figures


def _why(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def best_tuning(ledger: Ledger, mtu: int) -> str:
    """Return which settings made corosync fastest at this MTU, over the sizes that were tried."""

    def score(name: str) -> float:
        rates = [
            statistics.median(ledger.values(cell, RATE))
            for cell in {one.cell for one in ledger.entries}
            if cell.kind == TUNE and (cell.mtu, cell.way) == (mtu, name)
            if ledger.values(cell, RATE)
        ]
        return statistics.geometric_mean(rates) if rates else 0.0

    return max(TUNINGS, key=score)


def fail_over(times: Times) -> Figures:
    """Let the script for fail-over do it, with corosync encrypted too; at the best settings."""
    if times.long:
        lasts = candidates.Lasts(times.kills, times.suspicion, times.long)
        return candidates.measure(lasts, "knet", is_realtime=False).told()
    result = failover.measure(times.kills, times.suspicion, "knet", is_realtime=False)
    return {
        "kills": times.kills,
        "ratio": round(result.ratio(), 4),
        **{
            f"{name}_ms": round(result.spread_ms(name).p50, 1)
            for name in ("fast", "corosync", "lan")
        },
        "floods": result.floods,
        "bars": result.bars(),
    }


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def about() -> Figures:
    """Say on what machine, and with what, this is."""
    line = ""
    if shutil.which("corosync"):
        said = subprocess.run(["corosync", "-v"], capture_output=True, text=True, check=False)
        line = next(iter(said.stdout.splitlines()), "")
    return {
        "cores": os.cpu_count() or 0,
        "Linux": platform.release(),
        "Python": platform.python_version(),
        "corosync": line.partition("version ")[2].strip("'\""),
        "measured on": time.strftime("%Y-%m-%d"),
    }


def drawn(ledger: Ledger, name: str) -> dict[str, tuple[str, str]]:
    """Return the pictures of a run: by file, the title and what is in it."""
    rates = _rate_groups(ledger)
    latencies = _latency_groups(ledger)
    found = {}
    if rates:
        title = "Messages a second at one client"
        series = ("evensong, by batches", "evensong, one by one", "corosync")
        found[f"{name}-rates.svg"] = (title, str(pictures.bars(title, series, rates)))
    if latencies:
        title = "From due to delivered at the sender, us"
        names = ("evensong p50", "evensong p99", "corosync p50", "corosync p99")
        found[f"{name}-latencies.svg"] = (title, str(pictures.bars(title, names, latencies)))
    return found


def _rate_groups(ledger: Ledger) -> list[pictures.Group]:
    places = {
        one.cell._replace(system="", way="")
        for one in ledger.entries
        if one.cell.kind == FLOOD and one.cell.service == "agreed"
    }
    groups = []
    for place in sorted(places, key=lambda one: (one.nodes, one.mtu, one.size)):
        ways = ((OURS, "batch"), (OURS, "message"), (THEIRS, ""))
        found = [ledger.values(place._replace(system=who, way=way), RATE) for who, way in ways]
        name = f"{place.nodes} nodes, {place.mtu}, {document.size_of(place.size)}"
        groups.append(
            pictures.Group(name, [statistics.median(one) if one else None for one in found])
        )
    return groups


def _latency_groups(ledger: Ledger) -> list[pictures.Group]:
    groups = []
    for kind, said in (("steady", "100/s"), ("chance", "1000/s"), ("half", "half")):
        cells = {one.cell for one in ledger.entries if one.cell.kind == kind}
        places = {cell._replace(system="") for cell in cells}
        for place in sorted(places, key=lambda one: (one.nodes, one.mtu)):
            told = [
                ledger.latency(cell)
                for system in (OURS, THEIRS)
                if (cell := place._replace(system=system)) in cells
            ]
            if len(told) == 2:
                values = [one.get(name) for one in told for name in ("p50", "p99")]
                groups.append(pictures.Group(f"{place.nodes} nodes, {place.mtu}, {said}", values))
    return groups


def write(ledger: Ledger, verdicts: Sequence[Verdict], path: Path, name: str) -> None:
    """Put tables and pictures into a document, in place of those of the run before."""
    found = drawn(ledger, name)
    for file, (_, svg) in found.items():
        (path.parent / file).write_text(svg + "\n")
    shown = [(title, file) for file, (title, _) in found.items()]
    part = document.part(ledger, verdicts, shown)
    path.write_text(document.replaced(path.read_text(), name, part))


def told(ledger: Ledger, verdicts: Sequence[Verdict]) -> dict[str, object]:
    """Return everything as one object, but for samples."""
    return {
        "about": ledger.about,
        "cells": [
            {
                **one.cell._asdict(),
                "turn": one.turn,
                **{key: value for key, value in one.figures.items() if key != "samples_us"},
            }
            for one in ledger.entries
        ],
        "latencies_us": {
            str(cell): ledger.latency(cell)
            for cell in dict.fromkeys(one.cell for one in ledger.entries)
            if ledger.latency(cell)
        },
        "bars": {
            one.bar.name: {"value": one.value, "bound": one.bar.bound, "holds": one.holds}
            for one in verdicts
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure evensong and corosync side by side.",
        epilog="example: python -m bench.compare --turns 5 --write docs/performance.md",
    )
    parser.add_argument("--full", action="store_true", help="every size and number of nodes; hours")
    parser.add_argument("--turns", type=int, default=5, help="of each cell (default: 5)")
    parser.add_argument(
        "--results", type=Path, help="a line for each finished cell (default: out/)"
    )
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("--only", default="", help="cells whose name has this, to try something")
    parser.add_argument("--brief", action="store_true", help="a second for each, to try something")
    parser.add_argument("--write", type=Path, help=f"a document with marks, such as {DOCUMENT}")
    parser.add_argument("--judge", action="store_true", help="measure nothing, only tell")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = "bench-peers-full" if args.full else "bench-peers"
    path = args.results or Path("out") / f"{name}.jsonl"
    stops = full(args.turns) if args.full else short(args.turns)
    chosen = [
        Stop(stop.turn, tuple(cell for cell in stop.cells if args.only in str(cell)))
        for stop in stops
    ]
    try:
        if not args.judge:
            require(PROGRAMS)
            if args.anew:
                path.unlink(missing_ok=True)
        ledger = Ledger(path, about())
        if not args.judge:
            times = BRIEF_TIMES if args.brief else FULL_TIMES if args.full else SHORT_TIMES
            with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
                Comparison(ledger, times, Path(made)).run(chosen)
    except CannotMeasure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print(f"bench: stopped; what is measured is in {path}", file=sys.stderr)
        return 130
    verdicts = judge(ledger)
    if args.write:
        write(ledger, verdicts, args.write, name)
    if args.json:
        print(json.dumps(told(ledger, verdicts)))
    else:
        print(document.part(ledger, verdicts, []))
    return 1 if any(one.holds is False for one in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
