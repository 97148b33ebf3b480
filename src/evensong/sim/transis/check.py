"""The invariants of a broadcast domain, after every step of a run.

The stepped processor is checked against the whole graph of its view (`oracle.py`), which is made of
what was transmitted. L13, that a healed network converges, is judged by the run itself; L7 by
`look_back`, when the last vote of every view has been cast.
"""

from typing import Final, NoReturn, final

from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Install,
    Ordered,
    Persist,
    Sent,
    Service,
)
from evensong.core.ids import Configuration, ProcessorId
from evensong.core.node import Node
from evensong.core.stable import FIRST_START, StableRecord, decode_record
from evensong.core.transis import wire
from evensong.core.transis.dag import ORDERED
from evensong.core.transis.frames import (
    IN_GRAPH,
    NACK,
    REGULAR,
    RETR,
    Entry,
    Message,
    Proposal,
    ViewId,
)
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.states import StateMachine
from evensong.core.unit import UnitId, decode_unit
from evensong.errors import InvariantBroken
from evensong.sim.evs.verdict import Finding
from evensong.sim.machine import Processor
from evensong.sim.transis.oracle import WholeGraph


def machine_of(processor: Processor) -> StateMachine:
    """Return the state machine of a processor that is up."""
    core = processor.core
    engine = core.engine if isinstance(core, Node) else core
    assert isinstance(engine, Lansis)
    return engine.machine


@final
class Passing:
    """What one life did in its present view, to be compared with who goes on with it."""

    __slots__ = ("conf", "counts", "own_delivered", "own_sent", "sequence", "units")

    def __init__(self, size: int) -> None:
        self.counts: Final = [0] * size  # deliveries of each member's messages but BASIC ones
        self.conf: Configuration | None = None  # the transitional configuration that ends it
        self.sequence: Final[list[tuple[UnitId, ViewId]]] = []  # ordered ones, and in what
        self.units: Final[set[tuple[UnitId, ViewId]]] = set()  # all but BASIC ones, and in what
        self.own_sent = 0
        self.own_delivered = 0


@final
class LifeNotes:
    """What is remembered of one life."""

    __slots__ = ("conf", "failed", "inserted", "joint", "passing", "record")

    def __init__(self) -> None:
        self.record: StableRecord = FIRST_START  # what its store has
        self.conf: Configuration | None = None
        self.passing = Passing(1)
        self.inserted = [0]
        self.joint: set[Entry] = set()
        self.failed: set[Entry] = set()


@final
class LansisInvariants:
    """An observer of a world that raises `InvariantBroken` at the step that breaks one."""

    def __init__(self) -> None:
        self.graphs: Final[dict[ViewId, WholeGraph]] = {}
        self.orders: Final[dict[ViewId, list[UnitId]]] = {}  # the longest that was decided
        self.allack: Final[dict[ViewId, bool]] = {}
        self.frames: Final[dict[tuple[ProcessorId, int, int], bytes]] = {}
        self.notes: Final[dict[ProcessorId, LifeNotes]] = {}
        self.processors: Final[dict[ProcessorId, Processor]] = {}
        self.lives: Final[dict[ProcessorId, int]] = {}  # the latest incarnation
        self.view_nos: Final[dict[ProcessorId, int]] = {}
        self.members: Final[dict[ViewId, tuple[ProcessorId, ...]]] = {}
        self.proposals: Final[dict[Proposal, ViewId]] = {}
        self.passages: Final[dict[tuple[ViewId, ViewId], tuple[ProcessorId, Passing]]] = {}

    # -- the observer's calls ----------------------------------------------------------------

    def began(self, processor: Processor) -> None:
        """Watch a new life."""
        node = processor.node
        if processor.incarnation <= self.lives.get(node, 0):
            self._broken("L12", node, f"incarnation {processor.incarnation} was there before")
        self.lives[node] = processor.incarnation
        self.processors[node] = processor
        self.notes[node] = LifeNotes()

    def ended(self, processor: Processor) -> None:
        """Stop watching."""
        del self.processors[processor.node]

    def effect(self, processor: Processor, effect: Effect) -> None:
        """Check what a processor just did."""
        if isinstance(effect, Broadcast):
            self._check_datagram(processor, effect.datagram)
        elif isinstance(effect, Deliver):
            for message in effect.messages():
                self._check_delivery(processor.node, effect, message)
        elif isinstance(effect, Sent):
            self.notes[processor.node].passing.own_sent += len(effect.packets)
        elif isinstance(effect, Install):
            self._check_install(processor, effect.configuration)
        elif isinstance(effect, Persist):
            self.notes[processor.node].record = decode_record(effect.record)

    def stepped(self, processor: Processor) -> None:
        """Check the processor that was stepped."""
        machine = machine_of(processor)
        if machine.view.graph.size > 1:
            self._check_graph(machine)
        self._check_sets(machine)

    # -- what a processor does ---------------------------------------------------------------

    def _check_datagram(self, processor: Processor, datagram: bytes) -> None:
        node = processor.node
        head = wire.decode_head(datagram)
        record = self.notes[node].record
        if head.view_id.seq > record.ring_seq or record.incarnation != head.incarnation:
            self._broken("L12", node, f"sends in {head.view_id} with only {record} durable")
        if head.kind in IN_GRAPH or head.kind == RETR:
            mode = machine_of(processor).parameters.allack
            self._check_message(node, wire.decode_message(datagram[wire.HEAD.size :], mode))
        elif head.kind == NACK:
            self._check_nack(node, wire.decode_nack(datagram).ranges, head.view_id)

    def _check_message(self, node: ProcessorId, message: Message) -> None:
        name = (message.sender_id, message.incarnation, message.counter)
        known = self.frames.get(name)
        if known is not None:
            if known != message.frame:
                self._broken("L2", node, f"two messages {name}")
            return
        self.frames[name] = message.frame
        if message.sender_id != node:
            self._broken("L2", node, f"sends {name} before its sender did")
        graph = self.graphs.get(message.view_id)
        if graph is None or len(graph.members) == 1:
            return
        wrong = graph.add(message)
        if wrong:
            which = "L16" if "JOIN" in wrong else "L4" if "number" in wrong else "L1"
            self._broken(which, node, f"message {name}: {wrong}")

    def _check_nack(
        self, node: ProcessorId, ranges: tuple[tuple[ProcessorId, int, int], ...], view_id: ViewId
    ) -> None:
        """What is stable anywhere is missing nowhere."""
        for other in self.processors.values():
            view = machine_of(other).view
            if view.view_id != view_id:
                continue
            for member, first, _ in ranges:
                stable = view.graph.stable[view.graph.index_by_member[member]]
                if first <= stable:
                    text = f"asks for {member}'s {first}, which is stable at {other.node}"
                    self._broken("L15", node, text)

    def _check_delivery(self, node: ProcessorId, delivered: Deliver, message: Ordered) -> None:
        notes = self.notes[node]
        conf, passing = notes.conf, notes.passing
        if conf is None or delivered.conf_id != (passing.conf or conf).conf_id:
            self._broken("L11", node, f"delivers in {delivered.conf_id} while in {conf}")
        unit_id = decode_unit(message.payload)
        passing.own_delivered += message.sender_id == node
        if message.service is Service.BASIC:
            return
        passing.units.add((unit_id, delivered.conf_id))
        if message.service in ORDERED:
            self._check_order(node, delivered, message, unit_id)
        graph = self.graphs[conf.conf_id]
        if len(graph.members) == 1:
            return
        whole = graph.by_unit.get(unit_id)
        if whole is None:
            self._broken("L5", node, f"delivers {unit_id}, which nobody sent in {conf.conf_id}")
        if passing.counts != [*map(max, passing.counts, graph.owed_before(whole))]:
            self._broken("L5", node, f"delivers {unit_id} before what is in its past")
        passing.counts[whole.index] += 1
        is_safe = message.service is Service.SAFE and passing.conf is None
        if is_safe and not graph.is_stable(whole):
            self._broken("L8", node, f"delivers {unit_id} as safe, and not everybody has it")

    def _check_order(
        self, node: ProcessorId, delivered: Deliver, message: Ordered, unit_id: UnitId
    ) -> None:
        notes = self.notes[node]
        passing = notes.passing
        assert notes.conf is not None
        passing.sequence.append((unit_id, delivered.conf_id))
        place = len(passing.sequence)
        if (message.ring_id, message.seq) != (delivered.conf_id, place):
            told = f"{message.ring_id}:{message.seq}, not {delivered.conf_id}:{place}"
            self._broken("L6", node, f"gives {unit_id} place {told}")
        if delivered.after_gap:
            return  # what is left when a view ends is ordered among those who go on together
        order = self.orders.setdefault(notes.conf.conf_id, [])
        if place > len(order):
            order.append(unit_id)
        if order[place - 1] != unit_id:
            self._broken("L6", node, f"orders {unit_id} at {place}, others {order[place - 1]}")

    def _check_install(self, processor: Processor, conf: Configuration) -> None:
        node = processor.node
        notes = self.notes[node]
        machine = machine_of(processor)
        view_id = conf.conf_id
        if view_id.seq <= self.view_nos.get(node, 0):
            self._broken("L12", node, f"installs {view_id} after {self.view_nos[node]}")
        self.view_nos[node] = view_id.seq
        if self.members.setdefault(view_id, conf.members) != conf.members:
            self._broken("L11", node, f"{conf} has members {self.members[view_id]} elsewhere")
        if conf.transitional:
            self._check_way_over(node, conf)
            return
        if notes.passing.conf is not None and conf.prev_id != notes.passing.conf.conf_id:
            self._broken("L11", node, f"installs {conf} after {notes.passing.conf}")
        if machine.passage is not None and machine.view.view_id == view_id:
            proposal = machine.passage.proposal
            if self.proposals.setdefault(proposal, view_id) != view_id:
                text = f"{proposal} came to {view_id}, elsewhere to {self.proposals[proposal]}"
                self._broken("L14", node, text)
            if notes.conf is not None:
                self._check_cut(node, notes.conf.conf_id, machine.passage.finals, notes.passing)
        if notes.conf is not None:
            self._check_passage(node, notes.conf.conf_id, view_id, notes.passing)
        if view_id not in self.graphs:
            incarnations = self._incarnations(machine, view_id, conf)
            self.graphs[view_id] = WholeGraph(view_id, incarnations)
            self.allack[view_id] = bool(machine.parameters.allack) or len(conf.members) <= 2
        notes.conf = conf
        notes.passing = Passing(len(conf.members))
        notes.inserted = [0] * len(conf.members)
        notes.joint = set()
        notes.failed = set()

    def _check_way_over(self, node: ProcessorId, conf: Configuration) -> None:
        """A transitional configuration is some of a view's members, who leave it together."""
        notes = self.notes[node]
        old = notes.conf
        if old is None or notes.passing.conf is not None or conf.prev_id != old.conf_id:
            self._broken("L11", node, f"installs {conf} while in {old}")
        if node not in conf.members or not {*conf.members} <= {*old.members}:
            self._broken("L11", node, f"{conf} is no part of {old}")
        notes.passing.conf = conf

    def _incarnations(
        self, machine: StateMachine, view_id: ViewId, conf: Configuration
    ) -> tuple[tuple[ProcessorId, int], ...]:
        if machine.view.view_id == view_id:
            return machine.view.graph.members
        return tuple((proc, 0) for proc in conf.members)  # it went on within one step

    def _check_cut(
        self, node: ProcessorId, old_id: ViewId, finals: list[Message], passing: Passing
    ) -> None:
        """Who leaves a view delivered what the finals of those who go on follow, and no more."""
        graph = self.graphs[old_id]
        if len(graph.members) == 1:
            return
        cut = graph.past_of([one for one in finals if one.view_id == old_id])
        differ = {unit_id for unit_id, _ in passing.units} ^ graph.units_in(cut)
        if differ:
            text = f"leaves {old_id} at {cut}, and differs from that in {sorted(differ)[:4]}"
            self._broken("L11", node, text)

    def _check_passage(
        self, node: ProcessorId, old_id: ViewId, new_id: ViewId, passing: Passing
    ) -> None:
        if passing.own_sent != passing.own_delivered:
            text = f"sent {passing.own_sent} in {old_id} and delivered {passing.own_delivered}"
            self._broken("L16", node, text)
        other, theirs = self.passages.setdefault((old_id, new_id), (node, passing))
        where = f"from {old_id} to {new_id}"
        if theirs.units != passing.units:
            differ = sorted(theirs.units ^ passing.units)[:4]
            self._broken("L11", node, f"{where}: delivered other messages than {other}: {differ}")
        if theirs.sequence != passing.sequence:
            both = zip(theirs.sequence, passing.sequence, strict=True)
            first = next(pair for pair in both if pair[0] != pair[1])
            self._broken("L11", node, f"{where}: {other} has {first[0]} where I have {first[1]}")

    # -- what a processor is -----------------------------------------------------------------

    def _check_graph(self, machine: StateMachine) -> None:
        node = machine.my_id
        graph = machine.view.graph
        notes = self.notes[node]
        whole = self.graphs[machine.view.view_id]
        for at, before in enumerate(notes.inserted):
            for number in range(before + 1, graph.inserted[at] + 1):
                if number > len(whole.chains[at]):
                    self._broken("L4", node, f"has {whole.procs[at]}'s {number}: never sent")
                true = whole.chains[at][number - 1]
                for member, acked in true.message.acks:
                    if acked > graph.inserted[graph.index_by_member[member]]:
                        self._broken("L1", node, f"has {true.unit_id} without {member}'s {acked}")
                mine = graph.nodes[at].get(number)
                if mine is not None and tuple(mine.past) != true.past:
                    self._broken("L3", node, f"past {mine.past}, but the graph has {true.past}")
        notes.inserted = [*graph.inserted]
        own = machine.view.my_index
        unstable = sum(
            1
            for number, one in graph.nodes[own].items()
            if one.message.kind == REGULAR and number > graph.stable[own]
        )
        w_high = machine.parameters.w_high
        if unstable > w_high or graph.window > w_high * graph.size:
            self._broken("L9", node, f"{unstable} of mine and {graph.window} in all are unstable")

    def _check_sets(self, machine: StateMachine) -> None:
        agreement = machine.agreement
        notes = self.notes[machine.my_id]
        joint, failed = agreement.joint, agreement.failed
        if not (notes.joint <= joint and notes.failed <= failed <= joint):
            self._broken("L10", machine.my_id, f"proposal shrank to {joint} without {failed}")
        if agreement.me in failed:
            self._broken("L10", machine.my_id, "gives itself up")
        if len(joint) + len(failed) != len(notes.joint) + len(notes.failed):
            notes.joint, notes.failed = set(joint), set(failed)

    # -- the whole run -----------------------------------------------------------------------

    def look_back(self) -> Finding:
        """L7: what members decided is what all votes of the view together give."""
        found = Finding("L7")
        for view_id, decided in self.orders.items():
            graph = self.graphs[view_id]
            if len(graph.members) == 1:
                continue
            found.checked += len(decided)
            at = 0
            for chosen in graph.order(allack=self.allack[view_id]):
                theirs = decided[at : at + len(chosen)]
                if theirs != chosen[: len(theirs)]:
                    break
                at += len(chosen)
            else:
                chosen, theirs = [], decided[at:]
            if theirs != chosen[: len(theirs)]:
                text = f"in {view_id} {theirs} was decided at {at}, but the votes give {chosen}"
                found.blame(text)
        return found

    def _broken(self, invariant: str, node: ProcessorId, text: str) -> NoReturn:
        raise InvariantBroken(invariant, f"processor {node}: {text}")
