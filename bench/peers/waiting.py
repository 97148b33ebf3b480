"""The clock, and waiting for what must become true."""

import time
from collections.abc import Callable

from bench.peers.network import CannotMeasure

POLL_S = 0.02
PATIENCE_S = 60.0


def now_us() -> int:
    """Return the time on the clock that all namespaces of a machine share."""
    return time.monotonic_ns() // 1_000


def wait_for(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > until:
            raise CannotMeasure(f"not within {patience_s:.0f} s: {what}")
        time.sleep(POLL_S)
