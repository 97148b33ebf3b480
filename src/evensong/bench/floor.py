"""The floor under a ring: what plain UDP does here, without any order.

One sender in plain Python sends each datagram to every receiver; receivers are processes of their
own and count. No ring that sends one datagram a call can be much faster.
"""

import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

RECEIVERS: Final = 3
BUFFER_BYTES: Final = 4 * 1024 * 1024
WAIT_S: Final = 0.5
CHUNK: Final = 64  # datagrams between two looks at the clock


def measure(size: int, seconds: float) -> float:
    """Return the datagrams a second that each receiver got, the median of them."""
    spawn = multiprocessing.get_context("spawn")
    receivers: list[tuple[SpawnProcess, Connection]] = []
    try:
        for _ in range(RECEIVERS):
            here, there = spawn.Pipe()
            process = spawn.Process(target=_receive, args=(there, size), daemon=True)
            with _deaf_to_interrupts():
                process.start()
            receivers.append((process, here))
        addresses = [("127.0.0.1", here.recv()) for _, here in receivers]
        _send(addresses, bytes(size), seconds)
        rates = sorted(here.recv() for _, here in receivers)
    finally:
        for process, _ in receivers:
            process.kill()
            process.join()
    return float(rates[len(rates) // 2])


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started now never hear Ctrl-C: it is for us, and we end them."""
    resource_tracker.ensure_running()  # its own start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(addresses: list[tuple[str, int]], datagram: bytes, seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        send = sender.sendto
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(CHUNK):
                for address in addresses:
                    send(datagram, address)


def _receive(told: Connection, size: int) -> None:
    """Count datagrams, from the first until none comes any more."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        receiver.bind(("127.0.0.1", 0))
        told.send(receiver.getsockname()[1])
        receive = receiver.recv
        count = 0
        receive(size)
        began = ended = time.monotonic()
        receiver.settimeout(WAIT_S)
        try:
            while True:
                receive(size)
                count += 1
                if count % CHUNK == 0:
                    ended = time.monotonic()
        except TimeoutError:
            pass
    told.send(count / max(ended - began, 1e-9))
