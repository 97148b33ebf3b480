"""Flight recorders read back: as a daemon that ended wrote them down, or as one that runs answers.

What is in such a file was written by a daemon, but the file may have come from anywhere: whatever
does not fit is refused with its place, and nothing unprintable gets through.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from evensong.core.ids import PROCESSOR_MAX
from evensong.errors import BadTrace
from evensong.why.records import Account, Record

BYTES_MAX: Final = 64 * 1024 * 1024  # no recorder writes a tenth of it
WHATS: Final = frozenset(["start", "state", "sight", "conf", "timer", "lag", "drop", "end"])
NUMBER_MAX: Final = 2**63 - 1


class Recorder(NamedTuple):
    """What a flight recorder holds."""

    cluster: str
    account: Account
    is_torn: bool = False  # the last line is cut short


def is_recorder(path: Path) -> bool:
    """Whether a file is named as flight recorders are."""
    return path.name.startswith("flight-") and path.suffix == ".jsonl"


def read_recorder(path: Path) -> Recorder:
    """Read a file that a daemon left; raise `BadTrace` if it is none."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise BadTrace(f"{path}: is larger than any flight recorder")
        raw = path.read_bytes()
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror}") from None
    lines = raw.split(b"\n")
    torn = lines.pop()  # what a whole file has after its last line is nothing
    entries = [_parsed(path, number, line) for number, line in enumerate(lines, 1)]
    return from_entries(entries, str(path), is_torn=bool(torn))


def _parsed(path: Path, number: int, line: bytes) -> object:
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError):
        raise BadTrace(f"{path}: line {number} is not JSON") from None
    return parsed


def from_entries(entries: Iterable[object], source: str, *, is_torn: bool = False) -> Recorder:
    """Return what the entries of a recorder say; raise `BadTrace` if they are none."""
    checked = [_checked(source, number, entry) for number, entry in enumerate(entries, 1)]
    if not checked or checked[0]["what"] != "start":
        raise BadTrace(f"{source}: is no flight recorder: it does not begin with a start")
    start = checked[0]
    node, incarnation = _whole(start.get("node")), _whole(start.get("incarnation"))
    if not 0 < node <= PROCESSOR_MAX or incarnation < 0:
        raise BadTrace(f"{source}: does not say whose it is; an older release wrote it")
    records = list(_records(node, incarnation, checked))
    end = records[-1] if records[-1].what == "end" else None
    account = Account(
        node,
        incarnation,
        source,
        str(start.get("host", "")),
        max(0, _whole(start.get("token_loss_us"))),
        end.text("how") if end is not None else "",
        # The first thing that a daemon does is to install a ring of one.
        has_beginning=len(records) > 1 and records[1].text("cause") == "start",
        records=records,
    )
    return Recorder(str(start.get("cluster", "")), account, is_torn)


def _checked(source: str, number: int, entry: object) -> dict[str, object]:
    if not isinstance(entry, dict) or entry.get("what") not in WHATS:
        raise BadTrace(f"{source}: line {number} is not a record of a flight recorder")
    if not 0 <= _whole(entry.get("t_us")) <= NUMBER_MAX:
        raise BadTrace(f"{source}: line {number} has no time")
    for name, figure in entry.items():
        is_number = isinstance(figure, int) and abs(figure) <= NUMBER_MAX
        is_fit = is_number or (isinstance(figure, str) and figure.isprintable())
        if not is_fit or not name.isprintable():
            raise BadTrace(f"{source}: line {number}: {name!r} is not what a recorder writes")
    return entry


def _whole(figure: object) -> int:
    is_whole = isinstance(figure, int) and not isinstance(figure, bool)
    return figure if is_whole and isinstance(figure, int) else -1


def _records(node: int, incarnation: int, entries: Iterable[dict[str, object]]) -> Iterator[Record]:
    """Yield records; what was in sight goes with the gathering that it was noted for."""
    waiting: Record | None = None
    for entry in entries:
        figures = {
            name: str(value) for name, value in entry.items() if name not in ("t_us", "what")
        }
        t_us, what = _whole(entry["t_us"]), str(entry["what"])
        if what == "sight" and waiting is not None:
            waiting = waiting._replace(figures={**waiting.figures, **figures})
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        record = Record(node, incarnation, t_us, what, figures)
        if what == "state":
            waiting = record
        else:
            yield record
    if waiting is not None:
        yield waiting
