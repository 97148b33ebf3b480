"""A cluster of Spark on this machine: a master and two workers, as PySpark brings them."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest

from evensong.spark.java import find_java
from evensong.spark.settings import QUICK
from evensong.spark.trouble import cause_of

MEMORY_LEAST_MIB: Final = 4096  # three processes of the cluster, two executors, driver, pytest
WORKERS: Final = 2
START_S: Final = 120
MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Successfully registered with (master \S+)")
DEPLOY: Final = "org.apache.spark.deploy"
ANY_PORT: Final = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a cluster; return the address of its master. Its ports are any that are free."""
    check_memory(Path("/proc/meminfo"))
    place = tmp_path_factory.mktemp("cluster")
    with ExitStack() as running:
        log = place / "master.log"
        process = running.enter_context(started(f"{DEPLOY}.master.Master", *ANY_PORT, log=log))
        master = wait_for(MASTER, log, process)
        workers = []
        for number in range(WORKERS):
            log = place / f"worker-{number}.log"
            sizes = ("--cores", "1", "--memory", "1g", "--work-dir", str(place / str(number)))
            worker = started(f"{DEPLOY}.worker.Worker", *ANY_PORT, *sizes, master, log=log)
            workers.append((log, running.enter_context(worker)))
        for log, process in workers:
            wait_for(REGISTERED, log, process)
        yield master


@contextmanager
def started(name: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a class of Spark for a while; it is ended by its own process id."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK),
    }
    # What executors import of ours must come from the driver.
    environment.pop("PYTHONPATH", None)
    command = [str(home / "bin" / "spark-class"), name, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for(pattern: re.Pattern[str], log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return what a process says in its log sooner or later; fail if it ends or never does."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = pattern.search(log.read_text(errors="replace"))
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    told = log.read_text(errors="replace")
    how = "ended" if process.poll() is not None else f"was not ready after {START_S} s"
    pytest.fail(f"the {log.stem} of a cluster {how}: {cause_of(told)}\n{told[-2000:]}")


def check_memory(meminfo: Path) -> None:
    """Say that there is too little memory for a cluster before it is killed for it."""
    if not meminfo.is_file():
        return
    found = re.search(r"^MemAvailable: +(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    if found and int(found[1]) >> 10 < MEMORY_LEAST_MIB:
        pytest.fail(
            f"a cluster takes {MEMORY_LEAST_MIB} MiB of memory, and only {int(found[1]) >> 10} "
            "are free here"
        )
