"""Ctrl-C while Spark works.

PySpark answers it with a call to Java in the middle of another one, which breaks both, and the
bridge to Java writes a stack for it. All that is needed is the exception: the session that it ends
is stopped, and its jobs with it. Raised where nobody can catch it, as in what the bridge does when
an object of Java's is no longer needed, it would be lost; it is raised again somewhat later.
"""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

LOGS: Final = ("", "py4j.clientserver", "py4j.java_gateway")  # in which the bridge speaks of it
# What it says of exceptions that it raises, too.
OF_THE_BRIDGE: Final = (
    "KeyboardInterrupt while sending command.",
    "Exception while sending command.",
)

AGAIN_S: Final = 0.05  # until Ctrl-C is raised again; a callback of the bridge takes less

if TYPE_CHECKING:
    Hook = Callable[[sys.UnraisableHookArgs], object]


@contextmanager
def as_before() -> Iterator[None]:
    """Have Ctrl-C do afterwards what it did before, and nobody write a stack meanwhile."""
    logs = [logging.getLogger(name) for name in LOGS]
    for log in logs:
        log.addFilter(_is_worth_a_line)
    answer = signal.getsignal(signal.SIGINT)
    hook, sys.unraisablehook = sys.unraisablehook, _raised_again(sys.unraisablehook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for log in logs:
            log.removeFilter(_is_worth_a_line)
        if _is_ours_to_set():
            signal.signal(signal.SIGINT, answer)


def make_plain() -> None:
    """Have Ctrl-C raise KeyboardInterrupt and do nothing else."""
    if _is_ours_to_set():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _raised_again(otherwise: "Hook") -> "Hook":
    """Return what to do with an exception that nobody can catch: Ctrl-C comes once more."""

    def answer(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # Not at once: that would be within the same callback. The signal, and not just the
            # exception, so that a wait for Java ends.
            main = threading.main_thread().ident
            again = threading.Timer(AGAIN_S, signal.pthread_kill, (main, signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            otherwise(unraisable)

    return answer


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
