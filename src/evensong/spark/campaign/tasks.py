"""What an executor does: it runs its seeds, or shrinks a failing run, and says what came of it.

Nothing here raises because of a run. What a run of ours raises that is no broken promise (memory, a
disk that is full) is sent back as text, so that one bad seed costs no other seed anything.
"""

import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import evensong
from evensong.sim.campaign import Done, Task, broken_by
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import History
from evensong.sim.setup import Setup
from evensong.sim.shrink import Shrinker
from evensong.spark.campaign.plan import Campaign
from evensong.trace.parquet import write_trace

TRACEBACK_FRAMES: Final = 6

Files = tuple[tuple[str, bytes], ...]  # path below the run's directory, content


class Ran(NamedTuple):
    """A run that is over, and its trace if that is to be kept."""

    done: Done
    trace: Files = ()


class Shrunk(NamedTuple):
    """The smallest setup that was found; None if there was an error instead."""

    setup: Setup | None
    runs: int
    is_smallest: bool  # nothing more can go; else time or runs were up
    text: str = ""


def run_seeds(campaign: Campaign, seeds: Iterable[int]) -> Iterator[Ran]:
    """Do runs one after the other."""
    for seed in seeds:
        yield run_seed(campaign, seed)


def run_seed(campaign: Campaign, seed: int) -> Ran:
    """Do one run, whatever happens in it."""
    task = campaign.task(seed)
    try:
        outcome, history = run_recorded(task.setup())
        is_kept = bool(outcome.violations) or campaign.keeps_trace(seed)
        return Ran(Done(task, outcome), trace_of(history, task) if is_kept else ())
    except Exception:  # whatever it is belongs to this seed and to no other
        return Ran(Done(task, None, f"it raised\n{traceback.format_exc(limit=-TRACEBACK_FRAMES)}"))


def trace_of(history: History, task: Task) -> Files:
    """Return the files of a run's trace: it travels as bytes to whoever can write it."""
    with tempfile.TemporaryDirectory(prefix="evensong-") as directory:
        run = write_trace(history, directory, task.run_id())
        return tuple(
            (path.relative_to(run).as_posix(), path.read_bytes())
            for path in sorted(run.rglob("*"))
            if path.is_file()
        )


def shrink(task: Task, property_id: str, runs_max: int, seconds_max: float) -> Shrunk:
    """Shrink a failing run as far as runs and time allow."""
    deadline = time.monotonic() + seconds_max
    try:
        shrinker = Shrinker(task.setup(), property_id, _Bounded(deadline), runs_max)
        is_smallest = True
        try:
            shrinker.shrink()
        except _TimeIsUp:
            is_smallest = False
    except Exception:  # it is told with the failure, which stands without it
        return Shrunk(None, 0, False, traceback.format_exc(limit=-TRACEBACK_FRAMES))
    return Shrunk(shrinker.setup, shrinker.runs, is_smallest and shrinker.runs < runs_max)


class _TimeIsUp(Exception):
    """Ends a shrinking from within; what was found until then stands."""


class _Bounded:
    """Tries setups until a deadline."""

    def __init__(self, deadline: float) -> None:
        self._deadline: Final = deadline

    def __call__(self, setup: Setup) -> frozenset[str]:
        if time.monotonic() > self._deadline:
            raise _TimeIsUp
        return broken_by(setup)


def version_here(_: int) -> str:
    """Return the version of this package where the task runs, which proves that it can."""
    return evensong.__version__
