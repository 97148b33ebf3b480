"""The byte layouts of the ring's frames; every count is bounded, every field checked at the door.

Every frame begins with kind, transmitter and incarnation. Decoders return a frame or raise
`MalformedFrame`; they never trust a length. docs/wire.md draws the layouts.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from evensong.core.effects import Service
from evensong.core.ids import NO_PROCESSOR, NO_RING, PROCESSORS_MAX, ProcessorId, RingId
from evensong.core.totem.frames import (
    ENCAP,
    FLAGS,
    RETX,
    Beacon,
    CommitToken,
    HoldCancel,
    Join,
    Leave,
    MembEntry,
    Range,
    RegularMessage,
    RegularToken,
)
from evensong.errors import MalformedFrame

REGULAR: Final = 1
TOKEN: Final = 2
JOIN: Final = 3
COMMIT: Final = 4
BEACON: Final = 5
HOLD_CANCEL: Final = 6
LEAVE: Final = 7
PART: Final = 8
ROW: Final = 9

KIND_NAMES: Final = {
    REGULAR: "regular",
    TOKEN: "token",
    JOIN: "join",
    COMMIT: "commit",
    BEACON: "beacon",
    HOLD_CANCEL: "hold_cancel",
    LEAVE: "leave",
    PART: "part",
    ROW: "row",
}

# kind:u8 transmitter:u32 incarnation:u64
HEADER: Final = struct.Struct("!BIQ")
# header | sender_id:u32 ring_seq:u64 ring_rep:u32 seq:u64 service:u8 flags:u8 timestamp:u64
#        | payload
MESSAGE: Final = struct.Struct("!IQIQBBQ")
REGULAR_FRAME: Final = struct.Struct("!BIQIQIQBBQ")
# header | ring_seq:u64 ring_rep:u32 token_seq:u64 seq:u64 aru:u64 aru_id:u32 fcc:u32 backlog:u32
#        | retrans_flg:u8 retrans_setter:u32 timestamp:u64 rtr_count:u8
#        | rtr_count * (from:u64 count:u32)
TOKEN_FRAME: Final = struct.Struct("!BIQQIQQQIIIBIQB")
RTR: Final = struct.Struct("!QI")
# header | ring_seq:u64 proc_count:u16 | proc_count * id:u32 | a bit for each: it is in fail_set
JOIN_FRAME: Final = struct.Struct("!BIQQH")
# header | ring_seq:u64 ring_rep:u32 token_seq:u64 rotation:u8 minor:u8 timestamp:u64
#        | memb_count:u16 table_count:u16 | table_count * id:u32 | memb_count * entry
COMMIT_FRAME: Final = struct.Struct("!BIQQIQBBQHH")
# id:u32 bits:u8 old_seq:u64 old_rep:u32 my_aru:u64 high_delivered:u64 high_received:u64
#   gateway_id:u32 group_digest:u64 | a bit for each id of the table: it is in the obligation set
ENTRY: Final = struct.Struct("!IBQIQQQIQ")
FILLED: Final = 1
RECEIVED: Final = 2
# header | ring_seq:u64 ring_rep:u32 memb_count:u16
BEACON_FRAME: Final = struct.Struct("!BIQQIH")
# header | ring_seq:u64 ring_rep:u32
RING_FRAME: Final = struct.Struct("!BIQQI")

HEADER_SIZE: Final = HEADER.size
FLAGS_AT: Final = REGULAR_FRAME.size - 9  # of a regular frame
REGULAR_SIZE: Final = REGULAR_FRAME.size
SEQ_MAX: Final = 2**62  # a number beyond it is no honest one, and adding to it stays encodable
PAYLOAD_MAX: Final = 65_000
PACKET_MAX: Final = PAYLOAD_MAX - MESSAGE.size  # recovery must be able to encapsulate it
RTR_MAX: Final = 32
BACKLOG_MAX: Final = 2**31
TABLE_MAX: Final = 4 * PROCESSORS_MAX

SAFE: Final = Service.SAFE
SAFE_CODE: Final = Service.SAFE.value
AGREED_CODE: Final = Service.AGREED.value
SERVICES: Final = {AGREED_CODE: Service.AGREED, SAFE_CODE: SAFE}
MessageFields: TypeAlias = tuple[int, int, int, int, int, int, int]


def encode_regular(
    message: RegularMessage, flag: int, transmitter: ProcessorId, incarnation: int
) -> bytes:
    """Lay a message out for its first broadcast or, with the flag RETX, for a retransmission."""
    ring_seq, ring_rep = message.ring_id
    return (
        REGULAR_FRAME.pack(
            REGULAR,
            transmitter,
            incarnation,
            message.sender_id,
            ring_seq,
            ring_rep,
            message.seq,
            SAFE_CODE if message.service is SAFE else AGREED_CODE,
            message.flags | flag,
            message.timestamp,
        )
        + message.payload
    )


def decode_regular(datagram: bytes, known: RingId = NO_RING) -> RegularMessage:
    """Read a message; one of the ring that is known takes its id from there."""
    if not REGULAR_SIZE <= len(datagram) <= REGULAR_SIZE + PAYLOAD_MAX:
        raise MalformedFrame("regular: size")
    return _message(MESSAGE.unpack_from(datagram, HEADER_SIZE), datagram[REGULAR_SIZE:], known)


def _message(fields: MessageFields, payload: bytes, known: RingId = NO_RING) -> RegularMessage:
    sender_id, ring_seq, ring_rep, seq, code, flags, timestamp = fields
    service = SERVICES.get(code)
    if service is None:
        raise MalformedFrame("regular: service")
    if flags > FLAGS or not 1 <= seq <= SEQ_MAX or ring_seq > SEQ_MAX or timestamp > SEQ_MAX:
        raise MalformedFrame("regular: field")
    if not sender_id or not ring_rep:
        raise MalformedFrame("regular: nobody")
    ring_id = known if known == (ring_seq, ring_rep) else RingId(ring_seq, ring_rep)
    return RegularMessage(sender_id, ring_id, seq, service, flags, timestamp, payload)


def is_repair(frame: bytes, at: int = 0) -> bool:
    """Whether a regular frame, beginning there, is a retransmission; for diagnosis only."""
    return len(frame) > at + FLAGS_AT and bool(frame[at + FLAGS_AT] & RETX)


def encapsulate(message: RegularMessage) -> bytes:
    """Lay an old ring's message out as the payload of a new ring's message [SRP §6]."""
    return (
        MESSAGE.pack(
            message.sender_id,
            *message.ring_id,
            message.seq,
            message.service.value,
            message.flags & ~RETX,
            message.timestamp,
        )
        + message.payload
    )


def decapsulate(payload: bytes) -> RegularMessage:
    """Read the old ring's message inside a new ring's message."""
    if len(payload) < MESSAGE.size:
        raise MalformedFrame("encapsulated: size")
    message = _message(MESSAGE.unpack_from(payload), payload[MESSAGE.size :])
    if message.flags & ENCAP:
        # A ring is installed only when its recovery traffic is everywhere: it never travels again.
        raise MalformedFrame("encapsulated twice")
    return message


def encode_token(token: RegularToken, transmitter: ProcessorId, incarnation: int) -> bytes:
    """Lay a token out."""
    ring_seq, ring_rep = token.ring_id
    fixed = TOKEN_FRAME.pack(
        TOKEN,
        transmitter,
        incarnation,
        ring_seq,
        ring_rep,
        token.token_seq,
        token.seq,
        token.aru,
        token.aru_id,
        token.fcc,
        token.backlog,
        token.retrans_flg,
        token.retrans_setter,
        token.timestamp,
        len(token.rtr),
    )
    if not token.rtr:
        return fixed
    return fixed + b"".join([RTR.pack(first, count) for first, count in token.rtr])


def decode_token(datagram: bytes) -> RegularToken:
    """Read a token."""
    if len(datagram) < TOKEN_FRAME.size:
        raise MalformedFrame("token: size")
    (
        _,
        _,
        _,
        ring_seq,
        ring_rep,
        token_seq,
        seq,
        aru,
        aru_id,
        fcc,
        backlog,
        retrans_flg,
        retrans_setter,
        timestamp,
        rtr_count,
    ) = TOKEN_FRAME.unpack_from(datagram)
    if rtr_count > RTR_MAX or len(datagram) != TOKEN_FRAME.size + rtr_count * RTR.size:
        raise MalformedFrame("token: rtr list does not fit its count")
    if not aru <= seq <= SEQ_MAX or token_seq > SEQ_MAX or timestamp > SEQ_MAX:
        raise MalformedFrame("token: field")
    if backlog > BACKLOG_MAX or retrans_flg > 1 or ring_seq > SEQ_MAX or ring_rep == NO_PROCESSOR:
        raise MalformedFrame("token: field")
    rtr: list[Range] = []
    if rtr_count:
        before = 0
        for first, count in RTR.iter_unpack(datagram[TOKEN_FRAME.size :]):
            if first <= before or count < 1 or first + count - 1 > seq:
                raise MalformedFrame("token: rtr range")
            before = first + count - 1
            rtr.append((first, count))
    return RegularToken(
        RingId(ring_seq, ring_rep),
        token_seq,
        seq,
        aru,
        aru_id,
        fcc,
        backlog,
        bool(retrans_flg),
        retrans_setter,
        timestamp,
        rtr,
    )


def encode_join(join: Join) -> bytes:
    """Lay a proposal out; fail_set is a bitmap over proc_set."""
    procs = sorted(join.proc_set)
    return (
        JOIN_FRAME.pack(JOIN, join.sender_id, join.incarnation, join.ring_seq, len(procs))
        + _pack_ids(procs)
        + _pack_bits(procs, join.fail_set)
    )


def decode_join(datagram: bytes) -> Join:
    """Read a proposal."""
    if len(datagram) < JOIN_FRAME.size:
        raise MalformedFrame("join: size")
    _, sender_id, incarnation, ring_seq, count = JOIN_FRAME.unpack_from(datagram)
    if not 1 <= count <= PROCESSORS_MAX:
        raise MalformedFrame("join: count")
    if len(datagram) != JOIN_FRAME.size + count * 4 + _bit_bytes(count) or ring_seq > SEQ_MAX:
        raise MalformedFrame("join: sets do not fit their count")
    procs = _unpack_ids(datagram, JOIN_FRAME.size, count)
    fail_set = _unpack_bits(procs, datagram[JOIN_FRAME.size + count * 4 :])
    proc_set = frozenset(procs)
    if sender_id not in proc_set or sender_id in fail_set:
        raise MalformedFrame("join: its sender is not proposed")
    return Join(sender_id, incarnation, proc_set, fail_set, ring_seq)


def encode_commit(commit: CommitToken, transmitter: ProcessorId, incarnation: int) -> bytes:
    """Lay a commit token out; obligation sets are bitmaps over one table of ids."""
    ids = frozenset(commit.member_ids()).union(*[entry.obligation for entry in commit.memb])
    table = sorted(ids)
    pieces = [
        COMMIT_FRAME.pack(
            COMMIT,
            transmitter,
            incarnation,
            *commit.ring_id,
            commit.token_seq,
            commit.rotation,
            commit.minor,
            commit.timestamp,
            len(commit.memb),
            len(table),
        ),
        _pack_ids(table),
    ]
    for entry in commit.memb:
        bits = FILLED * entry.filled | RECEIVED * entry.received_flg
        pieces.append(
            ENTRY.pack(
                entry.member_id,
                bits,
                *entry.old_ring_id,
                entry.my_aru,
                entry.high_delivered,
                entry.high_received,
                entry.gateway_id,
                entry.group_digest,
            )
        )
        pieces.append(_pack_bits(table, entry.obligation))
    return b"".join(pieces)


def decode_commit(datagram: bytes) -> CommitToken:
    """Read a commit token."""
    if len(datagram) < COMMIT_FRAME.size:
        raise MalformedFrame("commit: size")
    fields = COMMIT_FRAME.unpack_from(datagram)
    ring_seq, ring_rep, token_seq, rotation, minor, timestamp, count, table_count = fields[3:]
    if not 2 <= count <= PROCESSORS_MAX or not count <= table_count <= TABLE_MAX:
        raise MalformedFrame("commit: count")
    entry_size = ENTRY.size + _bit_bytes(table_count)
    offset = COMMIT_FRAME.size + 4 * table_count
    if len(datagram) != offset + count * entry_size:
        raise MalformedFrame("commit: members do not fit their count")
    if max(ring_seq, token_seq, timestamp) > SEQ_MAX or rotation not in (1, 2):
        raise MalformedFrame("commit: field")
    table = _unpack_ids(datagram, COMMIT_FRAME.size, table_count)
    known = frozenset(table)
    memb: list[MembEntry] = []
    for at in range(offset, len(datagram), entry_size):
        entry = _unpack_entry(datagram[at : at + entry_size], table)
        after_an_empty_one = bool(memb) and not memb[-1].filled
        if memb and entry.member_id <= memb[-1].member_id:
            raise MalformedFrame("commit: members out of order")
        if entry.member_id not in known or (entry.filled and after_an_empty_one):
            raise MalformedFrame("commit: entry out of order")
        memb.append(entry)
    if ring_rep != memb[0].member_id or (rotation == 2 and not memb[-1].filled):
        raise MalformedFrame("commit: rotation")
    ring_id = RingId(ring_seq, ring_rep)
    return CommitToken(ring_id, memb, token_seq, rotation, timestamp, minor)


def _unpack_entry(chunk: bytes, table: tuple[ProcessorId, ...]) -> MembEntry:
    fields = ENTRY.unpack_from(chunk)
    member_id, bits, old_seq, old_rep, my_aru, high_delivered, high_received, gateway, group = (
        fields
    )
    obligation = _unpack_bits(table, chunk[ENTRY.size :])
    if bits > FILLED | RECEIVED or max(old_seq, my_aru, high_delivered, high_received) > SEQ_MAX:
        raise MalformedFrame("commit: entry")
    if bits & FILLED and member_id not in obligation:
        raise MalformedFrame("commit: a member is not obliged to itself")
    old_ring_id = RingId(old_seq, old_rep)
    return MembEntry(
        member_id,
        bool(bits & FILLED),
        old_ring_id,
        my_aru,
        high_delivered,
        high_received,
        bool(bits & RECEIVED),
        obligation,
        gateway,
        group,
    )


def encode_beacon(beacon: Beacon, transmitter: ProcessorId, incarnation: int) -> bytes:
    """Lay a beacon out."""
    ring_id = beacon.ring_id
    return BEACON_FRAME.pack(BEACON, transmitter, incarnation, *ring_id, beacon.memb_count)


def decode_beacon(datagram: bytes) -> Beacon:
    """Read a beacon."""
    if len(datagram) != BEACON_FRAME.size:
        raise MalformedFrame("beacon: size")
    _, _, _, ring_seq, ring_rep, memb_count = BEACON_FRAME.unpack(datagram)
    if not 1 <= memb_count <= PROCESSORS_MAX:
        raise MalformedFrame("beacon: count")
    return Beacon(_ring_id(ring_seq, ring_rep), memb_count)


def encode_hold_cancel(ring_id: RingId, transmitter: ProcessorId, incarnation: int) -> bytes:
    """Lay a hold-cancel out."""
    return RING_FRAME.pack(HOLD_CANCEL, transmitter, incarnation, *ring_id)


def decode_hold_cancel(datagram: bytes) -> HoldCancel:
    """Read a hold-cancel."""
    return HoldCancel(_only_ring_id(datagram))


def encode_leave(ring_id: RingId, transmitter: ProcessorId, incarnation: int) -> bytes:
    """Lay a departure out."""
    return RING_FRAME.pack(LEAVE, transmitter, incarnation, *ring_id)


def decode_leave(datagram: bytes) -> Leave:
    """Read a departure."""
    return Leave(_only_ring_id(datagram))


def _only_ring_id(datagram: bytes) -> RingId:
    if len(datagram) != RING_FRAME.size:
        raise MalformedFrame("ring id: size")
    _, _, _, ring_seq, ring_rep = RING_FRAME.unpack(datagram)
    return _ring_id(ring_seq, ring_rep)


def _ring_id(ring_seq: int, ring_rep: int) -> RingId:
    if ring_seq > SEQ_MAX or ring_rep == NO_PROCESSOR:
        raise MalformedFrame("ring id")
    return RingId(ring_seq, ring_rep)


def _bit_bytes(count: int) -> int:
    return (count + 7) // 8


def _pack_ids(ids: list[ProcessorId]) -> bytes:
    return struct.pack(f"!{len(ids)}I", *ids)


def _unpack_ids(datagram: bytes, offset: int, count: int) -> tuple[ProcessorId, ...]:
    ids: tuple[ProcessorId, ...] = struct.unpack_from(f"!{count}I", datagram, offset)
    before = NO_PROCESSOR
    for member_id in ids:
        if member_id <= before:
            raise MalformedFrame("processor ids do not ascend")
        before = member_id
    return ids


def _pack_bits(table: list[ProcessorId], members: frozenset[ProcessorId]) -> bytes:
    bits = 0
    for index, member_id in enumerate(table):
        if member_id in members:
            bits |= 1 << index
    return bits.to_bytes(_bit_bytes(len(table)), "little")


def _unpack_bits(table: tuple[ProcessorId, ...], packed: bytes) -> frozenset[ProcessorId]:
    bits = int.from_bytes(packed, "little")
    if bits >> len(table):
        raise MalformedFrame("bits beyond the table")
    if not bits:
        return frozenset()
    return frozenset([member_id for index, member_id in enumerate(table) if bits >> index & 1])


DECODERS: Final[dict[int, Callable[[bytes], object]]] = {
    REGULAR: decode_regular,
    TOKEN: decode_token,
    JOIN: decode_join,
    COMMIT: decode_commit,
    BEACON: decode_beacon,
    HOLD_CANCEL: decode_hold_cancel,
    LEAVE: decode_leave,
}
