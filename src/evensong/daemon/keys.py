"""Key files: 32 random bytes as hexadecimal digits, readable by their owner alone."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evensong.daemon.seal import KEY_SIZE, Key, make_key
from evensong.daemon.small import NoSmallFile, read_small
from evensong.errors import CannotStart

FILE_MAX: Final = 4_096  # bytes; a key and what a hand may have put around it


def write_new_key(path: Path) -> Key:
    """Draw a key and write it to a file that is not there yet."""
    secret = secrets.token_bytes(KEY_SIZE)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CannotStart(f"{path}: is there already; a key is never overwritten") from None
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secret.hex() + "\n")
    return make_key(secret)


def read_keys(paths: Iterable[Path]) -> tuple[Key, ...]:
    """Read every key file; envelopes must be able to tell the keys apart."""
    path_by_id: dict[int, Path] = {}
    keys: list[Key] = []
    for path in paths:
        key = read_key(path)
        other = path_by_id.setdefault(key.key_id, path)
        if other != path:
            raise CannotStart(
                f"keys: {path} and {other} share the id {key.key_id}; name one of them only, "
                "or make another (`evensong keys new`)"
            )
        keys.append(key)
    return tuple(keys)


def read_key(path: Path) -> Key:
    """Read a key file; what is wrong with it is said without showing any of it."""
    try:
        mode, content = read_small(path, FILE_MAX)
        secret = bytes.fromhex(content.decode("ascii").strip())
    except OSError as error:
        raise CannotStart(f"keys: {path}: {error.strerror}") from None
    except (ValueError, NoSmallFile):
        raise CannotStart(f"keys: {path}: is no key file (`evensong keys new` makes one)") from None
    if len(secret) != KEY_SIZE:
        raise CannotStart(f"keys: {path}: holds {len(secret)} bytes, a key has {KEY_SIZE}")
    if mode & 0o077:
        raise CannotStart(f"keys: {path}: others can read it; `chmod 600` it")
    return make_key(secret)
