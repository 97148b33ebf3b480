"""A client of a simulated cluster: the library's names, without asyncio and without sockets.

Requests go to the daemon at once, what comes of them is read after time has passed. Where a group
has state, reading goes as in the library: to ask for the next event is to have applied those
before, and a snapshot is taken, restored or merged in between.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, assert_never, final

from evensong.client.message import FLAGS_OF, Delivery, Message, MessageId, Service
from evensong.client.naming import ID_BYTES_MAX
from evensong.client.replica import Policy, Replica
from evensong.core.groups.control import is_address
from evensong.core.groups.events import (
    Destination,
    MemberId,
    View,
    is_group_name,
    is_text,
    is_user_name,
)
from evensong.core.groups.frame import NAMED, SELF_DISCARD, WHOLE, Head
from evensong.core.groups.limits import GROUPS_MAX
from evensong.core.groups.steps import Apply, Merge, Restore, Show, Take
from evensong.core.groups.transfer import Transfer
from evensong.errors import (
    AlreadyMember,
    BadName,
    BadRequest,
    ConnectionClosed,
    ConnectionLost,
    NotMember,
    TooLarge,
    Unreachable,
)
from evensong.sim.groups.crowd import Crowd
from evensong.sim.groups.facts import Place
from evensong.sim.groups.process import MESSAGE, Process, Saying
from evensong.sim.groups.replica import Heard, Shown, Task
from evensong.sim.machine import Processor

Event: TypeAlias = Message | View
CHUNK_BYTES: Final = 16_384


@final
class _Read:
    """A state that moves as its program reads: tasks wait among what is shown."""

    def __init__(self, replica: Replica, me: MemberId, policy: Policy) -> None:
        self.transfer: Final = Transfer(
            me, primary_wins=policy == "primary-wins", chunk_bytes=CHUNK_BYTES
        )
        self.shown: Final[list[Shown]] = []
        self._replica: Final = replica

    def on_view(self, view: View) -> None:
        """Take in a view of the group."""
        self.transfer.on_view(view)
        self._show()

    def on_message(self, place: Place | None, heard: Heard) -> None:
        """Take in a message to the group."""
        self.transfer.on_message(place, heard)
        self._show()

    def on_note(self, sender: MemberId, place: Place, content: bytes) -> None:
        """Take in what a replica says to the others."""
        self.transfer.on_note(sender, place, content)
        self._show()

    def _show(self) -> None:
        for step in self.transfer.drain():
            if isinstance(step, Apply):
                assert isinstance(step.message, Heard)
                self.shown.append(step.message)
            elif isinstance(step, Show):
                self.shown.append(step.view)
            else:
                self.shown.append(Task(self, step))

    def perform(self, step: Take | Restore | Merge) -> None:
        """Do to the state what is due."""
        if isinstance(step, Take):
            self.transfer.taken(step.place, self._replica.snapshot())
        elif isinstance(step, Restore):
            self._replica.restore(step.snapshot)
        elif isinstance(step, Merge):
            self._replica.merge(list(step.snapshots))
        else:
            assert_never(step)


@final
class Client:
    """One process that is connected to one daemon of a simulated cluster."""

    def __init__(self, crowd: Crowd, processor: Processor, name: str) -> None:
        if not is_user_name(name):
            raise BadName(f"a client cannot be called {name!r}: 1 to 32 bytes without #")
        self._crowd: Final = crowd
        self._states: Final[dict[str, tuple[Replica, Policy]]] = {}
        self._process: Final[Process] = crowd.open(processor, name, self._make_replica)
        crowd.tell(self._process)

    @property
    def node(self) -> int:
        """Which daemon it is connected to."""
        return self._process.processor.node

    @property
    def member(self) -> MemberId:
        """Who it is in views; as text, the private name at which it is reached."""
        return self._process.member

    @property
    def is_connected(self) -> bool:
        """Whether its daemon still runs and it has not said goodbye."""
        return self._process.is_alive()

    def __repr__(self) -> str:
        return f"<client {self.member}>"

    # Requests

    def join(self, group: str, state: Replica | None = None, policy: Policy = "merge") -> None:
        """Ask to be a member; the first event of the group is the view that shows it."""
        self._check_open()
        if not is_group_name(group):
            raise BadName(f"{group!r} is no name of a group: 1 to 64 bytes, not beginning by #")
        if group in self._process.views:
            raise AlreadyMember(f"{self.member} is a member of {group} already")
        if state is not None:
            self._states[group] = (state, policy)
        else:
            self._states.pop(group, None)
        self._process.join(group, self._now())
        self._crowd.tell(self._process)

    def leave(self, group: str) -> None:
        """Ask to be no member any more."""
        self._check_open()
        if group not in self._process.views:
            raise NotMember(f"{self.member} is no member of {group}")
        self._process.leave(group, self._now())
        self._crowd.tell(self._process)

    def send(
        self,
        to: str | MemberId | Sequence[str | MemberId],
        payload: bytes,
        *,
        service: Service = Service.AGREED,
        id: str | None = None,
        echo: bool = True,
    ) -> MessageId | str:
        """Send a message to groups and processes, members or not; with `echo` it comes back, too.

        Returns what receivers see as `Message.id`: that which was chosen, if one was.
        """
        self._check_open()
        several = [to] if isinstance(to, str | MemberId) else list(to)
        names = tuple(map(str, several))
        if not 0 < len(names) <= GROUPS_MAX or not all(is_address(name) for name in names):
            raise BadName(f"{names}: expected 1 to {GROUPS_MAX} groups or private names")
        size_max = self._crowd.limits.message_max - len(MESSAGE)
        body = payload if id is None else _named(id) + payload
        if len(body) > size_max:
            raise TooLarge(len(body), size_max)
        flags = FLAGS_OF[service] | (0 if echo else SELF_DISCARD)
        flags |= 0 if id is None else NAMED
        self._crowd.say(self._process, Saying(names, (MESSAGE + body,), flags))
        return MessageId(*self.member[:3], self._process.sent) if id is None else id

    def close(self) -> None:
        """Say goodbye: it leaves all its groups at one place, after whatever it has sent."""
        self._check_open()
        self._crowd.close(self._process)

    def _check_open(self) -> None:
        if self._process.is_closed:
            raise ConnectionClosed(f"{self.member} has said goodbye")
        if not self.is_connected:
            raise ConnectionLost(f"the daemon of {self.member} is gone")
        if self._process.processor.paused:
            raise Unreachable(f"the daemon of {self.member} is suspended")

    def _now(self) -> int:
        return self._process.processor.clock.local(self._crowd.world.now)

    def _make_replica(self, group: str, member: MemberId) -> _Read | None:
        if group not in self._states:
            return None
        replica, policy = self._states[group]
        return _Read(replica, member, policy)

    # Events

    def events(self) -> list[Event]:
        """Return what has come since the last time: messages and views, in order.

        Not for a client whose group has state: that has to be applied one by one, see `each`.
        """
        if self._states:
            raise BadRequest("a state moves as its program reads: use `each` or `read_with`")
        return list(self.each())

    def each(self) -> Iterator[Event]:
        """Go through what has come, one by one; what is asked for next was applied before."""
        shown = self._process.shown
        while shown:
            item = shown.popleft()
            if isinstance(item, Task):
                assert isinstance(item.replica, _Read)
                item.replica.perform(item.step)
                if self.is_connected:
                    self._crowd.wake(self._process)
            elif isinstance(item, View):
                yield item
            else:
                yield _message(item)

    def read_with(self, handler: Callable[[Event], None]) -> None:
        """Hand every event to the program as it comes, as a task of its own would."""

        def read() -> None:
            for event in self.each():
                handler(event)

        self._process.when_shown = read
        self._crowd.let_read(self._process)

    def view(self, group: str) -> View | None:
        """Return the last view of a group that its daemon has told, read or not."""
        return self._process.views.get(group)


def _named(chosen: str) -> bytes:
    """Return a chosen id as it stands before a payload."""
    if not is_text(chosen, ID_BYTES_MAX):
        raise BadName(f"an id is 1 to {ID_BYTES_MAX} bytes of text, not {chosen!r}")
    name = chosen.encode()
    return bytes((len(name),)) + name


def _message(heard: Heard) -> Message:
    """Return a message as the library does; of its frame there is no more than this."""
    sender, body = heard.sender, heard.body
    head = Head(WHOLE, heard.flags, sender.session, heard.number, 0, 1, len(body))
    destination = Destination(sender, heard.groups)
    delivery = Delivery(
        destination, heard.order, heard.conf_id, head, (body,), reduced=heard.reduced
    )
    (message,) = delivery.messages()
    return message
