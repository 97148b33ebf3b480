"""Where a story is printed: in colour where Rich is installed and the reader wants it."""

import sys
import textwrap
from importlib.util import find_spec
from typing import Final, TextIO, final

MS: Final = 1_000
WIDTH: Final = 88


@final
class Paper:
    """Lines of a story; on a terminal also a last line that changes until the next one is told."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: Final = stream
        self._passing_width = 0
        self._console = None
        if find_spec("rich") is not None:
            from rich.console import Console as RichConsole

            class Console(RichConsole):
                """Rich would end the program with 1 when its reader is gone; `main` sees to it."""

                def on_broken_pipe(self) -> None:
                    raise BrokenPipeError

            self._console = Console(file=stream, highlight=False, soft_wrap=True)

    def write(self, text: str = "", style: str = "") -> None:
        """Tell a line."""
        self.passing("")
        if self._console is None:
            print(text, file=self._stream, flush=True)
        else:
            self._console.print(text, style=style or None, markup=False)

    def heading(self, text: str) -> None:
        """Begin a chapter."""
        self.write()
        self.write(text, "bold cyan")

    def explain(self, text: str) -> None:
        """Tell a newcomer what it is about."""
        indent = "   "
        filled = textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
        self.write(filled, "dim")

    def fact(self, at_us: int, text: str, style: str = "") -> None:
        """Tell what happened when."""
        self.write(f"   {at_us / MS:8.1f} ms   {text}", style)

    def note(self, text: str, style: str = "") -> None:
        """Add to a fact."""
        self.write(f"                 {text}", style)

    def passing(self, text: str) -> None:
        """Show where things are, on a terminal only; the next line takes its place."""
        stream = self._stream if self._stream is not None else sys.stdout
        if not stream.isatty() or not (text or self._passing_width):
            return
        stream.write("\r" + text.ljust(self._passing_width) + ("" if text else "\r"))
        stream.flush()
        self._passing_width = len(text)
