"""Why the last life of a daemon ended, kept in its state directory for whoever asks later."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FILE_NAME: Final = "last.words"


def forget(state: Path) -> None:
    """Take away what an earlier life left: a new one begins."""
    with suppress(OSError):
        (state / FILE_NAME).unlink(missing_ok=True)


def leave(state: Path, how: str, why: str) -> None:
    """Write down how this life ended."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with suppress(OSError):  # it is over either way
        (state / FILE_NAME).write_text(json.dumps({"at": at, "how": how, "why": why}) + "\n")


def read(state: Path) -> str:
    """Say how the last life ended; empty if it left no word, as one that was killed."""
    try:
        words = json.loads((state / FILE_NAME).read_text())
        how, why, at = (str(words[key]) for key in ("how", "why", "at"))
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"it left in good order at {at}" if how == "stop" else f"it stopped at {at}: {why}"
