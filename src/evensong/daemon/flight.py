"""The flight recorder: always on, the last things that went differently than usual, in memory.

State changes with what was known of the others, configurations, timers that fired, own lateness and
what was dropped, by reason. It can be read from a running daemon, and is written down when a daemon
ends, however it ends short of `kill -9`: `evensong why` needs no trace.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, final

from evensong.core.effects import StateChange
from evensong.core.engine import CHANGING
from evensong.core.ids import NO_PROCESSOR, Configuration, ProcessorId
from evensong.core.timer import Timer
from evensong.daemon.listener import Listener
from evensong.daemon.sight import Look, Sight

ENTRIES_MAX: Final = 10_000
BYTES_MAX: Final = 4 * 1024 * 1024  # of all entries, as they are written
TEXT_MAX: Final = 200  # characters of a cause
START_BYTES: Final = 1024  # more than how a life began takes
FILES_MAX: Final = 5
Entry: TypeAlias = tuple[int, str, tuple[object, ...]]  # t_us, what, figures by FIELDS

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "start": ("incarnation", "boot", "node", "cluster", "host", "token_loss_us"),
    "state": ("state", "ring", "cause", "about", "proposed", "failed"),
    "sight": Sight._fields,
    "conf": ("conf", "transitional", "members", "cause"),
    "timer": ("name",),
    "lag": ("late_us",),
    "drop": ("reason", "count"),
    "end": ("how", "cause"),
}


@final
class Flight(Listener):
    """A listener that remembers, and forgets the oldest."""

    def __init__(
        self,
        incarnation: int,
        boot: int,
        now: int,
        node: ProcessorId = NO_PROCESSOR,
        cluster: str = "",
        host: str = "",
        token_loss_us: int = 0,
    ) -> None:
        self._incarnation: Final = incarnation
        self._entries: Final[deque[Entry]] = deque()
        self._sizes: Final[deque[int]] = deque()
        self._size = 0
        self._dropped: dict[str, int] = {}
        self.look: Look | None = None  # what is known of the others, noted when one gathers
        whose = (incarnation, f"{boot:016x}", node, cluster, host, token_loss_us)
        self._start: Final[Entry] = (now, "start", whose)  # is never forgotten

    def _note(self, now: int, what: str, *figures: object) -> None:
        size = len(json.dumps(_plain((now, what, figures)))) + 1
        self._entries.append((now, what, figures))
        self._sizes.append(size)
        self._size += size
        while len(self._entries) >= ENTRIES_MAX or self._size > BYTES_MAX - START_BYTES:
            self._entries.popleft()
            self._size -= self._sizes.popleft()

    def install(self, configuration: Configuration, now: int) -> None:
        """Remember a configuration."""
        members = " ".join(map(str, configuration.members))
        conf_id, is_transitional = str(configuration.conf_id), configuration.transitional
        self._note(now, "conf", conf_id, is_transitional, members, configuration.cause)

    def change_state(self, change: StateChange, now: int) -> None:
        """Remember a move of the membership; and, of one that gathers, what it knew by then."""
        proposed, failed = (" ".join(map(str, ids)) for ids in (change.proposed, change.failed))
        state, ring = change.state, str(change.ring_id)
        cause = change.cause[:TEXT_MAX]
        self._note(now, "state", state, ring, cause, change.about, proposed, failed)
        if self.look is not None and change.state in CHANGING:
            self._note(now, "sight", *self.look(change, now))

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Remember how this life ended."""
        self._note(now, "end", how, cause[:TEXT_MAX])

    def note_timers(self, alarms: Sequence[tuple[str, Timer]], now: int) -> None:
        """Remember which timers fire now, of those that do so only when something is wrong."""
        for name, timer in alarms:
            if timer.is_due(now):
                self._note(now, "timer", name)

    def note_lag(self, late_us: int, now: int) -> None:
        """Remember that this daemon was late."""
        self._note(now, "lag", late_us)

    def note_drops(self, counts: Mapping[str, int], now: int) -> None:
        """Remember what was refused or dropped since this was last called, by reason."""
        for reason, count in counts.items():
            news = count - self._dropped.get(reason, 0)
            if news:
                self._dropped[reason] = count
                self._note(now, "drop", reason, news)

    def entries(self) -> list[dict[str, object]]:
        """Return what is remembered, the oldest first."""
        return [_plain(entry) for entry in (self._start, *self._entries)]

    def write(self, state: Path) -> None:
        """Write everything down as JSON lines, and keep the newest few such files.

        A disk that is full must not hide why a daemon ended: then there is no file.
        """
        path = state / f"flight-{self._incarnation}.jsonl"
        lines = "".join(json.dumps(entry) + "\n" for entry in self.entries())
        with suppress(OSError):
            path.write_text(lines)
            for old in sorted(state.glob("flight-*.jsonl"), key=_incarnation)[:-FILES_MAX]:
                old.unlink()


def _plain(entry: Entry) -> dict[str, object]:
    now, what, figures = entry
    return {"t_us": now, "what": what, **dict(zip(FIELDS[what], figures, strict=True))}


def _incarnation(path: Path) -> int:
    number = path.stem.removeprefix("flight-")
    return int(number) if number.isdecimal() else -1
