"""A cluster of corosync daemons, each in its own network and mount namespace.

What corosync keeps under fixed paths is bound to directories of ours, in a mount namespace, so that
nothing of the machine is touched.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench.peers.client import be_realtime, facts
from bench.peers.network import CannotMeasure, Network
from bench.peers.waiting import now_us, wait_for

ORDINARY = "system {\nsched_rr: no\npriority: 0\n}\n"  # it is real-time unless told otherwise
PROGRAMS = ("ip", "setpriv", "unshare", "nsenter", "mount", "corosync", "gcc")
# Own messages undelivered, by the largest size that is sent so; beyond, queues only add latency.
WINDOWS = ((1_024, 500), (8_192, 200), (65_536, 50), (1 << 20, 4))
# The lowest that stood a flood; with a token of 50 ms it suspected the living.
LOWEST = (
    "token: 100",
    "token_coefficient: 0",
    "consensus: 120",
    "join: 30",
    "token_retransmits_before_loss_const: 2",
)
# Left to itself corosync gives a link up after half of `token` without an answer, which a flood
# delays: rings broke every few seconds at 200 ms, and none of it is needed to notice a crash.
PATIENT_LINKS = (
    "interface {",
    "linknumber: 0",
    "knet_ping_interval: 200",
    "knet_ping_timeout: 2000",
    "}",
)
MOUNTS = (
    'mount -t tmpfs tmpfs /dev/shm && mount --bind "$0/run" /run && '
    'mount --bind "$0/lib" /var/lib/corosync && mount --bind "$0/etc" /etc/corosync && '
    "exec corosync -f"
)

NOT_RUN = re.compile(r"was not scheduled \(@(\d+)\) for (\d+)\.\d+ ms")


def patience(transport: str) -> tuple[str, ...]:
    """Return what makes links patient where there are links."""
    return PATIENT_LINKS if transport == "knet" else ()


class Pause(NamedTuple):
    """A daemon that was not let run, as it noticed itself: until when, and for how long."""

    until_us: int
    node: int
    lasted_us: int


def pauses_in(log: str, node: int, epoch_us: int) -> list[Pause]:
    """Read a log; `epoch_us` is what the epoch is on the clock that everything else is told by."""
    found = [(int(one[1]), int(one[2])) for one in NOT_RUN.finditer(log)]
    return [Pause(epoch_us + 1_000 * at, node, 1_000 * lasted) for at, lasted in found]


class Corosync:
    """Daemons of one transport, one a node; `knet` is encrypted, `udpu` cannot be."""

    def __init__(
        self,
        network: Network,
        directory: Path,
        client: Path,
        transport: str,
        timeouts: tuple[str, ...] = (),
        *,
        is_realtime: bool,
    ) -> None:
        self.name = f"corosync {transport}"
        self._network = network
        self._directory = directory
        self._client = client
        self._transport = transport
        self._timeouts = timeouts
        self._is_realtime = is_realtime
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._clients: dict[int, subprocess.Popen[bytes]] = {}
        self._key = os.urandom(256)

    def __enter__(self) -> Self:
        try:
            for node in self._network.nodes:
                for name in ("etc", "run", "lib"):
                    (self._home(node) / name).mkdir(parents=True)
                self._configure(node)
                self.start(node)
        except BaseException:  # nobody leaves what was not entered
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_flood()
        for node in list(self._processes):
            self.kill(node)

    def _home(self, node: int) -> Path:
        return self._directory / f"c{node}"

    def _configure(self, node: int) -> None:
        home = self._home(node)
        cipher = "\n".join(
            ("crypto_cipher: aes256", "crypto_hash: sha256") if self._transport == "knet" else ()
        )
        timeouts = "\n".join(self._timeouts)
        nodes = "\n".join(
            f"node {{\nring0_addr: {self._network.address(peer)}\nnodeid: {peer}\nname: n{peer}\n}}"
            for peer in self._network.nodes
        )
        (home / "etc" / "corosync.conf").write_text(
            f"totem {{\nversion: 2\ncluster_name: bench\ntransport: {self._transport}\n{cipher}\n"
            f"{timeouts}\n}}\n"
            f"logging {{\nto_stderr: no\nto_syslog: no\nto_logfile: yes\n"
            f"logfile: {home / 'log'}\ntimestamp: hires\n}}\n"
            f"quorum {{\nprovider: corosync_votequorum\n}}\nnodelist {{\n{nodes}\n}}\n"
            f"{'' if self._is_realtime else ORDINARY}"
        )
        key = home / "etc" / "authkey"
        key.write_bytes(self._key)
        key.chmod(0o400)

    def start(self, node: int) -> None:
        """Start a daemon; return when its mount namespace is complete, for clients to enter."""
        home = str(self._home(node))
        command = ("unshare", "-m", "--propagation", "private", "sh", "-c", MOUNTS, home)
        with (self._home(node) / "out").open("ab") as out:
            self._processes[node] = subprocess.Popen(
                self._network.within(node, *command), stdout=out, stderr=out
            )
        comm = Path("/proc", str(self.pid(node)), "comm")
        wait_for(f"{self.name}: node {node}", lambda: comm.read_text().strip() == "corosync")

    def kill(self, node: int) -> int:
        """Kill a daemon without warning; return when. Its client notices by itself."""
        process = self._processes.pop(node)
        killed_at = now_us()
        process.kill()
        process.wait()
        if node in self._clients:
            self._end_client(node)
        return killed_at

    def pid(self, node: int) -> int:
        return self._processes[node].pid

    # Clients: the cluster's views are theirs

    def _begin_client(self, node: int, *words: str) -> None:
        where = ("nsenter", "-t", str(self.pid(node)), "-m", "-n")
        with self._told(node).open("wb") as out, (self._home(node) / "errors").open("ab") as errors:
            self._clients[node] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *where, str(self._client), *words],
                stdout=out,
                stderr=errors,
            )

    def _end_client(self, node: int) -> None:
        client = self._clients.pop(node)
        client.send_signal(signal.SIGKILL)
        client.wait()

    def _told(self, node: int) -> Path:
        return self._home(node) / "told"

    def _facts(self, node: int, kind: str) -> list[list[int]]:
        return facts(self._told(node).read_text(), kind)

    def views(self, node: int) -> list[tuple[int, list[int]]]:
        """Return each view a client has been told, with its time."""
        return [(at, sorted(members)) for at, *members in self._facts(node, "view")]

    def pauses(self, since: int) -> list[Pause]:
        """Return how often daemons were not let run since then, as they noticed themselves."""
        epoch_us = now_us() - time.time_ns() // 1_000
        found: list[Pause] = []
        for node in self._network.nodes:
            log = self._home(node) / "log"
            told = log.read_text(errors="replace") if log.exists() else ""
            found += [one for one in pauses_in(told, node, epoch_us) if one.until_us >= since]
        return sorted(found)

    def wait_for_ring(self) -> None:
        """Wait until every client sees every other: those that crashed get a new one."""
        wait_for(f"{self.name}: one group of all", self._is_one_group)

    def _is_one_group(self) -> bool:
        for node, client in self._clients.items():
            if client.poll() is not None:
                errors = (self._home(node) / "errors").read_text().strip()
                raise CannotMeasure(f"{self.name}: the client at node {node} ended: {errors}")
        views = [self.views(node) for node in self._network.nodes]
        return all(one and one[-1][1] == list(self._network.nodes) for one in views)

    def is_disturbed(self, since: int, until: int) -> bool:
        """Whether somebody was told of another view between these times."""
        return any(since <= at < until for node in self._processes for at, _ in self.views(node))

    def view_without(self, victim: int, node: int) -> int | None:
        """Return when a survivor's client was told of a view without the victim."""
        at, members = self.views(node)[-1]
        return None if victim in members else at

    # Load

    def flood(self, size: int) -> None:
        """Have every node send as fast as it may; return when the messages flow."""
        for node in self._network.nodes:
            if node not in self._clients:
                self._begin_client(node, "flood", str(size), str(window_of(size)))
        self.wait_for_ring()
        wait_for(
            f"{self.name}: a flood",
            lambda: all(self._facts(node, "flows") for node in self._network.nodes),
        )

    def stop_flood(self) -> None:
        for node in list(self._clients):
            self._end_client(node)

    def delivered(self) -> int:
        """Return how many messages the first node's client was told, as of the last second."""
        return self.counted()[1]

    def counted(self) -> tuple[int, int]:
        """Return when the first node's client told its count last, and the count."""
        facts = self._facts(self._network.nodes[0], "delivered")
        return (facts[-1][0], facts[-1][1]) if facts else (0, 0)

    def probe(self, node: int, size: int, rate: int, count: int) -> list[int]:
        """Send at a steady rate, one at a time; return how long each took since it was due."""
        self._begin_client(node, "probe", str(size), str(rate), str(count))
        return self._took([node], count / rate)

    def chance(self, node: int, size: int, rate: int, seconds: float) -> list[int]:
        """Send at random times, waiting for nothing; return how long each took since due."""
        self._begin_client(node, "pace", str(size), str(rate), str(int(rate * seconds)))
        return self._took([node], seconds)

    def chance_by_all(self, size: int, rate: int, seconds: float) -> list[int]:
        """Have every node send at random times, so many a second together."""
        each = rate // len(self._network.nodes)
        for node in self._network.nodes:
            self._begin_client(node, "pace", str(size), str(each), str(int(each * seconds)))
        return self._took(self._network.nodes, seconds)

    def _took(self, nodes: Iterable[int], seconds: float) -> list[int]:
        """Wait for clients that send; return how long their messages took."""
        took: list[int] = []
        for node in nodes:
            client = self._clients[node]
            if self._is_realtime:
                be_realtime(client.pid)
            try:
                is_failed = bool(client.wait(timeout=60 + seconds))
            except subprocess.TimeoutExpired:
                raise CannotMeasure(f"{self.name}: a client does not come to its end") from None
            if is_failed:
                raise CannotMeasure(f"{self.name}: {(self._home(node) / 'errors').read_text()}")
            del self._clients[node]
            took += [one for _, one in self._facts(node, "took")]
        return took


def window_of(size: int) -> int:
    """Return how many own messages of this size a flooding client keeps undelivered."""
    return next(window for most, window in WINDOWS if size <= most)
