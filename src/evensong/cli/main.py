"""The `evensong` command: parser, exit codes, and what happens when a command cannot go on."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from evensong import __version__
from evensong.cli import (
    audit,
    bench,
    campaign,
    completion,
    config,
    daemon,
    demo,
    doctor,
    groups,
    keys,
    recv,
    reload,
    report,
    send,
    sim,
    status,
    trace,
    up,
    why,
)
from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_PIPE,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    Command,
)
from evensong.errors import (
    CannotStart,
    ConnectionLost,
    EvensongError,
    OutcomeUnknown,
    SparkFailed,
    SparkUnavailable,
    Unreachable,
)

COMMANDS: Final[tuple[Command, ...]] = (
    demo,
    sim,
    campaign,
    up,
    daemon,
    status,
    doctor,
    reload,
    groups,
    send,
    recv,
    trace,
    why,
    audit,
    report,
    bench,
    keys,
    config,
    completion,
)  # the modules, in the order in which help lists them

NOT_REACHED: Final = (
    CannotStart,
    Unreachable,
    ConnectionLost,
    OutcomeUnknown,
    SparkUnavailable,
    SparkFailed,
)


def build_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="evensong",
        description="Group communication with extended virtual synchrony.",
        epilog=(
            "exit codes: 0 ok, 1 the thing checked does not hold, 2 bad usage or input,\n"
            "            3 could not reach what it needs, 130 interrupted\n\n"
            "`evensong COMMAND --help` has an example of each command; `evensong completion` lets\n"
            "your shell complete them: source <(evensong completion bash)"
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
    args = argparse.Namespace()
    try:
        parser = build_parser(commands)
        _parse(parser, argv, args)
        code = _run(parser, args)
        _flush()  # here, where a reader that went away can still be answered
    except KeyboardInterrupt:
        _complain(args, "interrupted")
        return EXIT_INTERRUPTED
    except NOT_REACHED as error:
        _complain(args, str(error))
        return EXIT_UNREACHABLE
    except EvensongError as error:
        _complain(args, str(error))
        return EXIT_USAGE
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_PIPE
    except OSError as error:  # of what a command writes to; what it reads it answers for itself
        if not error.filename:
            _discard_stdout()
        _complain(args, f"{error.filename or 'output'}: {error.strerror or error}")
        return EXIT_UNREACHABLE
    except MemoryError:  # which says nothing about what was to be checked
        _complain(args, "it needs more memory than there is")
        return EXIT_UNREACHABLE
    return code


def _parse(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, args: argparse.Namespace
) -> None:
    try:
        _, rest = parser.parse_known_args(argv, args)
        if rest:
            _take_rest(parser, args, rest)
    except SystemExit:
        _flush()  # help and version are output too
        raise


def _take_rest(parser: argparse.ArgumentParser, args: argparse.Namespace, rest: list[str]) -> None:
    """Take arguments that stand behind an option, where the first of them might have stood."""
    name: str = getattr(args, "repeated", "")
    begin = rest.index("--") if "--" in rest else len(rest)
    strange = [one for one in rest[:begin] if one.startswith("-") and one != "-"] if name else rest
    if strange:
        of_command: argparse.ArgumentParser = getattr(args, "parser", parser)
        of_command.error(f"unrecognized arguments: {' '.join(strange)}")
    setattr(args, name, [*getattr(args, name), *rest[:begin], *rest[begin + 1 :]])


def _run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    run: Callable[[argparse.Namespace], int] | None = args.run
    if run is None:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    return run(args)


def _complain(args: argparse.Namespace, text: str) -> None:
    """Say why a command does not go on; who asked for JSON finds it at the end of that, too."""
    print(f"evensong: {text}", file=sys.stderr)
    if getattr(args, "json", False):
        try:
            print(json.dumps({"error": text}))
            _flush()
        except OSError:
            _discard_stdout()


def _flush() -> None:
    if sys.stdout is not None:  # None: the caller closed it
        sys.stdout.flush()


def _discard_stdout() -> None:
    # The interpreter flushes stdout once more on its way out; without this, `evensong … | head`
    # would end in a complaint about the pipe that nobody can act on.
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a stdout of tests has no number
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
