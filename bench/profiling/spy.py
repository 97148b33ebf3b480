"""Samples one daemon and one client with py-spy, from the outside."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.peers.network import CannotMeasure
from bench.profiling.stacks import Stack, folded
from bench.profiling.stages import CLIENT, DAEMON

PROGRAM = "py-spy"
LATE_S = 60.0  # how much longer than asked for it may take on a busy machine


def found(given: str | None) -> str:
    """Return where py-spy is; nothing is installed here."""
    path = shutil.which(given or PROGRAM)
    if path is None:
        raise CannotMeasure(f"missing: {given or PROGRAM} (on PATH, or --py-spy PATH)")
    return path


class Spy:
    """Samples the first daemon and the first client; it has ended when this is left."""

    def __init__(self, program: str, directory: Path, seconds: float, rate: int) -> None:
        self._program = program
        self._directory = directory
        self._seconds = seconds
        self._rate = rate
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Spy":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def begin(self, daemons: Sequence[int], clients: Sequence[int]) -> None:
        """Begin to sample; the load goes on meanwhile."""
        for kind, pid in ((DAEMON, daemons[0]), (CLIENT, clients[0])):
            words = ["record", "--pid", str(pid), "--format", "raw", "--nolineno"]
            words += ["--rate", str(self._rate), "--duration", str(max(1, round(self._seconds)))]
            self._processes[kind] = subprocess.Popen(
                [self._program, *words, "--output", str(self._file(kind))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # Ctrl-C is for us; we end it
            )

    def _file(self, kind: str) -> Path:
        return self._directory / f"{kind}.raw"

    def stacks(self) -> dict[str, Counter[Stack]]:
        """Return what was seen, by kind of process, when sampling has ended."""
        seen: dict[str, Counter[Stack]] = {}
        for kind, process in self._processes.items():
            try:
                said, _ = process.communicate(timeout=self._seconds + LATE_S)
            except subprocess.TimeoutExpired:
                raise CannotMeasure(f"{PROGRAM} did not end in time, at a {kind}") from None
            if process.returncode:
                raise CannotMeasure(f"{PROGRAM}, at a {kind}: {' '.join(said.split())}")
            seen[kind] = folded(self._file(kind).read_text())
            if not seen[kind]:
                raise CannotMeasure(f"{PROGRAM} saw a {kind} do nothing but wait")
        return seen
