"""A daemon that belongs to one program: for small programs, and for trying things out.

It runs as a process of its own and ends with the program. Within the program, as a thread, it
would share the interpreter: a program that computes for a second would be a second late with the
token, and the others would take it for dead.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self, final

from evensong.errors import BadSettings, CannotStart, ConnectionLost, Unreachable

START_S: Final = 30.0  # how long a daemon may take until it answers
POLL_S: Final = 0.01
LEAVE_S: Final = 10.0  # how long it may take to leave in good order
PEER: Final = struct.Struct("iII")  # pid, uid, gid
LOG_BYTES: Final = 4_096  # of its log, for who wants to know why it did not start


@final
class Node:
    """A daemon, from the beginning to the end of a block; `address` is where to connect.

    Without settings it is a cluster of its own, gone without a trace at the end, of the engine that
    is named; settings say themselves which it is.

    >>> with evensong.Node() as node, evensong.sync.connect(node.address) as es:
    ...     print(es.send("orders", b"buy 5").safe().members)
    (1,)
    """

    def __init__(
        self, config: str | os.PathLike[str] | None = None, *, engine: str | None = None
    ) -> None:
        if config is not None and engine is not None:
            raise BadSettings("engine: is for a daemon without settings; else they name it")
        self._config: Final = None if config is None else Path(config)
        self._engine: Final = engine
        self._stack: Final = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._state = Path()

    @property
    def address(self) -> str:
        """What to give to `connect`."""
        self._started()
        return f"unix://{self._state.absolute()}/client.sock"

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self._started().pid

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise Unreachable("the daemon runs within the block: with evensong.Node() as node")
        return self._process

    def __enter__(self) -> Self:
        from evensong.daemon.settings import load

        with ExitStack() as stack:
            config = self._config
            if config is None:
                directory = Path(stack.enter_context(TemporaryDirectory()))
                config = _settings(directory, self._engine)
            self._state = load(config).state
            log = self._state / "log"
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "evensong.cli.main", "daemon", "--until-eof", config],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,  # Ctrl-C is for the program, which ends the daemon
                )
            stack.callback(self._stop)
            self._wait(log)
            self._stack.push(stack.pop_all())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _wait(self, log: Path) -> None:
        """Wait until the daemon answers."""
        process = self._started()
        until = time.monotonic() + START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > until:
                told = log.read_bytes()[-LOG_BYTES:].decode(errors="replace")
                last = told.strip().splitlines()[-1:] or ["it said nothing"]
                raise CannotStart(f"the daemon does not start: {last[0]}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        """Whether our daemon lets programs in; not another one that has the same settings."""
        from evensong.sync import connect

        try:
            with connect(self.address) as es, socket.socket(fileno=os.dup(es.fileno())) as stream:
                peer = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        except (Unreachable, ConnectionLost):
            return False
        return bool(PEER.unpack(peer)[0] == self.pid)

    def _stop(self) -> None:
        """Let the daemon leave in good order; one that does not is killed."""
        process = self._started()
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _settings(directory: Path, engine: str | None) -> Path:
    """Write the settings of a cluster of one."""
    from evensong.daemon.keys import write_new_key

    write_new_key(directory / "cluster.key")
    (directory / "n1").mkdir()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = directory / "n1.toml"
    config.write_text(
        'cluster = "embedded"\nnode = 1\nstate = "n1"\nkeys = ["cluster.key"]\n'
        + (f"engine = {json.dumps(engine)}\n" if engine is not None else "")
        + f'[peers]\n1 = "127.0.0.1:{port}"\n'
    )
    return config
