"""The Java process behind a session: its start, its environment and its log.

Spark writes its log to the standard error of that process, which would be the terminal. Here it is
a file that nobody hears of unless something fails; then it stays, and the message says where.
"""

import atexit
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Final

from evensong.errors import SparkUnavailable
from evensong.spark.interrupts import is_behind
from evensong.spark.trouble import cause_of, first_words, is_of_spark, sentence_of

if TYPE_CHECKING:
    from pyspark import SparkContext

TAIL_BYTES: Final = 1 << 16
# PySpark's logs in which it writes what it raises, with all stacks.
SAY_IT_TWICE: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class JavaLog:
    """What the Java process of Spark has written, in a temporary file."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._is_kept = False

    def create(self) -> int:
        """Make the file; return a descriptor to write to."""
        descriptor, name = tempfile.mkstemp(prefix="evensong-spark-", suffix=".log")
        self._path = Path(name)
        atexit.register(self._discard)
        try:
            # A Java that cannot write says so to nobody and never ends, and PySpark waits for it.
            if os.write(descriptor, bytes(TAIL_BYTES)) < TAIL_BYTES:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
        except OSError as error:
            os.close(descriptor)
            raise SparkUnavailable(
                f"Java for Spark needs room in {self._path.parent}: {error.strerror}; "
                "another TMPDIR may have it"
            ) from error
        return descriptor

    def tail(self) -> str:
        """Return the last of what was written."""
        if self._path is None or not self._path.is_file():
            return ""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")

    def keep(self) -> str:
        """Let the file stay after us; return the end of a sentence that says where it is."""
        if not self.tail():
            return ""
        self._is_kept = True
        return f" (its log: {self._path})"

    def let_go(self) -> None:
        """Let the file go at the end after all: whoever would have read it has."""
        self._is_kept = False

    def _discard(self) -> None:
        if self._path is not None and not self._is_kept:
            self._path.unlink(missing_ok=True)


LOG: Final = JavaLog()  # a process has one Java process of Spark, and so one log


def start(wanted: Mapping[str, str], variables: Mapping[str, str]) -> "SparkContext":
    """Start Spark with these settings, and Java with these variables of the environment."""
    from pyspark import SparkConf, SparkContext

    with _environment(variables):
        if not _is_running():
            _launch(wanted)
        conf = SparkConf()
        for key, value in wanted.items():
            conf.set(key, value)
        context = SparkContext(conf=conf)
    # It is the first to notice that Java has gone, and would write a stack for it; whoever asks
    # Java for something next says it in a sentence.
    server = context._accumulatorServer
    for name in SAY_IT_TWICE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    setattr(server, "handle_error", _say_nothing)  # noqa: B010  # no type lets a method be set
    return context


def _say_nothing(*_: object) -> None:
    pass


@contextmanager
def starting(memory: str) -> Iterator[None]:
    """Say in a sentence what fails in Spark while it starts: Java may go away at any time."""
    try:
        yield
    except Exception as error:
        if is_behind(error):
            raise KeyboardInterrupt from None
        if not is_of_spark(error):
            raise
        told = sentence_of(error, LOG.tail(), memory)
        raise SparkUnavailable(f"Spark does not start: {told}{LOG.keep()}") from error


def end() -> None:
    """End the Java process and wait until it has; what it does at its end is then done."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process: Popen[bytes] = gateway.proc
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()  # by which it learns that nobody needs it any more
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def _is_running() -> bool:
    from pyspark import SparkContext

    # Started before by us, or by spark-submit around us: it has its memory and options already.
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _launch(wanted: Mapping[str, str]) -> None:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf()
    for key, value in wanted.items():
        conf.set(key, value)
    descriptor = LOG.create()
    try:
        output = {"stdout": descriptor, "stderr": descriptor}
        with _all_or_nothing():
            gateway = launch_gateway(conf, output)  # type: ignore[no-untyped-call] # PySpark's
    except PySparkException as error:
        told = first_words(LOG.tail()) or cause_of(str(error))
        raise SparkUnavailable(f"Java for Spark does not start: {told}") from error
    finally:
        os.close(descriptor)
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """End the Java process if we stop waiting for it.

    PySpark waits for a file in which Java says how to reach it, and if it is interrupted removes
    the file's directory. Java, which cannot write it then, would wait for ever.
    """
    from pyspark import java_gateway

    begun: list[Popen[bytes]] = []

    def begin(*args: object, **options: object) -> "Popen[bytes]":
        process: Popen[bytes] = Popen(*args, **options)  # type: ignore[call-overload] # PySpark's
        begun.append(process)
        return process

    setattr(java_gateway, "Popen", begin)  # noqa: B010  # no type lets it be set
    try:
        yield
    except BaseException:
        for process in begun:
            process.kill()
            process.wait()
        raise
    finally:
        setattr(java_gateway, "Popen", Popen)  # noqa: B010


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    # Spark reads these while it starts; they are no business of what else this process starts.
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
