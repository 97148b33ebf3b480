import os
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException

from evensong.spark.gateway import JavaLog
from evensong.spark.trouble import (
    MORE_THERE,
    cause_of,
    first_words,
    is_of_spark,
    sentence_of,
    words_of,
)

TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2856)
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error
\tat org.apache.spark.sql.execution.datasources.FileScanRDD.next(FileScanRDD.scala:142)
Caused by: java.io.IOException: part-0.parquet is not a Parquet file
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:557)
"""

FUNCTION = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 4207, in invoke_udf
    func(split, iterator)
    ^^^^^^^^^^^^^^^^^^^^^
  File "rows.py", line 3, in judge
    raise ValueError(text)
ValueError: no such seed: 17

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:577)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (TASK, "IOException: part-0.parquet is not a Parquet file"),
        (FUNCTION, "ValueError: no such seed: 17"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/nowhere.\nmore", None),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: no such class\n\tat org.apache.spark.X",
            "SparkException: no such class",
        ),
        (
            "java.lang.IllegalArgumentException: java.net.UnknownHostException: nowhere.invalid",
            "UnknownHostException: nowhere.invalid",
        ),
        ("", "it did not say why"),
    ],
)
def test_the_innermost_cause_is_told(text: str, cause: str | None) -> None:
    assert cause_of(text) == (cause or "Path does not exist: file:/nowhere.")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "WARNING: Using incubator modules: jdk.incubator.vector\n"
            'Exception in thread "main" org.apache.spark.SparkException: Executor cores must be '
            "a positive number\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n",
            "Executor cores must be a positive number",
        ),
        (
            "12:00:00.123 WARN Utils: Set SPARK_LOCAL_IP\nInvalid maximum heap size: -Xmxmuch\n"
            "Error: Could not create the Java Virtual Machine.\n",
            "Invalid maximum heap size: -Xmxmuch Error: Could not create the Java Virtual Machine.",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\n",
            "it has too little memory; --driver-memory gives it more",
        ),
        ("", ""),
    ],
)
def test_of_a_java_that_did_not_start_the_reason_is_told_and_no_remark(log: str, said: str) -> None:
    assert first_words(log) == said


def test_a_cause_is_a_line_that_can_be_read() -> None:
    assert len(cause_of("x" * 10_000)) <= 400


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "[UNABLE_TO_ACQUIRE_MEMORY] 1048576 bytes",
        "[INVALID_DRIVER_MEMORY] System memory 1 must be at least 471859200.",
    ],
)
def test_who_lacks_memory_learns_how_to_give_more(text: str) -> None:
    sentence = sentence_of(Py4JError(text), memory="1g")
    assert "memory (1g)" in sentence
    assert "--driver-memory" in sentence


def test_on_a_cluster_it_is_the_executors_that_need_more() -> None:
    sentence = sentence_of(Py4JError("java.lang.OutOfMemoryError"), more_memory=MORE_THERE)
    assert "spark.executor.memory=SIZE" in sentence
    lost = "ExecutorLostFailure (executor 1 exited: exit code 137 (killed))\nDriver stacktrace:"
    sentence = sentence_of(AnalysisException(lost), more_memory=MORE_THERE)
    assert "lost an executor (executor 1 exited: exit code 137 (killed))" in sentence
    assert "spark.executor.memory=SIZE" in sentence


def test_a_process_that_died_for_lack_of_memory_told_it_in_its_log() -> None:
    log = "ERROR Executor: java.lang.OutOfMemoryError: GC overhead limit exceeded"
    gone = Py4JNetworkError("Answer from Java side is empty")
    assert "ran out of memory" in sentence_of(gone, log)
    assert "was killed or ended" in sentence_of(gone, "WARN something else")


def test_what_java_threw_cannot_be_asked_for_its_words_when_java_is_gone() -> None:
    class Client:
        def send_command(self, _command: str) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    class Thrown:
        _target_id = "o17"
        _gateway_client = Client()

    error = Py4JJavaError("An error occurred while calling o17.collect", Thrown())
    with pytest.raises(ConnectionRefusedError):
        str(error)
    assert is_of_spark(error)
    assert words_of(error) == ""
    log = "ERROR Executor: java.lang.OutOfMemoryError: Java heap space"
    assert "ran out of memory (512m)" in sentence_of(error, log, memory="512m")
    assert "was killed or ended" in sentence_of(error, "WARN something else")


@pytest.mark.parametrize(
    "text",
    [
        "Job 0 cancelled because SparkContext was shut down",
        'java.lang.NullPointerException: Cannot invoke "org.apache.spark.scheduler.DAGScheduler.'
        'cleanupQueryJobs(long)" because "this._dagScheduler" is null',
    ],
)
def test_a_java_on_its_way_out_told_why_in_its_log(text: str) -> None:
    leaving = AnalysisException(text)
    log = "ERROR Executor: java.lang.OutOfMemoryError: Java heap space"
    assert "ran out of memory (512m)" in sentence_of(leaving, log, memory="512m")
    assert "was killed or ended" in sentence_of(leaving, "WARN something else")


def test_what_an_old_warning_says_is_not_the_cause_of_another_failure() -> None:
    log = "WARN TaskMemory: OutOfMemoryError, spilled"
    assert "IOException" in sentence_of(AnalysisException(TASK), log)


def test_a_full_disk_is_told() -> None:
    assert "no space left" in sentence_of(Py4JError("java.io.IOException: No space left on device"))


@pytest.mark.parametrize(
    ("error", "is_its"),
    [
        (Py4JError("x"), True),
        (AnalysisException("x"), True),
        (ConnectionRefusedError(), True),
        (ValueError("x"), False),
        (FileNotFoundError("x"), False),
    ],
)
def test_errors_of_spark_are_told_from_ours(error: Exception, is_its: bool) -> None:
    assert is_of_spark(error) is is_its


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_log_stays_only_if_somebody_was_told_of_it(is_kept: bool) -> None:
    log = JavaLog()
    descriptor = log.create()
    os.write(descriptor, b"the cause\n")
    os.close(descriptor)
    place = Path(log.keep().removeprefix(" (its log: ").removesuffix(")"))
    if not is_kept:
        log.let_go()
    log._discard()
    assert place.exists() is is_kept
    place.unlink(missing_ok=True)
