"""What a run of a broadcast domain was, to be told: who sent, voted for and delivered what, when.

The run is done once more, by its setup, and looked at: this observer judges nothing, so a run that
breaks a promise is told as well, up to where it broke. What happens is numbered as it happens; of
two things at one moment the lower number came first.

A processor that is alone sends to nobody, and there is nothing to vote about: of a view of one only
its beginning and its end are kept.
"""

from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple, TypeAlias, final

from evensong.core.effects import Broadcast, Deliver, Effect, Install, Service
from evensong.core.ids import Configuration, ProcessorId
from evensong.core.transis import wire
from evensong.core.transis.dag import ORDERED
from evensong.core.transis.frames import IN_GRAPH, ViewId
from evensong.core.transis.toto import ALLACK_SIZE
from evensong.core.unit import UnitId, decode_unit
from evensong.sim.history import LifeId
from evensong.sim.machine import Processor
from evensong.sim.run import Run
from evensong.sim.setup import Setup
from evensong.sim.transis.check import machine_of
from evensong.sim.transis.oracle import Round, WholeGraph, WholeNode
from evensong.sim.world import World

STARTS: Final = "starts"
FAILS: Final = "crashes"
LEAVES: Final = "leaves"
OPEN: Final = -1  # until when: it was not over at the end of the run


class Name(NamedTuple):
    """A message of the graph: whose, and its number among the sender's in a view."""

    view_id: ViewId
    proc: ProcessorId
    number: int

    def __str__(self) -> str:
        return f"p{self.proc}.{self.number}"


class Post(NamedTuple):
    """A message of the graph as its sender first transmits it."""

    serial: int
    at_us: int
    proc: ProcessorId
    name: Name
    node: WholeNode


class Receipt(NamedTuple):
    """A message that a processor delivers."""

    serial: int
    at_us: int
    proc: ProcessorId
    name: Name
    service: Service
    place: int  # in the total order; 0: it has none
    reduced: bool
    after_gap: bool  # no vote decided it: it was left when the view ended
    # Up to which numbers messages of each member were in the processor's graph; empty: the view was
    # over by then.
    inserted: tuple[int, ...]


class Entrance(NamedTuple):
    """A processor installs a view."""

    serial: int
    at_us: int
    proc: ProcessorId
    conf: Configuration


class Turn(NamedTuple):
    """A processor starts, crashes or leaves."""

    serial: int
    at_us: int
    proc: ProcessorId
    what: str


Happening: TypeAlias = Post | Receipt | Entrance | Turn


@final
class Memoir:
    """An observer of a run that keeps what its picture needs."""

    def __init__(self, *, allack: bool) -> None:
        self._allack: Final = allack
        self._serial: Final = count(1)
        self._world: World | None = None
        self._standing: Final[dict[ProcessorId, set[Name]]] = {}  # candidates there at present
        self._looks: Final[dict[ProcessorId, tuple[ViewId, list[tuple[int, int]]]]] = {}
        self._votes: Final[dict[Name, dict[ProcessorId, Name]]] = {}  # those that were asked for
        self._number_by_unit: Final[dict[tuple[ViewId, UnitId], Name]] = {}
        self._view_by_passage: Final[dict[ViewId, ViewId]] = {}  # by transitional configuration
        self.graphs: Final[dict[ViewId, WholeGraph]] = {}  # of the views of two and more
        self.happenings: Final[list[Happening]] = []
        self.posts: Final[dict[Name, Post]] = {}
        # When a message became a candidate at a processor, and when it ceased to be one there.
        self.candidacies: Final[dict[tuple[Name, ProcessorId], tuple[int, int]]] = {}

    # -- the observer's calls ----------------------------------------------------------------

    def began(self, processor: Processor) -> None:
        """Keep that a processor starts."""
        self._turn(processor, STARTS)
        self._standing[processor.node] = set()
        self._looks.pop(processor.node, None)

    def ended(self, processor: Processor) -> None:
        """Keep that it is over."""
        self._turn(processor, LEAVES if processor.left else FAILS)
        self._standing[processor.node] = set()

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Keep what a processor sends, delivers and installs."""
        if isinstance(effect, Broadcast):
            self._keep_datagram(processor, effect.datagram)
        elif isinstance(effect, Deliver):
            self._keep_deliveries(processor, effect)
        elif isinstance(effect, Install):
            conf = effect.configuration
            if conf.transitional:
                self._view_by_passage[conf.conf_id] = conf.prev_id
                return
            if len(conf.members) > 1:
                members = tuple((proc, 0) for proc in conf.members)
                self.graphs.setdefault(conf.conf_id, WholeGraph(conf.conf_id, members))
            entrance = Entrance(next(self._serial), self._now(), processor.node, conf)
            self.happenings.append(entrance)

    def stepped(self, processor: Processor) -> None:
        """Keep who is a candidate now."""
        view = machine_of(processor).view
        procs, view_id = view.procs, view.view_id
        node, now = processor.node, self._now()
        look = (view_id, [(one.index, one.number) for one in view.toto.candidates])
        if look == self._looks.get(node):
            return
        self._looks[node] = look
        standing = {Name(view_id, procs[at], number) for at, number in look[1]}
        before = self._standing[node]
        for name in standing - before:
            self.candidacies.setdefault((name, node), (now, OPEN))
        for name in before - standing:
            self.candidacies[name, node] = (self.candidacies[name, node][0], now)
        self._standing[node] = standing

    # -- a run's company, which does nothing -------------------------------------------------

    def board(self, world: World) -> None:
        """Get to know the clock."""
        self._world = world

    def is_quiet(self) -> bool:
        """Whether the run is over."""
        assert self._world is not None
        return self._world.is_quiet()

    def finish(self, calm_at: int) -> None:
        """Judge nothing."""

    def submitted(self) -> dict[LifeId, int]:
        """Return what every life was handed over."""
        assert self._world is not None
        return self._world.handed_over()

    def describe(self) -> str:
        """Say nothing."""
        return ""

    # -- what is asked afterwards ------------------------------------------------------------

    def votes(self, name: Name) -> dict[ProcessorId, Name]:
        """Return by which message each member voted for an ordered one: its first to follow."""
        if name not in self._votes:  # the run is over: nobody votes any more
            graph = self.graphs[name.view_id]
            numbers = [graph.vote(self.posts[name].node, at) for at in range(len(graph.procs))]
            self._votes[name] = {
                proc: Name(name.view_id, proc, number)
                for proc, number in zip(graph.procs, numbers, strict=True)
                if number
            }
        return self._votes[name]

    def heard(self, receipt: Receipt) -> list[ProcessorId]:
        """Return whose votes for a message a processor had when it delivered it."""
        return self.spoken(receipt, [receipt.name])

    def spoken(self, receipt: Receipt, candidates: Sequence[Name]) -> list[ProcessorId]:
        """Return whose votes for any of several messages a processor had at a delivery."""
        graph = self.graphs[receipt.name.view_id]
        if not receipt.inserted:
            return []
        found = set()
        for name in candidates:
            for proc, vote in self.votes(name).items():
                if receipt.inserted[graph.index_of(proc)] >= vote.number:
                    found.add(proc)
        return sorted(found)

    def rounds(self, view_id: ViewId) -> list[Round]:
        """Return every step of ToTo in a view, as all its votes decide it."""
        graph = self.graphs[view_id]
        return graph.rounds(allack=self._allack or len(graph.members) <= ALLACK_SIZE)

    def name_of(self, node: WholeNode) -> Name:
        """Return the name of a message."""
        message = node.message
        return Name(message.view_id, message.sender_id, message.number)

    def is_ordered(self, name: Name) -> bool:
        """Whether a message takes part in the total order."""
        message = self.posts[name].node.message
        return self.posts[name].node.unit_id.sender != 0 and message.service in ORDERED

    # -- keeping -----------------------------------------------------------------------------

    def _now(self) -> int:
        assert self._world is not None
        return self._world.now

    def _turn(self, processor: Processor, what: str) -> None:
        self.happenings.append(Turn(next(self._serial), self._now(), processor.node, what))

    def _keep_datagram(self, processor: Processor, datagram: bytes) -> None:
        head = wire.decode_head(datagram)
        graph = self.graphs.get(head.view_id)
        if head.kind not in IN_GRAPH or graph is None:
            return
        mode = machine_of(processor).parameters.allack
        message = wire.decode_message(datagram[wire.HEAD.size :], mode)
        name = Name(message.view_id, message.sender_id, message.number)
        if name in self.posts or graph.add(message):
            return  # a JOIN is repeated; what does not fit is the checker's affair
        node = graph.chains[graph.index_of(message.sender_id)][-1]
        post = Post(next(self._serial), self._now(), processor.node, name, node)
        self.posts[name] = post
        self._number_by_unit[message.view_id, node.unit_id] = name
        self.happenings.append(post)

    def _keep_deliveries(self, processor: Processor, delivered: Deliver) -> None:
        in_passage = delivered.conf_id in self._view_by_passage
        view_id = self._view_by_passage.get(delivered.conf_id, delivered.conf_id)
        if view_id not in self.graphs:
            return
        view = machine_of(processor).view
        inserted = tuple(view.graph.inserted) if view.view_id == view_id else ()
        for message in delivered.messages():
            name = self._number_by_unit.get((view_id, decode_unit(message.payload)))
            if name is None:
                continue  # of nobody's making: the checker tells
            self.happenings.append(
                Receipt(
                    next(self._serial),
                    self._now(),
                    processor.node,
                    name,
                    message.service,
                    message.seq,
                    in_passage and message.service is Service.SAFE,
                    delivered.after_gap,
                    inserted,
                )
            )


def recall(setup: Setup) -> tuple[Memoir, Run]:
    """Do a run again, and keep what it was."""
    assert setup.clients is None
    memoir = Memoir(allack=bool(setup.options.lansis.allack))
    return memoir, Run(setup, None, memoir, memoir)
