"""What an audit makes for itself is gone when it ends, however it ends."""

import tempfile
from pathlib import Path

import pytest

from evensong.spark.scratch import scratch_directory


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_there_for_its_owner_alone_and_then_gone(temporary: Path) -> None:
    with scratch_directory() as directory:
        (directory / "below").mkdir()
        assert list(temporary.iterdir()) == [directory]
        assert directory.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_an_interrupt_as_soon_as_it_is_made_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    make = Path.mkdir

    def interrupted(path: Path, mode: int) -> None:
        make(path, mode=mode)
        made.append(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_directory():
        pass
    assert len(made) == 1
    assert list(temporary.iterdir()) == []
