"""What the measurements beside corosync have in common as commands."""

import argparse
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from bench.peers.corosync import PROGRAMS
from bench.peers.network import CannotMeasure, require


class Told(Protocol):
    """What a measurement came to."""

    def as_json(self) -> str: ...

    def table(self) -> str: ...

    def bars(self) -> dict[str, bool]: ...


def parser_of(description: str, example: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all of them take."""
    parser = argparse.ArgumentParser(description=description, epilog=f"example: {example}")
    parser.add_argument(
        "--transport", choices=["udpu", "knet"], default="udpu", help="corosync's (default: udpu)"
    )
    parser.add_argument(
        "--realtime", action="store_true", help="every daemon is real-time, on a busy machine"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def run(measure: Callable[[], Told], *, as_json: bool) -> int:
    """Measure and print; 1 if a bar is missed, 3 if something is missing, 130 if interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        require(PROGRAMS)
        told = measure()
    except CannotMeasure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    print(told.as_json() if as_json else told.table())
    return 0 if all(told.bars().values()) else 1


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
