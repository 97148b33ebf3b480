"""Which daemons a command is about: each named by its settings or by its state directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from evensong.errors import BadSettings, Unreachable
from evensong.ipc.frames import CLIENT_SOCKET

# What comes of reading an answer as something that it is not.
MISREAD: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
CONTROL_SOCKET: Final = "control.sock"
STATE_FILES: Final = ("lock", "ring.record", CONTROL_SOCKET)  # what makes a state directory


def states_of(targets: list[Path], *, is_all: bool = False) -> list[Path]:
    """Return the state directories that are meant; with `is_all` also those below a directory."""
    states: list[Path] = []
    for target in map(_without_socket, targets):
        if not target.exists():
            raise BadSettings(f"{target}: there is no such file or directory")
        if target.is_file():
            states.append(_named_in(target))
        elif is_all and target.is_dir():
            found = {one.parent for name in STATE_FILES for one in target.glob(f"*/{name}")}
            states += sorted(found) or [target]
        else:
            states.append(target)
    return states


@contextmanager
def understood(state: Path) -> Iterator[None]:
    """Take whoever answers otherwise than a daemon of this release for out of reach."""
    try:
        yield
    except MISREAD:
        raise Unreachable(f"{state}: what answers there is no daemon of this release") from None


def _without_socket(target: Path) -> Path:
    """Return the state directory of an address or of a socket; other paths as they are."""
    if target.parts[:1] == ("unix:",):
        target = Path("/", *target.parts[1:])
    return target.parent if target.name in (CLIENT_SOCKET, CONTROL_SOCKET) else target


def _named_in(config: Path) -> Path:
    from evensong.daemon.settings import load

    try:
        return load(config).state
    except BadSettings as error:
        raise BadSettings(f"{error}; a state directory names a running daemon as well") from None
