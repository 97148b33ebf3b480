"""How a session of ours is configured: from the machine and the master, before Spark is there.

Whatever a user sets by `--conf` or in code comes last and wins.
"""

import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
LOOPBACK: Final = ("127.0.0.1", "localhost")
MEMORY_LEAST_MIB: Final = 1024
MEMORY_MOST_MIB: Final = 8192  # an audit of 80 million deliveries is content with it
PARTITIONS_PER_CORE: Final = 4  # small enough to fit in memory, large enough to keep tasks few
CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")

IS_TINY: Final = "spark.evensong.tiny"  # by which a session tells what it was opened for
IS_BESIDE: Final = "spark.evensong.beside"  # or that it is for the small tables of another
TINY_BYTES: Final = 8 << 20  # of traces: up to a million rows
SMALL_BYTES: Final = 64 << 20

# Short work ends before the second compiler pays, and before a second thread for garbage does. With
# one compiler Java would make do with little room for code, and throw away what it needs again; and
# it would collect all garbage each time that there are a few megabytes of classes more.
QUICK: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=512m",
    "-XX:NewSize=384m",
)
# On tiny data most of the time goes into plans, and into Java code that is generated for each one,
# compiled, and run for a few rows. So plans are interpreted, have one part instead of several, and
# are not looked over once more for what only pays on large data.
TINY: Final = {
    IS_TINY: "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Every sort and every table of hashes takes a page, and by default one of 64 MB.
    "spark.buffer.pageSize": "1m",
}

# The same for small tables beside large ones: what can be set for a session that runs.
BESIDE: Final = {
    IS_BESIDE: "true",
    "spark.sql.adaptive.enabled": "false",
    **{key: value for key, value in TINY.items() if key.startswith("spark.sql.")},
}


def local_cores(master: str) -> int | None:
    """Return how many cores a local master has; None for a cluster."""
    found = LOCAL.fullmatch(master)
    if found is None:
        return None
    if found[1] == "*":
        return len(os.sched_getaffinity(0))
    return int(found[1] or 1)


def is_on_loopback(master: str) -> bool:
    """Return whether driver and executors are all on this machine."""
    if local_cores(master) is not None:
        return True
    return urlsplit(master).hostname in LOOPBACK


def memory_mib() -> int:
    """Return the memory of this machine, or of the container around us."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    try:
        limit = CGROUP_LIMIT.read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit) >> 20) if limit.isdecimal() else machine


def driver_memory(total_mib: int) -> str:
    """Return the memory for Spark on a machine with so much: half of it, within bounds."""
    return f"{max(MEMORY_LEAST_MIB, min(total_mib // 2, MEMORY_MOST_MIB))}m"


def java_options(*, quick: bool, more: Sequence[str] = ()) -> str:
    """Return what Java is started with: quiet logs, and what makes it quick."""
    # Java's own remarks are about archives that do not fit; what it dies of it tells anyway.
    options = [f"-Dlog4j2.configurationFile={log_configuration().as_uri()}", "-Xlog:disable"]
    if quick:
        options.extend(QUICK)
    return " ".join(f'"{option}"' if " " in option else option for option in [*options, *more])


def log_configuration() -> Path:
    """Return the file that says what Spark writes into its log."""
    return Path(str(files("evensong.spark") / "log4j2.properties"))


def is_small(n_bytes: int | None) -> bool:
    """Whether a quick start matters more than speed; of None it is not known."""
    return n_bytes is not None and n_bytes <= SMALL_BYTES


def for_tiny(n_bytes: int | None, master: str) -> dict[str, str]:
    """Return what helps with tiny data on this machine: nothing if there is more, or elsewhere."""
    is_tiny = n_bytes is not None and n_bytes <= TINY_BYTES
    return dict(TINY) if is_tiny and local_cores(master) is not None else {}


def settings(
    app: str, master: str, *, quick: bool, given: Mapping[str, str], java: Sequence[str] = ()
) -> dict[str, str]:
    """Return every setting of a session; `java` is what Java gets besides the usual options."""
    ours = {
        "spark.app.name": app,
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": driver_memory(memory_mib()),
        "spark.driver.defaultJavaOptions": java_options(quick=quick, more=java),
    }
    cores = local_cores(master)
    if cores is not None:
        # Adaptive plans pay by what they learn of large data; on small data they cost a plan more.
        partitions = cores if quick else PARTITIONS_PER_CORE * cores
        ours["spark.sql.shuffle.partitions"] = str(partitions)
        ours["spark.sql.adaptive.enabled"] = "false" if quick else "true"
    if is_on_loopback(master):
        ours["spark.driver.host"] = "127.0.0.1"
        ours["spark.driver.bindAddress"] = "127.0.0.1"
    return {**ours, **given}
