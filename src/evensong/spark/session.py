"""The one place that opens sessions of Spark.

`session` is a context manager for commands: what fails inside comes out as `SparkFailed`, one
sentence with the cause. `open_session` is for notebooks and tests, where it stays open. Both take
the session that runs already, if there is one, and leave it running.

PySpark is imported only when a session is asked for: commands that need none start quickly.
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from evensong.errors import BadRequest, SparkFailed, SparkUnavailable
from evensong.spark import cluster, executors, gateway, interrupts
from evensong.spark.archive import archive_of, options_with
from evensong.spark.java import find_java
from evensong.spark.settings import (
    BESIDE,
    IS_BESIDE,
    IS_TINY,
    for_tiny,
    is_on_loopback,
    is_small,
    local_cores,
    settings,
)
from evensong.spark.trouble import (
    MORE_HERE,
    MORE_THERE,
    cause_of,
    is_of_spark,
    sentence_of,
    words_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INVALID_CONF: Final = "INVALID_CONF_VALUE"  # Spark's name of it; it looks when it first needs one
DEFAULT_MASTER: Final = "local[*]"
MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)


def open_session(
    app: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    quick: bool = False,
) -> "SparkSession":
    """Return a session of Spark, configured for our work; the one that runs if there is one.

    `quick` is for small data on a local master: it starts sooner and computes more slowly.
    """
    running = running_session()
    if running is not None:
        return running
    given = dict(conf or {})
    chosen = master or given.get("spark.master") or DEFAULT_MASTER
    cluster.check_master(chosen)
    java = find_java()
    archive = archive_of(java)
    more = options_with(java, archive) if quick and archive.is_file() else ()
    variables = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": executors.python(chosen, given),
    }
    if is_on_loopback(chosen):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    wanted = settings(app, chosen, quick=quick, given=given, java=more)
    with gateway.starting(wanted["spark.driver.memory"]):
        context = gateway.start(wanted, variables)
        if local_cores(chosen) is None:
            executors.give_package(context)
            try:
                cluster.wait_for_executor(context)
            except BaseException:
                context.stop()
                raise
        return _session_class()(context)


def running_session() -> "SparkSession | None":
    """Return the session that this process has already, if it has one."""
    session_class = _session_class()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    return session_class.builder.getOrCreate()


def is_tiny(spark: "SparkSession") -> bool:
    """Whether a session was opened for data that fit into it many times."""
    return spark.conf.get(IS_TINY, "false") == "true"


@cache
def for_small_tables(spark: "SparkSession") -> "SparkSession":
    """Return a session beside another, in the same Spark, that plans as for tiny data.

    Large data leave small tables behind, and many questions are about these alone: compiling their
    plans would take longer than to answer them. A question belongs to the session of its first
    table.
    """
    if is_tiny(spark) or spark.conf.get(IS_BESIDE, "false") == "true":
        return spark
    beside = spark.newSession()
    for key, value in BESIDE.items():
        beside.conf.set(key, value)
    return beside


@contextmanager
def session(
    app: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    quick: bool = False,
) -> Iterator["SparkSession"]:
    """Open a session for a `with` block and stop it after; Spark's failures become SparkFailed."""
    if running_session() is not None:
        with _told(open_session(app)) as spark:
            yield spark
        return
    with interrupts.as_before():
        spark = open_session(app, master=master, conf=conf, quick=quick)
        interrupts.make_plain()
        try:
            with _told(spark):
                yield spark
        finally:
            with suppress(Exception):  # whatever it is, it is told already or does not matter now
                spark.stop()


@contextmanager
def _told(spark: "SparkSession") -> Iterator["SparkSession"]:
    """Turn what fails in Spark into a sentence."""
    context = spark.sparkContext
    memory = None
    more = MORE_THERE if local_cores(context.master or DEFAULT_MASTER) is None else MORE_HERE
    try:
        memory = context.getConf().get("spark.driver.memory")
        yield spark
    except Exception as error:
        if interrupts.is_behind(error):
            raise KeyboardInterrupt from None
        if not is_of_spark(error):
            raise
        words = words_of(error)
        if INVALID_CONF in words:
            raise BadRequest(f"--conf: {cause_of(words)}") from error
        sentence = sentence_of(error, gateway.LOG.tail(), memory, more)
        raise SparkFailed(f"{sentence}{gateway.LOG.keep()}") from error


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command on Spark takes."""
    options = parser.add_argument_group("Spark")
    options.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs: local[2], spark://host:7077, yarn, … (default: all cores here)",
    )
    options.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="a setting of Spark; may be repeated",
    )
    options.add_argument(
        "--driver-memory",
        metavar="SIZE",
        type=_memory,
        help="memory for Spark here, such as 4g (default: half of what there is, at most 8g)",
    )


@contextmanager
def session_from(
    args: argparse.Namespace, app: str, *, n_bytes: int | None = None
) -> Iterator["SparkSession"]:
    """Open the session that the options of a command ask for, fit for so many bytes of traces."""
    given: dict[str, str] = dict(args.conf)
    conf = for_tiny(n_bytes, args.master or given.get("spark.master", DEFAULT_MASTER)) | given
    if args.driver_memory:
        conf["spark.driver.memory"] = args.driver_memory
    with session(app, master=args.master, conf=conf, quick=is_small(n_bytes)) as spark:
        yield spark


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form spark.KEY=VALUE")
    return key, value


def _memory(text: str) -> str:
    if not MEMORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4g or 1500m")
    return text.lower()


def check_pyspark() -> None:
    """Say how to get PySpark if it is not there; what is built on it cannot even be imported."""
    _session_class()


def _session_class() -> "type[SparkSession]":
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise SparkUnavailable(
            f"this needs PySpark, which is not installed ({missing}): pip install 'evensong[spark]'"
        ) from missing
    return SparkSession
