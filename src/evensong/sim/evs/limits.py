"""What a run was made with, as the lives of its history tell it.

Properties that need a limit are judged by what is told, and are vacuous where nothing is.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from evensong.sim.history import Event, History, LifeId

DISTURBANCES: Final = ("start", "fault_inject", "fail", "stop")


class Limits(NamedTuple):
    """The limits of a run; None where no life tells."""

    last_us: int  # when something disturbed the run last: a start, a fault, an end
    window_size: int | None = None  # messages a rotation
    messages_max: int | None = None  # messages a visit
    settle_us: int | None = None  # from the last disturbance to everybody's final configuration
    state_us: int | None = None  # in one state of forming a ring, nothing disturbing


NAMES: Final = Limits._fields[1:]  # as they are told


def limits_told(history: History) -> Limits:
    """Return the limits that starts tell: of several values the greatest."""
    told: dict[str, int] = {}
    last_us = 0
    for life in history.lives.values():
        for event in life.events:
            if event.etype in DISTURBANCES:
                last_us = max(last_us, event.t_us)
            if event.etype == "start":
                for name, value in _numbers(event).items():
                    told[name] = max(value, told.get(name, value))
    return Limits(last_us, **{name: told[name] for name in NAMES if name in told})


def submitted_told(history: History) -> Mapping[LifeId, int]:
    """Return how many units were handed over to each life that saw the end and tells."""
    found = {}
    for key, life in history.lives.items():
        if life.ended == "quiesce":
            count = _numbers(life.events[-1]).get("submitted")
            if count is not None:
                found[key] = count
    return found


def _numbers(event: Event) -> dict[str, int]:
    return {name: int(text) for name, text in event.aux if text.isascii() and text.isdecimal()}
