"""A switch that misbehaves as told: what one host sends reaches the others late, twice or not.

Runs as a process of its own, between tun devices that it was handed; orders come as lines of JSON
on standard input and are answered by its counters. It needs no `netem`, which many kernels lack,
and draws its luck from a seed.
"""

import heapq
import json
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

READ_MAX: Final = 65_536
BURST_MAX: Final = 64  # packets of one host before another is looked at
NAP_S: Final = 0.01  # the longest wait, so that being late can be told from having nothing to do
Node: TypeAlias = int


class Luck(NamedTuple):
    """What happens to packets from one host to another."""

    loss: float = 0.0  # the share that never comes
    delay_us: int = 0
    jitter_us: int = 0  # up to so much sooner or later; so packets overtake each other
    held: float = 0.0  # the share that is held back until others have overtaken it
    held_us: int = 3_000
    twice: float = 0.0  # the share that comes twice
    damage: float = 0.0  # the share in which two words have changed places: no checksum sees that


class Switch:
    """Packets on their way between hosts."""

    def __init__(self, seed: str, descriptors: dict[Node, int], hosts: dict[bytes, Node]) -> None:
        self.rng = Random(seed)
        self.descriptors = descriptors
        self.hosts = hosts
        self.luck: dict[tuple[Node, Node], Luck] = {}
        self.counts: Counter[str] = Counter()
        self._numbers = count()
        self._on_the_way: list[tuple[int, int, Node, bytes]] = []

    def obey(self, order: dict[str, Any]) -> None:
        """Change the luck of some links."""
        links = order.pop("links")
        for source, target in links:
            self.luck[source, target] = Luck()._replace(**order)

    def take(self, source: Node, packet: bytes, now: int) -> None:
        """Decide what becomes of a packet."""
        self.counts["taken"] += 1
        self.counts["fragments"] += is_fragment(packet)
        self.counts["largest"] = max(self.counts["largest"], len(packet))
        for target in self._targets(source, packet):
            luck = self.luck.get((source, target), Luck())
            copies = 1 + self._strikes(luck.twice, "twice")
            for _ in range(copies):
                if not self._strikes(luck.loss, "lost"):
                    damaged = (
                        self._damaged(packet) if self._strikes(luck.damage, "damaged") else None
                    )
                    due = now + self._delay(luck)
                    entry = (due, next(self._numbers), target, damaged or packet)
                    heapq.heappush(self._on_the_way, entry)

    def wait_s(self, now: int) -> float:
        """Return how long to wait for a packet that is due."""
        return min(NAP_S, max(0, self._on_the_way[0][0] - now) / 1e6) if self._on_the_way else NAP_S

    def hand_over(self, now: int) -> None:
        """Hand over what is due."""
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._on_the_way)
            try:
                os.write(self.descriptors[target], packet)
            except OSError:
                self.counts["interface down"] += 1
            else:
                self.counts["handed over"] += 1

    def _targets(self, source: Node, packet: bytes) -> Iterable[Node]:
        host = packet[16:20] if packet[0] >> 4 == 4 else packet[24:40]
        if ip_address(host).is_multicast:
            return [node for node in self.descriptors if node != source]
        node = self.hosts.get(host)
        return [] if node is None else [node]

    def _strikes(self, share: float, what: str) -> bool:
        strikes = share > 0 and self.rng.random() < share
        self.counts[what] += strikes
        return strikes

    def _delay(self, luck: Luck) -> int:
        jitter = self.rng.randint(-luck.jitter_us, luck.jitter_us) if luck.jitter_us else 0
        return luck.delay_us + jitter + self._strikes(luck.held, "held back") * luck.held_us

    def _damaged(self, packet: bytes) -> bytes:
        """Swap two 16-bit words of what UDP carries."""
        first = (20 if packet[0] >> 4 == 4 else 40) + 8
        words = (len(packet) - first) // 2
        if words < 2:
            return packet
        damaged = bytearray(packet)
        a, b = (first + 2 * word for word in self.rng.sample(range(words), 2))
        damaged[a : a + 2], damaged[b : b + 2] = damaged[b : b + 2], damaged[a : a + 2]
        return bytes(damaged)


def is_fragment(packet: bytes) -> bool:
    """Whether IP has cut this packet from a larger one."""
    if packet[0] >> 4 == 4:
        return bool(int.from_bytes(packet[6:8]) & 0x3FFF)
    return packet[6] == 44


def main(seed: str, *ports: str) -> None:
    """Switch between ports, each `node,descriptor,address,address`, until standard input ends."""
    descriptors: dict[Node, int] = {}
    hosts: dict[bytes, Node] = {}
    for port in ports:
        node, number, *addresses = port.split(",")
        descriptors[int(node)] = int(number)
        hosts.update({ip_address(address).packed: int(node) for address in addresses})
    switch = Switch(seed, descriptors, hosts)
    node_by_descriptor = {descriptor: node for node, descriptor in descriptors.items()}
    poll = select.epoll()
    for descriptor in (*descriptors.values(), sys.stdin.fileno()):
        poll.register(descriptor, select.EPOLLIN)
    turned_at = time.monotonic_ns() // 1_000
    while True:
        ready = poll.poll(switch.wait_s(time.monotonic_ns() // 1_000))
        for descriptor, _ in ready:
            if descriptor != sys.stdin.fileno():
                _drain(switch, node_by_descriptor[descriptor], descriptor)
            elif line := sys.stdin.readline():
                switch.obey(json.loads(line))
                print(json.dumps(switch.counts), flush=True)
                switch.counts["late_us"] = 0
            else:
                return
        now = time.monotonic_ns() // 1_000
        switch.hand_over(now)
        switch.counts["late_us"] = max(switch.counts["late_us"], now - turned_at - int(NAP_S * 1e6))
        turned_at = now


def _drain(switch: Switch, node: Node, descriptor: int) -> None:
    for _ in range(BURST_MAX):
        try:
            packet = os.read(descriptor, READ_MAX)
        except OSError:  # nothing more, or the interface is down
            return
        switch.take(node, packet, time.monotonic_ns() // 1_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
