"""What goes to the other processors: sealed, the token first and behind it all else in one burst.

The next processor works while this one sends. To the others it looks like a network that lets
tokens overtake, and it is as safe.
"""

from typing import Final, final

from evensong.core.effects import Outgoing, Unicast
from evensong.daemon.burst import burst_of, bursts
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.rowsize import ROW_MAX, RowSize, width_of
from evensong.daemon.seal import Sealer
from evensong.daemon.settings import DATAGRAM_MAX


@final
class Transmitter:
    """Keeps what is to be sent until it is told to send it."""

    __slots__ = (
        "_broadcasts",
        "_datagram_size",
        "_datagrams",
        "_unicasts",
        "_width",
        "row_size",
        "sealer",
    )

    def __init__(
        self, sealer: Sealer, datagrams: Datagrams, datagram_size: int, *, has_rows: bool = True
    ) -> None:
        self.sealer = sealer
        self.row_size: Final = RowSize()
        self._datagrams: Final = datagrams
        self._datagram_size: Final = datagram_size
        # Where messages never travel in rows, a packet of many datagrams only loses more at once.
        self._width: Final = width_of(datagram_size) if has_rows else 1
        self._unicasts: Final[list[Unicast]] = []
        self._broadcasts: Final[list[bytes | Outgoing]] = []

    def unicast(self, effect: Unicast) -> None:
        """Keep a frame for one peer."""
        self._unicasts.append(effect)

    def broadcast(self, one: bytes | Outgoing) -> None:
        """Keep a frame, or new messages, for all peers."""
        self._broadcasts.append(one)

    def width(self) -> int:
        """How many datagrams a packet may fill: many while the network keeps all."""
        return self._width if self.row_size.messages_max == ROW_MAX else 1

    def flush(self, now: int) -> None:
        """Send what was kept."""
        if self._unicasts:
            for effect in self._unicasts:
                self._datagrams.unicast(effect.to, self.sealer.seal(effect.datagram))
            self._unicasts.clear()
        if self._broadcasts:
            self._flush_broadcasts(self.row_size.look(now))

    def _flush_broadcasts(self, row_max: int) -> None:
        """Broadcast new messages in rows, the rest frame by frame."""
        sealer, datagrams, size = self.sealer, self._datagrams, self._datagram_size
        frames: list[bytes] = []
        for one in self._broadcasts:
            if isinstance(one, bytes):
                frames.append(one)
            elif row_max == 1:
                frames += one.datagrams()
            else:
                for row in one.rows(row_max, sealer.long_max(size, burst_of(size))):
                    datagrams.broadcast(sealer.seal_long(row, size))
        self._broadcasts.clear()
        if frames:
            self._broadcast_each(frames)

    def _broadcast_each(self, frames: list[bytes]) -> None:
        sealer, datagrams, size = self.sealer, self._datagrams, self._datagram_size
        for frame in frames:
            if len(frame) + sealer.overhead > size:
                datagrams.broadcast(sealer.seal_long(frame, size))
        frames = [frame for frame in frames if len(frame) + sealer.overhead <= size]
        for alike in bursts(frames, sealer.overhead, datagrams.burst_max(), DATAGRAM_MAX):
            datagrams.broadcast(sealer.seal_burst(alike))
