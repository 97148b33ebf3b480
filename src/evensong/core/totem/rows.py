"""Rows: messages of one sender with successive places, laid out once for all of them.

A row stands for the regular frames of its messages and means what they would mean, each received by
itself. What they have in common is said once, so nothing has to be compared on arrival: a busy ring
spends its time on messages otherwise, and here on rows. It is as long as several datagrams; who
carries it cuts it up, and if a piece gets lost then all of it is. docs/wire.md draws the layout.

header | sender_id:u32 ring_seq:u64 ring_rep:u32 first_seq:u64 service:u8 flags:u8 timestamp:u64
       | count:u16 size:u16 | count * length:u16 if they differ, and then size is 0 | payloads
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, repeat
from typing import Final, final

from evensong.core.effects import Service
from evensong.core.ids import NO_PROCESSOR, NO_RING, ProcessorId, RingId
from evensong.core.run import Spans
from evensong.core.totem import wire
from evensong.core.totem.frames import Stretch
from evensong.core.totem.wire import (
    AGREED_CODE,
    PAYLOAD_MAX,
    REGULAR,
    ROW,
    SAFE,
    SAFE_CODE,
    SEQ_MAX,
    SERVICES,
)
from evensong.errors import MalformedFrame

ROW_FRAME: Final = struct.Struct("!BIQIQIQBBQHH")
ROW_SIZE: Final = ROW_FRAME.size
LENGTH_SIZE: Final = 2
COUNT_MAX: Final = 256  # messages in a row; one by one they take time
HEAD: Final = struct.Struct("!BIQIQI")  # what all messages of one sender on one ring begin with
REST: Final = struct.Struct("!BBQ")  # what comes between the seq and the payload
PARTS: Final = struct.Struct(f"!{HEAD.size}sQ{REST.size}s")
pack_parts: Final = PARTS.pack


@final
class Outgoing:
    """Messages that got their places together, to be laid out by whoever carries them."""

    __slots__ = ("_common", "_first_seq", "_payloads", "_transmitter")

    def __init__(
        self,
        transmitter: ProcessorId,
        incarnation: int,
        ring_id: RingId,
        first_seq: int,
        service: Service,
        timestamp: int,
        payloads: Sequence[bytes],
    ) -> None:
        self._transmitter: Final = (transmitter, incarnation, transmitter, *ring_id)
        self._first_seq: Final = first_seq
        self._common: Final = (SAFE_CODE if service is SAFE else AGREED_CODE, 0, timestamp)
        self._payloads: Final = payloads

    def datagrams(self) -> list[bytes]:
        """Return a regular frame for each."""
        head = HEAD.pack(REGULAR, *self._transmitter)
        rest = REST.pack(*self._common)
        first, payloads = self._first_seq, self._payloads
        seqs = range(first, first + len(payloads))
        return [
            pack_parts(head, seq, rest) + payload
            for seq, payload in zip(seqs, payloads, strict=True)
        ]

    def rows(self, packets_max: int, bytes_max: int) -> list[bytes]:
        """Return rows of at most so many messages and bytes; one message is always taken."""
        payloads = self._payloads
        if not payloads:
            return []
        size = len(payloads[0])
        lengths = [*map(len, payloads)]
        if lengths.count(size) == len(lengths) and size:
            most = max(1, min(packets_max, (bytes_max - ROW_SIZE) // size))
            cuts = range(0, len(payloads), most)
            return [self._row(at, payloads[at : at + most], size, b"") for at in cuts]
        made: list[bytes] = []
        ends = [*accumulate(lengths, lambda end, length: end + length + LENGTH_SIZE, initial=0)]
        at = 0
        while at < len(payloads):
            stop = bisect_right(ends, ends[at] + bytes_max - ROW_SIZE) - 1
            stop = max(at + 1, min(stop, at + packets_max))
            if stop == at + 1 and lengths[at]:
                made.append(self._row(at, payloads[at:stop], lengths[at], b""))
            else:
                table = struct.pack(f"!{stop - at}H", *lengths[at:stop])
                made.append(self._row(at, payloads[at:stop], 0, table))
            at = stop
        return made

    def _row(self, at: int, payloads: Sequence[bytes], size: int, table: bytes) -> bytes:
        seq = self._first_seq + at
        head = ROW_FRAME.pack(ROW, *self._transmitter, seq, *self._common, len(payloads), size)
        return b"".join([head, table, *payloads])


def decode_row(frame: bytes, known: RingId = NO_RING) -> Stretch:
    """Read a row; one of the ring that is known takes its id from there."""
    length = len(frame)
    if not ROW_SIZE < length <= ROW_SIZE + PAYLOAD_MAX:
        raise MalformedFrame("row: size")
    fields = ROW_FRAME.unpack_from(frame)
    _, _, _, sender_id, ring_seq, ring_rep, first, code, flags, timestamp, count, size = fields
    service = SERVICES.get(code)
    if service is None:
        raise MalformedFrame("row: service")
    if flags or not 1 <= first <= SEQ_MAX - count or ring_seq > SEQ_MAX or timestamp > SEQ_MAX:
        raise MalformedFrame("row: field")
    if sender_id == NO_PROCESSOR or ring_rep == NO_PROCESSOR:
        raise MalformedFrame("row: nobody")
    is_known = ring_seq == known.seq and ring_rep == known.rep
    ring_id = known if is_known else RingId(ring_seq, ring_rep)
    run: Spans
    if count == 1 and size == length - ROW_SIZE:
        run = (frame,), (ROW_SIZE,), (length,)
    else:
        run = _alike(frame, count, size) if size else _each(frame, count)
    return Stretch(sender_id, ring_id, first, service, 0, timestamp, run, 0)


DECODERS: Final[dict[int, Callable[[bytes], object]]] = {**wire.DECODERS, ROW: decode_row}


def _alike(frame: bytes, count: int, size: int) -> Spans:
    if not 0 < count <= COUNT_MAX or ROW_SIZE + count * size != len(frame):
        raise MalformedFrame("row: lengths")
    starts = range(ROW_SIZE, len(frame), size)
    return (frame,) * count, starts, range(ROW_SIZE + size, len(frame) + 1, size)


def _each(frame: bytes, count: int) -> Spans:
    begin = ROW_SIZE + count * LENGTH_SIZE
    if not 0 < count <= COUNT_MAX or begin > len(frame):
        raise MalformedFrame("row: lengths")
    lengths = struct.unpack_from(f"!{count}H", frame, ROW_SIZE)
    edges = (*accumulate(lengths, initial=begin),)
    if edges[-1] != len(frame):
        raise MalformedFrame("row: lengths")
    return (*repeat(frame, count),), edges[:-1], edges[1:]
