"""Machines of our own: network namespaces on one bridge, gone when the measurement is.

Whatever is started in them is killed by the kernel if this process is, and a namespace that a
killed run left behind is removed by the next one.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "evensong-bench-"
MTU = 1_500


class CannotMeasure(Exception):
    """This machine lacks something, or a cluster did not come up."""


def require(programs: Iterable[str]) -> None:
    """Refuse to go on without root or one of these programs; nothing is installed here."""
    lacking = [name for name in programs if shutil.which(name) is None]
    if os.geteuid() != 0:
        lacking.insert(0, "root (network namespaces)")
    if lacking:
        raise CannotMeasure(f"missing: {', '.join(lacking)}")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"{' '.join(command)}: {done.stderr.strip()}")


class Network:
    """Nodes 1 to n with an address each."""

    def __init__(self, nodes: int, mtu: int = MTU) -> None:
        self.nodes = tuple(range(1, nodes + 1))
        self.mtu = mtu
        self._hub = f"{PREFIX}{os.getpid()}-hub"

    def __enter__(self) -> Self:
        sweep()
        run("ip", "netns", "add", self._hub)
        run("ip", "-n", self._hub, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
        run("ip", "-n", self._hub, "link", "set", "bridge", "mtu", str(self.mtu), "up")
        for node in self.nodes:
            self._plug_in(node)
        return self

    def _plug_in(self, node: int) -> None:
        name, mtu = self._name(node), str(self.mtu)
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        pair = ("link", "add", "eth", "mtu", mtu, "netns", name, "type", "veth")
        run("ip", *pair, "peer", "name", f"port{node}", "mtu", mtu, "netns", self._hub)
        run("ip", "-n", self._hub, "link", "set", f"port{node}", "master", "bridge", "up")
        run("ip", "-n", name, "addr", "add", f"{self.address(node)}/24", "dev", "eth")
        run("ip", "-n", name, "link", "set", "eth", "up")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in (self._hub, *map(self._name, self.nodes)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def _name(self, node: int) -> str:
        return f"{PREFIX}{os.getpid()}-{node}"

    def address(self, node: int) -> str:
        return f"10.77.0.{node}"

    def within(self, node: int, *command: str) -> list[str]:
        """Return the command as it runs at a node; its process is the command's own."""
        return ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self._name(node), *command]


def sweep() -> None:
    """Remove the namespaces of runs that are dead."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        name = line.split()[0] if line.split() else ""
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdecimal() and not Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
