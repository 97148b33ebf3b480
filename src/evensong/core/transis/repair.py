"""Who asks for what is missing, and who sends it again [Transis §3].

Whoever misses messages waits a moment for them to come by themselves, then asks everybody; nobody
asks for what another has just asked for. Any holder may answer: the sender at once, the others
later the further they are from who asked, and not if somebody did before. Who is asked again does
not rely on others, one more of them each time: a link may carry one way only, so that all hear the
sender's answer but the one that it is for.
"""

from random import Random
from typing import Final, final

from evensong.core.timer import NEVER
from evensong.core.transis.parameters import Parameters

RESENDS_MAX: Final = 256  # that wait; more are asked for again


@final
class Requests:
    """When to ask for the missing messages of each member of a view."""

    __slots__ = ("_parameters", "_retry", "_rng", "deadlines")

    def __init__(self, size: int, parameters: Parameters, rng: Random) -> None:
        self._parameters: Final = parameters
        self._rng: Final = rng
        self.deadlines: Final = [NEVER] * size
        self._retry: Final = [parameters.nack_retry] * size

    def note(self, index: int, now: int, *, is_missing: bool) -> None:
        """Hear whether something of a member is missing."""
        if not is_missing:
            self.deadlines[index] = NEVER
            self._retry[index] = self._parameters.nack_retry
        elif self.deadlines[index] == NEVER:
            self._wait(index, now)

    def on_repair(self, index: int, now: int) -> None:
        """Hear that somebody sends again what was missing: the rest may follow."""
        self._retry[index] = self._parameters.nack_retry
        if self.deadlines[index] != NEVER:
            self._wait(index, now)

    def _wait(self, index: int, now: int) -> None:
        delay = self._parameters.nack_delay
        self.deadlines[index] = now + delay + self._rng.randrange(delay)

    def on_request(self, index: int, now: int) -> None:
        """Hear that somebody, or I, asked for it."""
        if self.deadlines[index] != NEVER:
            self.deadlines[index] = max(self.deadlines[index], now + self._retry[index])

    def is_first(self, index: int) -> bool:
        """Whether it has not been asked for before."""
        return self._retry[index] == self._parameters.nack_retry

    def asked(self, index: int, now: int) -> None:
        """Ask less often each time."""
        self.deadlines[index] = now + self._retry[index]
        self._retry[index] = min(2 * self._retry[index], self._parameters.nack_retry_max)

    def deadline(self) -> int:
        """When to ask next."""
        return min(self.deadlines)


@final
class Resends:
    """Which messages of a view to send again, and when."""

    __slots__ = ("_again", "_due", "_insisting", "_parameters", "_rng", "_sent_at")

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self._parameters: Final = parameters
        self._rng: Final = rng
        self._due: Final[dict[tuple[int, int], int]] = {}  # by member and number
        self._sent_at: Final[dict[tuple[int, int], int]] = {}  # by me or by others
        self._again: Final[dict[tuple[int, int], int]] = {}  # how often it was asked for after that
        self._insisting: Final[set[tuple[int, int]]] = set()  # to be sent whoever else does

    def plan(self, index: int, number: int, rank: int, now: int) -> None:
        """Plan to send a message again, unless it was just sent."""
        key = (index, number)
        sent_at = self._sent_at.get(key)
        if key in self._due or len(self._due) >= RESENDS_MAX:
            return
        if sent_at is not None:
            if now - sent_at < self._parameters.nack_delay:
                return
            again = self._again[key] = self._again.get(key, 0) + 1
            if 0 < rank <= again:
                self._insisting.add(key)
        slot = self._parameters.retr_slot
        # Each has a slot of its own: by then it has heard whoever had the one before.
        self._due[key] = now + (slot * rank + self._rng.randrange(slot) if rank else 0)

    def cancel(self, index: int, number: int, now: int) -> None:
        """Leave it: somebody else did."""
        if (index, number) not in self._insisting:
            self._due.pop((index, number), None)
        self._note(index, number, now)

    def _note(self, index: int, number: int, now: int) -> None:
        if len(self._sent_at) >= 4 * RESENDS_MAX:
            self._sent_at.clear()
            self._again.clear()
        self._sent_at[index, number] = now

    def take_due(self, now: int) -> list[tuple[int, int]]:
        """Return what to send now."""
        due = [key for key, at in self._due.items() if at <= now]
        for key in due:
            del self._due[key]
            self._insisting.discard(key)
            self._note(*key, now)
        return due

    def deadline(self) -> int:
        """When to send next."""
        return min(self._due.values(), default=NEVER)
