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
    from evensong.bench import engines
    from evensong.bench.beside import Beside
    from evensong.bench.ring import Turn, Way

DATAGRAM_LEAST, DATAGRAM_MOST = 200, 1_452
MESSAGE_LEAST, MESSAGE_MOST = 8, 16 * 1_024 * 1_024
DATAGRAM, MESSAGE = 1_400, 100  # bytes, unless told
ENGINE_MESSAGE_MOST = 8_192
GROUPS_ONLY = ("service", "api", "rate")


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "bench",
        run,
        summary="measure a cluster of daemons on this machine, end to end, the ring or the engines",
        example="evensong bench --nodes 3 --size 100 --json",
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=["groups", "ring", "engines"],
        default="groups",
        help="groups: messages from client to clients (default); ring: packets beside plain UDP; "
        "engines: daemons of totem and of transis, side by side",
    )
    parser.add_argument(
        "--nodes",
        type=_nodes,
        metavar="N",
        help="daemons (default: 3); for engines also A:B, each of these numbers (default: 3:10)",
    )
    parser.add_argument(
        "--size",
        type=number(MESSAGE_LEAST, MESSAGE_MOST),
        metavar="BYTES",
        help="of a message (default: 100, for engines 1024), for a ring of a datagram (1400)",
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
        "--seconds",
        type=number(1, 600),
        metavar="S",
        help="each turn lasts (default: 3; for --cores 1, of CPU time)",
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
    parser.add_argument(
        "--cores",
        action="store_true",
        default=None,
        help="engines only: the engines alone in one process, without daemons, and what they cost",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _nodes(text: str) -> list[int]:
    """Read a number of daemons, or the first and the last of several."""
    first, colon, last = text.partition(":")
    read = number(2, 32)
    found = range(read(first), read(last if colon else first) + 1)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return [*found]


def run(args: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    foreign = {
        "groups": ("trace", "cores"),
        "ring": (*GROUPS_ONLY, "cores"),
        "engines": (*GROUPS_ONLY, "trace"),
    }
    for name in foreign[args.what]:
        if getattr(args, name) is not None:
            raise BadRequest(f"--{name}: bench {args.what} does not take it")
    with interruptible():
        if args.what == "engines":
            return _run_cores(args) if args.cores else _run_engines(args)
        if args.nodes is not None and len(args.nodes) > 1:
            raise BadRequest(f"--nodes: bench {args.what} takes one number")
        args.nodes, args.seconds = args.nodes[0] if args.nodes else 3, args.seconds or 3
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


def _turns(told: dict[str, object]) -> str:
    word = "turn" if told["turns"] == 1 else "turns"
    return f"{told['turns']} {word} of {told['seconds']} s"


def _sentence(told: dict[str, object]) -> str:
    return (
        f"{told['nodes']} daemons, {told['nodes']} clients that send {told['size']}-byte messages, "
        f"{told['service']}, by {told['api']}; {_turns(told)}\n"
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


def _run_engines(args: argparse.Namespace) -> int:
    from evensong.bench import beside, engines
    from evensong.sim.setup import ENGINES

    size, seconds = args.size or engines.SIZE, args.seconds or 3
    nodes = args.nodes or list(engines.NODES)
    with Progress("bench", args.turns * len(nodes) * len(ENGINES)) as progress:
        taken = engines.in_turns(
            lambda engine, n: beside.measure(engine, n, size, seconds),
            nodes,
            args.turns,
            progress.advance,
        )
    told = told_daemons(size, seconds, args.turns, taken)
    print(json.dumps(told) if args.json else _daemons_table(told))
    return EXIT_OK


def told_daemons(
    size: int, seconds: float, turns: int, taken: "dict[tuple[str, int], list[Beside]]"
) -> dict[str, object]:
    """Return what daemons of both engines came to."""
    from evensong.bench.beside import RATE

    cells: list[dict[str, object]] = [
        {
            "engine": engine,
            "nodes": nodes,
            "delivered_per_s": _spread([turn.delivered_per_s for turn in found]),
            "least_per_s": min(turn.least_per_s for turn in found),
            "cpu_us_per_message": _spread([turn.cpu_us for turn in found]),
            "p50_us": _spread([turn.p50_us for turn in found]),
            "p99_us": _spread([turn.p99_us for turn in found]),
            "samples": sum(turn.samples for turn in found),
            "retransmissions": sum(turn.resent for turn in found),
            "view_changes": sum(turn.view_changes for turn in found),
        }
        for (engine, nodes), found in taken.items()
    ]
    return {
        "of": "daemons",
        "size": size,
        "rate": RATE,
        "seconds": seconds,
        "turns": turns,
        "cores": os.cpu_count(),
        "cells": cells,
    }


def _daemons_table(told: dict[str, object]) -> str:
    cells = told["cells"]
    assert isinstance(cells, list)
    lines = [
        f"daemons and a client at each, all send {told['size']}-byte messages; {told['cores']} "
        f"cores, {_turns(told)}; median [min - max]",
        f"messages/s at one client, and how long an agreed one takes at {told['rate']:.0f}/s",
    ]
    for cell in cells:
        line = f"{cell['engine']:8}{cell['nodes']:3} {_range(cell['delivered_per_s']):>28}"
        line += f"  p50 {_range(cell['p50_us'])} us, p99 {cell['p99_us']['median']:,.0f} us"
        if cell["view_changes"]:
            line += f"  ({cell['view_changes']} view changes)"
        lines.append(line)
    return "\n".join(lines)


def _run_cores(args: argparse.Namespace) -> int:
    from evensong.bench import engines
    from evensong.sim.setup import ENGINES

    size, seconds = args.size or engines.SIZE, args.seconds or 1
    if not engines.NAME.size <= size <= ENGINE_MESSAGE_MOST:
        raise BadRequest(
            f"--size: a message of an engine has {engines.NAME.size} to {ENGINE_MESSAGE_MOST} bytes"
        )
    nodes = args.nodes or list(engines.NODES)
    with Progress("bench", args.turns * len(nodes) * len(ENGINES)) as progress:
        taken = engines.measure_all(nodes, size, seconds, args.turns, progress.advance)
    told = _told_engines(size, seconds, args.turns, taken)
    print(json.dumps(told) if args.json else _engines_table(told))
    return EXIT_OK


def _told_engines(
    size: int, seconds: float, turns: int, taken: "dict[tuple[str, int], list[engines.Turn]]"
) -> dict[str, object]:
    cells: list[dict[str, object]] = [
        {
            "engine": engine,
            "nodes": nodes,
            "messages_per_s": _spread([turn.per_s() for turn in found]),
            "cpu_us_per_message": _spread([turn.cpu_us() for turn in found]),
            "on_one_cpu_per_s": _spread([turn.together_per_s() for turn in found]),
            "view_changes": sum(turn.view_changes for turn in found),
        }
        for (engine, nodes), found in taken.items()
    ]
    return {
        "of": "cores",  # in one process, without a network
        "size": size,
        "seconds": seconds,
        "turns": turns,
        "cores": os.cpu_count(),
        "cells": cells,
    }


def _engines_table(told: dict[str, object]) -> str:
    cells = told["cells"]
    assert isinstance(cells, list)
    lines = [
        f"cores in one process, all send {told['size']}-byte messages; "
        f"{_turns(told)} of CPU; median [min - max]",
        "messages/s where each processor has such a CPU to itself, and what one costs it there",
    ]
    for cell in cells:
        line = f"{cell['engine']:8}{cell['nodes']:3} {_range(cell['messages_per_s']):>28}"
        line += f"  {cell['cpu_us_per_message']['median']:7.1f} us of CPU"
        if cell["view_changes"]:
            line += f"  ({cell['view_changes']} view changes)"
        lines.append(line)
    return "\n".join(lines)


def _spread(amounts: list[float]) -> dict[str, object]:
    from evensong.bench.ring import median

    return {"median": median(amounts), "min": min(amounts), "max": max(amounts), "all": amounts}


def _table(told: dict[str, object]) -> str:
    floor, ways = told["floor_per_s"], told["ways"]
    assert isinstance(floor, dict)
    assert isinstance(ways, list)
    lines = [
        f"{told['nodes']} daemons, {told['size']}-byte datagrams, {told['cores']} cores, "
        f"{_turns(told)}; median [min - max]",
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
