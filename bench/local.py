"""Daemons on loopback, for measurements that need no root."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.network import CannotMeasure
from bench.peers.ours import Break
from bench.peers.waiting import now_us, wait_for
from evensong.bench.ring import SEALED, cpu_s
from evensong.cli.up import Cluster, lay_out
from evensong.daemon.control import Answer, ask
from evensong.daemon.settings import Settings, load
from evensong.errors import Unreachable

DATAGRAM = 1_400  # bytes of the datagrams of a flood
FLOOD_S = 3_600
PROFILE = "lan"
SETTINGS = 'testing = true\ntrace = "off"'
ANSWERS_S = 120.0  # many daemons on few cores take their time to start
CORES = os.cpu_count() or 1


class Ring:
    """Daemons 1 to n of one cluster; a daemon that was killed can be started again."""

    def __init__(self, configs: list[Path]) -> None:
        self._configs = configs
        self._cluster = Cluster(configs)

    def start_all(self) -> None:
        """Start every daemon; return when they are one ring."""
        self._cluster.start()
        wait_for("every daemon answers", self._all_answer, ANSWERS_S)
        self._cluster.wait_for_one_ring()

    def _all_answer(self) -> bool:
        gone = self._cluster.gone()
        if gone:
            raise CannotMeasure(f"{gone} has stopped by itself")
        try:
            return all(self.status(node) for node in self.running())
        except Unreachable:
            return False

    def stop(self) -> None:
        """Stop every daemon."""
        self._cluster.stop()

    def nodes(self) -> range:
        """Return the numbers of all, those that are down too."""
        return range(1, len(self._configs) + 1)

    def running(self) -> list[int]:
        """Return the numbers of those that run."""
        return [node for node in self.nodes() if self._config(node) in self._cluster.processes]

    def _config(self, node: int) -> Path:
        return self._configs[node - 1]

    def state(self, node: int) -> Path:
        return self._cluster.state_of(self._config(node))

    def settings(self) -> Settings:
        """Return the settings of the first."""
        return load(self._config(1))

    def pid(self, node: int) -> int:
        return self._cluster.processes[self._config(node)].pid

    def cpu_s(self) -> float:
        """Return the CPU time of all that run."""
        return cpu_s([self.pid(node) for node in self.running()])

    def status(self, node: int) -> Answer:
        return ask(self.state(node), {"do": "status"})

    def count(self, node: int, name: str) -> int:
        """Return a number of a daemon's status."""
        number = self.status(node)[name]
        assert isinstance(number, int)
        return number

    def breaks(self, since: int) -> list[Break]:
        """Return every ring that ended since then, at any node, in the order of time."""
        found: list[Break] = []
        for node in self.running():
            told = self.status(node)["breaks"]
            assert isinstance(told, list)
            found += [
                Break(
                    one["at_us"],
                    node,
                    one["ring"],
                    tuple(one["members"]),
                    one["cause"],
                    one["lag_us"],
                )
                for one in told
                if one["at_us"] >= since
            ]
        return sorted(found)

    def flood(self, seconds: float = FLOOD_S) -> None:
        """Have every daemon that runs send as fast as it may; no seconds stop it."""
        size = SEALED.payload(DATAGRAM)
        for node in self.running():
            ask(self.state(node), {"do": "flood", "size": size, "seconds": seconds})

    def kill(self, node: int) -> int:
        """Kill a daemon without warning; return when."""
        killed_at = now_us()
        self._cluster.kill(self._config(node))
        return killed_at

    def start_again(self, node: int) -> None:
        """Start a daemon that was killed; return when all are one ring."""
        self._cluster.start_one(self._config(node))
        wait_for("every daemon answers", self._all_answer, ANSWERS_S)
        self._cluster.wait_for_one_ring()

    def view_without(self, victim: int, node: int) -> int | None:
        """Return when a survivor installed its configuration without the victim."""
        status = self.status(node)
        members, installed_at = status["members"], status["installed_at_us"]
        assert isinstance(members, list)
        assert isinstance(installed_at, int)
        is_there = victim in members or status["state"] != "operational"
        return None if is_there else installed_at


@contextmanager
def local_ring(nodes: int, settings: str = SETTINGS) -> Iterator[Ring]:
    """Start so many daemons; none is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made:
        configs = lay_out(Path(made), nodes, PROFILE, is_insecure=False, extra=settings)
        ring = Ring(configs)
        try:
            ring.start_all()
            yield ring
        finally:
            ring.stop()
