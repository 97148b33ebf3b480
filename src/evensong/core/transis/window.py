"""The network sliding window: how soon the next message may be sent [Transis §3].

The window is the number of regular messages, of all senders, that are not stable here. Up to
`w_low` nobody waits; from there the delay grows with the square up to `pace_max`; at `w_high`
nothing is sent until the window moves. Losses halve `w_high`, stable messages raise it again.
"""

from typing import Final, final

from evensong.core.transis.parameters import Parameters

BLOCKED: Final = -1


@final
class Window:
    """How one processor paces itself in one view."""

    __slots__ = ("_floor", "_parameters", "_sent_at", "slow_until", "w_high")

    def __init__(self, parameters: Parameters, size: int) -> None:
        self._parameters: Final = parameters
        self._floor: Final = min(parameters.w_high, max(2 * size, parameters.w_low + 1))
        self._sent_at = 0  # the latest regular message of mine
        self.slow_until = 0  # somebody told that it falls behind
        self.w_high = parameters.w_high  # Invariant: _floor <= w_high <= parameters.w_high.

    def delay(self, unstable: int, now: int) -> int:
        """Return how long after the last message the next may be sent, or BLOCKED."""
        parameters = self._parameters
        if now < self.slow_until:
            unstable = max(unstable, parameters.w_low + 1)
        if unstable >= self.w_high:
            return BLOCKED
        over = unstable - parameters.w_low
        if over <= 0:
            return 0
        span = self.w_high - parameters.w_low
        return parameters.pace_max * over * over // (span * span)

    def send_at(self, unstable: int, now: int) -> int:
        """Return when the next message may be sent, or BLOCKED."""
        delay = self.delay(unstable, now)
        return delay if delay == BLOCKED else self._sent_at + delay

    def on_sent(self, now: int) -> None:
        """Wait from here on."""
        self._sent_at = now

    def on_loss(self) -> None:
        """Slow down: somebody missed a message."""
        self.w_high = max(self._floor, self.w_high // 2)

    def on_stable(self, messages: int) -> None:
        """Recover, a little for each message that everybody has."""
        self.w_high = min(self._parameters.w_high, self.w_high + messages)

    def on_slow(self, now: int) -> None:
        """Mind that somebody falls behind."""
        self.slow_until = now + self._parameters.heartbeat
