"""Who is silent, who was heard where, and which strangers to leave alone for a while.

A member that is not heard within `silence_max` is probed; one that does not answer `probes` times
has failed. Only what a processor transmits itself counts as heard of it, and only in my view.
"""

from random import Random
from typing import Final, final

from evensong.core.ids import ProcessorId
from evensong.core.timer import NEVER
from evensong.core.transis.frames import Entry
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.wire import ENTRIES_MAX

ACQUAINTANCES_MAX: Final = 1_024
BACKOFF_MOST: Final = 32  # heartbeats; it begins with two
LASTING: Final = 32  # heartbeats; who came and goes within them has not come to stay


@final
class Watch:
    """When each member of my view was heard last, and who is being probed."""

    __slots__ = ("_forgiven_at", "_heard_at", "_my_index", "_parameters", "_probes", "deadline")

    def __init__(self, size: int, my_index: int, parameters: Parameters, now: int) -> None:
        self._parameters: Final = parameters
        self._my_index: Final = my_index
        self._heard_at: Final = [now] * size
        self._forgiven_at = now  # nobody's silence before counts
        self._probes: Final[dict[int, int]] = {}  # those sent, by member
        # Never later than when something is to be done.
        self.deadline = now + parameters.silence_max() if size > 1 else NEVER

    def hear(self, index: int, now: int) -> None:
        """Hear a member."""
        self._heard_at[index] = now
        self._probes.pop(index, None)

    def forgive(self, now: int) -> None:
        """Give everybody their full time again: it was I who was late.

        That is not to hear them: who was not heard in this view may still be on its way there.
        """
        self._forgiven_at = now
        self._probes.clear()

    def look(self, now: int) -> tuple[list[int], list[int]]:
        """Return whom to probe now, and who has not answered."""
        parameters = self._parameters
        ask: list[int] = []
        silent: list[int] = []
        deadline = NEVER
        for index, heard_at in enumerate(self._heard_at):
            if index == self._my_index:
                continue
            sent = self._probes.get(index, 0)
            since = max(heard_at, self._forgiven_at)
            due = since + parameters.silence_max() + sent * parameters.probe
            if now >= due:
                if sent >= parameters.probes:
                    silent.append(index)
                    continue
                ask.append(index)
                self._probes[index] = sent + 1
                due = max(now, due) + parameters.probe
            deadline = min(deadline, due)
        self.deadline = deadline
        return ask, silent

    def has_heard_all(self, since: int) -> bool:
        """Whether every other member was heard after a moment."""
        heard = [at for index, at in enumerate(self._heard_at) if index != self._my_index]
        return all(at > since for at in heard)


@final
class Acquaintances:
    """The latest life and view in which processors were heard directly, and whom to leave alone."""

    __slots__ = ("_came_at", "_heard", "_parameters", "_rng", "_span", "_until")

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self._parameters: Final = parameters
        self._rng: Final = rng
        self._heard: Final[dict[ProcessorId, tuple[int, int]]] = {}  # incarnation, view_no
        self._came_at: Final[dict[ProcessorId, int]] = {}  # the members, if they were strangers
        self._span: Final[dict[ProcessorId, int]] = {}  # heartbeats, when it was for nothing last
        self._until: Final[dict[ProcessorId, int]] = {}

    def hear(self, proc: ProcessorId, incarnation: int, view_no: int) -> bool:
        """Note where a processor is; False if it was heard later than that before."""
        latest = self._heard.get(proc)
        if latest is not None and (incarnation, view_no) < latest:
            return False
        if latest is None and len(self._heard) >= ACQUAINTANCES_MAX:
            self._forget(next(iter(self._heard)))
        if latest is not None and incarnation > latest[0]:
            self._forget(proc)  # a new life has done nothing yet
        self._heard[proc] = (incarnation, view_no)
        return True

    def _forget(self, proc: ProcessorId) -> None:
        for known in (self._heard, self._came_at, self._span, self._until):
            known.pop(proc, None)

    def is_outdated(self, entry: Entry) -> bool:
        """Whether its processor was heard in a later view or life."""
        latest = self._heard.get(entry.proc)
        return latest is not None and (entry.incarnation, entry.view_no) < latest

    def is_left_alone(self, proc: ProcessorId, now: int) -> bool:
        """Whether a stranger is no reason to try a join now."""
        return now < self._until.get(proc, 0)

    def on_change(
        self,
        strangers: list[ProcessorId],
        gained: list[ProcessorId],
        lost: list[ProcessorId],
        now: int,
    ) -> None:
        """Learn from a change which of the strangers that it began with it gained, and who is gone.

        A link that carries one way only would otherwise cause a change each time it is heard over,
        or two: by the help of others a member comes that then is not heard, and goes again.
        """
        for proc in lost:
            came_at = self._came_at.pop(proc, None)
            if came_at is not None and now - came_at < LASTING * self._parameters.heartbeat:
                self._miss(proc, now)
            else:
                self._span.pop(proc, None)
        for proc in gained:
            self._until.pop(proc, None)
            self._came_at[proc] = now
        if not gained:
            for proc in strangers:
                self._miss(proc, now)

    def _miss(self, proc: ProcessorId, now: int) -> None:
        """Leave a processor alone for a while, which doubles each time."""
        if proc not in self._heard:
            return  # nobody that I heard myself; so there is room for all
        span = min(BACKOFF_MOST, 2 * self._span.get(proc, 1))
        self._span[proc] = span
        span *= self._parameters.heartbeat
        self._until[proc] = now + span // 2 + self._rng.randrange(span)


@final
class Candidates:
    """Who might join, as heard in COLLECT."""

    __slots__ = ("_acquaintances", "_my_id", "entries")

    def __init__(self, my_id: ProcessorId, acquaintances: Acquaintances) -> None:
        self._my_id: Final = my_id
        self._acquaintances: Final = acquaintances
        self.entries: Final[set[Entry]] = set()

    def collect(self, entries: list[Entry]) -> None:
        """Note who might join; more than a proposal could name are of no use."""
        for entry in entries:
            if len(self.entries) < ENTRIES_MAX:
                self.entries.add(entry)

    def fit(self) -> list[Entry]:
        """Return who might join, without what is known to be past."""
        outdated = self._acquaintances.is_outdated
        mine = self._my_id
        return [one for one in sorted(self.entries) if one.proc != mine and not outdated(one)]

    def clear(self) -> None:
        """Begin again."""
        self.entries.clear()
