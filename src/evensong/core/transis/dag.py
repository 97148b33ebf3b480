"""The causal graph of one view, as far as it has been revealed here [Transis §3].

A message enters the graph when all its direct predecessors are in it: those that it acknowledges
and its sender's previous one. What comes too early is an orphan, and what it refers to is missing.
Every node has its past as a vector: `past[q]` is the highest number of q's messages in it, so "x
follows m" is one comparison. A message is stable when every member has a message in the graph that
follows or equals it; then everybody has it, and it may be forgotten.

For stability, as for votes, only *countable* messages count: those of a sender up to its first
JOIN. What follows a JOIN may lie outside the cut at one member and inside at another.

Invariant: stable[q] <= inserted[q] <= known[q], and of others nothing is kept that is further than
AHEAD_MAX from `stable`. Whatever is inserted later follows everything that is stable now: its
sender has spoken in the graph after each of those. So the past of a message whose predecessors are
forgotten is no less than `stable`, and is exact.
"""

from typing import Final, final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.core.transis.frames import JOIN, REGULAR, Ack, Message

NO_VOTE: Final = 2**63  # later than every number
AHEAD_MAX: Final = 2**16  # nobody can be so far ahead of what everybody has
ORDERED: Final = (Service.AGREED, Service.SAFE)


@final
class Node:
    """A message in the graph."""

    __slots__ = ("index", "is_delivered", "message", "number", "past", "voters", "votes")

    def __init__(self, message: Message, index: int, past: list[int]) -> None:
        self.message: Final = message
        self.index: Final = index  # its sender's place among the members
        self.number: Final = message.number
        self.past: Final = past
        self.is_delivered = message.kind != REGULAR  # nothing to be done
        # Of an ordered message: the number of each member's first message that follows it.
        self.votes: list[int] = []
        self.voters = 0  # those who have voted, a bit each

    def follows(self, other: "Node") -> bool:
        """Whether the other is in its past, or is itself."""
        return self.past[other.index] >= other.number


@final
class Graph:
    """The graph of one view."""

    __slots__ = (
        "_first_join",
        "acked",
        "index_by_member",
        "inserted",
        "known",
        "leaves",
        "members",
        "nodes",
        "orphan_count",
        "orphans",
        "size",
        "stable",
        "window",
    )

    def __init__(self, members: tuple[tuple[ProcessorId, int], ...]) -> None:
        size = len(members)
        self.size: Final = size
        self.members: Final = members  # with their incarnations; the processors ascend
        self.index_by_member: Final = {proc: at for at, (proc, _) in enumerate(members)}
        self.inserted: Final = [0] * size  # everything of a member up to here is in the graph
        self.known: Final = [0] * size  # messages of a member up to here exist
        self.stable: Final = [0] * size
        self.nodes: Final[list[dict[int, Node]]] = [{} for _ in members]  # not yet forgotten
        self.orphans: Final[list[dict[int, Message]]] = [{} for _ in members]
        self.orphan_count = 0
        # The past of each member's latest countable message.
        self.acked: Final[list[list[int]]] = [[0] * size for _ in members]
        self.leaves: Final[dict[int, int]] = {}  # what nothing follows, by member: its number
        self.window = 0  # regular messages that are not stable
        self._first_join: Final = [0] * size

    # -- taking in ---------------------------------------------------------------------------

    def index_of(self, message: Message) -> int | None:
        """Return the sender's place among the members; None if it is no member."""
        index = self.index_by_member.get(message.sender_id)
        if index is None or self.members[index][1] != message.incarnation:
            return None
        return index

    def is_new(self, index: int, number: int) -> bool:
        """Whether the message has not been received before."""
        return number > self.inserted[index] and number not in self.orphans[index]

    def keep(self, message: Message, index: int) -> bool:
        """Let a new message wait for its predecessors; False if it refers to what cannot be."""
        known = self.known
        indices = self.index_by_member
        if message.number > self.stable[index] + AHEAD_MAX:
            return False
        for member, number in message.acks:
            if member not in indices or number > self.stable[indices[member]] + AHEAD_MAX:
                return False
        for member, number in message.acks:
            at = indices[member]
            known[at] = max(known[at], number)
        known[index] = max(known[index], message.number)
        self.orphans[index][message.number] = message
        self.orphan_count += 1
        return True

    def next_ready(self, limits: list[int] | None) -> Message | None:
        """Return an orphan whose predecessors are all in the graph, and take it out.

        `limits` bounds the numbers that may be inserted, for each member.
        """
        if not self.orphan_count:
            return None
        inserted = self.inserted
        indices = self.index_by_member
        for index, orphans in enumerate(self.orphans):
            if not orphans:
                continue
            number = inserted[index] + 1
            message = orphans.get(number)
            if message is None or (limits is not None and number > limits[index]):
                continue
            if message.kind != JOIN and self._first_join[index]:
                continue  # it has published, and must be quiet: it would be beyond every cut
            for member, acked in message.acks:
                if inserted[indices[member]] < acked:
                    break
            else:
                del orphans[number]
                self.orphan_count -= 1
                return message
        return None

    def insert(self, message: Message) -> Node:
        """Put a message into the graph."""
        index = self.index_by_member[message.sender_id]
        number = message.number
        assert number == self.inserted[index] + 1
        least = [*self.stable]  # what its predecessors followed that are forgotten
        pasts = [least]
        previous = self.nodes[index].get(number - 1)
        if previous is not None:
            pasts.append(previous.past)
        for member, acked in message.acks:
            at = self.index_by_member[member]
            assert acked <= self.inserted[at]
            followed = self.nodes[at].get(acked)
            if followed is not None:
                pasts.append(followed.past)
        past = [*map(max, *pasts)] if len(pasts) > 1 else least
        past[index] = number
        node = Node(message, index, past)
        self.nodes[index][number] = node
        self.inserted[index] = number
        self.known[index] = max(self.known[index], number)
        self._note_leaf(node)
        if message.kind == REGULAR:
            self.window += 1
        elif message.kind == JOIN and not self._first_join[index]:
            self._first_join[index] = number
        return node

    def _note_leaf(self, node: Node) -> None:
        past = node.past
        leaves = self.leaves
        for index in [at for at, number in leaves.items() if past[at] >= number]:
            del leaves[index]
        leaves[node.index] = node.number

    def is_countable(self, node: Node) -> bool:
        """Whether a message counts for votes and stability."""
        first_join = self._first_join[node.index]
        return not first_join or node.number <= first_join

    def count(self, node: Node) -> list[Node]:
        """Let a countable message count; return what has become stable by it."""
        old = self.acked[node.index]
        past = self.acked[node.index] = node.past
        stable = self.stable
        found: list[Node] = []
        for at, line in enumerate(stable):
            if old[at] == line and past[at] > line:
                break
        else:
            return found  # nobody waited for this
        for at, line in enumerate(map(min, *self.acked) if self.size > 1 else past):
            for number in range(stable[at] + 1, line + 1):
                newly = self.nodes[at][number]
                self.window -= newly.message.kind == REGULAR
                found.append(newly)
            stable[at] = line
        return found

    # -- asking ------------------------------------------------------------------------------

    def is_stable(self, node: Node) -> bool:
        """Whether everybody has it."""
        return node.number <= self.stable[node.index]

    def forget(self, node: Node) -> None:
        """Give up a message that is stable and of no further use."""
        assert node.is_delivered
        if node.number <= self.stable[node.index]:
            self.nodes[node.index].pop(node.number, None)

    def acks_of(self, index: int) -> tuple[Ack, ...]:
        """Return what a new message of this member acknowledges: the leaves, but not its own."""
        members = self.members
        return tuple(
            [(members[at][0], self.leaves[at]) for at in sorted(self.leaves) if at != index]
        )

    def held(self, index: int, number: int) -> Message | None:
        """Return a message that I can retransmit."""
        node = self.nodes[index].get(number)
        return node.message if node is not None else self.orphans[index].get(number)

    def missing(self, index: int, limit: int, ranges_max: int) -> list[tuple[int, int]]:
        """Return the numbers of a member that exist, up to a limit, and are not here: as ranges."""
        orphans = self.orphans[index]
        end = min(self.known[index], limit)
        first = self.inserted[index] + 1
        found: list[tuple[int, int]] = []
        for number in sorted(one for one in orphans if one <= end):
            if first < number:
                found.append((first, number - 1))
            first = number + 1
        if first <= end:
            found.append((first, end))
        return found[:ranges_max]

    def needed(self, failed: list[bool]) -> list[int]:
        """Return up to which number messages of each member may be inserted [rule A].

        Of a member that has not failed, all. Of one that has, what a message of one that has not
        refers to, directly or through others: whoever inserts more would deliver what others never
        see. 1. q sends a message and is cut off. 2. Some say that q has failed. 3. One of them gets
        the message, the others do not. 4. They agree on a view, in which only one has it.
        """
        limits = [
            inserted if has else NO_VOTE
            for inserted, has in zip(self.inserted, failed, strict=True)
        ]
        waiting = [
            message
            for orphans, has in zip(self.orphans, failed, strict=True)
            if not has
            for message in orphans.values()
        ]
        while waiting:
            message = waiting.pop()
            for member, number in message.acks:
                at = self.index_by_member[member]
                if limits[at] < number:
                    limit, limits[at] = limits[at], number
                    waiting += [
                        orphan for one, orphan in self.orphans[at].items() if limit < one <= number
                    ]
        return limits

    def oldest_unstable(self) -> list[int]:
        """Return the members whose acknowledgement the oldest of the unstable messages lacks."""
        for at, nodes in enumerate(self.nodes):
            number = self.stable[at] + 1
            node = nodes.get(number)
            if node is not None and node.message.kind == REGULAR:
                return [one for one, past in enumerate(self.acked) if past[at] < number]
        return []

    def is_ordered(self, node: Node) -> bool:
        """Whether a message takes part in the total order."""
        message = node.message
        return message.kind == REGULAR and message.service in ORDERED
