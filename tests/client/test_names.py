"""The package's names: all there, and loaded when they are wanted."""

import subprocess
import sys

import pytest

import evensong


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in evensong.__all__:
        found = getattr(evensong, name)
        assert name == "__version__" or found.__doc__


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
