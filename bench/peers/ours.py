"""A cluster of evensong daemons, each in its own network namespace."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, NamedTuple, Self

from bench.peers.client import be_realtime, facts
from bench.peers.network import CannotMeasure, Network
from bench.peers.waiting import now_us, wait_for
from evensong import Message, View
from evensong.core.groups.frame import encode_whole
from evensong.daemon.control import Answer, ask
from evensong.daemon.keys import write_new_key
from evensong.errors import Unreachable
from evensong.ipc import wire
from evensong.sync import Connection, Group, connect

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


class Speaking(NamedTuple):
    """A client that sends, and the file that it writes to."""

    client: "subprocess.Popen[bytes]"
    told: IO[str]


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
        return self._said([node], size, ("say", rate, count), count / rate)

    def chance(self, node: int, size: int, rate: int, seconds: float) -> list[int]:
        """Send at random times, waiting for nothing; return how long each took since due."""
        return self._said([node], size, ("chance", rate, int(rate * seconds)), seconds)

    def chance_by_all(self, size: int, rate: int, seconds: float) -> list[int]:
        """Have every node send at random times by batches, so many a second together."""
        nodes = self._network.nodes
        each = rate // len(nodes)
        return self._said(nodes, size, ("batches", each, int(each * seconds)), seconds)

    def _said(
        self, nodes: Sequence[int], size: int, words: tuple[str, int, int], seconds: float
    ) -> list[int]:
        """Have a client at each of these send; return how long its own messages took."""
        with ExitStack() as open_ones:
            joined = [self._joined(node, open_ones) for node in nodes]
            for es, group in joined:
                _wait_for_view(group, len(nodes))
                es.send(PROBED, b"first").ordered()  # what it is sent to is known from here on
            for _, group in joined:  # whoever reads from here on begins with a whole frame
                _wait_for_messages(group, len(nodes))
            speaking = [
                self._speaking(es, size, words, open_ones.enter_context(TemporaryFile("w+")))
                for es, _ in joined
            ]
            return [took for one in speaking for took in self._took(one, seconds)]

    def _joined(self, node: int, open_ones: ExitStack) -> tuple[Connection, Group]:
        es = open_ones.enter_context(connect(self.state(node), name="probe"))
        return es, open_ones.enter_context(es.join(PROBED))

    def _speaking(
        self, es: Connection, size: int, words: tuple[str, int, int], told: IO[str]
    ) -> Speaking:
        """Let a client speak through a connection, behind its first message."""
        frame = encode_whole(es.member.session, 2, 0, 0, [bytes(size)])
        through = (es.fileno(), 2, wire.encode_send(2, frame).hex())
        client = subprocess.Popen(
            [str(self._client), *map(str, (*words, *through))],
            stdout=told,
            pass_fds=[es.fileno()],
        )
        if self._is_realtime:
            be_realtime(client.pid)
        return Speaking(client, told)

    def _took(self, speaking: Speaking, seconds: float) -> list[int]:
        client, told = speaking
        try:
            is_failed = bool(client.wait(timeout=60 + seconds))
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"{self.name}: its client never heard everything") from None
        finally:
            client.kill()
            client.wait()
        if is_failed:
            raise CannotMeasure(f"{self.name}: the client failed")
        told.seek(0)
        return [took for _, took in facts(told.read(), "took")]


def _wait_for_view(group: Group, members: int) -> None:
    while not (isinstance(view := group.next_event(), View) and len(view.members) == members):
        pass


def _wait_for_messages(group: Group, count: int) -> None:
    while count:
        count -= isinstance(group.next_event(), Message)
