"""Spools become Parquet without a row lost or doubled, whenever who does it is killed."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evensong.daemon import spool as writing
from evensong.daemon.converter import HELPER, Converter, close_leftovers, lock_trace
from evensong.daemon.spool import Spool, next_serial
from evensong.errors import BadTrace, CannotStart
from evensong.sim.history import Life
from evensong.trace import convert as converting
from evensong.trace import directory as reading
from evensong.trace.assembly import Assembly
from evensong.trace.convert import convert, convert_spool
from evensong.trace.directory import Moved, part_path
from evensong.trace.parquet import add_part, read_run, read_trace
from evensong.trace.spool import CLOSED, spools_in
from evensong.trace.trim import trim
from tests.daemon.local import wait_for
from tests.daemon.test_spool import begin, deliver, lives, only_life, payload, play, rows


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[object]]:
    """A finished life over several spools, and what is in it."""
    monkeypatch.setattr(writing, "SPOOL_BYTES", 700)
    fill(begin(tmp_path))
    return tmp_path, rows(only_life(tmp_path))


def fill(into: Spool | Life) -> None:
    play(into)
    for seq in range(5, 50):
        deliver(into, seq, payload(seq - 1))
        if isinstance(into, Spool):
            into.flush(6)
    into.end("stop", 9)


def test_a_converted_trace_has_the_same_rows(traced: tuple[Path, list[object]]) -> None:
    directory, before = traced
    assert len(spools_in(directory)) > 3
    assert convert(directory) == 0
    assert spools_in(directory) == []
    assert rows(only_life(directory)) == before
    (history,) = read_trace(directory).values()
    (life,) = history.lives.values()
    assert rows(life) == before


def test_half_converted_and_done_again_it_has_the_same_rows(
    traced: tuple[Path, list[object]],
) -> None:
    directory, before = traced
    middle = spools_in(directory)[2]
    content = middle.read_bytes()
    convert_spool(middle)
    assert rows(only_life(directory)) == before
    middle.write_bytes(content)  # as if it had been killed before the spool was removed
    assert rows(only_life(directory)) == before
    convert(directory)
    assert rows(only_life(directory)) == before


def test_killed_between_two_tables_nothing_is_lost_and_nothing_left_behind(
    traced: tuple[Path, list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, before = traced
    rename = Path.rename
    renamed: list[Path] = []

    def die(path: Path, target: Path) -> Path:
        if renamed:
            raise KeyboardInterrupt
        renamed.append(path)
        return rename(path, target)

    with monkeypatch.context() as killed:
        killed.setattr(Path, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            convert(directory)
    folder = directory / "run_id=test" / "node=1"
    (folder / f"{converting.PARTIAL}left").mkdir()
    assert rows(only_life(directory)) == before
    assert convert(directory) == 0
    assert rows(only_life(directory)) == before
    assert {path.suffix for path in folder.iterdir()} == {".parquet"}


def test_a_damaged_spool_stays_and_the_others_are_converted(
    traced: tuple[Path, list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, _ = traced
    first, second = spools_in(directory)[:2]
    second.write_bytes(b"rubbish!")
    assert convert(directory) == 1
    assert spools_in(directory) == [second]
    assert "stays a spool" in capsys.readouterr().err
    assert not first.exists()
    with pytest.raises(BadTrace, match=second.name):
        lives(directory)


def test_the_helper_is_a_process_of_its_own(traced: tuple[Path, list[object]]) -> None:
    directory, before = traced
    said: list[str] = []
    converter = Converter(directory, 1 << 30, said.append)

    def is_done() -> bool:
        converter.tend(0)
        return not spools_in(directory)

    wait_for("the helper", is_done)
    converter.close()
    assert rows(only_life(directory)) == before
    assert said == []


def test_the_helper_trims(traced: tuple[Path, list[object]]) -> None:
    directory, _ = traced
    said: list[str] = []
    converter = Converter(directory, 1_000, said.append)
    assert spools_in(directory)
    converter.tend(0)
    assert spools_in(directory), "trimmed by the ring's own thread"

    def is_trimmed() -> bool:
        return not lives(directory)[0].has_beginning

    wait_for("the helper", is_trimmed)
    converter.close()
    assert said == []


def test_a_helper_waits_for_the_one_before_it(traced: tuple[Path, list[object]]) -> None:
    directory, before = traced
    lock = os.open(directory / converting.LOCK_NAME, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)  # as the helper of a daemon that was killed holds it
    helper = subprocess.Popen([sys.executable, "-m", HELPER, directory])
    wait_for("a helper that waits", lambda: is_waiting_for_lock(helper.pid))
    assert len(spools_in(directory)) > 3
    os.close(lock)
    assert helper.wait() == 0
    assert spools_in(directory) == []
    assert rows(only_life(directory)) == before


def is_waiting_for_lock(pid: int) -> bool:
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f" {pid} " in line for line in locks)


def test_what_a_killed_helper_left_and_cannot_be_removed_stops_nothing(
    traced: tuple[Path, list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, before = traced
    folder = directory / "run_id=test" / "node=1"
    folder.mkdir(parents=True)
    (folder / f"{converting.PARTIAL}left").write_text("no directory")
    assert convert(directory) == 1
    assert "left: cannot be removed" in capsys.readouterr().err
    assert spools_in(directory) == []
    assert rows(only_life(directory)) == before


def test_two_daemons_cannot_write_into_one_trace(tmp_path: Path) -> None:
    lock = lock_trace(tmp_path)
    with pytest.raises(CannotStart, match=r"trace_dir: .*: another daemon writes there"):
        lock_trace(tmp_path)
    os.close(lock)
    os.close(lock_trace(tmp_path))


def test_a_spool_without_a_header_leaves_no_hole_in_the_numbers(tmp_path: Path) -> None:
    begin(tmp_path).end("stop", 2)
    (tmp_path / "spool-000001.open").write_bytes(b"EVSPOOL")  # killed while it began one
    close_leftovers(tmp_path)
    begin(tmp_path, incarnation=12).end("stop", 2)
    assert [path.name for path in spools_in(tmp_path)] == [
        "spool-000000.spool",
        "spool-000001.spool",
    ]


def test_a_copied_trace_may_lack_the_number_of_a_spool_without_rows(
    traced: tuple[Path, list[object]],
) -> None:
    directory, before = traced
    last = int(spools_in(directory)[-1].stem.rpartition("-")[2])
    (directory / f"spool-{last + 1:06}.spool").write_bytes(b"")  # a power cut, long after closing
    begin(directory, incarnation=12).end("stop", 20)
    assert convert(directory) == 0
    folder = directory / "run_id=test" / "node=1"
    assert not (folder / f"events-{last + 1:04}.parquet").exists()
    (history,) = read_trace(directory).values()
    assert next(rows(life) for life in history.lives.values()) == before
    (folder / f"sends-{last:04}.parquet").unlink()
    with pytest.raises(BadTrace, match=f"has no sends-{last:04}"):
        read_trace(directory)


def test_a_part_whose_events_are_deleted_is_gone(traced: tuple[Path, list[object]]) -> None:
    directory, _ = traced
    convert(directory)
    folder = directory / "run_id=test" / "node=1"
    (folder / "events-0000.parquet").unlink()  # the first that goes
    for found in (lives(directory), read_run(folder.parent)):
        assert [one.has_beginning for one in found] == [False]
    with pytest.raises(Moved):
        part_path(folder, "events", 0)  # the others of its number still are there
    (folder / "sends-0001.parquet").unlink()
    with pytest.raises(BadTrace, match="has no sends-0001"):
        part_path(folder, "sends", 1)


def test_of_a_part_the_events_are_deleted_first(
    traced: tuple[Path, list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = traced
    convert(directory)
    deleted: list[str] = []
    monkeypatch.setattr(Path, "unlink", lambda path, **_: deleted.append(path.name))
    trim(directory, 0)
    assert len(deleted) > 9
    assert {name.partition("-")[0] for name in deleted[::3]} == {"events"}


def test_of_a_life_whose_events_are_deleted_nothing_is_left(tmp_path: Path) -> None:
    for incarnation in (9, 12):
        spool = begin(tmp_path, incarnation=incarnation)
        play(spool)
        spool.end("stop", 9)
    convert(tmp_path)
    folder = tmp_path / "run_id=test" / "node=1"
    (folder / "events-0000.parquet").unlink()
    for found in (lives(tmp_path), read_run(folder.parent)):
        assert [(one.life.incarnation, one.is_late) for one in found] == [(12, True)]


@pytest.mark.parametrize("table", ["events", "sends"])
def test_a_part_that_is_deleted_while_it_is_read_is_gone(
    traced: tuple[Path, list[object]], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    directory, _ = traced
    convert(directory)

    def late(assembly: Assembly, path: Path, of: str) -> None:
        if of == table:
            trim(directory, 20_000)
        add_part(assembly, path, of)

    monkeypatch.setattr(reading, "add_part", late)
    (one,) = lives(directory)
    assert not one.has_beginning


def test_a_helper_that_is_killed_leaves_what_another_finishes(
    traced: tuple[Path, list[object]],
) -> None:
    directory, before = traced
    helper = subprocess.Popen([sys.executable, "-m", "evensong.trace.convert", directory])
    folder = directory / "run_id=test" / "node=1"
    wait_for("a first part", lambda: any(folder.glob("events-*.parquet")))
    helper.kill()
    helper.wait()
    assert rows(only_life(directory)) == before
    assert convert(directory) == 0
    assert rows(only_life(directory)) == before


def test_spools_of_a_killed_daemon_are_closed_by_the_next_life(tmp_path: Path) -> None:
    spool = begin(tmp_path)
    play(spool)
    spool.flush(9)
    close_leftovers(tmp_path)
    assert [path.suffix for path in spools_in(tmp_path)] == [CLOSED]
    convert(tmp_path)
    assert next_serial(tmp_path) == 1
    begin(tmp_path, incarnation=12)
    assert [one.life.incarnation for one in lives(tmp_path)] == [9, 12]


@pytest.mark.parametrize("is_converted", [False, True])
def test_the_oldest_files_go_and_a_life_without_beginning_is_known_as_such(
    traced: tuple[Path, list[object]], is_converted: bool
) -> None:
    directory, _ = traced
    begin(directory, incarnation=12).end("stop", 20)
    if is_converted:
        for path in spools_in(directory)[:2]:
            convert_spool(path)
    total = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    trim(directory, total)
    assert lives(directory)[0].has_beginning
    trim(directory, total - 1)
    first, second = lives(directory)
    assert not first.has_beginning
    assert first.left_out > 0
    assert not first.life.deliveries
    assert second.has_beginning
    (directory / "spool-notes.txt").write_text("mine")
    (directory / "spool-old.spool").write_text("mine too")
    folder = directory / "run_id=test" / "node=1"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events-copy.parquet").write_text("mine as well")
    trim(directory, 0)
    left = sorted(path.name for path in directory.rglob("*") if path.is_file())
    assert left == ["events-copy.parquet", "spool-notes.txt", "spool-old.spool"]
