"""Files and directories that are there whole or not at all, whatever ends the writing of them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a hidden place beside `path` to write to; what is there at the end becomes `path`.

    An earlier file or directory of that name is replaced. After an error, an interrupt included,
    nothing is left but what was there before.
    """
    partial = _partial(path, os.getpid())
    _remove(partial)  # of a process of the same number that was killed
    try:
        yield partial
        if path.is_dir() and not path.is_symlink():
            _replace_directory(partial, path)
        else:
            partial.replace(path)
    except BaseException:
        _remove(partial)
        raise


def discard(path: Path, pid: int) -> None:
    """Remove what a process left that was killed while it wrote."""
    _remove(_partial(path, pid))


def _partial(path: Path, pid: int) -> Path:
    return path.with_name(f".{path.name}.{pid}")


def _replace_directory(partial: Path, path: Path) -> None:
    # Only an empty directory can be renamed over.
    before = path.with_name(f".{path.name}.{os.getpid()}.before")
    _remove(before)
    path.rename(before)
    try:
        partial.rename(path)
    except BaseException:
        before.rename(path)
        raise
    _remove(before)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
