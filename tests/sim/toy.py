"""A toy engine for tests of the world: a static ring, no retransmission, no membership."""

import struct
from random import Random

from evensong.core.core import Core, Source
from evensong.core.effects import (
    Broadcast,
    Deliver,
    Effect,
    Install,
    Persist,
    Sent,
    Service,
    StateChange,
    Unicast,
)
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.stable import StableRecord, encode_record
from evensong.core.timer import Timer
from evensong.core.totem.frames import RegularMessage
from evensong.core.totem.parameters import Parameters
from evensong.sim.engines import Engine
from evensong.sim.network import Kinds

REGULAR = 1
TOKEN = 2
JOIN = 3
HEAD = struct.Struct("!BIQ")  # kind, sender, seq
RING = RingId(4, 1)


def toy_seq(datagram: bytes) -> int | None:
    return int(HEAD.unpack_from(datagram)[2]) if datagram[0] == REGULAR else None


KINDS = Kinds(
    {"regular": REGULAR, "token": TOKEN, "join": JOIN},
    frozenset([REGULAR]),
    frozenset([TOKEN]),
    toy_seq,
)


class ToyRing(Core):
    """Passes a token round a fixed ring; whoever has it broadcasts; all deliver what they hear."""

    def __init__(
        self,
        nodes: tuple[ProcessorId, ...],
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> None:
        self.nodes = nodes
        self.my_id = my_id
        self.record = record
        self.incarnation = incarnation
        self.source = source
        self.rng = rng
        self.next_id = nodes[(nodes.index(my_id) + 1) % len(nodes)]
        self.lost = Timer(parameters.token_loss)
        self.heard: list[tuple[int, bytes]] = []
        self.met: set[tuple[str, str]] = set()
        self.effects: list[Effect] = []

    def start(self, now: int) -> None:
        record = StableRecord(self.record.ring_seq + 4, self.incarnation)
        self.effects.append(Persist(encode_record(record)))
        self.effects.append(StateChange("OPERATIONAL", RING, "start", 0))
        configuration = Configuration(RING, NO_RING, self.nodes, transitional=False, cause="start")
        self.effects.append(Install(configuration))
        self.effects.append(Broadcast(HEAD.pack(JOIN, self.my_id, 0)))
        self.lost.start(now)
        if self.my_id == self.nodes[0]:
            self._visit(0, now)

    def submit(self, now: int) -> None:
        self.met.add(("OPERATIONAL", "submit"))

    def receive(self, datagram: bytes, now: int) -> None:
        kind, sender, seq = HEAD.unpack_from(datagram)
        self.heard.append((now, datagram))
        if kind == REGULAR:
            self._deliver(sender, seq, datagram[HEAD.size :])
        elif kind == TOKEN:
            self.lost.start(now)
            self._visit(seq, now)

    def _visit(self, seq: int, now: int) -> None:
        for packet in self.source.pull(5):
            seq += 1
            self.effects.append(Sent(RING, seq, [packet]))
            self.effects.append(Broadcast(HEAD.pack(REGULAR, self.my_id, seq) + packet.payload))
            self._deliver(self.my_id, seq, packet.payload)
        self.effects.append(Unicast(self.next_id, HEAD.pack(TOKEN, self.my_id, seq)))

    def _deliver(self, sender: ProcessorId, seq: int, payload: bytes) -> None:
        message = RegularMessage(sender, RING, seq, Service.AGREED, 0, 0, payload)
        self.effects.append(Deliver(RING, [message], 0, after_gap=False))

    def expire(self, now: int) -> None:
        self.lost.start(now)
        self.effects.append(StateChange("RECOVERY", RING, "token loss", 0))
        self.effects.append(Persist(encode_record(StableRecord(now, self.incarnation))))
        self.effects.append(StateChange("OPERATIONAL", RING, "recovered", 0))
        if self.my_id == self.nodes[0]:
            self._visit(10_000 + now, now)

    def leave(self, now: int) -> None:
        self.effects.append(Broadcast(HEAD.pack(JOIN, self.my_id, 1)))

    def deadline(self) -> int:
        return self.lost.deadline

    def pairs(self) -> set[tuple[str, str]]:
        return self.met

    def drain(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects


class MakeToy:
    """Makes toy rings of given processors and keeps them, by processor, for a test to look at."""

    def __init__(self, nodes: tuple[ProcessorId, ...]) -> None:
        self.nodes = nodes
        self.made: list[ToyRing] = []

    def __call__(
        self,
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> ToyRing:
        core = ToyRing(self.nodes, my_id, record, incarnation, parameters, rng, source)
        self.made.append(core)
        return core


def toy_engine(nodes: tuple[ProcessorId, ...]) -> tuple[Engine, MakeToy]:
    make = MakeToy(nodes)
    return Engine(make, KINDS), make
