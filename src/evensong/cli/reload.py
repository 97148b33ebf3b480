"""`evensong reload`: let running daemons take over new peers and keys."""

import argparse
import json
from pathlib import Path

from evensong.cli.command import EXIT_OK, EXIT_USAGE, Subparsers, add_command
from evensong.cli.targets import states_of, understood
from evensong.errors import BadRequest


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "reload",
        run,
        summary="let running daemons take over new peers and keys from their settings files",
        example="evensong reload n1.toml",
    )
    parser.add_argument(
        "targets",
        type=Path,
        nargs="+",
        metavar="CONFIG|STATE_DIR|ADDRESS",
        help="a daemon's settings, its state directory or its address",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Ask each daemon, in turn, and stop at the first that refuses: it has kept its settings."""
    from evensong.daemon.control import ask

    changed_by_state: dict[str, object] = {}
    error = ""
    for state in states_of(args.targets):
        try:
            answer = ask(state, {"do": "reload"})
            with understood(state):
                changed_by_state[str(state)] = answer["changed"]
        except BadRequest as refused:
            error = f"{state}: {refused}"
            break
    if args.json:
        print(json.dumps({"changed": changed_by_state, "error": error}))
    else:
        for where, changed in changed_by_state.items():
            told = "; ".join(map(str, changed)) if isinstance(changed, list) else ""
            print(f"{where}: {told or 'nothing has changed'}")
        if error:
            raise BadRequest(error)
    return EXIT_USAGE if error else EXIT_OK
