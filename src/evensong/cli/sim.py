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
from typing import NamedTuple

from evensong.cli import draw, runs
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
from evensong.sim import campaign
from evensong.sim.campaign import Task
from evensong.sim.setup import ENGINES, TOTEM, Setup
from evensong.sim.shrink import Shrinker, save
from evensong.sim.tally import Failure, Tally
from evensong.trace.schema import arrow


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "sim",
        run,
        summary="simulate rings under faults and check every promise",
        example="evensong sim --seeds 0:100 --nodes 5\n"
        "  evensong sim --seed 7 --engine transis --draw out.svg --span 20:60",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=runs.seed, metavar="N", help="one run")
    what.add_argument(
        "--seeds", type=runs.seeds, metavar="A:B", help="the runs of seeds A to B, without B"
    )
    what.add_argument("--plan", metavar="FILE", help="the run of a saved or shrunk plan")
    parser.add_argument(
        "--nodes",
        type=runs.within(1, PROCESSORS_MAX),
        metavar="N",
        help=f"processors, 1 to {PROCESSORS_MAX} (default: 2 to 9, as the seed has it)",
    )
    parser.add_argument(
        "--messages",
        type=runs.within(0, 1_000_000),
        metavar="N",
        help="messages in all; who is down or suspended sends none (default: 250 to 550)",
    )
    parser.add_argument(
        "--clients",
        action="store_true",
        help="clients join groups, send and keep replicated state; groups are checked, too",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=TOTEM,
        help=f"what the processors run (default: {TOTEM})",
    )
    parser.add_argument(
        "--jobs", type=runs.within(1, 1_024), metavar="J", help="processes (default: all cores)"
    )
    parser.add_argument("--trace", metavar="DIR", help="write each run's trace there, as Parquet")
    parser.add_argument(
        "--draw",
        metavar="FILE",
        help="draw the causal graph of one run, as SVG: votes and deliveries (transis only)",
    )
    parser.add_argument(
        "--span",
        type=draw.part,
        metavar="A:B",
        help="what --draw shows, in ms of virtual time "
        f"(default: from the beginning, up to {draw.POSTS_MAX} messages)",
    )
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
        "--stop-at", type=runs.within(1, 2**31), metavar="N", help="stop after N failing runs"
    )
    parser.add_argument("--json", action="store_true", help="end in one line with everything")


def run(args: argparse.Namespace) -> int:
    """Do the runs, tell what they came to."""
    work = _work(args)
    jobs = min(work.total, args.jobs or os.cpu_count() or 1)
    draw.check(args, work.engine, work.total, has_clients=work.has_clients)
    if args.trace:
        _check_trace(args.trace, work)
    tally = Tally(clients=work.has_clients, engine=work.engine)
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
        runs.print_summary(tally, _seeds_text(args), seconds)
    failures = tally.failures()
    if not args.json:
        runs.print_failures(failures)
        runs.print_lost(tally.lost())
    shrunk: list[dict[str, object]] = []
    drawn: dict[str, object] | None = None
    try:
        if args.shrink:
            _shrink(failures, Path(args.out), args.json, shrunk)
        if args.draw and not is_interrupted and not trouble:
            drawn = _draw(args, is_quiet=args.json or args.digest)
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
        if args.draw:
            plain["drawn"] = drawn
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


def _draw(args: argparse.Namespace, *, is_quiet: bool) -> dict[str, object]:
    """Draw the one run there is, whether it kept its promises or not."""
    (task,) = _work(args).tasks
    drawn = draw.draw(args.draw, task, args.span)
    if not is_quiet:
        print(draw.told(drawn))
    return drawn


class _Work(NamedTuple):
    """What is to be done. There may be more seeds than memory holds tasks: they come one by one."""

    tasks: Iterator[Task]
    total: int
    has_run: Callable[[str], bool]  # whether a run id is of one of them
    has_clients: bool
    engine: str


def _work(args: argparse.Namespace) -> _Work:
    trace = args.trace or ""
    if args.plan:
        is_said_twice = args.nodes is not None or args.messages is not None or args.clients
        if is_said_twice or args.engine != TOTEM:
            raise BadScenario(
                f"--plan {args.plan} says who runs and what is sent: no --engine, "
                "no --nodes, no --messages, no --clients beside it"
            )
        setup = campaign.load_setup(args.plan)
        engine = setup.options.engine
        task = Task(setup.options.seed, plan=args.plan, trace=trace, engine=engine)
        has_clients = setup.clients is not None
        return _Work(iter([task]), 1, lambda run_id: run_id == task.run_id(), has_clients, engine)
    seeds = args.seeds if args.seeds is not None else range(args.seed, args.seed + 1)
    return _Work(
        (
            Task(
                seed,
                args.nodes,
                args.messages,
                trace=trace,
                clients=args.clients,
                engine=args.engine,
            )
            for seed in seeds
        ),
        seeds.stop - seeds.start,
        lambda run_id: _is_seed(run_id) and int(run_id) in seeds,
        args.clients,
        args.engine,
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


def _shrink(
    failures: list[Failure], out: Path, is_quiet: bool, shrunk: list[dict[str, object]]
) -> None:
    """Shrink the first failing run of each property, and say how to repeat it."""
    for failure in runs.to_shrink(failures):
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
            print(
                f"\nshrunk in {runs.count(shrinker.runs, 'run')}: {runs.size_of(setup)}, "
                f"{failure.property_id} fails"
            )
            print(f"reproduce: {command}")


def _shrink_one(failure: Failure) -> Shrinker:
    with Progress(f"shrink seed {failure.task.seed}", runs.SHRINK_RUNS_MAX) as progress:

        def trial(setup: Setup) -> frozenset[str]:
            progress.advance()
            return campaign.broken_by(setup)

        setup = failure.task.setup()
        shrinker = Shrinker(setup, failure.property_id, trial, runs.SHRINK_RUNS_MAX)
        with suppress(KeyboardInterrupt):  # who does not want to wait gets what there is
            shrinker.shrink()
    return shrinker
