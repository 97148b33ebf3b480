"""`evensong bench`: how fast this machine is with evensong on it, beside what it can do at all."""

import argparse
import json
import os
from typing import TYPE_CHECKING

from evensong.cli.command import EXIT_OK, Subparsers, add_command, number
from evensong.cli.progress import Progress
from evensong.cli.up import interruptible
from evensong.errors import BadRequest

if TYPE_CHECKING:
    from evensong.bench.ring import Turn, Way

DATAGRAM_LEAST, DATAGRAM_MOST = 200, 1_452
MESSAGE_LEAST, MESSAGE_MOST = 8, 16 * 1_024 * 1_024
DATAGRAM, MESSAGE = 1_400, 100  # bytes, unless told


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "bench",
        run,
        summary="measure a cluster of daemons on this machine, end to end or the ring alone",
        example="evensong bench --nodes 3 --size 100 --json",
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=["groups", "ring"],
        default="groups",
        help="groups: messages from client to clients (default); ring: packets beside plain UDP",
    )
    parser.add_argument("--nodes", type=number(2, 32), default=3, metavar="N", help="daemons")
    parser.add_argument(
        "--size",
        type=number(MESSAGE_LEAST, MESSAGE_MOST),
        metavar="BYTES",
        help="of a message (default: 100), for a ring of a datagram (default: 1400)",
    )
    parser.add_argument(
        "--service", choices=["agreed", "safe"], help="groups only (default: agreed)"
    )
    parser.add_argument(
        "--api", choices=["batch", "message"], help="groups only; how clients work (default: batch)"
    )
    parser.add_argument(
        "--rate",
        type=number(0, 10_000_000),
        metavar="R",
        help="groups only: messages a second over all clients (default: as fast as they are taken)",
    )
    parser.add_argument(
        "--seconds", type=number(1, 600), default=3, metavar="S", help="each turn lasts (3)"
    )
    parser.add_argument(
        "--turns", type=number(1, 100), default=3, metavar="N", help="of each way (default: 3)"
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        default=None,
        help="ring only: also with traces, and what they cost",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    for name in ("service", "api", "rate") if args.what == "ring" else ("trace",):
        if getattr(args, name) is not None:
            raise BadRequest(f"--{name}: bench {args.what} does not take it")
    with interruptible():
        return _run_ring(args) if args.what == "ring" else _run_groups(args)


def _run_groups(args: argparse.Namespace) -> int:
    from evensong.bench import groups

    load = groups.Load(
        args.size or MESSAGE, args.service or "agreed", args.api or "batch", args.rate or 0
    )
    with Progress("bench", args.turns) as progress:
        turns = []
        for _ in range(args.turns):
            turns.append(groups.measure(args.nodes, load, args.seconds))
            progress.advance()
    told = groups.told(args.nodes, load, turns, args.seconds)
    print(json.dumps(told) if args.json else _sentence(told))
    return EXIT_OK


def _sentence(told: dict[str, object]) -> str:
    return (
        f"{told['nodes']} daemons, {told['nodes']} clients that send {told['size']}-byte messages, "
        f"{told['service']}, by {told['api']}; {told['turns']} turns of {told['seconds']} s\n"
        f"{told['delivered_per_s']:,.0f} messages/s at each client ({told['mb_per_s']:,.1f} MB/s), "
        f"p50 {told['p50_us']:,} us, p99 {told['p99_us']:,} us, "
        f"{told['cpu_us_per_message']:.2f} us of CPU a message, "
        f"{told['retransmissions']} packets sent again"
    )


def _run_ring(args: argparse.Namespace) -> int:
    from evensong.bench.ring import TRACED, WAYS, measure

    args.size = args.size or DATAGRAM
    if not DATAGRAM_LEAST <= args.size <= DATAGRAM_MOST:
        raise BadRequest(f"--size: a datagram has {DATAGRAM_LEAST} to {DATAGRAM_MOST} bytes")
    ways = WAYS + TRACED if args.trace else WAYS
    with Progress("bench", args.turns * (len(ways) + 1)) as progress:
        floors, taken = measure(
            ways, args.nodes, args.size, args.seconds, args.turns, progress.advance
        )
    told = _told(args, floors, taken)
    print(json.dumps(told) if args.json else _table(told))
    return EXIT_OK


def _told(
    args: argparse.Namespace, floors: list[float], taken: "dict[Way, list[Turn]]"
) -> dict[str, object]:
    from evensong.bench.ring import median, messages_in

    base = median(floors)
    ways: list[dict[str, object]] = []
    for way, turns in taken.items():
        rates = [turn.packets_per_s for turn in turns]
        traced = median([turn.trace_bytes for turn in turns])
        ways.append(
            {
                "way": way.name,
                "sealed": way.is_sealed,
                "gso": way.in_bursts,
                "trace": way.trace,
                "packets_per_s": _spread(rates),
                # of the floor of the same turn, so that a busy minute counts for both
                "of_floor": _spread([r / f for r, f in zip(rates, floors, strict=True)]),
                "cpu_us_per_packet": _spread([turn.cpu_us for turn in turns]),
                "view_changes": sum(turn.view_changes for turn in turns),
                "trace_bytes_per_packet": traced,
                "trace_bytes_per_100_byte_message": traced / messages_in(args.size),
            }
        )
    return {
        "nodes": args.nodes,
        "size": args.size,
        "seconds": args.seconds,
        "turns": args.turns,
        "cores": os.cpu_count(),
        "floor_per_s": {**_spread(floors), "median": base},
        "ways": ways,
    }


def _spread(amounts: list[float]) -> dict[str, object]:
    from evensong.bench.ring import median

    return {"median": median(amounts), "min": min(amounts), "max": max(amounts), "all": amounts}


def _table(told: dict[str, object]) -> str:
    floor, ways = told["floor_per_s"], told["ways"]
    assert isinstance(floor, dict)
    assert isinstance(ways, list)
    lines = [
        f"{told['nodes']} daemons, {told['size']}-byte datagrams, {told['cores']} cores, "
        f"{told['turns']} turns of {told['seconds']} s; median [min - max]",
        f"{'plain UDP, no order':24}{_range(floor):>28} packets/s",
    ]
    for way in ways:
        line = f"{way['way']:24}{_range(way['packets_per_s']):>28} packets/s"
        line += f"  {way['of_floor']['median']:5.2f} of the floor"
        line += f"  {way['cpu_us_per_packet']['median']:5.1f} us of CPU"
        if way["trace"] == "events":
            line += f"  {way['trace_bytes_per_100_byte_message']:.2f} bytes/message"
        if way["view_changes"]:
            line += f"  ({way['view_changes']} view changes)"
        lines.append(line)
    return "\n".join(lines)


def _range(spread: dict[str, float]) -> str:
    return f"{spread['median']:,.0f} [{spread['min']:,.0f} - {spread['max']:,.0f}]"
