"""Every frame is read back as written, and whatever else comes is refused and nothing worse."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis.strategies import (
    DrawFn,
    binary,
    booleans,
    builds,
    composite,
    frozensets,
    integers,
    one_of,
    sampled_from,
)

from evensong.core.effects import Service
from evensong.core.ids import NO_PROCESSOR, PROCESSORS_MAX, RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import (
    ENCAP,
    RETX,
    Beacon,
    CommitToken,
    Join,
    MembEntry,
    RegularMessage,
    RegularToken,
)
from evensong.core.totem.ordering import ranges
from evensong.errors import MalformedFrame

SEQ = integers(0, wire.SEQ_MAX)
PROCESSOR = integers(1, 2**32 - 1)
PROCESSORS = frozensets(PROCESSOR, min_size=1, max_size=20)
RING_ID = builds(RingId, SEQ, PROCESSOR)
U64 = integers(0, 2**64 - 1)
SOMETHING = one_of(U64, SEQ, integers(0, 9), sampled_from([2**62, 2**62 + 1, 2**64 - 1]))

MESSAGES = builds(
    RegularMessage,
    PROCESSOR,
    RING_ID,
    integers(1, wire.SEQ_MAX),
    sampled_from([Service.AGREED, Service.SAFE]),
    sampled_from([0, ENCAP, RETX, ENCAP | RETX]),
    SEQ,
    binary(max_size=60),
)


@composite
def tokens(draw: DrawFn) -> RegularToken:
    seq = draw(SEQ)
    wanted = draw(frozensets(integers(1, max(1, min(seq, 200))), max_size=30))
    token = RegularToken(
        draw(RING_ID),
        draw(SEQ),
        seq,
        draw(integers(0, seq)),
        draw(integers(0, 2**32 - 1)),
        draw(integers(0, 2**32 - 1)),
        draw(integers(0, wire.BACKLOG_MAX)),
        draw(booleans()),
        draw(integers(0, 2**32 - 1)),
        draw(SEQ),
        ranges(sorted(wanted)) if seq else [],
    )
    return token


@composite
def joins(draw: DrawFn) -> Join:
    proc_set = draw(PROCESSORS)
    sender = draw(sampled_from(sorted(proc_set)))
    fail_set = draw(frozensets(sampled_from(sorted(proc_set)))) - {sender}
    return Join(sender, draw(U64), proc_set, fail_set, draw(SEQ))


@composite
def commits(draw: DrawFn) -> CommitToken:
    members = sorted(draw(frozensets(PROCESSOR, min_size=2, max_size=12)))
    rotation = draw(sampled_from([1, 2]))
    filled = len(members) if rotation == 2 else draw(integers(0, len(members)))
    memb = []
    for index, member in enumerate(members):
        is_filled = index < filled
        owed = draw(frozensets(PROCESSOR, max_size=4)) | ({member} if is_filled else set())
        memb.append(
            MembEntry(
                member,
                is_filled,
                draw(builds(RingId, SEQ, integers(0, 2**32 - 1))),
                draw(SEQ),
                draw(SEQ),
                draw(SEQ),
                draw(booleans()),
                owed,
                draw(integers(0, 2**32 - 1)),
                draw(U64),
            )
        )
    ring_id = RingId(draw(SEQ), members[0])
    return CommitToken(ring_id, memb, draw(SEQ), rotation, draw(SEQ), draw(integers(0, 255)))


def fields(frame: object) -> dict[str, object]:
    if isinstance(frame, RegularMessage):
        return frame._asdict()
    return {name: getattr(frame, name) for name in type(frame).__slots__}  # type: ignore[attr-defined]


@given(MESSAGES, PROCESSOR, U64)
def test_a_message_is_read_back_as_written(
    message: RegularMessage, transmitter: int, incarnation: int
) -> None:
    datagram = wire.encode_regular(message, 0, transmitter, incarnation)
    assert wire.HEADER.unpack_from(datagram) == (wire.REGULAR, transmitter, incarnation)
    assert fields(wire.decode_regular(datagram)) == fields(message)


@given(MESSAGES)
def test_a_retransmission_differs_in_its_flag_only(message: RegularMessage) -> None:
    again = wire.decode_regular(wire.encode_regular(message, RETX, 9, 9))
    assert fields(again) == {**fields(message), "flags": message.flags | RETX}


@given(MESSAGES)
def test_an_encapsulated_message_is_read_back_without_its_retransmission_flag(
    message: RegularMessage,
) -> None:
    payload = wire.encapsulate(message)
    assert len(payload) == len(message.payload) + wire.MESSAGE.size
    if message.flags & ENCAP:
        with pytest.raises(MalformedFrame, match="encapsulated twice"):
            wire.decapsulate(payload)
    else:
        assert fields(wire.decapsulate(payload)) == {**fields(message), "flags": 0}


@given(tokens(), PROCESSOR, U64)
def test_a_token_is_read_back_as_written(
    token: RegularToken, transmitter: int, incarnation: int
) -> None:
    datagram = wire.encode_token(token, transmitter, incarnation)
    assert fields(wire.decode_token(datagram)) == fields(token)


@given(joins())
def test_a_join_is_read_back_as_written(join: Join) -> None:
    assert fields(wire.decode_join(wire.encode_join(join))) == fields(join)


@given(commits(), PROCESSOR, U64)
def test_a_commit_token_is_read_back_as_written(
    commit: CommitToken, transmitter: int, incarnation: int
) -> None:
    datagram = wire.encode_commit(commit, transmitter, incarnation)
    assert fields(wire.decode_commit(datagram)) == fields(commit)


@given(RING_ID, integers(1, PROCESSORS_MAX), PROCESSOR, U64)
def test_the_small_frames_are_read_back_as_written(
    ring_id: RingId, count: int, transmitter: int, incarnation: int
) -> None:
    beacon = wire.decode_beacon(wire.encode_beacon(Beacon(ring_id, count), transmitter, 1))
    assert (beacon.ring_id, beacon.memb_count) == (ring_id, count)
    cancel = wire.encode_hold_cancel(ring_id, transmitter, incarnation)
    assert wire.decode_hold_cancel(cancel).ring_id == ring_id
    leave = wire.encode_leave(ring_id, transmitter, incarnation)
    assert wire.decode_leave(leave).ring_id == ring_id


def test_the_layouts_have_their_sizes() -> None:
    sizes = {
        "header": (wire.HEADER, 13),
        "regular": (wire.REGULAR_FRAME, 47),
        "encapsulated": (wire.MESSAGE, 34),
        "token": (wire.TOKEN_FRAME, 75),
        "rtr": (wire.RTR, 12),
        "join": (wire.JOIN_FRAME, 23),
        "commit": (wire.COMMIT_FRAME, 47),
        "entry": (wire.ENTRY, 53),
        "beacon": (wire.BEACON_FRAME, 27),
        "ring": (wire.RING_FRAME, 25),
    }
    assert {name: layout.size for name, (layout, _) in sizes.items()} == {
        name: size for name, (_, size) in sizes.items()
    }


# -- what is refused -------------------------------------------------------------------------

RING = RingId(8, 1)
TOKEN = RegularToken(RING, 5, 9, 4, 2, 3, 7, True, 1, 6, [(5, 2), (8, 1)])
MESSAGE = RegularMessage(1, RING, 3, Service.SAFE, 0, 0, b"payload")
JOIN = Join(2, 1, frozenset([1, 2, 3]), frozenset([3]), 8)
ENTRIES = [
    MembEntry(1, True, RingId(4, 1), 3, 2, 4, True, frozenset([1, 3])),
    MembEntry(2, True, RingId(4, 1), 3, 2, 4, False, frozenset([2])),
]
COMMIT = CommitToken(RING, ENTRIES, 1, 2)
SAMPLES: dict[int, tuple[bytes, Callable[[bytes], object]]] = {
    wire.REGULAR: (wire.encode_regular(MESSAGE, 0, 1, 1), wire.decode_regular),
    wire.TOKEN: (wire.encode_token(TOKEN, 1, 1), wire.decode_token),
    wire.JOIN: (wire.encode_join(JOIN), wire.decode_join),
    wire.COMMIT: (wire.encode_commit(COMMIT, 1, 1), wire.decode_commit),
    wire.BEACON: (wire.encode_beacon(Beacon(RING, 3), 1, 1), wire.decode_beacon),
    wire.HOLD_CANCEL: (wire.encode_hold_cancel(RING, 1, 1), wire.decode_hold_cancel),
    wire.LEAVE: (wire.encode_leave(RING, 1, 1), wire.decode_leave),
}
U8, U16, U32 = struct.Struct("!B"), struct.Struct("!H"), struct.Struct("!I")
Q = struct.Struct("!Q")
BIG = wire.SEQ_MAX + 1


@pytest.mark.parametrize(
    ("kind", "at", "layout", "value"),
    [
        (wire.REGULAR, 13, U32, NO_PROCESSOR),  # sender_id
        (wire.REGULAR, 17, Q, BIG),  # ring_seq
        (wire.REGULAR, 25, U32, NO_PROCESSOR),  # ring_rep
        (wire.REGULAR, 29, Q, 0),  # seq
        (wire.REGULAR, 29, Q, BIG),
        (wire.REGULAR, 37, U8, 0),  # service
        (wire.REGULAR, 37, U8, 3),
        (wire.REGULAR, 38, U8, 4),  # flags
        (wire.REGULAR, 39, Q, BIG),  # timestamp
        (wire.TOKEN, 13, Q, BIG),  # ring_seq
        (wire.TOKEN, 21, U32, NO_PROCESSOR),  # ring_rep
        (wire.TOKEN, 25, Q, BIG),  # token_seq
        (wire.TOKEN, 33, Q, BIG),  # seq
        (wire.TOKEN, 33, Q, 3),  # seq below aru
        (wire.TOKEN, 41, Q, 10),  # aru beyond seq
        (wire.TOKEN, 57, U32, wire.BACKLOG_MAX + 1),
        (wire.TOKEN, 61, U8, 2),  # retrans_flg
        (wire.TOKEN, 66, Q, BIG),  # timestamp
        (wire.TOKEN, 74, U8, 1),  # rtr_count
        (wire.TOKEN, 74, U8, 3),
        (wire.TOKEN, 75, Q, 0),  # the first range begins before the first message
        (wire.TOKEN, 83, U32, 0),  # an empty range
        (wire.TOKEN, 83, U32, 4),  # ranges overlap
        (wire.TOKEN, 87, Q, 4),  # ranges do not ascend
        (wire.TOKEN, 95, U32, 3),  # a range beyond seq
        (wire.JOIN, 1, U32, 9),  # sender is not in proc_set
        (wire.JOIN, 1, U32, 3),  # sender is in fail_set
        (wire.JOIN, 13, Q, BIG),  # ring_seq
        (wire.JOIN, 21, U16, 0),  # proc_count
        (wire.JOIN, 21, U16, 2),
        (wire.JOIN, 21, U16, PROCESSORS_MAX + 1),
        (wire.JOIN, 23, U32, 0),  # nobody
        (wire.JOIN, 27, U32, 1),  # twice the same
        (wire.JOIN, 35, U8, 8),  # a bit beyond the set
        (wire.COMMIT, 13, Q, BIG),  # ring_seq
        (wire.COMMIT, 21, U32, 2),  # the representative is not the first member
        (wire.COMMIT, 25, Q, BIG),  # token_seq
        (wire.COMMIT, 33, U8, 0),  # rotation
        (wire.COMMIT, 33, U8, 3),
        (wire.COMMIT, 35, Q, BIG),  # timestamp
        (wire.COMMIT, 43, U16, 1),  # memb_count
        (wire.COMMIT, 43, U16, 3),
        (wire.COMMIT, 45, U16, 1),  # table_count
        (wire.COMMIT, 45, U16, wire.TABLE_MAX + 1),
        (wire.COMMIT, 51, U32, 1),  # the table does not ascend
        (wire.COMMIT, 59, U32, 2),  # members do not ascend
        (wire.COMMIT, 59, U32, 0),
        (wire.COMMIT, 63, U8, 4),  # bits
        (wire.COMMIT, 63, U8, 0),  # an empty entry before a filled one
        (wire.COMMIT, 64, Q, BIG),  # old_ring_id
        (wire.COMMIT, 76, Q, BIG),  # my_aru
        (wire.COMMIT, 84, Q, BIG),  # high_delivered
        (wire.COMMIT, 92, Q, BIG),  # high_received
        (wire.COMMIT, 112, U8, 0),  # not obliged to itself
        (wire.COMMIT, 112, U8, 9),  # a bit beyond the table
        (wire.COMMIT, 113, U32, 3),  # not obliged to itself under another id
        (wire.COMMIT, 117, U8, 0),  # the second rotation with an empty entry
        (wire.BEACON, 13, Q, BIG),
        (wire.BEACON, 21, U32, NO_PROCESSOR),
        (wire.BEACON, 25, U16, 0),
        (wire.BEACON, 25, U16, PROCESSORS_MAX + 1),
        (wire.HOLD_CANCEL, 13, Q, BIG),
        (wire.HOLD_CANCEL, 21, U32, NO_PROCESSOR),
        (wire.LEAVE, 13, Q, BIG),
        (wire.LEAVE, 21, U32, NO_PROCESSOR),
    ],
)
def test_a_field_that_cannot_be_is_refused(
    kind: int, at: int, layout: struct.Struct, value: int
) -> None:
    sample, decode = SAMPLES[kind]
    decode(sample)
    spoiled = bytearray(sample)
    layout.pack_into(spoiled, at, value)
    with pytest.raises(MalformedFrame):
        decode(bytes(spoiled))


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_frame_cut_short_or_too_long_is_refused(kind: int) -> None:
    sample, decode = SAMPLES[kind]
    fixed = wire.REGULAR_FRAME.size if kind == wire.REGULAR else len(sample)
    for size in range(fixed):
        with pytest.raises(MalformedFrame):
            decode(sample[:size])
    with pytest.raises(MalformedFrame):
        decode(sample + bytes(wire.PAYLOAD_MAX))


def test_a_token_with_more_ranges_than_allowed_is_refused() -> None:
    token = RegularToken(RING, seq=200, rtr=[(2 * n + 1, 1) for n in range(wire.RTR_MAX + 1)])
    with pytest.raises(MalformedFrame, match="rtr list"):
        wire.decode_token(wire.encode_token(token, 1, 1))


def read(decode: Callable[[bytes], object], datagram: bytes) -> str:
    try:
        decode(datagram)
    except MalformedFrame as malformed:
        return malformed.reason
    return "read"


@given(binary(max_size=200), sampled_from(sorted(SAMPLES)))
def test_noise_is_refused_and_nothing_worse(noise: bytes, kind: int) -> None:
    _, decode = SAMPLES[kind]
    assert read(decode, noise)
    assert read(wire.decapsulate, noise)


@given(sampled_from(sorted(SAMPLES)), integers(0, 200), SOMETHING, integers(0, 3))
def test_a_frame_with_a_spoiled_field_is_read_or_refused_and_nothing_worse(
    kind: int, at: int, value: int, size: int
) -> None:
    sample, decode = SAMPLES[kind]
    spoiled = bytearray(sample)
    layout = (U8, U16, U32, Q)[size]
    offset = at % (len(sample) - layout.size)
    layout.pack_into(spoiled, offset, value % 2 ** (8 * layout.size))
    assert read(decode, bytes(spoiled))
