"""Many runs on all cores: tasks go out, outcomes come back as they are ready.

Every worker is a process of its own with a pipe to us; it has one task at a time, so a worker that
dies is known by the run it had, another takes its place, and the campaign goes on. Workers ignore
SIGINT: Ctrl-C is ours to answer, by closing. With one job the runs happen here.
"""

import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from evensong.errors import BadScenario, BadTrace, EvensongError
from evensong.sim import admit
from evensong.sim.groups.draw import with_clients
from evensong.sim.groups.run import run_recorded
from evensong.sim.run import Outcome
from evensong.sim.setup import TOTEM, Setup, setup_from_json
from evensong.sim.swarm import swarm
from evensong.sim.transis.swarm import swarm as lansis_swarm
from evensong.sim.whole import discard

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

# Spawned, not forked: a fork would copy pipes of other workers, which then outlive their owners.
_CONTEXT: Final = get_context("spawn")
_STOP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be done: a seed, or a file that holds a setup."""

    seed: int
    nodes: int | None = None
    messages: int | None = None
    plan: str = ""
    trace: str = ""  # where its trace goes, if anywhere
    clients: bool = False  # processors run groups, and clients use them
    engine: str = TOTEM

    def setup(self) -> Setup:
        """Return what decides the run."""
        if self.plan:
            return load_setup(self.plan)
        make = swarm if self.engine == TOTEM else lansis_swarm
        if not self.clients:
            return make(self.seed, self.nodes, self.messages)
        return with_clients(make(self.seed, self.nodes, 0), self.messages)

    def command(self) -> str:
        """Return the command that repeats the run."""
        if self.plan:
            return f"evensong sim --plan {self.plan}"
        words = [f"evensong sim --seed {self.seed}"]
        if self.nodes is not None:
            words.append(f"--nodes {self.nodes}")
        if self.messages is not None:
            words.append(f"--messages {self.messages}")
        if self.clients:
            words.append("--clients")
        if self.engine != TOTEM:
            words.append(f"--engine {self.engine}")
        return " ".join(words)

    def run_id(self) -> str:
        """Return the name of the run in a trace."""
        return Path(self.plan).stem if self.plan else str(self.seed)


class Done(NamedTuple):
    """A run that is over; without an outcome, its process died or could not write."""

    task: Task
    outcome: Outcome | None
    text: str = ""


def load_setup(path: str) -> Setup:
    """Read a setup from a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadScenario(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadScenario(f"{path}: is not text: {error.reason}") from error
    try:
        setup = setup_from_json(text)
        admit.check(setup)
    except EvensongError as error:
        raise BadScenario(f"{path}: {error}") from error
    return setup


def perform(task: Task) -> Outcome:
    """Do a run, and write its trace if it is to have one."""
    outcome, history = run_recorded(task.setup())
    if task.trace:
        # Imported here: pyarrow is slow to load, and few campaigns need it.
        from evensong.trace.parquet import write_trace

        write_trace(history, task.trace, task.run_id())
    return outcome


def broken_by(setup: Setup) -> frozenset[str]:
    """Try a setup: return the properties that it breaks; none if it is nothing to run at all."""
    try:
        admit.check(setup)
    except EvensongError:
        return frozenset()  # smaller, but nothing that `--plan` would run
    return run_recorded(setup)[0].broken()


def results(tasks: Iterable[Task], jobs: int) -> Generator[Done]:
    """Do all tasks; yield each as it is over. Close the iterator to stop before the end."""
    if jobs == 1:
        return (Done(task, perform(task)) for task in tasks)
    return _shared_out(iter(tasks), jobs)


_Answer: TypeAlias = Outcome | str  # a string says why nothing came of it


def work(pipe: "Connection[_Answer, Task]") -> None:
    """Be a worker: do tasks until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # not without tidying up
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(perform(task))
        except EvensongError as error:
            pipe.send(str(error))


@final
class _Worker:
    """A process, our end of its pipe, and the task it has."""

    __slots__ = ("pipe", "process", "task")

    def __init__(self, task: Task) -> None:
        ours, theirs = _CONTEXT.Pipe()
        self.pipe: Final[Connection[Task, _Answer]] = ours
        self.process: Final[SpawnProcess] = _CONTEXT.Process(
            target=work, args=(theirs,), daemon=True
        )
        with _without_interrupts():
            self.process.start()
        theirs.close()
        self.give(task)

    def give(self, task: Task) -> None:
        """Hand over a task."""
        self.task = task
        with suppress(ConnectionError):  # it died; its end of the pipe will say so
            self.pipe.send(task)

    def take(self) -> Done | None:
        """Return what came of the task; None if the worker died of it."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):  # OSError too if it died in the middle of its answer
            return None
        if isinstance(answer, str):
            raise BadTrace(answer)
        return Done(self.task, answer)

    def death(self) -> Done:
        """Say how the worker died, and take away the half of a trace that it left."""
        self.process.join()
        code = self.process.exitcode or 0
        if self.task.trace and self.process.pid is not None:
            discard(Path(self.task.trace) / f"run_id={self.task.run_id()}", self.process.pid)
        how = _signal_name(-code) if code < 0 else f"exit code {code}"
        return Done(self.task, None, f"the process that ran it died: {how}")

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.pipe.close()
        self.process.terminate()
        self.process.join(_STOP_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _shared_out(tasks: Iterator[Task], jobs: int) -> Generator[Done]:
    workers: list[_Worker] = []
    try:
        for task in tasks:
            workers.append(_Worker(task))
            if len(workers) == jobs:
                break
        while workers:
            ready = connection.wait([worker.pipe for worker in workers])
            for worker in [one for one in workers if one.pipe in ready]:
                done = worker.take()
                following = next(tasks, None)
                if done is not None and following is not None:
                    worker.give(following)
                else:
                    workers.remove(worker)
                    done = done or worker.death()
                    worker.stop()
                    if following is not None:
                        workers.append(_Worker(following))
                yield done
    finally:
        for worker in workers:
            worker.stop()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start a process in which Ctrl-C does nothing from its first moment on.

    A signal that comes meanwhile is kept for us. The tracker is started before, since doing so
    would let signals through again.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
