"""What every command has in common: its shape, its exit codes, an example in its help.

A command is a module with two functions. `register(subparsers)` calls `add_command` and adds its
arguments; `run(args)` does the work and returns one of the exit codes below.
"""

import argparse
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

EXIT_OK: Final = 0
EXIT_VIOLATION: Final = 1  # the thing that was checked does not hold
EXIT_USAGE: Final = 2  # bad usage or bad input; argparse exits with the same number
EXIT_UNREACHABLE: Final = 3  # could not reach what it needs
EXIT_INTERRUPTED: Final = 130  # as a shell reports death by SIGINT
EXIT_PIPE: Final = 141  # as a shell reports death by SIGPIPE

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Command(Protocol):
    """A command's module, as the parser sees it."""

    def register(self, subparsers: Subparsers) -> None:
        """Declare the command and its arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do the work; return an exit code."""
        ...


def number(least: int, most: int) -> Callable[[str], int]:
    """Return what reads an argument that is a number within limits."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not within {least} to {most}")
        return int(text)

    return read


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a subparser whose `--help` ends in an example to copy, and return it."""
    assert example.startswith("evensong "), "an example is a whole command line"
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser
