"""A dialogue on an event loop: bytes are carried, waiting is awaiting. Nothing is decided here.

What is said within one turn of the loop is written at its end, in one go. No task runs. The socket
is read and written as it is, not by a transport of asyncio's: what is read goes to one place and
what is written leaves from where it lies. Large pieces of memory that come and go were an eighth of
a busy client's time.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final, TypeVar, final

from evensong.client.dialogue import Dialogue
from evensong.client.flights import Answer, Wakes
from evensong.client.streams import Stream
from evensong.errors import ConnectionLost
from evensong.ipc.unsent import Unsent

READ_BYTES: Final = 262_144  # at a time
CLOSE_S: Final = 5.0  # how long a daemon may take to say goodbye

Value = TypeVar("Value")


@final
class Link:
    """A dialogue, and the socket that carries it."""

    def __init__(self, dialogue: Dialogue, stream: socket.socket) -> None:
        self.dialogue: Final = dialogue
        self._loop: Final = asyncio.get_running_loop()
        self._socket: Final = stream
        self._read: Final = memoryview(bytearray(READ_BYTES))
        self._unsent: Final = Unsent()
        self._is_flushing = False
        self._is_blocked = False  # the loop says when more can be written
        self._is_closed = False
        self._loop.add_reader(stream, self._on_readable)
        self._flush()

    # -- bytes in ----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        """Take in what has come."""
        try:
            count = self._socket.recv_into(self._read)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(f"the connection broke: {error.strerror or error}")
            return
        if count:
            self._feed(count)
            self.flush_soon()
        else:
            self._lose("the daemon is gone")

    def _feed(self, count: int) -> None:
        """Take in so many bytes; if that fails there is a gap, so nothing may come after it."""
        try:
            self.dialogue.feed(self._read[:count])
        except BaseException as error:
            self._lose(f"the connection broke: {error!r}")
            raise

    def _read_rest(self) -> None:
        """Take in what the daemon said before it went, which a failed write left unread."""
        with suppress(OSError):
            while count := self._socket.recv_into(self._read):
                self._feed(count)

    # -- bytes out ---------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Write what is to be written at the end of this turn of the loop."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        parts = self.dialogue.take_parts()
        if parts and not self._is_closed:
            self._unsent.add(parts)
            if not self._is_blocked:
                self._write()

    def _write(self) -> None:
        try:
            self._unsent.write(self._socket)
        except OSError as error:
            try:
                self._read_rest()
            finally:
                self._lose(f"the connection broke: {error.strerror or error}")
            return
        if self._is_blocked != bool(self._unsent):
            self._is_blocked = bool(self._unsent)
            if self._is_blocked:
                self._loop.add_writer(self._socket, self._write)
            else:
                self._loop.remove_writer(self._socket)

    # -- the end -----------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        """Take in that the connection is gone."""
        self._close_socket()
        self.dialogue.lost(reason)

    def _close_socket(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._unsent.clear()
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
                self._loop.remove_writer(self._socket)
            self._socket.close()

    async def close(self) -> None:
        """Say goodbye, behind all that was sent, and wait for the answer; for a while."""
        try:
            with suppress(TimeoutError, ConnectionLost):
                async with asyncio.timeout(CLOSE_S):
                    await self.answered(self.dialogue.bye())
        finally:
            self.abort()

    def abort(self) -> None:
        """End the connection now."""
        self._lose("the connection was closed by this program")

    # -- waiting -----------------------------------------------------------------------------

    async def until(self, wakes: Wakes) -> None:
        """Wait until called."""
        future: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        wakes.add(wake)
        self.flush_soon()
        try:
            await future
        finally:
            wakes.discard(wake)

    async def answered(self, answer: Answer[Value]) -> Value:
        """Wait for an answer."""
        if not answer.is_done:
            await self.until(answer.wakes)
        return answer.result()

    async def until_more(self, stream: Stream) -> None:
        """Wait until a stream has more; raise what ended it if nothing will come."""
        if stream.is_over:
            if stream.error is not None:
                raise stream.error.with_traceback(None)
            raise StopAsyncIteration
        await self.until(stream.wakes)
