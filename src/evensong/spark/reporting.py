"""A report of what an audit found: its verdicts, and what its traces measure, as one page."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import EISDIR
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong import __version__
from evensong.errors import BadTrace
from evensong.report import Report, render
from evensong.report.model import Promise, Run, Source, Story, Verdict
from evensong.spark.metrics.figures import runs
from evensong.spark.metrics.tables import TABLES, measured, write_tables
from evensong.spark.places import is_elsewhere, local_paths
from evensong.spark.properties import PROPERTIES
from evensong.spark.reading import AS_NAMED
from evensong.spark.stories import stories
from evensong.spark.verdicts import verdict_table

if TYPE_CHECKING:
    from evensong.spark.auditing import Audit

STEPS: Final = len(TABLES) + 1  # how often `advance` is called
NOTES_MAX: Final = 20
KINDS: Final = (".parquet", ".spool")


def report_of(
    found: "Audit",
    sources: Sequence[Source],
    command: Sequence[str],
    *,
    tables_to: str | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Report:
    """Measure what was audited, and put everything together; write the tables if told where to."""
    by_run: dict[str, list[Verdict]] = {}
    for one in found.verdicts:
        by_run.setdefault(one.run_id, []).append(
            Verdict(
                one.property,
                one.status,
                one.n_checked,
                one.n_unknown,
                one.n_violations,
                tuple(one.samples),
            )
        )
    trace = found.history.trace
    with measured(trace) as tables:
        if tables_to is not None:
            verdicts = verdict_table(found.history, found.verdicts)
            write_tables({**tables, "verdicts": verdicts}, tables_to)
            spark = found.history.spark
            read = spark.read.option(AS_NAMED, "false")
            tables = {name: read.parquet(f"{tables_to}/{name}") for name in tables}
        shown, n_runs = runs(tables, by_run, advance)
    told = stories(trace.events, [run.run_id for run in shown])
    advance()
    return Report(
        tuple(_with_stories(run, told.get(run.run_id, {})) for run in shown),
        tuple(Promise(one.id, one.title, one.meaning) for one in PROPERTIES.values()),
        tuple(sources),
        tuple(_notes(found)),
        __version__,
        shlex.join(["evensong", *command]),
        n_runs,
    )


def check_page(path: Path) -> None:
    """Make sure that a page can be written there, before all the work that goes into it."""
    with _partial_of(path) as partial:
        partial.touch()
        partial.unlink()


def write_report(path: Path, report: Report) -> None:
    """Write the page: all of it, or none."""
    with _partial_of(path) as partial:
        partial.write_text(render(report), encoding="utf-8")
        partial.replace(path)


@contextmanager
def _partial_of(path: Path) -> Iterator[Path]:
    """Give a name beside a page for what may become it; if that cannot be, say so."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        with suppress(FileExistsError):  # it is a file: what is below it says so better
            path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise BadTrace(f"{path}: cannot be written: {error.strerror or error}") from error


def _with_stories(run: Run, told: dict[str, Story]) -> Run:
    changes = tuple(replace(one, story=told.get(one.conf_id)) for one in run.changes)
    return replace(run, changes=changes)


def source_of(path: str) -> Source:
    """Return what lies at a path; of what is elsewhere only its name is known."""
    if is_elsewhere(path):
        return Source(path, None, None)
    files = []
    with suppress(BadTrace):  # that nothing is there is among the notes
        below = chain.from_iterable(root.rglob("*") for root in local_paths(path))
        files = [one for one in below if one.suffix in KINDS and one.is_file()]
    return Source(path, len(files), sum(one.stat().st_size for one in files))


def _notes(found: "Audit") -> list[str]:
    notes = [f"Left out: {line}" for line in found.refused]
    notes += [f"Run {name}: {'; '.join(doubts)}." for name, doubts in found.doubts.items()]
    rest = len(notes) - NOTES_MAX
    return notes[:NOTES_MAX] + ([f"And {rest} more of the kind."] if rest > 0 else [])
