"""`evensong send`: send messages to groups, and say where in the order they came to be."""

import argparse
import json
import sys

from evensong.cli.clients import add_target, order_json, socket_of
from evensong.cli.command import EXIT_OK, Subparsers, add_command
from evensong.errors import BadParameters


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "send",
        run,
        summary="send messages to a group, or to several at one place in the order",
        example='evensong send n1.toml orders "buy 5"',
    )
    add_target(parser)
    parser.add_argument("groups", metavar="GROUP[,GROUP…]", help="groups or private names")
    parser.add_argument(
        "messages",
        metavar="MESSAGE",
        nargs="*",
        default=[],  # else argparse calls it required where another argument is missing
        help="text; without any, each line of the input",
    )
    parser.add_argument("--id", metavar="TEXT", help="the identity of the message, if it is one")
    parser.add_argument("--safe", action="store_true", help="deliver only when all have it")
    parser.add_argument("--json", action="store_true", help="print one line of JSON a message")


def run(args: argparse.Namespace) -> int:
    """Send, wait for each message's place, and print it."""
    from evensong.client.message import Service
    from evensong.sync import connect

    if args.id is not None and len(args.messages) != 1:
        raise BadParameters("send: --id is for one MESSAGE, given as an argument")
    service = Service.SAFE if args.safe else Service.AGREED
    to = args.groups.split(",")
    with connect(socket_of(args.target), name=args.name) as es:
        lines = (line.removesuffix("\n") for line in sys.stdin)
        for text in args.messages or lines:
            payload = text.encode(errors="surrogateescape")
            receipt = es.send(to, payload, service=service, id=args.id)
            order = receipt.ordered()
            if args.json:
                print(json.dumps({"id": str(receipt.id), "order": order_json(order)}))
            else:
                print(f"message {receipt.id} is {order.seq}.{order.sub} of ring {order.ring_id}")
            sys.stdout.flush()
    return EXIT_OK
