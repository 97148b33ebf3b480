"""Who still heard whom when a ring ended, as far as it was written down."""

from dataclasses import dataclass, field
from typing import TypeAlias

from evensong.core.ids import ProcessorId, RingId
from evensong.why.changes import Company
from evensong.why.records import Record
from evensong.why.signs import NOT_HEARD, is_hearing

Pair: TypeAlias = tuple[ProcessorId, ProcessorId]


@dataclass(slots=True)
class Links:
    """Pairs of nodes of one ring that ended."""

    silent: dict[Pair, Record] = field(default_factory=dict)  # the first gave the second up so
    heard: dict[Pair, Record] = field(default_factory=dict)  # the first still heard the second

    def one_way_between(
        self, here: frozenset[ProcessorId], there: frozenset[ProcessorId]
    ) -> list[Pair]:
        """Return who does not hear whom across two sides, though it is heard by it."""
        return sorted(
            (deaf, heard)
            for deaf, heard in self.silent
            if (heard, deaf) in self.heard
            and (deaf, heard) not in self.heard
            and _is_across(deaf, heard, here, there)
        )

    def is_split_between(self, here: frozenset[ProcessorId], there: frozenset[ProcessorId]) -> bool:
        """Whether each of two sides gave somebody of the other up for silence."""
        return any(one in here and other in there for one, other in self.silent) and any(
            one in there and other in here for one, other in self.silent
        )

    def records_of(self, deaf: ProcessorId, heard: ProcessorId) -> tuple[Record, Record]:
        """Return what a link that works one way only is backed by."""
        return self.silent[deaf, heard], self.heard[heard, deaf]

    def silence_records(
        self, here: frozenset[ProcessorId], there: frozenset[ProcessorId]
    ) -> tuple[Record, ...]:
        """Return which records say that the two sides fell silent to each other."""
        found = [
            record
            for (one, other), record in sorted(self.silent.items())
            if _is_across(one, other, here, there)
        ]
        return tuple({(record.node, record.t_us): record for record in found}.values())


def links_of(company: Company, ring_id: RingId) -> Links:
    """Collect who heard whom from all that left a ring."""
    links = Links()
    for way in company.passages:
        if way.left.ring_id != ring_id:
            continue
        for one in way.gave_up:
            if one.cause in NOT_HEARD:
                links.silent.setdefault((way.node, one.node), one.record)
        for record in way.states:
            about = record.number("about")
            if about and is_hearing(record):
                links.heard.setdefault((way.node, about), record)
    return links


def _is_across(
    one: ProcessorId,
    other: ProcessorId,
    here: frozenset[ProcessorId],
    there: frozenset[ProcessorId],
) -> bool:
    return (one in here and other in there) or (one in there and other in here)
