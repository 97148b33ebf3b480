"""Clusters of real daemons on loopback, for tests: started, hurt, watched and judged."""

import base64
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from evensong.core.engine import SETTLED, TOTEM, TRANSIS
from evensong.core.ids import ProcessorId
from evensong.daemon.control import Answer, ask
from evensong.daemon.keys import write_new_key
from evensong.errors import Unreachable
from evensong.sim.history import History
from evensong.trace.assembly import TracedLife
from evensong.trace.directory import read_directory, settle
from evensong.trace.judge import judge

DEADLINE_S = 30.0  # how long a condition may take on a busy machine before the test fails
POLL_S = 0.02
PORT = 5405  # where every host is a daemon's own
# A machine that is busy for a few hundred milliseconds must not look like one that crashed.
PATIENT = {
    TOTEM: (
        'token_retransmit = "60ms"\ntoken_loss = "500ms"\njoin = "40ms"\nconsensus = "250ms"\n'
        'beacon = "200ms"\nhold = "50ms"\n'
    ),
    TRANSIS: 'heartbeat = "200ms"\nprobe = "60ms"\ncollect = "400ms"\nagree = "800ms"\n',
}
JUDGED = {
    TOTEM: {"EVS1.1", "EVS3", "EVS6.3", "TM1", "TG", "LV-1"},
    TRANSIS: {"EVS1.1", "EVS3", "LC1", "LA1", "LM1", "LV-1", "LW1"},
}
# What can only be judged of two who went on together from one configuration to another.
JUDGED_OF_MATES: dict[str, set[str]] = {TOTEM: set(), TRANSIS: {"LV1", "LV2"}}

_hosts = itertools.count(1)


def own_host() -> str:
    """Return a loopback address that no other test uses at the same time."""
    pid = os.getpid()
    return f"127.{pid >> 8 & 127 | 64}.{pid & 255}.{next(_hosts) % 250 + 1}"


def free_ports(host: str, count: int) -> list[int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probes = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(count)]
    for probe in probes:
        probe.bind((host, 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def wait_for(what: str, holds: Callable[[], bool], poll_s: float = POLL_S) -> None:
    until = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < until, f"not within {DEADLINE_S} s: {what}"
        time.sleep(poll_s)


class LocalCluster:
    """Daemons 1 to n, each a process of its own; none is left behind."""

    def __init__(
        self,
        directory: Path,
        nodes: int,
        *,
        extra: str = "testing = true",
        timeouts: str | None = None,
        hosts: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = (),
        engine: str = TOTEM,
    ) -> None:
        """Prepare daemons on loopback; with `hosts` and `prefixes`, wherever these lead."""
        self.directory = directory
        self.engine = engine
        self.timeouts = PATIENT[engine] if timeouts is None else timeouts
        self.prefixes = prefixes
        self.nodes = tuple(range(1, nodes + 1))
        self.processes: dict[ProcessorId, subprocess.Popen[bytes]] = {}
        self.started: set[ProcessorId] = set()  # those that ever were
        self.submitted: dict[tuple[ProcessorId, int], int] = {}
        host = own_host()
        self.hosts = hosts or [host] * nodes
        self.ports = [PORT] * nodes if hosts else free_ports(host, nodes)
        write_new_key(directory / "cluster.key")
        for node in self.nodes:
            self.state(node).mkdir()
            self.configure(node, extra=extra)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        if kind is not None:  # pytest shows what a failed test printed
            for log in sorted(self.directory.glob("n*/log")):
                print(log.read_text())

    # Settings

    def config(self, node: ProcessorId) -> Path:
        return self.directory / f"n{node}.toml"

    def state(self, node: ProcessorId) -> Path:
        return self.directory / f"n{node}"

    def configure(
        self,
        node: ProcessorId,
        *,
        cluster: str = "test",
        keys: Sequence[str] = ("cluster.key",),
        extra: str = "testing = true",
        node_id: ProcessorId | None = None,
        ports: Sequence[int] | None = None,
        peers: Sequence[ProcessorId] | None = None,
    ) -> None:
        known = "\n".join(
            f'{peer} = "{host}:{port}"'
            for peer, host, port in zip(self.nodes, self.hosts, ports or self.ports, strict=True)
            if peer in (peers or self.nodes)
        )
        trace = 'trace = "events"' if "testing" in extra else ""
        self.config(node).write_text(
            f'cluster = "{cluster}"\nnode = {node_id or node}\nstate = "n{node}"\n'
            f'engine = "{self.engine}"\n'
            f"keys = {json.dumps(keys)}\n{trace}\n{extra}\n"
            f"[timeouts]\n{self.timeouts}\n[peers]\n{known}\n"
        )

    # Lives

    def start(self, nodes: Iterable[ProcessorId] | None = None) -> None:
        for node in nodes if nodes is not None else self.nodes:
            self.started.add(node)
            with (self.state(node) / "log").open("ab") as log:
                self.processes[node] = subprocess.Popen(
                    [
                        *(self.prefixes[node - 1] if self.prefixes else ()),
                        *(sys.executable, "-m", "evensong.cli.main", "daemon"),
                        *("--until-eof", str(self.config(node))),
                    ],
                    stdin=subprocess.PIPE,
                    stderr=log,
                )

    def signal(self, node: ProcessorId, number: signal.Signals) -> None:
        self.processes[node].send_signal(number)

    def kill(self, node: ProcessorId) -> None:
        self.processes[node].kill()
        self.reap(node)

    def reap(self, node: ProcessorId) -> int:
        process = self.processes.pop(node)
        code = process.wait(DEADLINE_S)
        assert process.stdin is not None
        process.stdin.close()
        return code

    # What daemons say

    def ask(self, node: ProcessorId, **request: object) -> Answer:
        return ask(self.state(node), request)

    def status(self, node: ProcessorId) -> Answer:
        return self.ask(node, do="status")

    def refused(self, node: ProcessorId, reason: str) -> int:
        counts = self.status(node)["refused"]
        assert isinstance(counts, dict)
        return int(counts.get(reason, 0))

    def log(self, node: ProcessorId) -> str:
        return (self.state(node) / "log").read_text()

    def wait_for_ring(self, nodes: Sequence[ProcessorId] | None = None) -> str:
        """Wait until these, and nobody else, are in one ring; return its id."""
        members = list(nodes if nodes is not None else self.nodes)
        rings: set[object] = set()

        def is_one_ring() -> bool:
            rings.clear()
            for node in members:
                try:
                    status = self.status(node)
                except Unreachable:
                    return False
                if status["state"] not in SETTLED or status["members"] != members:
                    return False
                rings.add(status["ring"])
            return len(rings) == 1

        wait_for(f"one ring of {members}", is_one_ring)
        return str(rings.pop())

    # Messages

    def send(
        self, node: ProcessorId, count: int, service: str = "agreed", size: int | None = None
    ) -> None:
        """Submit messages of various lengths unless one is said; the daemon names them as units."""
        incarnation = self.status(node)["incarnation"]
        assert isinstance(incarnation, int)
        first = self.submitted.get((node, incarnation), 0) + 1
        bodies = [b"%d" % number * (number % 40) for number in range(first, first + count)]
        if size is not None:
            bodies = [body.ljust(size, b".") for body in bodies]
        payloads = [base64.b64encode(body).decode() for body in bodies]
        assert self.ask(node, do="send", payloads=payloads, service=service)["submitted"] == count
        self.submitted[node, incarnation] = first + count - 1

    def wait_until_delivered(self, nodes: Iterable[ProcessorId], count: int) -> None:
        members = list(nodes)
        wait_for(
            f"{count} deliveries at {members}",
            lambda: all(self.status(node)["delivered"] == count for node in members),
        )

    def wait_until_quiet(self, nodes: Iterable[ProcessorId]) -> None:
        """Wait until these have delivered everything they sent, and all of it everywhere."""
        members = list(nodes)

        def is_quiet() -> bool:
            for status in map(self.status, members):
                if status["backlog"] or status["sent"] != status["own_delivered"]:
                    return False
            return len({self.last_place(node) for node in members}) == 1

        wait_for(f"quiet at {members}", is_quiet)

    def last_place(self, node: ProcessorId) -> tuple[object, object]:
        last = self.ask(node, do="deliveries")["last"]
        assert isinstance(last, list)
        return (last[-1]["ring"], last[-1]["seq"]) if last else ("", 0)

    # The judge

    def flush_together(self) -> None:
        """Let all that run write down what they did, none of them in another configuration by then.

        A change between two of them would be seen by one trace from before and by another from
        after: as if one had stayed where the other had left it.
        """

        def is_of_one_moment() -> bool:
            before = self._where_all_are()
            for node in self.processes:
                self.ask(node, do="flush")
            return bool(before) and self._where_all_are() == before

        wait_for("a moment without a change", is_of_one_moment)

    def _where_all_are(self) -> list[object]:
        """Return the configurations of all that run; nothing if some are about to change."""
        statuses = [self.status(node) for node in self.processes]
        if not all(status["state"] in SETTLED for status in statuses):
            return []
        return [(status["ring"], status["configurations"]) for status in statuses]

    def lives(self) -> list[TracedLife]:
        """Read every trace; daemons that run are taken for quiet, others for dead."""
        lives: list[TracedLife] = []
        if self.processes:
            self.flush_together()
        for node in sorted(self.started):
            is_running = node in self.processes
            if not is_running and not (self.state(node) / "log").exists():
                continue  # it was never started
            for found in read_directory(self.state(node) / "trace").values():
                settle(found, "quiesce" if is_running else "lost")
                lives += found
        return lives

    def check_history(self, *, has_mates: bool = False) -> History:
        """Hold everything the daemons traced against what their engine promises.

        With `has_mates`, some of them went on together when a configuration ended.
        """
        judgement = judge(self.lives(), self.submitted)
        verdicts = judgement.verdicts
        assert verdicts.holds, verdicts.explain()
        assert judgement.is_complete
        judged = {one.property_id for one in verdicts.by_property.values() if one.n_checked}
        expected = JUDGED[self.engine]
        if has_mates:
            expected = expected | JUDGED_OF_MATES[self.engine]
        assert expected <= judged, expected - judged
        return judgement.history
