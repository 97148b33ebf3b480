"""Completion scripts: bash is asked; what zsh and fish are told is looked at."""

import argparse
import subprocess
from pathlib import Path

import pytest

from evensong.cli.grammar import FILES, Entry, Kind, entries, read_grammar
from evensong.cli.main import COMMANDS, build_parser, main
from evensong.cli.shells import SHELLS, bash

GRAMMAR = read_grammar(build_parser(COMMANDS))
ALL = entries(GRAMMAR)

ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_evensong
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(directory: Path, *words: str, root: Entry = GRAMMAR) -> list[str]:
    """Ask a bash that knows nothing else how the last of these words may go on."""
    script = directory / "evensong.bash"
    script.write_text(bash(root))
    command = ["bash", "--norc", "-c", ASK, "bash", str(script), "evensong", *words]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=directory)
    assert asked.stderr == ""
    return sorted(filter(None, asked.stdout.splitlines()))


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("st", "status"),
        ("trace ex", "export"),
        ("trace export --for", "--format"),
        ("trace export --format ", "csv jsonl"),
        ("trace export --format = js", "jsonl"),
        ("trace export --format =", "csv jsonl"),
        ("trace export --table ev", "events"),
        ("up --profile ", "fast lan wan"),
        ("up --nodes 3 --profile w", "wan"),
        ("up --nodes ", ""),
        ("keys ", "new"),
        ("keys --json ", "new"),
        ("bench --size 100 r", "ring"),
        ("completion ", "bash fish zsh"),
        ("sim --seeds 0 : 100 --cl", "--clients"),
        ("sim --seeds 0 : 1", ""),
        ("send status --sa", "--safe"),
        ("--v", "--version"),
        ("no-such-command ", "--help --version"),
    ],
)
def test_bash_completes_commands_options_and_values(tmp_path: Path, line: str, offers: str) -> None:
    assert completed(tmp_path, *line.split(" ")) == offers.split()


def test_bash_completes_files_where_files_are_taken(tmp_path: Path) -> None:
    (tmp_path / "n 1.toml").touch()
    (tmp_path / "n-state").mkdir()
    both = ["n 1.toml", "n-state"]
    assert completed(tmp_path, "status", "n") == both
    assert completed(tmp_path, "status", "one", "n") == both
    assert completed(tmp_path, "config", "check", "n") == both
    assert completed(tmp_path, "send", "n") == both
    assert completed(tmp_path, "send", "one", "n") == []
    assert completed(tmp_path, "keys", "n") == ["new"]
    assert completed(tmp_path, "up", "--dir", "n") == ["n-state"]
    assert completed(tmp_path, "sim", "--plan", "n") == both


def test_bash_offers_every_command_and_every_option(tmp_path: Path) -> None:
    for entry in ALL:
        words = entry.path[1:]
        if entry.below:
            offered = completed(tmp_path, *words, "")
            assert offered == sorted(one.path[-1] for one in entry.below)
        flags = sorted(option.flags[-1] for option in entry.options)
        assert completed(tmp_path, *words, "--") == flags


def test_a_new_command_is_completed_without_further_ado(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser(prog="evensong")
    psalm = parser.add_subparsers().add_parser("psalm")
    psalm.add_argument("--tone", choices=["first", "second"], help="it's one of [eight]: 100 %%")
    root = read_grammar(parser)
    assert completed(tmp_path, "ps", root=root) == ["psalm"]
    assert completed(tmp_path, "psalm", "--tone", "f", root=root) == ["first"]
    assert "'--tone=[it'\\''s one of \\[eight\\]: 100 %]" in SHELLS["zsh"](root)
    assert "-d 'it\\'s one of [eight]: 100 %'" in SHELLS["fish"](root)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_every_command_option_and_word(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    told = capsys.readouterr().out
    for entry in ALL[1:]:
        name = entry.path[-1]
        assert f"'{name}:" in told if shell == "zsh" else f" -a {name} " in told, name
        for option in entry.options:
            flag = option.flags[-1]
            assert f"'{flag}" in told if shell == "zsh" else f" -l {flag[2:]} " in told, flag
        values = [option.value for option in entry.options] + [one.value for one in entry.arguments]
        for value in values:
            assert value is None or " ".join(value.words) in told


def test_what_is_called_a_file_is_completed_as_one() -> None:
    values = [argument.value for entry in ALL for argument in entry.arguments]
    values += [option.value for entry in ALL for option in entry.options if option.value]
    assert {value.name for value in values if value.kind is Kind.DIRECTORY} == {"DIR"}
    texts = {value.name for value in values if value.kind is Kind.TEXT}
    assert not [name for name in texts if "DIR" in name or FILES & set(name.split("|"))]
    assert {"GROUP", "MESSAGE", "N"} <= texts
