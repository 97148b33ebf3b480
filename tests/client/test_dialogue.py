"""The library's half of a connection, against the real group layer in memory."""

import pytest

from evensong.client.dialogue import SEND_WINDOW
from evensong.client.flights import Held
from evensong.client.message import Message, Service
from evensong.core.groups.events import Cause, Destination, ErrorCode, MemberId, OrderId, View
from evensong.core.groups.frame import HEADER_SIZE, SAFE, encode_whole
from evensong.core.groups.limits import Limits
from evensong.core.ids import RingId
from evensong.errors import (
    AlreadyMember,
    BadName,
    ConnectionClosed,
    ConnectionLost,
    NotMember,
    OutcomeUnknown,
    Refused,
    TooLarge,
)
from evensong.ipc import frames, wire
from evensong.ipc.frames import Why
from tests.client.fake import WINDOW, Cluster, payloads


def test_a_program_is_welcomed_and_named() -> None:
    program = Cluster(1).program(user="ann")
    assert program.dialogue.welcome.is_done
    assert str(program.dialogue.member) == "#ann#1#1.1"


def test_a_bad_name_is_refused() -> None:
    program = Cluster(1).program(user="a#b")
    with pytest.raises(BadName):
        program.dialogue.welcome.result()


def test_who_joins_sees_the_view_then_messages_in_order() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    stream = ann.join("orders")
    bob.dialogue.send("orders", b"one", 0)
    bob.dialogue.send("orders", b"two", SAFE)
    cluster.settle()
    view, one, two = stream.take()
    assert isinstance(view, View)
    assert view.cause is Cause.JOIN
    assert [member.user for member in view.members] == ["ann"]
    assert isinstance(one, Message)
    assert isinstance(two, Message)
    assert (one.payload, one.service, one.reduced) == (b"one", Service.AGREED, False)
    assert (two.payload, two.service) == (b"two", Service.SAFE)
    assert one.sender == two.sender == bob.dialogue.member
    assert one.groups == ("orders",)
    assert one.order is not None
    assert two.order is not None
    assert one.order < two.order
    assert str(one.id) < str(two.id)


def test_messages_that_follow_each_other_share_a_frame_and_keep_their_receipts() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    sent = [ann.dialogue.send("g", b"%d" % number, 0) for number in range(20_000)]
    cluster.settle()
    messages = [event for event in stream.take() if isinstance(event, Message)]
    assert [message.payload for message in messages] == [b"%d" % number for number in range(20_000)]
    assert [flight.order_of(index) for flight, index in sent] == [one.order for one in messages]
    assert [flight.id_of(index) for flight, index in sent] == [one.id for one in messages]
    frames_sent = [one for one in ann.connection.requests if isinstance(one, frames.Send)]
    assert 1 < len(frames_sent) < 10


def test_a_service_or_destination_of_its_own_begins_a_frame() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.join("g")
    ann.join("h")
    for _ in range(2):  # the second time, both destinations are known
        for group, flags in (("g", 0), ("g", SAFE), ("h", SAFE), ("g", 0)):
            ann.dialogue.send(group, b"", flags)
        cluster.settle()
    assert len([one for one in ann.connection.requests if isinstance(one, frames.Send)]) == 8


def test_a_message_to_two_joined_groups_comes_once_to_each_reader_at_one_place() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    g, h = ann.join("g"), ann.join("h")
    everything = ann.dialogue.streams.everything
    ann.dialogue.streams.claim(everything)
    ann.dialogue.send(["g", "h"], b"both", 0)
    cluster.settle()
    seen = [
        [event for event in stream.take() if isinstance(event, Message)]
        for stream in (g, h, everything)
    ]
    assert [[one.payload for one in stream] for stream in seen] == [[b"both"]] * 3
    assert len({stream[0].order for stream in seen}) == 1
    assert seen[0][0].groups == ("g", "h")


def test_whoever_reads_the_connection_need_not_read_its_groups() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=8_000)
    everything = ann.dialogue.streams.everything
    answer = ann.dialogue.join("g", None, "merge")
    cluster.settle()
    ann.dialogue.streams.claim(everything)
    group = answer.result()
    for _ in range(100):
        ann.dialogue.send("g", bytes(500), 0)
        cluster.settle()
        everything.take()
    cluster.settle()
    assert group.take() == []
    assert not ann.connection.output


def test_a_group_joined_while_the_connection_is_read_need_not_be_read() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=8_000)
    everything = ann.dialogue.streams.everything
    ann.dialogue.streams.claim(everything)
    ann.dialogue.join("g", None, "merge")
    cluster.settle()
    heard: list[bytes] = []
    for _ in range(100):
        ann.dialogue.send("g", bytes(500), 0)
        cluster.settle()
        heard += payloads(everything)
    assert len(heard) == 100


def test_what_nobody_reads_is_not_consumed() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=8_000)
    answer = ann.dialogue.join("g", None, "merge")
    cluster.settle()
    for _ in range(100):
        ann.dialogue.send("g", bytes(500), 0)
        cluster.settle()
    assert len(ann.connection.output) > 80
    stream = answer.result()
    ann.dialogue.streams.claim(stream)
    heard: list[bytes] = []
    while more := payloads(stream):
        heard += more
        cluster.settle()
    assert len(heard) == 100
    assert not ann.connection.output


def test_what_two_read_is_consumed_once_when_both_have_taken_it() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=100)
    ann.connection.window = WINDOW  # so that every byte is reported at once
    g, h = ann.join("g"), ann.join("h")
    g.take()
    h.take()
    ann.dialogue.send(["g", "h"], bytes(500), 0)
    cluster.settle()
    assert payloads(g) == [bytes(500)]
    cluster.settle()
    assert ann.connection.written - ann.connection.consumed > 500
    assert payloads(h) == [bytes(500)]
    cluster.settle()
    assert 0 <= ann.connection.written - ann.connection.consumed < 25


def test_what_was_not_read_of_a_group_that_was_left_holds_nothing_up() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=100)
    ann.connection.window = WINDOW  # so that every byte is reported at once
    stream = ann.join("g")
    ann.dialogue.send("g", bytes(500), 0)
    ann.dialogue.leave("g")
    cluster.settle()
    assert 0 <= ann.connection.written - ann.connection.consumed < 25
    assert payloads(stream) == [bytes(500)]
    cluster.settle()
    assert 0 <= ann.connection.written - ann.connection.consumed < 25


@pytest.mark.parametrize("is_late", [False, True])
def test_a_joining_that_nobody_waits_for_is_undone(is_late: bool) -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=8_000)
    ann.dialogue.join("g", None, "merge")
    if is_late:
        cluster.settle()
    ann.dialogue.withdraw("g")
    cluster.settle()
    assert cluster.order[1].groups.directory.groups == {}
    assert ann.dialogue.streams.groups == {}
    assert len(ann.join("g").take()) == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_who_joins_again_waits_until_the_group_is_left(is_late: bool) -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.dialogue.join("g", None, "merge")
    if is_late:
        cluster.settle()
    ann.dialogue.withdraw("g")
    ann.dialogue.join("g", None, "merge")
    ann.dialogue.withdraw("g")
    answer = ann.dialogue.join("g", None, "merge")
    with pytest.raises(AlreadyMember):
        ann.dialogue.join("g", None, "merge")
    cluster.settle()
    ann.dialogue.leave("g")
    again = ann.dialogue.join("g", None, "merge")
    cluster.settle()
    assert len(answer.result().take()) == 1
    assert len(again.result().take()) == 1
    assert [one.user for one in cluster.order[1].groups.directory.groups["g"].members()] == ["ann"]


def test_who_waits_to_join_again_is_answered_when_the_first_joining_is_refused() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.dialogue.join("g", None, "merge")
    ann.dialogue.withdraw("g")
    answer = ann.dialogue.join("g", None, "merge")
    ann.dialogue.take_output()  # the daemon hears none of it
    ann.dialogue.feed(wire.encode_error(2, ErrorCode.TOO_MANY))
    ann.dialogue.feed(wire.encode_error(3, ErrorCode.NOT_MEMBER))
    cluster.settle()
    assert len(answer.result().take()) == 1


@pytest.mark.parametrize("is_asked", [False, True])
def test_who_waits_to_join_again_is_answered_when_the_connection_ends(is_asked: bool) -> None:
    ann = Cluster(1).program()
    ann.dialogue.join("g", None, "merge")
    ann.dialogue.withdraw("g")
    answer = ann.dialogue.join("g", None, "merge")
    if is_asked:
        ann.dialogue.bye()
    ann.dialogue.lost("gone")
    with pytest.raises(ConnectionLost):
        answer.result()


def test_the_same_error_again_and_again_does_not_grow() -> None:
    ann = Cluster(1).program()
    ann.dialogue.lost("gone")
    lengths: set[int] = set()
    for _ in range(3):
        with pytest.raises(ConnectionLost) as caught:
            ann.dialogue.list_groups()
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


def test_a_goodbye_is_answered_though_nobody_has_read() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=8_000)
    ann.dialogue.join("g", None, "merge")
    cluster.settle()
    for _ in range(100):
        ann.dialogue.send("g", bytes(500), 0)
        cluster.settle()
    answer = ann.dialogue.bye()
    cluster.settle()
    assert answer.is_done


def test_what_is_asked_comes_behind_what_was_sent() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"first", 0)
    cluster.settle()
    ann.dialogue.send("g", b"before leaving", 0)
    ann.dialogue.leave("g")
    cluster.settle()
    assert payloads(stream) == [b"first", b"before leaving"]


def test_a_private_message_comes_by_the_connection_alone() -> None:
    cluster = Cluster(1, 2)
    ann, bob = cluster.program(1, "ann"), cluster.program(2, "bob")
    everything = ann.dialogue.streams.everything
    ann.dialogue.streams.claim(everything)
    bob.dialogue.send(str(ann.dialogue.member), b"psst", 0)
    cluster.settle()
    assert payloads(everything) == [b"psst"]


def test_single_events_and_batches_are_one_stream() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    for number in range(5):
        ann.dialogue.send("g", b"%d" % number, 0)
    cluster.settle()
    assert isinstance(stream.take_one(), View)
    first = stream.take_one()
    assert isinstance(first, Message)
    assert first.payload == b"0"
    assert payloads(stream) == [b"1", b"2", b"3", b"4"]
    assert stream.take_one() is None


def test_who_has_left_hears_nothing_more() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    stream = ann.join("g")
    left = ann.dialogue.leave("g")
    cluster.settle()
    left.result()
    bob.dialogue.send("g", b"late", 0)
    cluster.settle()
    assert payloads(stream) == []
    assert stream.is_over
    assert stream.error is None
    assert len(ann.join("g").take()) == 1


def test_memberships_are_checked() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.join("g")
    with pytest.raises(AlreadyMember):
        ann.dialogue.join("g", None, "merge")
    with pytest.raises(NotMember):
        ann.dialogue.leave("h")


@pytest.mark.parametrize("name", ["", "#x", "x" * 65, "\0notes"])
def test_bad_names_are_refused_before_anything_is_sent(name: str) -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    with pytest.raises(BadName):
        ann.dialogue.join(name, None, "merge")
    with pytest.raises(BadName):
        ann.dialogue.send(name, b"", 0)
    assert ann.dialogue.take_output() == b""


@pytest.mark.parametrize("name", [None, 5, b"orders", ["g"], MemberId(1, 1, 1, "ann")])
def test_what_is_no_text_is_no_name(name: object) -> None:
    ann = Cluster(1).program()
    with pytest.raises(BadName, match="1 to 64 bytes of text"):
        ann.dialogue.join(name, None, "merge")  # type: ignore[arg-type]
    for to in (name if name != ["g"] else [["g"]], ["g", name]):
        with pytest.raises(BadName, match=r"1 to 64 groups or private names \(str\(member\)\)"):
            ann.dialogue.send(to, b"", 0)  # type: ignore[arg-type]
    assert ann.dialogue.take_output() == b""


def test_a_warning_is_void_when_what_waited_is_read() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    ann.dialogue.feed(wire.encode_slow(queued=1_000, limit=2_000))
    for is_slow in (True, False, False):
        ann.dialogue.send("g", bytes(600), 0)
        cluster.settle()
        assert payloads(stream) == [bytes(600)]
        assert ann.dialogue.is_slow is is_slow
    ann.dialogue.send("g", bytes(600), 0)
    cluster.settle()
    ann.dialogue.feed(wire.encode_slow(queued=0, limit=2_000))
    assert ann.dialogue.is_slow
    assert payloads(stream) == [bytes(600)]
    assert not ann.dialogue.is_slow


def test_a_message_too_large_is_refused_before_anything_is_sent() -> None:
    cluster = Cluster(1, limits=Limits(payload_max=600, message_max=10_000))
    ann = cluster.program()
    stream = ann.join("g")
    with pytest.raises(TooLarge) as caught:
        ann.dialogue.send("g", bytes(10_001), 0)
    assert (caught.value.size, caught.value.size_max) == (10_001, 10_000)
    assert ann.dialogue.take_output() == b""
    ann.dialogue.send("g", bytes(10_000), 0)
    cluster.settle()
    assert payloads(stream) == [bytes(10_000)]


def test_beyond_the_window_there_is_no_room_until_messages_are_ordered() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    woken: list[bool] = []
    while ann.dialogue.can_send():
        ann.dialogue.send("g", bytes(10_000), 0)
    assert SEND_WINDOW <= ann.dialogue.in_flight < SEND_WINDOW + 20_000
    ann.dialogue.room.add(lambda: woken.append(True))
    cluster.settle()
    assert ann.dialogue.in_flight == 0
    assert woken == [True]


def test_a_daemon_that_asks_for_a_pause_gets_one() -> None:
    ann = Cluster(1).program()
    ann.dialogue.feed(wire.encode_throttle(is_on=True))
    assert not ann.dialogue.can_send()
    ann.dialogue.feed(wire.encode_throttle(is_on=False))
    assert ann.dialogue.can_send()


def test_a_lost_connection_answers_everything_that_waits() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    dialogue = ann.dialogue
    done, _ = dialogue.send("g", b"done", 0)
    cluster.settle()
    flight, index = dialogue.send("g", b"lost", 0)
    dialogue.watch_safe(flight)
    dialogue.watch_safe(done)
    joining = dialogue.join("h", None, "merge")
    leaving = dialogue.leave("g")
    listing = dialogue.list_groups()
    dialogue.lost("the daemon died")
    with pytest.raises(OutcomeUnknown) as caught:
        flight.order_of(index)
    assert caught.value.message_id == flight.id_of(index)
    with pytest.raises(OutcomeUnknown):
        flight.held_by(index)
    assert done.order_of(0) is not None
    with pytest.raises(OutcomeUnknown):
        done.held_by(0)
    for answer in (joining, leaving, listing):
        with pytest.raises(ConnectionLost):
            answer.result()
    assert len(stream.take()) == 2
    assert isinstance(stream.error, ConnectionLost)
    with pytest.raises(ConnectionLost):
        dialogue.send("g", b"never", 0)


def test_a_goodbye_goes_behind_what_was_sent() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    stream = bob.join("g")
    mine = ann.join("h")
    flight, index = ann.dialogue.send("g", b"last words", 0)
    answer = ann.dialogue.bye()
    with pytest.raises(ConnectionClosed):
        ann.dialogue.send("g", b"more", 0)
    cluster.settle()
    answer.result()
    assert payloads(stream) == [b"last words"]
    assert mine.is_over
    assert mine.error is None
    with pytest.raises(OutcomeUnknown):
        flight.order_of(index)
    ann.dialogue.watch_safe(flight)
    with pytest.raises(OutcomeUnknown):
        flight.held_by(index)


@pytest.mark.parametrize("why", [Why.SLOW, Why.STOPPING])
def test_a_daemon_that_hangs_up_is_lost_and_says_why(why: Why) -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    ann.dialogue.feed(wire.encode_farewell(0, why))
    assert why.name.lower() in str(stream.error)


def test_a_refused_frame_is_definite() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.dialogue.send("g", b"known", 0)
    cluster.settle()
    del cluster.order[1].groups.sessions.open[ann.connection.session].sets[0]
    flight, index = ann.dialogue.send("g", b"unknown", 0)
    cluster.settle()
    with pytest.raises(Refused):
        flight.order_of(index)
    assert ann.dialogue.in_flight == 0


def test_bytes_that_are_no_frame_lose_the_connection_not_the_program() -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    ann.dialogue.feed(b"\0\0\0\1\xff\0\0\0\0x")
    assert isinstance(stream.error, ConnectionLost)


@pytest.mark.parametrize("size", [2, 200])
def test_a_frame_with_a_false_table_is_passed_over(size: int) -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    stream.take()
    order = OrderId(RingId(4, 1), 99, 0)
    false = bytearray(encode_whole(7, 1, 0, 0, [b"a" * size, b"b" * size]))
    false[HEADER_SIZE + 3] += 1  # the second length
    ann.dialogue.feed(wire.encode_destination(9, Destination(MemberId(2, 1, 7, "eve"), ("g",))))
    for frame in (bytes(false), encode_whole(7, 3, 0, 0, [b"true"])):
        for part in wire.encode_deliver(9, order, order.ring_id, False, frame):
            ann.dialogue.feed(part)
    assert payloads(stream) == [b"true"]
    assert stream.malformed == 1


@pytest.mark.parametrize("size", [1, 70, 5_000])
def test_what_was_read_may_be_overwritten_before_it_is_taken(size: int) -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    stream.take()
    told = wire.encode_destination(9, Destination(MemberId(2, 1, 7, "eve"), ("g",)))
    sent = [bytes([number]) * size for number in range(9)]
    for first_no, bodies in ((1, sent[:5]), (6, sent[5:8]), (9, sent[8:])):
        order = OrderId(RingId(4, 1), first_no, 0)
        frame = encode_whole(7, first_no, 0, 0, bodies)
        told += b"".join(wire.encode_deliver(9, order, order.ring_id, False, frame))
    for chunk_size in (len(told), len(told) // 2 + 1):
        place = memoryview(bytearray(chunk_size))
        for at in range(0, len(told), chunk_size):
            chunk = told[at : at + chunk_size]
            place[: len(chunk)] = chunk
            ann.dialogue.feed(place[: len(chunk)])
            place[:] = bytes(chunk_size)
        assert payloads(stream) == sent


def test_groups_can_be_listed() -> None:
    cluster = Cluster(1, 2)
    ann, bob = cluster.program(1, "ann"), cluster.program(2, "bob")
    ann.join("g")
    bob.join("g")
    bob.join("h")
    answer = ann.dialogue.list_groups()
    cluster.settle()
    listing = {name: [one.user for one in members] for name, members in answer.result().items()}
    assert listing == {"g": ["ann", "bob"], "h": ["bob"]}


def test_a_safe_message_is_held_by_all_when_it_has_its_place() -> None:
    cluster = Cluster(1, 2)
    ann = cluster.program()
    flight, index = ann.dialogue.send("g", b"x", SAFE)
    cluster.settle()
    assert flight.held_by(index) == Held((1, 2), reduced=False)


def test_an_agreed_message_is_held_by_all_when_the_safe_line_has_passed_it() -> None:
    cluster = Cluster(1, 2)
    ann = cluster.program()
    first, _ = ann.dialogue.send("g", b"x", 0)
    ann.dialogue.watch_safe(first)
    later, _ = ann.dialogue.send("g", b"y", SAFE)
    cluster.settle()
    cluster.make_safe()
    assert first.held_by(0) == later.held_by(0) == Held((1, 2), reduced=False)


def test_who_asks_late_whether_a_message_is_safe_is_told() -> None:
    cluster = Cluster(1, 2)
    ann = cluster.program()
    flight, _ = ann.dialogue.send("g", b"x", 0)
    cluster.settle()
    assert flight.held_by(0) is None
    ann.dialogue.watch_safe(flight)
    cluster.settle()
    assert flight.held_by(0) == Held((1, 2), reduced=False)


def test_a_message_of_a_broken_ring_is_held_by_those_who_left_it_together() -> None:
    cluster = Cluster(1, 2, 3)
    ann = cluster.program(1)
    agreed, _ = ann.dialogue.send("g", b"x", 0)
    cluster.settle()
    ann.dialogue.safety.wants_lines = True  # as if lines had been asked for and none had come
    ann.dialogue.watch_safe(agreed)
    cluster.settle()
    assert agreed.held_by(0) is None
    cluster.order.form((1, 2), (3,))
    cluster.settle()
    assert agreed.held_by(0) == Held((1, 2), reduced=True)


def test_more_destinations_than_a_daemon_keeps_are_told_again() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g0")
    for number in range(1_030):
        ann.dialogue.send(f"g{number}", b"%d" % number, 0)
    ann.dialogue.send("g0", b"again", 0)
    cluster.settle()
    assert payloads(stream) == [b"0", b"again"]
    assert ann.dialogue.in_flight == 0
