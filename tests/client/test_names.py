"""The package's names: all there, and loaded when they are wanted."""

import subprocess
import sys
from typing import get_args

import pytest

import evensong
from tests.tidy.source import ROOT


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in evensong.__all__:
        found = getattr(evensong, name)
        assert name in ("__version__", "Policy") or found.__doc__
    assert dir(evensong) == sorted(evensong.__all__)


def test_what_a_program_may_have_to_name_is_public() -> None:
    errors = [evensong.CannotStart, evensong.BadSettings, evensong.BadRequest]
    assert all(issubclass(one, evensong.EvensongError) for one in errors)
    assert get_args(evensong.Event) == (evensong.Message, evensong.View)
    assert get_args(evensong.Policy) == ("merge", "primary-wins")


def test_the_package_can_be_run() -> None:
    command = [sys.executable, "-m", "evensong", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == f"evensong {evensong.__version__}\n"


def test_a_name_that_is_not_there_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        evensong.nothing  # type: ignore[attr-defined]  # noqa: B018 - reading it is the test


def test_importing_the_package_loads_next_to_nothing() -> None:
    told = "import sys, evensong; print(*[m for m in sys.modules if m.startswith('evensong.')])"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
    told = "import sys, evensong.sync; print('asyncio' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("kind", [evensong.View, evensong.Message])
def test_every_field_of_an_event_is_told(kind: type) -> None:
    fields = {name for name in dir(kind) if not name.startswith("_")}
    table = (ROOT / "docs/library.md").read_text().partition(f"| `{kind.__name__}` | |\n")[2]
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == fields
    told = kind.__doc__ or ""
    assert [name for name in sorted(fields) if f"`{name}`:" not in told] == []
