"""Deadlines that a core owns, so that a stopped timer cannot fire late."""

from typing import Final, final

NEVER: Final = 2**62  # later than every clock


@final
class Timer:
    """A deadline in microseconds."""

    __slots__ = ("deadline", "period")

    def __init__(self, period: int) -> None:
        assert period > 0
        self.period: Final = period
        self.deadline = NEVER

    def start(self, now: int) -> None:
        """Fire one period from now."""
        self.deadline = now + self.period

    def start_for(self, now: int, time: int) -> None:
        """Fire so long from now, whatever the period."""
        self.deadline = now + time

    def start_late(self, now: int, extra: int) -> None:
        """Fire one period and `extra` from now."""
        self.deadline = now + self.period + extra

    def stop(self) -> None:
        """Do not fire."""
        self.deadline = NEVER

    def is_armed(self) -> bool:
        """Whether it will fire."""
        return self.deadline != NEVER

    def is_due(self, now: int) -> bool:
        """Whether it should have fired by now."""
        return now >= self.deadline
