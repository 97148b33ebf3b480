"""What a campaign is: its seeds, how they are drawn, which sources run, which traces are kept.

All of it is written down in the directory of the campaign. What is found there is gone on with only
if it is the same campaign by the same sources: anything else would mix results that do not belong
together.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import evensong
from evensong.errors import BadCampaign
from evensong.sim.campaign import Task
from evensong.sim.evs import Status
from evensong.sim.run import Outcome
from evensong.sim.setup import TOTEM
from evensong.sim.tally import statuses_of

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SEEDS_PER_PART: Final = 64  # what is written at once, and redone after a kill: seconds of work
SEEDS_PER_TASK: Final = 16  # some seconds: handing a task over is small beside it
SEEDS_PER_LAST_TASK: Final = 4  # at the end, cores should run out of work together
DECIDE_A_RUN: Final = ("core", "sim")  # the packages whose sources decide what comes of a seed


@dataclass(frozen=True, slots=True)
class Campaign:
    """Runs of seeds, all drawn alike."""

    seeds: range
    nodes: int | None = None
    messages: int | None = None
    clients: bool = False
    traces: int = 0  # runs whose traces are kept whether they pass or not
    engine: str = TOTEM

    def task(self, seed: int) -> Task:
        """Return the run of a seed."""
        return Task(seed, self.nodes, self.messages, clients=self.clients, engine=self.engine)

    def statuses(self, outcome: Outcome) -> dict[str, Status]:
        """Return how every invariant and every property fared in a run."""
        return statuses_of(outcome, clients=self.clients, engine=self.engine)

    def keeps_trace(self, seed: int) -> bool:
        """Whether the trace of a run is kept anyway: such runs are spread over all seeds."""
        total = len(self.seeds)
        return (seed - self.seeds.start) * self.traces % total < self.traces

    def parts(self) -> Iterator[range]:
        """Return the seeds part by part: the same parts wherever it runs."""
        for first in range(self.seeds.start, self.seeds.stop, SEEDS_PER_PART):
            yield range(first, min(first + SEEDS_PER_PART, self.seeds.stop))

    def seeds_per_task(self, part: range) -> int:
        """Return how many seeds of a part an executor gets at once."""
        return SEEDS_PER_LAST_TASK if part.stop == self.seeds.stop else SEEDS_PER_TASK

    def name(self) -> str:
        """Return the name of a directory that no other campaign has."""
        words = [f"campaign-{self.seeds.start}-{self.seeds.stop}"]
        if self.nodes is not None:
            words.append(f"nodes-{self.nodes}")
        if self.messages is not None:
            words.append(f"messages-{self.messages}")
        if self.clients:
            words.append("clients")
        if self.engine != TOTEM:
            words.append(self.engine)
        if self.traces:
            words.append(f"traces-{self.traces}")
        return "-".join((*words, sources_digest()[:8]))

    def to_json(self) -> str:
        """Return what the campaign is, for its directory."""
        return json.dumps(self._plain(), indent=2) + "\n"

    def _plain(self) -> dict[str, object]:
        return {
            "version": evensong.__version__,
            "sources": sources_digest(),
            "seeds": f"{self.seeds.start}:{self.seeds.stop}",
            "nodes": self.nodes,
            "messages": self.messages,
            "clients": self.clients,
            "engine": self.engine,
            "traces": self.traces,
            "part": SEEDS_PER_PART,
        }

    def check_same(self, written: str, place: str) -> None:
        """Refuse to go on with another campaign than what is written down."""
        try:
            found = json.loads(written)
        except ValueError as error:
            raise BadCampaign(f"{place}: is not the description of a campaign: {error}") from error
        if not isinstance(found, dict):
            raise BadCampaign(f"{place}: is not the description of a campaign")
        for name, value in self._plain().items():
            if found.get(name) != value:
                raise BadCampaign(
                    f"{place}: another campaign is there, its {name} is {_said(found.get(name))}, "
                    f"not {_said(value)}; give this one an --output of its own"
                )


def _said(value: object) -> str:
    return "not set" if value is None else str(value)


@cache
def sources_digest() -> str:
    """Return a hash of the sources that decide a run, as this process has them."""
    state = hashlib.blake2b(digest_size=16)
    for package in DECIDE_A_RUN:
        for name, source in sorted(_sources(files("evensong") / package, package)):
            state.update(f"{name} {len(source)}\n".encode() + source)
    return state.hexdigest()


def _sources(folder: "Traversable", name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()
