"""Break the protocol on purpose: every mutant of the catalogue must be caught by its killer.

Each mutant is a copy of the sources with one small change, in a temporary directory. Its killer is
run against the copy and must fail by a broken promise, not by an error of the machinery; against
the sources as they are, all killers must pass. Exit code 1 if any mutant survives.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.catalogue import EQUIVALENT, MUTANTS  # noqa: E402 - path first
from tests.mutants.mutant import Mutant, Seeds  # noqa: E402 - path first

SOURCES: Final = ROOT / "src"
PROCESSES: Final = 2
KILLER_SECONDS_MAX: Final = 120
# What a caught mutant fails by: an assertion of a test or of our code, an invariant, a property.
PROMISES: Final = ("assert", "AssertionError", "InvariantBroken", "Failed: DID NOT RAISE")
SWARM: Final = """
import sys
from {module} import run
for seed in range({first}, {last}):
    violations = run(seed).violations
    if violations:
        print(f"seed {{seed}}: {{violations[0]}}")
        sys.exit(1)
"""


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    name: str
    killer: str
    killed: bool
    how: str  # the first line of the failure, or why it does not count
    seconds: float


def judge(mutant: Mutant) -> Verdict:
    """Plant one mutant and see whether its killer notices."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy = Path(directory) / "src"
        shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        target = copy / mutant.path
        target.write_text(mutant.plant(target.read_text(encoding="utf-8")), encoding="utf-8")
        killed, how = _try_killer(mutant.killer, copy)
        if killed and mutant.also is not None:
            killed, how = _try_killer(mutant.also, copy)
    return Verdict(mutant.name, str(mutant.killer), killed, how, time.perf_counter() - started)


def _try_killer(killer: str | Seeds, sources: Path) -> tuple[bool, str]:
    """Run a killer against some sources; return whether it fails as it should, and how."""
    try:
        if isinstance(killer, Seeds):
            return _run_seeds(killer, sources)
        return _run_tests([killer], sources)
    except subprocess.TimeoutExpired:
        return False, f"the killer does not end within {KILLER_SECONDS_MAX} s"


def _environment(sources: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}


def _run_seeds(seeds: Seeds, sources: Path) -> tuple[bool, str]:
    script = SWARM.format(first=seeds.first, last=seeds.last, module=seeds.module)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=_environment(sources),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=KILLER_SECONDS_MAX,
        check=False,
    )
    if done.returncode == 1 and done.stdout.startswith("seed "):
        return True, done.stdout.splitlines()[0]
    return False, (done.stderr.splitlines() or ["it survives"])[-1]


def _run_tests(killers: list[str], sources: Path) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="verdict-") as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", f"--junitxml={report}"]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", *killers]
        done = subprocess.run(
            command,
            env=_environment(sources),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=KILLER_SECONDS_MAX * len(killers),
            check=False,
        )
        if done.returncode == 0:
            return False, "it survives"
        if done.returncode != 1 or not report.exists():
            return False, f"pytest ends with {done.returncode}: {done.stdout[-300:]}"
        failures = list(ElementTree.parse(report).iter("failure"))
    if not failures:
        return False, f"an error, not a failure: {done.stdout[-300:]}"
    message = failures[0].get("message", "")
    broken = message.startswith(PROMISES) or "InvariantBroken" in message
    first_line = message.splitlines()[0] if message else "?"
    return broken, first_line if broken else f"not a broken promise: {first_line}"


def check_sources() -> str:
    """Return what is wrong with the sources as they are: every killer must pass on them."""
    tests = sorted({mutant.killer for mutant in MUTANTS if isinstance(mutant.killer, str)})
    failed, how = _run_tests(tests, SOURCES)
    if failed or how != "it survives":
        return how
    killers = [killer for mutant in MUTANTS for killer in (mutant.killer, mutant.also)]
    for seeds in {killer for killer in killers if isinstance(killer, Seeds)}:
        failed, how = _run_seeds(seeds, SOURCES)
        if failed:
            return how
    return ""


def main() -> int:
    """Judge every mutant; say what became of each."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="judge these alone")
    parser.add_argument("--json", action="store_true", help="print one object for all")
    options = parser.parse_args()
    chosen = [one for one in MUTANTS if not options.only or one.name in options.only]
    if not chosen:
        parser.error(f"no mutant of that name; there are {', '.join(one.name for one in MUTANTS)}")
    started = time.perf_counter()
    said = sys.stderr if options.json else sys.stdout
    with ThreadPoolExecutor(PROCESSES) as pool:
        sound = pool.submit(check_sources) if not options.only else None
        waiting = [pool.submit(judge, mutant) for mutant in chosen]
        verdicts = []
        for number, future in enumerate(as_completed(waiting), start=1):
            verdict = future.result()
            verdicts.append(verdict)
            mark = "caught  " if verdict.killed else "SURVIVES"
            line = f"{number:3}/{len(chosen)}  {mark}  {verdict.seconds:5.1f} s  {verdict.name}"
            print(line if verdict.killed else f"{line}: {verdict.how}", file=said, flush=True)
        wrong = sound.result() if sound is not None else ""
    survivors = [verdict.name for verdict in verdicts if not verdict.killed]
    seconds = time.perf_counter() - started
    if options.json:
        rows = [vars(verdict) for verdict in sorted(verdicts, key=lambda one: one.name)]
        equivalent = [vars(one) for one in EQUIVALENT]
        result = {"mutants": rows, "equivalent": equivalent, "sources": wrong, "seconds": seconds}
        print(json.dumps(result, indent=2))
    else:
        for one in EQUIVALENT:
            print(f"         equivalent       {one.name}: {one.reason}")
        caught = len(verdicts) - len(survivors)
        print(f"{caught} of {len(verdicts)} mutants caught in {seconds:.0f} s")
        if survivors:
            print(f"survivors: {', '.join(survivors)}")
        if wrong:
            print(f"the sources as they are do not pass their own killers: {wrong}")
    return 1 if survivors or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
