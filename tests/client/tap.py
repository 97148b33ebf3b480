"""A tap between a program and its daemon: it carries all, and sees the state of a group pass.

So a test knows which piece of a snapshot has come, and from whom, without asking either side.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from evensong.client.address import open_stream, socket_path
from evensong.client.replica import notes_of
from evensong.core.groups.frame import messages_of
from evensong.core.groups.notes import Chunk, Offer, Place, decode_note
from evensong.core.ids import ProcessorId
from evensong.ipc import frames, wire
from evensong.ipc.splitter import Splitter

if TYPE_CHECKING:
    from evensong.core.groups.events import Destination

READ_BYTES = 2**18


class Passage(NamedTuple):
    """A snapshot, as far as it has passed."""

    donor: ProcessorId
    size: int
    passed: int


class Tap:
    """What has passed."""

    def __init__(self, on_piece: Callable[[Passage], None]) -> None:
        self.address = ""
        self.passages: dict[Place, Passage] = {}
        self._on_piece = on_piece
        self._splitter = Splitter(2**30)
        self._destinations: dict[int, Destination] = {}

    def see(self, said: bytes) -> None:
        """Look at what the daemon says."""
        for frame in self._splitter.feed(said):
            if frame.opcode in (frames.DELIVER, frames.DESTINATION):
                told = wire.decode_told(frame)
                if isinstance(told, frames.Destined):
                    self._destinations[told.number] = told.destination
                elif isinstance(told, frames.Deliver):
                    self._look_into(told)

    def _look_into(self, told: frames.Deliver) -> None:
        destination = self._destinations[told.number]
        if told.is_own or not notes_of(destination.groups):
            return
        for message in messages_of(told.frame):
            note = decode_note(message)
            if isinstance(note, Offer):
                self.passages[note.place] = Passage(destination.sender.daemon, note.size, 0)
            elif isinstance(note, Chunk) and note.place in self.passages:
                before = self.passages[note.place]
                passage = before._replace(passed=before.passed + len(note.piece))
                self.passages[note.place] = passage
                self._on_piece(passage)


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, see: Callable[[bytes], None]
) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(READ_BYTES):
            see(chunk)
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def tapped(state: Path, on_piece: Callable[[Passage], None]) -> AsyncIterator[Tap]:
    """Open a tap, for one program, before the daemon with this state directory."""
    tap = Tap(on_piece)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = open_stream(socket_path(state))
        theirs, ours = await asyncio.open_unix_connection(sock=behind)
        await asyncio.gather(
            _carry(reader, ours, lambda said: None), _carry(theirs, writer, tap.see)
        )

    with TemporaryDirectory() as directory:  # of a test it may be longer than an address can be
        tap.address = f"{directory}/{frames.CLIENT_SOCKET}"
        async with await asyncio.start_unix_server(serve, tap.address):
            yield tap
