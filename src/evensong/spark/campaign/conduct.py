"""Keeps the executors busy until every seed is done, and takes what comes back.

A part of the seeds is one job of Spark, a few seeds one task of it. Several parts are under way at
a time, so that the cores that run out of one part find work in the next. A part is written down
when all of it has come back.

A task whose Python process dies takes its job with it. The seeds of that part are then done again
by few at a time, and those that die once more one by one; what dies alone as well is lost, and
known by its seed. An interrupt is noted and answered between two looks at the jobs, never amid a
call to Java, which would leave that connection unusable.
"""

import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from evensong import __version__
from evensong.errors import SparkFailed
from evensong.sim.campaign import Done
from evensong.sim.tally import Failure
from evensong.spark.campaign.plan import (
    SEEDS_PER_LAST_TASK,
    SEEDS_PER_PART,
    SEEDS_PER_TASK,
    Campaign,
)
from evensong.spark.campaign.store import Store
from evensong.spark.campaign.tasks import Ran, Shrunk, run_seeds, shrink, version_here

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.25
PARTS_AT_ONCE_MAX: Final = 64
DEATH: Final = re.compile(
    r"Python worker exited unexpectedly(?: \([^\n)]*\))?|Python worker failed to connect back"
    r"|ExecutorLostFailure \(([^\n]*)\)|Fatal Python error: [^\n]*"
)

T = TypeVar("T")

# What an executor does with a few seeds of a campaign.
Simulate: TypeAlias = Callable[[Campaign, Iterable[int]], Iterator[Ran]]


class _Died(Exception):
    """A task of a job came to no end; the others of that job are gone with it."""


class Part(NamedTuple):
    """Seeds to be done and written together; some of their runs may be known already."""

    seeds: range
    due: Sequence[int]
    known: tuple[Done, ...] = ()


def again(seeds: range, runs: Iterable[Done]) -> Part:
    """Return what is left to do of a part that was finished: runs that were lost.

    What took them may be over. With nothing lost nothing is due.
    """
    runs = list(runs)
    lost = [done.task.seed for done in runs if done.outcome is None]
    known = [done for done in runs if done.outcome is not None]
    return Part(seeds, lost, tuple(known) if lost else ())


def due_parts(campaign: Campaign, finished: Mapping[range, Part]) -> Iterator[Part]:
    """Return the parts of a campaign in which something is left to do."""
    for seeds in campaign.parts():
        part = finished.get(seeds, Part(seeds, seeds))
        if part.due:
            yield part


class Conductor:
    """Runs a campaign on the executors of a session."""

    def __init__(
        self,
        spark: "SparkSession",
        campaign: Campaign,
        store: Store,
        simulate: Simulate = run_seeds,
    ) -> None:
        self._context: Final[SparkContext] = spark.sparkContext
        self._campaign: Final = campaign
        self._store: Final = store
        self._simulate: Final = simulate
        self._is_over: Final = threading.Event()
        self._tag: Final = f"evensong-{uuid.uuid4().hex}"  # of our jobs, among others of a session

    def get_ready(self) -> None:
        """Start Python on the executors, and find out that they have what a run needs."""
        cores = self._cores()
        numbers = self._context.parallelize(range(cores), cores)
        others = set(numbers.map(version_here).collect()) - {__version__}
        if others:
            found = ", ".join(sorted(others))
            raise SparkFailed(f"executors have evensong {found}, and this is {__version__}")

    def _cores(self) -> int:
        # Asked for each time: executors of a cluster come one after the other.
        return max(1, self._context.defaultParallelism)

    def run(
        self,
        parts: Iterable[Part],
        take: Callable[[list[Done]], None],
        advance: Callable[[int], None],
    ) -> None:
        """Do parts; hand over the runs of each when it is done, and say how many are through."""
        tasks_per_part = SEEDS_PER_PART // SEEDS_PER_TASK
        at_once = min(PARTS_AT_ONCE_MAX, 1 + -(-2 * self._cores() // tasks_per_part))
        waiting = iter(parts)
        shown = _Shown(advance)
        with self._together(at_once) as (pool, is_interrupted):
            under_way: dict[Future[list[Done]], Part] = {}
            while True:
                for part in islice(waiting, at_once - len(under_way)):
                    under_way[pool.submit(self._do_part, part)] = part
                if not under_way:
                    return
                over, _ = wait(under_way, LOOK_S, FIRST_COMPLETED)
                for future in over:
                    part = under_way.pop(future)
                    runs = future.result()
                    take(runs)
                    shown.finish(len(runs))
                    _check_not_in_vain(part, runs)
                if is_interrupted():
                    raise KeyboardInterrupt
                shown.show(sum(self._done_of(part) for part in under_way.values()))

    def _do_part(self, part: Part) -> list[Done]:
        runs = self._ran(part)
        self._store.add(part.seeds, runs, part.known)
        return [done for done, _ in runs]

    def _ran(self, part: Part) -> list[Ran]:
        chunks = list(_chunks(part.due, self._campaign.seeds_per_task(part.seeds)))
        with suppress(_Died):
            return self._job(_group_of(part), chunks)
        runs: list[Ran] = []
        for chunk in chunks:
            try:
                runs.extend(self._job("", [chunk]))
            except _Died:
                for seed in chunk:
                    runs.extend(self._alone(seed))
        return runs

    def _alone(self, seed: int) -> list[Ran]:
        try:
            return self._job("", [[seed]])
        except _Died as died:
            text = f"the process that ran it died, alone as well: {died}"
            return [Ran(Done(self._campaign.task(seed), None, text))]

    def _job(self, group: str, chunks: list[Sequence[int]]) -> list[Ran]:
        if self._is_over.is_set():
            raise CancelledError
        self._name_job(group, "simulations")
        spread = self._context.parallelize(chunks, len(chunks))
        return self._collected(spread.flatMap(partial(self._simulate, self._campaign)).collect)

    def _name_job(self, group: str, what: str) -> None:
        """Say what the next jobs of this thread are, so that they are found again."""
        self._context.setJobGroup(group, what, interruptOnCancel=True)
        self._context.addJobTag(self._tag)

    def _collected(self, collect: Callable[[], list[T]]) -> list[T]:
        try:
            return collect()
        except (Py4JError, PySparkException) as error:
            death = DEATH.search(str(error))
            if death is None:
                raise
            raise _Died(death[1] or death[0]) from error

    def _done_of(self, part: Part) -> int:
        """Return how many seeds of a part are through, as far as Spark says."""
        tracker = self._context.statusTracker()
        tasks = 0
        for job_id in tracker.getJobIdsForGroup(_group_of(part)):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                tasks += stage.numCompletedTasks if stage is not None else 0
        return min(tasks * self._campaign.seeds_per_task(part.seeds), len(part.due))

    def shrink(
        self,
        failures: Sequence[Failure],
        runs_max: int,
        seconds_max: float,
        take: Callable[[Failure, Shrunk], None],
    ) -> None:
        """Shrink failing runs, each as a task of its own."""
        if not failures:
            return
        with self._together(len(failures)) as (pool, is_interrupted):
            under_way = {
                pool.submit(self._shrink_one, failure, runs_max, seconds_max): failure
                for failure in failures
            }
            while under_way:
                over, _ = wait(under_way, LOOK_S, FIRST_COMPLETED)
                for future in over:
                    take(under_way.pop(future), future.result())
                if is_interrupted():
                    raise KeyboardInterrupt

    def _shrink_one(self, failure: Failure, runs_max: int, seconds_max: float) -> Shrunk:
        self._name_job("", "shrinking")
        numbers = self._context.parallelize([0], 1)
        work = partial(_shrink, failure, runs_max, seconds_max)
        try:
            (shrunk,) = self._collected(numbers.map(work).collect)
        except _Died as died:
            return Shrunk(None, 0, False, f"the process died: {died}")
        return shrunk

    @contextmanager
    def _together(self, threads: int) -> Iterator[tuple[ThreadPoolExecutor, Callable[[], bool]]]:
        """Give threads that wait for jobs; what ends the block before its time ends the jobs."""
        with noted_interrupts() as is_interrupted, ThreadPoolExecutor(threads) as pool:
            try:
                yield pool, is_interrupted
            except BaseException:
                self._is_over.set()
                pool.shutdown(wait=False, cancel_futures=True)
                self._context.cancelJobsWithTag(self._tag)
                raise


def _shrink(failure: Failure, runs_max: int, seconds_max: float, _: int) -> Shrunk:
    return shrink(failure.task, failure.property_id, runs_max, seconds_max)


def _check_not_in_vain(part: Part, runs: list[Done]) -> None:
    """Stop when all runs of a part are lost: then it is not they, but what they run on."""
    is_whole = not part.known and len(runs) >= SEEDS_PER_LAST_TASK
    if is_whole and all(done.outcome is None for done in runs):
        seeds = f"{part.seeds.start}:{part.seeds.stop}"
        raise SparkFailed(f"all runs of seeds {seeds} were lost; of the first: {runs[0].text}")


def _group_of(part: Part) -> str:
    return f"evensong-{part.seeds.start}-{part.seeds.stop}"


def _chunks(seeds: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for first in range(0, len(seeds), size):
        yield seeds[first : first + size]


class _Shown:
    """Turns what is known of jobs under way into steps forward; there is no step back."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance: Final = advance
        self._finished = 0
        self._shown = 0

    def finish(self, seeds: int) -> None:
        """Count a part that is written down."""
        self._finished += seeds
        self.show(0)

    def show(self, under_way: int) -> None:
        """Show what is done of all parts."""
        done = max(self._shown, self._finished + under_way)
        self._advance(done - self._shown)
        self._shown = done


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed since; a second time it breaks off."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set  # signals are the main thread's
        return

    def note(*_: object) -> None:
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
