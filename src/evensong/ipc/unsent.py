"""What waits to be written to a stream, in parts that are not copied for it."""

import socket
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final

Part: TypeAlias = bytes | memoryview
PARTS_MAX: Final = 512  # that one call takes; the kernel's limit is 1,024


def rest_of(parts: Sequence[Part], written: int) -> list[Part]:
    """Return what is left of parts of which so many bytes have been written.

    >>> [bytes(part) for part in rest_of([b"gloria", b"credo", b"agnus"], 8)]
    [b'edo', b'agnus']
    """
    at = 0
    while at < len(parts) and written >= len(parts[at]):
        written -= len(parts[at])
        at += 1
    if not written:
        return [*parts[at:]]
    return [memoryview(parts[at])[written:], *parts[at + 1 :]]


@final
class Unsent:
    """Bytes for a stream that does not block."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, parts: Iterable[Part]) -> None:
        """Append what is to be written; no part is empty."""
        self._parts += parts

    def clear(self) -> None:
        """Forget it: nobody will read it."""
        self._parts.clear()

    def write(self, stream: socket.socket) -> None:
        """Write as much as the stream takes now; whatever is wrong with it is raised."""
        while self._parts:
            try:
                written = stream.sendmsg(self._parts[:PARTS_MAX])
            except (BlockingIOError, InterruptedError):
                return
            self._parts = rest_of(self._parts, written)
