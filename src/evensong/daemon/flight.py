"""The flight recorder: always on, the last things that went differently than usual, in memory.

State changes, configurations, timers that fired, own lateness and what was dropped, by reason. It
can be read from a running daemon, and is written down when a daemon ends, however it ends short of
`kill -9`: to say why, no trace has to be switched on.
"""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, final

from evensong.core.effects import StateChange
from evensong.core.ids import Configuration
from evensong.core.totem.timers import Timers
from evensong.daemon.listener import Listener

ENTRIES_MAX: Final = 10_000
TEXT_MAX: Final = 200  # characters of a cause: 10,000 entries stay within 4 MiB
FILES_MAX: Final = 5
Entry: TypeAlias = tuple[int, str, tuple[object, ...]]  # t_us, what, figures by FIELDS

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "start": ("incarnation", "boot"),
    "state": ("state", "ring", "cause", "about"),
    "conf": ("conf", "transitional", "members", "cause"),
    "timer": ("name",),
    "lag": ("late_us",),
    "drop": ("reason", "count"),
    "end": ("how", "cause"),
}


@final
class Flight(Listener):
    """A listener that remembers, and forgets the oldest."""

    def __init__(self, incarnation: int, boot: int, now: int) -> None:
        self._incarnation: Final = incarnation
        self._entries: Final[deque[Entry]] = deque(maxlen=ENTRIES_MAX)
        self._dropped: dict[str, int] = {}
        self._note(now, "start", incarnation, f"{boot:016x}")

    def _note(self, now: int, what: str, *figures: object) -> None:
        self._entries.append((now, what, figures))

    def install(self, configuration: Configuration, now: int) -> None:
        """Remember a configuration."""
        members = " ".join(map(str, configuration.members))
        conf_id, is_transitional = str(configuration.conf_id), configuration.transitional
        self._note(now, "conf", conf_id, is_transitional, members, configuration.cause)

    def change_state(self, change: StateChange, now: int) -> None:
        """Remember a move of the membership."""
        self._note(now, "state", change.state, str(change.ring_id), change.cause, change.about)

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Remember how this life ended."""
        self._note(now, "end", how, cause)

    def note_timers(self, timers: Timers, now: int) -> None:
        """Remember which timers fire now; not those that do so on a ring where all is well."""
        for name, timer in (
            ("token loss", timers.token_loss),
            ("token retransmit", timers.token_retransmit),
            ("consensus", timers.consensus),
            ("join", timers.join),
        ):
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
        return [
            {
                "t_us": now,
                "what": what,
                **dict(zip(FIELDS[what], map(_short, figures), strict=True)),
            }
            for now, what, figures in self._entries
        ]

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


def _short(figure: object) -> object:
    return figure[:TEXT_MAX] if isinstance(figure, str) else figure


def _incarnation(path: Path) -> int:
    number = path.stem.removeprefix("flight-")
    return int(number) if number.isdecimal() else -1
