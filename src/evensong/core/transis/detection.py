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

ACQUAINTANCES_MAX: Final = 1_024
BACKOFF_LEAST: Final = 2  # heartbeats
BACKOFF_MOST: Final = 16


@final
class Watch:
    """When each member of my view was heard last, and who is being probed."""

    __slots__ = ("_heard_at", "_my_index", "_parameters", "_probes", "deadline")

    def __init__(self, size: int, my_index: int, parameters: Parameters, now: int) -> None:
        self._parameters: Final = parameters
        self._my_index: Final = my_index
        self._heard_at: Final = [now] * size
        self._probes: Final[dict[int, int]] = {}  # those sent, by member
        # Never later than when something is to be done.
        self.deadline = now + parameters.silence_max() if size > 1 else NEVER

    def hear(self, index: int, now: int) -> None:
        """Hear a member."""
        self._heard_at[index] = now
        self._probes.pop(index, None)

    def forgive(self, now: int) -> None:
        """Give everybody their full time again: it was I who was late."""
        for index in range(len(self._heard_at)):
            self.hear(index, now)

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
            due = heard_at + parameters.silence_max() + sent * parameters.probe
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

    __slots__ = ("_backoff", "_heard", "_parameters", "_rng", "_until")

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self._parameters: Final = parameters
        self._rng: Final = rng
        self._heard: Final[dict[ProcessorId, tuple[int, int]]] = {}  # incarnation, view_no
        self._until: Final[dict[ProcessorId, int]] = {}
        self._backoff = BACKOFF_LEAST

    def hear(self, proc: ProcessorId, incarnation: int, view_no: int) -> bool:
        """Note where a processor is; False if it was heard later than that before."""
        latest = self._heard.get(proc)
        if latest is not None and (incarnation, view_no) < latest:
            return False
        if latest is None and len(self._heard) >= ACQUAINTANCES_MAX:
            del self._heard[next(iter(self._heard))]
        self._heard[proc] = (incarnation, view_no)
        return True

    def is_outdated(self, entry: Entry) -> bool:
        """Whether its processor was heard in a later view or life."""
        latest = self._heard.get(entry.proc)
        return latest is not None and (entry.incarnation, entry.view_no) < latest

    def is_left_alone(self, proc: ProcessorId, now: int) -> bool:
        """Whether a stranger is no reason to try a join now."""
        return now < self._until.get(proc, 0)

    def on_change(self, strangers: list[ProcessorId], gained: list[ProcessorId], now: int) -> None:
        """Learn from a change that began with strangers which of them it gained.

        A link that carries one way only would otherwise cause a change each time it is heard over.
        """
        for proc in gained:
            self._until.pop(proc, None)
        if gained:
            self._backoff = BACKOFF_LEAST
        elif strangers:
            span = self._backoff * self._parameters.heartbeat
            self._backoff = min(2 * self._backoff, BACKOFF_MOST)
            if len(self._until) >= ACQUAINTANCES_MAX:
                self._until.clear()
            for proc in strangers:
                self._until[proc] = now + span // 2 + self._rng.randrange(span)
