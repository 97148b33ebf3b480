"""Files on whatever Spark can write to: a local disk, HDFS, an object store.

Spark knows these places through Hadoop's file systems, and so do we, by the same configuration and
the same meaning of a path. What is written here is there whole or not at all: it is written under a
hidden name, which Spark does not read, and renamed.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError

from evensong.errors import BadCampaign
from evensong.spark.trouble import file_trouble

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


class Folder:
    """A directory; names in it are relative, with slashes."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        assert spark._jvm is not None
        self._new_path: Final = spark._jvm.org.apache.hadoop.fs.Path
        with _named(root, "used"):
            path = self._new_path(root)
            self._system: Final[JavaObject] = path.getFileSystem(spark._jsc.hadoopConfiguration())
            self.uri: Final[str] = self._system.makeQualified(path).toString()
        # A local disk would get a file of checksums beside each of ours; Parquet has its own.
        self._system.setWriteChecksum(False)
        self._system.setVerifyChecksum(False)

    def place(self, name: str) -> str:
        """Return the full name of something in it, as Spark reads and writes it."""
        return f"{self.uri}/{name}" if name else self.uri

    def local(self, name: str) -> str:
        """Return the full name, as a plain path if it is on this machine's disk."""
        return self.place(name).removeprefix("file:")

    def has(self, name: str) -> bool:
        """Whether there is something of that name."""
        with _named(self.place(name), "read"):
            return bool(self._system.exists(self._path(name)))

    def names(self, name: str) -> list[str]:
        """Return what is in a directory below, without what is hidden; nothing if there is none."""
        with _named(self.place(name), "read"):
            if not self._system.exists(self._path(name)):
                return []
            found = [
                status.getPath().getName() for status in self._system.listStatus(self._path(name))
            ]
        return sorted(one for one in found if not one.startswith((".", "_")))

    def read(self, name: str) -> bytes:
        """Return what a file holds."""
        with _named(self.place(name), "read"):
            stream = self._system.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, over an earlier one of that name."""
        self._replace(name, [("", content)])

    def write_tree(self, name: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Write a directory of files, in place of an earlier one of that name."""
        self._replace(name, [(f"/{path}", content) for path, content in files])

    def _replace(self, name: str, files: list[tuple[str, bytes]]) -> None:
        above, _, last = name.rpartition("/")
        hidden = f"{above}/.{last}.{uuid.uuid4().hex}".lstrip("/")
        with _named(self.place(name), "written"):
            try:
                for path, content in files:
                    stream = self._system.create(self._path(hidden + path))
                    try:
                        stream.write(bytearray(content))
                    finally:
                        stream.close()
                self._system.delete(self._path(name), True)
                if not self._system.rename(self._path(hidden), self._path(name)):
                    raise BadCampaign(f"{self.place(name)}: cannot be written: renaming failed")
            except BaseException:
                self._system.delete(self._path(hidden), True)
                raise

    def _path(self, name: str) -> "JavaObject":
        return self._new_path(self.place(name))


@contextmanager
def _named(place: str, act: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise BadCampaign(f"{place}: cannot be {act}: {file_trouble(error)}") from error
