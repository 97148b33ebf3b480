"""`evensong report` and `evensong audit --report`: the page, the tables, and what cannot be."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evensong.cli.command import EXIT_OK, EXIT_USAGE, EXIT_VIOLATION
from evensong.cli.main import main
from evensong.sim.run import run_recorded
from evensong.sim.swarm import swarm
from evensong.spark.metrics.tables import TABLES
from evensong.trace.parquet import write_trace
from tests.report.test_page import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 3


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one as it was, one in which a node delivered two messages the other way round."""
    directory = tmp_path_factory.mktemp("traces")
    _, history = run_recorded(swarm(SEED))
    write_trace(history, directory / "good", "good")
    life = max(history.lives.values(), key=lambda one: len(one.deliveries))
    rows = life.deliveries
    at = next(
        at
        for at in range(len(rows) - 1)
        if rows[at].conf_no == rows[at + 1].conf_no
        and rows[at].unit_id.sender != rows[at + 1].unit_id.sender
    )
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    write_trace(history, directory / "bad", "bad")
    return directory


def test_a_trace_becomes_a_page_and_tables(
    spark: "SparkSession", traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, tables = tmp_path / "new" / "report.html", tmp_path / "a [b] {c,d}"
    words = ["report", str(traces / "good"), "--output", str(output), "--tables", str(tables)]
    assert main([*words, "--json"]) == EXIT_OK
    told = json.loads(capsys.readouterr().out)
    assert (told["report"], told["tables"], told["runs"]) == (str(output), str(tables), 1)
    assert told["violations"] == 0
    assert {path.name for path in tables.iterdir()} == {*TABLES, "verdicts"}
    page = Page(output.read_text(encoding="utf-8"))
    assert "Run good" in page.words
    assert "Throughput" in page.captions
    assert all(str(given["href"])[1:] in page.ids for given in page.of("a"))
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]


def test_a_broken_promise_is_shown_by_the_audits_page_too(
    spark: "SparkSession", traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "audit.html"
    words = ["audit", str(traces / "bad"), "--property", "TG", "--report", str(output)]
    assert main(words) == EXIT_VIOLATION
    page = Page(output.read_text(encoding="utf-8"))
    assert "Broken: 1 property" in page.words
    assert "property-TG" in page.ids


def test_what_is_no_trace_ends_in_a_sentence_and_no_page(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    output = tmp_path / "report.html"
    assert main(["report", str(empty), "--output", str(output)]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert str(empty) in line
    assert not output.exists()


@pytest.mark.parametrize("words", [["audit", "--report"], ["report", "--output"]])
def test_where_no_page_can_be_nothing_is_judged(
    words: list[str], traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = traces / "good" / "run_id=good" / "node=1" / "events-0000.parquet" / "page.html"
    # Spark could not even start here: it is not asked to.
    assert main([*words, str(page), str(traces / "good"), "--master", "k8s://x"]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"evensong: {page}: cannot be written: Not a directory"
