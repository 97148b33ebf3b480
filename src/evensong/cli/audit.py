"""`evensong audit`: every promise judged on traces, by Spark."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import (
    EXIT_OK,
    EXIT_UNREACHABLE,
    EXIT_VIOLATION,
    Subparsers,
    add_command,
)
from evensong.cli.progress import Progress
from evensong.spark.session import add_spark_options, check_pyspark, session_from

if TYPE_CHECKING:
    from evensong.spark.auditing import Audit, Told
    from evensong.spark.verdicts import Verdict

SHOWN_MAX: Final = 20  # reasons and refused traces that are told one by one


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "audit",
        run,
        summary="judge every promise on traces, with Spark",
        example="evensong audit cluster --report audit.html",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="TRACES",
        help="settings or state directory of a daemon, a directory of such, a trace, or any path "
        "that Spark can read",
    )
    parser.add_argument(
        "--property",
        dest="properties",
        action="append",
        metavar="ID",
        help="judge this one alone; may be repeated",
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="leave out what cannot be read, and say so"
    )
    parser.add_argument(
        "--quiesced",
        action="store_true",
        help="daemons that run are quiet: what was sent must have been delivered",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a page of HTML, too")
    parser.add_argument("--json", action="store_true", help="end in one line with everything")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    """Judge the traces; say what holds."""
    check_pyspark()
    from evensong.spark.auditing import run_audit
    from evensong.spark.places import check_paths, size_of
    from evensong.spark.properties import PROPERTIES
    from evensong.spark.reporting import check_page, report_of, source_of, write_report
    from evensong.spark.scratch import scratch_directory
    from evensong.trace.judge import BROKEN, INCONCLUSIVE

    if not args.keep_going:
        check_paths(args.paths)
    if args.report is not None:
        check_page(args.report)
    properties: list[str] | None = args.properties
    with (
        session_from(args, "evensong audit", n_bytes=size_of(args.paths)) as spark,
        Progress("audit", len(properties or PROPERTIES)) as progress,
        scratch_directory() as scratch,
    ):
        found = run_audit(
            spark,
            args.paths,
            properties,
            keep_going=args.keep_going,
            running_end="quiesce" if args.quiesced else "",
            told=progress_of(progress),
            scratch=scratch,
        )
        report = None
        if args.report is not None:
            shown = [*args.paths, "--report", str(args.report)]
            sources = [source_of(path) for path in args.paths]
            report = report_of(found, sources, ["audit", *shown])
    if args.json:
        print(json.dumps(plain(found)))
    else:
        _print(found)
    if report is not None:
        write_report(args.report, report)  # last: the verdicts are told, whatever becomes of it
    return {BROKEN: EXIT_VIOLATION, INCONCLUSIVE: EXIT_UNREACHABLE}.get(found.verdict, EXIT_OK)


def progress_of(progress: Progress) -> "Told":
    """Return what hears of each property that is begun, of which the traces' engines decide."""

    def told(_: str, number: int, total: int) -> None:
        progress.expect(total)
        progress.advance(int(number > 0))

    return told


def plain(found: "Audit") -> dict[str, object]:
    """Return everything as values that JSON can carry."""
    history = found.history
    return {
        "verdict": found.verdict,
        "holds": found.verdict == "holds",
        "events": found.n_events,
        "runs": len(found.runs),
        "violations": found.n_violations,
        "seconds": round(found.seconds, 3),
        "properties": {one.property: _plain_verdict(one) for one in found.overall},
        "failing": {
            run_id: sorted({v.property for v in found.verdicts if v.run_id == run_id
                            and v.status == "fail"})
            for run_id in sorted({v.run_id for v in found.verdicts if v.status == "fail"})
        },
        "doubts": found.doubts,
        "absent": [[one.run_id, one.node, one.incarnation] for one in history.absent],
        "not_judged": [
            [one.run_id, one.node, one.incarnation] for one in history.known_lives if one.is_blank
        ],
        "refused": found.refused,
    }  # fmt: skip


def _plain_verdict(one: "Verdict") -> dict[str, object]:
    return {
        "status": one.status,
        "checked": one.n_checked,
        "unknown": one.n_unknown,
        "violations": one.n_violations,
        "witnesses": one.samples,
        "took_ms": one.took_ms,
    }


def _print(found: "Audit") -> None:
    from evensong.spark.properties import PROPERTIES

    print(f"{len(found.runs)} runs, {found.n_events:,} rows, {found.seconds:.1f} s")
    for one in found.overall:
        counts = f"{one.n_checked:,} rows"
        counts += f", {one.n_unknown:,} unknown" if one.n_unknown else ""
        counts += f", {one.n_violations:,} VIOLATIONS" if one.n_violations else ""
        title = PROPERTIES[one.property].title
        print(f"  {one.property:8} {one.status:12} {title:44} {counts}")
    for one in found.overall:
        for story in one.samples:
            print(f"{one.property}: {story}")
    for line in found.refused[:SHOWN_MAX]:
        print(f"left out: {line}", file=sys.stderr)
    doubts = found.doubts
    for run_id in list(doubts)[:SHOWN_MAX]:
        print(f"run {run_id}: {'; '.join(doubts[run_id])}")
    if len(doubts) > SHOWN_MAX:
        print(f"and {len(doubts) - SHOWN_MAX} more runs that are no proof")
    unknown = sum(one.n_unknown for one in found.overall)
    word = {"broken": "BROKEN", "inconclusive": "INCONCLUSIVE"}.get(found.verdict, found.verdict)
    print(f"{word}; unknown: {unknown:,} rows")
