import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, tuples

from evensong.core.groups.control import control_frame
from evensong.core.groups.frame import FIRST, HEADER_SIZE, Head, encode_frame, encode_whole
from evensong.core.groups.packet import PACKET, PACKET_SIZE, decode_packet, encode_packet
from evensong.core.unit import UNIT, UnitId, decode_unit
from evensong.errors import MalformedFrame

UNIT_ID = UnitId(3, 9, 7)


@given(bodies=lists(lists(binary(max_size=30), min_size=1, max_size=5), min_size=1, max_size=9))
def test_frames_are_found_and_the_packet_is_a_unit(bodies: list[list[bytes]]) -> None:
    frames = [encode_whole(1, n, n, 0, messages) for n, messages in enumerate(bodies)]
    places = sum(map(len, bodies))
    payload = encode_packet(UNIT_ID, places, frames)
    assert decode_unit(payload) == UNIT_ID
    assert UNIT.unpack_from(payload)[3] == places
    assert len(payload) == PACKET_SIZE + sum(map(len, frames))
    unit_id, found = decode_packet(payload)
    assert unit_id == UNIT_ID
    assert [payload[one[7] - HEADER_SIZE : one[7] + one[6]] for one in found] == frames
    assert [one[5] for one in found] == list(map(len, bodies))


@given(junk=binary(max_size=200))
def test_junk_gives_one_error(junk: bytes) -> None:
    payload = PACKET.pack(*UNIT_ID, 1, 1, 0, 2) + junk
    try:
        _, found = decode_packet(payload)
    except MalformedFrame:
        return
    assert len(found) == 2


@given(changes=lists(tuples(integers(0, 200), integers(0, 255)), max_size=3), cut=integers(0, 200))
def test_a_damaged_packet_is_read_as_a_whole_or_not_at_all(
    changes: list[tuple[int, int]], cut: int
) -> None:
    frames = [
        encode_whole(1, 1, 0, 0, [b"a", b"bc"]),
        control_frame(1, b"hello"),
        encode_frame(Head(FIRST, 0, 1, 1, 0, 0, 0), b"abcdef"),
    ]
    payload = bytearray(encode_packet(UNIT_ID, 3, frames))
    for at, value in changes:
        payload[at % len(payload)] = value
    try:
        _, found = decode_packet(bytes(payload[: max(cut, 1)]))
    except MalformedFrame:
        return
    assert sum(HEADER_SIZE + one[6] for one in found) == min(cut, len(payload)) - PACKET_SIZE


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(PACKET_SIZE - 1),
        PACKET.pack(*UNIT_ID, 0, 1, 0, 0),
        PACKET.pack(*UNIT_ID, 1, 2, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 1, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 2, 1, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 0, 2) + encode_whole(1, 1, 0, 0, [b"a"]),
        PACKET.pack(*UNIT_ID, 1, 1, 0, 1) + encode_whole(1, 1, 0, 0, [b"a"]) + b"x",
    ],
)
def test_a_packet_that_cannot_be_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_packet(payload)
