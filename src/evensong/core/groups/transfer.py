"""State transfer in one group, as one of its members sees it: who tells its state, and from where.

A member is fed the group's stream in order: views, messages, and notes (notes.py), which are
messages of the group too. It answers with steps, to be done in order, and with notes to send.
Members with equal state are *kin*; the first of them in join order is their donor.

- Who joins is *empty* and holds everything back. The donor takes a snapshot at the very place of
  the view and sends it in chunks; the empty one restores it, goes on with what it held from that
  place on, and says READY, whereby it becomes kin at one place for all.
- Where sides meet (a view of several components), every side's donor takes a snapshot at the view's
  place, the empty say so, and all hold back what follows. When whoever is in the view is covered by
  what was said, the sides are known: one alone needs nothing; of several, all snapshots go to
  `merge`, in the order of the donors in the view, at everybody, at one place. With
  `primary_wins` the side that was primary is restored instead.
- If a donor is gone, so is what it sent; the next of its kin offers again, at the place of the view
  that shows it. If members are lost while sides meet, each side takes in what it held back and
  begins again at the new view.
- If everybody in a view has said to be empty, the first begins with what it has.

What is not ordered has no place of its own. It is held, applied and left out with what it came
behind: every view has it on the same side for all who go together (layer.py), and snapshots are of
views.

Invariant: kin are equal at every place of the stream, among all who are in kin there; what is not
ordered apart, which they have alike at every view.
"""

from collections import deque
from typing import Final, assert_never, final

from evensong.core.groups.events import Cause, MemberId, View
from evensong.core.groups.notes import (
    Chunk,
    Empty,
    Key,
    Note,
    Offer,
    Place,
    Ready,
    decode_note,
    encode_note,
)
from evensong.core.groups.steps import Apply, Merge, Restore, Show, Step, Take
from evensong.core.ids import NO_RING
from evensong.errors import MalformedFrame

CHUNK_BYTES: Final = 64 * 1_024


@final
class _Said:
    """A note of somebody that waits with the messages around it."""

    __slots__ = ("note", "sender")

    def __init__(self, sender: Key, note: Ready) -> None:
        self.sender: Final = sender
        self.note: Final = note


@final
class _Incoming:
    """A snapshot that arrives."""

    __slots__ = ("chunks", "is_alone", "missing", "offer")

    def __init__(self, offer: Offer) -> None:
        self.offer: Final = offer
        self.is_alone = not offer.has_met  # no other side has state: it is all there is
        self.missing = offer.size
        self.chunks: Final[list[bytes]] = []

    def snapshot(self) -> bytes:
        """Return it, all of it."""
        assert not self.missing
        return b"".join(self.chunks)


@final
class _Outgoing:
    """A snapshot that is sent."""

    __slots__ = ("offset", "place", "snapshot")

    def __init__(self, place: Place, snapshot: bytes) -> None:
        self.place: Final = place
        self.snapshot: Final = snapshot
        self.offset = 0


@final
class _Question:
    """Who has state in a view? Everybody answers, or is answered for."""

    __slots__ = ("empty", "members", "offers", "place")

    def __init__(self, view: View) -> None:
        self.place: Final[Place] = view.view_id[:3]
        self.members: Final = [member[:3] for member in view.members]
        self.empty: Final[set[Key]] = set()
        self.offers: Final[dict[Key, Offer]] = {}

    def is_answered(self) -> bool:
        """Whether everybody in the view is accounted for."""
        covered = set(self.empty)
        for offer in self.offers.values():
            covered.update(offer.kin)
        return covered.issuperset(self.members)


@final
class Transfer:
    """One member's part in the state of one group."""

    __slots__ = (
        "_chunk_bytes",
        "_donated_to",
        "_empty",
        "_epoch",
        "_held",
        "_incoming",
        "_is_meeting",
        "_is_primary",
        "_is_ready",
        "_joined_at",
        "_last_place",
        "_me",
        "_members",
        "_notes",
        "_offers",
        "_outgoing",
        "_present",
        "_primary_wins",
        "_question",
        "_restored_at",
        "_steps",
        "_was_primary",
        "has_state",
        "kin",
        "malformed",
    )

    def __init__(
        self, me: MemberId, *, primary_wins: bool = False, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._me: Final[Key] = me[:3]
        self._primary_wins: Final = primary_wins
        self._chunk_bytes: Final = chunk_bytes
        self.has_state = False
        self.kin: list[Key] = []  # who has my state, in join order; I too, if I have one
        self.malformed = 0
        self._is_ready = False  # all kin know that I am one of them
        self._members: list[Key] = []  # of the last view that was acted on
        self._present: frozenset[Key] = frozenset()  # members of the last view that came
        self._empty: Final[set[Key]] = set()  # members that wait for our state
        self._donated_to: Final[set[Key]] = set()  # those of them that a snapshot of mine is for
        self._question: _Question | None = None
        self._is_meeting = False  # I have state, and wait for the answers
        self._epoch: Place | None = None  # of the last meeting: earlier news of it is void
        self._joined_at: Place | None = None  # what is from before is no use: I held nothing then
        self._restored_at: Place | None = None
        self._last_place: Place = (NO_RING, 0, 0)  # of what came last and has one
        self._is_primary = False  # by the last regular view
        self._was_primary = False  # by the one before
        self._held: Final[deque[tuple[Place, object]]] = deque()
        self._incoming: Final[dict[tuple[Key, Place], _Incoming]] = {}
        self._offers: Final[dict[Place, Offer]] = {}  # snapshots that are being taken
        self._outgoing: Final[deque[_Outgoing]] = deque()
        self._notes: Final[deque[bytes]] = deque()
        self._steps: Final[list[Step]] = []

    def is_live(self) -> bool:
        """Whether what comes in goes straight to the application."""
        return self.has_state and not self._is_meeting

    # -- what comes in -----------------------------------------------------------------------

    def on_view(self, view: View) -> None:
        """Take in a view of the group; the first is that of my own joining."""
        place = view.view_id[:3]
        # Who is lost may have been shown as lost by transitional views alone.
        is_loss = not view.transitional and (bool(view.left) or view.cause is Cause.NETWORK)
        is_meeting = len(view.components) > 1
        self._present = frozenset([member[:3] for member in view.members])
        self._last_place = place
        if self._joined_at is None:
            self._joined_at = place
        if not self.has_state:
            self._held.append((place, view))
            if len(view.members) == 1 and view.cause is Cause.JOIN:
                self._begin_with_mine(place)
            elif is_loss or is_meeting:
                self._ask_empty(view, is_meeting)
        elif not self._is_meeting:
            self._live_view(view, place)
            self._donate(place)
        elif is_loss or is_meeting:
            self._meet_again(view, place)
        else:
            self._held.append((place, view))

    def on_message(self, place: Place | None, message: object) -> None:
        """Take in a message of the application; one that is not ordered has no place."""
        self._last_place = place or self._last_place
        if self.is_live():
            self._steps.append(Apply(message))
        else:
            self._held.append((self._last_place, message))

    def on_note(self, sender: MemberId, place: Place, content: bytes) -> None:
        """Take in a note; mine come back to me too."""
        try:
            note = decode_note(content)
        except MalformedFrame:
            self.malformed += 1
            return
        self._last_place = place
        key: Key = sender[:3]
        if key not in self._present:
            return  # of a side that we do not see: its exchange with ours was cut short
        if isinstance(note, Ready):
            if self.is_live():
                self._on_ready(key, note)
            else:
                self._held.append((place, _Said(key, note)))
        elif isinstance(note, Empty):
            question = self._question
            if question is not None and question.place == note.place:
                question.empty.add(key)
                self._try_to_conclude(place)
        elif isinstance(note, Offer):
            self._on_offer(key, note, place)
        elif isinstance(note, Chunk):
            self._on_chunk(key, note, place)
        else:
            assert_never(note)

    def taken(self, place: Place, snapshot: bytes) -> None:
        """Take in the snapshot that a `Take` asked for."""
        offer = self._offers.pop(place, None)
        if offer is None:
            return  # sides have met since; it would be of no use
        self._say(offer._replace(size=len(snapshot)))
        if snapshot:
            self._outgoing.append(_Outgoing(place, snapshot))

    # -- what comes out ----------------------------------------------------------------------

    def drain(self) -> list[Step]:
        """Return the steps since the last time, in order."""
        steps = self._steps[:]
        self._steps.clear()
        return steps

    def next_note(self) -> bytes | None:
        """Return what to send next to the group, agreed; chunks wait until they are asked for."""
        if self._notes:
            return self._notes.popleft()
        if not self._outgoing:
            return None
        outgoing = self._outgoing[0]
        piece = outgoing.snapshot[outgoing.offset : outgoing.offset + self._chunk_bytes]
        note = Chunk(outgoing.place, outgoing.offset, piece)
        outgoing.offset += len(piece)
        if outgoing.offset == len(outgoing.snapshot):
            self._outgoing.popleft()
        return encode_note(note)

    def _say(self, note: Note) -> None:
        self._notes.append(encode_note(note))

    # -- with state --------------------------------------------------------------------------

    def _live_view(self, view: View, place: Place) -> None:
        """Show a view, and draw what follows for kin and for those who wait."""
        self._steps.append(Show(view))
        self._members = [member[:3] for member in view.members]
        gone = {member[:3] for member in view.left}.union(self.kin, self._empty)
        gone.difference_update(self._members)
        gone.update(member[:3] for member in view.left)
        self.kin = [key for key in self._members if key in self.kin and key not in gone]
        if self._me not in self.kin:
            self.kin = [self._me]
        self._empty.difference_update(gone)
        self._donated_to.intersection_update(self._empty)
        if not view.transitional:
            self._was_primary, self._is_primary = self._is_primary, view.primary
        if view.cause is Cause.JOIN and view.subject is not None and view.subject[:3] != self._me:
            self._empty.add(view.subject[:3])
        if len(view.components) > 1 and place != self._epoch:
            self._meet(view)

    def _donate(self, place: Place) -> None:
        """Offer our state to those who wait for it, if it is mine to offer."""
        if not self.has_state or self._is_meeting:
            return
        if self.kin[0] != self._me or not self._empty:
            self._donated_to.clear()
            self._outgoing.clear()
        elif self._empty - self._donated_to:
            self._donated_to.update(self._empty)
            self._take(place, has_met=False)

    def _take(self, place: Place, *, has_met: bool) -> None:
        self._offers[place] = Offer(place, has_met, self._was_primary, 0, tuple(self.kin))
        self._steps.append(Take(place))

    def _on_ready(self, key: Key, note: Ready) -> None:
        if self._epoch is not None and note.place < self._epoch:
            return
        if key == self._me:
            self._is_ready = self._is_ready or note.place == self._restored_at
        if key in self._members:
            self._empty.discard(key)
            self._donated_to.discard(key)
            self.kin = [one for one in self._members if one in self.kin or one == key]

    def _meet(self, view: View) -> None:
        """Sides have met: hold back what follows until all are known."""
        self._question = _Question(view)
        self._epoch = self._question.place
        self._incoming.clear()
        self._outgoing.clear()
        self._offers.clear()
        self._empty.clear()
        self._donated_to.clear()
        if not self._is_ready:  # nobody would answer for me
            self.has_state = False
            self.kin = []
            self._say(Empty(self._question.place))
            return
        self._is_meeting = True
        if self.kin[0] == self._me:
            self._take(self._question.place, has_met=True)

    def _meet_again(self, view: View, place: Place) -> None:
        """Members were lost while sides met: each takes in what it held, and all begin again."""
        was_primary = self._was_primary
        self._is_meeting = False
        self._question = None
        self._flush(None)
        self._is_primary = was_primary  # the view in which sides met is nobody's own
        self._live_view(view, place)
        if not self._is_meeting and self.has_state:
            self._meet(view)  # the sides are not one yet, though the network is

    # -- without -----------------------------------------------------------------------------

    def _ask_empty(self, view: View, is_meeting: bool) -> None:
        """Say that I have nothing: if nobody in the view has, the first one begins."""
        there = {member[:3] for member in view.members}
        there.difference_update([member[:3] for member in view.left])
        for key, incoming in list(self._incoming.items()):
            if is_meeting or key[0] not in there or not incoming.is_alone:
                del self._incoming[key]
        self._question = _Question(view)
        if is_meeting:
            self._epoch = self._question.place
        self._say(Empty(self._question.place))

    def _begin_with_mine(self, place: Place) -> None:
        self.has_state = True
        self._is_ready = True
        self._question = None
        self._incoming.clear()
        while self._held:  # who met or left meanwhile is of no account: nobody had state
            _, item = self._held.popleft()
            if isinstance(item, View):
                self._steps.append(Show(item))
                self._members = [member[:3] for member in item.members]
                self._is_primary = item.primary
            elif not isinstance(item, _Said):
                self._steps.append(Apply(item))
        self.kin = [self._me]
        self._empty.update(self._members)
        self._empty.discard(self._me)
        self._donate(place)

    def _on_offer(self, sender: Key, offer: Offer, place: Place) -> None:
        question = self._question
        if offer.has_met:
            if question is None or question.place != offer.place:
                return
            question.offers[sender] = offer
        elif self.has_state or self._is_stale(offer.place):
            return
        self._incoming[sender, offer.place] = _Incoming(offer)
        self._try_to_conclude(place)

    def _is_stale(self, place: Place) -> bool:
        return any(bound is not None and place < bound for bound in (self._joined_at, self._epoch))

    def _on_chunk(self, sender: Key, chunk: Chunk, place: Place) -> None:
        incoming = self._incoming.get((sender, chunk.place))
        if incoming is None:
            return
        if incoming.offer.size - incoming.missing != chunk.offset or (
            len(chunk.piece) > incoming.missing
        ):
            self.malformed += 1
            return
        incoming.chunks.append(chunk.piece)
        incoming.missing -= len(chunk.piece)
        if not incoming.missing:
            self._try_to_conclude(place)

    # -- conclusions -------------------------------------------------------------------------

    def _try_to_conclude(self, place: Place) -> None:
        """See whether what has been heard is enough to go on."""
        if not self.has_state:
            for incoming in self._incoming.values():
                if not incoming.missing and incoming.is_alone:
                    self._restore(incoming, place)
                    return
        question = self._question
        if question is None or not question.is_answered():
            return
        if not question.offers:
            self._question = None
            if question.members[0] == self._me:
                self._begin_with_mine(place)
            return
        donors = [key for key in question.members if key in question.offers]
        if len(donors) == 1:
            self._conclude_alone(question, donors[0], place)
        else:
            self._conclude_merge(question, donors, place)

    def _conclude_alone(self, question: _Question, donor: Key, place: Place) -> None:
        """One side has state: it goes on, the others restore it."""
        offer = question.offers[donor]
        incoming = self._incoming[donor, question.place]
        self._question = None
        if self._is_meeting:
            self._is_meeting = False
            self._incoming.clear()
            self._empty.update(key for key in question.members if key not in offer.kin)
            if self.kin[0] == self._me:
                self._donated_to.update(self._empty)  # what I offered is for them
            self._flush(None)
            self._donate(place)
            return
        incoming.is_alone = True
        if not incoming.missing:
            self._restore(incoming, place)

    def _conclude_merge(self, question: _Question, donors: list[Key], place: Place) -> None:
        """Several sides have state: when all of it is here, it becomes one."""
        sides = [self._incoming[donor, question.place] for donor in donors]
        if any(side.missing for side in sides):
            return
        primary = [side for side in sides if side.offer.was_primary and self._primary_wins]
        if not primary:
            self._steps.append(Merge(tuple([side.snapshot() for side in sides])))
        elif self._me not in primary[0].offer.kin:
            self._steps.append(Restore(primary[0].snapshot()))
        self.has_state = True
        self._is_ready = True
        self._is_meeting = False
        self._question = None
        self._incoming.clear()
        self._outgoing.clear()
        self.kin = list(question.members)
        self._members = list(question.members)
        self._flush(question.place)
        self._donate(place)

    def _restore(self, incoming: _Incoming, place: Place) -> None:
        offer = incoming.offer
        self._steps.append(Restore(incoming.snapshot()))
        self.has_state = True
        self._question = None
        self._incoming.clear()
        self._restored_at = offer.place
        self.kin = [*offer.kin, self._me]
        self._flush(offer.place)
        self._say(Ready(offer.place))
        self._donate(place)

    def _flush(self, since: Place | None) -> None:
        """Go on with what was held back, from a place on; a meeting among it holds the rest."""
        before: View | None = None
        while self._held and since is not None and self._held[0][0] < since:
            _, item = self._held.popleft()
            before = item if isinstance(item, View) else before
        if before is not None:
            self._steps.append(Show(before))  # its members are those of the snapshot
            self._members = [member[:3] for member in before.members]
        # Kin of other sides are no members yet: the view of the meeting is among what was held.
        there = [key for key in self._members if key in self.kin]
        self.kin = [*there, *(key for key in self.kin if key not in there)]
        while self._held and self.has_state and not self._is_meeting:
            place, item = self._held.popleft()
            if isinstance(item, View):
                kin = self.kin
                self._live_view(item, place)
                if (
                    place == since and self.has_state
                ):  # who is lost by it was lost to me, not to those I am kin of now
                    self.kin = [key for key in self._members if key in kin]
            elif isinstance(item, _Said):
                self._on_ready(item.sender, item.note)
            else:
                self._steps.append(Apply(item))
