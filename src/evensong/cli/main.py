"""The `evensong` command: parser, exit codes, and what happens when a command cannot go on."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from evensong import __version__
from evensong.cli import demo, sim
from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_PIPE,
    EXIT_USAGE,
    Command,
)
from evensong.errors import EvensongError

COMMANDS: Final[tuple[Command, ...]] = (
    demo,
    sim,
)  # the modules, in the order in which help lists them


def build_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="evensong",
        description="Group communication with extended virtual synchrony.",
        epilog=(
            "exit codes: 0 ok, 1 the thing checked does not hold, 2 bad usage or input,\n"
            "            3 could not reach what it needs\n\n"
            "`evensong COMMAND --help` ends in an example of each command."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"evensong {__version__}")
    parser.set_defaults(run=None)
    if commands:
        subparsers = parser.add_subparsers(title="commands", metavar="command")
        for command in commands:
            command.register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None, commands: Sequence[Command] = COMMANDS) -> int:
    """Run one command and return its exit code."""
    parser = build_parser(commands)
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] | None = args.run
    if run is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    try:
        code = run(args)
        sys.stdout.flush()  # here, where a reader that went away can still be answered
    except KeyboardInterrupt:
        print("evensong: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except EvensongError as error:
        print(f"evensong: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_PIPE
    return code


def _discard_stdout() -> None:
    # The interpreter flushes stdout once more on its way out; without this, `evensong … | head`
    # would end in a complaint about the pipe that nobody can act on.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
