"""Five hundred clients come and go, in every way; those who stay hear everything, in one order."""

import os
from collections import Counter
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from tests.daemon.crowd import (
    GROUP,
    NONSENSE,
    ORDERLY,
    WAYS,
    Visitor,
    kill_in_the_middle_of_a_send,
    talk_nonsense,
)
from tests.daemon.local import LocalCluster, wait_for
from tests.daemon.raw_client import RawClient
from tests.daemon.test_hostile_clients import descriptors, rss_mib
from tests.daemon.test_sessions import clients_of

WAVES = 20
WAVE = 25  # visitors
NODES = (1, 2, 3)
GROWTH_MAX_MIB = 5  # of a daemon, while the second half comes and goes
KILLED = "killed"


class Gathering:
    """Those who stay, and what everybody said."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.steady = [
            stack.enter_context(RawClient(cluster.state(node), f"steady{node}")) for node in NODES
        ]
        for client in self.steady:
            client.join(GROUP)
        self.said: dict[str, list[bytes]] = {client.user: [] for client in self.steady}
        self.must_come = set(self.said)  # who went in good order, or not at all
        self.nonsense: Counter[int] = Counter()  # by node

    def wave(self, number: int) -> None:
        """Let visitors come, talk all at once with those who stay, and go in all ways in turn."""
        visitors: list[tuple[int, Visitor]] = []
        for index in range(WAVE):
            node = NODES[(number + index) % len(NODES)]
            visitors.append((node, Visitor(self.cluster.state(node), f"v{number}.{index}")))
        for _, visitor in visitors:
            visitor.perform()
            self.said[visitor.user] = visitor.said
        self._speak(b"wave %d" % number)
        for (node, visitor), way in zip(visitors, cycle(WAYS), strict=False):
            way(visitor)
            visitor.stream.close()
            if way in ORDERLY:
                self.must_come.add(visitor.user)
            self.nonsense[node] += way is talk_nonsense
        wait_for("all others are gone", lambda: all(map(self._is_alone, NODES)))
        self._speak(b"after %d" % number)
        self._hear_all()

    def _speak(self, word: bytes) -> None:
        for client in self.steady:
            client.send((GROUP,), word)
            self.said[client.user].append(word)

    def _is_alone(self, node: int) -> bool:
        """Whether whoever came to a daemon is gone, and all that it said is on the ring."""
        clients = clients_of(self.cluster, node)
        return clients["connections"] == 1 and clients["to_send"] == 0

    def _hear_all(self) -> None:
        """Let those who stay hear each other's last word: nobody else has more to say."""
        last_words = {(client.user, self.said[client.user][-1]) for client in self.steady}
        for client in self.steady:
            missing = set(last_words)
            heard = 0
            while missing:
                missing.difference_update((user, word) for user, _, word in client.got[heard:])
                heard = len(client.got)
                if missing:
                    client.hear()
            assert client.views[-1].members == tuple(one.member for one in self.steady)

    def check_what_was_heard(self) -> None:
        """See that all heard the same, of everybody from the first word on, and all if due."""
        heard = self.steady[0].got
        assert all(client.got == heard for client in self.steady)
        orders = [order for _, order, _ in heard]
        assert orders == sorted(set(orders))
        of: dict[str, list[bytes]] = {user: [] for user in self.said}
        for user, _, message in heard:
            of[user].append(message)
        for user, said in self.said.items():
            assert of[user] == said[: len(of[user])]
            assert of[user] == said or user not in self.must_come

    def check_what_is_told(self) -> None:
        """See that every daemon tells whom it hung up on, and why."""
        for node in NODES:
            clients = clients_of(self.cluster, node)
            assert clients["dropped"] == {NONSENSE: self.nonsense[node]}
            assert clients["groups"] == 1
            assert clients["to_send"] == clients["held_back"] == 0
            assert f"(process {os.getpid()}): {NONSENSE}" in self.cluster.log(node)


def test_five_hundred_come_and_go(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, len(NODES)) as cluster, ExitStack() as stack:
        cluster.start()
        cluster.wait_for_ring()
        gathering = Gathering(cluster, stack)
        for number in range(WAVES // 2):
            gathering.wave(number)
        opened = {node: descriptors(cluster, node) for node in NODES}
        before = {node: rss_mib(cluster, node) for node in NODES}
        gathering.said[KILLED] = [b"whole"]
        gathering.must_come.add(KILLED)
        kill_in_the_middle_of_a_send(cluster.state(2), KILLED)
        for number in range(WAVES // 2, WAVES):
            gathering.wave(number)
        gathering.check_what_was_heard()
        gathering.check_what_is_told()
        wait_for(
            "descriptors are given back",
            lambda: all(descriptors(cluster, node) <= opened[node] for node in NODES),
        )
        for node in NODES:
            assert rss_mib(cluster, node) - before[node] < GROWTH_MAX_MIB
