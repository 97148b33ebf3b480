"""What a daemon tells a person: one line a fact, with its reason."""

from collections.abc import Callable, Mapping
from typing import Final, TextIO, final

from evensong.core.effects import StateChange
from evensong.core.engine import CHANGING, SETTLED, STEADY
from evensong.core.ids import Configuration, ProcessorId
from evensong.daemon.lines import Lines
from evensong.daemon.listener import Listener

SUMMARY_US: Final = 10_000_000  # the shortest time between two summaries of refusals


@final
class Log(Listener):
    """A listener that writes lines."""

    def __init__(self, out: TextIO, name: str) -> None:
        self._lines: Final = Lines(out, name)
        self._state = ""
        self._gather_at = 0
        self._members: tuple[ProcessorId, ...] = ()
        self._told: dict[str, int] = {}  # refusals that have been summed up
        self._summary_at = 0

    def say(self, text: str) -> None:
        """Write a line; a full disk or a reader that stops costs lines, not the daemon."""
        self._lines.say(text)

    def close(self) -> None:
        """Write what was said, as far as somebody reads it."""
        self._lines.close()

    def install(self, configuration: Configuration, now: int) -> None:
        """Say who is here, who came and who is gone."""
        if configuration.transitional:
            self.say(
                f"transitional configuration {configuration.conf_id}: "
                f"{_names(configuration.members)} go on together"
            )
            return
        before, members = set(self._members), set(configuration.members)
        changes = [
            f"{word} {_names(sorted(whom))}"
            for word, whom in (("joined", members - before), ("left", before - members))
            if whom and before
        ]
        note = f" ({'; '.join(changes)})" if changes else ""
        self.say(
            f"configuration {configuration.conf_id}: {_names(configuration.members)}{note}; "
            f"because: {configuration.cause}"
        )
        self._members = configuration.members

    def change_state(self, change: StateChange, now: int) -> None:
        """Say that a ring broke or stands; further rounds of a search are not news."""
        if change.state in CHANGING and self._state in ("", *STEADY):
            self._gather_at = now
            about = f" (n{change.about})" if change.about else ""
            what = "a ring" if change.state == "gather" else "another view"
            self.say(f"looks for {what}, because: {change.cause}{about}")
        elif change.state in SETTLED and self._state not in ("", *STEADY):
            self.say(f"{change.state} after {(now - self._gather_at) / 1_000:.1f} ms")
        self._state = change.state

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Say why this life is over."""
        self.say("left in good order" if how == "stop" else f"stopped: {cause}")

    def sum_up(self, refused: Mapping[str, int], now: int) -> None:
        """Say what was refused since the last summary, if anything."""
        if now < self._summary_at:
            return
        news = {
            reason: count - self._told.get(reason, 0)
            for reason, count in refused.items()
            if count > self._told.get(reason, 0) and reason != "ignored"
        }
        if news:
            self._summary_at = now + SUMMARY_US
            self._told = dict(refused)
            told = ", ".join(f"{reason} {count}" for reason, count in news.items())
            self.say(f"refused datagrams, by reason: {told} (`evensong doctor` says why)")


def summary(log: Log, refused: Callable[[], Mapping[str, int]]) -> Callable[[int], None]:
    """Return the chore that sums refusals up."""
    return lambda now: log.sum_up(refused(), now)


def _names(members: tuple[ProcessorId, ...] | list[ProcessorId]) -> str:
    return " ".join(f"n{member}" for member in members)
