"""State of a group, kept by the program: snapshots for who joins, a merge where sides meet.

core/groups/transfer.py decides who takes a snapshot, where, and for whom; here its steps are done
with the program's own `Replica`, in between the events that the program reads. A program that asks
for the next events says that it has applied all before: only then is a snapshot taken, restored or
merged.

Notes, by which members tell each other their state, are messages of the group. They are addressed
to the group and to `NOTES` besides, a name that nobody can join: so groups without state pay
nothing, not a byte of a message, and one look at a destination, not at each message, tells notes
from messages. All members of such a group have to join with state; whoever only sends need not be
a member.
"""

from collections import deque
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Final, Literal, Protocol, TypeAlias, assert_never, final

from evensong.client.message import Delivery, Message
from evensong.client.packing import as_bytes
from evensong.core.groups.events import MemberId, View
from evensong.core.groups.steps import Apply, Merge, Restore, Show, Step, Take
from evensong.core.groups.transfer import Transfer
from evensong.errors import Refused

NOTES: Final = "\0notes"  # no program's group begins so; see rules.py

Policy: TypeAlias = Literal["merge", "primary-wins"]
POLICIES: Final = ("merge", "primary-wins")
METHODS: Final = ("snapshot", "restore", "merge")  # of a `Replica`


class Replica(Protocol):
    """What a program gives to `join(…, state=…)`."""

    def snapshot(self) -> bytes:
        """Return the state as it is after everything that was read; a buffer is copied."""
        ...

    def restore(self, snapshot: bytes, /) -> None:
        """Replace the state by a snapshot."""
        ...

    def merge(self, snapshots: list[bytes], /) -> None:
        """Replace the state by what those of several sides come to; all get the same list."""
        ...


def check_state(state: Replica | None, policy: Policy) -> None:
    """Refuse what cannot keep a group's state before it is asked to."""
    if policy not in POLICIES:
        raise Refused(f"policy is one of {', '.join(POLICIES)}")
    for name in METHODS if state is not None else ():
        method = getattr(state, name, None)
        if not callable(method):
            raise Refused(f"a state has {', '.join(METHODS)}; {state!r} has no method {name}")
        if iscoroutinefunction(method) or isasyncgenfunction(method):
            raise Refused(f"{name} of a state is called, not awaited: it cannot be async")


def notes_of(groups: tuple[str, ...]) -> str:
    """Return the group that a destination's notes are about; empty if it is not one of notes."""
    return groups[0] if len(groups) == 2 and groups[1] == NOTES else ""


@final
class Replication:
    """One group's state at one member: a transfer, and the program's replica."""

    __slots__ = ("_replica", "_steps", "transfer")

    def __init__(self, me: MemberId, replica: Replica, policy: Policy, chunk_bytes: int) -> None:
        self._replica: Final = replica
        self._steps: Final[deque[Step]] = deque()
        self.transfer: Final = Transfer(
            me, primary_wins=policy == "primary-wins", chunk_bytes=chunk_bytes
        )

    def on_view(self, view: View) -> None:
        """Take in a view of the group."""
        self.transfer.on_view(view)
        self._steps.extend(self.transfer.drain())

    def on_messages(self, delivery: Delivery, messages: list[Message | View]) -> None:
        """Take in messages of one frame; or notes."""
        transfer = self.transfer
        is_note = bool(notes_of(delivery.destination.groups))
        for message in messages:
            assert isinstance(message, Message)
            place = message.place
            if not is_note:
                transfer.on_message(place, message)
            elif place is not None:  # no library sends one that is not ordered
                transfer.on_note(message.sender, place, message.payload)
        self._steps.extend(transfer.drain())

    def go_on(self, events: list[Message | View]) -> bool:
        """Do what is to be done and append what is to be shown; return whether all of it was.

        If it was not, the program has to apply what is shown before the rest can be done.
        """
        steps = self._steps
        while steps:
            step = steps[0]
            if isinstance(step, Apply):
                assert isinstance(step.message, Message)
                events.append(step.message)
            elif isinstance(step, Show):
                events.append(step.view)
            elif events:
                return False
            elif isinstance(step, Take):
                self.transfer.taken(step.place, self._snapshot())
            elif isinstance(step, Restore):
                self._replica.restore(step.snapshot)
            elif isinstance(step, Merge):
                self._replica.merge(list(step.snapshots))
            else:
                assert_never(step)
            steps.popleft()
        return True

    def _snapshot(self) -> bytes:
        """Ask for a snapshot; a copy, since it is sent while the program goes on."""
        snapshot = self._replica.snapshot()
        try:
            return as_bytes(snapshot)
        except TypeError:
            kind = type(snapshot).__name__
            raise Refused(f"snapshot() has to return bytes and has returned {kind}") from None
