"""Large frames are put together again; their messages have their places at the LAST piece.

Every daemon sees the same pieces in the same order, so all complete a frame at the same place or
none does. Nothing is kept over a regular configuration: the sender begins again with FIRST.
Invariant: at most one unfinished frame a session, and none right after a regular configuration.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, final

from evensong.core.groups.frame import FIRST, HEADER, LAST, MIDDLE, TOTAL, WHOLE
from evensong.core.groups.limits import LENGTH_MAX
from evensong.core.ids import ProcessorId

# A restarted daemon uses session and message numbers again; the incarnation keeps them apart.
Origin: TypeAlias = tuple[ProcessorId, int, int]  # daemon, incarnation, session
Chunk: TypeAlias = bytes | memoryview  # of a frame's content, where it lies in its packet


@final
class _Unfinished:
    __slots__ = ("chunks", "first_no", "missing", "total")

    def __init__(self, first_no: int, total: int) -> None:
        self.first_no: Final = first_no
        self.total: Final = total
        self.missing = total
        self.chunks: Final[list[Chunk]] = []


@final
class Assembly:
    """The unfinished frames of all sessions."""

    __slots__ = ("orphans", "unfinished")

    def __init__(self) -> None:
        self.unfinished: Final[dict[Origin, _Unfinished]] = {}
        self.orphans = 0  # pieces that no frame could be made of

    def clear(self) -> None:
        """Forget everything: a regular configuration begins, and every sender begins again."""
        self.unfinished.clear()

    def add(self, origin: Origin, kind: int, first_no: int, content: Chunk) -> list[Chunk] | None:
        """Take a piece in; return the frame's content, in chunks, if this was its last."""
        if kind == FIRST:
            self._begin(origin, first_no, content)
            return None
        assert kind in (MIDDLE, LAST)
        frame = self.unfinished.get(origin)
        if frame is None or frame.first_no != first_no:
            self.orphans += 1
            return None
        frame.missing -= len(content)
        if frame.missing < 0 or (kind == LAST) != (frame.missing == 0):
            del self.unfinished[origin]
            self.orphans += 1
            return None
        frame.chunks.append(content)
        if kind == MIDDLE:
            return None
        del self.unfinished[origin]
        return frame.chunks

    def add_middles(self, origin: Origin, first_no: int, chunks: Sequence[Chunk]) -> None:
        """Take several pieces in, none of which is the last."""
        frame = self.unfinished.get(origin)
        if frame is None or frame.first_no != first_no:
            self.orphans += len(chunks)
            return
        frame.missing -= sum(map(len, chunks))
        if frame.missing <= 0:
            del self.unfinished[origin]
            self.orphans += 1
            return
        frame.chunks.extend(chunks)

    def _begin(self, origin: Origin, first_no: int, content: Chunk) -> None:
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
        frame = _Unfinished(first_no, total)
        frame.chunks.append(chunk)
        frame.missing -= len(chunk)
        self.unfinished[origin] = frame


def whole_frame(
    flags: int, session: int, first_no: int, group_set: int, places: int, chunks: Sequence[Chunk]
) -> bytes:
    """Put chunks together as the frame that their sender handed over: the one copy of them."""
    length = sum(map(len, chunks))
    head = HEADER.pack(WHOLE, flags, session, first_no, group_set, places, length)
    return b"".join([head, *chunks])
