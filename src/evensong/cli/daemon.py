"""`evensong daemon`: run one processor of a cluster."""

import argparse
from functools import partial
from pathlib import Path

from evensong.cli.command import Subparsers, add_command


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "daemon",
        run,
        summary="run one processor of a cluster, until SIGTERM or Ctrl-C",
        example="evensong daemon n1.toml",
    )
    parser.add_argument("config", type=Path, metavar="CONFIG", help="its settings, a TOML file")
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="stop in good order also when standard input ends (for supervisors)",
    )


def run(args: argparse.Namespace) -> int:
    """Run it in the foreground; what it tells goes to stderr."""
    # Here, not above: cryptography is slow to import, and most commands do without.
    from evensong.daemon import main, settings

    return main.run(partial(settings.load, args.config), until_eof=args.until_eof)
