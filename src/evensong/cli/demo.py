"""`evensong demo`: daemons of this machine are hurt under load, and their traces judged.

With `--simulated` it is the story of a run on virtual time instead.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, final

from evensong.cli import simulated
from evensong.cli.command import EXIT_OK, EXIT_VIOLATION, Subparsers, add_command
from evensong.cli.paper import Paper
from evensong.cli.up import interruptible
from evensong.core.engine import ENGINES, TOTEM, TRANSIS
from evensong.errors import BadSettings, SparkFailed, SparkUnavailable

if TYPE_CHECKING:
    from evensong.demo.play import Record
    from evensong.demo.reported import Reported

NODES: Final = 5
NODES_LEAST, NODES_MOST = 4, 16
CALM_S: Final = 1.5
CALM_LEAST_S, CALM_MOST_S = 0.1, 60.0
SEED: Final = 1
OUT: Final = "out"
PAGE: Final = "report.html"
PROMISED: Final = {TOTEM: "extended virtual synchrony", TRANSIS: "what Transis promises"}


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "demo",
        run,
        summary="hurt a ring of real daemons under load, and check what it promised",
        example="evensong demo --keep demo",
    )
    real = parser.add_argument_group("on real daemons, on this machine")
    real.add_argument("--nodes", type=_nodes, metavar="N", help=f"daemons (default: {NODES})")
    real.add_argument("--engine", choices=ENGINES, help=f"what orders messages (default: {TOTEM})")
    real.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="traces, logs and settings go there and stay (default: a directory that goes)",
    )
    real.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help=f"where the report goes (default: {OUT}/{PAGE}, or {PAGE} in --keep DIR)",
    )
    real.add_argument(
        "--no-report", action="store_true", help="leave out the audit and the report, by Spark"
    )
    real.add_argument(
        "--calm",
        type=_calm,
        metavar="S",
        help=f"seconds between two blows (default: {CALM_S})",
    )
    story = parser.add_argument_group("on virtual time")
    story.add_argument("--simulated", action="store_true", help="simulate the processors instead")
    story.add_argument("--seed", type=int, help="another seed, another story")
    story.add_argument("--out", metavar="DIR", help=f"where files go (default: {OUT})")
    parser.add_argument("--json", action="store_true", help="print one object instead of a story")


def _nodes(text: str) -> int:
    if not text.isdecimal() or not NODES_LEAST <= int(text) <= NODES_MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not within {NODES_LEAST} to {NODES_MOST}")
    return int(text)


def _calm(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not CALM_LEAST_S <= seconds <= CALM_MOST_S:
        allowed = f"{CALM_LEAST_S} to {CALM_MOST_S:.0f} seconds"
        raise argparse.ArgumentTypeError(f"{text!r} is not within {allowed}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Play on real daemons, or tell what was simulated."""
    _refuse_mixtures(args)
    if args.simulated:
        seed = SEED if args.seed is None else args.seed
        return simulated.run(seed, Path(args.out or OUT), as_json=args.json)
    from evensong.cli.summary import plain, summarize
    from evensong.demo.findings import examine

    live = _Live(sys.stderr if args.json else None)  # what is asked for in JSON is alone on stdout
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        if args.keep is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="evensong-demo-"))
            directory = Path(made)
        else:
            directory = _empty(args.keep)
        record = _perform(directory, args, live)
        live.tell(f"their traces are held against {PROMISED[args.engine or TOTEM]}")
        findings = examine(directory, record)
        reported = _report(directory, args, live)
    if args.json:
        print(json.dumps(plain(findings, args.keep, reported)))
    else:
        summarize(findings, live.paper, args.keep, reported)
    is_kept = findings.is_kept() and (reported is None or reported.is_kept())
    return EXIT_OK if is_kept else EXIT_VIOLATION


def _report(directory: Path, args: argparse.Namespace, live: "_Live") -> "Reported | None":
    """Let Spark audit the traces and draw the report; without Spark there is none."""
    if args.no_report:
        return None
    live.tell("Spark audits their traces, and measures them for a report")
    page = args.report or (Path(OUT) if args.keep is None else args.keep) / PAGE
    try:
        from evensong.demo.reported import report_on

        return report_on(
            directory, page, lambda done, total: live.passing(f"{done} of {total} steps")
        )
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("evensong"):
            raise
        live.tell(f"no report: {missing}; pip install 'evensong[spark]'")
    except (SparkUnavailable, SparkFailed) as error:
        live.tell(f"no report: {error}")
    return None


def _perform(directory: Path, args: argparse.Namespace, live: "_Live") -> "Record":
    from evensong.demo.play import perform

    nodes = NODES if args.nodes is None else args.nodes
    calm_s = CALM_S if args.calm is None else args.calm
    return perform(directory, nodes, calm_s, live, args.engine or TOTEM)


def _refuse_mixtures(args: argparse.Namespace) -> None:
    real, story = ("nodes", "engine", "keep", "calm", "report"), ("seed", "out")
    for name in real if args.simulated else story:
        if getattr(args, name) is not None:
            where = "without --simulated" if args.simulated else "with --simulated"
            raise BadSettings(f"--{name}: only {where}")


def _empty(directory: Path) -> Path:
    """Return the directory, which must be new: what lies there would count as today's."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BadSettings(f"--keep: {directory}: takes a new or an empty directory")
    return directory.resolve()


@final
class _Live:
    """Tells each step when it happens, with the seconds since the start."""

    def __init__(self, stream: TextIO | None) -> None:
        self.paper: Final = Paper(stream)
        self._began: Final = time.monotonic()

    def tell(self, text: str) -> None:
        """Tell a step."""
        self.paper.write(f"{self._passed()}  {text}")

    def passing(self, text: str) -> None:
        """Show where things are, on a terminal."""
        self.paper.passing(f"{self._passed()}  {text}")

    def _passed(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"
