"""Destinations as the order announced them, and which sessions of this daemon each leads to.

A route is announced by its sender before the first frame that uses it in a configuration, and
forgotten at the next regular one. Whom it leads to is asked at a frame's own place of the order and
kept until the directory or the sessions change: between two changes a frame costs a lookup. What
a packet brings along for itself is known by its names: it comes in no order with announcements.
"""

from typing import Final, final

from evensong.core.groups.control import SetPart
from evensong.core.groups.directory import Directory
from evensong.core.groups.events import Destination, MemberId, SessionId, parse_private_name
from evensong.core.groups.limits import GROUPS_MAX, SETS_MAX
from evensong.core.groups.sessions import Sessions
from evensong.core.ids import ProcessorId

BROUGHT_MAX: Final = 65_536  # destinations that are remembered by name


@final
class Route:
    """One destination of one session."""

    __slots__ = ("destination", "recipients", "version")

    def __init__(self, destination: Destination) -> None:
        self.destination: Final = destination
        self.recipients: tuple[SessionId, ...] = ()
        self.version = -1  # of the directory, when they were looked up


@final
class Routes:
    """All destinations that are announced in this configuration."""

    __slots__ = ("_begun", "_brought", "_directory", "_routes", "_sessions")

    def __init__(self, directory: Directory, sessions: Sessions) -> None:
        self._directory: Final = directory
        self._sessions: Final = sessions
        self._routes: Final[dict[tuple[ProcessorId, SessionId, int], Route]] = {}
        self._begun: Final[dict[tuple[ProcessorId, SessionId, int], tuple[str, ...]]] = {}
        self._brought: Final[dict[tuple[MemberId, tuple[str, ...]], Route]] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def clear(self) -> None:
        """Forget everything: a regular configuration begins, and every sender announces again."""
        self._routes.clear()
        self._begun.clear()
        self._brought.clear()

    def announce(self, sender: MemberId, set_no: int, part: SetPart) -> bool:
        """Take in a destination or a part of one; False if it cannot be one."""
        key = (sender.daemon, sender.session, set_no)
        names = self._begun.pop(key, ()) + part.names
        if set_no >= SETS_MAX or len(names) > GROUPS_MAX:
            return False
        if part.is_end:
            self._routes[key] = Route(Destination(sender, names))
        else:
            self._begun[key] = names
        return True

    def forget(self, sender: MemberId) -> None:
        """Forget all destinations of a session that has ended."""
        for kept in (self._routes, self._begun):
            for key in [key for key in kept if key[:2] == (sender.daemon, sender.session)]:
                del kept[key]
        for named in [named for named in self._brought if named[0][:3] == sender[:3]]:
            del self._brought[named]

    def bring(self, sender: MemberId, names: tuple[str, ...]) -> Route:
        """Return where frames go whose packet says itself what they are sent to."""
        route = self._brought.get((sender, names))
        if route is None:
            if len(self._brought) >= BROUGHT_MAX:
                self._brought.clear()
            route = self._brought[sender, names] = Route(Destination(sender, names))
        return route

    def find(self, sender: ProcessorId, session: SessionId, set_no: int) -> Route | None:
        """Return where a session's frames to this number go."""
        return self._routes.get((sender, session, set_no))

    def refresh(self, route: Route) -> None:
        """Look up the sessions of this daemon that its frames go to, each once, ascending."""
        route.version = self._directory.version
        found: set[SessionId] = set()
        for name in route.destination.groups:
            for member in self._members(name):
                if self._sessions.is_here(member):
                    found.add(member.session)
        route.recipients = tuple(sorted(found))

    def _members(self, name: str) -> tuple[MemberId, ...]:
        private = parse_private_name(name)
        if private is not None:
            return (private,)
        group = self._directory.groups.get(name)
        return group.members() if group is not None else ()
