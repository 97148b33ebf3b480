"""`evensong keys`: make the key that all daemons of a cluster share."""

import argparse
import json
from pathlib import Path

from evensong.cli.command import EXIT_OK, Subparsers, add_command
from evensong.errors import BadParameters, CannotStart


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "keys",
        run,
        summary="make a cluster's key",
        example="evensong keys new cluster.key",
    )
    parser.add_argument("act", choices=["new"], help="new: draw a key and write it to FILE")
    parser.add_argument("file", type=Path, metavar="FILE", help="is never overwritten")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Write a new key, readable by its owner alone."""
    from evensong.daemon.keys import write_new_key

    try:
        key = write_new_key(args.file)
    except CannotStart as error:
        raise BadParameters(str(error)) from None  # it is FILE that is wrong
    if args.json:
        print(json.dumps({"file": str(args.file), "key_id": key.key_id}))
    else:
        print(
            f"{args.file}: a new key, id {key.key_id}. Copy it to every node, and to nobody else."
        )
    return EXIT_OK
