"""How far long work has come: a bar on a terminal, a plain line now and then elsewhere.

All of it goes to stderr, so that what a command prints (`--json` above all) stays clean. Nothing is
drawn by a thread or a signal: the work itself calls `advance`, and drawing is held to a rate that
costs the work nothing.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self, TextIO, final

BAR_PERIOD_S: Final = 0.1
LINE_PERIOD_S: Final = 10.0
BAR_WIDTH: Final = 30


class Display(Protocol):
    """Where progress is shown."""

    period_s: float  # the shortest time between two updates

    def show(self, label: str, done: int, total: int, elapsed_s: float) -> None:
        """Show where the work is."""
        ...

    def close(self) -> None:
        """Leave the stream at the start of a fresh line."""
        ...


@final
class Progress:
    """A context manager around work of `total` steps; call `advance` after each."""

    def __init__(
        self,
        label: str,
        total: int,
        *,
        display: Display | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label: Final = label
        self._total = total
        self._display: Final = display if display is not None else display_for(sys.stderr)
        self._clock: Final = clock
        self._done = 0
        self._started_at = 0.0
        self._shown_at = 0.0
        self._shown_done = -1

    def __enter__(self) -> Self:
        self._started_at = self._shown_at = self._clock()
        return self

    def expect(self, total: int) -> None:
        """Say how many steps there are, now that it is known."""
        self._total = total

    def advance(self, steps: int = 1) -> None:
        """Count steps that are done."""
        self._done += steps
        now = self._clock()
        if now - self._shown_at >= self._display.period_s:
            self._show(now)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Work that ended before its first update was short: it needs no last line either.
        if self._shown_done not in (-1, self._done):
            self._show(self._clock())
        self._display.close()

    def _show(self, now: float) -> None:
        self._shown_at = now
        self._shown_done = self._done
        self._display.show(self._label, self._done, self._total, now - self._started_at)


def display_for(stream: TextIO) -> Display:
    """Choose what suits the stream: Rich's bar, a plain bar, or lines."""
    if not stream.isatty():
        return Lines(stream)
    try:
        return RichBar(stream)
    except ImportError:  # the extra `pretty` is not installed
        return PlainBar(stream)


@final
class Lines:
    """For logs and pipes: one line every ten seconds at most."""

    def __init__(self, stream: TextIO) -> None:
        self.period_s = LINE_PERIOD_S
        self._stream: Final = stream

    def show(self, label: str, done: int, total: int, elapsed_s: float) -> None:
        """Write a line."""
        print(f"{label}: {describe(done, total, elapsed_s)}", file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing: every line is whole."""


@final
class PlainBar:
    """For a terminal without Rich: one line, redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self.period_s = BAR_PERIOD_S
        self._stream: Final = stream
        self._width = 0

    def show(self, label: str, done: int, total: int, elapsed_s: float) -> None:
        """Redraw the line."""
        filled = BAR_WIDTH * min(done, total) // total if total else BAR_WIDTH
        bar = "#" * filled + "-" * (BAR_WIDTH - filled)
        line = f"{label} [{bar}] {describe(done, total, elapsed_s)}"
        self._stream.write("\r" + line.ljust(self._width))  # a shorter line must hide the longer
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """End the line, if one was begun."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()


@final
class RichBar:
    """For a terminal with Rich installed."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.period_s = BAR_PERIOD_S
        self._rich: Final = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=Console(file=stream, force_terminal=True),
            auto_refresh=False,  # its thread would draw while simulated work forks
        )
        self._task: Final = self._rich.add_task("", figures="")
        self._is_started = False

    def show(self, label: str, done: int, total: int, elapsed_s: float) -> None:
        """Redraw the bar."""
        if not self._is_started:
            self._rich.start()
            self._is_started = True
        figures = describe(done, total, elapsed_s)
        self._rich.update(
            self._task, description=label, completed=done, total=total, figures=figures
        )
        self._rich.refresh()

    def close(self) -> None:
        """Leave the bar as it was last drawn."""
        if self._is_started:
            self._rich.stop()


def describe(done: int, total: int, elapsed_s: float) -> str:
    """Say how much is done, how fast it goes, and how long the rest will take."""
    text = f"{done}/{total}"
    if done == 0 or elapsed_s <= 0:
        return text
    rate = done / elapsed_s
    text += f", {rate:.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
    if done < total:
        return f"{text}, {_duration((total - done) / rate)} left"
    return f"{text}, took {_duration(elapsed_s)}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m"
