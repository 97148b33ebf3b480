"""Spark against the check in memory: over 300 swarm runs, and over every planted bug.

`make test-audit`. Every run is simulated, its trace written, judged by both, and every verdict
compared: status, rows checked, rows unknown, violations. For a mutant the runs are simulated by a
copy of the sources with the bug in it. Exit code 1 if anything differs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from evensong.errors import BadTrace  # noqa: E402 - path first
from evensong.spark.auditing import run_audit  # noqa: E402 - path first
from evensong.spark.session import session  # noqa: E402 - path first
from tests.mutants.catalogue import MUTANTS  # noqa: E402 - path first
from tests.mutants.mutant import Mutant, Seeds  # noqa: E402 - path first
from tests.spark.traces import Audited, disagreements  # noqa: E402 - path first

SEEDS: Final = 300
SEEDS_OF_A_MUTANT: Final = 3
SECONDS_MAX: Final = 120
RUNS_AT_ONCE: Final = 150
SIMULATE: Final = """
import sys
from evensong.sim.groups.run import run_recorded
from evensong.trace.parquet import write_trace
if {clients}:
    from evensong.sim.groups.draw import draw as setup_of
else:
    from evensong.sim.swarm import swarm as setup_of
for seed in range({first}, {last}):
    _, history = run_recorded(setup_of(seed))
    write_trace(history, {directory!r}, f"{name}-{{seed}}")
"""


def simulate(seeds: Seeds, directory: Path, name: str, sources: Path) -> None:
    """Write the traces of some runs, simulated by some sources."""
    script = SIMULATE.format(
        clients=seeds.clients,
        first=seeds.first,
        last=seeds.last,
        directory=str(directory),
        name=name,
    )
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    try:
        subprocess.run(command, env=environment, cwd=ROOT, timeout=SECONDS_MAX, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{name}: not all of {seeds} could be simulated: {error}", file=sys.stderr)


def simulate_mutant(mutant: Mutant, number: int, directory: Path) -> None:
    """Write the traces of a few runs of a mutant: of those that notice it, if it has some."""
    killers = [one for one in (mutant.also, mutant.killer) if isinstance(one, Seeds)]
    noticing = killers[0] if killers else Seeds(0, SEEDS_OF_A_MUTANT)
    first, last = noticing.first, noticing.last
    seeds = Seeds(max(first, last - SEEDS_OF_A_MUTANT), last, noticing.clients)
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        copy = Path(place) / "src"
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", copy, ignore=ignored)
        target = copy / mutant.path
        target.write_text(mutant.plant(target.read_text(encoding="utf-8")), encoding="utf-8")
        simulate(seeds, directory, f"mutant{number}", copy)


def main() -> int:
    """Simulate, judge twice, compare."""
    parser = argparse.ArgumentParser(prog="agreement", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many swarm runs")
    parser.add_argument("--mutants", type=int, default=len(MUTANTS), help="how many mutants")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="agreement-") as place:
        directory = Path(place)
        with ThreadPoolExecutor(options.jobs) as pool:
            for first in range(0, options.seeds, 25):
                seeds = Seeds(first, min(first + 25, options.seeds))
                pool.submit(simulate, seeds, directory / "swarm", "swarm", ROOT / "src")
            for number, mutant in enumerate(MUTANTS[: options.mutants]):
                pool.submit(simulate_mutant, mutant, number, directory / "mutants")
        runs = sorted(directory.glob("*/run_id=*"))
        print(f"{len(runs)} runs simulated in {time.perf_counter() - started:.0f} s", flush=True)
        found, failing = compare(runs)
    for line in found:
        print(line)
    seconds = time.perf_counter() - started
    print(f"{len(runs)} runs, {failing} broken, {len(found)} disagreements, {seconds:.0f} s")
    return 1 if found else 0


def compare(runs: list[Path]) -> tuple[list[str], int]:
    """Judge runs by Spark and in memory; return what differs, and how many are broken."""
    found: list[str] = []
    failing = 0
    with session("agreement") as spark:
        for first in range(0, len(runs), RUNS_AT_ONCE):
            some = runs[first : first + RUNS_AT_ONCE]
            audited = Audited(run_audit(spark, [str(run) for run in some], keep_going=True))
            for run in some:
                name = run.name.removeprefix("run_id=")
                try:
                    found += disagreements(audited, run.parent, name)
                except BadTrace as error:
                    print(f"{name}: not readable in memory: {error}", file=sys.stderr)
                    continue
                failing += bool(audited.failed(name))
            print(f"{first + len(some)} runs compared", flush=True)
    return found, failing


if __name__ == "__main__":
    sys.exit(main())
