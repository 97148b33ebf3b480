"""One pass of recovery, step by step [SRP §6]; obligations as in [EVS §4]."""

from evensong.core.effects import Deliver, Effect, Install, Service
from evensong.core.ids import NO_PROCESSOR, RingId
from evensong.core.totem.frames import CommitToken, MembEntry, RegularToken
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.recovery import Recovery, close_ring
from tests.core.totem.bench import entry, message, ordered

OLD = RingId(8, 1)
OTHER = RingId(8, 5)
NEW = RingId(16, 1)
MEMBERS = (1, 2, 3, 4)


def old_ring(
    *seqs: int, my_id: int = 2, safe: tuple[int, ...] = (), senders: dict[int, int] | None = None
) -> Ring:
    ring = Ring(OLD, MEMBERS, my_id, 1, Parameters())
    for seq in seqs:
        service = Service.SAFE if seq in safe else Service.AGREED
        sender = (senders or {}).get(seq, 1)
        ring.buffer.add(seq, message(OLD, seq, sender, b"m%d" % seq, service=service))
    return ring


def recovery_of(ring: Ring, *memb: MembEntry) -> Recovery:
    return Recovery(CommitToken(NEW, list(memb), rotation=2), ring)


def told(effects: list[Effect]) -> list[object]:
    """Return deliveries as seqs and configurations as they are named."""
    story: list[object] = []
    for effect in effects:
        if isinstance(effect, Deliver):
            story += [one.seq for one in effect.messages()]
        elif isinstance(effect, Install):
            kind = "transitional" if effect.configuration.transitional else "regular"
            story.append((kind, effect.configuration.conf_id, effect.configuration.members))
    return story


# -- what a pass begins with -----------------------------------------------------------------


def test_those_of_one_old_ring_go_together() -> None:
    recovery = recovery_of(old_ring(), entry(1, OLD), entry(2, OLD), entry(5, OTHER))
    assert recovery.trans_memb == (1, 2)


def test_the_old_ring_is_frozen_from_the_beginning() -> None:
    ring = old_ring()
    assert not ring.ending.frozen
    recovery_of(ring, entry(1, OLD), entry(2, OLD))
    assert ring.ending.frozen


def test_what_the_least_of_us_lacks_is_exchanged() -> None:
    ring = old_ring(1, 2, 3, 5)
    recovery = recovery_of(ring, entry(1, OLD, my_aru=1), entry(2, OLD, my_aru=3))
    assert list(recovery.retrans_queue) == [2, 3, 5]


def test_what_others_lack_of_another_ring_is_not_my_business() -> None:
    ring = old_ring(1, 2)
    recovery = recovery_of(ring, entry(2, OLD, my_aru=2), entry(5, OTHER, my_aru=0))
    assert not recovery.retrans_queue


def test_the_split_point_comes_from_the_commit_token_alone() -> None:
    ring = old_ring(1, 2, 3)
    ring.my_safe = ring.high_delivered = 3
    ring.ending.high_ring_delivered = 3
    recovery = recovery_of(
        ring,
        entry(1, OLD, high_delivered=2),
        entry(2, OLD, high_delivered=1),
        entry(5, OTHER, high_delivered=9),
    )
    assert recovery.high_ring_delivered == 2
    assert ring.ending.high_ring_delivered == 2


def test_if_all_have_promised_the_same_nothing_is_exchanged_again() -> None:
    ring = old_ring(1, 2, 3)
    recovery = recovery_of(
        ring,
        entry(1, OLD, my_aru=1, received_flg=True, obligation={1, 2, 3}),
        entry(2, OLD, my_aru=3, received_flg=True, obligation={1, 2, 3}),
    )
    assert not recovery.retrans_queue
    assert ring.ending.received_flg
    assert ring.ending.deliver_memb == {1, 2, 3}


def test_different_promises_are_not_the_same_promise() -> None:
    ring = old_ring(1, 2, 3)
    recovery = recovery_of(
        ring,
        entry(1, OLD, my_aru=1, received_flg=True, obligation={1, 2}),
        entry(2, OLD, my_aru=3, received_flg=True, obligation={1, 2, 3}),
    )
    assert list(recovery.retrans_queue) == [2, 3]
    assert not ring.ending.received_flg


def test_one_who_has_not_promised_makes_all_exchange_again() -> None:
    ring = old_ring(1, 2, 3)
    recovery = recovery_of(
        ring,
        entry(1, OLD, my_aru=1, obligation={1, 2}),
        entry(2, OLD, my_aru=3, received_flg=True, obligation={1, 2}),
    )
    assert list(recovery.retrans_queue) == [2, 3]
    assert not ring.ending.received_flg


def test_nobody_is_obliged_to_processors_of_other_rings() -> None:
    recovery = recovery_of(old_ring(), entry(1, OLD, obligation={1, 3, 77}), entry(2, OLD))
    assert recovery.deliver_memb == {1, 2, 3}


def test_a_delivery_does_not_tell_more_of_the_safe_line_than_is_true() -> None:
    # I have delivered 2, an agreed message: that says nothing of who else has it.
    ring = old_ring(1, 2, 3, 4, safe=(4,))
    ring.my_safe = 1
    effects = close_ring(ring, (1, 2), 3, NEW, (1, 2), "")
    lines = [effect.safe_line for effect in effects if isinstance(effect, Deliver)]
    assert lines == [1, 1, 1, 1]
    ring = old_ring(1, 2, 3, safe=(2,))
    effects = close_ring(ring, (1, 2), 3, NEW, (1, 2), "")
    lines = [effect.safe_line for effect in effects if isinstance(effect, Deliver)]
    assert lines == [0, 2, 2]  # somebody has delivered 2 as safe: everybody has it


def test_obligations_are_taken_over_from_everybody_who_goes_along() -> None:
    recovery = recovery_of(
        old_ring(),
        entry(1, OLD, obligation={1, 3}),
        entry(2, OLD, obligation={2, 4}),
        entry(5, OTHER, obligation={5, 6}),
    )
    assert recovery.deliver_memb == {1, 2, 3, 4}


def test_an_obligation_is_taken_over_with_the_promise_and_not_before() -> None:
    ring = old_ring(1)
    recovery = recovery_of(ring, entry(1, OLD, obligation={1, 3}), entry(2, OLD, my_aru=1))
    assert ring.ending.deliver_memb == {2}
    recovery.next_old_messages(9, len)
    for _ in range(2):
        assert ring.ending.deliver_memb == {2}
        recovery.count_visit(RegularToken(NEW, seq=1), my_aru=1)
    assert ring.ending.received_flg
    assert ring.ending.deliver_memb == {1, 2, 3}


def test_a_promise_of_an_earlier_pass_is_kept_when_a_later_one_fails() -> None:
    ring = old_ring(1)
    ring.ending.received_flg = True
    ring.ending.deliver_memb = frozenset([2, 3])
    recovery_of(ring, entry(1, OLD), entry(2, OLD, my_aru=1, received_flg=True, obligation={2, 3}))
    assert ring.ending.deliver_memb == {2, 3}


# -- the exchange ----------------------------------------------------------------------------


def test_an_exchanged_message_fills_a_hole_and_need_not_be_sent_again() -> None:
    ring = old_ring(1, 3)
    recovery = recovery_of(ring, entry(1, OLD), entry(2, OLD))
    recovery.take_old_message(message(OLD, 2, 1))
    recovery.take_old_message(message(OLD, 3, 1))
    assert ring.buffer.aru == 3
    assert list(recovery.retrans_queue) == [1]


def test_a_message_of_somebody_elses_old_ring_is_not_ours() -> None:
    ring = old_ring()
    recovery = recovery_of(ring, entry(1, OLD), entry(2, OLD), entry(5, OTHER))
    recovery.take_old_message(message(OTHER, 1, 5))
    assert not ring.buffer.messages


def test_old_messages_go_in_order_as_many_as_allowed() -> None:
    recovery = recovery_of(old_ring(1, 2, 3), entry(1, OLD), entry(2, OLD))
    old, weight = recovery.next_old_messages(2, len)
    assert ([one.seq for one in old], weight) == ([1, 2], 2)
    old, weight = recovery.next_old_messages(9, len)
    assert ([one.seq for one in old], weight) == ([3], 1)
    assert recovery.next_old_messages(9, len) == ([], 0)


def test_an_old_message_takes_as_much_of_the_window_as_it_fills_datagrams() -> None:
    ring = old_ring()
    for seq in range(1, 5):
        ring.buffer.add(seq, message(OLD, seq, 1, b"wide"))
    recovery = recovery_of(ring, entry(1, OLD), entry(2, OLD))
    old, weight = recovery.next_old_messages(5, lambda packets: 3 * len(packets))
    assert ([one.seq for one in old], weight) == ([1, 2], 5)
    old, weight = recovery.next_old_messages(9, lambda packets: 3 * len(packets))
    assert ([one.seq for one in old], weight) == ([3, 4], 6)


# -- retrans_flg -----------------------------------------------------------------------------


def test_who_has_messages_to_exchange_sets_the_flag_and_resets_it_when_done() -> None:
    recovery = recovery_of(old_ring(1), entry(1, OLD), entry(2, OLD))
    token = RegularToken(NEW)
    recovery.count_visit(token, 0)
    assert (token.retrans_flg, token.retrans_setter) == (True, 2)
    recovery.next_old_messages(1, len)
    recovery.count_visit(token, 0)
    assert (token.retrans_flg, token.retrans_setter) == (False, NO_PROCESSOR)


def test_nobody_else_resets_the_flag_or_signs_it_over() -> None:
    recovery = recovery_of(old_ring(1), entry(1, OLD), entry(2, OLD))
    token = RegularToken(NEW, retrans_flg=True, retrans_setter=3)
    recovery.count_visit(token, 0)
    assert (token.retrans_flg, token.retrans_setter) == (True, 3)
    recovery.next_old_messages(1, len)
    recovery.count_visit(token, 0)
    assert (token.retrans_flg, token.retrans_setter) == (True, 3)


def test_a_ring_is_installed_two_rotations_after_everybody_has_the_exchange() -> None:
    ring = old_ring()
    recovery = recovery_of(ring, entry(1, OLD), entry(2, OLD))
    done = []
    promised = []
    for _ in range(4):
        done.append(recovery.count_visit(RegularToken(NEW, seq=5, aru=5), my_aru=5))
        promised.append(ring.ending.received_flg)
    # Visit 1: nobody has anything. 2: the exchange ended, I promise. 3: everybody has it.
    # 4: everybody knows that everybody has it.
    assert done == [False, False, False, True]
    assert promised == [False, True, True, True]
    assert recovery.install_seq == 5


def test_the_exchange_ends_where_the_token_says_not_where_i_am() -> None:
    recovery = recovery_of(old_ring(), entry(1, OLD), entry(2, OLD))
    for _ in range(2):
        recovery.count_visit(RegularToken(NEW, seq=5, aru=2, aru_id=2), my_aru=2)
    assert recovery.install_seq == 5
    assert not recovery.old.ending.received_flg
    recovery.count_visit(RegularToken(NEW, seq=6, aru=5, aru_id=2), my_aru=5)
    assert recovery.install_seq == 5
    assert recovery.old.ending.received_flg


def test_a_flag_that_comes_back_starts_the_count_afresh() -> None:
    recovery = recovery_of(old_ring(), entry(1, OLD), entry(2, OLD))
    recovery.count_visit(RegularToken(NEW), 0)
    recovery.count_visit(RegularToken(NEW, retrans_flg=True, retrans_setter=1), 0)
    assert recovery.retrans_flg_count == 0
    done = [recovery.count_visit(RegularToken(NEW), 0) for _ in range(4)]
    assert done == [False, False, False, True]


def test_an_aru_short_of_the_end_holds_installation_up() -> None:
    recovery = recovery_of(old_ring(), entry(1, OLD), entry(2, OLD))
    arus = [5, 5, 5, 4, 5, 5]
    done = [recovery.count_visit(RegularToken(NEW, seq=5, aru=aru), 5) for aru in arus]
    assert done == [False, False, False, False, False, True]


# -- closing the old ring --------------------------------------------------------------------


def closing(
    ring: Ring, high_ring_delivered: int = 0, trans_memb: tuple[int, ...] = (2, 3)
) -> list[Effect]:
    return close_ring(ring, trans_memb, high_ring_delivered, NEW, (1, 2, 3), "token loss")


def test_the_regular_part_ends_at_the_first_safe_message_not_known_safe() -> None:
    ring = old_ring(1, 2, 3, 4, 5, safe=(2, 4))
    ring.high_delivered = 1
    story = told(closing(ring, high_ring_delivered=2))
    assert story == [
        2,
        3,
        ("transitional", RingId(14, 2), (2, 3)),
        4,
        5,
        ("regular", NEW, (1, 2, 3)),
    ]


def test_the_regular_part_ends_at_a_hole() -> None:
    story = told(closing(old_ring(1, 3), high_ring_delivered=9))
    assert story[:2] == [1, ("transitional", RingId(14, 2), (2, 3))]


def test_behind_a_gap_only_obligated_senders_are_delivered() -> None:
    ring = old_ring(1, 3, 4, 5, senders={1: 1, 3: 1, 4: 2, 5: 3})
    ring.ending.deliver_memb = frozenset([2, 3])
    effects = closing(ring)
    assert [one.seq for one in ordered(effects)] == [1, 4, 5]
    gaps = [one.after_gap for one in effects if isinstance(one, Deliver)]
    assert gaps == [False, True, True]


def test_without_a_gap_a_departed_senders_messages_are_delivered_too() -> None:
    ring = old_ring(1, 2, 3, safe=(2,), senders={1: 4, 2: 4, 3: 4})
    ring.ending.deliver_memb = frozenset([2])
    assert [one.seq for one in ordered(closing(ring))] == [1, 2, 3]


def test_each_message_is_delivered_in_its_configuration() -> None:
    effects = closing(old_ring(1, 2, safe=(2,)))
    where = [one.conf_id for one in effects if isinstance(one, Deliver)]
    assert where == [OLD, RingId(14, 2)]
    assert all(one.ring_id == OLD for one in ordered(effects))


def test_both_configurations_are_delivered_even_if_nothing_else_is() -> None:
    effects = closing(old_ring(), trans_memb=(2,))
    assert told(effects) == [("transitional", RingId(14, 2), (2,)), ("regular", NEW, (1, 2, 3))]
    changes = [one.configuration for one in effects if isinstance(one, Install)]
    assert [one.prev_id for one in changes] == [OLD, RingId(14, 2)]
    assert {one.cause for one in changes} == {"token loss"}


def test_a_promise_is_kept_by_one_who_ends_up_alone() -> None:
    # {1,2,3,4} splits; 2 and 3 promised each other, 3 installed, 2 lost the token. Its peers'
    # messages behind a hole of 1's must be delivered by 2, in a configuration of itself alone.
    ring = old_ring(2, 3, 4, senders={2: 3, 3: 1, 4: 2})
    first = recovery_of(ring, entry(2, OLD), entry(3, OLD))
    first.next_old_messages(9, len)
    for _ in range(2):
        first.count_visit(RegularToken(NEW), 0)
    assert ring.ending.deliver_memb == {2, 3}
    again = Recovery(
        CommitToken(RingId(20, 1), [entry(1, NEW), _entry_again(ring)], rotation=2), ring
    )
    effects = again.closing("join")
    assert [one.seq for one in ordered(effects)] == [2, 4]
    assert again.trans_memb == (2,)


def _entry_again(ring: Ring) -> MembEntry:
    owed = set(ring.ending.deliver_memb)
    return entry(2, OLD, received_flg=ring.ending.received_flg, obligation=owed)
