"""`evensong doctor`: let a daemon examine its peers, and say what is likely wrong."""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import (
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.targets import states_of, understood
from evensong.cli.text import counts, long_ago, table
from evensong.errors import BadRequest, BadSettings, CannotStart, Unreachable

if TYPE_CHECKING:
    from evensong.daemon.diagnosis import Finding
    from evensong.daemon.facts import Facts, PeerFacts

POLL_S: Final = 0.05
DEADLINE_S: Final = 15.0


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "doctor",
        run,
        summary="let daemons of this machine examine their peers, and say what is likely wrong",
        example="evensong doctor n1.toml",
    )
    parser.add_argument(
        "targets",
        type=Path,
        nargs="+",
        metavar="CONFIG|STATE_DIR|ADDRESS",
        help="a daemon's settings, its state directory or its address; "
        "several daemons explain each other",
    )
    parser.add_argument(
        "--all", action="store_true", help="also every state directory below a directory"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Examine each daemon; 0 if all is well, 1 if something was found, 3 if one does not answer."""
    from evensong.daemon.diagnosis import diagnose
    from evensong.daemon.facts import to_json

    reports: list[Facts] = []
    silent: list[str] = []
    for target in args.targets:
        for state in states_of([target], is_all=args.all):
            try:
                reports.append(_examined(state))
            except Unreachable as error:
                silent.append(f"{error}; {_why_not(target, state)}")
            except BadRequest as error:
                silent.append(f"{state}: {error}")
    findings = diagnose(reports)
    if args.json:
        told = {
            "daemons": [to_json(facts) for facts in reports],
            "findings": [finding._asdict() for finding in findings],
            "unreachable": silent,
        }
        print(json.dumps(told))
    else:
        print("\n".join([*_told(reports, findings), *silent]))
    if silent:
        return EXIT_UNREACHABLE
    return EXIT_VIOLATION if findings else EXIT_OK


def _examined(state: Path) -> "Facts":
    """Ask again and again: each time the daemon sends a few more probes."""
    from evensong.daemon.control import ask
    from evensong.daemon.diagnosis import diagnose
    from evensong.daemon.facts import from_json

    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        answer = ask(state, {"do": "doctor"})
        with understood(state):
            if answer["done"]:
                facts = answer["facts"]
                assert isinstance(facts, dict)
                examined = from_json(facts)
                _told([examined], diagnose([examined]))
                return examined
        time.sleep(POLL_S)
    raise Unreachable(f"{state}: the examination does not end")


def _why_not(target: Path, state: Path) -> str:
    """Say why a daemon is not there, as far as that can be seen from outside."""
    from evensong.daemon import lastwords
    from evensong.daemon.control import is_listening

    if is_listening(state):
        return "its process is alive: suspended, too busy to answer, or of another release"
    reasons = []
    if target.is_file():
        reasons += _start_problems(target)
    reasons.append(lastwords.read(state) or "it left no word: killed, or never started")
    return "; ".join(reasons)


def _start_problems(config: Path) -> list[str]:
    """Try what a daemon does at its start."""
    from evensong.cli.config import problems
    from evensong.daemon.datagrams import Datagrams
    from evensong.daemon.settings import load

    try:
        settings = load(config)
    except BadSettings as error:
        return [str(error)]
    found = problems(settings)
    try:
        Datagrams(settings.listen, {}).close()
    except CannotStart as error:
        found.append(str(error))
    return found


def _told(reports: "list[Facts]", findings: "list[Finding]") -> list[str]:
    from evensong.daemon.diagnosis import sentences, summary

    lines: list[str] = []
    for facts in reports:
        lines.append(f"{summary(facts)}; own lateness {facts.lag_us / 1e3:.1f} ms")
        if facts.strangers:
            lines.append(f"  refused of strangers: {counts(facts.strangers)}")
        if facts.peers:
            head = ["peer", "answers", "rtt", "packet", "clock", "lateness", "refused", "refuses"]
            lines += [f"  {line}" for line in table([head, *map(_row, facts.peers)])]
    if findings:
        lines += ["", "found:", *(f"  {one}" for one in sentences(findings))]
    elif reports:
        lines += ["", "nothing is wrong"]
    return lines


def _row(peer: "PeerFacts") -> list[str]:
    about = peer.about
    heard = "never heard" if peer.heard_ms_ago is None else f"heard {long_ago(peer.heard_ms_ago)}"
    return [
        peer.name,
        f"{peer.answers} of {peer.probes}" if peer.answers else heard,
        "-" if peer.rtt_us is None else f"{peer.rtt_us / 1e3:.2f} ms",
        "-" if peer.size is None else str(peer.size),
        "-" if peer.clock_offset_us is None else f"{peer.clock_offset_us / 1e3:+.1f} ms",
        "-" if about is None else f"{about.lag_us / 1e3:.1f} ms",
        counts(peer.refused),
        "-" if about is None else counts(about.refused),
    ]
