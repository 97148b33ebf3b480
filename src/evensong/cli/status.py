"""`evensong status`: what daemons say of themselves, side by side, and where they disagree."""

import argparse
import json
import sys
from pathlib import Path

from evensong.cli.command import (
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.targets import states_of, understood
from evensong.cli.text import counts, long_ago, table
from evensong.core.engine import TOTEM
from evensong.errors import BadRequest, Unreachable


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
        metavar="CONFIG|STATE_DIR|ADDRESS",
        help="a daemon's settings, its state directory or its address",
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

    by_cluster: dict[str, list[Answer]] = {}
    silent: list[str] = []
    for target in args.targets:
        for state in states_of([target], is_all=args.all):
            try:
                answer = ask(state, {"do": "status"})
                # Clusters of `evensong up` share a name, but not a directory.
                with understood(state):
                    cluster = str(target if state.parent == target else answer["cluster"])
                    _details(answer)
                    _table({cluster: [answer]})
                by_cluster.setdefault(cluster, []).append(answer)
            except Unreachable as error:
                silent.append(str(error))
            except BadRequest as error:
                silent.append(f"{state}: {error}")
    answers = [answer for group in by_cluster.values() for answer in group]
    disagreement = _disagreements(by_cluster)
    if args.json:
        told = {"daemons": answers, "unreachable": silent, "disagreement": disagreement}
        print(json.dumps(told))
    elif len(answers) == 1 and not args.all:
        print(_details(answers[0]))
    elif answers:
        print(_table(by_cluster))
        if disagreement:
            print(f"they disagree: {disagreement}")
    if not args.json:
        for problem in silent:
            print(f"evensong: {problem}", file=sys.stderr)
    if silent:
        return EXIT_UNREACHABLE
    return EXIT_VIOLATION if args.all and disagreement else EXIT_OK


def _disagreements(by_cluster: dict[str, list[dict[str, object]]]) -> str:
    """Say how rings differ within a cluster; empty if they do not."""
    told = {cluster: _disagreement(answers) for cluster, answers in by_cluster.items()}
    if len(told) == 1:
        return "".join(told.values())
    return "; ".join(f"{cluster}: {how}" for cluster, how in told.items() if how)


def _disagreement(answers: list[dict[str, object]]) -> str:
    """Say in a sentence how the daemons' rings differ; empty if they do not."""
    by_ring: dict[str, list[str]] = {}
    for answer in answers:
        ring = f"{answer['ring']} of {_members(answer)}"
        by_ring.setdefault(ring, []).append(str(answer["name"]))
    if len(by_ring) < 2:
        return ""
    noun = _noun(answers[0])
    return "; ".join(f"{' '.join(names)} in {noun} {ring}" for ring, names in by_ring.items())


def _noun(answer: dict[str, object]) -> str:
    """Return what the engine of a daemon calls those who are together."""
    return "ring" if answer.get("engine", TOTEM) == TOTEM else "view"


def _members(answer: dict[str, object]) -> str:
    members = answer["members"]
    assert isinstance(members, list)
    return " ".join(map(str, members))


def _table(by_cluster: dict[str, list[dict[str, object]]]) -> str:
    """Show daemons side by side, with their cluster if there are several."""
    rows: list[list[str]] = []
    for cluster, answers in by_cluster.items():
        head, *below = _rows(answers)
        rows += ([["cluster", *head]] if not rows else []) + [[cluster, *row] for row in below]
    if len(by_cluster) == 1:
        rows = [row[1:] for row in rows]
    return "\n".join(table(rows))


def _rows(answers: list[dict[str, object]]) -> list[list[str]]:
    head = ["name", "state", _noun(answers[0]), "members", "for", "because", "sent", "delivered"]
    rows = [[*head, "lateness", "refused"]]
    for one in answers:
        lag = one["lag"]
        assert isinstance(lag, dict)
        rows.append(
            [
                *(str(one[key]) for key in ("name", "state", "ring")),
                _members(one),
                _rings(one)[-1][0] if _rings(one) else "-",
                str(one["cause"]),
                *(str(one[key]) for key in ("sent", "delivered")),
                f"{lag['recent_us'] / 1_000:.1f} ms",
                counts(one["refused"]),
            ]
        )
    return rows


def _rings(one: dict[str, object]) -> list[tuple[str, str]]:
    """Return the last few rings, the oldest first: how long ago, and what happened."""
    rings = one["rings"]
    assert isinstance(rings, list)
    told: list[tuple[str, str]] = []
    before: set[int] = set()
    for ring in rings:
        members = set(ring["members"])
        changes = [
            f"{word} {' '.join(map(str, sorted(whom)))}"
            for word, whom in (("joined", members - before), ("left", before - members))
            if whom and before
        ]
        note = f" ({'; '.join(changes)})" if changes else ""
        named = " ".join(map(str, ring["members"]))
        text = f"{_noun(one)} {ring['ring']} of {named}{note}; because: {ring['cause']}"
        told.append((_ago(ring["ms_ago"]), text))
        before = members
    return told


def _ago(ms: int) -> str:
    seconds = ms / 1_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _rotation(rotation: dict[str, int]) -> str:
    if not rotation["count"]:
        return "  the token has not been measured: no traffic yet"
    return (
        f"  the token comes round in {rotation['p50_us'] / 1_000:.1f} ms, at worst in "
        f"{rotation['p99_us'] / 1_000:.1f} ms but for one in a hundred"
    )


def _details(one: dict[str, object]) -> str:
    lag, peers, rotation, trace = one["lag"], one["peers"], one["rotation"], one["trace"]
    assert isinstance(rotation, dict)
    assert isinstance(lag, dict)
    assert isinstance(trace, dict)
    assert isinstance(peers, dict)
    clients = one["clients"]
    assert isinstance(clients, dict)
    is_ring = one.get("engine", TOTEM) == TOTEM
    lines = [
        f"{one['name']}: node {one['node']} of cluster {one['cluster']}, "
        f"incarnation {one['incarnation']}, up {int(str(one['up_ms'])) / 1_000:.1f} s"
        + (", INSECURE" if one["insecure"] else ""),
        f"  {one['state']} in {_noun(one)} {one['ring']} of {_members(one)}; "
        f"because: {one['cause']}",
        f"  sent {one['sent']}, delivered {one['delivered']}, waiting {one['backlog']}, "
        f"configurations {one['configurations']}"
        + (f", token visits {one['token_visits']}" if is_ring else ""),
        f"  refused: {counts(one['refused'])}",
        f"  dropped by {'the ring' if is_ring else one['engine']}: {counts(one['dropped'])}",
        f"  could not be sent: {counts(one['send_errors'])}",
        *([_rotation(rotation)] if is_ring else []),
        f"  own lateness: {lag['recent_us'] / 1_000:.1f} ms lately, "
        f"{lag['worst_us'] / 1_000:.1f} ms at worst",
        f"  trace: {trace['level']}"
        + (f", {trace['lost']} records lost" if trace.get("lost") else "")
        + (f", STOPPED: {trace['stopped']}" if trace.get("stopped") else ""),
        f"  clients: {clients['connections']}, in {clients['groups']} groups; "
        f"{clients['queued']} bytes wait for them; hung up on: {counts(clients['dropped'])}",
    ]
    for peer, about in peers.items():
        heard = about["heard_ms_ago"]
        word = "never heard" if heard is None else f"heard {long_ago(heard)}"
        refused = f", refused: {counts(about['refused'])}" if about["refused"] else ""
        ignored = ", ignored" if about["ignored"] else ""
        lines.append(f"  peer {peer} at {about['configured']}: {word}{ignored}{refused}")
    lines += [f"  {ago} ago: {text}" for ago, text in reversed(_rings(one))]
    return "\n".join(lines)
