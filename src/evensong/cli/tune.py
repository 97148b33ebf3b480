"""`evensong config tune`: what running daemons measured, as settings for all of them."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import EXIT_OK, EXIT_VIOLATION
from evensong.cli.targets import states_of
from evensong.core.engine import TOTEM
from evensong.errors import BadSettings

if TYPE_CHECKING:
    from evensong.daemon.tuning import Measured

POLL_S: Final = 0.5
ROTATIONS_LEAST: Final = 100  # fewer with traffic tell nothing


def tune(targets: list[Path], seconds: float, *, as_json: bool) -> int:
    """Watch the daemons for so long; print the settings that suit what was seen."""
    from evensong.daemon.settings import written
    from evensong.daemon.tuning import SCALED, Measured, tuned, worst

    states = states_of(targets)
    until = time.monotonic() + seconds
    seen = [_measured(state) for state in states]
    while time.monotonic() < until:
        time.sleep(POLL_S)
        seen += [_measured(state) for state in states]
    found = [one for one in seen if one is not None]
    if len(found) < len(seen):
        message = "a ring was idle: let the cluster do its usual work while it is measured"
        if as_json:
            print(json.dumps({"error": message}))
        else:
            print(f"evensong: {message}", file=sys.stderr)
        return EXIT_VIOLATION
    most = worst(found)
    rounded = Measured(*(-(-us // 1_000) * 1_000 for us in most))
    timeouts = {key: written(getattr(tuned(rounded), key)) for key in SCALED}
    measured = {key: written(us) for key, us in rounded._asdict().items()}
    if as_json:
        print(json.dumps({"profile": "auto", "measured": measured, "timeouts": timeouts}))
    else:
        table = ", ".join(f'{key} = "{value}"' for key, value in measured.items())
        print("# For the settings of all daemons. Stop all of them before the first starts anew.")
        print(f'profile = "auto"\nmeasured = {{ {table} }}')
        print(f"# gives {', '.join(f'{key} {value}' for key, value in timeouts.items())}")
    return EXIT_OK


def _measured(state: Path) -> "Measured | None":
    """Return what a daemon has measured; None if there was nothing to measure."""
    from evensong.daemon.control import ask
    from evensong.daemon.tuning import Measured

    status = ask(state, {"do": "status"})
    if status.get("engine", TOTEM) != TOTEM:
        raise BadSettings(f"{state}: runs {status['engine']}, which has no token to be measured")
    rotation, lag = status["rotation"], status["lag"]
    assert isinstance(rotation, dict)
    assert isinstance(lag, dict)
    if rotation["count"] < ROTATIONS_LEAST:
        return None
    return Measured(rotation["p99_us"], lag["recent_us"])
