"""A cluster, looked at before work is given to it: is its master there, does an executor come?

Spark itself tries for a minute to reach a master that is not there, and then says something else;
for executors it waits forever and says nothing.
"""

import re
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from evensong.errors import BadRequest, SparkUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext

SCHEME: Final = "spark://"
KINDS: Final = re.compile(r"local(\[.*\])?|local-cluster\[.*\]|yarn|spark://.*|k8s://.*")
CONNECT_S: Final = 10.0
EXECUTOR_S: Final = 120.0
LOOK_S: Final = 0.1
WAIT: Final = "spark.evensong.executorWait"  # seconds; for clusters that let one queue


def check_master(master: str) -> None:
    """Make sure that a master is one, and that somebody listens where a standalone one is said to.

    Other kinds of cluster (YARN, Kubernetes) are found by configuration that is Spark's to read.
    """
    if not KINDS.fullmatch(master):
        raise BadRequest(
            f"--master: {master!r} is none of local, local[CORES], spark://HOST:PORT, yarn and "
            "k8s://URL"
        )
    if not master.startswith(SCHEME):
        return
    reasons = []
    for address in master.removeprefix(SCHEME).split(","):  # standby masters are listed behind
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdecimal() and int(port) < 1 << 16):
            raise BadRequest(f"--master: {address!r} in {master} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
        else:
            return
    raise SparkUnavailable(f"no master of Spark answers at {master} ({'; '.join(reasons)})")


def wait_for_executor(context: "SparkContext") -> None:
    """Return as soon as the cluster has given us an executor; if it gives none, say so."""
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # they come with the work
    seconds = float(conf.get(WAIT, str(EXECUTOR_S)) or EXECUTOR_S)
    if not _comes_true(lambda: _executors(context) > 0, seconds):
        memory = conf.get("spark.executor.memory", "1g")
        raise SparkUnavailable(
            f"{conf.get('spark.master')} is there and gave no executor within {seconds:.0f} s: it "
            f"has no worker with a free core and {memory} of memory (--conf "
            f"spark.executor.memory=SIZE asks for less, --conf {WAIT}=SECONDS waits longer)"
        )


def _executors(context: "SparkContext") -> int:
    status = context._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1  # the driver is listed, too


def _comes_true(test: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not test():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True
