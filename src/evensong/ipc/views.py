"""How a view is laid out; wire.py says how a member and a text are.

    conf_seq:u64 conf_rep:u32 seq:u64 sub:u32 counter:u64 flags:u8 cause:u8 group:text
    count:u32 | member stayed:u8 component:u16     components count from 0, as they appear
    count:u32 | member                             who left
    count:u8  | member                             the subject, or nobody

Flags: 1 primary, 2 transitional.
"""

import struct
from typing import Final

from evensong.core.groups.control import decode_text, encode_text
from evensong.core.groups.events import MemberId, View, ViewId
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame
from evensong.ipc.pieces import (
    MANY,
    must_end,
    put_member,
    read_cause,
    read_member,
    read_members,
    unpack,
)

PRIMARY: Final = 1
TRANSITIONAL: Final = 2
NO_COMPONENT: Final = 0

VIEW: Final = struct.Struct("!QIQIQBB")
ENTRY: Final = struct.Struct("!BH")


def put_view(view: View) -> bytes:
    """Lay a view out."""
    flags = (PRIMARY if view.primary else 0) | (TRANSITIONAL if view.transitional else 0)
    conf_id, seq, sub, counter = view.view_id
    parts = [
        VIEW.pack(*conf_id, seq, sub, counter, flags, view.cause.value),
        encode_text(view.group),
        MANY.pack(len(view.members)),
    ]
    stayed = frozenset(view.stayed)
    component_of = {one: at for at, part in enumerate(view.components) for one in part}
    for one in view.members:
        parts.append(put_member(one))
        parts.append(ENTRY.pack(one in stayed, component_of.get(one, NO_COMPONENT)))
    parts.append(MANY.pack(len(view.left)))
    parts.extend(map(put_member, view.left))
    parts.append(b"\0" if view.subject is None else b"\1" + put_member(view.subject))
    return b"".join(parts)


def read_view(body: bytes) -> View:
    """Read a body that is a view."""
    conf_seq, conf_rep, seq, sub, counter, flags, cause = unpack(VIEW, body, 0)
    group, at = decode_text(body, VIEW.size)
    if flags > PRIMARY | TRANSITIONAL:
        raise MalformedFrame("ipc: flag")
    (count,) = unpack(MANY, body, at)
    at += MANY.size
    members: list[MemberId] = []
    joined: list[MemberId] = []
    stayed: list[MemberId] = []
    components: list[list[MemberId]] = []
    for _ in range(count):
        member, at = read_member(body, at)
        has_stayed, component = unpack(ENTRY, body, at)
        at += ENTRY.size
        if has_stayed > 1 or component > len(components):
            raise MalformedFrame("ipc: member of a view")
        if component == len(components):
            components.append([])
        members.append(member)
        components[component].append(member)
        (stayed if has_stayed else joined).append(member)
    left, at = read_members(body, at)
    has_subject = body[at : at + 1]
    at += 1
    subject: MemberId | None = None
    if has_subject == b"\1":
        subject, at = read_member(body, at)
    elif has_subject != b"\0":
        raise MalformedFrame("ipc: subject")
    must_end(body, at)
    return View(
        group,
        ViewId(RingId(conf_seq, conf_rep), seq, sub, counter),
        tuple(members),
        tuple(joined),
        left,
        tuple(stayed),
        tuple([tuple(part) for part in components]),
        read_cause(cause),
        subject,
        primary=bool(flags & PRIMARY),
        transitional=bool(flags & TRANSITIONAL),
    )
