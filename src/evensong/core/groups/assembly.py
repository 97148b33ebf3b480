"""Large messages are put together again; a message has the place of its LAST piece.

Every daemon sees the same pieces in the same order, so all complete a message at the same place or
none does. Nothing is kept over a regular configuration: the sender begins again with FIRST.
Invariant: at most one unfinished message a session, and none right after a regular configuration.
"""

from typing import Final, TypeAlias, final

from evensong.core.groups.frame import FIRST, HEADER, LAST, MIDDLE, TOTAL, WHOLE
from evensong.core.groups.limits import LENGTH_MAX
from evensong.core.ids import ProcessorId

# A restarted daemon uses session and message numbers again; the incarnation keeps them apart.
Origin: TypeAlias = tuple[ProcessorId, int, int]  # daemon, incarnation, session


@final
class _Unfinished:
    __slots__ = ("chunks", "first_no", "missing", "total")

    def __init__(self, first_no: int, total: int) -> None:
        self.first_no: Final = first_no
        self.total: Final = total
        self.missing = total
        self.chunks: Final[list[bytes]] = []


@final
class Assembly:
    """The unfinished messages of all sessions."""

    __slots__ = ("orphans", "unfinished")

    def __init__(self) -> None:
        self.unfinished: Final[dict[Origin, _Unfinished]] = {}
        self.orphans = 0  # pieces that no message could be made of

    def clear(self) -> None:
        """Forget everything: a regular configuration begins, and every sender begins again."""
        self.unfinished.clear()

    def add(self, origin: Origin, kind: int, first_no: int, content: bytes) -> bytes | None:
        """Take a piece in; return the message if this was its last."""
        if kind == FIRST:
            self._begin(origin, first_no, content)
            return None
        assert kind in (MIDDLE, LAST)
        message = self.unfinished.get(origin)
        if message is None or message.first_no != first_no:
            self.orphans += 1
            return None
        message.missing -= len(content)
        if message.missing < 0 or (kind == LAST) != (message.missing == 0):
            del self.unfinished[origin]
            self.orphans += 1
            return None
        message.chunks.append(content)
        if kind == MIDDLE:
            return None
        del self.unfinished[origin]
        return b"".join(message.chunks)

    def _begin(self, origin: Origin, first_no: int, content: bytes) -> None:
        if self.unfinished.pop(origin, None) is not None:
            self.orphans += 1
        if len(content) < TOTAL.size:
            self.orphans += 1
            return
        total: int = TOTAL.unpack_from(content)[0]
        chunk = content[TOTAL.size :]
        if total > LENGTH_MAX or len(chunk) >= total:
            self.orphans += 1
            return
        message = _Unfinished(first_no, total)
        message.chunks.append(chunk)
        message.missing -= len(chunk)
        self.unfinished[origin] = message


def whole_frame(flags: int, session: int, first_no: int, group_set: int, message: bytes) -> bytes:
    """Lay a message that was put together out as the frame its sender handed over."""
    return HEADER.pack(WHOLE, flags, session, first_no, group_set, 1, len(message)) + message
