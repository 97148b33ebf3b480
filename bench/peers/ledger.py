"""What was measured so far: a line of JSON for each cell and turn, in a file.

A run that is started again with the same file goes on behind its last whole line.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.peers.cells import Cell
from bench.peers.figures import quantile

Figures = Mapping[str, object]
TAIL_SAMPLES = 20_000  # from so many on, one in a thousand means something


class Entry(NamedTuple):
    """What one turn of a cell came to."""

    cell: Cell
    turn: int
    figures: Figures

    def line(self) -> str:
        told = {"cell": self.cell._asdict(), "turn": self.turn, "figures": self.figures}
        return json.dumps(told, separators=(",", ":"))


class Ledger:
    """The entries of one run; those of an earlier start of it included."""

    def __init__(self, path: Path, about: Figures) -> None:
        """Read what there is; `about` is written first, if nothing is."""
        self._path = path
        self.entries: list[Entry] = []
        self.about: Figures = about
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        for number, line in enumerate(whole.splitlines()):
            told = json.loads(line)
            if number == 0:
                self.about = told
            else:
                cell = Cell(**told["cell"])
                self.entries.append(Entry(cell, told["turn"], told["figures"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(whole + "\n" if whole else json.dumps(self.about) + "\n")

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        with self._path.open("a") as file:
            file.write(entry.line() + "\n")

    def has(self, cell: Cell, turn: int) -> bool:
        return any(one.cell == cell and one.turn == turn for one in self.entries)

    def figures(self, cell: Cell) -> list[Figures]:
        """Return what the turns of a cell came to, without those that failed."""
        of_cell = [one.figures for one in self.entries if one.cell == cell]
        return [one for one in of_cell if "failed" not in one]

    def values(self, cell: Cell, name: str) -> list[float]:
        """Return one figure of a cell, turn by turn."""
        found = [one[name] for one in self.figures(cell) if name in one]
        return [float(one) for one in found if isinstance(one, int | float)]

    def samples(self, cell: Cell) -> list[int]:
        """Return the samples of all turns of a latency, ascending."""
        every: list[int] = []
        for one in self.figures(cell):
            samples = one.get("samples_us", [])
            assert isinstance(samples, list)
            every += samples
        return sorted(every)

    def latency(self, cell: Cell) -> dict[str, float]:
        """Return the quantiles of a latency that its samples can tell; empty if there are none."""
        samples = self.samples(cell)
        if not samples:
            return {}
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        if len(samples) >= TAIL_SAMPLES:
            shares["p99.9"] = 0.999
        return {name: quantile(samples, share) for name, share in shares.items()}

    def noise(self, which: str) -> list[float]:
        """Return how many cores were not ours, while each cell was measured, for this reason."""
        told = [one.figures.get("noise") for one in self.entries]
        return [float(one[which]) for one in told if isinstance(one, dict) and which in one]

    def failures(self) -> list[str]:
        """Say what could not be measured, once each."""
        told = {
            f"{one.cell}: {one.figures['failed']}": None
            for one in self.entries
            if "failed" in one.figures
        }
        return list(told)
