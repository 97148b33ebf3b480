"""`evensong report`: traces judged and measured, as one page of HTML."""

import argparse
import json
from pathlib import Path

from evensong.cli.command import EXIT_OK, EXIT_VIOLATION, Subparsers, add_command
from evensong.cli.progress import Progress
from evensong.spark.session import add_spark_options, check_pyspark, session_from


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "report",
        run,
        summary="judge and measure traces with Spark, and show it all on one page of HTML",
        example="evensong report cluster --output report.html",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="TRACES",
        help="settings or state directory of a daemon, a directory of such, a trace, or any path "
        "that Spark can read",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="where the page goes"
    )
    parser.add_argument(
        "--tables", metavar="DIR", help="write what was measured there too, as tables in Parquet"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="leave out what cannot be read, and say so"
    )
    parser.add_argument(
        "--quiesced",
        action="store_true",
        help="daemons that run are quiet: what was sent must have been delivered",
    )
    parser.add_argument("--json", action="store_true", help="end in one line of JSON")
    add_spark_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page; exit with 1 if it shows a broken promise."""
    check_pyspark()
    from evensong.spark.auditing import run_audit
    from evensong.spark.places import check_paths, is_elsewhere, size_of
    from evensong.spark.properties import PROPERTIES
    from evensong.spark.reporting import STEPS, check_page, report_of, source_of, write_report
    from evensong.spark.scratch import scratch_directory
    from evensong.trace.judge import BROKEN

    if not args.keep_going:
        check_paths(args.paths)
    check_page(args.output)
    if args.tables and not is_elsewhere(args.tables):
        check_page(Path(args.tables) / "verdicts")

    def begin(_: str, __: int, total: int) -> None:
        progress.expect(total + STEPS)
        progress.advance()

    tables = ["--tables", args.tables] if args.tables else []
    command = ["report", *args.paths, "--output", str(args.output), *tables]
    with (
        session_from(args, "evensong report", n_bytes=size_of(args.paths)) as spark,
        scratch_directory() as scratch,
        Progress("report", len(PROPERTIES) + STEPS) as progress,
    ):
        found = run_audit(
            spark,
            args.paths,
            keep_going=args.keep_going,
            running_end="quiesce" if args.quiesced else "",
            told=begin,
            scratch=scratch,
        )
        sources = [source_of(path) for path in args.paths]
        report = report_of(found, sources, command, tables_to=args.tables, advance=progress.advance)
    write_report(args.output, report)
    if args.json:
        told = {
            "report": str(args.output),
            "tables": args.tables,
            "verdict": found.verdict,
            "runs": report.n_runs,
            "violations": found.n_violations,
            "refused": found.refused,
        }
        print(json.dumps(told))
    else:
        print(f"{args.output}: {found.verdict}")
    return EXIT_VIOLATION if found.verdict == BROKEN else EXIT_OK
