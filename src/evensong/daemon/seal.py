"""The envelope of every datagram: who sent it, that it is whole, and that it is not a repetition.

Sealing is outermost and happens once a transmission; the same bytes go to all peers. The traffic
key is derived from the cluster's key and from what names the transmitter's life (id, incarnation
and 64 random bits drawn at its start), and the nonce is a counter of that life: no key meets a
nonce twice, even if a state directory was wiped. A retransmission gets a fresh counter.

    magic:2s major:u8 minor:u8 cluster:8s key_id:u16 | transmitter:u32 incarnation:u64 boot:u64
    counter:u64 length:u16 | sealed frame | tag:16s (or crc:u32 on an insecure cluster)

`length` is that of the sealed frame: what follows the tag is padding, so that datagrams of one
burst can be made equally long. The header is authenticated with the frame. docs/wire.md draws it.
"""

import struct
import zlib
from collections import OrderedDict
from hashlib import blake2b
from typing import Final, NamedTuple, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from evensong.core.ids import ProcessorId
from evensong.core.totem.wire import HEADER as FRAME_HEADER

ENVELOPE: Final = struct.Struct("!2sBB8sHIQQQH")
LIFE: Final = struct.Struct("!IQQ")
NONCE: Final = struct.Struct("!IQ")
CRC: Final = struct.Struct("!I")
MAGIC: Final = b"ES"
MAJOR: Final = 1
MINOR: Final = 0
TAG_SIZE: Final = 16
KEY_SIZE: Final = 32
NO_KEY: Final = 0  # the key id of an insecure cluster
LIVES_MAX: Final = 512  # lives of peers that are remembered; the longest silent one is forgotten

OVERHEAD: Final = ENVELOPE.size + TAG_SIZE


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


def _traffic_key(secret: bytes, transmitter: ProcessorId, incarnation: int, boot: int) -> AESGCM:
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

    __slots__ = ("_aead", "_head", "counter", "key", "overhead")

    def __init__(
        self, cluster: str, key: Key | None, transmitter: ProcessorId, incarnation: int, boot: int
    ) -> None:
        key_id = key.key_id if key else NO_KEY
        self.key: Final = key
        self.overhead: Final = ENVELOPE.size + (TAG_SIZE if key else CRC.size)
        life = (transmitter, incarnation, boot)
        self._head: Final = (MAGIC, MAJOR, MINOR, cluster_id(cluster), key_id, *life)
        self._aead: Final = (
            _traffic_key(key.secret, transmitter, incarnation, boot) if key else None
        )
        self.counter = 0

    def seal(self, frame: bytes) -> bytes:
        """Return the datagram that carries a frame; never the same twice."""
        self.counter += 1
        header = ENVELOPE.pack(*self._head, self.counter, len(frame))
        if self._aead is None:
            return header + frame + CRC.pack(zlib.crc32(frame, zlib.crc32(header)))
        return header + self._aead.encrypt(NONCE.pack(0, self.counter), frame, header)


@final
class _Life:
    """What is remembered of one life of a peer: its key and which counters were seen."""

    __slots__ = ("aead", "highest", "seen")

    def __init__(self, aead: AESGCM | None) -> None:
        self.aead: Final = aead
        self.highest = 0
        self.seen = 0  # bit n: the counter n below the highest was seen

    def is_repeated(self, counter: int, window: int) -> bool:
        """Whether this counter was seen, or is too old to tell."""
        below = self.highest - counter
        return below >= 0 and (below >= window or bool(self.seen >> below & 1))

    def note(self, counter: int, window: int) -> None:
        """Remember a counter that has proved genuine."""
        if counter > self.highest:
            self.seen = (self.seen << counter - self.highest | 1) & (1 << window) - 1
            self.highest = counter
        else:
            self.seen |= 1 << self.highest - counter


@final
class Opener:
    """Opens what peers transmit: refuses what is foreign, forged, altered or repeated.

    The replay window is wide because the token shares the counter and overtakes data.
    """

    __slots__ = ("_cluster", "_keys", "_lives", "_window")

    def __init__(self, cluster: str, keys: tuple[Key, ...], window: int) -> None:
        self._cluster: Final = cluster_id(cluster)
        self._keys = {key.key_id: key.secret for key in keys}
        self._lives: Final[OrderedDict[tuple[int, ProcessorId, int, int], _Life]] = OrderedDict()
        self._window: Final = window

    def accept_keys(self, keys: tuple[Key, ...]) -> None:
        """Accept these keys from now on.

        Lives under others are remembered: a key that comes back must not make old datagrams new.
        """
        self._keys = {key.key_id: key.secret for key in keys}

    def lives(self) -> dict[tuple[ProcessorId, int, int], int]:
        """Return the highest counter of each life that was heard: id, incarnation, boot."""
        highest: dict[tuple[ProcessorId, int, int], int] = {}
        for (_, *names), life in self._lives.items():
            transmitter, incarnation, boot = names
            name = (transmitter, incarnation, boot)
            highest[name] = max(highest.get(name, 0), life.highest)
        return highest

    def open(self, datagram: bytes) -> bytes:
        """Return the frame inside, or raise `Refused`."""
        if len(datagram) < ENVELOPE.size + CRC.size:
            raise Refused("truncated")
        magic, major, _minor, cluster, key_id, transmitter, incarnation, boot, counter, length = (
            ENVELOPE.unpack_from(datagram)
        )
        if magic != MAGIC:
            raise Refused("not ours")
        if major != MAJOR:
            raise Refused("version", transmitter)
        if cluster != self._cluster:
            raise Refused("cluster", transmitter)
        is_bare = key_id == NO_KEY
        if is_bare == bool(self._keys):
            raise Refused("unsealed" if is_bare else "sealed", transmitter)
        if not is_bare and key_id not in self._keys:
            raise Refused("key", transmitter)
        end = ENVELOPE.size + length + (CRC.size if is_bare else TAG_SIZE)
        if len(datagram) < end:
            raise Refused("truncated", transmitter)
        name = (key_id, transmitter, incarnation, boot)
        life = self._lives.get(name) or self._meet(key_id, transmitter, incarnation, boot)
        if life.is_repeated(counter, self._window):
            raise Refused("replay", transmitter)
        frame = self._verify(life, datagram, counter, end, transmitter)
        if FRAME_HEADER.unpack_from(frame)[1:] != (transmitter, incarnation):
            raise Refused("frame of another transmitter", transmitter)
        life.note(counter, self._window)
        self._lives[name] = life
        self._lives.move_to_end(name)
        if len(self._lives) > LIVES_MAX:
            self._lives.popitem(last=False)
        return frame

    def _meet(self, key_id: int, transmitter: ProcessorId, incarnation: int, boot: int) -> _Life:
        """Prepare for a life that is not known yet; it is kept only if it proves genuine."""
        if key_id == NO_KEY:
            return _Life(None)
        return _Life(_traffic_key(self._keys[key_id], transmitter, incarnation, boot))

    def _verify(
        self, life: _Life, datagram: bytes, counter: int, end: int, transmitter: ProcessorId
    ) -> bytes:
        header = datagram[: ENVELOPE.size]
        body = datagram[ENVELOPE.size : end]
        if life.aead is None:
            frame = body[: -CRC.size]
            if CRC.unpack(body[-CRC.size :])[0] != zlib.crc32(frame, zlib.crc32(header)):
                raise Refused("altered", transmitter)
        else:
            try:
                frame = life.aead.decrypt(NONCE.pack(0, counter), body, header)
            except InvalidTag:
                raise Refused("altered", transmitter) from None
        if len(frame) < FRAME_HEADER.size:
            raise Refused("truncated", transmitter)
        return frame
