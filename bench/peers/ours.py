"""A cluster of evensong daemons, each in its own network namespace."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from bench.peers.client import be_realtime, facts
from bench.peers.network import CannotMeasure, Network
from bench.peers.waiting import now_us, wait_for
from evensong.client.message import Message
from evensong.core.groups.frame import encode_whole
from evensong.daemon.control import Answer, ask
from evensong.daemon.keys import write_new_key
from evensong.errors import Unreachable
from evensong.ipc import wire
from evensong.sync import connect

PORT = 5_405
HEADERS = 48  # of IP and UDP, before what the setting `packet` counts
FLOOD_S = 3_600
PROBED = "probed"


class Break(NamedTuple):
    """A ring that ended at a node, and how late that node had itself been."""

    at: int
    node: int
    ring: str
    members: tuple[int, ...]
    cause: str
    lag_us: int


class Evensong:
    """Sealed daemons of one profile, one a node."""

    def __init__(
        self,
        network: Network,
        directory: Path,
        client: Path,
        profile: str,
        *,
        is_realtime: bool,
        extra: str = "",
    ) -> None:
        self.name = f"evensong {profile}"
        self._network = network
        self._directory = directory
        self._client = client
        self._profile = profile
        self._is_realtime = is_realtime
        self._extra = extra  # further lines of the settings
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._directory.mkdir()
        write_new_key(self._directory / "cluster.key")
        try:
            for node in self._network.nodes:
                self.state(node).mkdir()
                self._configure(node)
                self.start(node)
            self.wait_for_ring()
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
        for node in list(self._processes):
            self.kill(node)

    def state(self, node: int) -> Path:
        return self._directory / f"n{node}"

    def _configure(self, node: int) -> None:
        network = self._network
        peers = "\n".join(f'{peer} = "{network.address(peer)}:{PORT}"' for peer in network.nodes)
        (self._directory / f"n{node}.toml").write_text(
            f'cluster = "bench"\nnode = {node}\nstate = "n{node}"\nkeys = "cluster.key"\n'
            f'profile = "{self._profile}"\npacket = {network.mtu - HEADERS}\ntesting = true\n'
            f"realtime = {str(self._is_realtime).lower()}\n{self._extra}\n[peers]\n{peers}\n"
        )

    def start(self, node: int) -> None:
        config = str(self._directory / f"n{node}.toml")
        daemon = (sys.executable, "-m", "evensong.cli.main", "daemon", config)
        with (self.state(node) / "log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                self._network.within(node, *daemon), stdin=subprocess.DEVNULL, stderr=log
            )

    def kill(self, node: int) -> int:
        """Kill a daemon without warning; return when."""
        process = self._processes.pop(node)
        killed_at = now_us()
        process.kill()
        process.wait()
        return killed_at

    def pid(self, node: int) -> int:
        return self._processes[node].pid

    def status(self, node: int) -> Answer:
        return ask(self.state(node), {"do": "status"})

    def wait_for_ring(self) -> None:
        wait_for(f"{self.name}: one ring of all", self._is_one_ring)

    def _is_one_ring(self) -> bool:
        try:
            told = [self.status(node) for node in self._network.nodes]
        except Unreachable:
            return False
        is_full = all(one["members"] == list(self._network.nodes) for one in told)
        is_settled = all(one["state"] == "operational" for one in told)
        return is_full and is_settled and len({one["ring"] for one in told}) == 1

    def view_without(self, victim: int, node: int) -> int | None:
        """Return when a survivor installed its configuration without the victim."""
        status = self.status(node)
        members = status["members"]
        assert isinstance(members, list)
        installed_at = status["installed_at_us"]
        assert isinstance(installed_at, int)
        return None if victim in members or status["state"] != "operational" else installed_at

    def is_disturbed(self, since: int, until: int) -> bool:
        """Whether some ring has broken between these times."""
        return any(one.at < until for one in self.breaks(since))

    def breaks(self, since: int) -> list[Break]:
        """Return every ring that ended since then, at any node, in the order of time."""
        found: list[Break] = []
        for node in self._processes:
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

    # Load

    def flood(self, size: int) -> None:
        """Have every daemon send as fast as it may; return when the messages flow."""
        self.wait_for_ring()
        for node in self._network.nodes:
            request = {"do": "flood", "size": size, "service": "agreed", "seconds": FLOOD_S}
            ask(self.state(node), request)
        before = self.delivered()
        wait_for(f"{self.name}: a flood", lambda: self.delivered() > before + 1_000)

    def stop_flood(self) -> None:
        for node in self._network.nodes:
            ask(self.state(node), {"do": "flood", "size": 1_024, "seconds": 0})

    def delivered(self) -> int:
        """Return how many messages the first node has delivered."""
        count = self.status(self._network.nodes[0])["delivered"]
        assert isinstance(count, int)
        return count

    def probe(self, node: int, size: int, rate: int, count: int) -> list[int]:
        """Send at a steady rate, one at a time; return how long each took since it was due."""
        return self._said(node, size, ("say", rate, count), count / rate)

    def chance(self, node: int, size: int, rate: int, seconds: float) -> list[int]:
        """Send at random times, waiting for nothing; return how long each took since due."""
        return self._said(node, size, ("chance", rate, int(rate * seconds)), seconds)

    def _said(self, node: int, size: int, words: tuple[str, int, int], seconds: float) -> list[int]:
        with connect(self.state(node), name="probe") as es, es.join(PROBED) as group:
            es.send(PROBED, b"first").ordered()  # what it is to be sent to is known from here on
            while not isinstance(group.next_event(), Message):
                pass
            frame = encode_whole(es.member.session, 2, 0, 0, [bytes(size)])
            through = (es.fileno(), 2, wire.encode_send(2, frame).hex())
            client = subprocess.Popen(
                [str(self._client), *map(str, (*words, *through))],
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[es.fileno()],
            )
            if self._is_realtime:
                be_realtime(client.pid)
            try:
                told, _ = client.communicate(timeout=60 + seconds)
            except subprocess.TimeoutExpired:
                client.kill()
                client.wait()
                raise CannotMeasure(f"{self.name}: its client never heard everything") from None
        if client.returncode:
            raise CannotMeasure(f"{self.name}: the client failed")
        return [took for _, took in facts(told, "took")]
