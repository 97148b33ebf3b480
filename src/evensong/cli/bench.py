"""`evensong bench`: how fast this machine is with evensong on it, beside what it can do at all."""

import argparse
import json
import os
from typing import TYPE_CHECKING

from evensong.cli.command import EXIT_OK, Subparsers, add_command, number
from evensong.cli.progress import Progress

if TYPE_CHECKING:
    from evensong.bench.ring import Turn, Way

SIZE_LEAST, SIZE_MOST = 200, 1_452


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "bench",
        run,
        summary="measure a ring of daemons on this machine beside the floor, plain UDP",
        example="evensong bench ring --nodes 3 --json",
    )
    parser.add_argument("what", choices=["ring"], help="ring: packets ordered a second")
    parser.add_argument("--nodes", type=number(2, 32), default=3, metavar="N", help="daemons")
    parser.add_argument(
        "--size",
        type=number(SIZE_LEAST, SIZE_MOST),
        default=1_400,
        metavar="BYTES",
        help="of a datagram (default: 1400)",
    )
    parser.add_argument(
        "--seconds", type=number(1, 600), default=3, metavar="S", help="each turn lasts (3)"
    )
    parser.add_argument(
        "--turns", type=number(1, 100), default=3, metavar="N", help="of each way (default: 3)"
    )
    parser.add_argument("--trace", action="store_true", help="also with traces, and what they cost")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    from evensong.bench.ring import TRACED, WAYS, measure

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
