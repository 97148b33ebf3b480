"""`evensong why`: each view change explained from what the nodes themselves wrote down."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from evensong.cli.command import EXIT_OK, EXIT_UNREACHABLE, Subparsers, add_command
from evensong.cli.progress import Progress
from evensong.cli.text import printable
from evensong.errors import BadRequest

if TYPE_CHECKING:
    from evensong.why import Change
    from evensong.why.sources import Sources


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "why",
        run,
        summary="explain each change of membership: who missed what from whom, and which is the "
        "likely cause",
        example="evensong why cluster --change 2",
    )
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="settings or state directory of a daemon (it is asked if it runs), a directory of "
        "such, a trace, or a flight recorder",
    )
    parser.add_argument(
        "--change", metavar="N|RING", help="this change only, by its number or its ring, as 12.1"
    )
    parser.add_argument(
        "--node", type=int, metavar="N", help="changes only that this node was in, or lost by"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Explain what is there."""
    from evensong.why import explain, plain, story
    from evensong.why.sources import places_of, read_sources

    places = places_of(args.paths)
    with Progress("reading", len(places)) as progress:
        sources = read_sources(args.paths, progress.advance)
    runs = {
        run_id: explain(found.accounts.values()) for run_id, found in sorted(sources.runs.items())
    }
    chosen = {
        run_id: [change for change in changes if _is_meant(change, args.change, args.node)]
        for run_id, changes in runs.items()
    }
    if args.change is not None and not any(chosen.values()):
        raise BadRequest(f"--change: there is no change {args.change}; {_extent(runs)}")
    if args.json:
        told = {
            "runs": [
                {
                    "run": run_id,
                    "sources": _sources(sources, run_id),
                    "changes": [plain(change) for change in changes],
                }
                for run_id, changes in chosen.items()
            ],
            "notes": sources.notes,
        }
        print(json.dumps(told))
    else:
        for run_id, changes in chosen.items():
            if len(chosen) > 1:
                print(f"run {printable(run_id)}")
            for change in changes:
                for line in story(change):
                    print(printable(line))  # a trace may have come from anywhere
            if not changes:
                print("no view has changed")
        for note in sources.notes:
            print(f"note: {note}")
    return EXIT_OK if sources.runs else _nothing(sources)


def _nothing(sources: "Sources") -> int:
    if not sources.notes:
        raise BadRequest("there is neither a flight recorder nor a trace to explain anything by")
    return EXIT_UNREACHABLE


def _is_meant(change: "Change", wanted: str | None, node: int | None) -> bool:
    ring = str(change.ring.ring_id) if change.ring is not None else ""
    if wanted is not None and wanted not in (str(change.number), ring):
        return False
    concerned = {*change.gone, *(way.node for way in change.passages)}
    if change.ring is not None:
        concerned.update(change.ring.members)
    return node is None or node in concerned


def _extent(runs: "dict[str, list[Change]]") -> str:
    most = max((len(changes) for changes in runs.values()), default=0)
    return f"there are {most}" if most != 1 else "there is 1"


def _sources(sources: "Sources", run_id: str) -> list[dict[str, object]]:
    return [
        {
            "node": account.node,
            "incarnation": account.incarnation,
            "source": account.source,
            "ended": account.ended or None,
            "has_beginning": account.has_beginning,
            "clock": account.clock or None,
        }
        for account in sources.runs[run_id].accounts.values()
    ]
