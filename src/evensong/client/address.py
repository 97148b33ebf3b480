"""Where a daemon is: the address that a program gives to `connect`."""

import os
from pathlib import Path
from typing import Final

from evensong.errors import BadAddress
from evensong.ipc.frames import CLIENT_SOCKET

SCHEME: Final = "unix://"
SHAPE: Final = (
    "an address is unix:///path/to/client.sock, or a path: of that, or of a daemon's state"
)


def socket_path(address: str | os.PathLike[str]) -> str:
    """Return the path of the daemon's socket.

    >>> socket_path("unix:///run/evensong/n1/client.sock")
    '/run/evensong/n1/client.sock'
    """
    text = os.fspath(address)
    if text.startswith(SCHEME):
        text = text.removeprefix(SCHEME)
    elif "://" in text:
        raise BadAddress(f"{text}: {SHAPE}")
    if not text or "\0" in text:
        raise BadAddress(f"{text!r}: {SHAPE}")
    path = Path(text)
    return str(path / CLIENT_SOCKET if path.is_dir() else path)


def default_name() -> str:
    """Return a name for people, of a program that has not said one."""
    return f"pid-{os.getpid()}"
