"""One meaning for each exit code, whatever the command: 2 bad usage or input, 3 nobody is there."""

from pathlib import Path

import pytest

from evensong.cli.command import EXIT_UNREACHABLE, EXIT_USAGE
from evensong.cli.grammar import entries, read_grammar
from evensong.cli.main import COMMANDS, build_parser, main

ALL = [entry.path[1:] for entry in entries(read_grammar(build_parser(COMMANDS)))]
TO_DAEMONS = [
    ["status", "TARGET"],
    ["status", "--all", "TARGET"],
    ["doctor", "TARGET"],
    ["reload", "TARGET"],
    ["groups", "TARGET"],
    ["send", "TARGET", "g", "x"],
    ["recv", "TARGET", "g"],
    ["trace", "flight", "TARGET"],
    ["config", "tune", "TARGET"],
]


def run_at(line: list[str], target: Path) -> int:
    return main([str(target) if word == "TARGET" else word for word in line])


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_an_option_that_is_not_there_is_bad_usage(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*path, "--no-such-option"])
    assert stopped.value.code == EXIT_USAGE
    assert "usage: evensong" in capsys.readouterr().err


@pytest.mark.parametrize("line", TO_DAEMONS, ids=" ".join)
def test_a_target_that_is_not_there_is_bad_input(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_at(line, tmp_path / "nowhere") == EXIT_USAGE
    assert "there is no such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("line", TO_DAEMONS, ids=" ".join)
def test_a_state_directory_without_its_daemon_is_out_of_reach(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_at(line, tmp_path) == EXIT_UNREACHABLE
    printed = capsys.readouterr()
    assert "no daemon runs there" in printed.err + printed.out  # to doctor it is a finding
