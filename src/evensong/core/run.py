"""Frames that came together.

A busy ring hears dozens of messages at a time. As a run they are checked and kept without a step of
Python for each, and without a copy: a message remembers where it lies in what was received.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, final

# A run without the name: that costs two calls, and a busy ring reads thousands of rows a second.
Spans: TypeAlias = tuple[Sequence[bytes], Sequence[int], Sequence[int]]


@final
class Run(NamedTuple):
    """Frames of one transmitter, where they lie in the buffers in which they came."""

    buffers: Sequence[bytes]  # one for each frame; they may be the same
    starts: Sequence[int]
    stops: Sequence[int]

    def frames(self) -> list[bytes]:
        """Return each frame by itself."""
        return [
            buffer[start:stop]
            for buffer, start, stop in zip(self.buffers, self.starts, self.stops, strict=True)
        ]


def run_of(frames: Sequence[bytes]) -> Run:
    """Return whole frames as a run."""
    return Run(frames, (0,) * len(frames), (*map(len, frames),))
