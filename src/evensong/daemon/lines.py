"""Lines for a person, written by a thread of their own: a reader that stops costs lines, not time.

Order is kept, and a line bears the time at which it was said. What cannot wait is lost and counted;
the loss is said as soon as something can be written again.
"""

import os
import threading
from collections import deque
from datetime import UTC, datetime
from typing import Final, TextIO, final

WAITING_MAX: Final = 1_000  # lines
LAST_S: Final = 1.0  # how long the end waits for a reader that has stopped


@final
class Lines:
    """Takes lines at any time and without delay."""

    def __init__(self, out: TextIO, name: str) -> None:
        self._out: Final = out
        self._name: Final = name
        self._waiting: Final[deque[tuple[int, str]]] = deque()  # lost before it, and the line
        self._lost = 0  # lines that found no place since the last that did
        self._is_over = False
        self._news: Final = threading.Condition()
        self._thread: Final = threading.Thread(target=self._write_on, name="lines", daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """Have a line written."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._news:
            if len(self._waiting) >= WAITING_MAX:
                self._lost += 1
                return
            self._waiting.append((self._lost, f"{stamp} {self._name} {text}"))
            self._lost = 0
            self._news.notify()

    def close(self) -> None:
        """Write what waits, unless its reader takes too long."""
        with self._news:
            self._is_over = True
            self._news.notify()
        self._thread.join(LAST_S)

    def _write_on(self) -> None:
        unwritten = 0  # lines that could not be written since the last that could
        while (taken := self._next()) is not None:
            lost, line = taken
            unwritten += lost
            note = f" ({unwritten} lines before this one are lost)" if unwritten else ""
            try:
                self._write(f"{line}{note}\n")
            except OSError:
                unwritten += 1
            else:
                unwritten = 0
                self._own_up()

    def _next(self) -> tuple[int, str] | None:
        with self._news:
            while not self._waiting and not self._is_over:
                self._news.wait()
            return self._waiting.popleft() if self._waiting else None

    def _own_up(self) -> None:
        """Say what was lost behind the last line that waited, if anything was."""
        with self._news:
            is_due = bool(self._lost) and not self._waiting
        if is_due:
            self.say("writes its log again")

    def _write(self, text: str) -> None:
        """Write past the buffer of `out`: the process's end must not wait for a lock in there."""
        try:
            descriptor = self._out.fileno()
        except OSError:  # a text in memory
            self._out.write(text)
            return
        rest = text.encode(errors="backslashreplace")
        while rest:
            rest = rest[os.write(descriptor, rest) :]
