"""The control socket: one JSON line a request, one JSON line an answer.

It lies in the state directory, so whoever may enter that directory may ask. Lines, connections and
answers that wait are bounded; what cannot be understood is answered by an error. An answer may come
later: the connection's next request waits for it, the loop does not.
"""

import errno
import json
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias, final

from evensong.daemon.local_socket import listen, short_name
from evensong.daemon.watch import OVER, READ, WRITE, Watch
from evensong.errors import BadRequest, Unreachable

SOCKET_NAME: Final = "control.sock"
LINE_MAX: Final = 1024 * 1024
ANSWER_MAX: Final = 16 * 1024 * 1024
CONNECTIONS_MAX: Final = 32
READ_BYTES: Final = 65_536
IDLE_S: Final = 10.0  # who is silent for longer makes room when there is none
EXHAUSTED: Final = frozenset([errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
NOTHING: Final = 0  # no events but the end of a connection

Request: TypeAlias = Mapping[str, object]
Answer: TypeAlias = dict[str, object]


@final
class Later:
    """An answer that is given later: once, with `"ok"` in it."""

    __slots__ = ("_answer", "_tell")

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._tell: Callable[[Answer], None] | None = None

    def then(self, tell: Callable[[Answer], None]) -> None:
        """Say whom to give it to; at once if it is there."""
        self._tell = tell
        if self._answer is not None:
            tell(self._answer)

    def give(self, answer: Answer) -> None:
        """Give it. Nothing but the writing is done now, whatever the asker asks next."""
        self._answer = answer
        if self._tell is not None:
            self._tell(answer)


Answering: TypeAlias = Callable[[Request], Answer | Later]


@final
class ControlServer:
    """Listens in the state directory and answers by a given function."""

    def __init__(
        self,
        state: Path,
        watch: Watch,
        answer: Answering,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds: Final = seconds
        self._is_paused = False  # no descriptor is left for another connection
        self._watch: Final = watch
        self._answer: Final = answer
        self._path: Final = state / SOCKET_NAME
        self._connections: Final[set[_Connection]] = set()
        self._listening: Final = listen(state, SOCKET_NAME, 0o600, CONNECTIONS_MAX)
        watch.add(self._listening.fileno(), self._on_connection)

    def _on_connection(self, _events: int) -> None:
        try:
            accepted, _ = self._listening.accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._is_paused = True
                self._watch.change(self._listening.fileno(), NOTHING)
            return  # else it went away again
        accepted.setblocking(False)
        if len(self._connections) >= CONNECTIONS_MAX:
            self._close_an_idle_one()
        is_one_too_many = len(self._connections) >= CONNECTIONS_MAX
        connection = _Connection(
            accepted, self._watch, self._answer, self._connections, self._seconds
        )
        if is_one_too_many:
            connection.refuse("too many connections")

    def _close_an_idle_one(self) -> None:
        """Hang up on who has been silent longest, if that is long."""
        idle = min(self._connections, key=lambda one: one.heard_at)
        if self._seconds() - idle.heard_at >= IDLE_S:
            idle.close()

    def tend(self, _now: int) -> None:
        """Try again to take connections in. A chore."""
        if self._is_paused:
            self._is_paused = False
            self._watch.change(self._listening.fileno(), READ)

    def close(self) -> None:
        """Hang up, and take the socket's name away."""
        for connection in list(self._connections):
            connection.close()
        self._watch.remove(self._listening.fileno())
        self._listening.close()
        self._path.unlink(missing_ok=True)


@final
class _Connection:
    def __init__(
        self,
        stream: socket.socket,
        watch: Watch,
        answer: Answering,
        connections: "set[_Connection]",
        seconds: Callable[[], float],
    ) -> None:
        self._seconds: Final = seconds
        self.heard_at = seconds()
        self._stream: Final = stream
        self._watch: Final = watch
        self._answer: Final = answer
        self._connections: Final = connections
        self._inward: Final = bytearray()
        self._outward: Final = bytearray()
        self._is_last = False  # hang up once the answer is written
        self._is_later = False  # an answer is to come
        connections.add(self)
        watch.add(stream.fileno(), self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        elif events & (READ | OVER):
            self._read()

    def _read(self) -> None:
        try:
            chunk = self._stream.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        self.heard_at = self._seconds()
        self._inward.extend(chunk)
        self._take_line()

    def _take_line(self) -> None:
        """Answer one line: the next waits for a turn of its own, and until this one is written."""
        if self._outward or self._is_later or self._is_last:
            return
        line, newline, rest = self._inward.partition(b"\n")
        if newline:
            self._inward[:] = rest
            answer = _answered(bytes(line), self._answer)
            if isinstance(answer, Later):
                self._is_later = True
                self.heard_at = math.inf  # it is not idle, it waits
                self._wait()
                answer.then(self._give)
            else:
                self._write(answer)
        elif len(self._inward) > LINE_MAX:
            self.refuse(f"a request has at most {LINE_MAX} bytes")
        else:
            self._wait()

    def _give(self, answer: Answer) -> None:
        """Write what had to wait. The next request is looked at in a turn of its own."""
        if self in self._connections:
            self._is_later = False
            self.heard_at = self._seconds()
            self._write(answer)

    def refuse(self, error: str) -> None:
        """Say what is wrong, and hang up."""
        self._is_last = True
        self._inward.clear()
        self._write({"ok": False, "error": error})

    def _write(self, answer: Answer) -> None:
        self._outward.extend(_line(answer))
        self._push()

    def _flush(self) -> None:
        self._push()
        if self in self._connections:
            self._take_line()

    def _push(self) -> None:
        """Write what can be written, and wait for what may come next."""
        try:
            written = self._stream.send(self._outward)
        except BlockingIOError:
            written = 0
        except OSError:
            self.close()
            return
        del self._outward[:written]
        if self._is_last and not self._outward:
            self.close()
        else:
            self._wait()

    def _wait(self) -> None:
        """Be called again when there is something to do; a line that is here waits for a turn."""
        if self._is_later:
            events = NOTHING
        elif self._outward or b"\n" in self._inward:
            events = WRITE
        else:
            events = READ
        self._watch.change(self._stream.fileno(), events)

    def close(self) -> None:
        """Hang up."""
        if self in self._connections:
            self._connections.remove(self)
            self._watch.remove(self._stream.fileno())
            self._stream.close()


def _line(answer: Answer) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _answered(line: bytes, answering: Answering) -> Answer | Later:
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise BadRequest("a request is a JSON object")
        answer = answering(request)
        return answer if isinstance(answer, Later) else {"ok": True, **answer}
    except BadRequest as bad:
        return {"ok": False, "error": str(bad)}
    except (ValueError, RecursionError):
        return {"ok": False, "error": "a request is one line of JSON"}


@final
class Conversation:
    """A connection to the daemon of a state directory, for one request after the other."""

    def __init__(self, state: Path, timeout_s: float = 5.0) -> None:
        self._state: Final = state
        self._stream: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._stream.settimeout(timeout_s)
        try:
            directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
            try:
                self._stream.connect(short_name(directory, SOCKET_NAME))
            finally:
                os.close(directory)
        except OSError as error:
            self._stream.close()
            raise self._unreachable(error) from None

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request; raise `BadRequest` if the daemon refuses it."""
        try:
            self._stream.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_one_line(self._stream))
        except OSError as error:
            raise self._unreachable(error) from None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            raise Unreachable(f"{self._state}: what answers there is no daemon")
        if not answer.pop("ok"):
            why = str(answer.get("error", "refused"))
            raise BadRequest("".join(letter for letter in why if letter.isprintable()))
        return answer

    def close(self) -> None:
        """Hang up."""
        self._stream.close()

    def _unreachable(self, error: OSError) -> Unreachable:
        if isinstance(error, TimeoutError):
            why = "its daemon does not answer"
        elif isinstance(error, FileNotFoundError | ConnectionRefusedError) and self._state.is_dir():
            why = "no daemon runs there"
        else:
            why = error.strerror or str(error)
        return Unreachable(f"{self._state}: {why}")


def ask(state: Path, request: Request, timeout_s: float = 5.0) -> Answer:
    """Ask the daemon of a state directory once; raise `BadRequest` if it refuses."""
    with closing(Conversation(state, timeout_s)) as conversation:
        return conversation.ask(request)


def is_listening(state: Path) -> bool:
    """Whether a daemon of that state directory runs, be it busy or suspended."""
    try:
        directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.setblocking(False)
            stream.connect(short_name(directory, SOCKET_NAME))
    except BlockingIOError:
        return True  # its queue of connections is full
    except OSError:
        return False
    finally:
        os.close(directory)
    return True


def _one_line(stream: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = stream.recv(READ_BYTES)
        if not chunk:
            raise ConnectionResetError("the daemon hung up")
        line += chunk
        if len(line) > ANSWER_MAX:
            raise ValueError("too long an answer")
    return bytes(line)
