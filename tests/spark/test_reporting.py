from pathlib import Path

import pytest

from evensong.errors import BadTrace
from evensong.report import Report
from evensong.spark.reporting import check_page, source_of, write_report


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    page = tmp_path / "below" / "report.html"
    write_report(page, Report(()))
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    assert list(page.parent.iterdir()) == [page]

    with pytest.raises(BadTrace, match=r"cannot be written"):
        write_report(page / "below a file", Report(()))
    (tmp_path / "taken").mkdir()
    with pytest.raises(BadTrace, match=r"taken: cannot be written"):
        write_report(tmp_path / "taken", Report(()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["below", "taken"]


def test_where_no_page_can_be_is_told_beforehand_and_what_can_leaves_no_trace(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    for page in (tmp_path / "file" / "page", tmp_path):
        with pytest.raises(BadTrace, match=rf"{page}: cannot be written"):
            check_page(page)
    check_page(tmp_path / "file")
    check_page(tmp_path / "new" / "page")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "new"]


def test_what_was_read_is_counted_here_and_only_named_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "events-0000.parquet").write_bytes(b"12345")
    (tmp_path / "spool-000001.spool").write_bytes(b"123")
    (tmp_path / "log").write_bytes(b"not a trace")
    found = source_of(str(tmp_path))
    assert (found.name, found.files, found.size) == (str(tmp_path), 2, 8)
    assert source_of("hdfs://cluster/traces").files is None
