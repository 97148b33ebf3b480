"""The seeded network. It carries bytes: latency, loss, duplication, reordering, cuts, clogs.

A broadcast goes to every other processor as one copy each, and every copy meets its own luck. A
link on which nothing can go wrong is `smooth` and costs one draw at most; others take the long way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappush
from itertools import count
from random import Random
from typing import Final, TypeAlias, final

from evensong.core.ids import ProcessorId
from evensong.sim.faults import EVERYBODY
from evensong.sim.machine import Processor
from evensong.sim.setup import Weather

# at_us, serial, whom it reaches, the datagram (None: a wake-up)
Entry: TypeAlias = tuple[int, int, Processor, bytes | None]

HOLD: Final = "hold"
DROP: Final = "drop"
DELAY: Final = "delay"
TWICE: Final = "twice"


def no_seq(datagram: bytes) -> int | None:
    """Read no seq: for engines whose datagrams carry none."""
    return None


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of frames of an engine: the first byte of a datagram tells them apart."""

    names: Mapping[str, int]
    regular: frozenset[int]  # handed over before a waiting token
    token: frozenset[int]
    seq_of: Callable[[bytes], int | None] = no_seq  # for rules that name a seq


@final
class Rule:
    """A directed act on chosen datagrams, for scenarios.

    It matches by kind, source and target (0: any) and, where given, by the seq inside; it skips the
    first `skip` matches and acts on the next `times`, or on every so-manieth of them.
    """

    __slots__ = ("action", "delay_us", "every", "kind", "seq", "skip", "source", "target", "times")

    def __init__(
        self,
        action: str,
        kind: int | None = None,
        source: ProcessorId = EVERYBODY,
        target: ProcessorId = EVERYBODY,
        *,
        skip: int = 0,
        times: int = 1,
        delay_us: int = 0,
        seq: int | None = None,
        every: int = 1,
    ) -> None:
        self.action: Final = action
        self.kind: Final = kind
        self.source: Final = source
        self.target: Final = target
        self.seq: Final = seq
        self.delay_us: Final = delay_us
        self.every: Final = every
        self.skip = skip + every - 1
        self.times = times  # how often it still acts

    def matches(self, source: ProcessorId, target: ProcessorId, datagram: bytes) -> bool:
        """Whether it is about this datagram on this link; the seq is not looked at."""
        return (
            (self.kind is None or self.kind == datagram[0])
            and self.source in (EVERYBODY, source)
            and self.target in (EVERYBODY, target)
        )


@final
class Link:
    """One direction between two processors."""

    __slots__ = (
        "apart",
        "base_us",
        "cut",
        "duplicate",
        "held",
        "jitter_us",
        "loss",
        "reorder",
        "reorder_us",
        "smooth",
        "source",
        "target",
    )

    def __init__(self, source: Processor, target: Processor, weather: Weather, extra: int) -> None:
        self.source: Final = source
        self.target: Final = target
        self.base_us = weather.latency_us + extra
        self.jitter_us = weather.jitter_us
        self.loss = weather.loss
        self.duplicate = weather.duplicate
        self.reorder = weather.reorder
        self.reorder_us = weather.reorder_us
        self.cut = False
        self.apart = False  # its ends are in different components
        self.held: list[bytes] | None = None  # what a clog holds back
        self.smooth = False

    def weigh(self) -> None:
        """Find out whether anything can go wrong here."""
        troubled = self.cut or self.apart or self.held is not None
        self.smooth = not (troubled or self.loss or self.duplicate or self.reorder)


@final
class Network:
    """All links of a world; it pushes arrivals into the world's heap."""

    __slots__ = (
        "_by_kind",
        "_draw",
        "_heap",
        "_kinds",
        "_links",
        "_serial",
        "_weather",
        "lost",
        "parked",
        "rules",
    )

    def __init__(
        self,
        processors: Sequence[Processor],
        weather: Weather,
        kinds: Kinds,
        rng: Random,
        heap: list[Entry],
        serial: Iterator[int] | None = None,
    ) -> None:
        self._heap: Final = heap
        self._serial: Final = serial if serial is not None else count()
        self._draw: Final = rng.random
        self._kinds: Final = kinds
        self._weather = weather  # what links return to when a fault upon them ends
        self._by_kind: dict[int, float] = {}
        for name, probability in weather.loss_by_kind:
            self._by_kind[kinds.names[name]] = probability
        self.rules: Final[list[Rule]] = []
        self.parked: Final[list[tuple[Link, bytes]]] = []  # what rules hold until released
        self.lost = 0
        self._links: Final[dict[ProcessorId, dict[ProcessorId, Link]]] = {}
        for source in processors:
            self._links[source.node] = {
                target.node: Link(source, target, weather, rng.randrange(weather.spread_us + 1))
                for target in processors
                if target is not source
            }
        self._weigh()

    def broadcast(self, source: ProcessorId, datagram: bytes, now: int) -> None:
        """Send a copy to every other processor."""
        heap = self._heap
        for link in self._links[source].values():
            if link.smooth:
                at = now + link.base_us
                if link.jitter_us:
                    at += int(self._draw() * link.jitter_us)
                heappush(heap, (at, next(self._serial), link.target, datagram))
            else:
                self._carry(link, datagram, now)

    def unicast(self, source: ProcessorId, target: ProcessorId, datagram: bytes, now: int) -> None:
        """Send one copy; to itself or to an unknown processor it is lost."""
        link = self._links[source].get(target)
        if link is None:
            self.lost += 1
        elif link.smooth:
            at = now + link.base_us
            if link.jitter_us:
                at += int(self._draw() * link.jitter_us)
            heappush(self._heap, (at, next(self._serial), link.target, datagram))
        else:
            self._carry(link, datagram, now)

    def _carry(self, link: Link, datagram: bytes, now: int) -> None:
        extra = 0
        copies = 1
        if self.rules:
            rule = self._ruling(link, datagram)
            if rule is not None:
                if rule.action == HOLD:
                    self.parked.append((link, datagram))
                    return
                if rule.action == DROP:
                    self.lost += 1
                    return
                extra = rule.delay_us
                copies += rule.action == TWICE
        draw = self._draw
        loss = link.loss
        if self._by_kind:
            loss = max(loss, self._by_kind.get(datagram[0], 0.0))
        if link.cut or link.apart or (loss and draw() < loss):
            self.lost += 1
            return
        if link.duplicate and draw() < link.duplicate:
            copies += 1
        for _ in range(copies):
            self._push(link, datagram, now + extra)

    def _push(self, link: Link, datagram: bytes, now: int) -> None:
        if link.held is not None:
            link.held.append(datagram)
            return
        at = now + link.base_us
        if link.jitter_us:
            at += int(self._draw() * link.jitter_us)
        if link.reorder and self._draw() < link.reorder:
            at += 1 + int(self._draw() * link.reorder_us)
        heappush(self._heap, (at, next(self._serial), link.target, datagram))

    def _ruling(self, link: Link, datagram: bytes) -> Rule | None:
        """Return the rule that acts on this copy; the first that matches takes it."""
        for rule in self.rules:
            if not self._is_about(rule, link, datagram):
                continue
            if rule.skip:
                rule.skip -= 1
                continue
            rule.skip = rule.every - 1
            rule.times -= 1
            if not rule.times:
                self.rules.remove(rule)
                self._weigh()
            return rule
        return None

    def add_rule(self, rule: Rule) -> None:
        """Let a directed act apply from now on."""
        self.rules.append(rule)
        for link in self.links(EVERYBODY, EVERYBODY):
            link.smooth = False

    def forget_rules(self) -> None:
        """End all directed acts but those that hold something."""
        self.rules[:] = [rule for rule in self.rules if rule.action == HOLD]
        self._weigh()

    def release(self, now: int) -> None:
        """Let go what rules have parked, in order, and forget the rules that park."""
        self.rules[:] = [rule for rule in self.rules if rule.action != HOLD]
        for link, datagram in self.parked:
            heappush(self._heap, (now + link.base_us, next(self._serial), link.target, datagram))
        self.parked.clear()
        self._weigh()

    def release_matching(self, rule: Rule, now: int) -> int:
        """Let go what is parked and matches the rule, in order; return how much."""
        gone = [parked for parked in self.parked if self._is_about(rule, *parked)]
        for link, datagram in gone:
            self.parked.remove((link, datagram))
            heappush(self._heap, (now + link.base_us, next(self._serial), link.target, datagram))
        return len(gone)

    def _is_about(self, rule: Rule, link: Link, datagram: bytes) -> bool:
        return rule.matches(link.source.node, link.target.node, datagram) and (
            rule.seq is None or self._kinds.seq_of(datagram) == rule.seq
        )

    def components(self, nodes: Sequence[ProcessorId]) -> list[tuple[ProcessorId, ...]]:
        """Return the groups of processors that can hear each other, directly or through others."""
        found: list[tuple[ProcessorId, ...]] = []
        left = sorted(nodes)
        while left:
            component = [left.pop(0)]
            for one in component:  # it grows meanwhile
                heard = [other for other in left if self._is_open(one, other)]
                component += heard
                left = [other for other in left if other not in heard] if heard else left
            found.append(tuple(sorted(component)))
        return found

    def _is_open(self, one: ProcessorId, other: ProcessorId) -> bool:
        there, back = self._links[one][other], self._links[other][one]
        return not (there.cut or there.apart or back.cut or back.apart)

    def links(self, source: ProcessorId, target: ProcessorId) -> Iterable[Link]:
        """Return the links from source to target; 0 stands for everybody."""
        for node, links in self._links.items():
            if source in (EVERYBODY, node):
                for other, link in links.items():
                    if target in (EVERYBODY, other):
                        yield link

    def _weigh(self) -> None:
        for link in self.links(EVERYBODY, EVERYBODY):
            link.weigh()
            if self.rules or self._by_kind:
                link.smooth = False

    def cut(self, source: ProcessorId, target: ProcessorId) -> None:
        """Carry nothing more from source to target."""
        for link in self.links(source, target):
            link.cut = True
        self._weigh()

    def part(self, components: Sequence[Sequence[ProcessorId]]) -> None:
        """Carry only within components; unnamed processors form one more."""
        component_by_node: dict[ProcessorId, int] = {}
        for index, members in enumerate(components):
            for node in members:
                component_by_node[node] = index
        for link in self.links(EVERYBODY, EVERYBODY):
            here = component_by_node.get(link.source.node, -1)
            link.apart = here != component_by_node.get(link.target.node, -1)
        self._weigh()

    def clog(self, source: ProcessorId, target: ProcessorId) -> None:
        """Hold back everything from source to target."""
        for link in self.links(source, target):
            if link.held is None:
                link.held = []
        self._weigh()

    def unclog(self, source: ProcessorId, target: ProcessorId, now: int) -> None:
        """Let what was held back arrive in a burst, in order."""
        for link in self.links(source, target):
            held, link.held = link.held, None
            for datagram in held or ():
                at = now + link.base_us
                heappush(self._heap, (at, next(self._serial), link.target, datagram))
        self._weigh()

    def heal(self, now: int) -> None:
        """End cuts, partitions and clogs."""
        for link in self.links(EVERYBODY, EVERYBODY):
            link.cut = link.apart = False
        self.unclog(EVERYBODY, EVERYBODY, now)

    def calm(self, now: int) -> None:
        """Carry everything, once and in time, from now on."""
        self._by_kind = {}
        self._weather = replace(self._weather, loss=0.0, duplicate=0.0, reorder=0.0)
        self.rules.clear()
        for link in self.links(EVERYBODY, EVERYBODY):
            link.loss = link.duplicate = link.reorder = 0.0
        self.heal(now)
        self.release(now)

    def set_loss(self, source: ProcessorId, target: ProcessorId, probability: float) -> None:
        """Lose so much from source to target."""
        for link in self.links(source, target):
            link.loss = probability
        self._weigh()

    def set_duplicate(self, source: ProcessorId, target: ProcessorId, probability: float) -> None:
        """Carry so much twice from source to target."""
        for link in self.links(source, target):
            link.duplicate = probability
        self._weigh()

    def set_reorder(
        self, source: ProcessorId, target: ProcessorId, probability: float, delay_us: int
    ) -> None:
        """Hold so much back from source to target, by up to `delay_us`."""
        for link in self.links(source, target):
            link.reorder = probability
            link.reorder_us = delay_us
        self._weigh()

    def restore(self, source: ProcessorId, target: ProcessorId) -> None:
        """Let links lose, repeat and reorder as the weather has it."""
        weather = self._weather
        self.set_loss(source, target, weather.loss)
        self.set_duplicate(source, target, weather.duplicate)
        self.set_reorder(source, target, weather.reorder, weather.reorder_us)
