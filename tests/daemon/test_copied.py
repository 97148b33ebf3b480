"""Somebody without the key, on the way between two daemons, copies what they say to a third."""

import socket
import threading
from pathlib import Path

from tests.daemon.local import LocalCluster, wait_for

SLOW = (
    'token_retransmit = "60ms"\ntoken_loss = "5s"\njoin = "40ms"\nconsensus = "250ms"\n'
    'beacon = "200ms"\nhold = "50ms"\n'
)


class Copyist:
    """Passes on what one daemon sends to another, and gives it to a third first, when told to."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.target, self.third = (
            (cluster.hosts[node - 1], cluster.ports[node - 1]) for node in (2, 3)
        )
        self.between = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.between.bind((cluster.hosts[0], 0))
        self.is_copying = False
        self.copied = 0
        self.thread = threading.Thread(target=self._run)

    def port(self) -> int:
        return int(self.between.getsockname()[1])

    def _run(self) -> None:
        while datagram := self.between.recv(65_536):
            if self.is_copying:
                self.between.sendto(datagram, self.third)
                self.copied += 1
            self.between.sendto(datagram, self.target)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.between.getsockname())
        self.thread.join()
        self.between.close()


def test_a_token_that_is_copied_to_another_member_changes_nothing(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3, timeouts=SLOW) as cluster:
        copyist = Copyist(cluster)
        first, _, third = cluster.ports
        cluster.configure(1, ports=[first, copyist.port(), third])
        copyist.thread.start()
        try:
            cluster.start()
            cluster.wait_for_ring()
            before = [cluster.status(node)["configurations"] for node in cluster.nodes]
            copyist.is_copying = True
            for _ in range(10):
                for node in cluster.nodes:
                    cluster.send(node, 20)
                    cluster.send(node, 5, "safe")
            wait_for("copies", lambda: copyist.copied > 100)
            cluster.wait_until_quiet(cluster.nodes)
            after = [cluster.status(node)["configurations"] for node in cluster.nodes]
            assert after == before
            dropped = cluster.status(3)["dropped"]
            assert isinstance(dropped, dict)
            assert dropped["token that cannot be"] > 0
            cluster.check_history()
        finally:
            copyist.close()
