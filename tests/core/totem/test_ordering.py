"""What a token holder does to the token and to its own buffer [SRP §4]."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sets

from evensong.core.effects import Broadcast, Packet, Sent, Service, Unicast, unbundled
from evensong.core.ids import NO_PROCESSOR, RingId
from evensong.core.run import run_of
from evensong.core.totem import wire
from evensong.core.totem.frames import ENCAP, RETX, RegularToken
from evensong.core.totem.ordering import SOLE_MESSAGES, SOLE_ROTATIONS, Ring, elements, ranges
from evensong.core.totem.parameters import Parameters
from tests.core.totem.bench import message, messages, ordered

RING_ID = RingId(8, 1)
PARAMETERS = Parameters()


def ring_with(
    *seqs: int, my_id: int = 2, parameters: Parameters = PARAMETERS, safe: tuple[int, ...] = ()
) -> Ring:
    ring = Ring(RING_ID, (1, 2, 3), my_id, 1, parameters)
    for seq in seqs:
        service = Service.SAFE if seq in safe else Service.AGREED
        ring.buffer.add(seq, message(RING_ID, seq, 1, b"m%d" % seq, service=service))
    return ring


def token(seq: int = 0, aru: int = 0, aru_id: int = NO_PROCESSOR) -> RegularToken:
    return RegularToken(RING_ID, seq=seq, aru=aru, aru_id=aru_id)


def seqs_delivered(ring: Ring) -> list[int]:
    return [one.seq for one in ordered(ring.deliver_ready())]


# -- acknowledging ---------------------------------------------------------------------------


def test_who_lacks_something_lowers_the_aru_and_signs_it() -> None:
    came = token(seq=5, aru=5)
    ring_with(1, 2, 4, 5).acknowledge(came)
    assert (came.aru, came.aru_id) == (2, 2)


def test_who_lowered_the_aru_raises_it_again() -> None:
    came = token(seq=5, aru=2, aru_id=2)
    ring_with(1, 2, 3, 5).acknowledge(came)
    assert (came.aru, came.aru_id) == (3, 2)


def test_nobody_else_may_raise_the_aru() -> None:
    came = token(seq=5, aru=2, aru_id=3)
    ring_with(1, 2, 3, 4, 5).acknowledge(came)
    assert (came.aru, came.aru_id) == (2, 3)


def test_who_lacks_more_than_the_one_behind_takes_over() -> None:
    came = token(seq=5, aru=2, aru_id=3)
    ring_with(1).acknowledge(came)
    assert (came.aru, came.aru_id) == (1, 2)


def test_an_aru_that_nobody_holds_down_follows_the_seq() -> None:
    came = token(seq=3, aru=3)
    ring = ring_with(1, 2, 3)
    ring.broadcast_new(came, [Packet(Service.AGREED, b"m4")])
    ring.acknowledge(came)
    assert (came.seq, came.aru, came.aru_id) == (4, 4, NO_PROCESSOR)


def test_who_has_caught_up_signs_off() -> None:
    came = token(seq=3, aru=1, aru_id=2)
    ring_with(1, 2, 3).acknowledge(came)
    assert (came.aru, came.aru_id) == (3, NO_PROCESSOR)


# -- the safe line ---------------------------------------------------------------------------


def test_what_was_forwarded_on_two_visits_is_safe() -> None:
    ring = ring_with(1, 2, 3, 4, 5)
    assert not ring.advance_safe_line(token(seq=5, aru=5))
    assert ring.my_safe == 0
    assert ring.advance_safe_line(token(seq=5, aru=4))
    assert ring.my_safe == 4


def test_the_safe_line_never_falls() -> None:
    ring = ring_with(1, 2, 3, 4, 5)
    for aru in (5, 5, 3, 3):
        ring.advance_safe_line(token(seq=5, aru=aru))
    assert ring.my_safe == 5


# -- delivery --------------------------------------------------------------------------------


def test_agreed_messages_are_delivered_up_to_the_first_hole() -> None:
    ring = ring_with(1, 2, 4)
    assert seqs_delivered(ring) == [1, 2]
    assert seqs_delivered(ring) == []


def test_a_safe_message_blocks_those_behind_it_until_it_is_safe() -> None:
    ring = ring_with(1, 2, 3, safe=(2,))
    assert seqs_delivered(ring) == [1]
    ring.my_safe = 2
    assert seqs_delivered(ring) == [2, 3]


def test_only_what_is_delivered_and_safe_is_forgotten() -> None:
    ring = ring_with(1, 2, 3, safe=(3,))
    seqs_delivered(ring)
    ring.release()
    assert ring.buffer.released == 0
    ring.my_safe = 1
    ring.release()
    assert ring.buffer.released == 1
    ring.my_safe = 3
    ring.release()
    assert ring.buffer.released == 2  # 3 is safe by now, but not yet delivered


def test_recovery_traffic_counts_as_delivered_up_to_the_first_message_of_the_ring() -> None:
    ring = ring_with()
    for seq in (1, 2, 3, 5):
        flags = 0 if seq == 3 else ENCAP
        ring.buffer.add(seq, message(RING_ID, seq, 1, flags=flags))
    ring.consume_recovery_traffic()
    assert ring.high_delivered == 2


# -- broadcasting and repairing --------------------------------------------------------------


def test_safe_messages_that_came_together_are_delivered_as_they_get_safe() -> None:
    ring = ring_with()
    said = [message(RING_ID, seq, 1, service=Service.SAFE) for seq in (1, 2, 3, 4)]
    assert ring.add_run(run_of([wire.encode_regular(one, 0, 1, 1) for one in said]))
    assert ring.deliver_ready() == []
    for line, seqs in ((2, [1, 2]), (2, []), (3, [3]), (9, [4])):
        ring.my_safe = line
        assert seqs_delivered(ring) == seqs


def test_a_run_above_a_hole_leaves_the_aru_where_it_is() -> None:
    ring = ring_with()
    for seqs, aru in (((3, 4), 0), ((1, 2), 4)):
        said = [message(RING_ID, seq, 1) for seq in seqs]
        assert ring.add_run(run_of([wire.encode_regular(one, 0, 1, 1) for one in said]))
        assert ring.buffer.aru == aru


def test_each_new_message_gets_the_next_seq_and_is_kept() -> None:
    ring = ring_with()
    came = token(seq=7, aru=7)
    packets = [Packet(Service.SAFE, b"a"), Packet(Service.AGREED, b"b")]
    effects = unbundled(ring.broadcast_new(came, packets))
    assert came.seq == 9
    assert [(one.seq, one.sender_id, one.payload) for one in messages(effects)] == [
        (8, 2, b"a"),
        (9, 2, b"b"),
    ]
    assert ring.buffer.messages[8].service is Service.SAFE


def test_a_message_is_known_as_sent_before_it_is_broadcast() -> None:
    # Whoever crashes in between has sent what nobody got; the other way round, what nobody sent.
    packets = [Packet(Service.AGREED, b"a"), Packet(Service.AGREED, b"b")]
    effects = unbundled(ring_with().broadcast_new(token(), packets))
    assert [type(effect) for effect in effects] == [Sent, Broadcast, Sent, Broadcast]
    assert [one.packets for one in effects if isinstance(one, Sent)] == [[one] for one in packets]


def test_requests_are_answered_oldest_first_and_taken_off() -> None:
    ring = ring_with(1, 2, 3, 5, 6)
    came = token(seq=6, aru=0, aru_id=3)
    came.rtr = [(2, 3), (6, 1)]
    repairs, weight = ring.resend_requested(came, len)
    assert weight == 3
    assert [one.seq for one in messages(repairs)] == [2, 3, 6]
    assert all(one.flags == RETX for one in messages(repairs))
    assert [one.sender_id for one in messages(repairs)] == [1, 1, 1]
    assert came.rtr == [(4, 1)]


def test_what_the_window_does_not_allow_stays_requested() -> None:
    ring = ring_with(1, 2, 3, 4, 5)
    came = token(seq=5, aru=0, aru_id=3)
    came.rtr = [(1, 5)]
    came.fcc = PARAMETERS.window_size - 2
    assert [one.seq for one in messages(ring.resend_requested(came, len)[0])] == [1, 2]
    assert came.rtr == [(3, 3)]


def three_each(packets: Sequence[Packet]) -> int:
    return 3 * len(packets)


def test_a_repair_takes_as_much_of_the_window_as_it_fills_datagrams() -> None:
    ring = ring_with()
    for seq in range(1, 6):
        ring.buffer.add(seq, message(RING_ID, seq, 1, b"wide"))
    came = token(seq=5, aru=0, aru_id=3)
    came.rtr = [(1, 5)]
    came.fcc = PARAMETERS.window_size - 7
    repairs, weight = ring.resend_requested(came, three_each)
    assert [one.seq for one in messages(repairs)] == [1, 2, 3]
    assert weight == 7, "what is counted never exceeds the window"
    assert came.rtr == [(4, 2)]


def test_what_recovery_wraps_weighs_what_it_weighed_before() -> None:
    ring = ring_with()
    old = wire.encapsulate(message(RingId(4, 1), 9, 1, b"old"))
    ring.buffer.add(1, message(RING_ID, 1, 1, old, flags=ENCAP))
    came = token(seq=1, aru=0, aru_id=3)
    came.rtr = [(1, 1)]
    _, weight = ring.resend_requested(
        came, lambda packets: sum(len(one.payload) for one in packets)
    )
    assert weight == len(b"old")


def test_a_request_for_what_everybody_has_is_taken_off_unanswered() -> None:
    ring = ring_with(1, 2, 3)
    seqs_delivered(ring)
    ring.my_safe = 2
    ring.release()
    came = token(seq=3, aru=3)
    came.rtr = [(1, 2)]
    assert ring.resend_requested(came, len) == ([], 0)
    assert came.rtr == []


def test_new_messages_keep_within_the_buffers_horizon() -> None:
    ring = ring_with(parameters=PARAMETERS._replace(receive_horizon=60))
    assert ring.new_max(token(seq=55), 20, 0) == 5
    assert ring.new_max(token(seq=60), 20, 0) == 0


# -- requesting ------------------------------------------------------------------------------


def test_what_is_missing_is_requested_with_what_others_asked_for() -> None:
    came = token(seq=8, aru=0, aru_id=3)
    came.rtr = [(1, 2), (7, 1)]
    ring_with(1, 2, 5).request_missing(came)
    assert came.rtr == [(1, 4), (6, 3)]


def test_who_lacks_nothing_asks_for_nothing() -> None:
    came = token(seq=2, aru=0, aru_id=3)
    came.rtr = [(1, 1)]
    ring_with(1, 2).request_missing(came)
    assert came.rtr == [(1, 1)]


def test_requests_are_bounded_oldest_first() -> None:
    ring = ring_with(*range(2, 200, 2))
    came = token(seq=200, aru=0, aru_id=3)
    ring.request_missing(came)
    assert len(came.rtr) == PARAMETERS.rtr_max
    assert came.rtr[0] == (1, 1)
    assert len(wire.decode_token(wire.encode_token(came, 1, 1)).rtr) == PARAMETERS.rtr_max


def test_a_message_is_requested_after_it_was_missed_so_often() -> None:
    ring = ring_with(1, parameters=PARAMETERS._replace(miss_count=2))
    for visit, asked in enumerate([[], [(2, 2)], [(2, 3)]]):
        came = token(seq=3 + visit, aru=1, aru_id=2)
        ring.request_missing(came)
        assert came.rtr == asked


# -- failing to receive ----------------------------------------------------------------------

PATIENT = PARAMETERS._replace(fail_to_rcv_time=1_000, fail_to_rcv_visits_min=5)


def stuck(
    visits: int, each_us: int, aru_id: int = 3, requests: bool = True, my_id: int = 2
) -> list[bool]:
    ring = ring_with(1, 2, my_id=my_id, parameters=PATIENT)
    ring.aru_forwarded = 1
    return [
        ring.count_stuck(token(2, 1, aru_id), requests, visit * each_us) for visit in range(visits)
    ]


def test_somebody_is_accused_after_the_time_and_the_visits() -> None:
    assert stuck(7, 500) == [False] * 5 + [True] * 2
    assert stuck(10, 170) == [False] * 6 + [True] * 4


def test_time_alone_accuses_nobody() -> None:
    assert not any(stuck(5, 100_000))


def test_visits_alone_accuse_nobody() -> None:
    assert not any(stuck(500, 2))


def test_one_never_accuses_oneself() -> None:
    assert not any(stuck(100, 1_000, aru_id=2))


def test_nobody_is_accused_while_nothing_is_requested() -> None:
    assert not any(stuck(100, 1_000, requests=False))


def test_nobody_is_accused_where_nobody_is_behind() -> None:
    assert not any(stuck(100, 1_000, aru_id=NO_PROCESSOR))


def test_progress_starts_the_count_afresh() -> None:
    ring = ring_with(1, 2, parameters=PATIENT)
    ring.aru_forwarded = 1
    for visit in range(6):
        ring.count_stuck(token(2, 1, 3), True, visit * 1_000)
    assert not ring.count_stuck(token(3, 2, 3), True, 7_000)
    ring.aru_forwarded = 2
    assert not ring.count_stuck(token(3, 2, 3), True, 8_000)


# -- the token itself ------------------------------------------------------------------------


def test_the_token_goes_to_the_next_id_and_from_the_last_to_the_first() -> None:
    for my_id, successor in ((1, 2), (2, 3), (3, 1)):
        ring = ring_with(my_id=my_id)
        came = token()
        came.token_seq = 6
        forward = ring.pass_on(came)
        assert isinstance(forward, Unicast)
        assert forward.to == successor
        assert came.token_seq == ring.my_token_seq == 7


def test_the_representative_is_the_one_the_ring_is_named_for() -> None:
    assert [ring_with(my_id=my_id).is_representative() for my_id in (1, 2, 3)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "lie",
    [
        {"seq": 1_003},
        {"aru_id": 9},
        {"retrans_setter": 9},
        {"retrans_setter": 0},  # nobody could clear what nobody has set
        {"retrans_flg": False},
        {"fcc": 51},
        {"fcc": 0},
        {"backlog": 1},
        {"rtr": [(1, 1_001)], "seq": 1_002},
        {"seq": 1},
        {"token_seq": 3},
    ],
)
def test_a_token_that_cannot_be_is_known_by_a_field(lie: Mapping[str, object]) -> None:
    ring = ring_with(1, 2)
    ring.flow.account(token(), 3, 2)
    honest: dict[str, object] = {
        "seq": 2,
        "aru": 1,
        "aru_id": 3,
        "fcc": 3,
        "backlog": 2,
        "retrans_setter": 1,
    }
    honest["retrans_flg"] = True

    def came(fields: Mapping[str, object]) -> RegularToken:
        said = token()
        for name, value in fields.items():
            setattr(said, name, value)
        return said

    assert ring.is_plausible(came(honest))
    assert not ring.is_plausible(came({**honest, **lie}))


def test_a_visit_is_idle_when_nothing_changed_and_nobody_wants_anything() -> None:
    ring = ring_with()
    for _ in range(PARAMETERS.idle_rotations + 1):
        assert not ring.is_idle()
        ring.count_idle(token(4, 4))
    assert ring.is_idle()
    for change in (token(5, 5), token(4, 3, 3)):
        ring.count_idle(change)
        assert not ring.is_idle()


def test_an_idle_token_rests_with_who_sent_last_and_at_first_with_the_representative() -> None:
    first, second = ring_with(my_id=1), ring_with(my_id=2)
    assert (first.rests_here(0), second.rests_here(0)) == (True, False)
    for ring in (first, second):
        ring.install_seq = 5  # an exchange of old messages, by whomever
    assert (first.rests_here(5), second.rests_here(5)) == (True, False)
    came = token(seq=5, aru=5)
    second.broadcast_new(came, [Packet(Service.AGREED, b"m")])
    assert (first.rests_here(came.seq), second.rests_here(came.seq)) == (False, True)
    assert not second.rests_here(came.seq + 1)  # somebody spoke after me


def test_the_token_rests_soon_with_who_alone_has_been_sending() -> None:
    ring = ring_with(my_id=1)
    came = token()
    for _ in range(SOLE_MESSAGES):
        assert ring.rests_after() == PARAMETERS.idle_rotations
        ring.broadcast_new(came, [Packet(Service.AGREED, b"m")])
        ring.deliver_ready()
    assert ring.rests_after() == SOLE_ROTATIONS
    ring.buffer.add(came.seq + 1, message(RING_ID, came.seq + 1, 2, b"m"))
    ring.deliver_ready()
    assert ring.rests_after() == PARAMETERS.idle_rotations  # somebody else has spoken


@given(sets(integers(1, 60)))
def test_ranges_and_elements_are_each_others_inverse(seqs: set[int]) -> None:
    folded = ranges(sorted(seqs))
    assert elements(folded) == sorted(seqs)
    assert all(first + count < later for (first, count), (later, _) in pairwise(folded))
