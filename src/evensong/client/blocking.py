"""A dialogue on a plain socket, for programs without an event loop: waiting is blocking.

There is no thread: bytes move while the program waits for something, and what it sends is written
at once, as far as the socket takes it. While it waits it also reads, so that a daemon which waits
for the program to read is never waited for in turn.
"""

import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, final

from evensong.client.address import WELCOME_S, open_stream
from evensong.client.dialogue import Dialogue
from evensong.client.flights import Answer
from evensong.errors import ConnectionLost, Unreachable
from evensong.ipc.unsent import Unsent

CHUNK: Final = 256 * 1_024  # bytes read in one go
CLOSE_S: Final = 5.0  # how long a daemon may take to say goodbye
# How long it waits in one go. A signal that comes between Python's last look and the wait, as
# Ctrl-C may, is answered only when the wait is over.
WAIT_MS: Final = 1_000

Value = TypeVar("Value")


@final
class Patience:
    """How long a call waits: all in all, however often it is woken."""

    __slots__ = ("_deadline", "timeout")

    def __init__(self, timeout: float | None) -> None:
        self.timeout: Final = timeout  # seconds; None: for ever
        self._deadline: Final = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Return how many seconds are left, never less than none."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())


FOREVER: Final = Patience(None)


@final
class Line:
    """A dialogue, and the socket that carries it."""

    __slots__ = ("_poll", "_read_into", "_socket", "_unsent", "dialogue")

    def __init__(self, path: str, name: str) -> None:
        self.dialogue: Final = Dialogue(name)
        self._unsent: Final = Unsent()
        self._read_into: Final = memoryview(bytearray(CHUNK))
        self._poll: Final = select.poll()
        self._socket: Final = open_stream(path)
        try:
            self.answered(self.dialogue.welcome, WELCOME_S)
        except ConnectionLost as error:
            self._socket.close()
            raise Unreachable(f"{path}: {error}") from None
        except TimeoutError:
            self.abort()
            raise Unreachable(f"{path}: the daemon does not answer") from None
        except BaseException:
            self.abort()
            raise

    def fileno(self) -> int:
        """Return the socket's number: readable when there may be something to take."""
        return self._socket.fileno()

    # -- waiting -----------------------------------------------------------------------------

    def until(self, holds: Callable[[], bool], patience: Patience = FOREVER) -> None:
        """Move bytes until something holds; raise `TimeoutError` if it does not in time.

        What is there is read in any case, also by who does not want to wait.
        """
        self.flush()
        while not holds():
            left = patience.left()
            self._move(left)
            if left == 0 and not holds():
                raise TimeoutError(f"nothing came of it within {patience.timeout:g} s")

    def answered(self, answer: Answer[Value], timeout: float | None = None) -> Value:
        """Wait for an answer."""
        self.until(lambda: answer.is_done, Patience(timeout))
        return answer.result()

    # -- bytes -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what is to be written, as far as the socket takes it."""
        self._unsent.add(self.dialogue.take_parts())
        try:
            self._unsent.write(self._socket)
        except OSError:
            self._unsent.clear()  # reading tells why, after what is still to be read

    def _move(self, timeout: float | None) -> None:
        """Wait until bytes can move, move them, and answer what came."""
        wanted = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._poll.register(self._socket, wanted)
        asked = WAIT_MS if timeout is None else min(WAIT_MS, 1_000 * timeout)
        events = self._poll.poll(asked)
        if events and events[0][1] & ~select.POLLOUT:
            self._read()
        self.flush()

    def _read(self) -> None:
        try:
            count = self._socket.recv_into(self._read_into)
        except BlockingIOError:
            return
        except OSError as error:
            self.dialogue.lost(f"the connection broke: {error.strerror or error}")
            return
        if count:
            self.dialogue.feed(self._read_into[:count])
        else:
            self.dialogue.lost("the daemon is gone")

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Say goodbye, behind all that was sent, and wait for the answer; for a while."""
        try:
            with suppress(TimeoutError, ConnectionLost):
                self.answered(self.dialogue.bye(), CLOSE_S)
        finally:
            self.abort()

    def abort(self) -> None:
        """End the connection now."""
        self._socket.close()
        self.dialogue.lost("the connection was closed by this program")
