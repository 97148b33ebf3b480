"""Extended virtual synchrony over traces, which need not be whole.

A life whose trace has no beginning, or none of its deliveries, takes part as one of which nothing
is known: whatever depends on it is unknown, never a pass. So does a life that must have been and
has no trace at all. If no life has deliveries, what can be said of configurations alone is judged.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from evensong.errors import BadTrace
from evensong.sim.evs import Verdicts
from evensong.sim.history import History, Life, LifeId
from evensong.sim.limits import ENGINE
from evensong.sim.rules import BY_ENGINE, Rules
from evensong.sim.setup import TOTEM
from evensong.trace.absence import absent_lives
from evensong.trace.assembly import TracedLife
from evensong.trace.parquet import history_of
from evensong.trace.spool import LEVELS

OF_CONFIGURATIONS: Final = ("TM1", "TM2", "TM4", "LM1")
OF_ORDER: Final = ("EVS5", "EVS6.1", "EVS6.2", "EVS6.3", "TG", "FIFO", "LC1", "LA1")
HOLDS: Final = "holds"
BROKEN: Final = "broken"
INCONCLUSIVE: Final = "inconclusive"


class Judgement(NamedTuple):
    """What a trace proves."""

    verdicts: Verdicts
    history: History
    blank: list[TracedLife]  # lives of which nothing could be used
    absent: list[LifeId]  # lives that must have been and are not there
    is_complete: bool  # nothing is blank, absent or deleted, and there are no gaps

    @property
    def doubts(self) -> list[str]:
        """Why this is no proof, though nothing in it is broken."""
        verdicts = self.verdicts.by_property
        messages = any(verdicts[name].n_checked for name in OF_ORDER if name in verdicts)
        levels = sorted({one.level for one in self.blank if one.level != LEVELS[-1]})
        n_cut = sum(one.level == LEVELS[-1] for one in self.blank)
        told = (
            (levels, f"messages were not traced (level {', '.join(levels)})"),
            (n_cut, f"{n_cut} lives are without their beginning"),
            (self.absent, f"{len(self.absent)} lives have no trace here"),
            (not messages and not self.blank, "nothing was delivered in what is here"),
        )
        return [doubt for is_so, doubt in told if is_so]

    @property
    def verdict(self) -> str:
        """One word for all of it."""
        if not self.verdicts.holds:
            return BROKEN
        return INCONCLUSIVE if self.doubts else HOLDS


def judge(lives: Iterable[TracedLife], submitted: Mapping[LifeId, int] | None = None) -> Judgement:
    """Judge the lives of one run."""
    traced = list(lives)
    blank = [one for one in traced if _is_blank(one)]
    has_messages = len(blank) < len(traced) or not all(one.has_beginning for one in blank)
    if has_messages:
        history = history_of(one for one in traced if one not in blank)
        for one in blank:
            key = (one.life.node, one.life.incarnation)
            history.lives[key] = Life(*key)  # without an end: nothing of it is known
    else:
        history = History()
        for one in traced:
            history.lives[one.life.node, one.life.incarnation] = _bare(one.life)
    absent = absent_lives(history)
    for key in absent:
        history.lives[key] = Life(*key)
    verdicts = _rules_of(history).judge(history, submitted if has_messages else None)
    if not has_messages:
        verdicts = verdicts.only(OF_CONFIGURATIONS)
    is_whole = not any(one.gap or one.is_late for one in traced)
    return Judgement(verdicts, history, blank, absent, is_whole and not blank and not absent)


def _rules_of(history: History) -> Rules:
    """Return what the engine of a run promises, which its starts tell."""
    starts = [event for life in history.lives.values() for event in life.events[:1]]
    engines = {dict(event.aux).get(ENGINE, TOTEM) for event in starts} or {TOTEM}
    if len(engines) > 1 or not engines <= BY_ENGINE.keys():
        raise BadTrace(f"the engines of one run are {', '.join(sorted(engines))}")
    return BY_ENGINE[engines.pop()]


def _is_blank(one: TracedLife) -> bool:
    return not one.has_beginning or one.level != LEVELS[-1] or not one.life.events


def _bare(life: Life) -> Life:
    """Return the configurations and states of a life, without its place among deliveries."""
    bare = Life(life.node, life.incarnation)
    bare.confs.extend(life.confs)
    bare.events.extend(event._replace(pos=0) for event in life.events)
    bare.ended = life.ended
    return bare
