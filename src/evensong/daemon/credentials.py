"""Whose process is at the other end of a local socket, and whether it may be."""

import grp
import os
import socket
import struct
from typing import Final

from evensong.daemon.local_socket import KEEP
from evensong.errors import CannotStart

PEER: Final = struct.Struct("iII")  # pid, uid, gid
SO_PEERGROUPS: Final = 59  # Linux; the module does not name it
# What the module can fetch at most, 256 groups: of whoever is in more only the primary one counts.
GROUPS_BYTES: Final = 1_024


def peer_of(stream: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end."""
    pid, uid, _ = _credentials(stream)
    return pid, uid


def is_allowed(stream: socket.socket, gid: int) -> bool:
    """Whether it is root, our own user or somebody of this group; `KEEP` stands for no group."""
    _, uid, primary = _credentials(stream)
    if uid in (0, os.geteuid()):
        return True
    if gid == KEEP:
        return False
    try:
        packed = stream.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
    except OSError:
        packed = b""  # an older kernel does not tell, and any keeps back what has no room
    return gid in (primary, *struct.unpack(f"{len(packed) // 4}I", packed))


def gid_of(group: str) -> int:
    """Return the id of a group of users; `KEEP` if none is named."""
    if not group:
        return KEEP
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise CannotStart(f"client_group: there is no group {group}") from None


def _credentials(stream: socket.socket) -> tuple[int, int, int]:
    pid, uid, gid = PEER.unpack(stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return pid, uid, gid
