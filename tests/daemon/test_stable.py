import os
from pathlib import Path

import pytest

from evensong.core.stable import FIRST_START, StableRecord, encode_record
from evensong.daemon.stable import StableStore
from evensong.errors import CorruptRecord


def test_a_missing_record_is_a_first_start(tmp_path: Path) -> None:
    assert StableStore(tmp_path).read() == FIRST_START


def test_a_record_is_read_back_by_the_next_life(tmp_path: Path) -> None:
    StableStore(tmp_path).write(encode_record(StableRecord(1028, 3)))
    assert StableStore(tmp_path).read() == StableRecord(1028, 3)


def test_a_torn_write_leaves_the_old_record(tmp_path: Path) -> None:
    store = StableStore(tmp_path)
    store.write(encode_record(StableRecord(4, 1)))
    (tmp_path / "ring.tmp").write_bytes(b"half of it")
    assert store.read() == StableRecord(4, 1)
    store.write(encode_record(StableRecord(1032, 1)))
    assert store.read() == StableRecord(1032, 1)


def test_an_unreadable_record_is_an_error_and_not_a_first_start(tmp_path: Path) -> None:
    (tmp_path / "ring.record").write_bytes(b"EVSR rubbish")
    with pytest.raises(CorruptRecord):
        StableStore(tmp_path).read()


def test_a_write_that_is_cut_short_leaves_the_old_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StableStore(tmp_path)
    store.write(encode_record(StableRecord(4, 1)))
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:-1]))
    with pytest.raises(OSError, match="No space left"):
        store.write(encode_record(StableRecord(1032, 1)))
    monkeypatch.undo()
    assert store.read() == StableRecord(4, 1)
