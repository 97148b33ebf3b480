"""Cuts a stream into frames: what comes in large pieces is copied once, out of what was read.

A frame is `length:u32 opcode:u8 request_id:u32` and a body of `length` bytes; numbers are
big-endian. A length is checked as soon as it is there, before anything is kept for it.
"""

import struct
from typing import Final, TypeAlias, final

from evensong.errors import MalformedFrame
from evensong.ipc.frames import Frame

# length:u32 opcode:u8 request_id:u32 | body
HEAD: Final = struct.Struct("!IBI")
HEAD_SIZE: Final = HEAD.size
Piece: TypeAlias = tuple[int, int, bytes | memoryview]  # opcode, request id and body
GATHERED: Final = 16_384  # smaller pieces are put together, lest many of them cost much


@final
class Splitter:
    """The end of a stream that is read."""

    __slots__ = ("_head", "_missing", "_pieces", "body_max")

    def __init__(self, body_max: int) -> None:
        self.body_max = body_max
        self._head = b""  # of the frame that is not whole
        self._pieces: Final[list[bytes | bytearray | memoryview]] = []  # of its body
        self._missing = 0  # bytes of its body, once its head is whole

    def feed(self, chunk: bytes | memoryview) -> list[Frame]:
        """Return the frames that are whole now; the chunk may be overwritten after that.

        After `MalformedFrame` the stream is of no use any more.
        """
        found = self.split(chunk)
        return [Frame(opcode, request_id, bytes(body)) for opcode, request_id, body in found]

    def split(self, chunk: bytes | memoryview) -> list[Piece]:
        """Return the same; a body that is a view lies in the chunk, until that is overwritten."""
        frames: list[Piece] = []
        at = self._complete(chunk, frames) if self._head else 0
        size = len(chunk)
        body_max = self.body_max
        while size - at >= HEAD_SIZE:
            length, opcode, request_id = HEAD.unpack_from(chunk, at)
            if length > body_max:
                raise MalformedFrame("stream: length")
            begin = at + HEAD_SIZE
            end = begin + length
            if end > size:
                self._head = bytes(chunk[at:begin])
                self._missing = end - size
                self._keep(memoryview(chunk)[begin:])
                return frames
            frames.append((opcode, request_id, chunk[begin:end]))
            at = end
        if at < size:
            self._head = bytes(chunk[at:])
        return frames

    def waiting(self) -> int:
        """How many bytes of a frame that is not whole are here."""
        return len(self._head) + sum(map(len, self._pieces))

    def _complete(self, chunk: bytes | memoryview, frames: list[Piece]) -> int:
        """Go on with the frame that is not whole; return how much of the chunk was its."""
        at = 0
        if len(self._head) < HEAD_SIZE:
            at = min(len(chunk), HEAD_SIZE - len(self._head))
            self._head += chunk[:at]
            if len(self._head) < HEAD_SIZE:
                return at
            self._missing = HEAD.unpack(self._head)[0]
            if self._missing > self.body_max:
                raise MalformedFrame("stream: length")
        end = min(len(chunk), at + self._missing)
        self._missing -= end - at
        if end > at:
            self._keep(memoryview(chunk)[at:end])
        if not self._missing:
            _, opcode, request_id = HEAD.unpack(self._head)
            frames.append((opcode, request_id, b"".join(self._pieces)))
            self._head = b""
            self._pieces.clear()
        return end

    def _keep(self, piece: memoryview) -> None:
        """Keep a piece; if it is large by itself, and as it is unless it may be overwritten."""
        pieces = self._pieces
        if len(piece) >= GATHERED:
            pieces.append(piece if piece.readonly else bytes(piece))
        elif pieces and isinstance(pieces[-1], bytearray) and len(pieces[-1]) < GATHERED:
            pieces[-1] += piece
        else:
            pieces.append(bytearray(piece))
