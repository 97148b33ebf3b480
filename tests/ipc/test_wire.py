"""What clients and daemons say is read back as it was said, and anything else is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis.strategies import (
    DrawFn,
    SearchStrategy,
    binary,
    booleans,
    builds,
    composite,
    integers,
    lists,
    none,
    sampled_from,
    text,
    tuples,
)

from evensong.core.groups.events import (
    Cause,
    Destination,
    ErrorCode,
    MemberId,
    OrderId,
    Reconfigured,
    View,
    ViewId,
)
from evensong.core.groups.frame import HEADER_SIZE
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame
from evensong.ipc import frames, wire
from evensong.ipc.frames import Deliver, Frame, Why
from evensong.ipc.splitter import HEAD_SIZE, Splitter

U16 = integers(0, 2**16 - 1)
U32 = integers(0, 2**32 - 1)
U64 = integers(0, 2**64 - 1)
NAMES = text(max_size=60)
MEMBERS: SearchStrategy[MemberId] = builds(MemberId, U32, U64, U32, NAMES)
RINGS = builds(RingId, U64, U32)
ORDERS = builds(OrderId, RINGS, U64, U32)
PLACES = none() | builds(OrderId, RINGS, integers(1, 2**64 - 1), U32)  # none: not ordered


def body_of(data: bytes, opcode: int, request_id: int) -> bytes:
    (frame,) = Splitter(2**30).feed(data)
    assert frame[:2] == (opcode, request_id)
    return frame.body


@composite
def views(draw: DrawFn) -> View:
    members = tuple(draw(lists(MEMBERS, max_size=8, unique=True)))
    stayed = tuple(one for one in members if draw(booleans()))
    components: list[list[MemberId]] = []
    for one in members:
        at = draw(integers(0, len(components)))
        if at == len(components):
            components.append([])
        components[at].append(one)
    return View(
        draw(NAMES),
        ViewId(draw(RINGS), draw(U64), draw(U32), draw(U64)),
        members,
        tuple(one for one in members if one not in stayed),
        tuple(draw(lists(MEMBERS, max_size=4))),
        stayed,
        tuple(tuple(part) for part in components),
        draw(sampled_from(Cause)),
        draw(sampled_from((None, *members))),
        primary=draw(booleans()),
        transitional=draw(booleans()),
    )


@given(U32, U16, NAMES)
def test_hello(request_id: int, version: int, user: str) -> None:
    body = body_of(wire.encode_hello(request_id, user, version), frames.HELLO, request_id)
    assert wire.decode_hello(body) == (version, user)


@given(U32, NAMES)
def test_join_and_leave(request_id: int, group: str) -> None:
    join = body_of(wire.encode_join(request_id, group), frames.JOIN, request_id)
    leave = body_of(wire.encode_leave(request_id, group), frames.LEAVE, request_id)
    assert wire.decode_join(join) == (group,)
    assert wire.decode_leave(leave) == (group,)


@given(U32, U32, lists(NAMES, max_size=70))
def test_set(request_id: int, set_no: int, groups: list[str]) -> None:
    body = body_of(wire.encode_set(request_id, set_no, groups), frames.SET, request_id)
    assert wire.decode_set(body) == (set_no, tuple(groups))


@given(U32, binary())
def test_send(request_id: int, frame: bytes) -> None:
    body = body_of(wire.encode_send(request_id, frame), frames.SEND, request_id)
    assert wire.decode_send(body) == (frame,)


@given(U64, booleans())
def test_consumed_and_safe_lines(size: int, wanted: bool) -> None:
    assert wire.decode_consumed(body_of(wire.encode_consumed(size), frames.CONSUMED, 0)) == (size,)
    body = body_of(wire.encode_safe_lines(wanted), frames.SAFE_LINES, 0)
    assert wire.decode_safe_lines(body) == (wanted,)


@pytest.mark.parametrize(
    ("encode", "decode", "opcode"),
    [
        (wire.encode_ping, wire.decode_ping, frames.PING),
        (wire.encode_bye, wire.decode_bye, frames.BYE),
        (wire.encode_groups, wire.decode_groups, frames.GROUPS),
        (wire.encode_pong, wire.decode_pong, frames.PONG),
    ],
)
def test_those_without_a_body(
    encode: Callable[[int], bytes], decode: Callable[[bytes], object], opcode: int
) -> None:
    assert decode(body_of(encode(2**32 - 1), opcode, 2**32 - 1)) == ()
    with pytest.raises(MalformedFrame):
        decode(b"\0")


@given(U32, MEMBERS, U32, U32, U64)
def test_welcome(
    request_id: int, member: MemberId, frame_max: int, message_max: int, window: int
) -> None:
    encoded = wire.encode_welcome(request_id, member, frame_max, message_max, window)
    body = body_of(encoded, frames.WELCOME, request_id)
    assert wire.decode_welcome(body) == (member, frame_max, message_max, window)


@given(U32, MEMBERS, lists(NAMES, max_size=70))
def test_destination(number: int, sender: MemberId, groups: list[str]) -> None:
    encoded = wire.encode_destination(number, Destination(sender, tuple(groups)))
    told = wire.decode_destination(body_of(encoded, frames.DESTINATION, 0))
    assert (told.number, told.destination.sender) == (number, sender)
    assert told.destination.groups == tuple(groups)


@given(U32, PLACES, RINGS, booleans(), binary())
def test_deliver(
    number: int, order: OrderId | None, conf_id: RingId, reduced: bool, frame: bytes
) -> None:
    whole = b"".join(wire.encode_deliver(number, order, conf_id, reduced, frame))
    body = body_of(whole, frames.DELIVER, 0)
    assert wire.decode_deliver(body) == (number, order, conf_id, reduced, False, frame)


@given(U32, PLACES, RINGS, booleans(), binary(min_size=HEADER_SIZE))
def test_own(
    number: int, order: OrderId | None, conf_id: RingId, reduced: bool, frame: bytes
) -> None:
    body = body_of(wire.encode_own(number, order, conf_id, reduced, frame), frames.DELIVER, 0)
    header = frame[:HEADER_SIZE]
    assert wire.decode_deliver(body) == (number, order, conf_id, reduced, True, header)
    for other in (body[:-1], body + b"content"):
        with pytest.raises(MalformedFrame):
            wire.decode_deliver(other)


@given(views())
def test_view(view: View) -> None:
    told = wire.decode_view(body_of(wire.encode_view(view), frames.VIEW, 0))
    for field in View.__slots__:
        assert getattr(told, field) == getattr(view, field), field


@given(U32, NAMES, ORDERS)
def test_left(request_id: int, group: str, order: OrderId) -> None:
    body = body_of(wire.encode_left(request_id, group, order), frames.LEFT, request_id)
    assert wire.decode_left(body) == (group, order)


@given(U64, U16, PLACES, booleans())
def test_receipt(first_no: int, places: int, order: OrderId | None, comes_back: bool) -> None:
    told = (first_no, places, order, comes_back)
    body = body_of(wire.encode_receipt(*told), frames.RECEIPT, 0)
    assert wire.decode_receipt(body) == told


@given(RINGS, U64)
def test_safe_line(ring_id: RingId, seq: int) -> None:
    body = body_of(wire.encode_safe_line(ring_id, seq), frames.SAFE_LINE, 0)
    assert wire.decode_safe_line(body) == (ring_id, seq)


@given(RINGS, lists(U32, max_size=128), booleans(), booleans())
def test_config(conf_id: RingId, members: list[int], primary: bool, transitional: bool) -> None:
    encoded = wire.encode_config(conf_id, members, primary=primary, transitional=transitional)
    told = wire.decode_config(body_of(encoded, frames.CONFIG, 0))
    wanted = Reconfigured(conf_id, tuple(members), primary=primary, transitional=transitional)
    for field in Reconfigured.__slots__:
        assert getattr(told, field) == getattr(wanted, field), field


@given(U32, sampled_from(ErrorCode), booleans(), U64, U64)
def test_error_throttle_and_slow(
    request_id: int, code: ErrorCode, is_on: bool, queued: int, limit: int
) -> None:
    error = body_of(wire.encode_error(request_id, code), frames.ERROR, request_id)
    assert wire.decode_error(error) == (code,)
    throttle = body_of(wire.encode_throttle(is_on), frames.THROTTLE, 0)
    assert wire.decode_throttle(throttle) == (is_on,)
    slow = body_of(wire.encode_slow(queued, limit), frames.SLOW, 0)
    assert wire.decode_slow(slow) == (queued, limit)


@given(U32, sampled_from(Why), text(max_size=400))
def test_farewell(request_id: int, why: Why, words: str) -> None:
    body = body_of(wire.encode_farewell(request_id, why, words), frames.FAREWELL, request_id)
    told = wire.decode_farewell(body)
    assert told.why is why
    assert words.startswith(told.text)
    assert told.text == words or len(told.text.encode()) > 251


@given(lists(tuples(NAMES, lists(MEMBERS, min_size=1, max_size=5)), max_size=6))
def test_groups(groups: list[tuple[str, list[MemberId]]]) -> None:
    (encoded,) = wire.encode_groups_are(7, groups)
    told = wire.decode_groups_are(body_of(encoded, frames.GROUPS_ARE, 7))
    assert told.is_last
    assert told.groups == tuple((name, tuple(members)) for name, members in groups)


def test_many_members_take_several_frames() -> None:
    members = [MemberId(1, 2, session, "somebody") for session in range(1, 5_001)]
    encoded = wire.encode_groups_are(7, [("a", members), ("b", members[:3])])
    assert len(encoded) > 2
    found: dict[str, list[MemberId]] = {}
    for at, data in enumerate(encoded):
        assert len(data) < 2 * wire.PORTION
        told = wire.decode_groups_are(body_of(data, frames.GROUPS_ARE, 7))
        assert told.is_last == (at == len(encoded) - 1)
        for name, some in told.groups:
            found.setdefault(name, []).extend(some)
    assert found == {"a": members, "b": members[:3]}


@given(integers(0, 255), binary(max_size=300))
def test_any_bytes_are_read_or_refused(opcode: int, body: bytes) -> None:
    for decode in (wire.decode_request, wire.decode_told):
        try:
            read = decode(Frame(opcode, 0, body))
        except MalformedFrame:
            continue
        assert opcode in (wire.REQUESTS if decode is wire.decode_request else wire.TOLD)
        assert read is not None


SAMPLES = [
    wire.encode_hello(1, "anna"),
    wire.encode_set(1, 3, ["a", "b"]),
    wire.encode_welcome(1, MemberId(1, 2, 3, "anna"), 1, 2, 3),
    wire.encode_destination(3, Destination(MemberId(1, 2, 3, "anna"), ("a", "b"))),
    b"".join(wire.encode_deliver(1, OrderId(RingId(4, 1), 5, 6), RingId(4, 1), False, b"credo")),
    wire.encode_own(1, OrderId(RingId(4, 1), 5, 6), RingId(4, 1), True, bytes(HEADER_SIZE)),
    wire.encode_receipt(7, 2, OrderId(RingId(4, 1), 5, 6), comes_back=True),
    wire.encode_view(
        View(
            "a",
            ViewId(RingId(4, 1), 5, 6, 7),
            (MemberId(1, 2, 3, "anna"), MemberId(2, 2, 3, "bert")),
            (MemberId(2, 2, 3, "bert"),),
            (MemberId(3, 2, 3, "carl"),),
            (MemberId(1, 2, 3, "anna"),),
            ((MemberId(1, 2, 3, "anna"),), (MemberId(2, 2, 3, "bert"),)),
            Cause.JOIN,
            MemberId(2, 2, 3, "bert"),
            primary=True,
            transitional=False,
        )
    ),
    wire.encode_left(1, "a", OrderId(RingId(4, 1), 5, 6)),
    wire.encode_config(RingId(4, 1), [1, 2], primary=True, transitional=False),
    *wire.encode_groups_are(1, [("a", [MemberId(1, 2, 3, "anna")])]),
    wire.encode_farewell(1, Why.SLOW, "slow"),
]


@given(sampled_from(SAMPLES), integers(0, 500), integers(1, 255), booleans())
def test_altered_frames_are_read_or_refused(sample: bytes, at: int, by: int, cut: bool) -> None:
    body = bytearray(sample[HEAD_SIZE:])
    at %= len(body)
    if cut:
        del body[at:]
    else:
        body[at] ^= by
    decoders = {**wire.REQUESTS, **wire.TOLD}
    try:
        read = decoders[sample[4]](bytes(body))
    except MalformedFrame:
        return
    assert not cut or isinstance(read, Deliver)
