import os
from pathlib import Path

import pytest

from evensong.daemon.keys import read_key, read_keys, write_new_key
from evensong.errors import CannotStart


def test_a_new_key_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    assert write_new_key(path) == read_key(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_keys_that_envelopes_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    write_new_key(tmp_path / "one.key")
    (tmp_path / "two.key").write_bytes((tmp_path / "one.key").read_bytes())
    (tmp_path / "two.key").chmod(0o600)
    with pytest.raises(CannotStart, match=r"two\.key and .*one\.key share the id"):
        read_keys([tmp_path / "one.key", tmp_path / "two.key"])


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    key = write_new_key(path)
    with pytest.raises(CannotStart, match="never overwritten"):
        write_new_key(path)
    assert read_key(path) == key


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("12ab", 0o600, "holds 2 bytes, a key has 32"),
        ("hunter2", 0o600, "is no key file"),
        ("é" * 64, 0o600, "is no key file"),
        ("ab" * 32, 0o644, "others can read it"),
    ],
)
def test_what_is_wrong_with_a_key_file_is_said(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    path = tmp_path / "cluster.key"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(CannotStart, match=told) as refused:
        read_key(path)
    assert text not in str(refused.value)


def test_what_is_no_file_or_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "large").write_text("ab" * 32 + " " * 10_000)
    (tmp_path / "large").chmod(0o600)
    for path in (tmp_path / "pipe", tmp_path / "large", Path("/dev/zero")):
        with pytest.raises(CannotStart, match=f"keys: {path}: is no key file"):
            read_key(path)
    with pytest.raises(CannotStart, match=f"keys: {tmp_path}: "):
        read_key(tmp_path)


def test_a_missing_key_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"keys: .*cluster\.key: No such file"):
        read_key(tmp_path / "cluster.key")
    with pytest.raises(CannotStart, match="No such file"):
        write_new_key(tmp_path / "nowhere" / "cluster.key")
