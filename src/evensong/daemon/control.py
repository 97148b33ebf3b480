"""The control socket: one JSON line a request, one JSON line an answer.

It lies in the state directory, so whoever may enter that directory may ask. Lines, connections and
answers that wait are bounded; what cannot be understood is answered by an error. An answer may come
later: the connection's next request waits for it, the loop does not.
"""

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, final

from evensong.daemon.watch import OVER, READ, WRITE, Watch
from evensong.errors import BadRequest, CannotStart, Unreachable

SOCKET_NAME: Final = "control.sock"
LINE_MAX: Final = 1024 * 1024
ANSWER_MAX: Final = 16 * 1024 * 1024
CONNECTIONS_MAX: Final = 32
READ_BYTES: Final = 65_536
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

    def __init__(self, state: Path, watch: Watch, answer: Answering) -> None:
        self._watch: Final = watch
        self._answer: Final = answer
        self._path: Final = state / SOCKET_NAME
        self._connections: Final[set[_Connection]] = set()
        self._listening: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path.unlink(missing_ok=True)  # of an earlier life: the state directory is locked
        directory = os.open(state, os.O_PATH)
        try:
            self._listening.bind(_short(directory))
            self._path.chmod(0o600)
        except OSError as error:
            self._listening.close()
            raise CannotStart(f"state: {self._path}: {error.strerror}") from None
        finally:
            os.close(directory)
        self._listening.listen(CONNECTIONS_MAX)
        self._listening.setblocking(False)
        watch.add(self._listening.fileno(), self._on_connection)

    def _on_connection(self, _events: int) -> None:
        with suppress(OSError):  # it went away again
            accepted, _ = self._listening.accept()
            accepted.setblocking(False)
            connection = _Connection(accepted, self._watch, self._answer, self._connections)
            if len(self._connections) > CONNECTIONS_MAX:
                connection.refuse("too many connections")

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
    ) -> None:
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
        self._inward.extend(chunk)
        self._take_lines()

    def _take_lines(self) -> None:
        """Answer whole lines, one at a time: the next waits until its predecessor is written."""
        while self in self._connections and not self._outward and not self._is_later:
            line, newline, rest = self._inward.partition(b"\n")
            if not newline:
                if len(self._inward) > LINE_MAX:
                    self.refuse(f"a request has at most {LINE_MAX} bytes")
                return
            self._inward[:] = rest
            answer = _answered(bytes(line), self._answer)
            if isinstance(answer, Later):
                self._is_later = True
                self._watch.change(self._stream.fileno(), NOTHING)
                answer.then(self._give)
            else:
                self._write(answer)

    def _give(self, answer: Answer) -> None:
        """Write what had to wait. The next request is looked at in a turn of its own."""
        if self not in self._connections:
            return
        self._is_later = False
        self._outward.extend(_line(answer))
        self._push()
        if self in self._connections and self._inward:
            self._watch.change(self._stream.fileno(), WRITE)

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
        if self._inward:
            self._take_lines()

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
        if self._outward:
            self._watch.change(self._stream.fileno(), WRITE)
        elif self._is_last:
            self.close()
        else:
            self._watch.change(self._stream.fileno(), READ)

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


def ask(state: Path, request: Request, timeout_s: float = 5.0) -> Answer:
    """Ask the daemon of a state directory; raise `BadRequest` if it refuses."""
    try:
        directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise Unreachable(f"{state}: {error.strerror}") from None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(timeout_s)
            stream.connect(_short(directory))
            stream.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_one_line(stream))
    except TimeoutError:
        raise Unreachable(f"{state}: its daemon does not answer") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise Unreachable(f"{state}: no daemon runs there") from None
    except OSError as error:
        raise Unreachable(f"{state}: {error.strerror or error}") from None
    except ValueError:
        raise Unreachable(f"{state}: what answers there is no daemon") from None
    finally:
        os.close(directory)
    if not isinstance(answer, dict) or not answer.pop("ok", False):
        raise BadRequest(str(answer.get("error") if isinstance(answer, dict) else answer))
    return answer


def is_listening(state: Path) -> bool:
    """Whether a daemon of that state directory runs, be it busy or suspended."""
    try:
        directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.setblocking(False)
            stream.connect(_short(directory))
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


def _short(directory: int) -> str:
    """Return a name of the socket that fits: a socket's path has at most 107 bytes."""
    return f"/proc/self/fd/{directory}/{SOCKET_NAME}"
