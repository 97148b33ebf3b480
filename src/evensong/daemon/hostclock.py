"""Which clock a daemon reads: two daemons with the same name for it can compare their times.

The monotonic clock counts from the start of a machine, so that times of two machines have nothing
to do with each other, and those of two daemons on one machine everything. Linux names each start of
a machine; a time namespace, which may shift the clock of a container, has a number of its own.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

MACHINE_START: Final = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE: Final = Path("/proc/self/ns/time")


def clock_name(machine_start: Path = MACHINE_START, namespace: Path = NAMESPACE) -> str:
    """Return a short name of this machine's clock; empty if the machine has none to tell."""
    try:
        start = machine_start.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    try:
        shifted = os.readlink(namespace)
    except OSError:
        shifted = ""  # a kernel without time namespaces
    return hashlib.sha256(f"{start} {shifted}".encode()).hexdigest()[:16]
