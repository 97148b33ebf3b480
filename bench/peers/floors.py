"""The floors: what a node can send to the others at most, without any order.

One sends datagrams of the path's size to all others, who count. `plain`: a call for each datagram.
`gso`: a call sends and receives many. `sealed`: as `gso`, and sealed and opened as the product
does it. What a ring orders takes as many of these steps for each packet, shared by all its nodes.
A receiver says how far it is, so that the sender does not run away from it.

    python -m bench.peers.floors receive WAY HOST PORT
    python -m bench.peers.floors send WAY SIZE SECONDS HOST PORT HOST...
"""

import json
import socket
import struct
import subprocess
import sys
import time

from bench.peers.network import CannotMeasure, Network
from evensong.core.totem import wire
from evensong.daemon.burst import Burst, burst_of
from evensong.daemon.datagrams import ANCILLARY_MAX, MERGED_MAX, SEGMENT, UDP_GRO, UDP_SEGMENT
from evensong.daemon.datagrams import SIZE as MERGED
from evensong.daemon.opening import Opener
from evensong.daemon.seal import NAME_SIZE, Sealer, make_key
from evensong.daemon.settings import DATAGRAM_MAX
from evensong.daemon.sockets import SOL_UDP

PORT = 5_505
BUFFER_BYTES = 4 << 20
UNDER_WAY_BYTES = 700_000  # as a ring's window
NUMBER = struct.Struct("!Q")
QUIET_S = 1.0  # after which a receiver holds that all has come
LOST_S = 0.05  # after which the sender holds that what it awaits was lost
EACH = 32  # datagrams between two words of a receiver, where each is received by itself
LIFE = (1, 1, 1)
CLUSTER = "floor"
KEY = make_key(bytes(32))


def measure(network: Network, way: str, size: int, seconds: float) -> dict[str, float]:
    """Let the first node send to all others; return the datagrams a second at the slowest."""
    program = (sys.executable, "-m", "bench.peers.floors")
    others = [(node, network.address(node)) for node in network.nodes[1:]]
    receivers = [
        subprocess.Popen(
            network.within(node, *program, "receive", way, host, str(PORT)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for node, host in others
    ]
    try:
        for receiver in receivers:
            assert receiver.stdout is not None
            if receiver.stdout.readline() != "ready\n":
                raise CannotMeasure(f"floor {way}: a receiver did not come up")
        hosts = [host for _, host in others]
        words = (*program, "send", way, str(size), str(seconds), network.address(1), str(PORT))
        sent = subprocess.run(
            network.within(network.nodes[0], *words, *hosts), check=False, timeout=seconds + 30
        )
        if sent.returncode:
            raise CannotMeasure(f"floor {way}: the sender failed")
        told = [json.loads(receiver.communicate(timeout=30)[0]) for receiver in receivers]
    finally:
        for receiver in receivers:
            receiver.kill()
            receiver.wait()
    return {"packets_per_s": round(min(told)), "bytes_per_s": round(min(told) * size)}


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        bound.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    bound.bind((host, port))
    return bound


class Made:
    """Makes what is sent at once: datagrams that say how many there are with them."""

    def __init__(self, way: str, size: int) -> None:
        self._size = size
        self._sealer = Sealer(CLUSTER, KEY, *LIFE) if way == "sealed" else None
        self.at_once = 1 if way == "plain" else burst_of(size)
        long_max = Sealer(CLUSTER, KEY, *LIFE).long_max(size, self.at_once)
        head = wire.HEADER.pack(wire.ROW, *LIFE[:2])
        self._frame = head + bytes(long_max - len(head))

    def next_burst(self, sent: int) -> Burst:
        if self._sealer is not None:
            return self._sealer.seal_long(self._frame, self._size)
        last = NUMBER.pack(sent + self.at_once)
        return Burst((bytes(NAME_SIZE) + last).ljust(self._size, b"\0") * self.at_once, self._size)


def send(way: str, size: int, seconds: float, bound: socket.socket, peers: list[str]) -> None:
    made = Made(way, size)
    segment = [(SOL_UDP, UDP_SEGMENT, SEGMENT.pack(size))] if made.at_once > 1 else []
    window = UNDER_WAY_BYTES // size
    arrived = dict.fromkeys(peers, 0)
    sent = 0
    bound.settimeout(LOST_S)
    if way == "sealed":  # only a whole frame introduces a life
        sealer = made._sealer
        assert sealer is not None
        hello = sealer.seal(wire.HEADER.pack(wire.BEACON, *LIFE[:2]))
        sent = sealer.counter
        for peer in peers:
            bound.sendto(hello, (peer, PORT))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        burst = made.next_burst(sent)
        sent += made.at_once
        for peer in peers:
            bound.sendmsg([burst.data], segment, 0, (peer, PORT))
        while sent - min(arrived.values()) >= window:
            try:
                said, (peer, _) = bound.recvfrom(64)
                arrived[peer] = NUMBER.unpack(said)[0]
            except TimeoutError:
                arrived = dict.fromkeys(peers, sent)


def receive(way: str, bound: socket.socket) -> float:
    """Count datagrams until no more come; return how many came a second."""
    if way != "plain":
        bound.setsockopt(SOL_UDP, UDP_GRO, 1)
    opener = Opener(CLUSTER, (KEY,), 4_096, DATAGRAM_MAX)
    count = heard = 0
    began = ended = 0.0
    print("ready", flush=True)
    while True:
        try:
            merged, ancillary, _, sender = bound.recvmsg(MERGED_MAX, ANCILLARY_MAX)
        except TimeoutError:
            return count / max(ended - began, 1e-9)
        if not began:
            bound.settimeout(QUIET_S)
            began = time.monotonic()
        size = MERGED.unpack(ancillary[0][2])[0] if ancillary else len(merged)
        if way == "sealed":
            opener.begin_turn()
            if len(merged) <= size:
                opener.open(merged)
            elif opener.open_long(Burst(merged, size)) is None:
                continue  # the kernel has handed over less than a burst: none of it counts
        datagrams = -(-len(merged) // size)
        count += datagrams
        heard += 1
        ended = time.monotonic()
        if way != "plain" or heard % EACH == 0:
            number = merged[len(merged) - (len(merged) % size or size) :][NAME_SIZE:]
            bound.sendto(number[: NUMBER.size], sender)


def main() -> None:
    what, way, *words = sys.argv[1:]
    if what == "receive":
        with _bound(words[0], int(words[1])) as bound:
            print(json.dumps(receive(way, bound)), flush=True)
    else:
        with _bound(words[2], int(words[3])) as bound:
            send(way, int(words[0]), float(words[1]), bound, words[4:])


if __name__ == "__main__":
    main()
