"""Datagrams that no honest daemon sends, thrown at one that runs.

Half of them are sealed with the cluster's key. What is inside is a frame of the running ring, heard
as a peer hears it, and then broken: so that decoding it must fail, or so that it belongs to the
past. The other half never gets that far: noise, forgeries, repetitions, other clusters and keys.
A frame that is whole, of the present and a lie is not among them: whoever has the key can say that
a processor leaves, and is outside the model (docs/guarantees.md).
"""

import socket
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from evensong.core.ids import ProcessorId, RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import CommitToken, Join, MembEntry, RegularToken
from evensong.core.totem.parts import PART_FRAME
from evensong.core.totem.rows import DECODERS
from evensong.daemon.burst import BURST_BYTES_MAX
from evensong.daemon.datagrams import SEGMENT, UDP_SEGMENT
from evensong.daemon.opening import Opener
from evensong.daemon.seal import ENVELOPE, MAJOR, PIECES_AT, Key, Sealer, make_key
from evensong.daemon.settings import DATAGRAM_MAX
from evensong.daemon.sockets import SOL_UDP, can
from evensong.errors import MalformedFrame
from tests.core.totem.hostile import FIELDS, HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURED_MAX: Final = 512


class Life(NamedTuple):
    """A life that the attacker speaks as."""

    node: ProcessorId
    incarnation: int
    boot: int


class Attacker:
    """Sits where a peer should be: hears what the ring broadcasts, has its key, and throws."""

    def __init__(
        self,
        rng: Random,
        key: Key,
        cluster: str,
        heard_at: tuple[str, int],
        victim: tuple[str, int],
    ) -> None:
        self.rng = rng
        self.key = key
        self.cluster = cluster
        self.victim = victim
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(heard_at)
        self.datagrams: list[bytes] = []  # as they were heard
        self.frames: list[bytes] = []  # what was in them
        self.ring_id = RingId(0, 0)
        self.lives: list[Life] = []
        self._opener = Opener(cluster, (key,), 4_096, DATAGRAM_MAX)
        self._sealers: dict[Life, Sealer] = {}
        self._frame = b""  # broken, and sealed last
        self._is_segmenting: Final = can(self.socket, UDP_SEGMENT, 0)
        self._garbage: Final[list[Callable[[], bytes]]] = [
            self._noise,
            self._noise_of_ours,
            self._altered,
            self._repeated,
            self._cut_short,
            self._oversized,
            self._of_another_version,
            self._of_another_cluster,
            self._of_another_key,
            self._unsealed,
            self._of_a_stranger,
            self._for_somebody_else,
        ]

    def close(self) -> None:
        self.socket.close()

    def listen(self) -> None:
        """Take in what the ring has said since."""
        while True:
            try:
                datagram = self.socket.recv(2_048)
            except BlockingIOError:
                break
            self.datagrams.append(datagram)
            is_piece = datagram[PIECES_AT] > 1
            frame = (self._opener.open_piece if is_piece else self._opener.open)(datagram)
            if frame is not None:
                self.frames.append(frame)
        del self.datagrams[:-CAPTURED_MAX], self.frames[:-CAPTURED_MAX]

    def know(self, ring_id: RingId, lives: list[Life]) -> None:
        """Learn which ring is there, and who is in it."""
        self.ring_id = ring_id
        self.lives = lives

    def throw(self, count: int) -> None:
        # Three of a kind at a time: among garbage no run of sealed ones would ever come about.
        draws = [self.sealed if n // 3 % 2 else self.garbage for n in range(count)]
        while draws:
            some = draws[: self.rng.choice((1, 3, 9))]
            del draws[: len(some)]
            self._send([draw() for draw in some])

    def _send(self, datagrams: list[bytes]) -> None:
        """Send them one by one or, if that can be, as one burst that is cut at equal lengths."""
        size = max(map(len, datagrams))
        is_much = size > DATAGRAM_MAX or size * len(datagrams) > BURST_BYTES_MAX
        if len(datagrams) == 1 or is_much or not self._is_segmenting:
            for datagram in datagrams:
                self.socket.sendto(datagram, self.victim)
            return
        burst = b"".join([datagram.ljust(size, b"\0") for datagram in datagrams])
        segment = [(SOL_UDP, UDP_SEGMENT, SEGMENT.pack(size))]
        self.socket.sendmsg([burst], segment, 0, self.victim)

    # Sealed with the right key, and wrong inside

    def sealed(self) -> bytes:
        """Seal a broken frame as somebody who is in the ring, in a life that never was.

        Often it is the same as before: what one life says in a row is taken in together.
        """
        if not self._frame or self.rng.random() < 0.3:
            self._frame = self.broken()
        frame = self._frame
        node, incarnation = wire.HEADER.unpack_from(frame)[1:]
        life = next((one for one in self.lives if one[:2] == (node, incarnation)), None)
        return self._seal(frame, life or Life(node, incarnation, 1))

    def broken(self) -> bytes:
        """Draw a frame that must be refused."""
        while True:
            frame = self._stale() if self.rng.random() < 0.1 else self._mutated()
            if is_speakable(frame) and (self._is_past(frame) or is_malformed(frame)):
                return frame

    def _mutated(self) -> bytes:
        rng = self.rng
        frame = bytearray(rng.choice(self.frames) if rng.random() < 0.5 else self._made_up())
        lot = rng.random()
        if lot < 0.25:
            return bytes(frame[: rng.randrange(wire.HEADER.size, len(frame) + 1)])
        if lot < 0.4:
            return bytes(frame) + rng.randbytes(rng.randrange(1, 40))
        if lot < 0.5:
            frame[0] = rng.randrange(256)
            return bytes(frame)
        if lot < 0.7:
            for _ in range(rng.randrange(1, 4)):
                frame[rng.randrange(wire.HEADER.size, len(frame))] ^= 1 << rng.randrange(8)
            return bytes(frame)
        for _ in range(rng.randrange(1, 4)):
            at, layout = rng.choice(FIELDS[frame[0]])
            if at + layout.size <= len(frame):
                layout.pack_into(frame, at, rng.choice(HOSTILE) % (1 << 8 * layout.size))
        return bytes(frame)

    def _made_up(self) -> bytes:
        """Return a frame of a kind that is not heard by all: tokens, commit tokens, parts."""
        node, incarnation, _ = self.rng.choice(self.lives)
        ring_id = self.ring_id
        members = frozenset(life.node for life in self.lives) | {node}
        entries = [MembEntry(one, True, ring_id, 9, 9, 9, True, members) for one in sorted(members)]
        head = PART_FRAME.pack(wire.PART, node, incarnation, self.rng.randrange(9), 0, 2)
        return self.rng.choice(
            [
                wire.encode_token(RegularToken(ring_id, 5, 9, rtr=[(3, 2)]), node, incarnation),
                wire.encode_commit(CommitToken(ring_id, entries), node, incarnation),
                wire.encode_join(Join(node, incarnation, members, frozenset(), ring_id.seq)),
                wire.encode_leave(ring_id, node, incarnation),
                wire.encode_hold_cancel(ring_id, node, incarnation),
                head + self.rng.randbytes(30),
            ]
        )

    def _stale(self) -> bytes:
        """Return a whole frame that belongs to a ring of the past."""
        node, incarnation, _ = self.rng.choice(self.lives)
        past = RingId(self.rng.randrange(max(1, self.ring_id.seq)), node)
        members = frozenset(life.node for life in self.lives) | {node}
        return self.rng.choice(
            [
                wire.encode_leave(past, node, incarnation),
                wire.encode_token(RegularToken(past, 10_000, 9), node, incarnation),
                wire.encode_join(Join(node, incarnation, members, frozenset(), past.seq)),
                wire.BEACON_FRAME.pack(wire.BEACON, node, incarnation, *past, 3),
            ]
        )

    def _is_past(self, frame: bytes) -> bool:
        """Whether it is whole and of a ring of the past, or a farewell to a ring that is not."""
        if is_malformed(frame):
            return False
        ring_seq_at = 17 if frame[0] in (wire.REGULAR, wire.ROW) else 13
        ring_seq = int.from_bytes(frame[ring_seq_at : ring_seq_at + 8])
        is_farewell = frame[0] == wire.LEAVE
        return ring_seq < self.ring_id.seq or (is_farewell and ring_seq != self.ring_id.seq)

    def _seal(self, frame: bytes, life: Life) -> bytes:
        sealer = self._sealers.get(life)
        if sealer is None:
            # The peer's own boot would make its true datagrams look repeated.
            sealer = Sealer(self.cluster, self.key, *life._replace(boot=life.boot ^ 1))
            self._sealers[life] = sealer
        return sealer.seal(frame)

    # What is refused before anything in it is believed

    def garbage(self) -> bytes:
        return self.rng.choice(self._garbage)()

    def _honest(self) -> bytes:
        return self.rng.choice(self.datagrams)

    def _noise(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(DATAGRAM_MAX))

    def _noise_of_ours(self) -> bytes:
        return self._honest()[: ENVELOPE.size] + self.rng.randbytes(self.rng.randrange(200))

    def _altered(self) -> bytes:
        datagram = bytearray(self._honest())
        datagram[self.rng.randrange(len(datagram))] ^= 1 << self.rng.randrange(8)
        return bytes(datagram)

    def _repeated(self) -> bytes:
        return self._honest()

    def _cut_short(self) -> bytes:
        datagram = self._honest()
        return datagram[: self.rng.randrange(len(datagram))]

    def _oversized(self) -> bytes:
        return self._honest().ljust(DATAGRAM_MAX + self.rng.randrange(1, 5_000), b"\0")

    def _of_another_version(self) -> bytes:
        datagram = bytearray(self._honest())
        datagram[2] = self.rng.choice([v for v in range(256) if v != MAJOR])
        return bytes(datagram)

    def _as_a_peer(self, cluster: str, key: Key | None) -> bytes:
        life = self.rng.choice(self.lives)
        return Sealer(cluster, key, *life).seal(self.rng.choice(self.frames))

    def _of_another_cluster(self) -> bytes:
        return self._as_a_peer("another", self.key)

    def _of_another_key(self) -> bytes:
        return self._as_a_peer(self.cluster, make_key(self.rng.randbytes(32)))

    def _unsealed(self) -> bytes:
        return self._as_a_peer(self.cluster, None)

    def _of_a_stranger(self) -> bytes:
        life = Life(99, self.rng.randrange(1, 99), 7)
        return self._seal(wire.encode_leave(self.ring_id, life.node, life.incarnation), life)

    def _for_somebody_else(self) -> bytes:
        frame = self.rng.choice(self.frames)
        return Sealer(self.cluster, self.key, 98, 1, self.rng.randrange(99)).seal(frame)


def is_speakable(frame: bytes) -> bool:
    """Whether it has a header, so that it can be sealed as its transmitter's."""
    return wire.HEADER.size <= len(frame) <= DATAGRAM_MAX - ENVELOPE.size - 16


def is_malformed(frame: bytes) -> bool:
    """Whether no decoder takes it. A part of which the rest never comes is no frame either."""
    decode = DECODERS.get(frame[0])
    if decode is None:
        return True
    try:
        decode(frame)
    except MalformedFrame:
        return True
    return False
