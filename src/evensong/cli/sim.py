"""`evensong sim`: runs of seeds or of a saved plan, judged, counted, and shrunk if they fail.

What a run is judged by is in `sim/run.py`; here are the arguments, the summary and the way out.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.progress import Progress
from evensong.core.ids import PROCESSORS_MAX
from evensong.errors import BadScenario, BadTrace, EvensongError
from evensong.sim import admit, campaign, coverage
from evensong.sim.campaign import Done, Task
from evensong.sim.groups.run import HAPPENINGS, run_setup
from evensong.sim.setup import Setup
from evensong.sim.shrink import Shrinker, save
from evensong.sim.tally import Failure, Tally
from evensong.trace.schema import arrow

SHOWN_MAX: Final = 10  # failing runs told one by one
SHRINK_RUNS_MAX: Final = 1_000
SHRINK_MAX: Final = 3  # failing runs that are shrunk, each for a property of its own
SEEDS_END: Final = 2**63


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "sim",
        run,
        summary="simulate rings under faults and check every promise",
        example="evensong sim --seeds 0:100 --nodes 5",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=_seed, metavar="N", help="one run")
    what.add_argument(
        "--seeds", type=_seeds, metavar="A:B", help="the runs of seeds A to B, without B"
    )
    what.add_argument("--plan", metavar="FILE", help="the run of a saved or shrunk plan")
    parser.add_argument(
        "--nodes",
        type=_within(1, PROCESSORS_MAX),
        metavar="N",
        help=f"processors, 1 to {PROCESSORS_MAX} (default: 2 to 9, as the seed has it)",
    )
    parser.add_argument(
        "--messages",
        type=_within(0, 1_000_000),
        metavar="N",
        help="messages in all; who is down or suspended sends none (default: 250 to 550)",
    )
    parser.add_argument(
        "--clients",
        action="store_true",
        help="clients join groups, send and keep replicated state; groups are checked, too",
    )
    parser.add_argument(
        "--jobs", type=_within(1, 1_024), metavar="J", help="processes (default: all cores)"
    )
    parser.add_argument("--trace", metavar="DIR", help="write each run's trace there, as Parquet")
    parser.add_argument(
        "--digest", action="store_true", help="print the digest of each run instead of a summary"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="shrink failing runs to the smallest plan that fails"
    )
    parser.add_argument(
        "--out", metavar="DIR", default="out", help="where shrunk plans go (default: out)"
    )
    parser.add_argument(
        "--stop-at", type=_within(1, 2**31), metavar="N", help="stop after N failing runs"
    )
    parser.add_argument("--json", action="store_true", help="end in one line with everything")


def _seed(text: str) -> int:
    return _whole(text, 0, SEEDS_END)


def _seeds(text: str) -> range:
    first, colon, end = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r}: expected A:B, such as 0:100")
    seeds = range(_whole(first, 0, SEEDS_END), _whole(end, 0, SEEDS_END))
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r}: there is no seed from {first} up to {end}")
    return seeds


def _within(lowest: int, highest: int) -> Callable[[str], int]:
    return lambda text: _whole(text, lowest, highest)


def _whole(text: str, lowest: int, highest: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not lowest <= value <= highest:
        raise argparse.ArgumentTypeError(f"{value} is not within {lowest} to {highest}")
    return value


def run(args: argparse.Namespace) -> int:
    """Do the runs, tell what they came to."""
    work = _work(args)
    jobs = min(work.total, args.jobs or os.cpu_count() or 1)
    if args.trace:
        _check_trace(args.trace, work)
    tally = Tally(clients=work.has_clients)
    started = time.monotonic()
    is_interrupted, trouble = False, ""
    try:
        _campaign(work, jobs, tally, args.stop_at)
    except KeyboardInterrupt:
        is_interrupted = True
    except EvensongError as error:  # what was done until then is told all the same
        trouble = str(error)
    seconds = time.monotonic() - started
    if args.digest and not args.json:
        _print_digests(tally)
    elif not args.json:
        _print_summary(tally, _seeds_text(args), seconds)
    failures = tally.failures()
    if not args.json:
        _print_failures(failures)
        _print_lost(tally.lost())
    shrunk: list[dict[str, object]] = []
    try:
        if args.shrink:
            _shrink(failures, Path(args.out), args.json, shrunk)
    except BadScenario as error:
        trouble = trouble or str(error)
    if args.json:
        plain = tally.to_plain()
        plain["seconds"] = round(seconds, 3)
        plain["seeds"] = _seeds_text(args)
        plain["interrupted"] = is_interrupted
        plain["trouble"] = trouble
        if args.digest:
            plain["digests"] = {str(seed): tally.digests[seed] for seed in sorted(tally.digests)}
        if args.shrink:
            plain["shrunk"] = shrunk
        print(json.dumps(plain))
    if is_interrupted:
        print(f"evensong: interrupted after {tally.runs} of {work.total} runs", file=sys.stderr)
        return EXIT_INTERRUPTED
    if trouble:
        print(f"evensong: {trouble}", file=sys.stderr)
        return EXIT_USAGE
    if failures:
        return EXIT_VIOLATION
    return EXIT_UNREACHABLE if tally.lost() else EXIT_OK


class _Work(NamedTuple):
    """What is to be done. There may be more seeds than memory holds tasks: they come one by one."""

    tasks: Iterator[Task]
    total: int
    has_run: Callable[[str], bool]  # whether a run id is of one of them
    has_clients: bool


def _work(args: argparse.Namespace) -> _Work:
    trace = args.trace or ""
    if args.plan:
        if args.nodes is not None or args.messages is not None or args.clients:
            raise BadScenario(
                f"--plan {args.plan} says who runs and what is sent: no --nodes, "
                "no --messages, no --clients beside it"
            )
        setup = campaign.load_setup(args.plan)
        task = Task(setup.options.seed, plan=args.plan, trace=trace)
        has_clients = setup.clients is not None
        return _Work(iter([task]), 1, lambda run_id: run_id == task.run_id(), has_clients)
    seeds = args.seeds if args.seeds is not None else range(args.seed, args.seed + 1)
    return _Work(
        (
            Task(seed, args.nodes, args.messages, trace=trace, clients=args.clients)
            for seed in seeds
        ),
        seeds.stop - seeds.start,
        lambda run_id: _is_seed(run_id) and int(run_id) in seeds,
        args.clients,
    )


def _is_seed(run_id: str) -> bool:
    return re.fullmatch("0|[1-9][0-9]{0,18}", run_id) is not None


def _check_trace(directory: str, work: _Work) -> None:
    """Find out before the first run that no trace could be written."""
    arrow()
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for run_directory in sorted(Path(directory).glob("run_id=*")):
            if work.has_run(run_directory.name.removeprefix("run_id=")):
                raise BadTrace(f"{run_directory}: a trace of that name is already there")
    except OSError as error:
        raise BadTrace(f"{directory}: cannot be made: {error.strerror}") from error


def _campaign(work: _Work, jobs: int, tally: Tally, stop_at: int | None) -> None:
    """Do the runs."""
    with (
        Progress("sim", work.total) as progress,
        closing(campaign.results(work.tasks, jobs)) as results,
    ):
        for done in results:
            tally.add(done)
            progress.advance()
            if stop_at is not None and tally.failed_runs() >= stop_at:
                break


def _seeds_text(args: argparse.Namespace) -> str:
    if args.plan:
        return str(args.plan)
    if args.seeds is not None:
        return f"{args.seeds.start}:{args.seeds.stop}"
    return str(args.seed)


def _print_digests(tally: Tally) -> None:
    if len(tally.digests) == 1:
        print(*tally.digests.values())
    else:
        for seed in sorted(tally.digests):
            print(seed, tally.digests[seed])


def _print_summary(tally: Tally, seeds: str, seconds: float) -> None:
    failed = tally.failed_runs()
    verdict = f"{failed} BROKE A PROMISE" if failed else "every promise kept"
    if not tally.runs:
        verdict = "nothing is known"
    if tally.lost():
        verdict += f"; {_count(len(tally.lost()), 'further run')} LOST"
    print(f"{_count(tally.runs, 'run')} ({seeds}) in {seconds:.1f} s: {verdict}")
    if not tally.runs:
        return
    print(
        f"  delivered       {tally.deliveries:,} messages and {tally.configurations:,} "
        f"configurations, by {tally.datagrams:,} datagrams"
    )
    struck = ", ".join(f"{kind} {n}" for kind, n in sorted(tally.faults.items()) if kind != "calm")
    print(_folded("  faults, in runs ", struck or "none"))
    print(f"                  while a ring formed, in {tally.runs_with_fault_in_change}")
    unreached = tally.pairs_unreached()
    reached = len(coverage.REACHABLE) - len(unreached)
    print(f"  state x event   {reached} of {len(coverage.REACHABLE)} pairs that can happen")
    if unreached and tally.runs >= 1_000:
        print(_folded("                  never: ", ", ".join(map(coverage.say, unreached))))
    if tally.clients:
        came = ", ".join(f"{what} {tally.happened[what]}" for what in HAPPENINGS)
        print(_folded("  clients, in runs ", came))
    held = [name for name, counts in tally.properties.items() if not counts["fail"]]
    idle = [name for name in held if not tally.properties[name]["pass"]]
    print(f"  properties      {len(held) - len(idle)} of {len(tally.properties)} hold")
    if idle:
        print(_folded("                  nothing was about: ", ", ".join(idle)))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _folded(head: str, text: str, width: int = 100) -> str:
    """Fold a list at its commas, under its head."""
    lines = [head]
    for word in text.split(", "):
        if len(lines[-1]) + len(word) + 2 > width:
            lines.append(" " * len(head))
        lines[-1] += word + ", "
    return "\n".join(line.rstrip() for line in lines).removesuffix(",")


def _print_failures(failures: list[Failure]) -> None:
    by_task: dict[Task, list[Failure]] = {}
    for failure in failures:
        by_task.setdefault(failure.task, []).append(failure)
    for task, broken in list(by_task.items())[:SHOWN_MAX]:
        print()
        print(f"seed {task.seed}" if not task.plan else task.plan)
        for failure in broken:
            print(f"  {failure.property_id}: {failure.text.rstrip()}")
        print(f"reproduce: {task.command()}")
    if len(by_task) > SHOWN_MAX:
        print(f"\nand {len(by_task) - SHOWN_MAX} more; --json lists all")


def _print_lost(lost: list[Done]) -> None:
    for task, _, why in lost[:SHOWN_MAX]:
        print(f"\nlost: {task.plan or f'seed {task.seed}'}: {why}\nrepeat: {task.command()}")
    if len(lost) > SHOWN_MAX:
        print(f"\nand {len(lost) - SHOWN_MAX} more; --json lists all")


def _shrink(
    failures: list[Failure], out: Path, is_quiet: bool, shrunk: list[dict[str, object]]
) -> None:
    """Shrink the first failing run of each property, and say how to repeat it."""
    for failure in _to_shrink(failures):
        name = f"plan-{failure.task.run_id()}-{failure.property_id}.json"
        shrinker = _shrink_one(failure)
        setup = shrinker.setup
        try:
            out.mkdir(parents=True, exist_ok=True)
            command = save(setup, out / name)
        except OSError as error:
            raise BadScenario(f"{out / name}: cannot be written: {error.strerror}") from error
        shrunk.append(
            {
                "seed": failure.task.seed,
                "property": failure.property_id,
                "file": str(out / name),
                "command": command,
            }
        )
        if not is_quiet:
            sent = sum(burst.units for burst in setup.workload)
            said = _count(sent, "message")
            if setup.clients is not None:
                said = _count(len(setup.clients.acts), "act") + " of clients"
            size = ", ".join(
                (
                    _count(len(setup.options.nodes), "processor"),
                    _count(len(setup.plan), "fault"),
                    said,
                )
            )
            print(
                f"\nshrunk in {_count(shrinker.runs, 'run')}: {size}, {failure.property_id} fails"
            )
            print(f"reproduce: {command}")


def _to_shrink(failures: list[Failure]) -> list[Failure]:
    """Return the first failure of each run and each property, a few of them."""
    tasks: set[Task] = set()
    properties: set[str] = set()
    chosen = []
    for failure in failures:
        if failure.task not in tasks and failure.property_id not in properties:
            chosen.append(failure)
        tasks.add(failure.task)
        properties.add(failure.property_id)
    return chosen[:SHRINK_MAX]


def _shrink_one(failure: Failure) -> Shrinker:
    with Progress(f"shrink seed {failure.task.seed}", SHRINK_RUNS_MAX) as progress:

        def trial(setup: Setup) -> frozenset[str]:
            progress.advance()
            try:
                admit.check(setup)
            except EvensongError:
                return frozenset()  # smaller, but nothing that `--plan` would run
            return run_setup(setup).broken()

        setup = failure.task.setup()
        shrinker = Shrinker(setup, failure.property_id, trial, SHRINK_RUNS_MAX)
        with suppress(KeyboardInterrupt):  # who does not want to wait gets what there is
            shrinker.shrink()
    return shrinker
