"""Rings with a bug that shows in what a trace tells of limits: too much sent, too slow, lost."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from evensong.core.core import Core, Source
from evensong.core.effects import Packet
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.sim.engines import TOTEM, Engine
from evensong.sim.faults import Calm, Crash, Partition
from evensong.sim.history import History
from evensong.sim.run import Run
from evensong.sim.setup import Options, Setup
from evensong.sim.workload import Burst

# Two sides talk; then, at the calm, they must become one ring without p3, which has crashed.
SETUP: Final = Setup(
    Options((1, 2, 3)),
    (
        Partition(30_000, ((1,), (2, 3))),
        Crash(190_000, 3),
        Calm(200_000, stay_down=(3,)),
    ),
    tuple(Burst(10_000 + number * 10_000, 1 + number % 3, 60) for number in range(18)),
)


class _Forgetful:
    """A source that hands the third packet to nobody."""

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._pulled = 0

    def backlog(self) -> int:
        return self._source.backlog()

    def weight(self, packets: Sequence[Packet]) -> int:
        return self._source.weight(packets)

    def pull(self, packets_max: int) -> list[Packet]:
        packets = self._source.pull(packets_max)
        numbered = list(enumerate(packets, self._pulled + 1))
        self._pulled += len(packets)
        return [packet for number, packet in numbered if number != 3]


def _engine(*, forgets: bool = False, **wrong: int) -> Engine:
    def make(
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> Core:
        ring = parameters._replace(**wrong)
        given = _Forgetful(source) if forgets else source
        return SingleRing(my_id, record, incarnation, ring, rng, given)

    return replace(TOTEM, make=make)


ENGINES: Final = {
    "TF1": _engine(window_size=90, messages_max=40),
    "LV-1": _engine(forgets=True),
    "LV-2": _engine(join=1_000_000, consensus=2_500_000),
    "LV-3": _engine(consensus=150_000),
}


def run_planted(property_id: str) -> History:
    """Run the ring whose bug a property is to find; nobody else is asked."""
    return Run(SETUP, ENGINES[property_id], None).history


def run_sound() -> History:
    """Run the ring as it is."""
    return Run(SETUP, TOTEM, None).history
