"""`evensong recv`: follow groups, and print what their members are told, in order."""

import argparse
import json
import sys
from contextlib import ExitStack

from evensong.cli.clients import add_target, event_json, event_text, socket_of
from evensong.cli.command import EXIT_OK, Subparsers, add_command, number


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "recv",
        run,
        summary="join groups and print their messages and views until Ctrl-C",
        example="evensong recv n1.toml orders --json",
    )
    add_target(parser)
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="a group to join")
    parser.set_defaults(repeated="groups")
    parser.add_argument(
        "--count", type=number(1, 2**62), metavar="N", help="stop after so many messages"
    )
    parser.add_argument("--no-views", action="store_true", help="print messages only")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON an event; without it what cannot be printed is escaped",
    )


def run(args: argparse.Namespace) -> int:
    """Join, print what comes, and leave."""
    from evensong.core.groups.events import View
    from evensong.sync import connect

    left: int | None = args.count
    with ExitStack() as stack:
        try:
            es = stack.enter_context(connect(socket_of(args.target), name=args.name))
            reading = es.batches()
            for group in dict.fromkeys(args.groups):
                stack.enter_context(es.join(group))
            for batch in reading:
                for event in batch:
                    is_view = isinstance(event, View)
                    if is_view and args.no_views:
                        continue
                    print(json.dumps(event_json(event)) if args.json else event_text(event))
                    if left is not None and not is_view:
                        left -= 1
                        if not left:
                            return EXIT_OK
                sys.stdout.flush()
        except KeyboardInterrupt:
            pass  # the usual way to end it; groups are left in good order
    return EXIT_OK
