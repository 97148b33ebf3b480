"""The daemons of fake.py behind a real socket, in a thread: for what needs a connection to test."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.client.fake import WINDOW, Cluster, Connection


class Served(asyncio.Protocol):
    """The daemon's end of a connection, on a socket."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.connection = Connection(server.cluster.order[1], server.window)
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        self.server.cluster.programs.append(self)

    def data_received(self, chunk: bytes) -> None:
        if not self.connection.is_over:
            self.connection.feed(chunk)
        self.server.settle()

    def connection_lost(self, error: Exception | None) -> None:
        connection = self.connection
        if connection.session in connection.daemon.groups.sessions.open:
            connection.daemon.groups.close_session(connection.session)
        self.server.cluster.programs.remove(self)
        self.server.settle()

    def move(self) -> bool:
        self.connection.daemon.settle()
        told = self.connection.take_output()
        if told and self.transport is not None:
            self.transport.write(told)
        if self.connection.is_over and self.transport is not None:
            self.transport.close()
        return bool(told)


class Server:
    """One daemon on a socket."""

    def __init__(self, path: Path, window: int = WINDOW) -> None:
        self.path = path
        self.window = window
        self.cluster = Cluster(1)
        self.is_frozen = False  # nothing is ordered, as when the ring has lost its token
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def settle(self) -> None:
        if self.is_frozen:
            for program in self.cluster.programs:
                program.move()
        else:
            self.cluster.settle()

    def _run(self) -> None:
        self._server = self._loop.run_until_complete(
            self._loop.create_unix_server(lambda: Served(self), self.path)
        )
        self._started.set()
        self._loop.run_forever()
        self._loop.close()

    def __enter__(self) -> Self:
        self._started = threading.Event()
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def call(self, what: str) -> None:
        """Do something in the server's thread, and wait for it."""
        done = threading.Event()

        def act() -> None:
            if what == "kill":
                self._server.close()
                for program in list(self.cluster.programs):
                    assert isinstance(program, Served)
                    assert program.transport is not None
                    program.transport.abort()
            else:
                self.is_frozen = what == "freeze"
                self.settle()
            self._loop.call_soon(self._loop.call_soon, done.set)  # aborting takes a turn

        self._loop.call_soon_threadsafe(act)
        assert done.wait(30)

    def kill(self) -> None:
        """Break all connections at once, as the death of a daemon does."""
        self.call("kill")

    def freeze(self) -> None:
        self.call("freeze")

    def thaw(self) -> None:
        self.call("thaw")


@contextmanager
def serving(directory: Path, window: int = WINDOW) -> Iterator[Server]:
    with Server(directory / "client.sock", window) as server:
        yield server
