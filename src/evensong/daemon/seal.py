"""The envelope of every datagram: who sent it, that it is whole, and that it is not a repetition.

Sealing is outermost and happens once a transmission; the same bytes go to all peers. The traffic
key is derived from the cluster's key and from what names the transmitter's life (id, incarnation
and 64 random bits drawn at its start), and the nonce is a counter of that life: no key meets a
nonce twice, even if a state directory was wiped. A retransmission gets a fresh counter.

    magic:2s major:u8 minor:u8 cluster:8s key_id:u16 | transmitter:u32 incarnation:u64 boot:u64
    counter:u64 length:u16 piece:u8 pieces:u8 | sealed frame | tag:16s (on an insecure cluster in
    the clear and without a tag)

`length` is that of the sealed frame: what follows the tag is padding, so that datagrams of one
burst can be made equally long. The header is authenticated with the frame. A long frame is sealed
as one and then cut: each piece has a header with a counter of its own, and the first one's seals.
docs/wire.md draws it.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, repeat
from operator import add, itemgetter
from typing import Final, NamedTuple, final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from evensong.core.ids import ProcessorId
from evensong.daemon.burst import Burst

ENVELOPE: Final = struct.Struct("!2sBB8sHIQQQHBB")
NAME: Final = struct.Struct("!2sBB8sHIQQ")  # what is the same in all envelopes of a life
COUNTER: Final = struct.Struct("!QHBB")
LIFE: Final = struct.Struct("!IQQ")
NONCE: Final = struct.Struct("!4xQ")  # of a counter
MAGIC: Final = b"ES"
MAJOR: Final = 2
MINOR: Final = 0
TAG_SIZE: Final = 16
KEY_SIZE: Final = 32
NO_KEY: Final = 0  # the key id of an insecure cluster
PIECES_MAX: Final = 64  # of a frame

OVERHEAD: Final = ENVELOPE.size + TAG_SIZE
WHO_AT: Final = 1  # where a frame has it
# Looked up once for each datagram otherwise.
HEAD_SIZE: Final = ENVELOPE.size
NAME_SIZE: Final = NAME.size
pack_counter: Final = COUNTER.pack
unpack_counter: Final = COUNTER.unpack_from
pack_nonce: Final = NONCE.pack
WHO_SIZE: Final = LIFE.size - 8
NAME_OF: Final = itemgetter(slice(NAME_SIZE))  # of a datagram
PIECE_AT: Final = HEAD_SIZE - 2  # of a datagram: which piece it is,
PIECES_AT: Final = HEAD_SIZE - 1  # and of how many


def pieces_of(datagram: bytes) -> int:
    """Return how many pieces there are of the frame in it; 1 if it is too short to say."""
    return datagram[PIECES_AT] if len(datagram) > PIECES_AT else 1


class Key(NamedTuple):
    """A cluster key and the short name by which envelopes refer to it."""

    key_id: int
    secret: bytes


def make_key(secret: bytes) -> Key:
    """Name a secret of 32 bytes; the name tells nothing of it."""
    assert len(secret) == KEY_SIZE
    named = int.from_bytes(blake2b(secret, digest_size=2, person=b"evensong-key-id").digest())
    return Key(named or 1, secret)


def cluster_id(name: str) -> bytes:
    """Return the eight bytes that stand for a cluster's name in every datagram."""
    return blake2b(name.encode(), digest_size=8, person=b"evensong-cluster").digest()


def traffic_key(secret: bytes, transmitter: ProcessorId, incarnation: int, boot: int) -> AESGCM:
    """Derive the key of one life from the cluster's."""
    info = b"evensong traffic" + LIFE.pack(transmitter, incarnation, boot)
    return AESGCM(HKDF(SHA256(), KEY_SIZE, salt=None, info=info).derive(secret))


class Refused(Exception):
    """A datagram that is dropped, and the reason under which it is counted."""

    def __init__(self, reason: str, transmitter: ProcessorId = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transmitter = transmitter  # as claimed; 0 if not even that could be read


@final
class Sealer:
    """Seals what this life transmits."""

    __slots__ = ("_aead", "counter", "key", "name", "overhead")

    def __init__(
        self, cluster: str, key: Key | None, transmitter: ProcessorId, incarnation: int, boot: int
    ) -> None:
        key_id = key.key_id if key else NO_KEY
        self.key: Final = key
        self.overhead: Final = ENVELOPE.size + (TAG_SIZE if key else 0)
        life = (transmitter, incarnation, boot)
        self.name: Final = NAME.pack(MAGIC, MAJOR, MINOR, cluster_id(cluster), key_id, *life)
        self._aead: Final = traffic_key(key.secret, *life) if key else None
        self.counter = 0

    def seal(self, frame: bytes) -> bytes:
        """Return the datagram that carries a frame; never the same twice."""
        self.counter += 1
        header = self.name + pack_counter(self.counter, len(frame), 0, 1)
        if self._aead is None:
            return header + frame
        return header + self._aead.encrypt(pack_nonce(self.counter), frame, header)

    def seal_burst(self, frames: Sequence[bytes]) -> Burst:
        """Return the datagrams that carry frames: `seal` for all at once.

        None may be longer than the first; shorter ones are padded, but for the last.
        """
        first = self.counter + 1
        self.counter += len(frames)
        counters = range(first, first + len(frames))
        lengths = [*map(len, frames)]
        said = map(pack_counter, counters, lengths, repeat(0), repeat(1))
        headers = [*map(self.name.__add__, said)]
        if self._aead is not None:
            frames = [*map(self._aead.encrypt, map(pack_nonce, counters), frames, headers)]
        size = lengths[0] + self.overhead
        if lengths.count(lengths[0]) == len(lengths):
            return Burst(b"".join(chain.from_iterable(zip(headers, frames, strict=True))), size)
        padded = [one.ljust(size, b"\0") for one in map(add, headers[:-1], frames)]
        return Burst(b"".join([*padded, headers[-1], frames[-1]]), size)

    def seal_long(self, frame: bytes, size: int) -> Burst:
        """Return the datagrams, of so many bytes, that carry one frame in pieces."""
        room = size - HEAD_SIZE
        length = len(frame)
        pieces = -(-(length + self.overhead - HEAD_SIZE) // room)
        if pieces == 1:
            datagram = self.seal(frame)
            return Burst(datagram, len(datagram))
        assert pieces <= PIECES_MAX
        first = self.counter + 1
        self.counter += pieces
        counters = range(first, first + pieces)
        said = map(pack_counter, counters, repeat(length), range(pieces), repeat(pieces))
        headers = [*map(self.name.__add__, said)]
        if self._aead is not None:
            frame = self._aead.encrypt(pack_nonce(first), frame, headers[0])
        bodies = _cut(room, len(frame)).unpack(frame)
        return Burst(b"".join(chain.from_iterable(zip(headers, bodies, strict=True))), size)

    def long_max(self, size: int, pieces: int) -> int:
        """How long a frame may be that so many datagrams of this size carry."""
        return pieces * (size - HEAD_SIZE) - (self.overhead - HEAD_SIZE)


@lru_cache(maxsize=256)  # rows are of a few lengths, over and over
def _cut(room: int, length: int) -> struct.Struct:
    """Return what cuts so many bytes into pieces of at most `room`."""
    return struct.Struct(
        f"{room}s" * (length // room) + (f"{length % room}s" if length % room else "")
    )
