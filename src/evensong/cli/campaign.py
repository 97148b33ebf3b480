"""`evensong campaign`: simulations of thousands of seeds as Spark tasks, kept, judged and shrunk.

What `evensong sim` does on the cores of a machine this does wherever Spark runs, and it can be
stopped: what is finished is in the output directory, and the same command goes on from there.
"""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Final

from evensong.cli import runs
from evensong.cli.audit import progress_of
from evensong.cli.command import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.progress import Progress
from evensong.core.engine import ENGINES, TOTEM
from evensong.core.ids import PROCESSORS_MAX
from evensong.sim.tally import Failure, Tally
from evensong.spark.session import add_spark_options, session_from
from evensong.spark.settings import SMALL_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evensong.sim.campaign import Done
    from evensong.sim.evs import Status
    from evensong.spark.campaign.conduct import Part
    from evensong.spark.campaign.plan import Campaign
    from evensong.spark.campaign.tasks import Shrunk
    from evensong.spark.campaign.verdicts import Audited

ALL: Final = "all"
SEEDS_MAX: Final = 100_000_000
RAREST_MAX: Final = 5


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "campaign",
        run,
        summary="simulate thousands of seeds on Spark, keep what they came to, shrink what fails",
        example="evensong campaign --seeds 0:10000 --output out/night",
    )
    parser.add_argument(
        "--seeds",
        type=_seeds,
        required=True,
        metavar="A:B",
        help="the runs of seeds A to B, without B",
    )
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
        help="messages in all (default: 250 to 550)",
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
        "--output",
        metavar="DIR",
        help="where everything is kept, and gone on with after a stop; any place that Spark can "
        "write (default: a directory below out, named for the campaign)",
    )
    parser.add_argument(
        "--keep-traces",
        type=_traces,
        default=0,
        metavar="N|all",
        help="keep the traces of so many runs, spread over the seeds, whether they pass or not "
        "(default: 0; those of failing runs are kept anyway)",
    )
    parser.add_argument(
        "--no-audit",
        action="store_true",
        help="do not judge the traces that are kept a second time, by the audit",
    )
    parser.add_argument(
        "--shrink",
        type=runs.within(0, 100),
        default=runs.SHRINK_MAX,
        metavar="N",
        help=f"shrink so many failing runs, each of another property (default: {runs.SHRINK_MAX})",
    )
    parser.add_argument(
        "--shrink-seconds",
        type=runs.within(1, 86_400),
        default=120,
        metavar="S",
        help="shrink each for so long at most (default: 120)",
    )
    parser.add_argument("--json", action="store_true", help="end in one line with everything")
    add_spark_options(parser)


def _seeds(text: str) -> range:
    seeds = runs.seeds(text)
    if seeds.stop - seeds.start > SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: a campaign has at most {SEEDS_MAX:,} seeds")
    return seeds


def _traces(text: str) -> int | str:
    return ALL if text == ALL else runs.within(0, SEEDS_MAX)(text)


def run(args: argparse.Namespace) -> int:
    """Do the runs that are not done yet, and tell what all of them came to."""
    started = time.monotonic()
    # What comes back of runs is small, however many there are.
    with session_from(args, "evensong campaign", n_bytes=SMALL_BYTES) as spark:
        # Imported here: these need PySpark, and the session says it best if that is missing.
        from evensong.spark.campaign.plan import Campaign

        traces = len(args.seeds) if args.keep_traces == ALL else args.keep_traces
        traces = min(traces, len(args.seeds))
        campaign = Campaign(
            args.seeds, args.nodes, args.messages, args.clients, traces, args.engine
        )
        return _Command(args, spark, campaign, time.monotonic() - started).run()


class _Command:
    """One `evensong campaign`, with a session."""

    def __init__(
        self,
        args: argparse.Namespace,
        spark: "SparkSession",
        campaign: "Campaign",
        session_s: float,
    ) -> None:
        from evensong.spark.campaign.conduct import Conductor
        from evensong.spark.campaign.store import Store
        from evensong.spark.files import Folder

        self._args: Final = args
        self._spark: Final = spark
        self._campaign: Final = campaign
        self._session_s = session_s
        self._seeds: Final = f"{campaign.seeds.start}:{campaign.seeds.stop}"
        self._tally: Final = Tally(clients=campaign.clients, engine=campaign.engine)
        output = args.output or f"out/{campaign.name()}"
        self._store: Final[Store] = Store(Folder(spark, output), campaign)
        self._conductor: Final = Conductor(spark, campaign, self._store)
        self._statuses: Final[dict[str, dict[str, Status]]] = {}  # of runs that have a trace
        self._found = 0  # runs that were there before
        self._shrunk: Final[list[dict[str, object]]] = []
        self._audit: dict[str, object] = {}

    def run(self) -> int:
        """Do everything; return the exit code."""
        self._store.open()
        is_interrupted = False
        finished = self._find()
        if self._found < len(self._campaign.seeds):
            self._get_ready()
        started = time.monotonic()
        try:
            self._simulate(finished)
        except KeyboardInterrupt:
            is_interrupted = True
        seconds = time.monotonic() - started
        if not self._args.json:
            self._print_summary(seconds)
        failures = self._tally.failures()
        if not is_interrupted:
            try:
                self._shrink(failures)
                self._judge()
            except KeyboardInterrupt:
                is_interrupted = True
        if not is_interrupted:
            self._store.keep_summary(self._plain())
        if self._args.json:
            print(json.dumps({**self._plain(), **self._measured(seconds, is_interrupted)}))
        if is_interrupted:
            print(
                f"evensong: interrupted after {self._tally.runs} of {len(self._campaign.seeds)} "
                "runs; the same command goes on from there",
                file=sys.stderr,
            )
            return EXIT_INTERRUPTED
        if failures or self._audit.get("disagreements"):
            return EXIT_VIOLATION
        return EXIT_UNREACHABLE if self._tally.lost() else EXIT_OK

    # The runs

    def _find(self) -> "dict[range, Part]":
        """Count the runs that are there already; return what is left to do of their parts."""
        from evensong.spark.campaign.conduct import again

        finished = {}
        for seeds, dones in self._store.finished():
            finished[seeds] = again(seeds, dones)
            self._take([done for done in dones if done.outcome is not None])
        self._found = self._tally.runs
        return finished

    def _get_ready(self) -> None:
        started = time.monotonic()
        self._conductor.get_ready()
        self._session_s += time.monotonic() - started

    def _simulate(self, finished: "dict[range, Part]") -> None:
        from evensong.spark.campaign.conduct import due_parts

        parts = due_parts(self._campaign, finished)
        with Progress("campaign", len(self._campaign.seeds) - self._found) as progress:
            self._conductor.run(parts, self._take, progress.advance)

    def _take(self, dones: "list[Done]") -> None:
        for done in dones:
            self._tally.add(done)
            task, outcome, _ = done
            if outcome and (outcome.violations or self._campaign.keeps_trace(task.seed)):
                self._statuses[task.run_id()] = self._campaign.statuses(outcome)

    # What fails

    def _shrink(self, failures: list[Failure]) -> None:
        chosen = runs.to_shrink(failures, self._args.shrink)
        if not self._args.json:
            runs.print_failures(failures)
            runs.print_lost(self._tally.lost())
        due = [failure for failure in chosen if not self._is_shrunk(failure)]
        with Progress("shrink", len(due)) as progress:

            def take(failure: Failure, shrunk: "Shrunk") -> None:
                self._take_shrunk(failure, shrunk)
                progress.advance()

            self._conductor.shrink(due, runs.SHRINK_RUNS_MAX, self._args.shrink_seconds, take)

    def _is_shrunk(self, failure: Failure) -> bool:
        """Whether that was done before; then it is told again."""
        name = f"plans/{_plan_name(failure)}"
        if not self._store.folder.has(name):
            return False
        self._tell_plan(failure, self._store.folder.local(name), "shrunk before")
        return True

    def _take_shrunk(self, failure: Failure, shrunk: "Shrunk") -> None:
        if shrunk.setup is None:
            if not self._args.json:
                print(f"\nseed {failure.task.seed} could not be shrunk: {shrunk.text}")
            return
        place = self._store.keep_plan(_plan_name(failure), shrunk.setup)
        said = f"shrunk in {runs.count(shrunk.runs, 'run')}: {runs.size_of(shrunk.setup)}"
        if not shrunk.is_smallest:
            said += " (time was up: it may go smaller)"
        self._tell_plan(failure, place, said)

    def _tell_plan(self, failure: Failure, place: str, said: str) -> None:
        command = f"evensong sim --plan {place}"
        self._shrunk.append(
            {
                "seed": failure.task.seed,
                "property": failure.property_id,
                "file": place,
                "command": command,
            }
        )
        if not self._args.json:
            print(f"\n{said}, {failure.property_id} fails\nreproduce: {command}")

    # The audit

    def _judge(self) -> None:
        """Have the traces judged by the audit, and hold the two judges against each other."""
        audited = self._judged_before() or self._judge_traces()
        self._audit = audited._asdict()
        if self._args.json:
            return
        for why in audited.refused:
            print(f"\nthe audit cannot judge {why}")
        if audited.runs:
            told = f"{runs.count(audited.runs, 'trace')} judged by the audit, too"
            wrong = ", ".join(audited.disagreements)
            print(f"\n{told}: {f'it DISAGREES on {wrong}' if wrong else 'it agrees'}")
        print(f"\nkept in {self._store.folder.local('')}")

    def _judged_before(self) -> "Audited | None":
        """Return what was judged the last time, if no run is new and no trace is left out."""
        from evensong.spark.campaign.verdicts import Audited

        before = self._store.summary() if self._found == self._tally.runs else None
        judged = before.get("audit") if before is not None else None
        if not isinstance(judged, dict) or set(judged) != set(Audited._fields):
            return None
        audited = Audited.from_plain(judged)
        is_enough = self._args.no_audit or audited.runs == len(self._store.traced())
        return audited if is_enough else None

    def _judge_traces(self) -> "Audited":
        from evensong.spark.auditing import run_audit
        from evensong.spark.campaign.store import TRACES
        from evensong.spark.campaign.verdicts import Audited, disagreements
        from evensong.spark.properties import PROPERTIES

        traced = self._store.traced()
        if self._args.no_audit or not traced:
            return Audited(0, [], [])
        with Progress("audit", len(PROPERTIES)) as progress:
            found = run_audit(
                self._spark,
                [self._store.folder.local(TRACES)],
                keep_going=True,  # a run that broke may have left what is no trace; it is named
                told=progress_of(progress),
            )
        self._store.add_audit(found.verdicts)
        return Audited(len(traced), disagreements(found.verdicts, self._statuses), found.refused)

    # What is told

    def _print_summary(self, seconds: float) -> None:
        print(f"Spark was ready after {self._session_s:.1f} s")
        if self._found:
            print(f"{runs.count(self._found, 'run')} found in {self._store.folder.local('')}")
        runs.print_summary(self._tally, self._seeds, seconds)
        unreached = self._tally.pairs_unreached()
        if unreached and 0 < self._tally.runs < runs.UNREACHED_SHOWN_FROM:
            print(runs.unreached_text(unreached))
        rare = self._rarest()
        if rare:
            print(runs.folded("                  rarest, in runs: ", ", ".join(rare)))

    def _rarest(self) -> list[str]:
        """Name the properties that the fewest runs were about, if not all were."""
        relevant = {
            name: counts["pass"] + counts["fail"] for name, counts in self._tally.properties.items()
        }
        rare = sorted((number, name) for name, number in relevant.items() if number)
        return [f"{name} {number}" for number, name in rare if number < self._tally.runs][
            :RAREST_MAX
        ]

    def _plain(self) -> dict[str, object]:
        """Return what the seeds decide."""
        return {
            **self._tally.to_plain(),
            "seeds": self._seeds,
            "losses": [
                {"seed": task.seed, "text": text, "command": task.command()}
                for task, _, text in self._tally.lost()
            ],
            "traces": self._store.traced(),
            "shrunk": sorted(self._shrunk, key=lambda one: str(one["file"])),
            "audit": self._audit,
        }

    def _measured(self, seconds: float, is_interrupted: bool) -> dict[str, object]:
        """Return what differs from one time to the next."""
        return {
            "seconds": round(seconds, 3),
            "session_seconds": round(self._session_s, 3),
            "found": self._found,
            "interrupted": is_interrupted,
            "output": self._store.folder.local(""),
        }


def _plan_name(failure: Failure) -> str:
    return f"plan-{failure.task.run_id()}-{failure.property_id}.json"
