"""Hosts that share a bad network: a namespace each, joined by `switch.py`. Needs root."""

import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PREFIX: Final = "evensong-test"
TUNSETIFF: Final = 0x400454CA
IFF_TUN: Final = 0x0001
IFF_NO_PI: Final = 0x1000
MTU: Final = 1_500
ROOT: Final = Path(__file__).parents[2]


def why_not() -> str:
    """Return why there can be no network here, or nothing."""
    if os.geteuid():
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2)"
    return "" if Path("/dev/net/tun").exists() else "there is no /dev/net/tun"


def ip(*words: str) -> str:
    """Run `ip` and return what it says."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


def sweep() -> None:
    """Remove the namespaces of tests that were killed."""
    for name, pid in re.findall(rf"^({PREFIX}-(\d+)-\d+)", ip("netns", "list"), re.MULTILINE):
        if not Path("/proc", pid).exists():
            ip("netns", "del", name)


class Network:
    """Hosts 1 to n, each alone in a namespace, and the switch between them."""

    def __init__(self, hosts: int, seed: str) -> None:
        self.nodes = tuple(range(1, hosts + 1))
        self.seed = seed
        self.descriptors: list[int] = []
        self.switch: subprocess.Popen[str] | None = None

    def namespace(self, node: int) -> str:
        return f"{PREFIX}-{os.getpid()}-{node}"

    def device(self, node: int) -> str:
        return f"ev{os.getpid()}n{node}"

    def v4(self, node: int) -> str:
        return f"10.77.0.{node}"

    def v6(self, node: int) -> str:
        return f"fd77::{node:x}"

    def prefix(self, node: int) -> list[str]:
        """Return what runs a command on a host."""
        return ["ip", "netns", "exec", self.namespace(node)]

    def __enter__(self) -> Self:
        sweep()
        try:
            ports = [self._attach(node) for node in self.nodes]
            self.switch = subprocess.Popen(
                [sys.executable, "-m", "tests.net.switch", self.seed, *ports],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=self.descriptors,
                text=True,
                cwd=ROOT,
            )
        except BaseException:
            self.close()
            raise
        return self

    def _attach(self, node: int) -> str:
        """Make a host; its device is ours until it is moved there, and gone when we are."""
        namespace, device = self.namespace(node), self.device(node)
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self.descriptors.append(descriptor)
        request = struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(descriptor, TUNSETIFF, request)
        ip("netns", "add", namespace)
        ip("link", "set", "dev", device, "netns", namespace)
        ip("-n", namespace, "link", "set", "dev", "lo", "up")
        ip("-n", namespace, "addr", "add", f"{self.v4(node)}/24", "dev", device)
        ip("-n", namespace, "addr", "add", f"{self.v6(node)}/64", "dev", device, "nodad")
        ip("-n", namespace, "link", "set", "dev", device, "mtu", str(MTU), "up")
        return f"{node},{descriptor},{self.v4(node)},{self.v6(node)}"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.switch is not None:
            self.switch.communicate()  # its standard input ends
        for descriptor in self.descriptors:
            os.close(descriptor)
        there = ip("netns", "list").split()
        for node in self.nodes:
            if self.namespace(node) in there:
                ip("netns", "del", self.namespace(node))

    # Misfortune

    def everywhere(self, **luck: float) -> dict[str, int]:
        """Set the luck of every link, as `switch.Luck` names it; return the switch's counters."""
        return self.order(list(permutations(self.nodes, 2)), **luck)

    def order(self, links: list[tuple[int, int]], **luck: float) -> dict[str, int]:
        """Set the luck of some links, each (source, target); return the switch's counters."""
        switch = self.switch
        assert switch is not None
        assert switch.stdin is not None
        assert switch.stdout is not None
        switch.stdin.write(json.dumps({"links": links, **luck}) + "\n")
        switch.stdin.flush()
        counts = json.loads(switch.stdout.readline())
        assert isinstance(counts, dict)
        return counts

    def counts(self) -> dict[str, int]:
        """Return what the switch has counted."""
        return self.order([])

    def set_link(self, node: int, way: str) -> None:
        """Take a host's interface `up` or `down`."""
        ip("-n", self.namespace(node), "link", "set", "dev", self.device(node), way)

    def fragments(self, node: int) -> int:
        """Return how many IP fragments a host has made or put together."""
        path = "/proc/self/net/snmp"
        table = subprocess.run(
            [*self.prefix(node), "cat", path], capture_output=True, text=True, check=True
        ).stdout
        names, numbers = (line.split() for line in table.splitlines() if line.startswith("Ip:"))
        by_name = dict(zip(names, numbers, strict=True))
        return int(by_name["FragCreates"]) + int(by_name["ReasmReqds"])
