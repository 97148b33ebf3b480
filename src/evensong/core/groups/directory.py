"""The group directory: who is in which group, in the order in which they joined.

A deterministic function of the delivered order and of configurations; daemons that went together
have equal ones. A group without members is forgotten. Views are counted over all groups: a counter
for each would have to be kept for every name that was ever used, or begin again.
Invariant: members of a group are sorted by where they joined; `groups_of` mirrors `groups`.
"""

import zlib
from collections.abc import Container, Iterable
from typing import Final, NamedTuple, final

from evensong.core.groups.events import MemberId, OrderId
from evensong.core.ids import ProcessorId


class Entry(NamedTuple):
    """A member, and the place of the message by which it joined."""

    joined_at: OrderId
    member: MemberId


@final
class Group:
    """One group."""

    __slots__ = ("entries", "is_transitional", "primary", "regular", "shown")

    def __init__(self) -> None:
        self.entries: Final[list[Entry]] = []
        self.regular: tuple[MemberId, ...] = ()  # the members in its last regular view
        self.shown: tuple[MemberId, ...] = ()  # the members in its last view of any kind
        self.is_transitional = False  # its last view was one; a regular one must follow
        self.primary = False  # as its last regular view said

    def members(self) -> tuple[MemberId, ...]:
        """Return the members in the order in which they joined."""
        return tuple([entry.member for entry in self.entries])


class GroupState(NamedTuple):
    """A group as it is told to others."""

    name: str
    entries: tuple[Entry, ...]


@final
class Directory:
    """All groups, as one daemon knows them."""

    __slots__ = ("counter", "groups", "groups_of", "version")

    def __init__(self) -> None:
        self.groups: Final[dict[str, Group]] = {}
        self.groups_of: Final[dict[MemberId, set[str]]] = {}
        self.counter = 0  # of changes that were shown; it never falls
        self.version = 0  # rises with every change; whoever keeps what follows from it compares

    def join(self, name: str, member: MemberId, order: OrderId) -> Group | None:
        """Add a member; None if it is one."""
        names = self.groups_of.setdefault(member, set())
        if name in names:
            return None
        names.add(name)
        group = self.groups.setdefault(name, Group())
        assert not group.entries or group.entries[-1].joined_at < order
        group.entries.append(Entry(order, member))
        self.version += 1
        return group

    def leave(self, name: str, member: MemberId) -> Group | None:
        """Remove a member; None if it is none. The group is returned even if nobody is left."""
        group = self.groups.get(name)
        names = self.groups_of.get(member, set())
        if group is None or name not in names:
            return None
        names.remove(name)
        if not names:
            del self.groups_of[member]
        self._keep(name, [entry for entry in group.entries if entry.member != member])
        return group

    def names_of(self, member: MemberId) -> list[str]:
        """Return the groups of a member, sorted."""
        return sorted(self.groups_of.get(member, set()))

    def restrict(self, daemons: Container[ProcessorId]) -> list[str]:
        """Keep the members of these daemons; return the groups that lost some, sorted."""
        lost: list[str] = []
        for name in sorted(self.groups):
            entries = self.groups[name].entries
            kept = [entry for entry in entries if entry.member.daemon in daemons]
            if len(kept) < len(entries):
                lost.append(name)
                self._keep(name, kept)
        for member in [one for one in self.groups_of if one.daemon not in daemons]:
            del self.groups_of[member]
        return lost

    def _keep(self, name: str, entries: list[Entry]) -> None:
        self.groups[name].entries[:] = entries
        if not entries:
            del self.groups[name]
        self.version += 1

    def states(self) -> list[GroupState]:
        """Return all groups, sorted by name: what others are told when networks merge."""
        return [GroupState(name, tuple(self.groups[name].entries)) for name in sorted(self.groups)]

    def merge(self, counter: int, states: Iterable[GroupState]) -> None:
        """Become the union of what the components have told, ours among them."""
        self.counter = max(self.counter, counter)
        before = dict(self.groups)
        self.groups.clear()
        self.groups_of.clear()
        for name, entries in states:
            group = self.groups.get(name)
            if group is None:
                group = self.groups[name] = Group()
                if name in before:
                    was = before[name]
                    group.regular, group.shown = was.regular, was.shown
                    group.is_transitional, group.primary = was.is_transitional, was.primary
            group.entries.extend(entries)
            for entry in entries:
                self.groups_of.setdefault(entry.member, set()).add(name)
        for group in self.groups.values():
            group.entries.sort()
        self.version += 1

    def digest(self) -> int:
        """Return a hash of all groups, their members and the counter; equal in every process."""
        text = repr((self.counter, self.states())).encode()
        return zlib.crc32(text) << 32 | zlib.adler32(text)
