"""Ctrl-C at commands on Spark: one line, exit code 130, nothing left running or lying about."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_INTERRUPTED
from evensong.spark.scratch import SCRATCH
from evensong.trace.parquet import write_trace
from tests.cli.test_campaign import environment, processes_that_name
from tests.sim.history_language import history

END_S = 60


def java_is_started(mark: Path) -> bool:
    """Whether Java has been started for a command, though Spark is not ready yet."""
    programs = [Path(f"/proc/{pid}/exe") for pid in processes_that_name(mark)]
    return any(os.path.realpath(program).endswith("/java") for program in programs)


def spark_is_starting(mark: Path) -> bool:
    """Whether Java has begun to start Spark, and has not said yet how to reach it."""
    return any(b"org.apache.spark.deploy" in command_line(pid) for pid in processes_that_name(mark))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended meanwhile


def work_has_begun(mark: Path) -> bool:
    """Whether Spark is ready, and the audit has begun."""
    return any(mark.glob(f"{SCRATCH}*"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("command", "is_time"),
    [
        (["audit", "{trace}"], java_is_started),
        (["audit", "{trace}"], spark_is_starting),
        (["audit", "{trace}"], work_has_begun),
        (["report", "{trace}", "--output", "{page}"], work_has_begun),
    ],
)
def test_an_interrupt_ends_in_one_line_and_leaves_nothing(
    command: list[str], is_time: Callable[[Path], bool], tmp_path: Path
) -> None:
    write_trace(history("p: conf R1{p}, send m1, del m1, quiesce"), tmp_path / "trace", "x")
    mark = tmp_path / "temporary"
    mark.mkdir()
    page = tmp_path / "page.html"
    words = [word.format(trace=tmp_path / "trace", page=page) for word in command]
    with subprocess.Popen(
        [sys.executable, "-m", "evensong", *words, "--driver-memory", "1g"],
        env={**environment(), "TMPDIR": str(mark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            while not is_time(mark) and process.poll() is None:
                time.sleep(0.02)
            assert process.poll() is None, "it ended before it could be interrupted"
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: Java gets it too
            out, err = process.communicate(timeout=END_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err) == (EXIT_INTERRUPTED, "", "evensong: interrupted\n")
    deadline = time.monotonic() + END_S
    while processes_that_name(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_that_name(mark) == []
    assert [path.name for path in mark.glob("evensong-*")] == []
    assert not page.exists()


AMID_A_QUERY = """
import os, signal, threading, time
from evensong.spark.session import session

def press(tracker):
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

before = signal.getsignal(signal.SIGINT)
try:
    with session("apart", master="local[1]", quick=True) as spark:
        tracker = spark.sparkContext.statusTracker()
        threading.Thread(target=press, args=[tracker], daemon=True).start()
        spark.range(10**14).selectExpr("sum(id % 7)").collect()
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is before)
"""


def test_an_interrupt_amid_a_query_is_an_exception_and_no_more() -> None:
    command = [sys.executable, "-c", AMID_A_QUERY]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted True\n", "")
