"""The causal graph of a view as nobody in it sees it: whole. And the order that follows from it.

Every message is entered when its sender first transmits it. Pasts are computed from all of them,
nothing is ever forgotten, and the order is read off the final votes without asking when a part of
the graph would have been enough: what members decide on less must agree with it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.core.transis.dag import ORDERED
from evensong.core.transis.frames import JOIN, REGULAR, Message, ViewId
from evensong.core.unit import UnitId, decode_unit


@final
class WholeNode:
    """A message and its past in the whole graph."""

    __slots__ = ("index", "message", "past", "unit_id")

    def __init__(self, message: Message, index: int, past: tuple[int, ...]) -> None:
        self.message: Final = message
        self.index: Final = index
        self.past: Final = past
        self.unit_id: Final[UnitId] = decode_unit(message.payload)


class Round(NamedTuple):
    """One step of ToTo: who stood, and who of them comes next, in order."""

    candidates: list[WholeNode]
    chosen: list[WholeNode]


@final
class WholeGraph:
    """The whole graph of one view."""

    __slots__ = ("by_unit", "chains", "first_joins", "members", "procs", "regulars", "view_id")

    def __init__(self, view_id: ViewId, members: tuple[tuple[ProcessorId, int], ...]) -> None:
        self.view_id: Final = view_id
        self.members: Final = members
        self.procs: Final = [proc for proc, _ in members]
        self.chains: Final[list[list[WholeNode]]] = [[] for _ in members]
        self.first_joins: Final = [0] * len(members)  # numbers; 0: none
        # The numbers of each member's regular messages that are not BASIC, ascending.
        self.regulars: Final[list[list[int]]] = [[] for _ in members]
        self.by_unit: Final[dict[UnitId, WholeNode]] = {}

    def index_of(self, proc: ProcessorId) -> int:
        """Return a member's place."""
        return self.procs.index(proc)

    def add(self, message: Message) -> str:
        """Enter a message that its sender has just transmitted; return what is wrong with it."""
        if message.sender_id not in self.procs:
            return "sent by who is no member"
        index = self.index_of(message.sender_id)
        chain = self.chains[index]
        if message.number != len(chain) + 1:
            return f"number {message.number} after {len(chain)}"
        past = list(chain[-1].past) if chain else [0] * len(self.members)
        for member, number in message.acks:
            at = self.index_of(member)
            if number > len(self.chains[at]):
                return f"acknowledges {member}'s {number}, which does not exist"
            past = [*map(max, past, self.chains[at][number - 1].past)]
        past[index] = message.number
        node = WholeNode(message, index, tuple(past))
        chain.append(node)
        if message.kind == REGULAR:
            if self.first_joins[index]:
                return "a regular message after its sender's JOIN"
            self.by_unit[node.unit_id] = node
            if message.service is not Service.BASIC:
                self.regulars[index].append(message.number)
        elif message.kind == JOIN and not self.first_joins[index]:
            self.first_joins[index] = message.number
        return ""

    def owed_before(self, node: WholeNode) -> list[int]:
        """Return how many regular messages of each member, BASIC ones apart, are in its past."""
        return [
            bisect_right(numbers, node.past[at]) - (at == node.index)
            for at, numbers in enumerate(self.regulars)
        ]

    def past_of(self, messages: Iterable[Message]) -> list[int]:
        """Return what some messages follow, all together: the last number of each member's."""
        past = [0] * len(self.members)
        for message in messages:
            node = self.chains[self.index_of(message.sender_id)][message.number - 1]
            past = [*map(max, past, node.past)]
        return past

    def units_in(self, past: list[int]) -> set[UnitId]:
        """Return the regular messages in a past, BASIC ones apart."""
        return {
            chain[number - 1].unit_id
            for chain, numbers, last in zip(self.chains, self.regulars, past, strict=True)
            for number in numbers[: bisect_right(numbers, last)]
        }

    def is_stable(self, node: WholeNode) -> bool:
        """Whether every member has sent a countable message that follows it."""
        return all(self.vote(node, voter) for voter in range(len(self.members)))

    def _countable(self, voter: int) -> list[WholeNode]:
        chain = self.chains[voter]
        return chain[: self.first_joins[voter]] if self.first_joins[voter] else chain

    def vote(self, node: WholeNode, voter: int) -> int:
        """Return the number of a member's first countable message that follows; 0 if none does."""
        chain = self._countable(voter)
        at = bisect_left(chain, node.message.number, key=lambda one: one.past[node.index])
        return at + 1 if at < len(chain) else 0

    def order(self, *, allack: bool) -> list[list[UnitId]]:
        """Return the sets of messages in the order that all votes together give."""
        return [[one.unit_id for one in found.chosen] for found in self.rounds(allack=allack)]

    def rounds(self, *, allack: bool) -> list[Round]:
        """Return every step of ToTo, as all votes together decide it."""
        pending = [
            [
                node
                for node in chain
                if node.message.service in ORDERED and node.unit_id in self.by_unit
            ]
            for chain in self.chains
        ]
        heads = [0] * len(self.members)
        rounds: list[Round] = []
        while True:
            first = [queue[at] for queue, at in zip(pending, heads, strict=True) if at < len(queue)]
            candidates = [one for one in first if not _follows_any(one, first)]
            if not candidates:
                return rounds
            chosen = candidates if allack else self._unbeaten(candidates) or candidates
            chosen = sorted(chosen, key=lambda one: (one.index, one.message.number))
            for one in chosen:
                heads[one.index] += 1
            rounds.append(Round(candidates, chosen))

    def _unbeaten(self, candidates: list[WholeNode]) -> list[WholeNode]:
        size = len(self.members)
        votes = {one.unit_id: [self.vote(one, at) for at in range(size)] for one in candidates}
        return [
            one
            for one in candidates
            if not any(_beats(votes[other.unit_id], votes[one.unit_id]) for other in candidates)
        ]


def _beats(one: list[int], other: list[int]) -> bool:
    """Whether more than half voted for one before the other."""
    before = sum(1 for a, b in zip(one, other, strict=True) if a and (not b or a < b))
    return before > len(one) // 2


def _follows_any(node: WholeNode, others: list[WholeNode]) -> bool:
    return any(
        node.past[other.index] >= other.message.number for other in others if other is not node
    )
