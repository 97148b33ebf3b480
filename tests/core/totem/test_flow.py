"""Flow control: docs/deviations.md#repair-first tells where it is not the paper's."""

from hypothesis import given
from hypothesis.strategies import integers, lists, tuples

from evensong.core.ids import RingId
from evensong.core.totem.flow import FlowControl
from evensong.core.totem.frames import RegularToken

RING = RingId(8, 1)
PLENTY = 10_000  # of room in the receive buffers


def flow(my_trc: int = 0, my_pbl: int = 0, window: int = 50, visit: int = 17) -> FlowControl:
    control = FlowControl(window, visit)
    control.my_trc = my_trc
    control.my_pbl = my_pbl
    return control


def token(fcc: int = 0, backlog: int = 0) -> RegularToken:
    return RegularToken(RING, fcc=fcc, backlog=backlog)


def test_the_worked_example_allows_fourteen() -> None:
    control = flow(my_trc=10, my_pbl=5)
    assert control.new_max(token(40, 60), 20, PLENTY, 0, 0) == 14


def test_retransmissions_are_charged_to_the_visit_and_the_window() -> None:
    control = flow(my_trc=10, my_pbl=5)
    came = token(40, 60)
    assert control.repairs_max(came) == 17
    assert control.new_max(came, 20, PLENTY, 5, 0) == 12  # 17 a visit
    assert control.new_max(came, 20, PLENTY, 3, 10) == 7  # 20 left in the window
    control.account(came, 14, 9)
    assert (came.fcc, came.backlog) == (44, 64)
    assert (control.my_trc, control.my_pbl) == (14, 9)


def test_who_has_little_to_send_is_not_starved_by_repairs() -> None:
    # Others have a thousand waiting, I have one, and I am always the first to answer a request.
    assert flow().new_max(token(fcc=10, backlog=1_000), 1, PLENTY, 3, 0) == 1


def test_a_visit_has_its_own_limit() -> None:
    assert flow().new_max(token(), 100, PLENTY, 0, 0) == 17
    assert flow().repairs_max(token()) == 17


def test_the_window_leaves_out_what_others_sent_but_not_what_i_did() -> None:
    assert flow(my_trc=10).new_max(token(fcc=50), 100, PLENTY, 0, 0) == 10
    assert flow(my_trc=0).repairs_max(token(fcc=45)) == 5


def test_a_share_of_the_window_goes_by_backlog() -> None:
    # Half of all that waits is mine, so half of the window is, but for the limit of a visit.
    assert flow(visit=50).new_max(token(backlog=30), 30, PLENTY, 0, 0) == 25


def test_who_has_something_may_send_at_least_one() -> None:
    assert flow().new_max(token(backlog=100_000), 1, PLENTY, 0, 0) == 1


def test_who_has_nothing_sends_nothing() -> None:
    assert flow().new_max(token(), 0, PLENTY, 0, 0) == 0


def test_a_full_window_lets_nobody_send() -> None:
    assert flow().new_max(token(fcc=50), 20, PLENTY, 0, 0) == 0
    assert flow().repairs_max(token(fcc=50)) == 0


def test_the_receive_buffers_bound_new_messages() -> None:
    assert flow().new_max(token(), 20, 4, 0, 0) == 4
    assert flow().new_max(token(), 20, 0, 0, 0) == 0


def test_a_processor_without_backlog_still_repairs() -> None:
    control = flow()
    came = token(fcc=40, backlog=60)
    assert control.new_max(came, 0, PLENTY, 0, 0) == 0
    assert control.repairs_max(came) == 10


def test_new_messages_leave_room_for_requests_still_open() -> None:
    assert flow().new_max(token(fcc=40), 20, PLENTY, 2, 5) == 3


def test_counts_that_lack_my_own_cannot_be_honest() -> None:
    assert flow(my_trc=3, my_pbl=2).is_plausible(token(3, 2))
    assert not flow(my_trc=3).is_plausible(token(2, 0))
    assert not flow(my_pbl=2).is_plausible(token(0, 1))
    assert not flow().is_plausible(token(51, 0))
    assert not flow().is_plausible(token(0, 2**31))


@given(lists(tuples(integers(0, 3), integers(0, 40), integers(0, 40)), max_size=60))
def test_fcc_is_what_the_last_rotation_broadcast_and_keeps_to_the_window(
    visits: list[tuple[int, int, int]],
) -> None:
    controls = [flow(window=20, visit=9) for _ in range(4)]
    came = token()
    backlogs = [0, 0, 0, 0]
    for turn, (_, waiting, asked) in enumerate(visits):
        control = controls[turn % 4]
        assert control.is_plausible(came)
        resent = min(asked, control.repairs_max(came))
        sent = control.new_max(came, waiting, PLENTY, resent, asked - resent)
        assert 0 <= sent + resent <= 9
        control.account(came, sent + resent, waiting - min(sent, waiting))
        backlogs[turn % 4] = waiting - min(sent, waiting)
        assert came.fcc == sum(one.my_trc for one in controls) <= 20
        assert came.backlog == sum(backlogs)
