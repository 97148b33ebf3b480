"""Ctrl-C while Spark works.

PySpark answers it with a call to Java in the middle of another one, which breaks both, and the
bridge to Java writes a stack for it. All that is needed is the exception: the session that it ends
is stopped, and its jobs with it.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LOGS: Final = ("", "py4j.clientserver", "py4j.java_gateway")  # in which the bridge speaks of it
# What it says of exceptions that it raises, too.
OF_THE_BRIDGE: Final = (
    "KeyboardInterrupt while sending command.",
    "Exception while sending command.",
)


@contextmanager
def as_before() -> Iterator[None]:
    """Have Ctrl-C do afterwards what it did before, and nobody write a stack meanwhile."""
    logs = [logging.getLogger(name) for name in LOGS]
    for log in logs:
        log.addFilter(_is_worth_a_line)
    answer = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for log in logs:
            log.removeFilter(_is_worth_a_line)
        if _is_ours_to_set():
            signal.signal(signal.SIGINT, answer)


def make_plain() -> None:
    """Have Ctrl-C raise KeyboardInterrupt and do nothing else."""
    if _is_ours_to_set():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_behind(error: BaseException | None) -> bool:
    """Whether an error came about while Ctrl-C was being answered.

    PySpark tidies up with calls to Java, over the connection that has just been broken.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _is_ours_to_set() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return record.msg not in OF_THE_BRIDGE and not is_behind(error)
