"""The spool: what a daemon appends while it runs, one framed record after the other.

A file is a magic number and frames. Deliveries and sends are rows of fixed width, gathered by the
frame; what is rare is JSON. A frame carries its length and a checksum, so a tail that `kill -9` or
a full disk tore is recognised, and reading stops at the last whole frame.

The order of the frames is the order of events: how much was delivered before a row, and in which
configuration it lies, is counted by the reader and not written. A file's header says where it
begins, so that each can be read without those before it.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from evensong.core.ids import PROCESSOR_MAX, PROCESSORS_MAX, Configuration, ProcessorId, RingId
from evensong.core.unit import UnitId
from evensong.errors import BadTrace
from evensong.sim.history import Delivery, Event, Send
from evensong.trace import session_rows
from evensong.trace.schema import RUN, SERVICE_BY_CODE
from evensong.trace.session_rows import SessionRows

MAGIC: Final = b"EVSPOOL"
VERSION: Final = 2
READABLE: Final = (1, VERSION)  # the first says nothing of sessions
START: Final = MAGIC + bytes([VERSION])
UNREADABLE: Final = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    struct.error,
)
LEVELS: Final = ("off", "views", "digests", "events")
OPEN: Final = ".open"  # a daemon writes it, or was killed while it did
CLOSED: Final = ".spool"

# length:u32 kind:u8 crc:u32 | body; the crc covers the body and begins with the kind
FRAME: Final = struct.Struct("!IBI")
BODY_MAX: Final = 64 * 1024 * 1024
HEADER: Final = 1  # JSON, first in every file
EVENT: Final = 2  # JSON
ORIGIN: Final = 3
DELIVERIES: Final = 4
SENDS: Final = 5
TOKEN: Final = 6
# and those of session_rows.py

# sender:u32 incarnation:u64; numbered from 0 in each file
ORIGIN_BODY: Final = struct.Struct("!IQ")
# t_us:i64 ring_seq:u64 ring_rep:u32 seq:u64 safe_line:u64 conf_no:i32 after_gap:u8
DELIVERIES_HEAD: Final = struct.Struct("!qQIQQi?")
# origin:u16 (origin_no:u64 count:u16) digest:u32 seq above the head's:u32 size:u16 service:u8
DELIVERY: Final = struct.Struct("!H10sIIHB")
# t_us:i64 ring_seq:u64 ring_rep:u32 seq:u64
SENDS_HEAD: Final = struct.Struct("!qQIQ")
# (origin_no:u64 count:u16) digest:u32 seq above the head's:u32 size:u16 service:u8
SEND: Final = struct.Struct("!10sIIHB")
NUMBER: Final = struct.Struct("!QH")  # the ten bytes of both rows
# t_us:i64 ring_seq:u64 ring_rep:u32 token_seq:u64 seq:u64 aru:u64 fcc:u32 sent:u32 resent:u32
TOKEN_BODY: Final = struct.Struct("!qQIQQQIII")


def frame(kind: int, body: bytes) -> bytes:
    """Frame a record."""
    return FRAME.pack(len(body), kind, zlib.crc32(body, kind)) + body


class Header(NamedTuple):
    """Where a spool begins."""

    run: str  # the cluster
    node: ProcessorId
    incarnation: int
    level: str
    pos: int  # deliveries of this life before it
    pseq: int  # events of this life before it
    sends: int  # sends of this life before it
    conf_no: int  # the configuration it begins in, -1 for none
    is_transitional: bool  # whether that one is transitional
    told: Sequence[Sequence[int]] = ()  # sessions, each with the frames it was told before

    def encode(self) -> bytes:
        """Lay the header out as a frame."""
        return frame(HEADER, json.dumps(self._asdict()).encode())


class Frames:
    """The whole frames of a spool, and whether something torn follows them."""

    __slots__ = ("_content", "_path", "is_torn")

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        try:
            self._content: Final = path.read_bytes()
        except OSError as error:
            raise BadTrace(f"{path}: {error.strerror}") from None
        self.is_torn = False
        if not self._content.startswith(MAGIC[: len(self._content)]):
            raise BadTrace(f"{path}: is no spool of a trace")
        version = self._content[len(MAGIC) : len(START)]
        if version and version[0] not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise BadTrace(f"{path}: a spool of version {version[0]}; {known} can be read")

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        content, at = self._content, len(START)
        while at + FRAME.size <= len(content):
            length, kind, crc = FRAME.unpack_from(content, at)
            body = content[at + FRAME.size : at + FRAME.size + length]
            if length > BODY_MAX or len(body) < length or zlib.crc32(body, kind) != crc:
                break
            yield kind, body
            at += FRAME.size + length
        self.is_torn = at != len(content)


@final
class Fragment:
    """The rows of one spool, in order; a part of one life."""

    __slots__ = (
        "_is_transitional",
        "_origins",
        "conf_no",
        "deliveries",
        "events",
        "header",
        "is_torn",
        "path",
        "sends",
        "sessions",
    )

    def __init__(self, path: Path, header: Header) -> None:
        self.path: Final = path
        self.header: Final = header
        self.deliveries: Final[list[Delivery]] = []
        self.sends: Final[list[Send]] = []
        self.events: Final[list[tuple[int, Event]]] = []  # with their pseq
        self.sessions: Final = SessionRows(header.told)
        self.is_torn = False
        self.conf_no = header.conf_no
        self._is_transitional = header.is_transitional
        self._origins: Final[list[tuple[int, int]]] = []

    @property
    def pos(self) -> int:
        """How much the life has delivered by now."""
        return self.header.pos + len(self.deliveries)

    def add(self, kind: int, body: bytes) -> None:
        """Take in a frame; raise `ValueError` or `struct.error` if it makes no sense."""
        if kind == DELIVERIES:
            self._add_deliveries(body)
        elif kind == SENDS:
            self._add_sends(body)
        elif kind == TOKEN:
            self._add_visit(body)
        elif kind == ORIGIN:
            self._origins.append(ORIGIN_BODY.unpack(body))
        elif kind == EVENT:
            self._add_event(body)
        elif kind in session_rows.KINDS:
            self.sessions.add(kind, body)
        else:
            raise ValueError(f"a record of kind {kind}")

    def _add_deliveries(self, body: bytes) -> None:
        t_us, ring_seq, rep, first, safe_line, conf_no, after_gap = DELIVERIES_HEAD.unpack_from(
            body
        )
        ring_id = RingId(ring_seq, rep)
        for row in DELIVERY.iter_unpack(memoryview(body)[DELIVERIES_HEAD.size :]):
            origin, number, digest, seq, size, code = row
            sender, incarnation = self._origins[origin]
            origin_no, count = NUMBER.unpack(number)
            service = SERVICE_BY_CODE[code]
            reduced = self._is_transitional and service.name == "SAFE"
            self.deliveries.append(
                Delivery(
                    UnitId(sender, incarnation, origin_no),
                    ring_id,
                    first + seq,
                    conf_no,
                    service,
                    reduced,
                    safe_line,
                    after_gap,
                    size,
                    digest,
                    t_us,
                    count,
                )
            )

    def _add_sends(self, body: bytes) -> None:
        t_us, ring_seq, rep, first = SENDS_HEAD.unpack_from(body)
        header, ring_id = self.header, RingId(ring_seq, rep)
        for row in SEND.iter_unpack(memoryview(body)[SENDS_HEAD.size :]):
            number, digest, seq, size, code = row
            origin_no, count = NUMBER.unpack(number)
            self.sends.append(
                Send(
                    UnitId(header.node, header.incarnation, origin_no),
                    ring_id,
                    first + seq,
                    self.conf_no,
                    self.pos,
                    SERVICE_BY_CODE[code],
                    size,
                    digest,
                    t_us,
                    count,
                )
            )

    def _add_visit(self, body: bytes) -> None:
        t_us, ring_seq, rep, *numbers = TOKEN_BODY.unpack(body)
        names = ("token_seq", "seq", "aru", "fcc", "sent", "resent")
        aux = (
            ("ring", str(RingId(ring_seq, rep))),
            *((name, str(number)) for name, number in zip(names, numbers, strict=True)),
        )
        self._append(Event(self.pos, t_us, "token", self.conf_no, None, "", aux))

    def _add_event(self, body: bytes) -> None:
        etype, pos, t_us, raw_cause, aux, conf = json.loads(body)
        if etype == "token":
            raise ValueError("a visit of the token that is not laid out as one")
        cause = _text(raw_cause)
        configuration = None
        if conf is not None:
            configuration = _configuration(conf, cause)
            self.conf_no += 1
            self._is_transitional = configuration.transitional
        pairs = tuple((_text(key), _text(str(value))) for key, value in aux.items())
        self._append(
            Event(
                _number(pos), _number(t_us), _text(etype), self.conf_no, configuration, cause, pairs
            )
        )

    def _append(self, event: Event) -> None:
        pseq = self.events[-1][0] + 1 if self.events else self.header.pseq
        self.events.append((pseq, event))


def encode_event(
    etype: str,
    pos: int,
    now: int,
    cause: str = "",
    aux: Mapping[str, object] | None = None,
    conf: Configuration | None = None,
) -> bytes:
    """Lay an event out as a frame."""
    told = None
    if conf is not None:
        told = [*conf.conf_id, *conf.prev_id, list(conf.members), conf.transitional]
    return frame(EVENT, json.dumps([etype, pos, now, cause, dict(aux or {}), told]).encode())


def _configuration(raw: list[object], cause: str) -> Configuration:
    seq, rep, prev_seq, prev_rep, members, transitional = raw
    if not isinstance(members, list) or not 1 <= len(members) <= PROCESSORS_MAX:
        raise ValueError("a configuration without members")
    return Configuration(
        RingId(_number(seq), _number(rep)),
        RingId(_number(prev_seq), _number(prev_rep)),
        tuple(_number(member, PROCESSOR_MAX) for member in members),
        transitional=bool(transitional),
        cause=cause,
    )


def read_spool(path: Path) -> Fragment | None:
    """Read a spool up to its last whole frame; None if not even its header is whole."""
    frames = Frames(path)
    fragment = None
    try:
        for kind, body in frames:
            if fragment is None:
                fragment = Fragment(path, _header(kind, body))
            else:
                fragment.add(kind, body)
    except UNREADABLE as error:
        raise BadTrace(f"{path}: cannot be read: {error}") from error
    if fragment is not None:
        fragment.is_torn = frames.is_torn
    return fragment


def has_rows(path: Path) -> bool:
    """Whether there is anything in a spool: false if not even its header is whole."""
    try:
        return next(iter(Frames(path)), None) is not None
    except BadTrace:
        return True  # something that is not ours to judge here


def _header(kind: int, body: bytes) -> Header:
    if kind != HEADER:
        raise ValueError("does not begin with a header")
    header = Header(**json.loads(body))
    for number in (header.incarnation, header.pos, header.pseq, header.sends, header.conf_no + 1):
        _number(number)
    for session, count in header.told:
        _number(session), _number(count)
    if not _number(header.node, PROCESSOR_MAX):
        raise ValueError("nobody's header")
    if not isinstance(header.run, str) or not RUN.fullmatch(header.run):
        raise ValueError("a run that cannot be part of a path")
    if header.level not in LEVELS:
        raise ValueError(f"a level {header.level!r}, which is none of {', '.join(LEVELS)}")
    return header


def _number(raw: object, most: int = 2**63 - 1) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= most:
        raise ValueError(f"{raw!r} where a number belongs")
    return raw


def _text(raw: object) -> str:
    """Check what people will see: a terminal obeys more than it shows."""
    if not isinstance(raw, str) or not raw.isprintable():
        raise ValueError(f"{raw!r} where a text belongs")
    return raw


def serial_of(path: Path) -> int:
    """Return the number of a spool or of a part in its directory, -1 if it has none."""
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def spools_in(directory: Path) -> list[Path]:
    """Return the spools of a directory in the order in which they were written."""
    found = [*directory.glob(f"spool-*{OPEN}"), *directory.glob(f"spool-*{CLOSED}")]
    return sorted((path for path in found if serial_of(path) >= 0), key=serial_of)
