"""The group layer when configurations change: partitions, merges, cut exchanges, fragments."""

from evensong.core.groups.control import is_state
from evensong.core.groups.events import (
    Cause,
    Delivered,
    Reconfigured,
    SafeUpTo,
    View,
    ViewChange,
)
from evensong.core.groups.frame import CONTROL, WHOLE
from evensong.core.groups.layer import State
from evensong.core.groups.limits import Limits
from evensong.core.groups.packet import decode_packet
from evensong.core.ids import Configuration, RingId
from tests.core.groups.order import Daemon, Order, Ring, members_of
from tests.core.groups.test_layer import cluster, member, story


def users(view: View) -> tuple[list[str], list[str], list[str]]:
    """Return who joined, left and stayed."""
    return (
        [one.user for one in view.joined],
        [one.user for one in view.left],
        [one.user for one in view.stayed],
    )


def states_in(ring: Ring) -> list[int]:
    """Return who told a state on a ring, one entry a part."""
    return [
        message.sender_id
        for message in ring.log
        for frame in decode_packet(message.payload)[1]
        if frame[0] == CONTROL and is_state(message.payload, frame[7], frame[6])
    ]


def partitioned() -> tuple[Order, int, int, int]:
    """Daemons 1, 2 and 3 with one member of g each; 3 is cut off."""
    order = cluster(1, 2, 3)
    a, b, c = (member(order, node, user, "g") for node, user in enumerate("abc", start=1))
    order.form((1, 2), (3,))
    order.run()
    return order, a, b, c


def test_a_partition_is_shown_once_on_each_side() -> None:
    order, a, b, c = partitioned()
    assert story(order[1], a)[-2:] == ["~g[a b]", "g[a b]"]
    assert story(order[2], b)[-2:] == ["~g[a b]", "g[a b]"]
    assert story(order[3], c)[-2:] == ["~g[c]", "g[c]"]
    view = order[1].views(a, "g")[-1]
    assert users(view) == ([], ["c"], ["a", "b"])
    assert view.cause is Cause.NETWORK
    assert view.view_id == order[2].views(b, "g")[-1].view_id
    assert view.view_id[1:3] == (0, 0)
    assert users(order[3].views(c, "g")[-1]) == ([], ["a", "b"], ["c"])


def test_a_merge_is_shown_once_with_everybody_in_the_order_of_joining() -> None:
    order, a, b, c = partitioned()
    order.form((1, 2, 3))
    order.run()
    assert story(order[1], a)[-1] == story(order[3], c)[-1] == "g[a b c]"
    assert users(order[1].views(a, "g")[-1]) == (["c"], [], ["a", "b"])
    assert users(order[3].views(c, "g")[-1]) == (["a", "b"], [], ["c"])
    ids = {order[node].views(one, "g")[-1].view_id for node, one in ((1, a), (2, b), (3, c))}
    assert len(ids) == 1
    parts = [[one.user for one in part] for part in order[2].views(b, "g")[-1].components]
    assert parts == [["a", "b"], ["c"]]


def test_one_daemon_speaks_for_each_component() -> None:
    order, *_ = partitioned()
    assert states_in(order[1].ring) == states_in(order[3].ring) == []
    order.form((1, 2, 3))
    order.run()
    assert sorted(states_in(order[1].ring)) == [1, 3]


def test_nothing_is_exchanged_if_nobody_else_came() -> None:
    order, *_ = partitioned()
    order.form((1, 2), (3,))
    order.run()
    assert states_in(order[1].ring) == []
    assert order[1].groups.state is State.REGULAR


def test_messages_wait_for_the_directories_and_reach_the_members_of_both_sides() -> None:
    order, a, b, c = partitioned()
    order[2].send(b, "g", b"m")  # queued before the networks merge
    order.form((1, 2, 3))
    order[2].pull()
    order.run()
    assert order[1].ring.log[0].sender_id == 2  # ahead of any state
    for node, session in ((1, a), (2, b), (3, c)):
        assert story(order[node], session)[-2:] == ["g[a b c]", "m"]


def test_a_state_goes_ahead_of_what_its_daemon_has_queued() -> None:
    order, a, *_ = partitioned()
    order[1].send(a, "g", b"m")
    order[1].join(a, "h")
    order.form((1, 2, 3))
    order[1].pull()
    frames = decode_packet(order[1].ring.log[0].payload)[1]
    assert [frame[0] for frame in frames] == [CONTROL, CONTROL, WHOLE, CONTROL]
    assert is_state(order[1].ring.log[0].payload, frames[0][7], frames[0][6])


def test_a_join_that_waits_is_shown_after_the_merge() -> None:
    order, a, _, c = partitioned()
    x = order[2].open("x")
    order[2].join(x, "g")
    order.form((1, 2, 3))
    order[2].pull()
    order.run()
    assert story(order[2], x) == ["g[a b c x]"]
    assert story(order[1], a)[-2:] == ["g[a b c]", "g[a b c x]"]
    assert story(order[3], c)[-2:] == ["g[a b c]", "g[a b c x]"]
    network, joined = order[1].views(a, "g")[-2:]
    assert network.view_id < joined.view_id


def test_who_stays_is_shown_that_its_daemons_are_too_few_or_enough_again() -> None:
    order = cluster(1, 2, 3)
    a = member(order, 1, "a", "g")
    for parts in ([(1,), (2, 3)], [(1, 2, 3)]):
        order.form(*parts)
        order.run()
    views = order[1].views(a, "g")
    assert [view.primary for view in views] == [True, False, True]
    assert all(view.members == views[0].members for view in views)
    assert [view.cause for view in views] == [Cause.JOIN, Cause.NETWORK, Cause.NETWORK]


def test_a_group_that_a_change_does_not_concern_is_not_shown() -> None:
    order = cluster(1, 2, 3)
    a = member(order, 1, "a", "g")
    order.form((1, 2), (3,))
    order.form((1, 2, 3))
    order.run()
    assert story(order[1], a) == ["g[a]"]


def test_a_member_cut_off_and_back_in_one_change_is_in_left_and_in_joined() -> None:
    """Daemon 2 was alone for a moment that daemon 1 did not see."""
    order = cluster(1, 2)
    a = member(order, 1, "a", "g")
    b = member(order, 2, "b", "g")
    order.form((2,))
    order.form((1, 2))
    order.run()
    assert story(order[1], a)[-2:] == ["~g[a]", "g[a b]"]
    assert users(order[1].views(a, "g")[-1]) == (["b"], ["b"], ["a"])
    assert users(order[2].views(b, "g")[-1]) == (["a"], [], ["b"])


def test_a_crashed_daemon_takes_its_members_out_of_every_group_in_one_view_each() -> None:
    order = cluster(1, 2, 3)
    a = member(order, 1, "a", "g", "h")
    member(order, 3, "c", "g", "h")
    order.crash(3)
    order.form((1, 2))
    order.run()
    assert story(order[1], a)[-4:] == ["~g[a]", "~h[a]", "g[a]", "h[a]"]
    assert {order[1].views(a, name)[-1].cause for name in "gh"} == {Cause.NETWORK}


def test_a_restarted_daemon_brings_none_of_its_former_members() -> None:
    order = cluster(1, 2)
    a = member(order, 1, "a", "g")
    member(order, 2, "b", "g")
    order.crash(2)
    order.start(2)
    order.form((1, 2))
    order.run()
    assert story(order[1], a)[-2:] == ["~g[a]", "g[a]"]
    b = member(order, 2, "b", "g")
    assert story(order[2], b) == ["g[a b]"]


def test_transitional_messages_are_reduced_and_those_after_are_not() -> None:
    order = cluster(1, 2)
    a = member(order, 1, "a", "g")
    order[1].send(a, "g", b"m")
    order[1].pull()
    order.form((1,), (2,))
    order[1].send(a, "g", b"n")
    order.run()
    told = [one for one in order[1].take_events() if isinstance(one, Delivered)]
    assert [one.reduced for one in told] == [True, False]
    assert told[0].conf_id < told[1].conf_id
    assert told[0].order is not None
    assert told[0].order.ring_id < told[0].conf_id


def test_a_configuration_is_told_to_all_sessions() -> None:
    order = cluster(1, 2, 3)
    order.form((1, 2), (3,))
    told = [one for one in order[1].take_events() if isinstance(one, Reconfigured)]
    assert [(one.members, one.transitional, one.primary) for one in told] == [
        ((1, 2), True, True),
        ((1, 2), False, True),
    ]
    told = [one for one in order[3].take_events() if isinstance(one, Reconfigured)]
    assert [one.primary for one in told] == [False, False]


# -- an exchange that is cut short


def cut_short() -> tuple[Order, int, int, int]:
    """Sides {1, 2} and {3} begin to merge; messages and joins are held; 1 is cut off from 2."""
    order, a, b, c = partitioned()
    order.form((1, 2, 3))
    order[2].send(b, "g", b"held")
    order[2].join(b, "h")
    order[2].pull()
    order[3].send(c, "g", b"foreign")
    order[3].pull()  # its state goes ahead
    for node in (1, 2, 3):
        order[node].deliver()
        assert order[node].groups.state is State.EXCHANGING
    return order, a, b, c


def test_an_exchange_that_is_cut_short_gives_its_messages_to_the_transitional_part() -> None:
    order, a, b, c = cut_short()
    assert order[1].groups.held_packets() == 2
    order.form((1, 2, 3))
    assert order[1].groups.held_packets() == 0
    assert story(order[1], a)[-3:] == ["g[a b]", "held", "foreign"]
    assert story(order[2], b)[-4:] == ["g[a b]", "held", "~h[b]", "foreign"]
    assert story(order[3], c)[-3:] == ["g[c]", "held", "foreign"]
    told = [one for one in order[1].take_events() if isinstance(one, Delivered)]
    assert [one.reduced for one in told[-2:]] == [True, True]
    order.run()
    assert story(order[1], a)[-1] == story(order[3], c)[-1] == "g[a b c]"
    assert story(order[2], b)[-2:] == ["g[a b c]", "h[b]"]
    assert order[1].groups.directory.digest() == order[3].groups.directory.digest()


def test_a_cut_exchange_leaves_each_component_to_itself() -> None:
    order, a, b, c = cut_short()
    order.form((1, 3), (2,))
    assert story(order[1], a)[-3:] == ["~g[a]", "held", "foreign"]
    assert "h" not in order[1].groups.directory.groups  # b's join came from outside by then
    assert story(order[2], b)[-6:-2] == ["~g[b]", "held", "~h[b]", "foreign"]
    order.run()
    assert story(order[1], a)[-1] == "g[a c]"
    assert story(order[2], b)[-2:] == ["g[b]", "h[b]"]
    assert users(order[1].views(a, "g")[-1]) == (["c"], ["b"], ["a"])
    assert story(order[3], c)[-1] == "g[a c]"


def test_views_of_two_components_in_one_transitional_configuration_have_different_ids() -> None:
    order = cluster(1, 2, 3, 4)
    sessions = {node: member(order, node, user, "g") for node, user in enumerate("abcd", start=1)}
    order.form((1, 2), (3, 4))
    order.run()
    order.form((1, 2, 3, 4))
    order.form((1, 3), (2, 4))  # before any state is told
    first = order[1].views(sessions[1], "g")[-1]
    second = order[3].views(sessions[3], "g")[-1]
    assert (members_of(first), members_of(second)) == (["a"], ["c"])
    assert first.transitional
    assert second.transitional
    assert first.view_id.conf_id.seq == second.view_id.conf_id.seq
    assert first.view_id != second.view_id


def passes(daemon: Daemon, rep: int, *members: int) -> None:
    """Give a daemon a transitional configuration with a name of somebody's own making."""
    ring_id = daemon.ring.ring_id
    daemon.install(
        Configuration(
            RingId(ring_id.seq + 1, rep), ring_id, members, transitional=True, cause="crash"
        )
    )


def test_two_passages_with_one_number_and_one_lowest_daemon_show_different_views() -> None:
    """An engine may name them apart by more than that: who agreed, and by which messages."""
    order = cluster(1, 2, 3, 4)
    sessions = {node: member(order, node, user, "g") for node, user in enumerate("abcd", start=1)}
    passes(order[1], 0xFEED, 1, 2)
    passes(order[2], 0xBEEF, 1, 2, 3)
    first = order[1].views(sessions[1], "g")[-1]
    second = order[2].views(sessions[2], "g")[-1]
    assert (members_of(first), members_of(second)) == (["a", "b"], ["a", "b", "c"])
    assert first.view_id.conf_id == (second.view_id.conf_id.seq, 0xFEED)
    assert second.view_id.conf_id.rep == 0xBEEF


def test_components_have_names_apart_whatever_the_engine_calls_what_they_pass_through() -> None:
    order = cluster(1, 2, 3, 4)
    sessions = {node: member(order, node, user, "g") for node, user in enumerate("abcd", start=1)}
    order.form((1, 2), (3, 4))
    order.run()
    order.form((1, 2, 3, 4))
    for node in (1, 3):
        passes(order[node], 0xFEED, 1, 3)  # before any state is told
    first = order[1].views(sessions[1], "g")[-1]
    second = order[3].views(sessions[3], "g")[-1]
    assert (members_of(first), members_of(second)) == (["a"], ["c"])
    assert first.view_id.conf_id.rep == 0xFEED
    assert second.view_id.conf_id.rep == 0xFEED ^ 1 ^ 3


def test_components_are_who_has_gone_together_since_directories_were_equal() -> None:
    """1 and 2 are together through a merge that broke; 3, who was there, is not."""
    order, a, *_ = partitioned()
    order.form((1, 2, 3))
    order.form((1, 2, 3))
    assert [order[node].groups.together for node in (1, 2, 3)] == [(1, 2), (1, 2), (3,)]
    order.run()
    parts = [[one.user for one in part] for part in order[1].views(a, "g")[-1].components]
    assert parts == [["a", "b"], ["c"]]


def test_newcomers_who_vanish_before_they_are_heard_leave_no_trace() -> None:
    order, a, b, _ = cut_short()
    order.form((1, 2), (3,))
    assert order[1].groups.state is State.REGULAR
    order.run()
    assert states_in(order[1].ring) == []
    assert story(order[1], a)[-3:] == ["g[a b]", "held", "foreign"]
    assert story(order[2], b)[-3:] == ["~h[b]", "foreign", "h[b]"]


def test_a_safe_line_is_held_back_with_its_messages() -> None:
    order, *_ = partitioned()
    order.form((1, 2, 3))
    order[1].take_events()
    order[1].tell_safe_line(1)
    order[1].tell_safe_line(2)
    assert not [one for one in order[1].take_events() if isinstance(one, SafeUpTo)]
    order.run()
    told = order[1].take_events()
    assert [one.seq for one in told if isinstance(one, SafeUpTo)] == [2]
    assert isinstance(told[-1], SafeUpTo)


def test_a_large_directory_is_told_in_parts() -> None:
    order = Order(1, 2, limits=Limits(payload_max=600))
    for node in (1, 2):
        session = order[node].open(f"user{node}")
        order[node].join(session, *[f"{node}.{n}".rjust(40, "x") for n in range(50)], "both")
    order.run()
    order.form((1, 2))
    order.run()
    assert len(states_in(order[1].ring)) > 10
    assert len(order[1].groups.directory.groups) == 101
    assert members_of(order[1].views(1, "both")[-1]) == ["user1", "user2"]
    assert order[1].groups.directory.digest() == order[2].groups.directory.digest()


# -- fragments


def fragmented(pulled: int) -> tuple[Order, int, bytes]:
    """A message in four pieces is under way from daemon 2; so many were sent."""
    order = cluster(1, 2, 3)
    a = member(order, 1, "a", "g")
    b = member(order, 2, "b", "g")
    order[2].send(b, "g", b"announces")
    order.run()
    body = bytes(range(250)) * 20
    order[2].send(b, "g", body)
    assert order[2].pull(pulled) == pulled
    for node in (1, 3):
        order[node].deliver()
    return order, a, body


def bodies_at(daemon: Daemon) -> list[tuple[bytes, bool]]:
    return [
        (bytes(one.frame[24:]), one.reduced)
        for one in daemon.watcher.told
        if isinstance(one, Delivered) and len(one.frame) > 1_000
    ]


def test_a_message_cut_by_a_change_is_sent_again_and_delivered_once() -> None:
    order, _, body = fragmented(2)
    assert order[1].groups.assembly.unfinished
    order.form((1, 2), (3,))
    assert not order[1].groups.assembly.unfinished
    order.run()
    assert bodies_at(order[1]) == [(body, False)]
    assert order[1].groups.assembly.orphans == 0


def test_a_message_whose_end_was_sent_is_delivered_in_the_transitional_part() -> None:
    order, _, body = fragmented(2)
    order[2].pull()
    order.form((1, 2), (3,))
    assert bodies_at(order[1]) == [(body, True)]
    order.run()
    assert bodies_at(order[1]) == [(body, True)]


def test_pieces_of_a_crashed_sender_are_never_completed() -> None:
    order, a, _ = fragmented(2)
    order.crash(2)
    order.form((1, 3))
    order.start(2)
    order.form((1, 2, 3))
    again = order[2].open("b")
    order[2].join(again, "g")
    order[2].send(again, "g", b"announces")
    other = bytes(5_000)
    order[2].send(again, "g", other)
    order.run()
    assert bodies_at(order[1]) == [(other, False)]
    assert story(order[1], a)[-1] == other.decode()


def test_a_message_in_pieces_that_are_held_back_is_put_together_after_the_merge() -> None:
    order, _, b, c = partitioned()
    body = bytes(4_000)
    order[2].send(b, "g", body)
    order.form((1, 2, 3))
    order[2].pull()
    order.run()
    assert bodies_at(order[3]) == [(body, False)]
    assert [type(one) for one in order[3].watcher.told if isinstance(one, ViewChange)]
    assert story(order[3], c)[-1] == body.decode()
