"""How late this daemon itself is: to be known before anybody else is suspected."""

from typing import Final, final

LATE_US: Final = 10_000
RECENT_US: Final = 10_000_000


@final
class Worst:
    """The largest of what was noted within one to two spans of time."""

    __slots__ = ("_from", "_now", "_past", "_span_us")

    def __init__(self, span_us: int) -> None:
        self._span_us: Final = span_us
        self._from = 0
        self._now = 0
        self._past = 0

    def note(self, amount: int, now: int) -> None:
        """Take an amount in."""
        self._move_on(now)
        if amount > self._now:
            self._now = amount

    def get(self, now: int) -> int:
        """Return the largest."""
        self._move_on(now)
        return max(self._now, self._past)

    def _move_on(self, now: int) -> None:
        since = now - self._from
        if since > self._span_us:
            self._past = self._now if since <= 2 * self._span_us else 0
            self._now = 0
            self._from = now


@final
class Lag:
    """Timers that were attended to late, and turns of the loop that took long."""

    __slots__ = (
        "_before_suspicion",
        "_pulse_us",
        "_recent",
        "_turn_from",
        "late",
        "turn_worst_us",
        "worst_us",
    )

    def __init__(self, token_loss_us: int) -> None:
        self.late = 0  # timers attended to more than LATE_US late
        self.worst_us = 0
        self.turn_worst_us = 0
        self._recent: Final = Worst(RECENT_US)
        self._before_suspicion: Final = Worst(token_loss_us)
        self._pulse_us: Final = token_loss_us // 4
        self._turn_from = 0

    def turn_by(self) -> int:
        """Return when the loop should turn even if it has nothing to do.

        Else one that is not let run when a datagram comes is late by nothing: its next timer may be
        a whole token_loss away, and what it did to the others would not be known.
        """
        return self._turn_from + self._pulse_us

    def begin_turn(self, now: int, due: int) -> None:
        """Record when the loop woke, and when it should have at the latest."""
        self._turn_from = now
        late_us = now - due
        if late_us <= 0:
            return
        if late_us > self.worst_us:
            self.worst_us = late_us
        self._recent.note(late_us, now)
        self._before_suspicion.note(late_us, now)
        self.late += late_us > LATE_US

    def end_turn(self, now: int) -> None:
        """Record how long one turn of the loop took."""
        took_us = now - self._turn_from
        if took_us > self.turn_worst_us:
            self.turn_worst_us = took_us
        self._before_suspicion.note(took_us, now)

    def recent_us(self, now: int) -> int:
        """Return the worst lateness of the last ten to twenty seconds."""
        return self._recent.get(now)

    def suspect_us(self, now: int) -> int:
        """Return how long others may have waited for me within the last token_loss, or two.

        Lateness, or the length of a turn: also of this one, which is not over.
        """
        return max(self._before_suspicion.get(now), now - self._turn_from)
