import pytest

from evensong.core.timer import NEVER, Timer


def test_a_timer_fires_one_period_after_its_start() -> None:
    timer = Timer(10)
    assert not timer.is_armed()
    assert timer.deadline == NEVER
    timer.start(5)
    assert timer.is_armed()
    assert not timer.is_due(14)
    assert timer.is_due(15)


def test_a_stopped_timer_does_not_fire() -> None:
    timer = Timer(10)
    timer.start(0)
    timer.stop()
    assert not timer.is_due(NEVER - 1)


def test_jitter_comes_on_top_of_the_period() -> None:
    timer = Timer(10)
    timer.start_late(5, 3)
    assert timer.deadline == 18


def test_a_period_is_positive() -> None:
    with pytest.raises(AssertionError):
        Timer(0)
