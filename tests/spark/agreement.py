"""Spark against the check in memory: over 300 swarm runs of each engine, and every planted bug.

`make test-audit`; `--engine` is for one of them. Every run is simulated, its trace written, judged
by both, and every verdict compared: status, rows checked, rows unknown, violations. For a mutant
the runs are simulated by a copy of the sources with the bug in it. Exit code 1 if anything differs.
What was done is kept below `out`, by a digest of the sources: stopped and started again, it goes
on.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from evensong.core.engine import ENGINES, TOTEM, TRANSIS  # noqa: E402 - path first
from evensong.errors import BadTrace  # noqa: E402 - path first
from evensong.spark.auditing import run_audit  # noqa: E402 - path first
from evensong.spark.session import session  # noqa: E402 - path first
from tests.mutants.catalogue import MUTANTS  # noqa: E402 - path first
from tests.mutants.mutant import Mutant, Seeds  # noqa: E402 - path first
from tests.mutants.planted_in_transis import TransisMutant  # noqa: E402 - path first
from tests.spark.traces import Audited, disagreements  # noqa: E402 - path first

SEEDS: Final = 300
SEEDS_OF_A_MUTANT: Final = 3
CPU_S_MAX: Final = 120  # of a mutant that never ends; a machine that is busy takes longer
SEEDS_AT_ONCE: Final = 25
RUNS_AT_ONCE: Final = 75
SIMULATE: Final = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, ({cpu_s}, {cpu_s}))
from evensong.sim.campaign import Task
from evensong.sim.groups.run import run_recorded
from evensong.trace.parquet import write_trace
for seed in range({first}, {last}):
    task = Task(seed, clients={clients}, engine={engine!r})
    _, history = run_recorded(task.setup())
    write_trace(history, {directory!r}, f"{name}-{{seed}}")
"""


class Compared(NamedTuple):
    """What came of comparing a run's verdicts."""

    is_broken: bool
    differing: list[str]


def simulate(seeds: Seeds, directory: Path, name: str, sources: Path) -> None:
    """Write the traces of some runs, simulated by some sources."""
    script = SIMULATE.format(
        clients=seeds.clients,
        engine=seeds.engine,
        first=seeds.first,
        last=seeds.last,
        directory=str(directory),
        name=name,
        cpu_s=CPU_S_MAX,
    )
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    try:
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
    except subprocess.CalledProcessError as error:
        print(f"{name}: not all of {seeds} could be simulated: {error}", file=sys.stderr)


def simulate_mutant(mutant: Mutant, number: int, directory: Path) -> None:
    """Write the traces of a few runs of a mutant: of those that notice it, if it has some."""
    killers = [one for one in (mutant.also, mutant.killer) if isinstance(one, Seeds)]
    engine = engine_of(mutant)
    noticing = killers[0] if killers else Seeds(0, SEEDS_OF_A_MUTANT, engine=engine)
    first, last = noticing.first, noticing.last
    seeds = Seeds(max(first, last - SEEDS_OF_A_MUTANT), last, noticing.clients, engine)
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        copy = Path(place) / "src"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", copy, ignore=ignored)
        target = copy / mutant.path
        target.write_text(mutant.plant(target.read_text(encoding="utf-8")), encoding="utf-8")
        simulate(seeds, directory, f"mutant{number}", copy)


def engine_of(mutant: Mutant) -> str:
    """Return the engine whose runs have the bug."""
    return TRANSIS if isinstance(mutant, TransisMutant) else TOTEM


class Work:
    """What is to be simulated and compared, in a directory that remembers what was done."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.done = directory / "done"
        self.results = directory / "compared.jsonl"
        self.started = time.perf_counter()
        self.done.mkdir(parents=True, exist_ok=True)

    def tell(self, text: str) -> None:
        """Say how far it is."""
        print(f"{time.perf_counter() - self.started:6.0f} s  {text}", flush=True)

    def simulate(self, engines: Sequence[str], n_seeds: int, n_mutants: int, jobs: int) -> None:
        """Simulate what was not yet, telling after each piece how much there is left."""
        pieces: dict[str, Callable[[], None]] = {}
        for engine in engines:
            for first in range(0, n_seeds, SEEDS_AT_ONCE):
                has_clients = first // SEEDS_AT_ONCE % 2 == 1  # every other piece
                seeds = Seeds(first, min(first + SEEDS_AT_ONCE, n_seeds), has_clients, engine)
                where = self.directory / "swarm"
                pieces[f"swarm-{engine}-{seeds.first}-{seeds.last}"] = partial(
                    simulate, seeds, where, f"swarm-{engine}", ROOT / "src"
                )
        numbered = [pair for pair in enumerate(MUTANTS) if engine_of(pair[1]) in engines]
        for number, mutant in numbered[:n_mutants]:
            of_it = partial(simulate_mutant, mutant, number, self.directory / "mutants")
            pieces[f"mutant-{number}"] = of_it
        left = [name for name in pieces if not (self.done / name).exists()]
        self.tell(f"{len(left)} of {len(pieces)} pieces are to be simulated")
        with ThreadPoolExecutor(jobs) as pool:
            for number, name in enumerate(pool.map(partial(self._simulate, pieces), left), 1):
                self.tell(f"{number}/{len(left)}: {name}")

    def _simulate(self, pieces: Mapping[str, Callable[[], None]], name: str) -> str:
        pieces[name]()
        (self.done / name).touch()
        return name

    def compared(self) -> dict[str, Compared]:
        """Return what was compared so far; of a line that was cut off nothing is known."""
        found: dict[str, Compared] = {}
        if self.results.exists():
            for line in self.results.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    run, is_broken, differing = json.loads(line)
                    found[run] = Compared(is_broken, differing)
        return found

    def compare(self) -> list[Compared]:
        """Judge what was not yet by Spark and in memory; return all that is known."""
        known = self.compared()
        runs = sorted(self.directory.glob("*/run_id=*"))
        left = [run for run in runs if run.name not in known]
        self.tell(f"{len(left)} of {len(runs)} runs are to be compared")
        if not left:
            return list(known.values())
        with session("agreement") as spark, self.results.open("a") as results:
            for first in range(0, len(left), RUNS_AT_ONCE):
                some = left[first : first + RUNS_AT_ONCE]
                audited = Audited(run_audit(spark, [str(run) for run in some], keep_going=True))
                for run in some:
                    known[run.name] = compare(audited, run)
                    results.write(json.dumps([run.name, *known[run.name]]) + "\n")
                results.flush()
                differing = sum(len(one.differing) for one in known.values())
                self.tell(f"{first + len(some)}/{len(left)} compared, {differing} disagreements")
        return list(known.values())


def sources_digest() -> str:
    """Return a hash of all that decides what comes out."""
    state = hashlib.blake2b(digest_size=4)
    for folder in (ROOT / "src", ROOT / "tests" / "mutants"):
        for path in sorted(folder.rglob("*.py")):
            state.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return state.hexdigest()


def compare(audited: Audited, run: Path) -> Compared:
    """Hold Spark's verdicts on a run against those in memory."""
    name = run.name.removeprefix("run_id=")
    try:
        differing = disagreements(audited, run.parent, name)
        if name not in audited.found.runs:
            refusals = [line for line in audited.found.refused if name in line]
            differing.append(f"run {name}: Spark refuses what is readable in memory: {refusals}")
        return Compared(bool(audited.failed(name)), differing)
    except BadTrace as error:
        print(f"{name}: not readable in memory: {error}", file=sys.stderr)
        return Compared(False, [])


def main() -> int:
    """Simulate, judge twice, compare."""
    parser = argparse.ArgumentParser(prog="agreement", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, help="of one engine only")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many swarm runs of each")
    parser.add_argument("--mutants", type=int, default=len(MUTANTS), help="how many mutants")
    parser.add_argument("--jobs", type=int, default=2)
    usual = ROOT / "out" / f"agreement-{sources_digest()}"
    parser.add_argument("--dir", type=Path, default=usual, help="where it goes on (%(default)s)")
    options = parser.parse_args()
    work = Work(options.dir)
    try:
        engines = ENGINES if options.engine is None else (options.engine,)
        work.simulate(engines, options.seeds, options.mutants, options.jobs)
        compared = work.compare()
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    found = [line for one in compared for line in one.differing]
    for line in found:
        print(line)
    broken = sum(one.is_broken for one in compared)
    work.tell(f"{len(compared)} runs, {broken} broken, {len(found)} disagreements")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
