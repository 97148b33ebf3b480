"""Sockets in the state directory, whose path may be longer than a socket's may be."""

import os
import socket
from pathlib import Path
from typing import Final

from evensong.errors import CannotStart

KEEP: Final = -1  # the owner or the group


def listen(state: Path, name: str, mode: int, backlog: int, group: int = KEEP) -> socket.socket:
    """Return a stream socket that listens under a name in the state directory."""
    path = state / name
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path.unlink(missing_ok=True)  # of an earlier life: the state directory is locked
    directory = os.open(state, os.O_PATH)
    try:
        listening.bind(short_name(directory, name))
        path.chmod(0o600)  # nobody comes in before it is as it should be
        if group != KEEP:
            os.chown(path, KEEP, group)
        path.chmod(mode)
    except OSError as error:
        listening.close()
        raise CannotStart(f"state: {path}: {error.strerror}") from None
    finally:
        os.close(directory)
    listening.listen(backlog)
    listening.setblocking(False)
    return listening


def short_name(directory: int, name: str) -> str:
    """Return a name of the socket that fits: a socket's path has at most 107 bytes."""
    return f"/proc/self/fd/{directory}/{name}"
