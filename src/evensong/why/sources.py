"""Everything that paths have to tell: settings, state directories, traces, recorders, daemons.

A daemon that runs is asked; of one that does not, the recorders it left and its trace are read. A
life that both tell of is taken from the recorder, which knows more, unless it has forgotten how the
life began.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from evensong.daemon.control import ask, is_listening
from evensong.daemon.settings import load
from evensong.errors import BadRequest, BadTrace, Unreachable
from evensong.trace.directory import LOCK_NAME, TRACE_NAME, Place, is_trace
from evensong.why.recorder import Recorder, from_entries, is_recorder, read_recorder
from evensong.why.records import Account
from evensong.why.traces import read_accounts

STATE_FILES: Final = (LOCK_NAME, "ring.record", "control.sock")


@dataclass(slots=True)
class Found:
    """The accounts of one cluster or run."""

    accounts: dict[tuple[int, int], Account] = field(default_factory=dict)

    def add(self, account: Account, *, is_better: bool) -> None:
        """Take an account in; of two of one life the better one stays."""
        key = account.node, account.incarnation
        known = self.accounts.get(key)
        if known is None or (is_better and (account.has_beginning or not known.has_beginning)):
            self.accounts[key] = account


@dataclass(slots=True)
class Sources:
    """What was found, by run, and what is to be said about how."""

    runs: dict[str, Found] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def found(self, run: str) -> Found:
        """Return what belongs to a run."""
        return self.runs.setdefault(run, Found())


def places_of(paths: Iterable[Path]) -> list[Place | Path]:
    """Return what paths mean: places of daemons and traces, and files of recorders."""
    places: list[Place | Path] = []
    for path in paths:
        if is_recorder(path):
            places.append(path)
        elif path.is_file():
            settings = load(path)
            places.append(Place(settings.trace_dir, settings.state))
        elif path.is_dir():
            places += _below(path)
        else:
            raise BadTrace(f"{path}: there is no such file or directory")
    return list(dict.fromkeys(places))


def _below(path: Path) -> list[Place | Path]:
    if _is_state(path):
        return [Place(path / TRACE_NAME, path)]
    if path.name.startswith("run_id=") or is_trace(path):
        state = path.parent if (path.parent / LOCK_NAME).exists() else None
        return [Place(path, state)]
    recorders = sorted(one for one in path.iterdir() if is_recorder(one))
    if recorders:
        return [*recorders]
    found = [Place(one / TRACE_NAME, one) for one in sorted(path.iterdir()) if _is_state(one)]
    if not found:
        raise BadTrace(f"{path}: holds no daemon's state, no trace and no flight recorder")
    return [*found]


def _is_state(path: Path) -> bool:
    return path.is_dir() and (
        any((path / name).exists() for name in STATE_FILES) or is_trace(path / TRACE_NAME)
    )


def read_sources(paths: Iterable[Path], advance: Callable[[], None] = lambda: None) -> Sources:
    """Read everything that paths have to tell."""
    sources = Sources()
    for place in places_of(paths):
        if isinstance(place, Place):
            _read_place(place, sources)
        else:
            _take(read_recorder(place), sources)
        advance()
    return sources


def _read_place(place: Place, sources: Sources) -> None:
    state = place.state
    is_running = state is not None and is_listening(state)
    live = _ask(state, sources) if state is not None and is_running else None
    if live is not None:
        _take(live, sources)
    if state is not None:
        for path in sorted(state.glob("flight-*.jsonl")):
            _take(read_recorder(path), sources)
    if is_trace(place.directory) or place.directory.name.startswith("run_id="):
        for run, accounts in read_accounts(place, is_running=is_running).items():
            found = sources.found(run)
            latest = max(accounts, key=lambda account: account.incarnation)
            for account in accounts:
                is_stuck = is_running and live is None and account is latest
                found.add(replace(account, is_stuck=is_stuck), is_better=False)


def _ask(state: Path, sources: Sources) -> Recorder | None:
    """Ask a daemon for its flight recorder, and to write its trace down."""
    try:
        with suppress(BadRequest):  # it traces nothing
            ask(state, {"do": "flush"})
        entries = ask(state, {"do": "flight"}).get("entries")
    except (Unreachable, BadRequest) as error:
        sources.notes.append(str(error))
        return None
    if not isinstance(entries, list):
        raise BadTrace(f"{state}: what answers there is no daemon of this release")
    return from_entries(entries, f"the daemon of {state}")


def _take(recorder: Recorder, sources: Sources) -> None:
    account = recorder.account
    if recorder.is_torn:
        sources.notes.append(f"{account.source}: its last line is cut short and left out")
    sources.found(recorder.cluster).add(account, is_better=True)
