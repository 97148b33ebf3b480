"""EVS1.1, EVS2.3 and EVS2.4: the run replayed in causal order, configuration changes as cuts."""

from typing import Final, final

from evensong.core.ids import RingId
from evensong.sim.evs.reading import LifeReading, Reading
from evensong.sim.evs.verdict import Finding

SEND: Final = 0
CONF: Final = 1


@final
class Walk:
    """Replays the run in causal order: a delivery waits for its send.

    With `barriers`, an installation of c also waits until every life that installs c has come to
    it: this contracts the installations of one configuration into a single event, which is what
    EVS2.3 and EVS2.4 demand of them. A run whose order has a cycle gets stuck.

    A process here is a node over all its incarnations, one after the other: what an earlier life
    did happened before anything a later one does.
    """

    def __init__(self, reading: Reading, *, barriers: bool) -> None:
        self.reading: Final = reading
        self.units: Final[list[list[int]]] = []
        self.marks: Final[list[list[tuple[int, int, int]]]] = []
        self.conf_ids: Final[list[RingId]] = []
        code_by_conf: dict[RingId, int] = {}
        sent = reading.units.sends
        self.free: Final = [send is None for send in sent]  # an invented unit waits for nothing
        for node in sorted(reading.by_node):
            self.marks.append([])
            self.units.append([])
            for one in reading.by_node[node]:
                self._append(one, code_by_conf)
        self.to_come: Final = [0] * len(self.conf_ids)
        if barriers:
            for marks in self.marks:
                for _, kind, which in marks:
                    if kind == CONF:
                        self.to_come[which] += 1
        self.at: Final = [0] * len(self.units)  # deliveries done
        self.mark: Final = [0] * len(self.units)  # marks done
        self.arrived: Final = [False] * len(self.units)  # waits at the barrier of its next mark

    def _append(self, one: LifeReading, code_by_conf: dict[RingId, int]) -> None:
        offset = len(self.units[-1])
        self.units[-1].extend(one.units)
        placed: list[tuple[int, int, int, int]] = []  # pos, conf_no, kind, which
        for number, span in enumerate(one.spans):
            code = code_by_conf.setdefault(span.conf.conf_id, len(self.conf_ids))
            if code == len(self.conf_ids):
                self.conf_ids.append(span.conf.conf_id)
            placed.append((span.start, number, CONF, code))
        number_by_content = self.reading.units.number_by_content
        for send in one.life.sends:
            # Sorts directly after the installation of its configuration when both share a `pos`.
            unit = number_by_content[send.unit_id, send.digest]
            placed.append((send.pos, send.conf_no, CONF + 1, unit))
        placed.sort(key=_place)
        self.marks[-1].extend(
            (offset + min(pos, len(one.units)), CONF if kind == CONF else SEND, which)
            for pos, _, kind, which in placed
        )

    def run(self) -> bool:
        """Replay as far as it goes; return whether that is to the end."""
        waiting_for_unit: dict[int, list[int]] = {}
        waiting_for_conf: dict[int, list[int]] = {}
        ready = list(range(len(self.units)))
        while ready:
            process = ready.pop()
            units, marks, free = self.units[process], self.marks[process], self.free
            at, mark = self.at[process], self.mark[process]
            while True:
                stop = marks[mark][0] if mark < len(marks) else len(units)
                while at < stop and free[units[at]]:
                    at += 1
                if at < stop:
                    waiting_for_unit.setdefault(units[at], []).append(process)
                    break
                if mark == len(marks):
                    break
                _, kind, which = marks[mark]
                if kind == SEND:
                    free[which] = True
                    ready += waiting_for_unit.pop(which, ())
                elif self.to_come[which] > 0 and not self.arrived[process]:
                    self.to_come[which] -= 1
                    if self.to_come[which]:
                        self.arrived[process] = True
                        waiting_for_conf.setdefault(which, []).append(process)
                        break
                    ready += waiting_for_conf.pop(which, ())
                self.arrived[process] = False
                mark += 1
            self.at[process], self.mark[process] = at, mark
        return not self.stuck()

    def stuck(self) -> list[int]:
        """Return the processes that did not come to their end."""
        return [p for p, units in enumerate(self.units) if self._waits(p, units)]

    def _waits(self, process: int, units: list[int]) -> bool:
        return self.at[process] < len(units) or self.mark[process] < len(self.marks[process])

    def _next(self, process: int) -> tuple[str, int, int]:
        """Say what a stuck process waits to do, and the kind and number of what it waits for."""
        at, mark = self.at[process], self.mark[process]
        marks = self.marks[process]
        node = sorted(self.reading.by_node)[process]
        if mark < len(marks) and marks[mark][0] == at:
            which = marks[mark][2]
            return f"p{node} installs {self.conf_ids[which]}", CONF, which
        unit = self.units[process][at]
        return f"p{node} delivers {self.reading.name(unit)}", SEND, unit

    def cycle(self) -> list[str]:
        """Return the steps of a cycle, each of which has to come before the one that follows it."""
        stuck = self.stuck()
        steps: list[str] = []
        seen: dict[int, int] = {}
        process = stuck[0]
        while process not in seen:
            seen[process] = len(steps)
            text, kind, which = self._next(process)
            steps.append(text)
            process = next(
                other
                for other in stuck
                if any(mark[1] == kind and mark[2] == which for mark in self._left(other))
            )
        return list(reversed(steps[seen[process] :]))

    def _left(self, other: int) -> list[tuple[int, int, int]]:
        """Return the marks still before `other`; those it waits at itself are no help to others."""
        skip = 1 if self.arrived[other] else 0
        return self.marks[other][self.mark[other] + skip :]

    def force(self) -> None:
        """Let every stuck delivery happen: its lack of a send has been reported."""
        for process in self.stuck():
            at, mark = self.at[process], self.mark[process]
            marks = self.marks[process]
            if mark == len(marks) or at < marks[mark][0]:
                self.free[self.units[process][at]] = True


def _place(mark: tuple[int, int, int, int]) -> tuple[int, int, int]:
    return mark[:3]


def _replays(reading: Reading) -> bool:
    """Whether the run can be replayed in order, each configuration installed everywhere at once."""
    if reading.replays is None:
        reading.replays = Walk(reading, barriers=True).run()
    return reading.replays


def partial_order(reading: Reading) -> Finding:
    """EVS1.1: process order and send-before-deliver form a partial order: no cycle."""
    found = Finding("EVS1.1")
    found.checked = reading.n_deliveries + reading.n_sends
    if _replays(reading):
        return found
    walk = Walk(reading, barriers=False)
    while not walk.run():
        steps = walk.cycle()
        found.blame("before itself: " + ", then ".join([*steps, steps[0]]))
        walk.force()
    return found


def consistent_cuts(reading: Reading) -> Finding:
    """EVS2.3, EVS2.4: the installations of a configuration form one cut through the run.

    (i) with all installations of c seen as one event there is still no cycle; (ii) nothing sent in
    a configuration is delivered by a life that has left its com(c) behind.
    """
    found = Finding("EVS2.3")
    found.checked = sum(len(one.spans) for one in reading.lives)
    for one, span, unit in reading.misplaced:
        sent_in = reading.sent_in(unit)
        if any(s.conf.conf_id == sent_in for s in one.spans[: one.spans.index(span)]):
            found.blame(
                f"{one.name} delivers {reading.name(unit)} of {sent_in} in {span.conf.conf_id}, "
                f"after leaving {sent_in}",
                (one.node,),
                (reading.units.ids[unit],),
            )
    if _replays(reading):
        return found
    walk = Walk(reading, barriers=True)
    plain = Walk(reading, barriers=False)
    while not plain.run():  # cycles without any configuration are EVS1.1's business
        before = list(plain.free)
        plain.force()
        for unit, free in enumerate(plain.free):
            if free and not before[unit]:
                walk.free[unit] = True
    if not walk.run():
        steps = walk.cycle()
        found.blame("no single cut: " + ", then ".join([*steps, steps[0]]))
    return found
