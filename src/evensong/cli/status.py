"""`evensong status`: what daemons say of themselves, side by side, and where they disagree."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from evensong.cli.command import (
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.errors import Unreachable

RECORD_NAMES: Final = ("lock", "ring.record", "control.sock")  # what makes a state directory


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "status",
        run,
        summary="show what daemons of this machine say of themselves",
        example="evensong status n1.toml",
    )
    parser.add_argument(
        "targets",
        type=Path,
        nargs="+",
        metavar="CONFIG|STATE_DIR",
        help="a daemon's settings or its state directory",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="targets are directories that hold state directories, as `evensong up` makes them; "
        "compare all daemons, and exit with 1 if they disagree on who is in the ring",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Ask each daemon and print the answers."""
    from evensong.daemon.control import Answer, ask

    answers: list[Answer] = []
    silent: list[str] = []
    for state in _states(args.targets, args.all):
        try:
            answers.append(ask(state, {"do": "status"}))
        except Unreachable as error:
            silent.append(str(error))
    disagreement = _disagreement(answers)
    if args.json:
        told = {"daemons": answers, "unreachable": silent, "disagreement": disagreement}
        print(json.dumps(told))
    elif len(answers) == 1 and not args.all:
        print(_details(answers[0]))
    else:
        print(_table(answers))
        if disagreement:
            print(f"they disagree: {disagreement}")
    if not args.json:
        for problem in silent:
            print(f"evensong: {problem}", file=sys.stderr)
    if silent:
        return EXIT_UNREACHABLE
    return EXIT_VIOLATION if args.all and disagreement else EXIT_OK


def _states(targets: list[Path], is_all: bool) -> list[Path]:
    """Return the state directories that are meant."""
    states: list[Path] = []
    for target in targets:
        if target.is_file():
            from evensong.daemon.settings import load

            states.append(load(target).state)
        elif is_all and target.is_dir():
            found = {one.parent for name in RECORD_NAMES for one in target.glob(f"*/{name}")}
            states += sorted(found) or [target]
        else:
            states.append(target)
    return states


def _disagreement(answers: list[dict[str, object]]) -> str:
    """Say in a sentence how the daemons' rings differ; empty if they do not."""
    by_ring: dict[str, list[str]] = {}
    for answer in answers:
        ring = f"{answer['ring']} of {_members(answer)}"
        by_ring.setdefault(ring, []).append(str(answer["name"]))
    if len(by_ring) < 2:
        return ""
    return "; ".join(f"{' '.join(names)} in ring {ring}" for ring, names in by_ring.items())


def _members(answer: dict[str, object]) -> str:
    members = answer["members"]
    assert isinstance(members, list)
    return " ".join(map(str, members))


def _counts(counts: object) -> str:
    if not isinstance(counts, dict) or not counts:
        return "none"
    return ", ".join(f"{reason} {count}" for reason, count in counts.items())


def _table(answers: list[dict[str, object]]) -> str:
    rows = [["name", "state", "ring", "members", "sent", "delivered", "refused"]]
    rows += [
        [
            *(str(one[key]) for key in ("name", "state", "ring")),
            _members(one),
            *(str(one[key]) for key in ("sent", "delivered")),
            _counts(one["refused"]),
        ]
        for one in answers
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _details(one: dict[str, object]) -> str:
    lag, peers, trace = one["lag"], one["peers"], one["trace"]
    assert isinstance(lag, dict)
    assert isinstance(trace, dict)
    assert isinstance(peers, dict)
    lines = [
        f"{one['name']}: node {one['node']} of cluster {one['cluster']}, "
        f"incarnation {one['incarnation']}, up {int(str(one['up_ms'])) / 1_000:.1f} s"
        + (", INSECURE" if one["insecure"] else ""),
        f"  {one['state']} in ring {one['ring']} of {_members(one)}; because: {one['cause']}",
        f"  sent {one['sent']}, delivered {one['delivered']}, waiting {one['backlog']}, "
        f"configurations {one['configurations']}, token visits {one['token_visits']}",
        f"  refused: {_counts(one['refused'])}",
        f"  dropped by the ring: {_counts(one['dropped'])}",
        f"  could not be sent: {_counts(one['send_errors'])}",
        f"  own lateness: {lag['recent_us'] / 1_000:.1f} ms lately, "
        f"{lag['worst_us'] / 1_000:.1f} ms at worst",
        f"  trace: {trace['level']}"
        + (f", {trace['lost']} records lost" if trace.get("lost") else "")
        + (f", STOPPED: {trace['stopped']}" if trace.get("stopped") else ""),
    ]
    for peer, about in peers.items():
        heard = about["heard_ms_ago"]
        word = "never heard" if heard is None else f"heard {heard} ms ago"
        refused = f", refused: {_counts(about['refused'])}" if about["refused"] else ""
        ignored = ", ignored" if about["ignored"] else ""
        lines.append(f"  peer {peer} at {about['configured']}: {word}{ignored}{refused}")
    return "\n".join(lines)
