"""What a daemon knows of the others at the moment at which it starts to doubt them.

Taken when the membership gathers, which is seldom: nothing is counted for it while a ring is well.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from evensong.core.effects import StateChange
from evensong.daemon.driver import Driver
from evensong.daemon.pace import Pace

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Sight(NamedTuple):
    """How late this daemon was itself, the last token, and who was heard how long ago."""

    lag_us: int  # as `Lag.suspect_us` has it
    token_ring: str  # empty: it has seen none
    token_seq: int
    seq: int
    token_us_ago: int
    heard: str  # `2:350 3:90210`: each other one of the ring or the proposal, microseconds ago


Look = Callable[[StateChange, int], Sight]


def look_by(driver: Driver, pace: Pace) -> Look:
    """Return what looks around for a driver."""

    def look(change: StateChange, now: int) -> Sight:
        about = {*change.proposed, *change.failed}
        if driver.configuration is not None:
            about.update(driver.configuration.members)
        heard = [
            f"{node}:{now - driver.heard_at[node]}"
            for node in sorted(about)
            if node in driver.heard_at
        ]
        last = pace.last
        return Sight(
            driver.lag.suspect_us(now),
            str(last.ring_id) if last else "",
            last.token_seq if last else 0,
            last.seq if last else 0,
            now - pace.visited_at if last else 0,
            " ".join(heard),
        )

    return look


def host_id() -> str:
    """Name the boot of this machine: monotonic clocks of one boot can be compared."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
