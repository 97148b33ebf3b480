import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis.strategies import (
    binary,
    booleans,
    builds,
    integers,
    lists,
    sampled_from,
    tuples,
)

from evensong.core.effects import Service
from evensong.core.ids import RingId
from evensong.core.transis import wire
from evensong.core.transis.frames import (
    AJ,
    JOIN,
    KIND_NAMES,
    NACK,
    NULL,
    PING,
    REGULAR,
    AttemptJoin,
    Entry,
    Head,
    Message,
    Nack,
    Proposal,
)
from evensong.errors import MalformedFrame

IDS = integers(1, 2**32 - 1)
NUMBERS = integers(1, wire.NUMBER_MAX)
VIEWS = builds(RingId, NUMBERS, integers(1, 2**32 - 1))
ME = Entry(7, 3, 5)
VIEW = RingId(5, 77)


def made(
    kind: int = REGULAR,
    service: Service = Service.AGREED,
    acks: tuple[tuple[int, int], ...] = ((2, 4),),
    payload: bytes = b"x",
    proposal: Proposal | None = None,
    is_slow: bool = False,
) -> Message:
    return wire.make_message(
        kind, service, 7, 3, VIEW, 12, 10, acks, 1, payload, proposal, is_slow, 0
    )


def fields(message: Message) -> list[object]:
    return [getattr(message, name) for name in Message.__slots__]


@given(
    sampled_from(Service),
    lists(tuples(integers(8, 2**32 - 1), NUMBERS), max_size=9, unique_by=lambda ack: ack[0]),
    binary(max_size=50),
    booleans(),
)
def test_a_regular_message_is_read_back_as_written(
    service: Service, acks: list[tuple[int, int]], payload: bytes, is_slow: bool
) -> None:
    message = made(REGULAR, service, tuple(sorted(acks)), payload, None, is_slow)
    assert message.number == 2
    assert fields(wire.decode_message(message.frame, 0)) == fields(message)


def test_null_and_join_messages_are_read_back_as_written() -> None:
    proposal = Proposal((Entry(2, 1, 9), ME, Entry(7, 4, 1)), (Entry(2, 1, 9),))
    for message in (
        made(NULL, wire.NO_SERVICE, payload=b""),
        made(JOIN, proposal=proposal, payload=b""),
    ):
        read = wire.decode_message(message.frame, 0)
        assert read.frame == message.frame
        assert read.proposal == message.proposal
        assert read.entry() == ME


@given(sampled_from(sorted(KIND_NAMES)), IDS, NUMBERS, VIEWS)
def test_a_head_is_read_back_as_written(
    kind: int, transmitter: int, incarnation: int, view_id: RingId
) -> None:
    packed = wire.encode_head(kind, transmitter, incarnation, view_id)
    assert wire.decode_head(packed + b"rest") == Head(kind, transmitter, incarnation, view_id)


def test_requests_and_attempts_are_read_back_as_written() -> None:
    nack = Nack(((1, 2, 3), (1, 5, 5), (9, 1, 1)))
    assert wire.decode_nack(wire.encode_nack(nack, wire.encode_head(NACK, 1, 1, VIEW))) == nack
    members = ((1, 4), (9, 1))
    packed = wire.encode_attempt(members, wire.encode_head(AJ, 1, 1, VIEW))
    assert wire.decode_attempt(packed) == AttemptJoin(members)
    wire.decode_bare(wire.encode_head(PING, 1, 1, VIEW))


def packed(**changed: int) -> bytes:
    """Lay a null message out with something wrong in it."""
    usual = {"kind": NULL, "service": 0, "flags": 0, "sender": 7, "incarnation": 3}
    usual |= {"view_no": 5, "view_hash": 77, "counter": 12, "base": 10, "timestamp": 0, "acks": 0}
    return wire.MESSAGE.pack(*(usual | changed).values())


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "message: size"),
        (packed(kind=NACK), "message: kind"),
        (packed(sender=0), "message: sender"),
        (packed(flags=2), "message: sender"),
        (packed(incarnation=2**63), "message: sender"),
        (packed(counter=10), "message: counter"),
        (packed(counter=2**63), "message: counter"),
        (packed(view_no=0), "view id"),
        (packed(view_hash=0), "view id"),
        (packed(service=1), "message: service"),
        (packed(kind=REGULAR, service=9), "message: service"),
        (packed(acks=1), "acks: count"),
        (packed(acks=300) + bytes(5_000), "acks: count"),
        (packed(acks=1) + wire.ACK.pack(7, 1), "acks: order"),
        (packed(acks=1) + wire.ACK.pack(0, 1), "acks: order"),
        (packed(acks=1) + wire.ACK.pack(3, 0), "acks: order"),
        (packed(acks=2) + 2 * wire.ACK.pack(3, 1), "acks: order"),
        (packed() + b"x", "null: size"),
        (packed(kind=JOIN), "join: size"),
        (packed(kind=JOIN) + wire.PROPOSAL.pack(1, 1), "join: another way of ordering"),
        (packed(kind=JOIN) + wire.PROPOSAL.pack(0, 0), "join: count"),
        (packed(kind=JOIN) + wire.PROPOSAL.pack(0, 2), "join: count"),
        (
            packed(kind=JOIN) + wire.PROPOSAL.pack(0, 2) + 2 * wire.ENTRY.pack(*ME, 0),
            "join: entries",
        ),
        (packed(kind=JOIN) + wire.PROPOSAL.pack(0, 1) + wire.ENTRY.pack(7, 3, 0, 0), "join: entry"),
        (
            packed(kind=JOIN) + wire.PROPOSAL.pack(0, 1) + wire.ENTRY.pack(7, 3, 4, 0),
            "join: its sender is not in it",
        ),
        (
            packed(kind=JOIN) + wire.PROPOSAL.pack(0, 1) + wire.ENTRY.pack(*ME, 1),
            "join: its sender is not in it",
        ),
    ],
)
def test_a_message_that_is_none_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        wire.decode_message(frame, 0)


HEAD = wire.encode_head(NACK, 1, 1, VIEW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack("!H", 0),
        struct.pack("!H", 2) + wire.RANGE.pack(1, 1, 1),
        struct.pack("!H", 1) + wire.RANGE.pack(0, 1, 1),
        struct.pack("!H", 1) + wire.RANGE.pack(1, 2, 1),
        struct.pack("!H", 1) + wire.RANGE.pack(1, 0, 1),
        struct.pack("!H", 65) + 65 * wire.RANGE.pack(1, 1, 1),
    ],
)
def test_a_request_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        wire.decode_nack(HEAD + body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack("!H", 1) + wire.MEMBER.pack(0, 1),
        struct.pack("!H", 2) + 2 * wire.MEMBER.pack(1, 1),
        struct.pack("!H", 1) + wire.MEMBER.pack(1, 2**63),
    ],
)
def test_an_attempt_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        wire.decode_attempt(HEAD + body)


def read(decode: Callable[[bytes], object], noise: bytes) -> str:
    """Say why noise is refused; nothing if it is not."""
    try:
        decode(noise)
    except MalformedFrame as malformed:
        return malformed.reason
    return ""


@given(binary(max_size=200), integers(0, 1))
def test_noise_is_refused_or_read_and_nothing_else(noise: bytes, mode: int) -> None:
    for decode in (wire.decode_nack, wire.decode_attempt, wire.decode_bare):
        assert isinstance(read(decode, HEAD + noise), str)
    assert isinstance(read(wire.decode_head, noise), str)
    starts = (packed(), packed(kind=JOIN), packed(kind=REGULAR, service=3, acks=1))
    for start in starts:
        assert isinstance(read(lambda one: wire.decode_message(one, mode), start + noise), str)
