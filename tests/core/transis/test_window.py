from itertools import pairwise

from evensong.core.transis.parameters import Parameters
from evensong.core.transis.window import BLOCKED, Window

PARAMETERS = Parameters()


def test_the_delay_grows_from_nothing_to_blocked() -> None:
    window = Window(PARAMETERS, 3)
    delays = [window.delay(unstable, 0) for unstable in range(PARAMETERS.w_high)]
    assert delays[: PARAMETERS.w_low + 1] == [0] * (PARAMETERS.w_low + 1)
    assert all(one <= other for one, other in pairwise(delays))
    assert 0 < delays[-1] < PARAMETERS.pace_max
    assert window.delay(PARAMETERS.w_high, 0) == BLOCKED


def test_the_next_message_waits_from_the_one_before() -> None:
    window = Window(PARAMETERS, 3)
    window.on_sent(1_000)
    assert window.send_at(0, 1_000) == 1_000
    assert window.send_at(40, 1_000) == 1_000 + window.delay(40, 1_000) > 1_000


def test_a_loss_halves_the_window_and_stable_messages_raise_it_again() -> None:
    window = Window(PARAMETERS, 3)
    window.on_loss()
    assert window.w_high == 32
    for _ in range(9):
        window.on_loss()
    assert window.w_high == PARAMETERS.w_low + 1  # the curve needs room
    window.on_stable(5)
    assert window.w_high == PARAMETERS.w_low + 6
    window.on_stable(1_000)
    assert window.w_high == PARAMETERS.w_high


def test_many_members_keep_two_messages_each() -> None:
    window = Window(PARAMETERS, 20)
    for _ in range(9):
        window.on_loss()
    assert window.w_high == 40


def test_who_hears_that_somebody_falls_behind_waits_a_little_for_a_while() -> None:
    window = Window(PARAMETERS, 3)
    window.on_slow(1_000)
    assert window.delay(0, 1_001) == window.delay(PARAMETERS.w_low + 1, 1_001) > 0
    assert window.delay(0, 1_000 + PARAMETERS.heartbeat) == 0
