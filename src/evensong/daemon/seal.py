"""The envelope of every datagram: who sent it, that it is whole, and that it is not a repetition.

Sealing is outermost and happens once a transmission; the same bytes go to all peers. The traffic
key is derived from the cluster's key and from what names the transmitter's life (id, incarnation
and 64 random bits drawn at its start), and the nonce is a counter of that life: no key meets a
nonce twice, even if a state directory was wiped. A retransmission gets a fresh counter.

    magic:2s major:u8 minor:u8 cluster:8s key_id:u16 | transmitter:u32 incarnation:u64 boot:u64
    counter:u64 length:u16 | sealed frame | tag:16s (neither seal nor tag on an insecure cluster)

`length` is that of the sealed frame: what follows the tag is padding, so that datagrams of one
burst can be made equally long. The header is authenticated with the frame. docs/wire.md draws it.
"""

import struct
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from operator import add, getitem, itemgetter
from typing import Final, NamedTuple, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from evensong.core.ids import ProcessorId
from evensong.core.run import Run
from evensong.daemon.burst import Burst

ENVELOPE: Final = struct.Struct("!2sBB8sHIQQQH")
NAME: Final = struct.Struct("!2sBB8sHIQQ")  # what is the same in all envelopes of a life
COUNTER: Final = struct.Struct("!QH")
LIFE: Final = struct.Struct("!IQQ")
WHO: Final = slice(NAME.size - LIFE.size, NAME.size - 8)  # transmitter and incarnation
NONCE: Final = struct.Struct("!4xQ")  # of a counter
MAGIC: Final = b"ES"
MAJOR: Final = 1
MINOR: Final = 0
TAG_SIZE: Final = 16
KEY_SIZE: Final = 32
NO_KEY: Final = 0  # the key id of an insecure cluster
STRANGERS_MAX: Final = 32  # lives not known yet that are looked at in one turn of the loop
LIVES_MAX: Final = 512  # lives of peers that are remembered; the longest silent one is forgotten

OVERHEAD: Final = ENVELOPE.size + TAG_SIZE
WHO_AT: Final = 1  # where a frame has it
# Looked up once for each datagram otherwise.
HEAD_SIZE: Final = ENVELOPE.size
NAME_SIZE: Final = NAME.size
pack_counter: Final = COUNTER.pack
unpack_counter: Final = COUNTER.unpack_from
pack_nonce: Final = NONCE.pack
WHO_SIZE: Final = LIFE.size - 8
FRAME_AT: Final = HEAD_SIZE + WHO_AT + WHO_SIZE  # what a frame says after who sent it
WHO_OF: Final = itemgetter(slice(WHO_AT, WHO_AT + WHO_SIZE))  # of a frame
NAME_OF: Final = itemgetter(slice(NAME_SIZE))  # of a datagram


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

    __slots__ = ("_aead", "counter", "key", "name", "overhead")

    def __init__(
        self, cluster: str, key: Key | None, transmitter: ProcessorId, incarnation: int, boot: int
    ) -> None:
        key_id = key.key_id if key else NO_KEY
        self.key: Final = key
        self.overhead: Final = ENVELOPE.size + (TAG_SIZE if key else 0)
        life = (transmitter, incarnation, boot)
        self.name: Final = NAME.pack(MAGIC, MAJOR, MINOR, cluster_id(cluster), key_id, *life)
        self._aead: Final = _traffic_key(key.secret, *life) if key else None
        self.counter = 0

    def seal(self, frame: bytes) -> bytes:
        """Return the datagram that carries a frame; never the same twice."""
        self.counter += 1
        header = self.name + pack_counter(self.counter, len(frame))
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
        headers = [*map(self.name.__add__, map(pack_counter, counters, lengths))]
        if self._aead is not None:
            frames = [*map(self._aead.encrypt, map(pack_nonce, counters), frames, headers)]
        size = lengths[0] + self.overhead
        if lengths.count(lengths[0]) == len(lengths):
            return Burst(b"".join(chain.from_iterable(zip(headers, frames, strict=True))), size)
        padded = [one.ljust(size, b"\0") for one in map(add, headers[:-1], frames)]
        return Burst(b"".join([*padded, headers[-1], frames[-1]]), size)


@final
class _Life:
    """What is remembered of one life of a peer: its key and which counters were seen."""

    __slots__ = ("aead", "highest", "key_id", "missing", "transmitter", "who")

    def __init__(
        self, key_id: int, transmitter: ProcessorId, who: bytes, aead: AESGCM | None
    ) -> None:
        self.key_id: Final = key_id
        self.transmitter: Final = transmitter
        self.who: Final = who  # transmitter and incarnation as frames have them
        self.aead: Final = aead
        self.highest = 0
        self.missing: set[int] = set()  # counters below the highest that were not seen

    def is_repeated(self, counter: int, window: int) -> bool:
        """Whether this counter was seen, or is too old to tell."""
        return counter not in self.missing or self.highest - counter >= window

    def skip_to(self, counter: int, window: int) -> None:
        """Remember a genuine counter that is not the next one."""
        if counter < self.highest:
            self.missing.discard(counter)
            return
        oldest = counter - window + 1
        self.missing.update(range(max(self.highest + 1, oldest), counter))
        self.highest = counter
        if len(self.missing) > 2 * window:
            self.missing = {one for one in self.missing if one >= oldest}


@final
class Opener:
    """Opens what peers transmit: refuses what is foreign, forged, altered or repeated.

    The replay window is wide because the token shares the counter and overtakes data.
    """

    __slots__ = (
        "_asleep",
        "_cluster",
        "_keys",
        "_latest",
        "_lives",
        "_size_max",
        "_strangers_left",
        "_window",
    )

    def __init__(self, cluster: str, keys: tuple[Key, ...], window: int, size_max: int) -> None:
        self._cluster: Final = cluster_id(cluster)
        self._keys = {key.key_id: key.secret for key in keys}
        self._lives: Final[OrderedDict[bytes, _Life]] = OrderedDict()  # the latest speaker last
        self._asleep: Final[dict[bytes, _Life]] = {}  # under keys that are not accepted now
        self._latest: _Life | None = None
        self._window: Final = window
        self._size_max: Final = size_max
        self._strangers_left = STRANGERS_MAX

    def accept_keys(self, keys: tuple[Key, ...]) -> None:
        """Accept these keys from now on.

        Lives under others are remembered: a key that comes back must not make old datagrams new.
        """
        self._keys = {key.key_id: key.secret for key in keys}
        accepted = self._keys.keys() or {NO_KEY}
        lives = [*self._asleep.items(), *self._lives.items()]
        self._lives.clear()
        self._asleep.clear()
        for name, life in lives[-LIVES_MAX:]:
            (self._lives if life.key_id in accepted else self._asleep)[name] = life
        self._latest = None

    def lives(self) -> dict[tuple[ProcessorId, int, int], int]:
        """Return the highest counter of each life that was heard: id, incarnation, boot."""
        highest: dict[tuple[ProcessorId, int, int], int] = {}
        for name, life in self._lives.items():
            transmitter, incarnation, boot = NAME.unpack(name)[5:]
            who = (transmitter, incarnation, boot)
            highest[who] = max(highest.get(who, 0), life.highest)
        return highest

    def open(self, datagram: bytes) -> bytes:
        """Return the frame inside, or raise `Refused`."""
        size = len(datagram)
        if size > self._size_max:
            raise Refused("oversized")
        if size < HEAD_SIZE:
            raise Refused("truncated")
        name = datagram[:NAME_SIZE]
        counter, length = unpack_counter(datagram, NAME_SIZE)
        life = self._lives.get(name) or self._meet(name, size - HEAD_SIZE - length)
        end = HEAD_SIZE + length + (0 if life.aead is None else TAG_SIZE)
        if size < end:
            raise Refused("truncated", life.transmitter)
        if counter <= life.highest and life.is_repeated(counter, self._window):
            raise Refused("replay", life.transmitter)
        frame = _verified(life, datagram, counter, end)
        if not frame.startswith(life.who, WHO_AT):
            raise Refused("frame of another transmitter", life.transmitter)
        if counter == life.highest + 1:
            life.highest = counter
        else:
            life.skip_to(counter, self._window)
        if life is not self._latest:
            self._remember(name, life)
        return frame

    def open_burst(self, burst: Burst) -> Run | None:
        """Return the frames of one life's next datagrams; None if it is anything else.

        It is `open` for each, without a step of Python for a single one; what is not as simple is
        left to that.
        """
        data, size = burst
        life = self._lives.get(data[:NAME_SIZE])
        if life is None or not FRAME_AT < size <= self._size_max or len(data) % size:
            return None
        parts = struct.iter_unpack(f"!{NAME_SIZE}sQHx{WHO_SIZE}s{size - FRAME_AT}x", data)
        names, counters, lengths, whos = zip(*parts, strict=True)
        count = len(names)
        first = counters[0]
        if (
            first <= life.highest
            or counters != tuple(range(first, first + count))
            or names.count(names[0]) != count
            or min(lengths) < WHO_AT + WHO_SIZE  # what lies behind a shorter frame is not in it
            or max(lengths) + HEAD_SIZE + (TAG_SIZE if life.aead else 0) > size
        ):
            return None
        starts = range(HEAD_SIZE, len(data), size)
        if life.aead is None:
            run = Run((data,) * count, starts, (*map(add, starts, lengths),))
            is_theirs = whos.count(life.who) == count
        else:
            parts = struct.iter_unpack(f"{HEAD_SIZE}s{size - HEAD_SIZE}s", data)
            heads, sealed = zip(*parts, strict=True)
            if lengths.count(size - OVERHEAD) != count:  # else there is no padding behind the tags
                stops = map(TAG_SIZE.__add__, lengths)
                sealed = (*map(getitem, sealed, map(slice, stops)),)
            try:
                frames = [*map(life.aead.decrypt, map(pack_nonce, counters), sealed, heads)]
            except InvalidTag:
                return None
            run = Run(frames, (0,) * count, lengths)
            is_theirs = {*map(WHO_OF, frames)} == {life.who}
        if not is_theirs:
            return None
        if first != life.highest + 1:
            life.skip_to(first, self._window)
        life.highest = counters[-1]
        if life is not self._latest:
            self._remember(names[0], life)
        return run

    def begin_turn(self) -> None:
        """Allow some more lives that are not known yet.

        To derive a key takes ten times as long as to refuse a datagram, and whoever can send one
        can make the names of lives up.
        """
        self._strangers_left = STRANGERS_MAX

    def _meet(self, name: bytes, tail: int) -> _Life:
        """Prepare for a life that is not known yet; it is kept only if it proves genuine.

        `tail` is how much follows the frame.
        """
        magic, major, _, cluster, key_id, transmitter, incarnation, boot = NAME.unpack(name)
        if magic != MAGIC:
            raise Refused("not ours")
        if major != MAJOR:
            raise Refused("version", transmitter)
        if cluster != self._cluster:
            raise Refused("cluster", transmitter)
        is_bare = key_id == NO_KEY
        if is_bare == bool(self._keys):
            raise Refused("unsealed" if is_bare else "sealed", transmitter)
        if is_bare:
            return _Life(key_id, transmitter, name[WHO], None)
        secret = self._keys.get(key_id)
        if secret is None:
            raise Refused("key", transmitter)
        if tail < TAG_SIZE:
            raise Refused("truncated", transmitter)
        if not self._strangers_left:
            raise Refused("unknown life", transmitter)
        self._strangers_left -= 1
        aead = _traffic_key(secret, transmitter, incarnation, boot)
        return _Life(key_id, transmitter, name[WHO], aead)

    def _remember(self, name: bytes, life: _Life) -> None:
        lives = self._lives
        lives[name] = self._latest = life
        lives.move_to_end(name)
        if len(lives) > LIVES_MAX:
            lives.popitem(last=False)


def _verified(life: _Life, datagram: bytes, counter: int, end: int) -> bytes:
    """Return the frame if it is genuine; on an insecure cluster, as it came."""
    if life.aead is None:
        return datagram[HEAD_SIZE:end]
    header = datagram[:HEAD_SIZE]
    try:
        return life.aead.decrypt(pack_nonce(counter), datagram[HEAD_SIZE:end], header)
    except InvalidTag:
        raise Refused("altered", life.transmitter) from None
