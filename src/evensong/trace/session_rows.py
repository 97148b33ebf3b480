"""Rows about sessions in a spool: how they are laid out, and how they are read back.

A frame that is told to several sessions of a daemon is one row; its audience, the sessions, has a
number in each file, and so has its sender. How many frames a session had been told before a row is
counted by the reader, from what the file's header says.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, final

from evensong.core.ids import RingId
from evensong.sim.history import FrameId, GroupDelivery, GroupSend
from evensong.trace.schema import SERVICE_BY_CODE

SENDER: Final = 7
AUDIENCE: Final = 8
TOLD: Final = 9
SAID: Final = 10
KINDS: Final = frozenset([SENDER, AUDIENCE, TOLD, SAID])

# node:u32 incarnation:u64 session:u32; numbered from 0 in each file
SENDER_BODY: Final = struct.Struct("!IQI")
# session:u32, as many as there are; numbered from 0 in each file
AUDIENCE_ITEM: Final = struct.Struct("!I")
# t_us:i64 ring_seq:u64 ring_rep:u32 seq:u64 conf_no:i32 reduced:u8
TOLD_HEAD: Final = struct.Struct("!qQIQi?")
# sender:u16 audience:u16 dest_no:u32 first_no:u64 count:u16 seq above the head's:u32 sub:u16
# size:u32 digest:u32 service:u8
TOLD_ROW: Final = struct.Struct("!HHIQHIHIIB")
# t_us:i64 ring_seq:u64 ring_rep:u32 seq:u64 conf_no:i32
SAID_HEAD: Final = struct.Struct("!qQIQi")
# session:u32 dest_no:i32 first_no:u64 count:u16 seq above the head's:u32 size:u32 digest:u32
# service:u8
SAID_ROW: Final = struct.Struct("!IiQHIIIB")


def encode_audience(sessions: Sequence[int]) -> bytes:
    """Lay an audience out."""
    return struct.pack(f"!{len(sessions)}I", *sessions)


@final
class SessionRows:
    """What a spool says of sessions, in order."""

    __slots__ = ("_audiences", "_senders", "_told", "heard", "said")

    def __init__(self, told: Iterable[Sequence[int]]) -> None:
        self.heard: Final[list[tuple[int, int, GroupDelivery]]] = []  # with session and `pos`
        self.said: Final[list[GroupSend]] = []
        self._told: Final[dict[int, int]] = {one[0]: one[1] for one in told}
        self._senders: Final[list[tuple[int, int, int]]] = []
        self._audiences: Final[list[tuple[int, ...]]] = []

    def add(self, kind: int, body: bytes) -> None:
        """Take in a frame; raise `ValueError`, `IndexError` or `struct.error` if it is none."""
        if kind == TOLD:
            self._add_told(body)
        elif kind == SAID:
            self._add_said(body)
        elif kind == SENDER:
            self._senders.append(SENDER_BODY.unpack(body))
        else:
            audience = tuple(one for (one,) in AUDIENCE_ITEM.iter_unpack(body))
            if 0 in audience:
                raise ValueError("an audience that is no session's")
            self._audiences.append(audience)

    def _add_told(self, body: bytes) -> None:
        t_us, ring_seq, rep, first_seq, conf_no, reduced = TOLD_HEAD.unpack_from(body)
        ring_id = RingId(ring_seq, rep)
        for row in TOLD_ROW.iter_unpack(memoryview(body)[TOLD_HEAD.size :]):
            sender, audience, dest_no, first_no, count, seq, sub, size, digest, code = row
            node, incarnation, speaker = self._senders[sender]
            delivery = GroupDelivery(
                FrameId(node, incarnation, speaker, first_no),
                ring_id,
                first_seq + seq,
                sub,
                conf_no,
                SERVICE_BY_CODE[code],
                reduced,
                dest_no,
                size,
                digest,
                t_us,
                count,
            )
            for session in self._audiences[audience]:
                pos = self._told.get(session, 0)
                self._told[session] = pos + 1
                self.heard.append((session, pos, delivery))

    def _add_said(self, body: bytes) -> None:
        t_us, ring_seq, rep, first_seq, conf_no = SAID_HEAD.unpack_from(body)
        ring_id = RingId(ring_seq, rep)
        for row in SAID_ROW.iter_unpack(memoryview(body)[SAID_HEAD.size :]):
            session, dest_no, first_no, count, seq, size, digest, code = row
            self.said.append(
                GroupSend(
                    session,
                    first_no,
                    ring_id,
                    first_seq + seq,
                    conf_no,
                    self._told.get(session, 0),
                    SERVICE_BY_CODE[code],
                    dest_no,
                    size,
                    digest,
                    t_us,
                    count,
                )
            )
