"""A replicated state in one group: what a library does with the steps of core/groups/transfer.py.

Messages and views of the group go in as they are told; they reach the application in the same order
and at the place where the state is ready for them. Snapshots are taken, restored and merged here.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias, assert_never, final

from evensong.core.groups.events import MemberId, OrderId, View
from evensong.core.groups.frame import BASIC
from evensong.core.groups.notes import Offer, decode_note
from evensong.core.groups.steps import Apply, Merge, Restore, Show, Take
from evensong.core.groups.transfer import Transfer
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame
from evensong.sim.groups.facts import Facts, Key, Place, broken

LOOSE: Final = b"~"  # marks what is not ordered, in a snapshot


class Heard(NamedTuple):
    """A message as a process is told it."""

    sender: MemberId
    number: int
    groups: tuple[str, ...]
    body: bytes
    order: OrderId | None  # None: it is not ordered
    conf_id: RingId
    flags: int
    reduced: bool


class ReplicatedState(Protocol):
    """What an application keeps equal at all members of a group."""

    def apply(self, heard: Heard) -> None:
        """Take in a message, as every other replica does at this place."""
        ...

    def snapshot(self) -> bytes:
        """Return all of it."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Become what a snapshot says."""
        ...

    def merge(self, snapshots: Sequence[bytes]) -> None:
        """Become what several sides' snapshots come to; everybody gets the same ones."""
        ...

    def digest(self, *, of_all: bool = True) -> int:
        """Return a number that differs where states differ, or the ordered part of them does."""
        ...


class Task(NamedTuple):
    """Something to be done to a state when everything shown before was taken in."""

    replica: "GroupReplica"
    step: Take | Restore | Merge


Shown: TypeAlias = Heard | View | Task


class GroupReplica(Protocol):
    """What a process has where a group has state: it is fed the group's stream."""

    @property
    def transfer(self) -> Transfer:
        """Who decides what is to be done."""
        ...

    @property
    def shown(self) -> list[Shown]:
        """What is for the application, in order; whoever hands it on empties it."""
        ...

    def on_view(self, view: View) -> None:
        """Take in a view of the group."""
        ...

    def on_message(self, place: Place | None, heard: Heard) -> None:
        """Take in a message to the group."""
        ...

    def on_note(self, sender: MemberId, place: Place, content: bytes) -> None:
        """Take in what a replica says to the others."""
        ...


MakeReplica: TypeAlias = Callable[[str, MemberId], GroupReplica | None]


class Moment(NamedTuple):
    """A replica at one place of the order."""

    key: Key
    kin: frozenset[Key]
    digest: int


class Moments:
    """S1: replicas that take each other for equal are equal, at every place of the order.

    What is not ordered they have taken in alike at every view.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._at: Final[dict[tuple[str, Place], list[Moment]]] = {}

    def add(self, group: str, place: Place, moment: Moment) -> None:
        """Compare a replica with those that were at this place before it."""
        there = self._at.setdefault((group, place), [])
        for other in there:
            if other.key in moment.kin and moment.key in other.kin and other.key != moment.key:
                self._facts.count("S1")
                if other.digest != moment.digest:
                    text = f"{moment.key} and {other.key} differ in group {group} at {place}"
                    broken("S1", text)
        there.append(moment)


@final
class Replica:
    """One member's state in one group, which takes everything in at once."""

    def __init__(
        self,
        group: str,
        member: MemberId,
        state: ReplicatedState,
        facts: Facts,
        moments: Moments,
        *,
        primary_wins: bool,
        chunk_bytes: int,
    ) -> None:
        self.group: Final = group
        self.key: Final[Key] = member[:3]
        self.state: Final = state
        self.transfer: Final = Transfer(member, primary_wins=primary_wins, chunk_bytes=chunk_bytes)
        self.shown: Final[list[Shown]] = []
        self._facts: Final = facts
        self._moments: Final = moments
        self._offered: Final[set[Key]] = set()  # who has begun to send me its state

    def on_view(self, view: View) -> None:
        """Take in a view of the group."""
        left = {member[:3] for member in view.left}
        if not self.transfer.has_state and left & self._offered:
            self._facts.note("donor deaths")
            self._offered.difference_update(left)
        self.transfer.on_view(view)
        self._perform(view.view_id[:3], of_all=True)

    def on_message(self, place: Place | None, heard: Heard) -> None:
        """Take in a message to the group."""
        self.transfer.on_message(place, heard)
        self._perform(place)

    def on_note(self, sender: MemberId, place: Place, content: bytes) -> None:
        """Take in what a replica says to the others."""
        if not self.transfer.has_state and is_offer(content):
            self._offered.add(sender[:3])
        self.transfer.on_note(sender, place, content)
        self._perform(place)

    def _perform(self, place: Place | None, *, of_all: bool = False) -> None:
        transfer = self.transfer
        steps = transfer.drain()
        while steps:
            for step in steps:
                if isinstance(step, Apply):
                    heard = step.message
                    assert isinstance(heard, Heard)
                    self.state.apply(heard)
                    self.shown.append(heard)
                elif isinstance(step, Show):
                    self.shown.append(step.view)
                elif isinstance(step, Take):
                    transfer.taken(step.place, self.state.snapshot())
                elif isinstance(step, Restore):
                    self._offered.clear()
                    self._facts.note("states restored")
                    self.state.restore(step.snapshot)
                elif isinstance(step, Merge):
                    self._offered.clear()
                    self._facts.note("merges of state")
                    self.state.merge(step.snapshots)
                else:
                    assert_never(step)
            steps = transfer.drain()
        if transfer.is_live() and place is not None:
            digest = self.state.digest(of_all=of_all)
            moment = Moment(self.key, frozenset(transfer.kin), digest)
            self._moments.add(self.group, place, moment)


def is_offer(content: bytes) -> bool:
    """Whether a note offers a state."""
    try:
        return isinstance(decode_note(content), Offer)
    except MalformedFrame:
        return False


@final
class Log:
    """The state that tells most about its past: which messages were applied, in which order.

    What is CAUSAL is applied as soon as it comes, so in an order of its own everywhere: it is kept
    as a set. What is BASIC is no part of a state: members need not agree on what came before a
    view.
    """

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.loose: set[bytes] = set()
        self._digest = 0

    def apply(self, heard: Heard) -> None:
        """Append a message."""
        entry = b"%d.%d.%d.%d" % (*heard.sender[:3], heard.number)
        if heard.order is not None:
            self._append(entry)
        elif not heard.flags & BASIC:
            if entry in self.loose:
                broken("S1", f"{entry.decode()} is applied twice: a snapshot had it")
            self.loose.add(entry)

    def _append(self, entry: bytes) -> None:
        self.entries.append(entry)
        self._digest = zlib.crc32(entry, self._digest)

    def snapshot(self) -> bytes:
        """Return all entries."""
        return b"\n".join([*self.entries, *(LOOSE + entry for entry in sorted(self.loose))])

    def restore(self, snapshot: bytes) -> None:
        """Have these entries."""
        self._become(split(snapshot))

    def merge(self, snapshots: Sequence[bytes]) -> None:
        """Have every side's entries once, sorted."""
        self._become(sorted({entry for snapshot in snapshots for entry in split(snapshot)}))

    def _become(self, entries: list[bytes]) -> None:
        self.entries = []
        self._digest = 0
        self.loose = {entry[1:] for entry in entries if entry.startswith(LOOSE)}
        for entry in entries:
            if not entry.startswith(LOOSE):
                self._append(entry)

    def digest(self, *, of_all: bool = True) -> int:
        """Return a hash of all entries in their order, or of those that have one."""
        loose = b" ".join(sorted(self.loose)) if of_all else b""
        return zlib.crc32(loose, self._digest)


def split(snapshot: bytes) -> list[bytes]:
    """Cut a snapshot into its entries."""
    return snapshot.split(b"\n") if snapshot else []
