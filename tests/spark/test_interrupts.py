"""Ctrl-C while Spark works, at moments that a test of the commands hardly ever meets."""

import signal
import sys
import threading
import weakref

import pytest

from evensong.spark import interrupts

FOREVER_S = 60


class Needed:
    """Something of Java's, as Python sees it."""


def test_an_interrupt_that_nobody_could_catch_comes_again() -> None:
    needed: list[Needed] = [Needed()]
    met: list[str] = []

    def is_no_longer_needed(_: object) -> None:
        met.append("the bridge tells Java so")
        signal.raise_signal(signal.SIGINT)  # Python drops what is raised here

    def work() -> None:
        needed.clear()
        met.append("the work goes on")
        threading.Event().wait(FOREVER_S)

    watched = weakref.ref(needed[0], is_no_longer_needed)
    with interrupts.as_before():
        interrupts.make_plain()
        with pytest.raises(KeyboardInterrupt):
            work()
    assert watched() is None
    assert met == ["the bridge tells Java so", "the work goes on"]


def test_other_exceptions_that_nobody_could_catch_are_told_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: told.append(it.exc_type))
    needed = Needed()
    watched = weakref.ref(needed, lambda _: 1 // 0)
    with interrupts.as_before():
        del needed
    assert watched() is None
    assert told == [ZeroDivisionError]
