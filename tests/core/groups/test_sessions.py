"""What a session may ask for, and what it is told if it may not."""

import pytest

from evensong.core.effects import Deliver, Service
from evensong.core.groups.events import (
    Closed,
    Error,
    ErrorCode,
    Receipt,
    SessionEvent,
    Welcome,
)
from evensong.core.groups.frame import CONTROL, FIRST, Head, encode_frame, encode_whole
from evensong.core.groups.layer import Groups
from evensong.core.groups.limits import JOINED_MAX, SESSIONS_MAX, Limits
from evensong.core.groups.sessions import NO_SESSION
from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.errors import BadParameters

LIMITS = Limits(payload_max=600, message_max=5_000, session_bytes_max=20_000)


class Desk:
    """A layer with one session, which has one destination."""

    def __init__(self) -> None:
        self.groups = Groups(1, 1, LIMITS, (1,))
        self.session = self.groups.open_session("ann")
        self.groups.define_set(self.session, 0, ["g"])
        self.welcome = self.groups.drain()

    def refusal(self, frame: bytes) -> ErrorCode | None:
        self.groups.send(self.session, frame, request_id=77)
        return code_of(self.groups.drain())


def code_of(events: list[SessionEvent]) -> ErrorCode | None:
    errors = [event for event in events if isinstance(event, Error)]
    assert all(error.request_id == 77 for error in errors)
    return errors[0].code if errors else None


def test_a_session_is_welcomed_with_its_private_name_and_limits() -> None:
    desk = Desk()
    (welcome,) = desk.welcome
    assert isinstance(welcome, Welcome)
    assert str(welcome.member) == f"#ann#1#1.{desk.session}"
    assert welcome.frame_max == LIMITS.message_max == 5_000
    assert welcome.message_max == 5_000


def test_sessions_have_different_numbers_for_ever() -> None:
    groups = Groups(1, 1, LIMITS, (1,))
    first = groups.open_session("ann")
    groups.close_session(first)
    assert groups.open_session("ann") != first


@pytest.mark.parametrize("user", ["", "a#b", "x" * 33])
def test_a_bad_user_name_is_refused(user: str) -> None:
    groups = Groups(1, 1, LIMITS, (1,))
    assert groups.open_session(user, 77) == NO_SESSION
    assert code_of(groups.drain()) is ErrorCode.BAD_NAME


@pytest.mark.parametrize("group", ["", "#g", "x" * 65])
def test_a_bad_group_name_is_refused_before_anything_is_sent(group: str) -> None:
    desk = Desk()
    desk.groups.join(desk.session, group, 77)
    assert code_of(desk.groups.drain()) is ErrorCode.BAD_NAME
    desk.groups.leave(desk.session, group, 77)
    assert code_of(desk.groups.drain()) is ErrorCode.BAD_NAME
    assert desk.groups.queue.backlog() == 0


@pytest.mark.parametrize(
    ("set_no", "names", "code"),
    [
        (0, [], ErrorCode.BAD_SET),
        (1_024, ["g"], ErrorCode.BAD_SET),
        (-1, ["g"], ErrorCode.BAD_SET),
        (0, [f"{n}" for n in range(65)], ErrorCode.BAD_SET),
        (0, ["#g"], ErrorCode.BAD_NAME),
        (0, ["g", ""], ErrorCode.BAD_NAME),
    ],
)
def test_a_bad_destination_is_refused(set_no: int, names: list[str], code: ErrorCode) -> None:
    desk = Desk()
    desk.groups.define_set(desk.session, set_no, names, 77)
    assert code_of(desk.groups.drain()) is code


def test_a_destination_may_have_64_groups_and_private_names() -> None:
    desk = Desk()
    names = [f"{n}" for n in range(63)] + ["#bob#2#1.1"]
    desk.groups.define_set(desk.session, 1_023, names + names, 77)
    assert code_of(desk.groups.drain()) is None


def test_a_good_frame_is_taken() -> None:
    desk = Desk()
    assert desk.refusal(encode_whole(desk.session, 1, 0, 0, [b"a", b"b"])) is None
    assert desk.refusal(encode_whole(desk.session, 3, 0, 0, [bytes(5_000)])) is None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"x" * 30,
        encode_whole(1, 1, 0, 0, [b"a"]) + b"x",
        encode_whole(2, 1, 0, 0, [b"a"]),
        encode_whole(1, 0, 0, 0, [b"a"]),
        encode_frame(Head(FIRST, 0, 1, 1, 0, 0, 0), b"abcdef"),
        encode_frame(Head(CONTROL, 0, 1, 1, 0, 1, 0), b"\x01"),
        encode_whole(1, 2**62, 0, 0, [b"a"]),
    ],
)
def test_what_a_session_may_not_send_is_refused(frame: bytes) -> None:
    desk = Desk()
    assert desk.refusal(encode_whole(desk.session, 0, 0, 0, [b"a"])) is None
    assert desk.refusal(frame) is ErrorCode.BAD_FRAME


def test_numbers_of_messages_rise() -> None:
    desk = Desk()
    assert desk.refusal(encode_whole(desk.session, 5, 0, 0, [b"a", b"b"])) is None
    assert desk.refusal(encode_whole(desk.session, 6, 0, 0, [b"c"])) is ErrorCode.BAD_FRAME
    assert desk.refusal(encode_whole(desk.session, 7, 0, 0, [b"c"])) is None


def test_a_frame_to_an_unknown_destination_is_refused() -> None:
    desk = Desk()
    assert desk.refusal(encode_whole(desk.session, 1, 1, 0, [b"a"])) is ErrorCode.UNKNOWN_SET


def test_a_message_or_a_frame_that_is_too_large_is_refused_before_anything_is_sent() -> None:
    desk = Desk()
    session = desk.session
    assert desk.refusal(encode_whole(session, 1, 0, 0, [bytes(5_001)])) is ErrorCode.TOO_LARGE
    two = [bytes(2_500), bytes(2_500)]
    assert desk.refusal(encode_whole(session, 1, 0, 0, two)) is ErrorCode.TOO_LARGE
    assert desk.groups.queue.backlog() == 0


def test_a_session_that_does_not_wait_is_refused_and_loses_nothing_else() -> None:
    desk = Desk()
    for number in range(3):
        frame = encode_whole(desk.session, number, 0, 0, [bytes(5_000)])
        assert desk.refusal(frame) is None
    assert desk.refusal(encode_whole(desk.session, 3, 0, 0, [bytes(5_000)])) is (
        ErrorCode.QUEUE_FULL
    )
    assert desk.refusal(encode_whole(desk.session, 3, 0, 0, [bytes(100)])) is None
    assert desk.groups.queue.queued(desk.session) <= LIMITS.session_bytes_max


def test_a_session_that_never_joined_leaves_without_a_word() -> None:
    desk = Desk()
    desk.groups.close_session(desk.session)
    events = desk.groups.drain()
    assert [type(event) for event in events] == [Closed]
    assert desk.groups.queue.backlog() == 0


def test_there_is_a_bound_on_sessions() -> None:
    groups = Groups(1, 1, LIMITS, (1,))
    sessions = [groups.open_session("ann") for _ in range(SESSIONS_MAX)]
    groups.drain()
    assert groups.open_session("ann", 77) == NO_SESSION
    assert code_of(groups.drain()) is ErrorCode.TOO_MANY
    groups.close_session(sessions[0])
    assert groups.open_session("ann", 77) != NO_SESSION


def test_there_is_a_bound_on_the_groups_of_a_session() -> None:
    limits = Limits(payload_max=1_400)
    groups = Groups(1, 1, limits, (1,))
    ring_id = RingId(4, 1)
    groups.on_install(Configuration(ring_id, NO_RING, (1,), transitional=False, cause="start"))
    session = groups.open_session("ann")
    for number in range(JOINED_MAX):
        groups.join(session, f"{number}", 77)
    groups.drain()
    groups.join(session, "one more", 77)
    assert code_of(groups.drain()) is ErrorCode.TOO_MANY
    messages = [
        RegularMessage(1, ring_id, seq, Service.AGREED, 0, 0, packet.payload)
        for seq, packet in enumerate(groups.queue.pull(10_000), start=1)
    ]
    groups.on_deliver(Deliver(ring_id, messages, 0, after_gap=False))
    groups.join(session, "one more", 77)
    assert code_of(groups.drain()) is ErrorCode.TOO_MANY
    assert len(groups.directory.groups) == JOINED_MAX


def test_wishes_count_as_queued_bytes_too() -> None:
    desk = Desk()
    for number in range(1_000):
        desk.groups.join(desk.session, f"{number}", 77)
    assert code_of(desk.groups.drain()) is ErrorCode.QUEUE_FULL
    assert desk.groups.queue.queued(desk.session) <= LIMITS.session_bytes_max
    desk.groups.close_session(desk.session)  # its farewell goes out all the same
    assert desk.groups.queue.pull(1_000)
    assert [type(event) for event in desk.groups.drain()] == [Closed]


def test_a_closed_session_gets_no_receipt() -> None:
    desk = Desk()
    desk.groups.send(desk.session, encode_whole(desk.session, 1, 0, 0, [b"a"]))
    desk.groups.close_session(desk.session)
    assert not [event for event in desk.groups.drain() if isinstance(event, Receipt)]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(payload_max=399),
        Limits(payload_max=64_001),
        Limits(message_max=0),
        Limits(message_max=2**30 + 1, session_bytes_max=2**31),
        Limits(session_bytes_max=1_000),
        Limits(queue_bytes_max=0),
    ],
)
def test_limits_that_cannot_work_are_refused(limits: Limits) -> None:
    with pytest.raises(BadParameters, match="the rule is"):
        Groups(1, 1, limits, (1,))
