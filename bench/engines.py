"""Daemons of both engines, side by side, with all clients sending: a table of docs/performance.md.

    python -m bench.engines [--nodes 3:10] [--turns 3] [--seconds 3] [--write]

It is what `evensong bench engines --json` tells; that has every turn, too. `--write` puts the table
into docs/performance.md. Measure on a machine that does nothing else: a cluster of ten has twenty
processes.
"""

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.peers.document import replaced
from evensong.cli.main import main as evensong

DOCUMENT: Final = Path("docs/performance.md")
NAME: Final = "bench-engines"


def spread(figures: dict[str, float]) -> str:
    return f"{figures['median']:,.0f} [{figures['min']:,.0f} – {figures['max']:,.0f}]"


def part(told: dict[str, object]) -> str:
    """Return what goes into the document."""
    cells = told["cells"]
    assert isinstance(cells, list)
    engines = list(dict.fromkeys(cell["engine"] for cell in cells))
    by_cell = {(cell["engine"], cell["nodes"]): cell for cell in cells}
    numbers = sorted({cell["nodes"] for cell in cells})
    heads = [
        f"{engine}, {what}" for what in ("messages/s", "p50 us", "p99 us") for engine in engines
    ]
    lines = [
        f"{told['turns']} turns of {told['seconds']} s, engines in turns, {told['cores']} cores; "
        f"median [min – max] over turns; latency at {told['rate']:.0f} messages a second in all:",
        "",
        "| n | " + " | ".join(heads) + " |",
        "| --- |" + " --- |" * len(heads),
    ]
    for n in numbers:
        row = [by_cell[engine, n] for engine in engines]
        figures = [spread(cell["delivered_per_s"]) for cell in row]
        figures += [f"{cell[key]['median']:,.0f}" for key in ("p50_us", "p99_us") for cell in row]
        lines.append(f"| {n} | " + " | ".join(figures) + " |")
    for engine in engines:
        rates = [by_cell[engine, n]["delivered_per_s"]["median"] for n in (numbers[0], numbers[-1])]
        changes = sum(by_cell[engine, n]["view_changes"] for n in numbers)
        lines += [
            "",
            f"{engine}: {rates[1] / rates[0]:.2f} of the rate of {numbers[0]} is left with "
            f"{numbers[-1]}; {changes} view changes while measured.",
        ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Measure daemons of both engines, side by side.",
        epilog="example: python -m bench.engines --write",
    )
    parser.add_argument("--nodes", default="3:10", metavar="A:B")
    parser.add_argument("--turns", default="3", metavar="N")
    parser.add_argument("--seconds", default="3", metavar="S")
    parser.add_argument("--write", nargs="?", type=Path, const=DOCUMENT, metavar="DOCUMENT")
    args = parser.parse_args(words)
    output = io.StringIO()
    asked = ["--nodes", args.nodes, "--turns", args.turns, "--seconds", args.seconds, "--json"]
    with contextlib.redirect_stdout(output):
        code = evensong(["bench", "engines", *asked])
    if code:
        return code
    told = json.loads(output.getvalue())
    print(part(told))
    if args.write:
        args.write.write_text(replaced(args.write.read_text(), NAME, part(told)))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
