"""How each ring came about: who noticed first and why, when all had agreed, when all had it.

A change of membership begins when the first of its members leaves its ring for Gather and ends when
the last of them installs the new one. In a broadcast domain it begins when the first collects
others or gives somebody up, and nothing tells when all have agreed. What broke the old ring is not
in a history; who knows when it struck gets the time to detect it by a subtraction.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from evensong.core.ids import Configuration, ProcessorId
from evensong.sim.history import History, Life
from evensong.trace.lanes import conf_names

BEGINNING: Final = ("gather", "collect", "agree")  # the states of both engines in which one begins


class Change(NamedTuple):
    """How one regular configuration of two or more came about."""

    conf: Configuration
    cause: str  # why the first to notice left its ring
    noticed_by: ProcessorId
    noticed_us: int
    agreed_us: int  # when the first member committed to the new ring; -1: nobody tells
    installed_us: int  # when the last member installed it

    def took_us(self) -> int:
        """Return the time from the first sign to the last installation."""
        return self.installed_us - self.noticed_us


class _Way(NamedTuple):
    """A member's way into a configuration."""

    is_fresh: bool  # it had just started: it looks for others, it notices nothing
    noticed_us: int
    node: ProcessorId
    cause: str
    agreed_us: int
    installed_us: int


def changes(history: History) -> list[Change]:
    """Return the changes of a run, in the order of first installation."""
    found = []
    for conf in conf_names(history):
        ways = [way for life in history.lives.values() for way in _ways(life, conf)]
        first = min(ways)
        found.append(
            Change(
                conf,
                first.cause,
                first.node,
                first.noticed_us,
                min(way.agreed_us for way in ways),
                max(way.installed_us for way in ways),
            )
        )
    return found


def _ways(life: Life, conf: Configuration) -> Iterator[_Way]:
    cause = ""
    noticed_us = agreed_us = -1  # of the change that is under way
    for event in life.events:
        if event.etype == "state":
            state = dict(event.aux)["state"]
            if state in BEGINNING and noticed_us < 0:
                noticed_us, cause = event.t_us, event.cause
            elif state == "stable":
                noticed_us = -1  # there was nobody to join with
            elif state == "commit":
                agreed_us = event.t_us
        elif event.conf is not None and not event.conf.transitional:
            if event.conf.conf_id == conf.conf_id:
                began_us = noticed_us if noticed_us >= 0 else event.t_us
                yield _Way(cause == "start", began_us, life.node, cause, agreed_us, event.t_us)
            noticed_us = -1
