"""How long the token takes to come round while there is traffic: what timeouts depend on."""

from typing import Final, final

from evensong.core.effects import TokenVisit
from evensong.daemon.listener import Listener

STEP_BITS: Final = 8  # rotations are counted in steps of 256 us
STEPS: Final = 4_096  # up to about a second; what takes longer counts as that


@final
class Pace(Listener):
    """A listener that measures rotations; one in which the token was held here is not measured."""

    def __init__(self) -> None:
        self.rotations = 0
        self._steps: Final = [0] * STEPS
        self.last: TokenVisit | None = None  # the latest visit of the token,
        self.visited_at = 0  # and when it was

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Measure the rotation that ends here, if messages were sent in it."""
        last = self.last
        is_whole = last is not None and visit.ring_id == last.ring_id and not visit.was_held
        if visit.fcc and is_whole:
            self.rotations += 1
            self._steps[min(now - self.visited_at >> STEP_BITS, STEPS - 1)] += 1
        self.last = visit
        self.visited_at = now

    def rotation_us(self, percent: int) -> int:
        """Return the time that so many percent of the rotations did not exceed."""
        left = self.rotations * percent / 100
        for step, count in enumerate(self._steps):
            left -= count
            if left <= 0:
                return (step + 1 << STEP_BITS) if self.rotations else 0
        return STEPS << STEP_BITS
