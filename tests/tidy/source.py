"""What the rules read: the files of this repository, as text."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

# Directories that `make` and its tools fill. Hidden ones are theirs too, save our own `.ci`.
GENERATED: Final = ("__pycache__", "build", "dist", "out")


def _is_ours(directory: Path) -> bool:
    name = directory.name
    if name.startswith("."):
        return name == ".ci"
    return name not in GENERATED and not name.endswith(".egg-info")


def files(*suffixes: str, under: str = "") -> dict[str, str]:
    """Return the text files under a directory, by path from the root, in order of path."""
    texts: dict[str, str] = {}
    waiting = [ROOT / under]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.is_dir():
                if _is_ours(path):
                    waiting.append(path)
            elif path.name != ".git" and (not suffixes or path.suffix in suffixes):
                text = _read(path)
                if text is not None:
                    texts[path.relative_to(ROOT).as_posix()] = text
    return dict(sorted(texts.items()))


def tracked() -> dict[str, str]:
    """Return the text files that git keeps; without git, all of them.

    A log or a note that somebody leaves in the checkout is nobody else's business.
    """
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = []
    kept = {path: text for path, text in files().items() if path in listed}
    return kept or files()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None  # not a text file


def module_name(path: str) -> str:
    """Return the dotted name of a module from its path below `src`."""
    parts = path.removeprefix("src/").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
