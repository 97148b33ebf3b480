"""Which lives must have been, though there is no trace of them.

Traces are deleted to make room, not all are given, a daemon may have run without one. What a life
did of which there is nothing is unknown, and no error of those whose traces are there. That it was
follows from two things: somebody delivered what it sent, or was in a ring with its node. It is only
inferred where the lives that are there leave room for it. Ring ids rise at a node, over its
restarts too, and a ring is installed by one life of it; so a node that has a life going on around a
ring had no other one in it, and what was said there of its other lives remains an error. In a
broadcast domain a view comes about when all have published that they agree; who failed while it
agreed may be in a view that it never installed, and that the others leave without it.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, final

from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.sim.history import Aux, History, Life, LifeId


def absent_lives(history: History) -> list[LifeId]:
    """Return the lives that were and are not there, each where it fits among its node's."""
    known = _Known(history)
    for life in history.lives.values():
        for key in _absent_senders(life, known):
            known.add(Life(*key))
    for life in history.lives.values():
        for conf in life.confs:
            if not conf.transitional:
                for node in conf.members:
                    known.infer_member(node, conf.conf_id)
    return sorted(key for key in known.lives if key not in history.lives)


@final
class _Known:
    """The lives that are known of: those that are there, and those that were inferred."""

    def __init__(self, history: History) -> None:
        self.lives: Final = dict(history.lives)
        self._by_node: Final[dict[ProcessorId, list[Life]]] = {}
        self.installed: Final[set[tuple[ProcessorId, RingId]]] = set()
        self._agreed: Final[set[tuple[ProcessorId, str]]] = set()
        self._agreeing: Final[set[LifeId]] = set()  # who ended while they agreed on a view
        self._stayed: Final[set[tuple[ProcessorId, RingId]]] = set()  # who was with others after it
        for life in history.lives.values():
            self.add(life)
            self.installed.update((life.node, conf.conf_id) for conf in life.confs)
            for event in life.events:
                if event.etype == "state" and ("state", "commit") in event.aux:
                    self._agreed.add((life.node, dict(event.aux)["ring"]))
            if ("state", "agree") in _last_state(life):
                self._agreeing.add((life.node, life.incarnation))
            regular = [conf for conf in life.confs if not conf.transitional]
            for conf, following in pairwise(regular):
                self._stayed.update((node, conf.conf_id) for node in following.members)
            if life.ended == "quiesce" and regular:
                self._stayed.update((node, regular[-1].conf_id) for node in regular[-1].members)

    def add(self, life: Life) -> None:
        """Count in a life."""
        self.lives[life.node, life.incarnation] = life
        lives = self._by_node.setdefault(life.node, [])
        lives.append(life)
        lives.sort(key=_incarnation)

    def infer_member(self, node: ProcessorId, ring_id: RingId) -> None:
        """Add the life that was in a ring, unless one of the known may have been."""
        if (node, ring_id) in self.installed or (node, str(ring_id)) in self._agreed:
            return
        lives = self._by_node.get(node, [])
        before = [life for life in lives if life.confs and life.confs[0].conf_id < ring_id]
        after = [life for life in lives if life.confs and life.confs[0].conf_id > ring_id]
        first = before[-1].incarnation if before else 0
        last = after[0].incarnation if after else None
        if before and (
            before[-1].confs[-1].conf_id.seq >= ring_id.seq or before[-1].ended == "quiesce"
        ):
            return  # that life went on, elsewhere
        had_agreed = bool(before) and (node, before[-1].incarnation) in self._agreeing
        if had_agreed and (node, ring_id) not in self._stayed:
            return  # it ended before it was there
        for life in lives:
            is_between = first <= life.incarnation and (last is None or life.incarnation < last)
            if is_between and life.is_cut:
                return  # it may be in what is lost of that life
        if last is None:  # it came after all others
            last = lives[-1].incarnation + 2 if lives else 2
        free = (at for at in range(last - 1, first, -1) if (node, at) not in self.lives)
        incarnation = next(free, None if before else 0)
        if incarnation is not None and (node, incarnation) not in self.lives:
            self.add(Life(node, incarnation))


def _last_state(life: Life) -> Aux:
    """Return what the last change of state of a life says."""
    states = (event.aux for event in reversed(life.events) if event.etype == "state")
    return next(states, ())


def _absent_senders(life: Life, known: _Known) -> Iterator[LifeId]:
    """Yield the lives whose units a life delivered in a ring with their node."""
    spoken = {(row.unit_id.sender, row.unit_id.incarnation) for row in life.deliveries}
    strange = {key for key in spoken if key not in known.lives and key[1] > 0}
    if not strange:
        return
    for row in life.deliveries:
        key = (row.unit_id.sender, row.unit_id.incarnation)
        if key in strange and _may_have_been_in(_ring(life, row.conf_no), key[0], known):
            yield key
            strange.remove(key)


def _may_have_been_in(ring: Configuration | None, node: ProcessorId, known: _Known) -> bool:
    return (
        ring is not None
        and node in ring.members
        and (node, ring.conf_id) not in known.installed  # by a life that is there
    )


def _ring(life: Life, conf_no: int) -> Configuration | None:
    """Return a regular configuration, or the one that a transitional one ends."""
    if conf_no > 0 and life.confs[conf_no].transitional:
        conf_no -= 1
    return life.confs[conf_no] if conf_no >= 0 else None


def _incarnation(life: Life) -> int:
    return life.incarnation
