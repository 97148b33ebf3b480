"""`evensong groups`: which groups there are, and who is in them."""

import argparse
import json

from evensong.cli.clients import add_target, socket_of
from evensong.cli.command import EXIT_OK, Subparsers, add_command
from evensong.cli.text import printable, table


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "groups",
        run,
        summary="show all groups and their members",
        example="evensong groups n1.toml",
    )
    add_target(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Ask a daemon and print the answer."""
    from evensong.sync import connect

    with connect(socket_of(args.target), name=args.name) as es:
        groups = es.groups()
    if args.json:
        print(json.dumps({name: [str(one) for one in groups[name]] for name in sorted(groups)}))
    elif groups:
        rows = [
            [printable(name), printable(" ".join(map(str, groups[name])))]
            for name in sorted(groups)
        ]
        print("\n".join(table([["group", "members, in the order in which they joined"], *rows])))
    else:
        print("there are no groups")
    return EXIT_OK
