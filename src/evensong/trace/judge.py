"""Extended virtual synchrony over traces, which need not be whole.

A life whose trace has no beginning, or none of its deliveries, takes part as one of which nothing
is known: whatever depends on it is unknown, never a pass. If no life has deliveries, what can be
said of configurations alone is judged.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from evensong.sim import evs
from evensong.sim.evs import Verdicts
from evensong.sim.history import History, Life, LifeId
from evensong.trace.assembly import TracedLife
from evensong.trace.parquet import history_of
from evensong.trace.spool import LEVELS

OF_CONFIGURATIONS: Final = ("TM1", "TM2", "TM4")


class Judgement(NamedTuple):
    """What a trace proves."""

    verdicts: Verdicts
    history: History
    blank: list[TracedLife]  # lives of which nothing could be used
    is_complete: bool  # no life is blank, none has a gap


def judge(lives: Iterable[TracedLife], submitted: Mapping[LifeId, int] | None = None) -> Judgement:
    """Judge the lives of one run."""
    traced = list(lives)
    blank = [one for one in traced if not one.has_beginning or one.level != LEVELS[-1]]
    if len(blank) == len(traced) and all(one.has_beginning for one in blank):
        history = History()
        for one in traced:
            history.lives[one.life.node, one.life.incarnation] = _bare(one.life)
        verdicts = evs.check(history)
        return Judgement(verdicts.only(OF_CONFIGURATIONS), history, blank, False)
    history = history_of(one for one in traced if one not in blank)
    for one in blank:
        key = (one.life.node, one.life.incarnation)
        history.lives[key] = Life(*key)  # without an end: nothing of it is known
    is_complete = not blank and not any(one.gap for one in traced)
    return Judgement(evs.check(history, submitted), history, blank, is_complete)


def _bare(life: Life) -> Life:
    """Return the configurations and states of a life, without its place among deliveries."""
    bare = Life(life.node, life.incarnation)
    bare.confs.extend(life.confs)
    bare.events.extend(event._replace(pos=0) for event in life.events)
    bare.ended = life.ended
    return bare
