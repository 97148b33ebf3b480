"""One agreement for faults and joins: proposals, who published them, and what they come to.

Follows the membership of [Transis §4] with one agreement where the paper has two: a fault is a join
of the present members alone. A proposal (joint, failed) only grows. Each member publishes its own
as a JOIN message; a view comes about when all who are required have published the very same. The
JOIN by which a member did is its *final*: the cut of the old view is the past of the finals.
Deviation: see docs/deviations.md#one-agreement.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import Final, final

from evensong.core.ids import PROCESSORS_MAX, ProcessorId, RingId
from evensong.core.transis.frames import Entry, Message, Proposal, ViewId
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.view import View
from evensong.core.transis.wire import ENTRIES_MAX

PUBLISHERS_MAX: Final = 2 * ENTRIES_MAX
PROPOSALS_MAX: Final = 64  # of one entry; of more, which are noise, the latest
NUMBER_STRIDE: Final = 2  # from a view to the next: one between them is for the passage
# proc:u32 incarnation:u64 counter:u64 of a final
FINAL: Final = struct.Struct("!IQQ")


def view_id_of(view_no: int, finals: Iterable[tuple[int, int, int]]) -> ViewId:
    """Return the id of a view: its number, and a hash of by which messages it was agreed on.

    The number and the least member would not do: two parts of one view that agree apart in one
    round may have both in common.
    """
    packed = b"".join([FINAL.pack(*final) for final in sorted(finals)])
    return RingId(view_no, zlib.crc32(packed) or 1)


@final
class Agreement:
    """What a processor proposes, and what it has heard others propose, in one view."""

    __slots__ = ("failed", "joint", "mates", "me", "published", "pubs")

    def __init__(self, me: Entry, mates: tuple[Entry, ...]) -> None:
        self.me: Final = me
        self.mates: Final = mates  # the members of my view, with me
        self.joint: set[Entry] = set()
        self.failed: set[Entry] = set()  # Invariant: failed < joint, and I am not in it.
        self.pubs: Final[dict[Entry, dict[Proposal, Message]]] = {}  # the first of each
        self.published: Final[list[Proposal]] = []  # mine, in order

    def begin(self, joint: Iterable[Entry], failed: Iterable[Entry]) -> None:
        """Propose for the first time in this view."""
        self.joint.update(self.mates)
        for entry in sorted(joint):
            if len(self.joint) < ENTRIES_MAX:
                self.joint.add(entry)
        self.failed.update(entry for entry in failed if entry in self.joint)

    def record(self, entry: Entry, proposal: Proposal, message: Message) -> None:
        """Keep who has published what."""
        pubs = self.pubs.get(entry)
        if pubs is None:
            if len(self.pubs) >= PUBLISHERS_MAX and entry != self.me:
                return
            pubs = self.pubs[entry] = {}
        if proposal not in pubs:
            if len(pubs) >= PROPOSALS_MAX:
                del pubs[next(iter(pubs))]
            pubs[proposal] = message

    def take_over(self, proposal: Proposal, *, is_mate: bool) -> bool:
        """Follow a required member's proposal; return whether mine has grown.

        A foreigner's word about who has failed is not taken: one lost datagram between two
        foreigners would make everybody accuse everybody.
        """
        before = len(self.joint), len(self.failed)
        joint = self.joint.union(proposal.joint)
        if len(joint) > ENTRIES_MAX:
            return False
        self.joint.update(joint)
        if is_mate:
            self.failed.update(proposal.failed)
        return (len(self.joint), len(self.failed)) != before

    def conclude(self) -> Proposal:
        """Return what to publish; whom a later life of its processor outranks has failed."""
        me = self.me
        latest: dict[int, int] = {}
        for entry in sorted(self.joint):
            latest[entry.proc] = entry.incarnation
        for entry in sorted(self.joint):
            is_past = entry.incarnation < latest[entry.proc]
            if entry != me and (is_past or entry.proc == me.proc):
                self.failed.add(entry)
        assert me not in self.failed
        return Proposal(tuple(sorted(self.joint)), tuple(sorted(self.failed)))

    def procs(self) -> tuple[tuple[ProcessorId, ...], tuple[ProcessorId, ...]]:
        """Return whom I propose, and who of them has failed.

        Of some a past life or view has; that says nothing of the present one.
        """
        proposal = self.conclude()
        required = {entry.proc for entry in proposal.required()}
        proposed = tuple(sorted({entry.proc for entry in proposal.joint}))
        return proposed, tuple([proc for proc in proposed if proc not in required])

    def current(self) -> Proposal:
        """Return what I published last."""
        return self.published[-1]

    def finals(self, proposal: Proposal) -> list[Message] | None:
        """Return by which messages all who are required published it; None if somebody has not."""
        found: list[Message] = []
        for entry in proposal.required():
            message = self.pubs.get(entry, {}).get(proposal)
            if message is None:
                return None
            found.append(message)
        return found

    def complete(self, proposal: Proposal, view: View) -> list[Message] | None:
        """Return its finals if all are here, those of my mates in the graph."""
        finals = self.finals(proposal)
        if finals is None or any(self._is_outside(one, view) for one in finals):
            return None
        procs = {one.sender_id for one in finals}  # of each the one entry that is not past
        return finals if len(procs) == len(finals) <= PROCESSORS_MAX else None

    def _is_outside(self, message: Message, view: View) -> bool:
        graph = view.graph
        index = graph.index_by_member.get(message.sender_id)
        if index is None or message.view_id != view.view_id:
            return False
        return graph.inserted[index] < message.number

    def older(self, view_id: ViewId, view: View) -> tuple[Proposal, list[Message]] | None:
        """Return an earlier proposal of mine that came to this view, if I could follow it.

        Whoever I have given up since cannot be followed.
        """
        for proposal in self.published[:-1]:
            finals = self.complete(proposal, view)
            if finals is not None and next_view_id(proposal, finals) == view_id:
                is_fit = self.failed.isdisjoint(proposal.required())
                return (proposal, finals) if is_fit else None
        return None

    def out_of_reach(self, view: View) -> list[Entry]:
        """Return the mates whose final is here and cannot be inserted: its past is lost."""
        proposal = self.current()
        found: list[Entry] = []
        for entry in proposal.required():
            message = self.pubs.get(entry, {}).get(proposal)
            if entry in self.mates and message is not None and self._is_outside(message, view):
                found.append(entry)
        return found

    def doubled(self) -> list[Entry]:
        """Return the entries of processors that are named more than once, but for each one's last.

        Nobody honest publishes a proposal by two of its entries, and none can come of it.
        """
        required = sorted(self.current().required())
        latest = {entry.proc: entry for entry in required}
        return [entry for entry in required if entry != latest[entry.proc]]

    def late(self) -> list[Entry]:
        """Return who has not agreed in time; if somebody is silent, not those who only lag."""
        proposal = self.current()
        late = [
            entry
            for entry in proposal.required()
            if entry != self.me and proposal not in self.pubs.get(entry, {})
        ]
        silent = [
            entry
            for entry in late
            if not any(theirs.joint == proposal.joint for theirs in self.pubs.get(entry, {}))
        ]
        if not silent:
            return late
        failed = self.failed.union(silent)
        return [
            entry
            for entry in late
            if entry in silent
            or not any(
                theirs.joint == proposal.joint and failed.issuperset(theirs.failed)
                for theirs in self.pubs[entry]
            )
        ]

    def mates_failed(self, procs: tuple[int, ...]) -> list[bool]:
        """Return for each member of my view whether I have given it up."""
        failed = [entry.proc for entry in self.mates if entry in self.failed]
        return [proc in failed for proc in procs]


@final
class Passage:
    """How the present view came about: what members that are late may still need."""

    __slots__ = ("_helped_at", "_parameters", "at", "finals", "proposal")

    def __init__(
        self, proposal: Proposal, finals: list[Message], at: int, parameters: Parameters
    ) -> None:
        self.proposal: Final = proposal
        self.finals: Final = finals
        self.at: Final = at  # when it was installed here
        self._parameters: Final = parameters
        self._helped_at: Final[dict[Entry, int]] = {}

    def help_for(self, entry: Entry, now: int) -> list[Message]:
        """Return the finals that a member may lack which still publishes this proposal.

        What it said before it could know is no call for help, and it is helped now and then only.
        """
        helped_at = self._helped_at.get(entry)
        if helped_at is None:
            is_early = now - self.at <= self._parameters.nack_delay
        else:
            is_early = now - helped_at < self._parameters.heartbeat // 2
        if is_early or entry not in self.proposal.required():
            return []
        self._helped_at[entry] = now
        return [one for one in self.finals if one.sender_id != entry.proc]


def next_view_id(proposal: Proposal, finals: list[Message]) -> ViewId:
    """Return the id of the view that a proposal comes to.

    The number before it is for the passage of those who come to it.
    """
    view_no = NUMBER_STRIDE + max(entry.view_no for entry in proposal.required())
    return view_id_of(view_no, _names(finals))


def passage_id(view_id: ViewId, mates: list[Message]) -> ViewId:
    """Return the id of the transitional configuration of mates who pass over to a view.

    Their finals tell them apart from others who come to the same view, and from who parts.
    """
    return view_id_of(view_id.seq - 1, _names(mates))


def _names(finals: list[Message]) -> list[tuple[int, int, int]]:
    return [(one.sender_id, one.incarnation, one.counter) for one in finals]
