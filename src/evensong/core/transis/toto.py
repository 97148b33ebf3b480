"""ToTo: one total order out of the causal graph, without messages of its own [Transis §3].

Every message of a member votes for the ordered messages that it is the member's first to follow.
A *candidate* is a pending message that follows no other. Which candidates come next is decided by
who voted for which first; the rule is such that what passes on the part of the graph that is known
here passes with the same outcome on every larger part, so all decide alike whatever they have seen.

The specification has the argument; `sim/transis/oracle.py` decides the same from the whole graph.
"""

from operator import ge, lt
from typing import Final, final

from evensong.core.transis.dag import NO_VOTE, Node

ALLACK_SIZE: Final = 2  # with so few members a majority is everybody


@final
class ToTo:
    """The order of one view's messages."""

    __slots__ = ("_allack", "_everybody", "_phi", "_size", "candidates", "pending")

    def __init__(self, size: int, *, allack: bool) -> None:
        self._size: Final = size
        self._phi: Final = size // 2  # always of the whole view, whoever has failed meanwhile
        self._allack: Final = allack or size <= ALLACK_SIZE
        self._everybody: Final = (1 << size) - 1
        self.pending: Final[list[dict[int, Node]]] = [
            {} for _ in range(size)
        ]  # by number, ascending
        self.candidates: list[Node] = []  # Invariant: no pending message precedes any of them.

    def add(self, node: Node) -> None:
        """Let a message take part in the order."""
        node.votes = [NO_VOTE] * self._size
        self.pending[node.index][node.number] = node
        if not any(node.follows(other) for other in self.candidates):
            self.candidates.append(node)

    def vote(self, node: Node, before: list[int]) -> None:
        """Count the votes of a message; `before` is what its sender's messages had followed."""
        voter, number = node.index, node.number
        for at, last in enumerate(node.past):
            pending = self.pending[at]
            if pending and before[at] < last:
                for one in range(before[at] + 1, last + 1):
                    followed = pending.get(one)
                    if followed is not None:
                        followed.votes[voter] = number
                        followed.voters |= 1 << voter

    def decide(self) -> list[Node]:
        """Return what comes next in the order; nothing if that is still open."""
        candidates = self.candidates
        if not candidates:
            return []
        known = 0
        for node in candidates:
            known |= node.voters
        # Then each member's latest message follows a candidate, so none is unknown.
        is_complete = known == self._everybody
        if self._allack:
            return self._take(candidates) if is_complete else []
        strong = [node for node in candidates if node.voters.bit_count() > self._phi]
        unbeaten = [node for node in candidates if not self._is_beaten(node, strong)]
        if not unbeaten:
            return self._take(candidates) if is_complete else []  # a voting cycle
        if not (is_complete or self._is_external(unbeaten)):
            return []
        if not all(self._is_internal(node) for node in unbeaten):
            return []
        return self._take(unbeaten)

    def _is_beaten(self, node: Node, strong: list[Node]) -> bool:
        """Whether a candidate with votes enough for that was voted for first by more than half."""
        votes, phi = node.votes, self._phi
        return any(sum(map(lt, other.votes, votes)) > phi for other in strong)

    def _is_internal(self, node: Node) -> bool:
        """Whether no known candidate can still beat it."""
        votes, voters = node.votes, node.voters
        for other in self.candidates:
            open_ = self._size - (voters | other.voters).bit_count()
            if other is not node and sum(map(lt, other.votes, votes)) + open_ > self._phi:
                return False
        return True

    def _is_external(self, unbeaten: list[Node]) -> bool:
        """Whether a candidate that is not known here would be beaten and would beat nobody."""
        counts = [node.voters.bit_count() for node in unbeaten]
        return max(counts) > self._phi and min(counts) >= self._size - self._phi

    def _take(self, chosen: list[Node]) -> list[Node]:
        """Take messages out of what is pending, and find out who is a candidate then."""
        chosen = sorted(chosen, key=_place)
        for node in chosen:
            del self.pending[node.index][node.number]
        # The first pending message of each member; a candidate follows itself alone of them.
        firsts = [next(iter(pending), NO_VOTE) for pending in self.pending]
        heads = [next(iter(pending.values())) for pending in self.pending if pending]
        self.candidates = [node for node in heads if sum(map(ge, node.past, firsts)) == 1]
        return chosen

    def take_least(self) -> list[Node]:
        """Take the first of the candidates by name: what is left when no votes can come."""
        return self._take([min(self.candidates, key=_place)]) if self.candidates else []


def _place(node: Node) -> tuple[int, int]:
    # Members are in the order of their ids, and of each there is one incarnation.
    return node.index, node.number
