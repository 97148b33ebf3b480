"""The client that floods and probes, compiled where it is needed."""

import os
import subprocess
from pathlib import Path

from bench.peers.network import CannotMeasure

SOURCE = Path(__file__).with_name("client.c")


def compile_client(directory: Path) -> Path:
    """Compile the client into a directory."""
    program = directory / "client"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE), "-lcpg", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"missing: corosync's headers (libcpg-dev):\n{done.stderr}")
    return program


def facts(told: str, kind: str) -> list[list[int]]:
    """Return the numbers of every whole line of a kind that a client has written."""
    lines = (line.split() for line in told.rpartition("\n")[0].splitlines())
    return [[int(word) for word in words] for name, *words in lines if name == kind]


def be_realtime(pid: int) -> None:
    """Let a client be scheduled like the daemons, so that its own delay is not taken for theirs."""
    os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
