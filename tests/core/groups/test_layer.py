"""The group layer in a steady configuration: joins, messages, addressing, places of the order."""

from evensong.core.effects import Deliver, Service
from evensong.core.groups.control import LEAVE, control_frame, encode_wish
from evensong.core.groups.events import (
    Cause,
    Delivered,
    Destination,
    Error,
    ErrorCode,
    Left,
    Receipt,
    SafeUpTo,
    SessionEvent,
    ViewChange,
)
from evensong.core.groups.frame import (
    FIRST,
    LAST,
    SAFE,
    SELF_DISCARD,
    TOTAL,
    Head,
    decode_head,
    encode_frame,
    encode_whole,
    messages_of,
)
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import encode_packet
from evensong.core.groups.sessions import NO_SESSION
from evensong.core.run import run_of
from evensong.core.totem.frames import RegularMessage, Stretch
from evensong.core.unit import UnitId
from tests.core.groups.order import Daemon, Order, members_of


def cluster(*nodes: int, limits: Limits | None = None) -> Order:
    order = Order(*nodes, limits=limits or Limits(payload_max=1_400))
    order.form(nodes)
    order.run()
    for node in nodes:
        order[node].take_events()
    return order


def member(order: Order, node: int, user: str, *groups: str) -> int:
    """Open a session that is in some groups, and let everybody know."""
    session = order[node].open(user)
    order[node].join(session, *groups)
    order.run()
    return session


def story(daemon: Daemon, session: int) -> list[str]:
    """Tell what a session was told: bodies of messages, members of views, leaves and errors."""
    told: list[str] = []
    for event in daemon.watcher.told:
        if isinstance(event, Delivered) and session in event.sessions:
            told.extend(body.decode() for body in messages_of(event.frame))
        elif isinstance(event, ViewChange) and session in event.sessions:
            mark = "~" if event.view.transitional else ""
            told.append(f"{mark}{event.view.group}[{' '.join(members_of(event.view))}]")
        elif isinstance(event, Left) and event.session == session:
            told.append(f"left {event.group}")
        elif isinstance(event, Error) and event.session == session:
            told.append(event.code.name)
    return told


def bodies(events: list[SessionEvent], session: int) -> list[bytes]:
    return [
        body
        for event in events
        if isinstance(event, Delivered) and session in event.sessions
        for body in messages_of(event.frame)
    ]


def test_a_race_of_joins_leaves_and_messages_has_one_outcome() -> None:
    order = cluster(1, 2, 3)
    y = member(order, 1, "y", "g")
    z = member(order, 2, "z", "g")
    x = order[3].open("x")
    order[3].join(x, "g")
    order[3].pull()
    order[2].send(z, "g", b"m1")
    order[2].pull()
    order[1].leave(y, "g")
    order[1].pull()
    order[2].send(z, "g", b"m2")
    order.run()
    assert story(order[3], x) == ["g[y z x]", "m1", "g[z x]", "m2"]
    assert story(order[1], y)[-3:] == ["g[y z x]", "m1", "left g"]
    assert story(order[2], z)[-4:] == ["g[y z x]", "m1", "g[z x]", "m2"]
    joined, left = order[3].views(x, "g")
    assert joined.view_id.seq < left.view_id.seq
    assert joined.view_id.counter + 1 == left.view_id.counter
    assert joined.view_id == order[1].views(y, "g")[-1].view_id
    assert (joined.cause, left.cause) == (Cause.JOIN, Cause.LEAVE)
    assert left.subject is not None
    assert left.subject.user == "y"


def test_a_message_has_the_place_of_its_end() -> None:
    order = cluster(1, 2)
    member(order, 2, "b", "g")
    ann = order[1].open("a")
    order[1].send(ann, "g", b"announces the destination")
    order.run()
    order[2].take_events()
    for size in (100, 100, 1_500, 50):
        order[1].send(ann, "g", b"%d" % size + bytes(size - 5))
    order.run()
    places = [
        (event.order.seq, event.order.sub)
        for event in order[2].take_events()
        if isinstance(event, Delivered) and event.order is not None
    ]
    seq = places[0][0]
    assert places == [(seq, 0), (seq, 1), (seq + 1, 0), (seq + 1, 1)]


def test_messages_of_a_frame_have_places_one_behind_the_other() -> None:
    order = cluster(1, 2)
    member(order, 2, "b", "g")
    ann = order[1].open("a")
    order[1].send(ann, "g", b"0")
    order[1].send(ann, "g", b"1", b"2", b"3")
    order[1].send(ann, "g", b"4")
    order.run()
    delivered = [event for event in order[2].take_events() if isinstance(event, Delivered)]
    subs = [event.order.sub for event in delivered[-3:] if event.order is not None]
    assert subs == [1, 2, 5]  # the announcement has the first place
    receipts = [event for event in order[1].take_events() if isinstance(event, Receipt)]
    assert [(one.first_no, one.count, one.order and one.order.sub) for one in receipts] == [
        (1, 1, 1),
        (2, 3, 2),
        (5, 1, 5),
    ]


def test_a_join_and_messages_in_one_packet_are_told_apart_by_their_place_in_it() -> None:
    order = cluster(1, 2)
    bob = member(order, 2, "b", "g")
    ann = order[1].open("a")
    order[1].send(ann, "g", b"before")
    order[1].join(ann, "g")
    order[1].send(ann, "g", b"within")
    order[1].leave(ann, "g")
    order[1].send(ann, "g", b"after")
    assert order[1].pull() == 1
    order.run()
    assert story(order[1], ann) == ["g[b a]", "within", "left g"]
    assert story(order[2], bob)[1:] == ["before", "g[b a]", "within", "g[b]", "after"]
    views = order[2].views(bob, "g")[-2:]
    assert [view.view_id.sub for view in views] == [2, 4]
    assert views[0].view_id.seq == views[1].view_id.seq


def test_membership_is_tested_where_a_message_is_delivered_not_where_it_was_sent() -> None:
    order = cluster(1, 2)
    ann = order[1].open("a")
    bob = order[2].open("b")
    order[1].send(ann, "g", b"m")  # nobody is in the group
    order[2].join(bob, "g")
    order[2].pull()
    order[1].pull()
    order.run()
    assert story(order[2], bob) == ["g[b]", "m"]
    order[1].send(ann, "g", b"n")  # bob is in it
    order[2].leave(bob, "g")
    order[2].pull()
    order[1].pull()
    order.run()
    assert story(order[2], bob)[2:] == ["left g"]


def test_a_message_to_several_groups_has_one_place_and_comes_once() -> None:
    order = cluster(1, 2, 3)
    ann = member(order, 1, "a", "g", "h")
    bob = member(order, 2, "b", "h")
    eve = member(order, 3, "e", "i")
    order[3].send(eve, ("g", "h"), b"m")
    order.run()
    assert story(order[1], ann)[-1] == "m"
    assert story(order[1], ann).count("m") == 1
    assert story(order[2], bob)[-1] == "m"
    assert "m" not in story(order[3], eve)
    places = {
        event.order
        for node in (1, 2)
        for event in order[node].take_events()
        if isinstance(event, Delivered)
    }
    assert len(places) == 1


def test_who_gets_a_message_is_told_all_its_groups_and_its_sender() -> None:
    order = cluster(1, 2)
    member(order, 1, "a", "g")
    bob = order[2].open("b")
    order[2].send(bob, ("g", "h"), b"m")
    order.run()
    (delivered,) = [one for one in order[1].take_events() if isinstance(one, Delivered)]
    assert isinstance(delivered.destination, Destination)
    assert delivered.destination.groups == ("g", "h")
    assert delivered.destination.sender == (2, 1, bob, "b")


def test_frames_of_one_session_to_one_destination_share_its_object() -> None:
    order = cluster(1, 2)
    member(order, 1, "a", "g")
    bob = order[2].open("b")
    order[2].send(bob, "g", b"m")
    order[2].send(bob, "g", b"n")
    order.run()
    first, second = [one for one in order[1].take_events() if isinstance(one, Delivered)]
    assert first.destination is second.destination


def test_a_message_to_a_group_without_members_has_a_place_all_the_same() -> None:
    order = cluster(1, 2)
    ann = order[1].open("a")
    order[1].send(ann, "nobody", b"m")
    order.run()
    told = order[1].take_events()
    assert [one for one in told if isinstance(one, Receipt)]
    assert not [one for one in told if isinstance(one, Delivered)]


def test_a_message_to_a_private_name_goes_to_that_process_only() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    bob = member(order, 2, "b", "g")
    zoe = order[2].open("z")
    order[1].send(ann, str(order[2].groups.sessions.open[zoe].member), b"psst")
    order.run()
    assert story(order[2], zoe) == ["psst"]
    assert "psst" not in story(order[2], bob) + story(order[1], ann)
    order[2].close(zoe)
    order[1].send(ann, "#z#2#1.2", b"too late")
    order.run()
    assert story(order[2], zoe) == ["psst"]


def test_a_private_name_with_another_user_leads_nowhere() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "ann", "g")
    order[1].take_events()
    right = str(order[1].groups.sessions.open[ann].member)
    order[2].send(order[2].open("b"), (right.replace("ann", "zoe"),), b"for zoe")
    order.run()
    assert bodies(order[1].take_events(), ann) == []


def test_the_destinations_of_a_session_that_ends_are_forgotten_by_all() -> None:
    order = cluster(1, 2)
    member(order, 2, "b", "g")
    kept = [len(order[node].groups.routes) for node in (1, 2)]
    ann = order[1].open("ann")  # joins nothing
    for name in ("g", "h", "i"):
        order[1].send(ann, (name,), b"x")
    order.run()
    assert [len(order[node].groups.routes) for node in (1, 2)] == [one + 3 for one in kept]
    order[1].close(ann)
    order.run()
    assert [len(order[node].groups.routes) for node in (1, 2)] == kept


def test_nobody_may_join_what_is_reserved() -> None:
    order = cluster(1)
    ann = order[1].open("a")
    order[1].join(ann, "\0notes")
    order.run()
    assert story(order[1], ann) == ["BAD_NAME"]


def test_a_private_name_of_a_former_life_leads_nowhere() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    former = order[2].open("b")
    name = str(order[2].groups.sessions.open[former].member)
    order.crash(2)
    again = order.start(2).open("b")
    assert again == former
    order.form((1, 2))
    order[1].send(ann, name, b"psst")
    order.run()
    assert story(order[2], again) == []
    assert str(order[2].groups.sessions.open[again].member) != name


def test_a_sender_may_discard_its_own_message() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    zoe = member(order, 1, "z", "g")
    bob = member(order, 2, "b", "g")
    order[1].send(ann, "g", b"m", flags=SELF_DISCARD)
    order.run()
    assert story(order[1], zoe)[-1] == story(order[2], bob)[-1] == "m"
    assert "m" not in story(order[1], ann)
    assert [one for one in order[1].take_events() if isinstance(one, Receipt)]


def test_a_receipt_says_whether_its_frame_comes_back_and_a_frame_whose_own_it_is() -> None:
    order = cluster(1, 2)
    ann, zoe = order[1].open("a"), member(order, 1, "z", "g")
    bob = member(order, 2, "b", "g")
    order[1].take_events()
    order[2].take_events()
    order[1].send(ann, "g", b"not a member yet")
    order[1].join(ann, "g")
    order[1].send(ann, "g", b"one")
    order[1].send(ann, "g", bytes(9_000))  # in pieces
    order[1].send(ann, "g", b"not to me", flags=SELF_DISCARD)
    order[1].leave(ann, "g")
    order[1].send(ann, "g", b"no member any more")
    order[1].send(ann, str(order[1].groups.sessions.open[ann].member), b"to myself")
    order[2].send(bob, "g", b"of another")
    order.run()
    told = order[1].take_events()
    comes_back = [one.comes_back for one in told if isinstance(one, Receipt)]
    assert comes_back == [False, True, True, False, False, True]
    of_ann = [
        one for one in told if isinstance(one, Delivered) and one.destination.sender.user == "a"
    ]
    assert [(one.sessions, one.own) for one in of_ann] == [
        ((zoe,), NO_SESSION),
        ((ann, zoe), ann),
        ((ann, zoe), ann),
        ((zoe,), NO_SESSION),
        ((zoe,), NO_SESSION),
        ((ann,), ann),
    ]
    elsewhere = [one.own for one in order[2].take_events() if isinstance(one, Delivered)]
    assert [one for one in elsewhere if one != NO_SESSION] == [bob]


def test_who_joins_twice_or_leaves_without_being_there_alone_learns_of_it() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    bob = member(order, 2, "b", "g")
    order[1].groups.join(ann, "g", 7)
    order[1].groups.leave(ann, "h", 8)
    order[1].settle()
    views = len(order[2].views(bob, "g"))
    order[1].take_events()
    order.run()
    errors = [one for one in order[1].take_events() if isinstance(one, Error)]
    assert [(one.session, one.code, one.request_id) for one in errors] == [
        (ann, ErrorCode.ALREADY_MEMBER, 7),
        (ann, ErrorCode.NOT_MEMBER, 8),
    ]
    assert len(order[2].views(bob, "g")) == views


def test_a_session_that_ends_leaves_all_groups_at_one_place_after_its_messages() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g", "h")
    bob = member(order, 2, "b", "g", "h")
    order[1].send(ann, ("g",), b"last words")
    order[1].close(ann)
    order.run()
    assert story(order[2], bob)[-3:] == ["last words", "g[b]", "h[b]"]
    left = [order[2].views(bob, group)[-1] for group in ("g", "h")]
    assert {view.cause for view in left} == {Cause.DISCONNECT}
    assert left[0].view_id[:3] == left[1].view_id[:3]
    assert order[1].groups.directory.digest() == order[2].groups.directory.digest()


def test_a_session_that_ends_gets_nothing_more_at_once() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    bob = member(order, 2, "b", "g")
    order[1].close(ann)
    order[2].send(bob, "g", b"m")
    order[2].pull()
    order.run()
    assert "m" not in story(order[1], ann)


def test_a_cause_comes_before_its_effect_in_every_group() -> None:
    order = cluster(1, 2, 3)
    p = member(order, 1, "p", "g")
    q = member(order, 2, "q", "g")
    r = member(order, 3, "r", "g", "h")
    order[1].send(p, "g", b"m1")
    order[1].pull()
    order[2].deliver()
    assert story(order[2], q)[-1] == "m1"
    order[2].send(q, "h", b"m2")
    order[2].pull()
    order[3].deliver()
    assert story(order[3], r)[-2:] == ["m1", "m2"]


def test_safe_and_agreed_messages_arrive_in_their_senders_order() -> None:
    order = cluster(1, 2)
    bob = member(order, 2, "b", "g")
    ann = order[1].open("a")
    for number in range(6):
        order[1].send(ann, "g", b"%d" % number, flags=SAFE if number % 2 else 0)
    order.run()
    assert story(order[2], bob)[1:] == list("012345")


def test_a_large_message_arrives_whole_and_others_do_not_wait_for_it() -> None:
    order = cluster(1, 2)
    bob = member(order, 2, "b", "g")
    ann, zoe = order[1].open("a"), order[1].open("z")
    large = bytes(range(256)) * 4 * 1_024
    order[1].send(ann, "g", large)
    order[1].pull(3)
    order[1].send(zoe, "g", b"small")
    order.run()
    told = bodies(order[2].take_events(), bob)
    assert told == [b"small", large]


def test_a_message_of_16_mib_is_delivered_whole_though_a_daemon_is_lost_on_the_way() -> None:
    order = cluster(1, 2, 3, limits=Limits(payload_max=60_000))
    bob = member(order, 2, "b", "g")
    ann, zoe = order[1].open("a"), order[1].open("z")
    large = bytes(range(256)) * 2**16
    order[1].send(ann, "g", large)
    order[1].pull(100)
    order[2].deliver()
    order.crash(3)
    order.form((1, 2))
    order[1].send(zoe, "g", b"small")
    order.run()
    told = bodies(order[2].take_events(), bob)
    assert sorted(map(len, told)) == [5, 16 * 2**20]
    assert large in told
    assert order[2].groups.assembly.orphans == 0


def test_a_frame_that_was_cut_is_told_as_it_was_handed_over() -> None:
    order = cluster(1, 2)
    member(order, 2, "b", "g")
    ann = order[1].open("a")
    order[1].send(ann, "g", bytes(5_000), flags=SAFE)
    order.run()
    (delivered,) = [one for one in order[2].take_events() if isinstance(one, Delivered)]
    assert delivered.frame == encode_whole(ann, 1, 0, SAFE, [bytes(5_000)])
    assert decode_head(delivered.frame).places == 1


def test_a_frame_of_several_messages_may_be_larger_than_a_packet() -> None:
    order = cluster(1, 2)
    bob = member(order, 2, "b", "g")
    ann = order[1].open("a")
    small = [b"%d" % number for number in range(2_000)]
    order[1].send(ann, "g", *small)
    order[1].send(ann, "g", b"behind")
    assert order[1].pull() > 5
    order.run()
    events = order[2].take_events()
    assert bodies(events, bob) == [*small, b"behind"]
    first, behind = [one for one in events if isinstance(one, Delivered)]
    assert first.frame == encode_whole(ann, 1, 0, 0, small)
    assert first.order is not None
    assert behind.order is not None
    assert first.order.seq == behind.order.seq  # where its end is, the next begins
    assert behind.order.sub == 2_000
    (receipt, _) = [one for one in order[1].take_events() if isinstance(one, Receipt)]
    assert (receipt.first_no, receipt.count, receipt.order) == (1, 2_000, first.order)


def test_a_stretch_of_packets_is_taken_as_they_are_one_by_one() -> None:
    order = cluster(1, 2, 3)
    for node in (2, 3):
        member(order, node, "b", "g")
        order[node].take_events()
    ann, zoe = order[1].open("a"), order[1].open("z")
    order[1].send(ann, "g", bytes(range(256)) * 200)
    order[1].send(zoe, "g", *[b"%d" % number for number in range(9_000)])
    order[1].send(ann, "g", b"end")
    first = len(order[1].ring.log)
    order[1].pull()
    log = order[1].ring.log[first:]
    assert len(log) > 50
    ring_id = order[1].ring.ring_id
    payloads = [message.payload for message in log]
    stretch = Stretch(1, ring_id, first + 1, Service.AGREED, 0, 0, run_of(payloads), 0)
    order[2].groups.on_deliver(Deliver(ring_id, [stretch], 0, after_gap=False))
    for message in log:
        order[3].groups.on_deliver(Deliver(ring_id, [message], 0, after_gap=False))
    together, apart = (
        [
            (event.frame, event.order)
            for event in order[node].groups.drain()
            if isinstance(event, Delivered)
        ]
        for node in (2, 3)
    )
    assert together == apart
    assert len(apart) == 3
    assert order[2].groups.assembly.orphans == 0


def test_a_piece_that_lies_about_its_messages_is_dropped() -> None:
    order = cluster(1, 2)
    member(order, 1, "a", "g")
    order[1].take_events()
    unit_id = UnitId(2, 1, 1)
    begin = encode_frame(Head(FIRST, 0, 1, 1, 5, 0, 0), TOTAL.pack(20) + bytes(10))
    end = encode_frame(Head(LAST, 0, 1, 1, 5, 11, 0), bytes(10))
    give(order[1], encode_packet(unit_id, 11, [begin, end]), 2)
    assert order[1].groups.drops == {"frame: places": 1}
    assert order[1].groups.drain() == []


def test_the_safe_line_is_told() -> None:
    order = cluster(1, 2)
    order[1].tell_safe_line(17)
    (told,) = order[1].take_events()
    assert isinstance(told, SafeUpTo)
    assert (told.ring_id, told.seq) == (order[1].ring.ring_id, 17)


def give(daemon: Daemon, payload: bytes, sender: int) -> None:
    message = RegularMessage(sender, daemon.ring.ring_id, 999, Service.AGREED, 0, 0, payload)
    daemon.groups.on_deliver(Deliver(daemon.ring.ring_id, [message], 0, after_gap=False))


def test_bad_packets_are_counted_and_have_no_effect() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    groups = order[1].groups
    before = groups.directory.digest()
    unit_id = UnitId(2, 1, 1)
    give(order[1], b"noise", 2)
    give(order[1], encode_packet(unit_id, 1, [encode_whole(1, 1, 5, 0, [b"m"])]), 2)
    give(order[1], encode_packet(unit_id, 1, [control_frame(1, b"\x63")]), 2)
    give(order[1], encode_packet(unit_id, 1, [control_frame(1, b"\x04\1\1a\1\1g", 4_096)]), 2)
    leave = control_frame(ann, encode_wish(LEAVE, 0, "a", "g"))
    give(order[1], encode_packet(UnitId(1, 1, 1), 1, [leave]), 2)  # 2 speaks for 1
    assert sum(groups.drops.values()) == 5
    assert groups.directory.digest() == before
    assert groups.drain() == []


def test_a_frame_by_itself_is_delivered_as_it_is_among_others() -> None:
    order = cluster(1, 2)
    sessions = [member(order, node, user, "g") for node, user in [(1, "a"), (1, "b"), (2, "c")]]
    for node, session in zip((1, 2), (sessions[0], sessions[2]), strict=True):
        order[node].send(session, "g", b"announces")
    order.run()
    groups = order[1].groups
    order[1].take_events()
    nowhere = encode_whole(1, 1, 1_000, 0, [b"m"])
    seen = set()
    for sender, session in [(1, sessions[0]), (1, sessions[1]), (2, sessions[2]), (2, 77)]:
        for flags in (0, SAFE, SELF_DISCARD):
            for size in (0, 3, 600):
                frame = encode_whole(session, 9, 0, flags, [bytes(size), b"m"])
                unit_id = UnitId(sender, 1, 1)
                give(order[1], encode_packet(unit_id, 2, [frame]), sender)
                by_itself = [described(event) for event in groups.drain()]
                give(order[1], encode_packet(unit_id, 3, [frame, nowhere]), sender)
                assert by_itself == [described(event) for event in groups.drain()]
                seen |= {(sender, kind) for kind, *_ in by_itself}
    assert seen == {(1, Receipt), (1, Delivered), (2, Delivered)}


def described(event: SessionEvent) -> tuple[object, ...]:
    assert isinstance(event, (Delivered, Receipt))
    return type(event), *[getattr(event, name) for name in event.__slots__]


def test_nobody_speaks_for_another_in_a_frame_by_itself() -> None:
    order = cluster(1, 2)
    ann = member(order, 1, "a", "g")
    order[1].send(ann, "g", b"announces")
    order.run()
    order[1].take_events()
    groups = order[1].groups
    give(order[1], encode_packet(UnitId(1, 1, 1), 1, [encode_whole(ann, 9, 0, 0, [b"m"])]), 2)
    assert groups.drops == {"packet: of another sender": 1}
    assert groups.drain() == []


def test_a_state_that_comes_when_nobody_waits_for_it_is_ignored() -> None:
    order = cluster(1, 2)
    before = order[1].groups.directory.digest()
    give(order[1], encode_packet(UnitId(2, 1, 1), 1, [control_frame(0, b"\5" + bytes(8))]), 2)
    state = control_frame(0, b"\5\0\0\0\0\0\0\0\1junk")
    give(order[1], encode_packet(UnitId(2, 1, 1), 1, [state]), 2)
    assert order[1].groups.directory.digest() == before


def test_a_destination_may_be_given_another_meaning_for_later_frames() -> None:
    order = cluster(1, 2)
    bob = member(order, 2, "b", "g")
    eve = member(order, 2, "e", "h")
    ann = order[1].open("a")
    groups = order[1].groups
    facts = order.facts
    for number, (name, body) in enumerate([("g", b"one"), ("h", b"two")], start=1):
        facts.sent(groups.sessions.open[ann].member, number, (name,), (body,), 0)
        groups.define_set(ann, 0, [name])
        groups.send(ann, encode_whole(ann, number, 0, 0, [body]))
    order.run()
    assert story(order[2], bob)[1:] == ["one"]
    assert story(order[2], eve)[1:] == ["two"]


def test_a_destination_of_64_long_names_works() -> None:
    order = cluster(1, 2, limits=Limits(payload_max=600))
    names = tuple([f"{n}".rjust(64, "x") for n in range(64)])
    bob = member(order, 2, "b", names[63])
    ann = order[1].open("a")
    order[1].send(ann, names, b"m")
    order.run()
    assert story(order[2], bob)[-1] == "m"
