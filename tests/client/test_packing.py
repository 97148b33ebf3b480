"""Messages into frames and out again."""

from itertools import pairwise
from operator import mul

import pytest
from hypothesis import given
from hypothesis.strategies import binary, builds, integers, lists

from evensong.client.message import Delivery
from evensong.client.packing import pack, take_out, unpack
from evensong.core.groups.events import Destination, MemberId, OrderId
from evensong.core.groups.frame import TABLED_MAX, decode_head, encode_whole, whole_size
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame


@given(lists(binary(max_size=400), max_size=60), integers(100, 700))
def test_frames_hold_all_messages_in_order_and_none_is_too_long(
    payloads: list[bytes], frame_max: int
) -> None:
    frames = list(pack(payloads, frame_max))
    assert [one for frame in frames for one in frame] == payloads
    assert all(len(frame) == 1 or whole_size(frame) <= frame_max for frame in frames)
    for frame, following in pairwise(frames):
        assert whole_size([*frame, following[0]]) > frame_max or 1 in map(len, (frame, following))


def test_a_message_too_long_for_a_table_goes_alone() -> None:
    long = bytes(TABLED_MAX + 1)
    assert [len(one) for one in pack([b"a", long, b"b", b"c"], 10**6)] == [1, 1, 2]
    assert [len(one) for one in pack([long, long], 10**6)] == [1, 1]


@given(
    lists(binary(max_size=9), min_size=1, max_size=9)
    | builds(mul, lists(binary(), min_size=1, max_size=1), integers(1, 99))
)
def test_what_was_packed_is_unpacked(payloads: list[bytes]) -> None:
    frame = encode_whole(1, 1, 0, 0, payloads)
    assert list(unpack(frame, len(payloads))) == payloads


@pytest.mark.parametrize("payloads", [[b"one", b"two"], [b"Ave", b"Maria"]])
def test_a_table_that_is_false_is_refused(payloads: list[bytes]) -> None:
    frame = encode_whole(1, 1, 0, 0, payloads)
    for false in (frame + b"more", frame[:-1]):
        with pytest.raises(MalformedFrame):
            unpack(false, 2)


@given(
    lists(binary(max_size=200), min_size=1, max_size=9)
    | builds(mul, lists(binary(), min_size=1, max_size=1), integers(1, 99))
)
def test_what_is_taken_out_of_a_buffer_stays_when_that_is_overwritten(
    payloads: list[bytes],
) -> None:
    buffer = bytearray(encode_whole(1, 1, 0, 0, payloads))
    head, taken = take_out(memoryview(buffer))
    buffer[:] = b"?" * len(buffer)
    messages = unpack(taken, len(payloads)) if isinstance(taken, bytes) else taken
    assert list(messages) == payloads
    assert {type(one) for one in messages} == {bytes}
    assert (head.first_no, head.places) == (1, len(payloads))


def test_small_messages_and_false_tables_are_left_as_they_are() -> None:
    small = encode_whole(1, 1, 0, 0, [bytes(9)] * 100)
    large = encode_whole(1, 1, 0, 0, [bytes(900)] * 100)
    false = large + b"more"
    assert take_out(memoryview(small))[1] == small
    assert take_out(memoryview(false))[1] == false
    assert take_out(memoryview(large))[1] == (bytes(900),) * 100


def test_a_message_knows_its_place_in_its_frame() -> None:
    sender = MemberId(3, 17, 5, "ann")
    frame = encode_whole(5, 40, 0, 1, [b"a", b"b", b"c"])
    order = OrderId(RingId(8, 1), 12, 6)
    to, where, head = Destination(sender, ("g",)), RingId(10, 2), decode_head(frame)
    delivery = Delivery(to, order, where, head, frame, reduced=True)
    last = delivery.messages()[2]
    assert last.order == OrderId(RingId(8, 1), 12, 8)
    assert tuple(last.id) == (3, 17, 5, 42)
    assert last.place == (RingId(10, 2), 12, 8)
    assert last.reduced
    assert "#ann#3#17.5" in repr(last)
