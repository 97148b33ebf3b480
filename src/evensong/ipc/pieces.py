"""Pieces that several frames are made of: texts, members, places of the order."""

import struct
from collections.abc import Iterable
from typing import Final

from evensong.core.groups.control import decode_text, encode_text
from evensong.core.groups.events import Cause, MemberId, OrderId
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame

MEMBER: Final = struct.Struct("!IQI")
ORDER: Final = struct.Struct("!QIQI")
MANY: Final = struct.Struct("!I")


def unpack(layout: struct.Struct, body: bytes, at: int) -> tuple[int, ...]:
    """Read numbers at a place."""
    if len(body) - at < layout.size:
        raise MalformedFrame("ipc: cut short")
    return layout.unpack_from(body, at)


def must_end(body: bytes | memoryview, at: int) -> None:
    """Refuse a body that does not end there."""
    if len(body) != at:
        raise MalformedFrame("ipc: size")


def only_text(body: bytes) -> str:
    """Read a body that is one text."""
    text, at = decode_text(body, 0)
    must_end(body, at)
    return text


def only_flag(body: bytes) -> bool:
    """Read a body that is one flag."""
    must_end(body, 1)
    if body[0] > 1:
        raise MalformedFrame("ipc: flag")
    return body[0] == 1


def read_cause(number: int) -> Cause:
    """Read why a group changed."""
    try:
        return Cause(number)
    except ValueError:
        raise MalformedFrame("ipc: cause") from None


def put_texts(texts: Iterable[str]) -> bytes:
    """Lay texts out, one behind the other."""
    return b"".join(map(encode_text, texts))


def read_texts(body: bytes, at: int, count: int) -> tuple[tuple[str, ...], int]:
    """Read so many texts; return them and where they end."""
    texts: list[str] = []
    for _ in range(count):
        text, at = decode_text(body, at)
        texts.append(text)
    return tuple(texts), at


def put_member(member: MemberId) -> bytes:
    """Lay a member out."""
    return MEMBER.pack(*member[:3]) + encode_text(member.user)


def read_member(body: bytes, at: int) -> tuple[MemberId, int]:
    """Read a member; return it and where it ends."""
    daemon, incarnation, session = unpack(MEMBER, body, at)
    user, at = decode_text(body, at + MEMBER.size)
    return MemberId(daemon, incarnation, session, user), at


def read_members(body: bytes, at: int) -> tuple[tuple[MemberId, ...], int]:
    """Read how many members, and them; return them and where they end."""
    (count,) = unpack(MANY, body, at)
    at += MANY.size
    members: list[MemberId] = []
    for _ in range(count):
        member, at = read_member(body, at)
        members.append(member)
    return tuple(members), at


def put_order(order: OrderId) -> bytes:
    """Lay a place of the order out."""
    ring_id, seq, sub = order
    return ORDER.pack(*ring_id, seq, sub)


def read_order(body: bytes) -> OrderId:
    """Read the place of the order that a body begins with."""
    ring_seq, ring_rep, seq, sub = unpack(ORDER, body, 0)
    return OrderId(RingId(ring_seq, ring_rep), seq, sub)
