"""`make test-install`: this package, installed as a user installs it, into an empty environment.

`pip` gets what the package needs from where it is told to, so this is not part of `make test`;
`tests/test_package.py` looks at the wheel without a network. Import times are told, not judged:
they are this machine's, at this moment.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final = ("pyspark", "pyarrow", "rich", "pytest")
TURNS: Final = 10
IMPORTS: Final = (
    "import evensong",
    "import evensong; evensong.connect",
    "import evensong.sync",
)


def main() -> int:
    """Install, use, measure; return 1 if something is not as it should be."""
    with tempfile.TemporaryDirectory(prefix="evensong-install-") as made:
        place = Path(made)
        shutil.copytree(ROOT, place / "source", ignore=_ignored)
        print(f"an empty environment, {sys.version.partition(' ')[0]}: pip install .", flush=True)
        venv.create(place / "venv", with_pip=True)
        bin_dir = place / "venv" / "bin"
        install = [str(bin_dir / "pip"), "install", "--quiet", "--disable-pip-version-check", "."]
        subprocess.run(install, cwd=place / "source", check=True)
        problems = _used(bin_dir, place)
        print(_output(place, bin_dir / "pip", "list", "--disable-pip-version-check"), end="")
        print(f"the best of {TURNS}:")
        for statement in IMPORTS:
            print(f"{_best_ms(bin_dir, place, statement):7.1f} ms  {statement}")
    for problem in problems:
        print(f"not so: {problem}", file=sys.stderr)
    print("not as it should be" if problems else "installed, and it works without extras")
    return 1 if problems else 0


def _ignored(directory: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name.startswith(".")
        or name in ("__pycache__", "build", "dist", "out")
        or name.endswith(".egg-info")
    }


def _output(place: Path, program: Path, *arguments: str) -> str:
    """Run it somewhere else than in the source, which must not be what is imported."""
    command = [str(program), *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=True).stdout


def _used(bin_dir: Path, place: Path) -> list[str]:
    problems = []
    version = _output(place, bin_dir / "evensong", "--version")
    print(version, end="")
    if "usage: evensong" not in _output(place, bin_dir / "evensong", "--help"):
        problems.append("`evensong --help` shows how it is used")
    told = _output(
        place, bin_dir / "python", "-c", "import evensong; print(evensong.__file__, evensong.Node)"
    )
    if not told.startswith(str(place / "venv")):
        problems.append(f"what is imported is what was installed: {told}")
    for name in EXTRAS:
        asked = f"import importlib.util as u; print(u.find_spec({name!r}))"
        if _output(place, bin_dir / "python", "-c", asked) != "None\n":
            problems.append(f"{name} is not there")
    return problems


def _best_ms(bin_dir: Path, place: Path, statement: str) -> float:
    """Return what it took a fresh interpreter, the best of some."""
    timed = f"from time import perf_counter as p; t = p(); {statement}; print(p() - t)"
    return min(float(_output(place, bin_dir / "python", "-c", timed)) * 1_000 for _ in range(TURNS))


if __name__ == "__main__":
    sys.exit(main())
