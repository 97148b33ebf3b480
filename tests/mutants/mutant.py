"""What a planted bug is, and what must notice it."""

from dataclasses import dataclass
from typing import Final

TOTEM: Final = "evensong/core/totem/"
UNIT: Final = "tests/core/totem/"
DIRECTED: Final = "tests/sim/test_directed.py::"


@dataclass(frozen=True)
class Seeds:
    """Swarm seeds, from the first up to but without the last."""

    first: int
    last: int
    clients: bool = False  # the runs have clients
    engine: str = "totem"

    def __str__(self) -> str:
        said = f"swarm seeds {self.first}:{self.last}{' with clients' if self.clients else ''}"
        return said if self.engine == "totem" else f"{said} of {self.engine}"

    @property
    def module(self) -> str:
        """Return the module whose `run` runs a seed."""
        if self.engine == "transis":
            return f"evensong.sim.transis.{'clients' if self.clients else 'swarm'}"
        return "evensong.sim.groups.draw" if self.clients else "evensong.sim.swarm"


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    file: str
    old: str
    new: str
    killer: str | Seeds
    also: Seeds | None = None  # runs that must notice it, too

    @property
    def path(self) -> str:
        """Return where it is planted, below `src`."""
        return TOTEM + self.file

    def plant(self, source: str) -> str:
        """Return the source with the bug in it."""
        found = source.count(self.old)
        assert found == 1, f"{self.name}: its text is found {found} times in {self.path}"
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class Equivalent:
    """A change that no run can notice, and why."""

    name: str
    file: str
    reason: str
