import sys
from importlib import import_module
from pathlib import Path

import pytest

from evensong.errors import SparkUnavailable
from evensong.spark import archive
from evensong.spark.java import Java, find_java


def test_an_archive_that_could_not_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SparkUnavailable("no memory today")

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(import_module("evensong.spark.session"), "open_session", refuse)
    find_java()  # the packaged one, if the machine has none, leaves something there by itself
    own = tmp_path / "var" / "evensong"
    before = list(own.iterdir()) if own.exists() else []
    assert archive.main() == 1
    assert "no memory today" in capsys.readouterr().err
    assert list(own.iterdir()) == before


def test_an_archive_that_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    there = archive.archive_of(find_java())
    there.parent.mkdir(parents=True, exist_ok=True)  # a packaged Java has made it
    there.write_bytes(b"an archive")
    assert archive.main() == 0
    assert there.read_bytes() == b"an archive"


@pytest.mark.parametrize(
    ("version", "option"), [(17, "SharedArchiveFile"), (24, "SharedArchiveFile"), (25, "AOTCache")]
)
def test_each_java_is_told_of_its_archive_in_its_way(version: int, option: str) -> None:
    java = Java(Path("/opt/java"), version, "a build")
    assert archive.options_with(java, Path("a")) == (f"-XX:{option}=a",)
