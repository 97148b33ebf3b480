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

# Short work ends before the second compiler pays, and before a second thread for garbage does.
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


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
