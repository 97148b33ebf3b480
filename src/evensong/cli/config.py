"""`evensong config`: look at a daemon's settings before it has to live with them."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import (
    EXIT_OK,
    EXIT_USAGE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
    number,
)
from evensong.cli.tune import tune
from evensong.errors import BadSettings, CannotStart

if TYPE_CHECKING:
    from evensong.daemon.settings import Settings

WATCH_S: Final = 20


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "config",
        run,
        summary="check a daemon's settings, keys and state directory; measure what timeouts suit",
        example="evensong config check n1.toml",
    )
    parser.add_argument(
        "act",
        choices=["check", "tune"],
        help="check: say what a daemon would make of a file; "
        "tune: print timeouts that suit what running daemons measured under their usual load",
    )
    parser.add_argument(
        "configs", type=Path, nargs="+", metavar="CONFIG", help="a TOML file; for tune, several"
    )
    parser.add_argument(
        "--seconds",
        type=number(1, 3_600),
        metavar="S",
        help=f"tune: how long to watch (default: {WATCH_S})",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Check one file, or measure with several daemons."""
    if args.act == "tune":
        return tune(args.configs, args.seconds or WATCH_S, as_json=args.json)
    if args.seconds is not None:
        raise BadSettings("--seconds: only tune takes it")
    if len(args.configs) != 1:
        raise BadSettings("check takes one file")
    return _check(args.configs[0], as_json=args.json)


def _check(path: Path, *, as_json: bool) -> int:
    """Check a file and what it names; 2 if it is no good, 1 if a daemon lacks what it names."""
    from evensong.daemon import settings

    found: list[str] = []
    checked: Settings | None = None
    try:
        checked = settings.load(path)
    except BadSettings as error:
        found.append(str(error))
    else:
        found += problems(checked)
    if as_json:
        told: dict[str, object] = {"file": str(path), "ok": not found}
        told["problems"] = found
        told["settings"] = settings.effective(checked) if checked else None
        told["idle_variables"] = list(checked.idle_variables) if checked else []
        print(json.dumps(told))
    elif found:
        print("\n".join(found))
    elif checked is not None:
        print(_told(path, checked))
    if checked is None:
        return EXIT_USAGE
    return EXIT_VIOLATION if found else EXIT_OK


def problems(checked: "Settings") -> list[str]:
    """Look at what the settings name: keys, the group of clients, state directory, record."""
    from evensong.daemon.credentials import gid_of
    from evensong.daemon.keys import read_keys
    from evensong.daemon.main import read_record

    found: list[str] = []
    try:
        read_keys(checked.keys)
    except CannotStart as error:
        found.append(str(error))
    try:
        gid_of(checked.client_group)
    except CannotStart as error:
        found.append(str(error))
    try:
        read_record(checked)
    except CannotStart as error:
        found.append(str(error))
    if not checked.state.is_dir():
        found.append(f"state: {checked.state}: there is no such directory; make it first")
    elif not os.access(checked.state, os.W_OK | os.X_OK):
        found.append(f"state: {checked.state}: cannot be written to")
    return found


def _told(path: Path, checked: "Settings") -> str:
    from evensong.daemon.settings import effective

    parameters = checked.parameters
    keys = len(checked.keys)
    seal = f"{keys} key{'s' if keys > 1 else ''}" if keys else "INSECURE"
    lines = [
        f"{path}: good",
        f"  node {checked.node} ({checked.name}) of {checked.processors()} "
        f"in cluster {checked.cluster}, {seal}",
        f"  a crash is noticed after {parameters.patience() / 1_000:g} ms, "
        f"the silent are given up after {parameters.agreement() / 1_000:g} ms more",
        "  in effect:",
    ]
    for key, value in effective(checked).items():
        if isinstance(value, dict):
            lines += [f"    {key}.{name} = {json.dumps(one)}" for name, one in value.items()]
        else:
            lines.append(f"    {key} = {json.dumps(value)}")
    lines += [
        f"  {name} overrides nothing: there is no such key" for name in checked.idle_variables
    ]
    return "\n".join(lines)
