"""A client process of a simulated daemon: a session, its groups, and what it still wants to say.

What it is told it takes in at once; what it says follows a little later, as from a process of its
own. Messages of the application and notes of its replicas share the session's one stream.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, final

from evensong.core.groups.events import Delivered, Error, MemberId, SessionId, View
from evensong.core.groups.frame import SAFE, UNORDERED, decode_head, encode_whole, messages_of
from evensong.core.node import Node
from evensong.sim.groups.replica import GroupReplica, Heard, MakeReplica, Shown
from evensong.sim.groups.watch import Watcher
from evensong.sim.machine import Processor

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE: Final = b"m"
QUESTION: Final = b"?"
NOTE: Final = b"n"
QUEUED_MAX: Final = 4_096  # bytes; a replica says nothing more while so many wait


class Saying(NamedTuple):
    """Messages that go out in one frame."""

    groups: tuple[str, ...]
    bodies: tuple[bytes, ...]
    flags: int = 0


@final
class Process:
    """One client."""

    def __init__(
        self,
        processor: Processor,
        user: str,
        watcher: Watcher,
        make_replica: MakeReplica,
        now: int,
    ) -> None:
        node = processor.core
        assert isinstance(node, Node)
        self.processor: Final = processor
        self.node: Final = node
        self.session: Final[SessionId] = node.open_session(user, 0, now)
        self.member: Final[MemberId] = node.groups.sessions.open[self.session].member
        self.replicas: Final[dict[str, GroupReplica]] = {}
        self.views: Final[dict[str, View]] = {}  # of the groups it is in
        self.shown: Final[deque[Shown]] = deque()  # for the application, in order
        self.questions: Final[list[Heard]] = []  # that came and are not answered yet
        self.outbox: Final[deque[Saying]] = deque()
        self.when_shown: Callable[[], None] | None = None  # told that `shown` has grown
        self.is_reading = False  # and will look soon
        self.is_waking = False  # it will say something soon
        self.is_closed = False
        self.sent = 0  # messages; their numbers are 1 .. sent
        self.errors: Final[list[Error]] = []
        self.answers_to = ""  # the group to which it answers questions, if it does
        self.ordered = 0  # messages that a receipt has come for
        self._watcher: Final = watcher
        self._facts: Final = watcher.facts
        self._make_replica: Final = make_replica
        self._sets: Final[dict[tuple[str, ...], int]] = {}
        self._shown_once: Final[set[tuple[MemberId, int]]] = set()
        # A library's notes go to a reserved name too, by which a daemon knows to send them so.
        self._note_flags: Final = SAFE if node.groups.queue.has_unordered else 0

    def is_alive(self) -> bool:
        """Whether it still has its session."""
        return not self.is_closed and self.processor.core is self.node

    # What it does

    def join(self, group: str, now: int) -> None:
        """Ask to be a member."""
        self.node.join(self.session, group, 0, now)

    def leave(self, group: str, now: int) -> None:
        """Ask to be no member any more."""
        self.node.leave_group(self.session, group, 0, now)

    def close(self, now: int) -> None:
        """End the session."""
        self.is_closed = True
        self.node.close_session(self.session, now)

    def say(self, saying: Saying, now: int) -> None:
        """Send messages in one frame."""
        groups = tuple(dict.fromkeys(saying.groups))
        set_no = self._sets.get(groups)
        if set_no is None:
            set_no = self._sets[groups] = len(self._sets)
            self.node.define_set(self.session, set_no, groups, 0)
        first_no = self.sent + 1
        self.sent += len(saying.bodies)
        stream = self._watcher.stream(self.session)
        causes = tuple(stream.since_sent)
        stream.since_sent.clear()
        flags = saying.flags
        self._facts.sent(self.member, first_no, groups, saying.bodies, flags, causes)
        if self._facts.is_loose(flags):
            self._note_seen(first_no, groups, len(saying.bodies))
        frame = encode_whole(self.session, first_no, set_no, flags, saying.bodies)
        self.node.send(self.session, frame, first_no, now)

    def _note_seen(self, first_no: int, groups: tuple[str, ...], count: int) -> None:
        """Note whom it saw in the groups that it sends to: they are promised it."""
        for number in range(first_no, first_no + count):
            message = (*self.member[:3], number)
            for group in groups:
                view = self.views.get(group)
                if view is not None:
                    self._facts.saw(message, group, view)

    def is_crowded(self) -> bool:
        """Whether so much of it waits that it had better wait, too."""
        return self.node.groups.queue.queued(self.session) > QUEUED_MAX

    def answer(self) -> None:
        """Answer the questions that came, if it is the kind that does."""
        if self.answers_to:
            self.outbox.extend(
                [
                    Saying((self.answers_to,), (MESSAGE + b"yes",), question.flags & UNORDERED)
                    for question in self.questions
                ]
            )
        self.questions.clear()

    def refuse(self, error: Error) -> None:
        """Take in that a request was refused."""
        self.errors.append(error)

    def next_saying(self) -> Saying | None:
        """Return what it wants to say next, if it may."""
        if self.outbox:
            return self.outbox.popleft()
        for group in sorted(self.replicas):
            note = self.replicas[group].transfer.next_note()
            if note is not None:
                return Saying((group,), (NOTE + note,), self._note_flags)
        return None

    # What it is told

    def hear(self, event: Delivered) -> bool:
        """Take in a frame; return whether it may have something to say now."""
        head = decode_head(event.frame)
        has_said = False
        for index, body in enumerate(messages_of(event.frame)):
            order = event.order and event.order._replace(sub=event.order.sub + index)
            place = (event.conf_id, order.seq, order.sub) if order is not None else None
            groups = event.destination.groups
            sender = event.destination.sender
            if body[:1] == NOTE:
                replica = self.replicas.get(groups[0])
                if replica is not None and place is not None:
                    replica.on_note(sender, place, body[1:])
                    self._show(replica)
                    has_said = True
                continue
            number = head.first_no + index
            heard = Heard(
                sender, number, groups, body[1:], order, event.conf_id, head.flags, event.reduced
            )
            if body[:1] == QUESTION:
                self.questions.append(heard)
            self._hear_message(heard)
        return has_said

    def _hear_message(self, heard: Heard) -> None:
        mine = [self.replicas[group] for group in heard.groups if group in self.replicas]
        if not mine:
            self.shown.append(heard)
        order = heard.order
        place = (heard.conf_id, order.seq, order.sub) if order is not None else None
        for replica in mine:
            replica.on_message(place, heard)
            self._show(replica)

    def see_view(self, view: View) -> bool:
        """Take in a view; return whether it may have something to say now."""
        self.views[view.group] = view
        replica = self.replicas.get(view.group)
        if replica is None:
            replica = self._make_replica(view.group, self.member)
            if replica is None:
                self.shown.append(view)
                return False
            self.replicas[view.group] = replica
        replica.on_view(view)
        self._show(replica)
        return True

    def see_left(self, group: str) -> None:
        """Take in that it is a member no more."""
        self.views.pop(group, None)
        self.replicas.pop(group, None)

    def _show(self, replica: GroupReplica) -> None:
        """Hand on what a replica lets through; a message to several groups once."""
        for item in replica.shown:
            if isinstance(item, Heard) and len(item.groups) > 1:
                if (item.sender, item.number) in self._shown_once:
                    continue
                self._shown_once.add((item.sender, item.number))
            self.shown.append(item)
        replica.shown.clear()
