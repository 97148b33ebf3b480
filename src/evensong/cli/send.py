"""`evensong send`: send messages to groups, and say where in the order they came to be."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from evensong.cli.clients import add_target, order_json, socket_of
from evensong.cli.command import EXIT_OK, Subparsers, add_command
from evensong.cli.text import printable
from evensong.errors import BadParameters, EvensongError

if TYPE_CHECKING:
    import io

    from evensong.sync import Receipt

SERVICES: Final = ("basic", "fifo", "causal", "agreed", "safe")
CHUNK: Final = 65_536  # bytes of the input that are sent before the first is waited for


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
        help="text; without any, each line of the input; behind `--` also one like -x",
    )
    parser.set_defaults(repeated="messages")
    parser.add_argument("--id", metavar="TEXT", help="the identity of the message, if it is one")
    promised = parser.add_mutually_exclusive_group()
    promised.add_argument(
        "--service",
        choices=SERVICES,
        default="agreed",
        help="what is promised of it (default: agreed); the first three are agreed on a ring",
    )
    promised.add_argument(
        "--safe",
        dest="service",
        action="store_const",
        const="safe",
        help="deliver only when all have it: --service safe",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON a message")


def run(args: argparse.Namespace) -> int:
    """Send, and print each message's place; lines that came together are sent together."""
    from evensong.client.message import Service
    from evensong.sync import connect

    if args.id is not None and len(args.messages) != 1:
        raise BadParameters("send: --id is for one MESSAGE, given as an argument")
    service = Service(args.service)
    to = args.groups.split(",")
    given = [text.encode(errors="surrogateescape") for text in args.messages]
    with connect(socket_of(args.target), name=args.name) as es:
        for payloads in [given] if given else _lines():
            receipts: list[Receipt] = []
            try:
                receipts += (
                    es.send(to, payload, service=service, id=args.id) for payload in payloads
                )
            except EvensongError:
                _tell(receipts, as_json=args.json)  # which were sent before
                raise
            _tell(receipts, as_json=args.json)
    return EXIT_OK


def _lines() -> Iterator[list[bytes]]:
    """Read the lines of the input: as many as there are, each time, so that none waits."""
    rest, source = b"", cast("io.BufferedReader", sys.stdin.buffer)
    while chunk := source.read1(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _tell(receipts: "list[Receipt]", *, as_json: bool) -> None:
    """Wait for each message's place, and print it."""
    for receipt in receipts:
        order = receipt.ordered()
        if as_json:
            print(json.dumps({"id": str(receipt.id), "order": order_json(order)}))
        elif order is None:
            print(printable(f"message {receipt.id} is sent, without a place in the order"))
        else:
            told = f"message {receipt.id} is {order.seq}.{order.sub} of {order.ring_id}"
            print(printable(told))
    sys.stdout.flush()
