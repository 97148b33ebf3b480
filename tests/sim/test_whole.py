import os
from pathlib import Path

import pytest

from evensong.sim.whole import discard, whole


def test_a_file_is_there_at_the_end_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text in ("first", "second"):
        with whole(path) as partial:
            partial.write_text(text, encoding="utf-8")
            assert not path.exists() or path.read_text(encoding="utf-8") == "first"
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for name in ("first", "second"):
        with whole(path) as partial:
            partial.mkdir()
            (partial / name).touch()
        assert [file.name for file in path.iterdir()] == [name]
    assert list(tmp_path.iterdir()) == [path]


def spoil(path: Path, error: type[BaseException]) -> None:
    with whole(path) as partial:
        partial.mkdir()
        (partial / "lost").touch()
        raise error


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_after_an_error_all_is_as_before(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "kept").touch()
    with pytest.raises(error):
        spoil(path, error)
    assert list(tmp_path.iterdir()) == [path]
    assert [file.name for file in path.iterdir()] == ["kept"]


def test_another_s_half_can_be_discarded(tmp_path: Path) -> None:
    with whole(tmp_path / "a") as partial:
        partial.mkdir()
        discard(tmp_path / "a", os.getpid() + 1)
        assert partial.is_dir()
        discard(tmp_path / "a", os.getpid())
        assert not partial.exists()
        partial.touch()
    assert (tmp_path / "a").is_file()


def test_what_a_killed_process_left_is_in_nobody_s_way(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole(path) as partial:
        partial.mkdir()
        (partial / "left").touch()
        with whole(path) as again:
            assert again == partial
            assert not again.exists()
            again.write_text("mine", encoding="utf-8")
        partial.touch()
    assert path.read_text(encoding="utf-8") == ""
