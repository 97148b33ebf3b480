"""How frames of a broadcast domain lie in bytes; what comes off the wire is checked here.

Every count is bounded and every field is checked before anything is done with it; `MalformedFrame`
says why a datagram is none. Whether the content fits the receiver's view is asked further in.
"""

import struct
from collections.abc import Sequence
from typing import Final

from evensong.core.effects import Service
from evensong.core.ids import NO_PROCESSOR, PROCESSORS_MAX, ProcessorId, RingId
from evensong.core.transis.frames import (
    AJ,
    IN_GRAPH,
    JOIN,
    KIND_NAMES,
    NACK,
    REGULAR,
    Ack,
    AttemptJoin,
    Entry,
    Head,
    Message,
    Nack,
    Proposal,
    ViewId,
)
from evensong.errors import MalformedFrame

# kind:u8 transmitter:u32 incarnation:u64 view_no:u64 view_hash:u32
HEAD: Final = struct.Struct("!BIQQI")
# kind:u8 service:u8 flags:u8 sender:u32 incarnation:u64 view_no:u64 view_hash:u32
# counter:u64 base:u64 timestamp:u64 ack_count:u16 | acks | payload
MESSAGE: Final = struct.Struct("!BBBIQQIQQQH")
ACK: Final = struct.Struct("!IQ")  # member:u32 number:u64
# mode:u8 count:u16 | entries
PROPOSAL: Final = struct.Struct("!BH")
ENTRY: Final = struct.Struct("!IQQB")  # proc:u32 incarnation:u64 view_no:u64 failed:u8
COUNT: Final = struct.Struct("!H")
RANGE: Final = struct.Struct("!IQQ")  # member:u32 from:u64 to:u64
MEMBER: Final = struct.Struct("!IQ")  # proc:u32 incarnation:u64

NUMBER_MAX: Final = 2**62
ENTRIES_MAX: Final = 2 * PROCESSORS_MAX  # of one processor there may be an old and a new entry
RANGES_MAX: Final = 64
SLOW: Final = 1

CODE_BY_SERVICE: Final = {
    Service.BASIC: 1,
    Service.CAUSAL: 2,
    Service.AGREED: 3,
    Service.SAFE: 4,
}
SERVICE_BY_CODE: Final = {code: service for service, code in CODE_BY_SERVICE.items()}
NO_SERVICE: Final = Service.BASIC  # of what is never delivered


def encode_head(kind: int, transmitter: ProcessorId, incarnation: int, view_id: ViewId) -> bytes:
    """Lay out how a frame begins."""
    return HEAD.pack(kind, transmitter, incarnation, *view_id)


def decode_head(datagram: bytes) -> Head:
    """Read how a frame begins."""
    if len(datagram) < HEAD.size:
        raise MalformedFrame("head: size")
    kind, transmitter, incarnation, view_no, view_hash = HEAD.unpack_from(datagram)
    if kind not in KIND_NAMES:
        raise MalformedFrame("head: kind")
    if transmitter == NO_PROCESSOR or incarnation > NUMBER_MAX:
        raise MalformedFrame("head: transmitter")
    return Head(kind, transmitter, incarnation, _view_id(view_no, view_hash))


def _view_id(view_no: int, view_hash: int) -> ViewId:
    if not 0 < view_no <= NUMBER_MAX or not view_hash:
        raise MalformedFrame("view id")
    return RingId(view_no, view_hash)


def make_message(
    kind: int,
    service: Service,
    sender_id: ProcessorId,
    incarnation: int,
    view_id: ViewId,
    counter: int,
    base: int,
    acks: tuple[Ack, ...],
    timestamp: int,
    payload: bytes,
    proposal: Proposal | None,
    is_slow: bool,
    mode: int,
) -> Message:
    """Make a message with the bytes that it is from now on."""
    code = CODE_BY_SERVICE[service] if kind == REGULAR else 0
    body = payload if proposal is None else encode_proposal(proposal, mode)
    frame = MESSAGE.pack(
        kind,
        code,
        SLOW if is_slow else 0,
        sender_id,
        incarnation,
        *view_id,
        counter,
        base,
        timestamp,
        len(acks),
    )
    frame = b"".join([frame, *[ACK.pack(*ack) for ack in acks], body])
    return Message(
        kind,
        service,
        sender_id,
        incarnation,
        view_id,
        counter,
        counter - base,
        acks,
        timestamp,
        payload,
        proposal,
        is_slow,
        frame,
    )


def encode_proposal(proposal: Proposal, mode: int) -> bytes:
    """Lay a proposal out."""
    failed = proposal.failed
    rows = [ENTRY.pack(*entry, entry in failed) for entry in proposal.joint]
    return PROPOSAL.pack(mode, len(rows)) + b"".join(rows)


def decode_message(frame: bytes, mode: int) -> Message:
    """Read a message of the graph, as a frame or a retransmission carries it."""
    if len(frame) < MESSAGE.size:
        raise MalformedFrame("message: size")
    fields = MESSAGE.unpack_from(frame)
    kind, code, flags, sender_id, incarnation, view_no, view_hash = fields[:7]
    counter, base, timestamp, ack_count = fields[7:]
    if kind not in IN_GRAPH:
        raise MalformedFrame("message: kind")
    if sender_id == NO_PROCESSOR or incarnation > NUMBER_MAX or flags > SLOW:
        raise MalformedFrame("message: sender")
    if not base < counter <= NUMBER_MAX:
        raise MalformedFrame("message: counter")
    view_id = _view_id(view_no, view_hash)
    acks, end = _decode_acks(frame, ack_count, sender_id)
    service, payload, proposal = NO_SERVICE, b"", None
    if kind == REGULAR:
        if code not in SERVICE_BY_CODE:
            raise MalformedFrame("message: service")
        service, payload = SERVICE_BY_CODE[code], frame[end:]
    elif code:
        raise MalformedFrame("message: service")
    elif kind == JOIN:
        proposal = _decode_proposal(frame, end, mode)
        entry = Entry(sender_id, incarnation, view_no)
        if entry not in proposal.joint or entry in proposal.failed:
            raise MalformedFrame("join: its sender is not in it")
    elif end != len(frame):
        raise MalformedFrame("null: size")
    return Message(
        kind,
        service,
        sender_id,
        incarnation,
        view_id,
        counter,
        counter - base,
        acks,
        timestamp,
        payload,
        proposal,
        flags == SLOW,
        frame,
    )


def _decode_acks(frame: bytes, count: int, sender_id: ProcessorId) -> tuple[tuple[Ack, ...], int]:
    end = MESSAGE.size + count * ACK.size
    if count >= PROCESSORS_MAX or len(frame) < end:
        raise MalformedFrame("acks: count")
    acks: tuple[Ack, ...] = tuple(ACK.iter_unpack(frame[MESSAGE.size : end])) if count else ()
    before = NO_PROCESSOR
    for member, number in acks:
        if member <= before or member == sender_id or not 0 < number <= NUMBER_MAX:
            raise MalformedFrame("acks: order")
        before = member
    return acks, end


def _decode_proposal(frame: bytes, start: int, mode: int) -> Proposal:
    if len(frame) < start + PROPOSAL.size:
        raise MalformedFrame("join: size")
    theirs, count = PROPOSAL.unpack_from(frame, start)
    start += PROPOSAL.size
    if theirs != mode:
        raise MalformedFrame("join: another way of ordering")
    if not 0 < count <= ENTRIES_MAX or len(frame) != start + count * ENTRY.size:
        raise MalformedFrame("join: count")
    joint: list[Entry] = []
    failed: list[Entry] = []
    for proc, incarnation, view_no, has_failed in ENTRY.iter_unpack(frame[start:]):
        entry = Entry(proc, incarnation, view_no)
        if proc == NO_PROCESSOR or (joint and entry <= joint[-1]) or has_failed > 1:
            raise MalformedFrame("join: entries")
        if incarnation > NUMBER_MAX or not 0 < view_no <= NUMBER_MAX:
            raise MalformedFrame("join: entry")
        joint.append(entry)
        if has_failed:
            failed.append(entry)
    return Proposal(tuple(joint), tuple(failed))


def encode_nack(nack: Nack, head: bytes) -> bytes:
    """Lay a request for messages out."""
    rows = [RANGE.pack(*row) for row in nack.ranges]
    return head + COUNT.pack(len(rows)) + b"".join(rows)


def decode_nack(datagram: bytes) -> Nack:
    """Read a request for messages."""
    body = _counted(datagram, RANGE.size, RANGES_MAX, KIND_NAMES[NACK])
    ranges: list[tuple[ProcessorId, int, int]] = []
    for member, first, last in RANGE.iter_unpack(body):
        if member == NO_PROCESSOR or not 0 < first <= last <= NUMBER_MAX:
            raise MalformedFrame("nack: range")
        ranges.append((member, first, last))
    return Nack(tuple(ranges))


def encode_attempt(members: Sequence[tuple[ProcessorId, int]], head: bytes) -> bytes:
    """Lay an attempt to join out."""
    return head + COUNT.pack(len(members)) + b"".join(MEMBER.pack(*one) for one in members)


def decode_attempt(datagram: bytes) -> AttemptJoin:
    """Read an attempt to join."""
    body = _counted(datagram, MEMBER.size, PROCESSORS_MAX, KIND_NAMES[AJ])
    members: list[tuple[ProcessorId, int]] = []
    for proc, incarnation in MEMBER.iter_unpack(body):
        if (members and proc <= members[-1][0]) or proc == NO_PROCESSOR:
            raise MalformedFrame("aj: members")
        if incarnation > NUMBER_MAX:
            raise MalformedFrame("aj: incarnation")
        members.append((proc, incarnation))
    return AttemptJoin(tuple(members))


def _counted(datagram: bytes, size: int, most: int, what: str) -> bytes:
    start = HEAD.size + COUNT.size
    if len(datagram) < start:
        raise MalformedFrame(f"{what}: size")
    (count,) = COUNT.unpack_from(datagram, HEAD.size)
    if not 0 < count <= most or len(datagram) != start + count * size:
        raise MalformedFrame(f"{what}: count")
    return datagram[start:]


def decode_bare(datagram: bytes) -> None:
    """Check a frame that says nothing more than who transmits it."""
    if len(datagram) != HEAD.size:
        raise MalformedFrame("bare: size")
