"""A dialogue on an event loop: bytes are carried, waiting is awaiting. Nothing is decided here.

What is said within one turn of the loop is written at its end, in one go. No task runs.
"""

import asyncio
import os
from contextlib import suppress
from typing import Final, TypeVar, final

from evensong.client.dialogue import Dialogue
from evensong.client.flights import Answer, Wakes
from evensong.client.streams import Stream
from evensong.errors import ConnectionLost

READ_BYTES: Final = 65_536
CLOSE_S: Final = 5.0  # how long a daemon may take to say goodbye

Value = TypeVar("Value")


@final
class Link(asyncio.Protocol):
    """A dialogue, and the transport that carries it."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue: Final = dialogue
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._is_flushing = False

    # -- what the loop calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to write."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._flush()

    def data_received(self, chunk: bytes) -> None:
        """Take in what was read."""
        self.dialogue.feed(chunk)
        self.flush_soon()

    def connection_lost(self, error: Exception | None) -> None:
        """Take in that the connection is gone."""
        if error is not None:
            self._read_rest()
        self.dialogue.lost(f"the connection broke: {error}" if error else "the daemon is gone")

    def _read_rest(self) -> None:
        """Take in what the daemon said before it went, which a failed write left unread."""
        assert self._transport is not None
        stream = self._transport.get_extra_info("socket")
        with suppress(OSError):
            while chunk := os.read(stream.fileno(), READ_BYTES):
                self.dialogue.feed(chunk)

    # -- bytes out ---------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Write what is to be written at the end of this turn of the loop."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        output = self.dialogue.take_output()
        if output and self._transport is not None and not self._transport.is_closing():
            self._transport.write(output)

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
        if self._transport is not None:
            self._transport.abort()
        self.dialogue.lost("the connection was closed by this program")

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
