"""Directories meet: what the components of a new configuration tell each other before they go on.

A *component* is the daemons of a configuration that have gone together since their directories
were last known to be equal. Each daemon knows its own exactly (see layer.py), and all of one know
the same, so the lowest of it speaks for it: it sends the component's members and its directory, in
parts, ahead of everything else it sends there. Whoever has all parts of some daemon knows one
component; when the components known cover the configuration, all have been heard. That is a
function of the delivered order alone, so all daemons find it at the same place.

    state:  component:u16 | ids:u32* | counter:u64 groups:u32 | groups
    group:  name:text count:u32 | members
    member: ring_seq:u64 ring_rep:u32 seq:u64 sub:u32     where it joined
            daemon:u32 incarnation:u64 session:u32 user:text
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, final

from evensong.core.groups.control import StatePart, decode_control, decode_text, encode_text
from evensong.core.groups.directory import Entry, GroupState
from evensong.core.groups.events import MemberId, OrderId, is_group_name, is_user_name
from evensong.core.ids import PROCESSORS_MAX, Configuration, ProcessorId, RingId
from evensong.errors import MalformedFrame

COUNT16: Final = struct.Struct("!H")
COUNT32: Final = struct.Struct("!I")
COUNTS: Final = struct.Struct("!QI")
ENTRY: Final = struct.Struct("!QIQIIQI")
COUNTER_MAX: Final = 2**62  # adding to it stays encodable


class ComponentState(NamedTuple):
    """What the lowest daemon of a component tells about it."""

    component: tuple[ProcessorId, ...]  # ascending
    counter: int
    groups: tuple[GroupState, ...]


@final
class Exchange:
    """What has been heard of the components of one configuration."""

    __slots__ = ("_conf_id", "_missing", "_parts", "_together", "malformed", "states")

    def __init__(self, configuration: Configuration, together: tuple[ProcessorId, ...]) -> None:
        self._conf_id: Final = configuration.conf_id
        self._together: Final = frozenset(together)  # our own component
        self._missing = frozenset(configuration.members)
        self._parts: Final[dict[ProcessorId, list[bytes]]] = {}
        self.states: Final[list[ComponentState]] = []
        self.malformed = 0

    def is_complete(self) -> bool:
        """Whether every daemon of the configuration is in a component that was heard."""
        return not self._missing

    def hear(self, sender: ProcessorId, content: bytes) -> None:
        """Take in a control message, if it is a part of a state."""
        try:
            part = decode_control(content)
        except MalformedFrame:
            return
        if isinstance(part, StatePart):
            self.take(sender, part)

    def take(self, sender: ProcessorId, part: StatePart) -> None:
        """Take in a part; they come in order, for one daemon sends them and the order is total."""
        parts = self._parts.setdefault(sender, [])
        if part.part != len(parts) or sender not in self._missing:
            self.malformed += 1
            return
        parts.append(part.chunk)
        if len(parts) < part.parts:
            return
        del self._parts[sender]
        try:
            state = decode_state(b"".join(parts))
        except MalformedFrame:
            self.malformed += 1
            return
        component = frozenset(state.component)
        if not self._is_credible(sender, state, component):
            self.malformed += 1
            return
        self._missing -= component
        self.states.append(state)

    def _is_credible(
        self, sender: ProcessorId, state: ComponentState, component: frozenset[ProcessorId]
    ) -> bool:
        """Whether an honest daemon can have told this; all honest ones pass."""
        return (
            state.component[0] == sender
            and component <= self._missing
            and (component == self._together or not component & self._together)
            and all(
                entry.joined_at.ring_id < self._conf_id
                for group in state.groups
                for entry in group.entries
            )
        )

    def component_of(self, daemon: ProcessorId) -> tuple[ProcessorId, ...]:
        """Return the component that a daemon belongs to."""
        for state in self.states:
            if daemon in state.component:
                return state.component
        return ()

    def counter(self) -> int:
        """Return the highest counter of views that was told."""
        return max(state.counter for state in self.states)

    def groups(self) -> list[GroupState]:
        """Return the groups of all components."""
        return [group for state in self.states for group in state.groups]


def encode_component(
    component: Iterable[ProcessorId], counter: int, groups: Iterable[GroupState]
) -> bytes:
    """Lay out what is told about a component."""
    ids = sorted(component)
    told = list(groups)
    pieces = [COUNT16.pack(len(ids)), *map(COUNT32.pack, ids), COUNTS.pack(counter, len(told))]
    for name, entries in told:
        pieces += [encode_text(name), COUNT32.pack(len(entries))]
        for (ring_id, seq, sub), member in entries:
            daemon, incarnation, session, user = member
            pieces.append(ENTRY.pack(*ring_id, seq, sub, daemon, incarnation, session))
            pieces.append(encode_text(user))
    return b"".join(pieces)


def decode_state(state: bytes) -> ComponentState:
    """Read what is told about a component; every count is bounded by the bytes that are there."""
    try:
        return _decode_state(state)
    except struct.error:
        raise MalformedFrame("state: cut short") from None


def _decode_state(state: bytes) -> ComponentState:
    (size,) = COUNT16.unpack_from(state)
    if not 0 < size <= PROCESSORS_MAX:
        raise MalformedFrame("state: component")
    at = COUNT16.size
    component: tuple[ProcessorId, ...] = struct.unpack_from(f"!{size}I", state, at)
    if list(component) != sorted(set(component)):
        raise MalformedFrame("state: component")
    at += COUNT32.size * size
    counter, count = COUNTS.unpack_from(state, at)
    if counter > COUNTER_MAX:
        raise MalformedFrame("state: counter")
    at += COUNTS.size
    groups: list[GroupState] = []
    while len(groups) < count:
        group, at = _decode_group(state, at, component)
        if groups and group.name <= groups[-1].name:
            raise MalformedFrame("state: order of groups")
        groups.append(group)
    if at != len(state):
        raise MalformedFrame("state: size")
    return ComponentState(component, counter, tuple(groups))


def _decode_group(
    state: bytes, at: int, component: tuple[ProcessorId, ...]
) -> tuple[GroupState, int]:
    name, at = decode_text(state, at)
    (count,) = COUNT32.unpack_from(state, at)
    at += COUNT32.size
    if not is_group_name(name) or not count:
        raise MalformedFrame("state: group")
    entries: list[Entry] = []
    while len(entries) < count:
        ring_seq, ring_rep, seq, sub, daemon, incarnation, session = ENTRY.unpack_from(state, at)
        user, at = decode_text(state, at + ENTRY.size)
        order = OrderId(RingId(ring_seq, ring_rep), seq, sub)
        entry = Entry(order, MemberId(daemon, incarnation, session, user))
        if daemon not in component or not is_user_name(user):
            raise MalformedFrame("state: member")
        if entries and entry <= entries[-1]:
            raise MalformedFrame("state: order of members")
        entries.append(entry)
    return GroupState(name, tuple(entries)), at
