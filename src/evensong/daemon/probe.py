"""Questions that daemons ask each other beside the ring: can you hear me, and what do you see?

A probe is a sealed datagram of any size up to a packet; its answer is never larger than the probe,
and says what the answerer knows of itself and of the asker. Only peers are answered, and only so
often. Nothing here touches the ring.
"""

import struct
import time
from collections.abc import Callable
from typing import Final, NamedTuple, final

from evensong.core.ids import ProcessorId, RingId
from evensong.core.totem.wire import HEADER
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.driver import Driver, clock
from evensong.errors import MalformedFrame

PROBE: Final = 64
ANSWER: Final = 65

PROBES_MAX: Final = 100  # answered a second and peer
NAME_MAX: Final = 32  # bytes; a longer name is cut
NEVER_HEARD: Final = 2**63

# header | number:u32 asker_incarnation:u64 | padding
PROBE_FRAME: Final = struct.Struct("!BIQIQ")
# header | number:u32 asker_incarnation:u64 | about, or nothing if the probe was too small for it
ANSWER_FRAME: Final = PROBE_FRAME
# wall_us:u64 lag_us:u64 heard_us_ago:u64 ring_seq:u64 ring_rep:u32
#   | state version name: each length:u8 and that many bytes
#   | parameters: count:u8 and as many u64 | members, peers: each count:u8 and as many u32
#   | refused: count:u8 and as many (reason:u8 count:u32)
ABOUT: Final = struct.Struct("!QQQQI")
REFUSAL: Final = struct.Struct("!BI")
COUNT_MAX: Final = 2**32 - 1

REASONS: Final = (
    "other",
    "truncated",
    "oversized",
    "not ours",
    "version",
    "cluster",
    "unsealed",
    "sealed",
    "key",
    "replay",
    "altered",
    "frame of another transmitter",
    "not a peer",
    "ignored",
    "probe",
)


class About(NamedTuple):
    """What a daemon says of itself to one that asks."""

    wall_us: int
    lag_us: int  # its own worst lateness of late
    heard_us_ago: int | None  # when it heard the asker's ring last
    ring_id: RingId
    state: str
    version: str
    name: str
    parameters: tuple[int, ...]
    members: tuple[ProcessorId, ...]
    peers: tuple[ProcessorId, ...]
    refused: dict[str, int]  # datagrams that claimed to be the asker's, by reason


def encode_about(about: About) -> bytes:
    """Lay it out."""
    heard = NEVER_HEARD if about.heard_us_ago is None else about.heard_us_ago
    chunks = [ABOUT.pack(about.wall_us, about.lag_us, heard, *about.ring_id)]
    for text in (about.state, about.version, about.name):
        chunk = text.encode(errors="replace")[:NAME_MAX]
        chunks.append(bytes([len(chunk)]) + chunk)
    for layout, numbers in (("Q", about.parameters), ("I", about.members), ("I", about.peers)):
        chunks.append(struct.pack(f"!B{len(numbers)}{layout}", len(numbers), *numbers))
    chunks.append(bytes([len(about.refused)]))
    for reason, count in about.refused.items():
        code = REASONS.index(reason) if reason in REASONS else 0
        chunks.append(REFUSAL.pack(code, min(count, COUNT_MAX)))
    return b"".join(chunks)


def decode_about(chunk: bytes) -> About:
    """Read it, or raise `MalformedFrame`."""
    try:
        wall_us, lag_us, heard, ring_seq, ring_rep = ABOUT.unpack_from(chunk)
        at = ABOUT.size
        texts: list[str] = []
        for _ in range(3):
            text = chunk[at + 1 : at + 1 + chunk[at]]
            texts.append("".join(c for c in text.decode(errors="replace") if c.isprintable()))
            at += 1 + chunk[at]
        lists: list[tuple[int, ...]] = []
        for layout in "QII":
            numbers = struct.unpack_from(f"!{chunk[at]}{layout}", chunk, at + 1)
            lists.append(numbers)
            at += 1 + chunk[at] * struct.calcsize(f"!{layout}")
        refused: dict[str, int] = {}
        for number in range(chunk[at]):
            code, count = REFUSAL.unpack_from(chunk, at + 1 + number * REFUSAL.size)
            refused[REASONS[code if code < len(REASONS) else 0]] = count
    except (struct.error, IndexError):
        raise MalformedFrame("probe: about") from None
    heard_us_ago = None if heard >= NEVER_HEARD else heard
    ring_id = RingId(ring_seq, ring_rep)
    state, version, name = texts
    parameters, members, peers = lists
    return About(
        wall_us,
        lag_us,
        heard_us_ago,
        ring_id,
        state,
        version,
        name,
        parameters,
        members,
        peers,
        refused,
    )


class Asked(NamedTuple):
    """A probe that is under way."""

    peer: ProcessorId
    size: int  # of its datagram
    at: int
    wall_us: int


class Answered(NamedTuple):
    """What came back."""

    asked: Asked
    rtt_us: int
    clock_offset_us: int | None  # the peer's wall clock is so far ahead of ours
    about: About | None


@final
class Probes:
    """Answers what peers ask, and asks them."""

    def __init__(
        self, driver: Driver, datagrams: Datagrams, about: Callable[[ProcessorId], About]
    ) -> None:
        self._driver: Final = driver
        self._datagrams: Final = datagrams
        self._about: Final = about
        self._number = 0
        self._under_way: Final[dict[int, Asked]] = {}
        self._answers: Callable[[Answered], None] | None = None
        self._second = 0
        self._answered: Final[dict[ProcessorId, int]] = {}  # in this second
        self.others: Final[dict[int, int]] = {}  # incarnations of a twin that asks: how often

    def begin(self, answers: Callable[[Answered], None]) -> None:
        """Hand answers to this from now on; probes of before are forgotten."""
        self._under_way.clear()
        self._answers = answers

    def is_under_way(self) -> bool:
        """Whether some answer has not come yet."""
        return bool(self._under_way)

    def ask(self, peer: ProcessorId, size: int) -> None:
        """Send one probe whose datagram has so many bytes, or as few as it must."""
        life = self._driver.life
        self._number = (self._number + 1) % 2**32
        frame = PROBE_FRAME.pack(PROBE, life.node, life.incarnation, self._number, life.incarnation)
        frame += bytes(max(0, size - self._driver.overhead() - len(frame)))
        datagram = self._driver.seal(frame)
        self._under_way[self._number] = Asked(peer, len(datagram), clock(), wall_us())
        self._datagrams.unicast(peer, datagram)

    def on_frame(self, frame: bytes) -> None:
        """Take in a probe or an answer; whoever sent it is a peer, or a twin of ours."""
        kind, transmitter, _ = HEADER.unpack_from(frame)
        try:
            if len(frame) < PROBE_FRAME.size or transmitter == self._driver.life.node:
                raise MalformedFrame("probe: size")
            number, incarnation = PROBE_FRAME.unpack_from(frame)[3:]
            if kind == PROBE:
                self._on_probe(frame, transmitter, number, incarnation)
            elif kind == ANSWER:
                self._on_answer(frame, transmitter, number, incarnation)
            else:
                raise MalformedFrame("probe: kind")
        except MalformedFrame:
            self._driver.refuse("probe", transmitter)

    def _on_probe(
        self, frame: bytes, transmitter: ProcessorId, number: int, incarnation: int
    ) -> None:
        second = clock() // 1_000_000
        if second != self._second:
            self._second = second
            self._answered.clear()
        answered = self._answered.get(transmitter, 0) + 1
        if answered > PROBES_MAX:
            self._driver.refuse("probe", transmitter)
            return
        self._answered[transmitter] = answered
        life = self._driver.life
        answer = ANSWER_FRAME.pack(ANSWER, life.node, life.incarnation, number, incarnation)
        about = encode_about(self._about(transmitter))
        if len(answer) + len(about) <= len(frame):
            answer += about
        self._datagrams.unicast(transmitter, self._driver.seal(answer))

    def _on_answer(
        self, frame: bytes, transmitter: ProcessorId, number: int, incarnation: int
    ) -> None:
        if incarnation != self._driver.life.incarnation:
            if incarnation in self.others or len(self.others) < PROBES_MAX:
                self.others[incarnation] = self.others.get(incarnation, 0) + 1
            return
        asked = self._under_way.get(number)
        if asked is None or asked.peer != transmitter:
            return  # late, or of an examination before
        body = frame[ANSWER_FRAME.size :]
        about = decode_about(body) if body else None
        del self._under_way[number]
        rtt_us = clock() - asked.at
        offset_us = about.wall_us - (asked.wall_us + rtt_us // 2) if about else None
        if self._answers is not None:
            self._answers(Answered(asked, rtt_us, offset_us, about))


def wall_us() -> int:
    """Return the wall clock in microseconds."""
    return time.time_ns() // 1_000
