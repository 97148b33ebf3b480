"""What Spark reports when it fails, said in one sentence.

A failure comes up through several layers, each of which adds a stack of its own. People need the
innermost cause, and for some causes what they can do about it.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

JAVA_NAME: Final = re.compile(r"^(?:Caused by: )?((?:[a-z_]\w*\.)+[A-Z]\w*)(?:: (.*))?$")
PYTHON_NAME: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit|[a-z]))(?:: (.*))?$"
)
CONDITION: Final = re.compile(r"^\[([A-Z][A-Z0-9_.]*)\]\s*")
UNCAUGHT: Final = re.compile(r'^Exception in thread "main" (?:[a-z]\w*\.)+\w+: (.*)$', re.MULTILINE)
REMARK: Final = re.compile(r"^WARNING: |^\S+ WARN |^\s+at ")
CALLING: Final = "An error occurred while calling "
SENTENCE_CHARACTERS_MAX: Final = 400
START_LINES_MAX: Final = 3

MEMORY: Final = (
    "OutOfMemoryError",
    "SparkOutOfMemoryError",
    "UNABLE_TO_ACQUIRE_MEMORY",
    "INVALID_DRIVER_MEMORY",
    "INVALID_EXECUTOR_MEMORY",
    "System memory ",  # "… must be at least …", in those that have no name for it
)
NO_FILE_SYSTEM: Final = ("ClassNotFoundException", "UnsupportedFileSystemException")
LOST: Final = re.compile(r"ExecutorLostFailure \(([^\n]*?)\)(?:\n|$)")
MORE_HERE: Final = "--driver-memory"
MORE_THERE: Final = "--conf spark.executor.memory=SIZE (or --driver-memory)"
# What a call meets while Java is on its way out; we shut it down later.
LEAVING: Final = (
    "SparkContext was shut down",
    'Cannot invoke "org.apache.spark.scheduler.DAGScheduler.',  # "… because … is null"
)
DISK: Final = ("No space left on device",)


def cause_of(text: str) -> str:
    """Return the innermost cause in what Spark reported, in a line."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(CALLING):
        del lines[0]  # which call it was says nothing to anybody
    python = _python_cause(lines)
    if python is not None:
        return _shortened(python)
    causes = [line for line in lines if line.startswith("Caused by: ")]
    line = causes[-1] if causes else (lines[0] if lines else "it did not say why")
    found = JAVA_NAME.match(line)
    while found and (inner := JAVA_NAME.match(found[2] or "")):
        found = inner  # one that was wrapped in another only to be thrown
    if found:
        name = found[1].rpartition(".")[2]
        line = f"{name}: {found[2]}" if found[2] else name
    return _shortened(CONDITION.sub("", line))


def first_words(log: str) -> str:
    """Return what a Java that did not start has said about it, without its remarks."""
    if any(word in log for word in MEMORY):
        return f"it has too little memory; {MORE_HERE} gives it more"
    uncaught = UNCAUGHT.search(log)
    if uncaught:
        return _shortened(uncaught[1])
    lines = [line.strip() for line in log.splitlines() if line and not REMARK.match(line)]
    return _shortened(" ".join(lines[:START_LINES_MAX]))


def words_of(error: BaseException) -> str:
    """Return what an error says; nothing if it would have to ask a Java that is gone by now."""
    from py4j.protocol import Py4JError

    try:
        return str(error)
    except (OSError, Py4JError):
        return ""


def sentence_of(
    error: BaseException, log: str = "", memory: str | None = None, more_memory: str = MORE_HERE
) -> str:
    """Return what went wrong, and what helps if something simple does."""
    words = words_of(error)
    text = f"{type(error).__name__}: {words}"
    if _is_gone(error, words):
        text += log  # the process is gone; its last words are in its log
    if any(word in text for word in MEMORY):
        has = f" ({memory})" if memory else ""
        return f"Spark ran out of memory{has}; {more_memory} gives it more"
    if any(word in text for word in DISK):
        return (
            "Spark has no space left on a disk, where it writes to or where it works; "
            "--conf spark.local.dir=DIR names another to work on"
        )
    if _is_gone(error, words):
        return (
            "the Java process of Spark was killed or ended by itself; if this machine is short of "
            "memory, a smaller --driver-memory lets it live"
        )
    lost = LOST.search(text)
    if lost:
        return f"Spark lost an executor ({lost[1]}); if it was short of memory, {more_memory} helps"
    return f"Spark failed: {cause_of(words)}"


def file_trouble(error: "Py4JJavaError | PySparkException") -> str:
    """Return why a file system cannot be used, and what helps if something simple does."""
    thrown = getattr(error, "java_exception", None)  # not there if PySpark has a class for it
    cause = cause_of(str(thrown.toString() if thrown is not None else error))
    if any(word in cause for word in NO_FILE_SYSTEM):
        return (
            f"this Spark has no classes for such addresses ({cause}); --conf "
            "spark.jars.packages=… brings them, as hadoop-aws for s3a://"
        )
    return cause


def is_of_spark(error: BaseException) -> bool:
    """Return whether an error came out of Spark, and not out of our own code."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException) or _is_gone(error, words_of(error))


def _is_gone(error: BaseException, words: str) -> bool:
    """Whether Java has gone: by the kind of an error, by what it says, or since it cannot say."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError

    gone = Py4JNetworkError | ConnectionRefusedError | ConnectionResetError
    has_no_words = isinstance(error, Py4JJavaError) and not words
    return has_no_words or isinstance(error, gone) or any(word in words for word in LEAVING)


def _python_cause(lines: list[str]) -> str | None:
    # A Python function that raised is reported with its whole traceback; the error ends it.
    if "Traceback (most recent call last):" not in lines:
        return None
    last = len(lines) - 1 - lines[::-1].index("Traceback (most recent call last):")
    for line in lines[last + 1 :]:
        if not line.startswith(("File ", "^", "~")) and PYTHON_NAME.match(line):
            return line
    return None


def _shortened(line: str) -> str:
    if len(line) <= SENTENCE_CHARACTERS_MAX:
        return line
    return line[: SENTENCE_CHARACTERS_MAX - 1] + "…"
