"""The send queue: order within a session, turns between sessions, packets that keep their rules."""

from collections.abc import Sequence
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis.strategies import booleans, integers, lists, sampled_from, tuples

from evensong.core.effects import Packet, Service
from evensong.core.groups.assembly import Assembly, whole_frame
from evensong.core.groups.control import SetPart, control_frame, decode_control
from evensong.core.groups.directory import Directory
from evensong.core.groups.events import Closed, Destination, MemberId, SessionEvent, Throttle
from evensong.core.groups.frame import (
    CONTROL,
    FIRST,
    HEADER_SIZE,
    LAST,
    MIDDLE,
    SAFE,
    WHOLE,
    decode_head,
    encode_whole,
    messages_of,
)
from evensong.core.groups.limits import DEFICIT, Limits
from evensong.core.groups.packet import PACKET_SIZE, FrameAt, decode_packet
from evensong.core.groups.sendqueue import SendQueue

LIMITS = Limits(payload_max=1_400)
ROOM = 1_400 - PACKET_SIZE


class Lanes:
    """A queue with a few sessions, each with one destination."""

    def __init__(
        self, *sessions: int, limits: Limits = LIMITS, has_unordered: bool = False
    ) -> None:
        self.events: list[SessionEvent] = []
        self.directory = Directory()
        self.queue = SendQueue(
            7, 3, limits, self.events, self.directory, has_unordered=has_unordered
        )
        self.numbers = dict.fromkeys(sessions, 0)
        self.destinations = {
            session: Destination(MemberId(7, 3, session, "ann"), ("g",)) for session in sessions
        }
        for session in sessions:
            self.queue.open(session)

    def push(self, session: int, *bodies: bytes, safe: bool = False) -> bool:
        self.numbers[session] += 1
        number = self.numbers[session]
        frame = encode_whole(session, number, 0, SAFE if safe else 0, bodies)
        return self.queue.push(frame, decode_head(frame), self.destinations[session])

    def settle(self, *sessions: int) -> None:
        """Have the destinations announced."""
        for session in sessions:
            self.push(session, b"")
        self.queue.pull(1_000)


def frames_of(packet: Packet) -> list[FrameAt]:
    return decode_packet(packet.payload)[1]


def kinds(packet: Packet) -> list[int]:
    return [frame[0] for frame in frames_of(packet)]


def content(packet: Packet, frame: FrameAt) -> bytes:
    return packet.payload[frame[7] : frame[7] + frame[6]]


def received(packets: Sequence[Packet]) -> dict[int, list[bytes]]:
    """Return the messages of each session as a receiver would see them."""
    assembly = Assembly()
    found: dict[int, list[bytes]] = {}
    for packet in packets:
        for frame in frames_of(packet):
            kind, _, session, first_no, _, _, length, at = frame
            messages: list[bytes] = []
            if kind == WHOLE:
                messages = messages_of(packet.payload[at - HEADER_SIZE : at + length])
            elif kind != CONTROL:
                whole = assembly.add((7, 3, session), kind, first_no, content(packet, frame))
                if whole is not None:
                    frame_of_all = whole_frame(0, session, first_no, 0, frame[5], whole)
                    messages = messages_of(frame_of_all)
            found.setdefault(session, []).extend(messages)
    assert not assembly.orphans
    return found


def test_a_large_message_fills_the_packet_at_hand_and_the_next_goes_on() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    for size in (100, 100, 1_500, 50):
        lanes.push(1, bytes([size % 251]) * size)
    first, second = lanes.queue.pull(10)
    assert kinds(first) == [WHOLE, WHOLE, FIRST]
    assert kinds(second) == [LAST, WHOLE]
    assert len(first.payload) == 1_400
    assert len(second.payload) < 1_400
    assert [len(one) for one in received([first, second])[1]] == [100, 100, 1_500, 50]


def test_a_frame_that_fits_a_packet_is_never_cut() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, bytes(100))
    lanes.push(1, bytes(ROOM - HEADER_SIZE))
    first, second = lanes.queue.pull(10)
    assert kinds(first) == kinds(second) == [WHOLE]
    assert len(second.payload) == 1_400


def test_no_tiny_piece_is_cut_off_a_large_message() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, bytes(ROOM - HEADER_SIZE - 80))
    lanes.push(1, bytes(2_000))
    assert [kinds(packet) for packet in lanes.queue.pull(10)] == [[WHOLE], [FIRST], [LAST]]


def test_agreed_frames_close_their_packet_before_a_safe_one() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    for safe in (False, True, False, True):
        lanes.push(1, b"x", safe=safe)
    packets = lanes.queue.pull(10)
    assert [packet.service for packet in packets] == [Service.AGREED, Service.SAFE]
    flags = [[frame[1] for frame in frames_of(packet)] for packet in packets]
    assert flags == [[0], [SAFE, 0, SAFE]]


def test_only_the_last_piece_of_a_safe_message_needs_a_safe_packet() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, b"x")
    lanes.push(1, bytes(3_000), safe=True)
    packets = lanes.queue.pull(10)
    assert [kinds(packet) for packet in packets] == [[WHOLE, FIRST], [MIDDLE], [LAST]]
    services = [packet.service for packet in packets]
    assert services == [Service.AGREED, Service.AGREED, Service.SAFE]


def test_sessions_take_turns_by_bytes() -> None:
    lanes = Lanes(1, 2)
    lanes.settle(1, 2)
    lanes.push(1, bytes(400_000))
    for _ in range(300):
        lanes.push(2, bytes(1_000))
    taken = {1: 0, 2: 0}
    for _ in range(200):
        for packet in lanes.queue.pull(1):
            for frame in frames_of(packet):
                taken[frame[2]] += HEADER_SIZE + frame[6]
        assert abs(taken[1] - taken[2]) <= DEFICIT + 2 * LIMITS.payload_max
    assert min(taken.values()) > 100_000


def test_a_small_message_overtakes_a_large_one_of_another_session() -> None:
    lanes = Lanes(1, 2)
    lanes.settle(1, 2)
    lanes.push(1, bytes(10 * 2**20))
    packets = lanes.queue.pull(5)
    lanes.push(2, b"small")
    packets += lanes.queue.pull(-(-DEFICIT // ROOM) - 4)
    assert received(packets).get(2) == [b"small"]


def test_control_frames_of_the_daemon_go_first() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, b"x")
    lanes.queue.put_first([control_frame(0, b"a" * 1_000), control_frame(0, b"b" * 1_000)])
    first, second = lanes.queue.pull(10)
    assert kinds(first) == [CONTROL]
    assert kinds(second) == [CONTROL, WHOLE]


def test_a_destination_is_announced_once_in_a_configuration() -> None:
    lanes = Lanes(1)
    lanes.push(1, b"a")
    lanes.push(1, b"b")
    (packet,) = lanes.queue.pull(10)
    assert kinds(packet) == [CONTROL, WHOLE, WHOLE]
    part = decode_control(content(packet, frames_of(packet)[0]))
    assert part == SetPart(True, "ann", ("g",))
    lanes.push(1, b"c")
    assert kinds(lanes.queue.pull(1)[0]) == [WHOLE]
    lanes.queue.restart()
    lanes.push(1, b"d")
    assert kinds(lanes.queue.pull(1)[0]) == [CONTROL, WHOLE]


def test_a_destination_in_parts_begins_again_in_a_new_configuration() -> None:
    lanes = Lanes(1)
    names = tuple([f"{n}".rjust(64, "x") for n in range(60)])
    lanes.destinations[1] = Destination(MemberId(7, 3, 1, "ann"), names)
    lanes.push(1, b"a")
    assert kinds(lanes.queue.pull(1)[0]) == [CONTROL]
    lanes.queue.restart()
    parts = [
        decode_control(content(packet, frame))
        for packet in lanes.queue.pull(10)
        for frame in frames_of(packet)
        if frame[0] == CONTROL
    ]
    told = [name for part in parts if isinstance(part, SetPart) for name in part.names]
    assert tuple(told) == names


def test_a_message_without_its_end_is_sent_again_from_its_beginning() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    body = bytes(range(250)) * 20
    lanes.push(1, body)
    queued = lanes.queue.queued(1)
    before = lanes.queue.pull(2)
    assert [kinds(packet) for packet in before] == [[FIRST], [MIDDLE]]
    lanes.queue.restart()
    assert lanes.queue.queued(1) == queued
    assert received(lanes.queue.pull(10))[1] == [body]


def test_a_message_whose_end_was_pulled_is_not_sent_again() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, bytes(2_000))
    lanes.queue.pull(2)
    lanes.queue.restart()
    assert lanes.queue.backlog() == 0
    assert lanes.queue.pull(10) == []


def test_stale_control_frames_of_the_daemon_are_dropped_in_a_new_configuration() -> None:
    lanes = Lanes()
    lanes.queue.put_first([control_frame(0, b"state")])
    lanes.queue.restart()
    assert lanes.queue.pull(10) == []
    assert lanes.queue.queued_bytes == 0


def test_a_session_that_closes_has_its_messages_sent_and_then_its_farewell() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.push(1, bytes(2_000))
    lanes.queue.close(1, control_frame(1, b"bye"))
    packets = lanes.queue.pull(1)
    assert lanes.events == []
    packets += lanes.queue.pull(10)
    assert [kind for packet in packets for kind in kinds(packet)] == [FIRST, LAST, CONTROL]
    assert [type(event) for event in lanes.events] == [Closed]


def test_a_session_that_has_nothing_queued_closes_at_once() -> None:
    lanes = Lanes(1)
    lanes.queue.close(1, b"")
    assert [type(event) for event in lanes.events] == [Closed]


def test_a_session_cannot_queue_more_than_its_bytes() -> None:
    limits = Limits(payload_max=1_400, message_max=4_000, session_bytes_max=5_000)
    lanes = Lanes(1, limits=limits)
    assert lanes.push(1, bytes(4_000))
    assert not lanes.push(1, bytes(1_000))
    assert lanes.queue.queued(1) <= limits.session_bytes_max
    assert lanes.push(1, bytes(900))


def throttles(events: list[SessionEvent]) -> list[tuple[int, bool]]:
    found = [(one.session, one.is_on) for one in events if isinstance(one, Throttle)]
    events.clear()
    return found


def test_who_has_most_of_a_full_queue_is_throttled_until_it_is_nearly_empty() -> None:
    lanes = Lanes(1, 2, limits=Limits(payload_max=1_400, queue_bytes_max=40_000))
    lanes.settle(1, 2)
    lanes.push(2, bytes(1_000))
    for _ in range(29):
        lanes.push(1, bytes(1_000))
    assert throttles(lanes.events) == [(1, True)]
    lanes.push(2, bytes(1_000))
    assert throttles(lanes.events) == []  # it has less than its share
    lanes.push(1, bytes(1_000))
    assert throttles(lanes.events) == []  # it was told
    while 4 * lanes.queue.queued_bytes >= 40_000:
        assert throttles(lanes.events) == []
        lanes.queue.pull(1)
    assert throttles(lanes.events) == [(1, False)]


def test_a_session_whose_lane_is_empty_may_go_on_however_full_the_queue_is() -> None:
    lanes = Lanes(1, 2, limits=Limits(payload_max=1_400, queue_bytes_max=4_000))
    lanes.settle(1, 2)
    lanes.push(1, bytes(3_500))
    lanes.push(2, bytes(100_000))
    assert throttles(lanes.events) == [(1, True), (2, True)]
    lanes.queue.pull(5)
    assert lanes.queue.queued(1) == 0
    assert throttles(lanes.events) == [(1, False)]


def test_control_is_never_throttled() -> None:
    lanes = Lanes(1, limits=Limits(payload_max=1_400, queue_bytes_max=1_000))
    for _ in range(50):
        assert lanes.queue.push_control(1, control_frame(1, bytes(100)))
    assert throttles(lanes.events) == []


@pytest.mark.parametrize("size", [0, 1, 1_349, 1_350, 1_351, 1_400, 2_700, 4_077])
def test_a_message_of_any_size_arrives(size: int) -> None:
    lanes = Lanes(1)
    lanes.push(1, bytes(size))
    assert received(lanes.queue.pull(10))[1] == [bytes(size)]


def test_the_middle_of_a_large_frame_is_cut_at_once_as_piece_by_piece() -> None:
    at_once, by_piece = Lanes(1), Lanes(1)
    for lanes in (at_once, by_piece):
        lanes.push(1, bytes(range(256)) * 300, safe=True)
        lanes.push(1, b"end")
    packets = at_once.queue.pull(1_000)
    one_by_one = [one for _ in packets for one in by_piece.queue.pull(1)]
    assert packets == one_by_one
    assert len(packets) > 50
    assert by_piece.queue.queued_bytes == at_once.queue.queued_bytes == 0
    assert received(packets) == {1: [bytes(range(256)) * 300, b"end"]}


def test_the_middle_of_a_large_frame_leaves_others_their_turns() -> None:
    lanes = Lanes(1, 2)
    lanes.settle(1, 2)
    lanes.push(1, bytes(200_000))
    lanes.push(2, bytes(200_000))
    packets = lanes.queue.pull(100)  # of some three hundred
    shares = dict.fromkeys((1, 2), 0)
    for packet in packets:
        for frame in frames_of(packet):
            shares[frame[2]] += frame[6]
    assert abs(shares[1] - shares[2]) <= DEFICIT + ROOM


def test_a_packet_has_no_more_places_than_it_can_count() -> None:
    lanes = Lanes(1, 2, 3, limits=Limits(payload_max=60_000, message_max=2**20))
    lanes.settle(1, 2, 3)
    for session in (1, 2, 3):
        assert lanes.push(session, *[b""] * 30_000)
    packets = lanes.queue.pull(10)
    places = [sum(frame[5] for frame in frames_of(packet)) for packet in packets]
    assert sum(places) == 90_000
    assert max(places) <= 2**16 - 1
    assert received(packets) == {session: [b""] * 30_000 for session in (1, 2, 3)}


steps = lists(
    tuples(
        sampled_from([1, 2, 3]),
        lists(integers(0, 90), min_size=1, max_size=4),
        sampled_from([1, 1, 1, 30]),  # the factor of all sizes
        booleans(),
        integers(0, 3),
        booleans(),
    ),
    max_size=30,
)


@settings(max_examples=200)
@given(
    steps=steps,
    payload_max=sampled_from([512, 700, 1_400]),
    widths=sampled_from([(1,), (1,), (2,), (8,), (1, 8), (8, 3, 1)]),
)
def test_whatever_is_pushed_and_pulled_the_rules_hold(
    steps: list[tuple[int, list[int], int, bool, int, bool]],
    payload_max: int,
    widths: tuple[int, ...],
) -> None:
    lanes = Lanes(1, 2, 3, limits=Limits(payload_max=payload_max))
    queue = lanes.queue
    wanted: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    packets: list[Packet] = []
    serial = 0
    turns = cycle(widths)
    for session, sizes, factor, safe, pulls, restarts in steps:
        queue.width = next(turns)
        bodies = []
        for size in sizes:
            serial += 1
            bodies.append((b"%d." % serial).ljust(size * factor, b"-"))
        assert lanes.push(session, *bodies, safe=safe)
        wanted[session].extend(bodies)
        pulled = queue.pull(pulls)
        assert queue.weight(pulled) <= pulls
        packets += pulled
        if restarts and not has_pieces(packets):
            queue.restart()
        told = queue.backlog()
        assert (told == 0) == (queue.queued_bytes == 0)
    told = queue.backlog()
    packets_left = queue.pull(told)
    assert bool(packets_left) == bool(told)
    if max(widths) == 1:
        assert len(packets_left) == told
    packets += packets_left + queue.pull(1_000)
    assert queue.queued_bytes == 0
    assert {one: wanted[one] for one in wanted if wanted[one]} == {
        one: messages for one, messages in received(packets).items() if messages
    }
    for number, packet in enumerate(packets, start=1):
        check_packet(packet, number, max(widths) * payload_max)


def test_the_backlog_is_what_can_be_pulled() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    for _ in range(3):
        lanes.push(1, bytes(800))  # more than half a packet: no two of them share one
    assert lanes.queue.backlog() == 3
    assert len(lanes.queue.pull(3)) == 3
    assert lanes.queue.backlog() == 0
    for _ in range(40):
        lanes.push(1, bytes(100))
    told = lanes.queue.backlog()
    assert len(lanes.queue.pull(told)) == told > 2


def test_packets_are_wide_where_they_may_be_and_weigh_what_they_hold() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.queue.width = 8
    lanes.push(1, bytes(40_000))
    packets = lanes.queue.pull(20)
    assert [len(packet.payload) for packet in packets] == [8 * 1_400, 8 * 1_400, 4 * 1_400]
    assert lanes.queue.weight(packets) == 20
    packets += lanes.queue.pull(1_000)
    assert received(packets)[1] == [bytes(40_000)]


def test_what_fits_a_wide_packet_is_not_cut() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.queue.width = 8
    lanes.push(1, bytes(8_000))
    (packet,) = lanes.queue.pull(1_000)
    assert kinds(packet) == [WHOLE]
    assert lanes.queue.weight([packet]) == 6
    lanes.queue.width = 1
    assert lanes.queue.weight([packet]) == 6, "what others sent, or we before, stays as wide"


def test_what_a_packet_of_its_own_would_hold_waits_for_one_rather_than_being_cut() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.queue.width = 8
    for _ in range(3):
        lanes.push(1, bytes(8_000))
    packets = lanes.queue.pull(17)  # two packets, and five datagrams' worth that is left alone
    assert [kinds(packet) for packet in packets] == [[WHOLE], [WHOLE]]
    packets += lanes.queue.pull(8)
    assert kinds(packets[-1]) == [WHOLE]
    assert received(packets)[1] == [bytes(8_000)] * 3


def test_what_no_visit_leaves_enough_room_for_is_cut_all_the_same() -> None:
    lanes = Lanes(1)
    lanes.settle(1)
    lanes.queue.width = 8
    for _ in range(2):
        lanes.push(1, bytes(8_000))
    packets: list[Packet] = []
    for _ in range(2):
        pulled = lanes.queue.pull(5)
        assert lanes.queue.weight(pulled) == 5, "none of a visit is wasted"
        packets += pulled
    packets += lanes.queue.pull(5)
    assert received(packets)[1] == [bytes(8_000)] * 2


def has_pieces(packets: list[Packet]) -> bool:
    """Whether a message is under way: to begin it again would be right, and hard to compare."""
    open_ones: set[int] = set()
    for packet in packets:
        for frame in frames_of(packet):
            if frame[0] == FIRST:
                open_ones.add(frame[2])
            elif frame[0] == LAST:
                open_ones.discard(frame[2])
    return bool(open_ones)


def check_packet(packet: Packet, number: int, payload_max: int) -> None:
    """D6, and the rule about services."""
    unit_id, frames = decode_packet(packet.payload)
    assert unit_id == (7, 3, number)
    assert PACKET_SIZE + sum(HEADER_SIZE + frame[6] for frame in frames) == len(packet.payload)
    assert len(packet.payload) <= payload_max
    ends = [frame for frame in frames if frame[0] in (WHOLE, LAST)]
    must_be_safe = any(frame[1] & SAFE for frame in ends)
    assert (packet.service is Service.SAFE) == must_be_safe
    if must_be_safe:
        first = packet.payload[PACKET_SIZE:]
        assert decode_head(first).flags & SAFE
