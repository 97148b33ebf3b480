import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from errno import ENOSPC

import pytest

from evensong import __version__
from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VIOLATION,
    Command,
    Subparsers,
    add_command,
)
from evensong.cli.main import COMMANDS, build_parser, main
from evensong.errors import BadScenario


class Sing:
    """A command for these tests; what it does is given."""

    def __init__(self, act: Callable[[argparse.Namespace], int]) -> None:
        self.act = act

    def register(self, subparsers: Subparsers) -> None:
        parser = add_command(
            subparsers, "sing", self.run, summary="sing a psalm", example="evensong sing --psalm 23"
        )
        parser.add_argument("--psalm", type=int, default=1)
        parser.add_argument("--json", action="store_true")

    def run(self, args: argparse.Namespace) -> int:
        return self.act(args)


class Hum:
    """A command that does not show how it is used."""

    def register(self, subparsers: Subparsers) -> None:
        subparsers.add_parser("hum")

    def run(self, args: argparse.Namespace) -> int:
        raise NotImplementedError


def interrupted(_: argparse.Namespace) -> int:
    raise KeyboardInterrupt


def unreadable(_: argparse.Namespace) -> int:
    raise BadScenario("line 3: no such processor")


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == EXIT_OK
    assert capsys.readouterr().out == f"evensong {__version__}\n"


@pytest.mark.parametrize("commands", [(), (Sing(lambda _: EXIT_OK),)])
def test_without_a_command_help_goes_to_stderr(
    commands: tuple[Command, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], commands) == EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "usage: evensong" in printed.err
    assert "exit codes" in printed.err


def test_an_unknown_command_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["preach"], (Sing(lambda _: EXIT_OK),))
    assert stopped.value.code == EXIT_USAGE
    assert "preach" in capsys.readouterr().err


def test_a_command_gets_its_arguments_and_gives_the_exit_code() -> None:
    psalms: list[int] = []

    def remember(args: argparse.Namespace) -> int:
        psalms.append(args.psalm)
        return EXIT_VIOLATION

    assert main(["sing", "--psalm", "150"], (Sing(remember),)) == EXIT_VIOLATION
    assert psalms == [150]


def test_help_of_a_command_ends_in_its_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["sing", "--help"], (Sing(lambda _: EXIT_OK),))
    assert stopped.value.code == EXIT_OK
    printed = capsys.readouterr().out
    assert "Sing a psalm." in printed
    assert printed.endswith("example:\n  evensong sing --psalm 23\n")


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parsers of all commands, and of what some can do."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                found += [subparser, *parsers(subparser)]
    return found


def without_example(commands: Sequence[Command]) -> list[str]:
    return [
        parser.prog
        for parser in parsers(build_parser(commands))
        if f"example:\n  {parser.prog}" not in parser.format_help()
    ]


def test_help_of_every_real_command_ends_in_an_example() -> None:
    assert without_example(COMMANDS) == []


def test_a_command_without_an_example_is_noticed() -> None:
    assert without_example((Sing(lambda _: EXIT_OK), Hum())) == ["evensong hum"]


# Nothing that they print is a fact: one logs to stderr, one prints a script, one its own help.
WITHOUT_FACTS = {"evensong daemon", "evensong completion", "evensong trace"}


def test_every_real_command_that_prints_facts_has_json() -> None:
    without = {
        parser.prog
        for parser in parsers(build_parser(COMMANDS))
        if "--json" not in parser._option_string_actions
    }
    assert without == WITHOUT_FACTS


def test_every_example_is_a_command_line_that_the_parser_takes() -> None:
    for parser in parsers(build_parser(COMMANDS)):
        assert parser.epilog is not None
        example = parser.epilog.splitlines()[1]
        line = shlex.split(example.partition(">")[0])
        assert build_parser(COMMANDS).parse_args(line[1:]).run is not None, example


def test_an_interrupt_is_one_line_and_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sing"], (Sing(interrupted),)) == EXIT_INTERRUPTED == 130
    assert capsys.readouterr().err == "evensong: interrupted\n"


def test_an_error_of_ours_is_its_message_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sing"], (Sing(unreadable),)) == EXIT_USAGE
    assert capsys.readouterr().err == "evensong: line 3: no such processor\n"


def full(_: argparse.Namespace) -> int:
    raise OSError(ENOSPC, os.strerror(ENOSPC), "/small/disk")


def hungry(_: argparse.Namespace) -> int:
    raise MemoryError


@pytest.mark.parametrize(
    ("run", "code", "text"),
    [
        (interrupted, EXIT_INTERRUPTED, "interrupted"),
        (unreadable, EXIT_USAGE, "line 3: no such processor"),
        (full, EXIT_UNREACHABLE, "/small/disk: No space left on device"),
        (hungry, EXIT_UNREACHABLE, "it needs more memory than there is"),
    ],
)
def test_who_asked_for_json_gets_an_object_when_it_fails_too(
    run: Callable[[argparse.Namespace], int],
    code: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sing", "--json"], (Sing(run),)) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1]) == {"error": text}
    assert printed.err == f"evensong: {text}\n"
    assert main(["sing"], (Sing(run),)) == code
    assert capsys.readouterr() == ("", f"evensong: {text}\n")


CHATTERBOX = """
import sys
from evensong.cli import command, main

class Chatter:
    def register(self, subparsers):
        command.add_command(
            subparsers, "chat", self.run, summary="chat", example="evensong chat"
        )
    def run(self, args):
        for n in range(200_000):
            print(n)
        return 0

sys.exit(main.main(["chat"], (Chatter(),)))
"""


def test_a_reader_that_goes_away_is_not_an_error_message() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHATTERBOX], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as chatter:
        assert chatter.stdout is not None
        assert chatter.stderr is not None
        assert chatter.stdout.readline() == b"0\n"
        chatter.stdout.close()
        complaint = chatter.stderr.read()
        assert chatter.wait() == EXIT_PIPE
    assert complaint == b""


INTERRUPTED_EARLY = """
import sys
from evensong.cli.start import start

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "evensong.cli.sim":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
sys.exit(start())
"""


def test_an_interrupt_while_modules_load_is_one_line_and_130() -> None:
    script = [sys.executable, "-c", INTERRUPTED_EARLY]
    finished = subprocess.run(script, capture_output=True, check=False, text=True)
    assert finished.stderr == "evensong: interrupted\n"
    assert finished.returncode == EXIT_INTERRUPTED


def test_the_module_runs_as_a_script() -> None:
    script = [sys.executable, "-m", "evensong.cli.main", "--version"]
    finished = subprocess.run(script, capture_output=True, check=True, text=True)
    assert finished.stdout == f"evensong {__version__}\n"
