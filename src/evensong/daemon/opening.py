"""Opening envelopes: what peers transmit, less what is foreign, forged, altered or repeated."""

import struct
from collections import OrderedDict
from functools import lru_cache
from operator import add, getitem, itemgetter
from typing import Final, TypeAlias, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from evensong.core.ids import ProcessorId
from evensong.core.run import Run
from evensong.daemon.burst import Burst
from evensong.daemon.seal import (
    HEAD_SIZE,
    LIFE,
    MAGIC,
    MAJOR,
    NAME,
    NAME_SIZE,
    NO_KEY,
    OVERHEAD,
    PIECE_AT,
    PIECES_MAX,
    TAG_SIZE,
    WHO_AT,
    WHO_SIZE,
    Key,
    Refused,
    cluster_id,
    pack_nonce,
    traffic_key,
    unpack_counter,
)

STRANGERS_MAX: Final = 32  # lives not known yet that are looked at in one turn of the loop
LIVES_MAX: Final = 512  # lives of peers that are remembered; the longest silent one is forgotten
WAITING_MAX: Final = 128  # frames some of whose pieces have come; the oldest is forgotten
MISFIT: Final = "piece that fits nothing"
FRAME_AT: Final = HEAD_SIZE + WHO_AT + WHO_SIZE  # what a frame says after who sent it
WHO_OF: Final = itemgetter(slice(WHO_AT, WHO_AT + WHO_SIZE))  # of a frame
WHOLE: Final = 1  # piece 0 of 1, read as one number
NUMBERS: Final = bytes(range(PIECES_MAX))
NUMBER: Final = struct.Struct("!Q")  # a counter, as it follows the name of a life
COUNTED: Final = NAME_SIZE + NUMBER.size
pack_number: Final = NUMBER.pack
Cut: TypeAlias = tuple[bytes, int, int, int]  # a frame in pieces, by what all of these say of it
WHO: Final = slice(NAME.size - LIFE.size, NAME.size - 8)  # transmitter and incarnation


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
        "_waiting",
        "_window",
    )

    def __init__(self, cluster: str, keys: tuple[Key, ...], window: int, size_max: int) -> None:
        self._cluster: Final = cluster_id(cluster)
        self._keys = {key.key_id: key.secret for key in keys}
        self._lives: Final[OrderedDict[bytes, _Life]] = OrderedDict()  # the latest speaker last
        self._asleep: Final[dict[bytes, _Life]] = {}  # under keys that are not accepted now
        self._latest: _Life | None = None
        self._waiting: Final[dict[Cut, dict[int, bytes]]] = {}
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
        """Return the frame inside, or raise `Refused`; a piece of a frame is refused."""
        size = len(datagram)
        if not HEAD_SIZE <= size <= self._size_max:
            self._checked_size(datagram)
        name = datagram[:NAME_SIZE]
        counter, length, piece, pieces = unpack_counter(datagram, NAME_SIZE)
        life = self._lives.get(name) or self._meet(name, size - HEAD_SIZE - length)
        end = HEAD_SIZE + length + (0 if life.aead is None else TAG_SIZE)
        if size < end:
            raise Refused("truncated", life.transmitter)
        if piece or pieces != 1:
            raise Refused(MISFIT, life.transmitter)
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

    def open_piece(self, datagram: bytes) -> bytes | None:
        """Return the frame of which this is the last piece to come; None if others are missing."""
        size = self._checked_size(datagram)
        name = datagram[:NAME_SIZE]
        counter, *said = unpack_counter(datagram, NAME_SIZE)
        length, piece, pieces = said
        life = self._lives.get(name)
        if life is None:  # only a whole frame proves that there is such a life
            life = self._meet(name, TAG_SIZE)
            raise Refused("unknown life", life.transmitter)
        if not piece < pieces <= PIECES_MAX or counter <= piece:
            raise Refused(MISFIT, life.transmitter)
        # All but the last are equally long, and there is no padding. So what waits of a frame is a
        # piece longer than a frame at most, whoever made it up.
        if (pieces - 1) * (size - HEAD_SIZE) >= length + TAG_SIZE:
            raise Refused(MISFIT, life.transmitter)
        if counter <= life.highest and life.is_repeated(counter, self._window):
            raise Refused("replay", life.transmitter)
        first = counter - piece
        came = self._keep((name, first, length, pieces), piece, datagram)
        if came is None:
            return None
        counters = range(first, first + pieces)
        if any(life.is_repeated(one, self._window) for one in counters if one <= life.highest):
            raise Refused("replay", life.transmitter)
        body = b"".join([came[number][HEAD_SIZE:] for number in range(pieces)])
        frame = _long(life, body, first, length, came[0][:HEAD_SIZE])
        if frame is None:
            raise Refused("altered", life.transmitter)
        for one in counters:
            life.skip_to(one, self._window)
        if life is not self._latest:
            self._remember(name, life)
        return frame

    def _keep(self, cut: Cut, piece: int, datagram: bytes) -> dict[int, bytes] | None:
        """Keep one of several pieces; return them once they are all there.

        Only the whole tells whether they are genuine, and whoever has seen a datagram can make
        pieces up. So one that says otherwise of its frame is of another, and one that is there is
        not replaced: to spoil a frame one has to know what will be sent. One place for all lives
        takes more to flood than one for each, and less memory.
        """
        waiting = self._waiting
        came = waiting.get(cut)
        if came is None:
            if len(waiting) == WAITING_MAX:
                del waiting[next(iter(waiting))]
            came = waiting[cut] = {}
        came.setdefault(piece, datagram)
        pieces = cut[-1]
        return waiting.pop(cut) if len(came) == pieces else None

    def _checked_size(self, datagram: bytes) -> int:
        size = len(datagram)
        if size > self._size_max:
            raise Refused("oversized")
        if size < HEAD_SIZE:
            raise Refused("truncated")
        return size

    def open_long(self, burst: Burst) -> bytes | None:
        """Return a frame whose pieces these are, whole, new and in order; None if they are not.

        It is `open` for each, without a step of Python for a single one.
        """
        data, size = burst
        life = self._lives.get(data[:NAME_SIZE])
        # What is behind the last piece may be shorter than any head.
        if life is None or not HEAD_SIZE < size <= self._size_max or len(data) < HEAD_SIZE:
            return None
        first, length, piece, pieces = unpack_counter(data, NAME_SIZE)
        count = -(-len(data) // size)
        if piece or pieces != count or count > PIECES_MAX or first <= life.highest:
            return None
        if data[PIECE_AT::size] != NUMBERS[:count] or len(data) - size * (count - 1) < HEAD_SIZE:
            return None
        if life.aead is None and not _is_one_frame(data, size, first, count):
            return None  # where nothing is sealed, only this tells
        body = b"".join(_bodies(size, count, len(data)).unpack(data))
        frame = _long(life, body, first, length, data[:HEAD_SIZE])
        if frame is None:
            return None
        if first != life.highest + 1:
            life.skip_to(first, self._window)
        life.highest = first + count - 1
        if life is not self._latest:
            self._remember(data[:NAME_SIZE], life)
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
        parts = struct.iter_unpack(f"!{NAME_SIZE}sQHHx{WHO_SIZE}s{size - FRAME_AT}x", data)
        names, counters, lengths, cuts, whos = zip(*parts, strict=True)
        count = len(names)
        first = counters[0]
        if (
            first <= life.highest
            or counters != tuple(range(first, first + count))
            or names.count(names[0]) != count
            or cuts.count(WHOLE) != count
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
        aead = traffic_key(secret, transmitter, incarnation, boot)
        return _Life(key_id, transmitter, name[WHO], aead)

    def _remember(self, name: bytes, life: _Life) -> None:
        lives = self._lives
        lives[name] = self._latest = life
        lives.move_to_end(name)
        if len(lives) > LIVES_MAX:
            lives.popitem(last=False)


def _is_one_frame(data: bytes, size: int, first: int, count: int) -> bool:
    """Whether all pieces say that they are of one life and one frame."""
    said = [data[at : at + COUNTED] for at in range(0, len(data), size)]
    return said == [*map(data[:NAME_SIZE].__add__, map(pack_number, range(first, first + count)))]


@lru_cache(maxsize=256)  # rows are of a few lengths, over and over
def _bodies(size: int, count: int, length: int) -> struct.Struct:
    """Return what takes from so many bytes of pieces what each carries."""
    last = length - size * (count - 1)
    whole = f"{HEAD_SIZE}x{size - HEAD_SIZE}s"
    return struct.Struct(whole * (count - 1) + f"{HEAD_SIZE}x{last - HEAD_SIZE}s")


def _long(life: _Life, body: bytes, first: int, length: int, header: bytes) -> bytes | None:
    """Return the frame whose pieces were put together, or None if it is not genuine."""
    if life.aead is None:
        frame = body[:length] if len(body) > length else body
    else:
        end = length + TAG_SIZE
        try:
            sealed = body if len(body) == end else body[:end]
            frame = life.aead.decrypt(pack_nonce(first), sealed, header)
        except InvalidTag:
            return None
    return frame if len(frame) == length and frame.startswith(life.who, WHO_AT) else None


def _verified(life: _Life, datagram: bytes, counter: int, end: int) -> bytes:
    """Return the frame if it is genuine; on an insecure cluster, as it came."""
    if life.aead is None:
        return datagram[HEAD_SIZE:end]
    header = datagram[:HEAD_SIZE]
    try:
        return life.aead.decrypt(pack_nonce(counter), datagram[HEAD_SIZE:end], header)
    except InvalidTag:
        raise Refused("altered", life.transmitter) from None
