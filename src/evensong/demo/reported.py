"""The end of the demonstration: Spark audits what the daemons wrote down, and draws a report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from evensong.spark.auditing import run_audit
from evensong.spark.reporting import STEPS, report_of, source_of, write_report
from evensong.spark.scratch import scratch_directory
from evensong.spark.session import session
from evensong.spark.settings import TINY
from evensong.trace.judge import BROKEN


class Reported(NamedTuple):
    """What the audit came to, and where the report is."""

    page: Path
    verdict: str
    n_properties: int
    n_rows: int
    n_violations: int

    def is_kept(self) -> bool:
        """Whether the audit found nothing broken."""
        return self.verdict != BROKEN


def report_on(directory: Path, page: Path, told: Callable[[int, int], None]) -> Reported:
    """Audit the traces below a directory and write the page; `told` hears how far it is."""
    total = STEPS
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        told(min(done, total), total)

    def begin(_: str, __: int, n_properties: int) -> None:
        nonlocal total
        total = n_properties + STEPS
        advance()

    with (
        session("evensong demo", conf=TINY, quick=True) as spark,
        scratch_directory() as scratch,
    ):
        found = run_audit(spark, [str(directory)], told=begin, scratch=scratch)
        source = replace(source_of(str(directory)), name="the traces of this demonstration")
        write_report(page, report_of(found, [source], ["demo"], advance=advance))
        return Reported(page, found.verdict, len(found.overall), found.n_events, found.n_violations)
