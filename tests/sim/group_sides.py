"""Histories of clients above a broadcast domain, which the judges in memory and on Spark share.

There a frame has no place when it is sent, and each side of a partition gives it one of its own.
"""

from collections.abc import Callable
from typing import Final

from evensong.core.ids import RingId
from evensong.sim.history import History
from tests.sim.group_cases import CLEAN
from tests.sim.group_language import story


def in_a_domain(history: History) -> History:
    """Make a run of the second engine of it."""
    for life in history.lives.values():
        life.events[0] = life.events[0]._replace(aux=(("engine", "transis"),))
        life.said[:] = [said._replace(seq=0) for said in life.said]
    return history


def _parted(*, has_own_place: bool) -> History:
    """What was left to be ordered r, which parts, gets in a configuration of its own."""
    text = CLEAN.replace("say m3, m1, m2, m4,", "say m3, m1, m2, m4 at T/8,")
    history = in_a_domain(story(text))
    life = history.lives[3, 1]
    rows = life.heard[1]
    ring_id = life.confs[1].conf_id if has_own_place else rows[0].ring_id
    rows[-1] = rows[-1]._replace(ring_id=ring_id)
    return history


def _told_elsewhere(*, is_on_another_side: bool) -> History:
    """What r was told after it parted; p and q end in the view that it parts from."""
    text = CLEAN.replace("u1, ", "").replace("u2, ", "")
    text = text.replace("v1: a at 1", "m9: r.1 to a at T/20\n    v1: a at 1")
    text = text.replace("m2, m4, close", "m2, m4, say m9, m9, close")
    history = in_a_domain(story(text))
    rows = history.lives[3, 1].heard[1]
    if is_on_another_side:
        rows[-1] = rows[-1]._replace(ring_id=RingId(6, 3))
    return history


def _cause(m2: int, m4: int) -> History:
    """What p sent after it was told m2 has, on the side of r, a place of its own as m2 has."""
    text = CLEAN.replace("say m3, m1, m2, m4,", f"say m3, m1, m2 at T/{m2}, m4 at T/{m4},")
    history = in_a_domain(story(text))
    life = history.lives[3, 1]
    life.heard[1][1:] = [row._replace(ring_id=life.confs[1].conf_id) for row in life.heard[1][1:]]
    return history


# How each is made, which property it is about, and whether it breaks that.
SIDES: Final[dict[str, tuple[Callable[[], History], str, bool]]] = {
    "a place on each side": (lambda: _parted(has_own_place=True), "G4", False),
    "two places on one side": (lambda: _parted(has_own_place=False), "G4", True),
    "told on another side": (lambda: _told_elsewhere(is_on_another_side=True), "G3", False),
    "not told on its side": (lambda: _told_elsewhere(is_on_another_side=False), "G3", True),
    "its cause first on a side": (lambda: _cause(8, 10), "G8", False),
    "its cause later on a side": (lambda: _cause(10, 8), "G8", True),
}
