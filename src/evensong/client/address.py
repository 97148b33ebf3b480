"""Where a daemon is: the address that a program gives to `connect`."""

import os
import socket
from pathlib import Path
from typing import Final

from evensong.errors import BadAddress, Unreachable
from evensong.ipc.frames import CLIENT_SOCKET

SCHEME: Final = "unix://"
SHAPE: Final = (
    "an address is unix:///path/to/client.sock, or a path: of that, or of a daemon's state"
)
WELCOME_S: Final = 10.0  # how long a daemon may take to let a program in


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


def open_stream(path: str) -> socket.socket:
    """Connect to a daemon's socket, however long its path; raise `Unreachable` if nobody is there.

    The stream does not block.
    """
    directory, name = os.path.split(path)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.setblocking(False)
    try:
        handle = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            # A name in an open directory, since a path may be longer than an address can be.
            stream.connect(f"/proc/self/fd/{handle}/{name}")
        finally:
            os.close(handle)
    except BlockingIOError:
        stream.close()
        raise Unreachable(f"{path}: too many wait to be let in") from None
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        stream.close()
        raise Unreachable(f"{path}: no daemon runs there") from None
    except OSError as error:
        stream.close()
        raise Unreachable(f"{path}: {error.strerror or error}") from None
    return stream


def default_name() -> str:
    """Return a name for people, of a program that has not said one."""
    return f"pid-{os.getpid()}"
