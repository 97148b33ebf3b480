"""How late this daemon itself is: to be known before anybody else is suspected."""

from typing import Final, final

LATE_US: Final = 10_000
RECENT_US: Final = 10_000_000


@final
class Lag:
    """Timers that were attended to late, and turns of the loop that took long."""

    __slots__ = ("_recent_from", "_recent_now", "_recent_past", "late", "turn_worst_us", "worst_us")

    def __init__(self) -> None:
        self.late = 0  # timers attended to more than LATE_US late
        self.worst_us = 0
        self.turn_worst_us = 0
        self._recent_from = 0
        self._recent_now = 0
        self._recent_past = 0

    def note(self, late_us: int, now: int) -> None:
        """Record that a timer was attended to so late."""
        if late_us > self.worst_us:
            self.worst_us = late_us
        if now - self._recent_from > RECENT_US:
            self._recent_past = self._recent_now
            self._recent_now = 0
            self._recent_from = now
        if late_us > self._recent_now:
            self._recent_now = late_us
        self.late += late_us > LATE_US

    def note_turn(self, took_us: int) -> None:
        """Record how long one turn of the loop took."""
        if took_us > self.turn_worst_us:
            self.turn_worst_us = took_us

    def recent_us(self) -> int:
        """Return the worst lateness of the last ten to twenty seconds."""
        return max(self._recent_now, self._recent_past)
