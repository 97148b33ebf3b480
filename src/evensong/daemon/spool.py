"""Writes the trace of a running daemon: appended to a spool, flushed a few times a second.

It runs in the ring's thread, so a delivered packet costs one row of fixed width and its checksum
(once, if it is the node's own), and nothing is ever waited for but a plain write. If the disk is
full or gone, tracing stops with one line in the log and the ring goes on; once there is room, a new
spool begins with a `gap`.
"""

import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count, repeat
from operator import is_, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from evensong.core.effects import Deliver, Part, Sent, StateChange, TokenVisit, WindowGrown
from evensong.core.engine import CHANGING
from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.core.timer import NEVER
from evensong.core.unit import UNIT
from evensong.daemon.listener import Listener
from evensong.trace import spool
from evensong.trace.schema import CODE_BY_SERVICE
from evensong.trace.spool import CLOSED, OPEN, START, Header, encode_event, frame

if TYPE_CHECKING:
    from evensong.daemon.sight import Look

NO_LIMITS: Final[Mapping[str, int | str]] = {}
FLUSH_US: Final = 100_000  # what `kill -9` may cost
FLUSH_BYTES: Final = 64 * 1024
SPOOL_BYTES: Final = 8 * 1024 * 1024
RETRY_US: Final = 1_000_000
ORIGINS_MAX: Final = 65_535
FOLD_MAX: Final = 4_096  # deliveries in one row of digests
HASHED_MAX: Final = 64  # visits whose packets are waited for; then they are hashed once more
ORIGIN_BYTES: Final = spool.ORIGIN_BODY.size  # of a unit: sender and incarnation
ORIGIN_OF: Final = itemgetter(slice(ORIGIN_BYTES))
NUMBER_OF: Final = itemgetter(slice(ORIGIN_BYTES, UNIT.size))
MASK: Final = (1 << 64) - 1
FOLD: Final = 0x9E3779B97F4A7C15  # odd: mixes, and loses nothing


class Traced(NamedTuple):
    """Whose life is traced, how closely and where."""

    run: str
    node: ProcessorId
    incarnation: int
    boot: int
    level: str
    directory: Path
    host: str = ""  # whose clock it is
    token_loss_us: int = 0
    limits: Mapping[str, int | str] = (
        NO_LIMITS  # of the engine; whoever reads the trace judges by them
    )


@final
class Fold:
    """Deliveries of one configuration folded into two digests: with their order, and without."""

    __slots__ = ("count", "ordered", "unordered")

    def __init__(self) -> None:
        self.count = 0
        self.ordered = 0
        self.unordered = 0

    def add(self, digest: int) -> None:
        """Take in a delivery."""
        self.count += 1
        self.ordered = (self.ordered * FOLD + digest + 1) & MASK
        self.unordered = (self.unordered + (digest + 1) * FOLD) & MASK


@final
class Spool(Listener):
    """A listener that writes everything down, as closely as it is told."""

    def __init__(self, traced: Traced, now: int, say: Callable[[str], None]) -> None:
        self.deadline = NEVER  # when `expire` is due
        self.lost = 0  # records that could not be written
        self.written = 0  # bytes
        self.closed: Callable[[], None] = _nothing  # called whenever a spool has been closed
        self.look: Look | None = None  # what is known of the others, noted when one gathers
        self.flushing: Callable[[], None] = _nothing  # called before everything is written down
        self.told: Mapping[int, int] = {}  # frames that sessions have been told, for the header
        self.file_no = 0  # rises with every spool that is begun
        self._traced: Final = traced
        self._say: Final = say
        self.has_rows: Final = traced.level == "events"
        self._fold: Fold | None = Fold() if traced.level == "digests" else None
        self._pos = 0
        self._pseq = 0
        self._n_sends = 0
        self._whole: tuple[int, int, int] = (0, 0, 0)  # pos, pseq, sends that surely are on disk
        self._conf_nos: Final[dict[RingId, int]] = {}
        self._is_transitional = False
        self._sends: list[bytes] = []  # rows of one frame, of one ring and time
        self._sends_head = (0, 0, 0, 0)
        # Packets of ours and their checksums, by their places, until they are delivered.
        self._hashed: Final[dict[tuple[RingId, int], tuple[list[bytes], list[int]]]] = {}
        self._origins: dict[tuple[bytes, ProcessorId], int] = {}
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._file = -1
        self._size = 0
        self._path = traced.directory
        self._serial = -1  # of the next spool
        self._why_stopped = ""
        self._dropped: dict[str, int] = {}
        try:
            self._open()
        except OSError as error:
            self._stop(error.strerror, 0)
        wall_us = time.time_ns() // 1_000
        aux = {
            "boot": f"{traced.boot:016x}",
            "level": traced.level,
            "wall_us": wall_us,
            "wall_offset_us": wall_us - now,
            "host": traced.host,
            "token_loss_us": traced.token_loss_us,
            **traced.limits,
        }
        self._event("start", now, aux=aux)
        self._write()  # whatever this life does, that it began is known

    # What the driver tells

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Record deliveries."""
        if self.has_rows and not self._why_stopped:
            self._deliver(delivered, now)
        elif self._fold is not None:
            for message in delivered.messages():
                self._fold_in(zlib.crc32(message.payload), now)
        else:
            n_delivered = delivered.count()
            self._pos += n_delivered
            self.lost += n_delivered if self._why_stopped else 0

    def _deliver(self, delivered: Deliver, now: int) -> None:
        """Record deliveries row by row; those of one frame are of one ring, and in order."""
        if len({(part.ring_id, part.first_seq > 0) for part in delivered.parts}) > 1:
            where, line, gap = delivered.conf_id, delivered.safe_line, delivered.after_gap
            for part in delivered.parts:
                self._deliver(Deliver(where, [part], line, after_gap=gap), now)
            return
        if self._sends:
            self._end_sends()
        crc32, pack, origins = zlib.crc32, spool.DELIVERY.pack, self._origins
        first = delivered.parts[0].first_seq
        rows: list[bytes] = []
        for part in delivered.parts:
            code = CODE_BY_SERVICE[part.service]
            sender_id = part.sender_id
            payloads, from_first = part.payloads(), part.first_seq - first
            sizes, heads = [*map(len, payloads)], {*map(ORIGIN_OF, payloads)}
            known = origins.get((heads.pop(), sender_id)) if len(heads) == 1 else None
            if known is not None and min(sizes) >= UNIT.size:  # no step of Python for each
                digests = self._digests(part, payloads)
                fields = (map(NUMBER_OF, payloads), digests, count(from_first), sizes)
                rows += map(pack, repeat(known), *fields, repeat(code))
                continue
            for offset, payload in enumerate(payloads, from_first):
                size = len(payload)
                key = (payload[:ORIGIN_BYTES] if size >= UNIT.size else b"", sender_id)
                origin = origins.get(key)
                if origin is None:
                    if len(origins) >= ORIGINS_MAX:  # rows so far speak of this file's origins
                        self._put_deliveries(delivered, rows, now)
                        rows = []
                        self.begin_anew()
                    origin = self._add_origin(key, now)
                number = payload[ORIGIN_BYTES : UNIT.size]
                rows.append(pack(origin, number, crc32(payload), offset, size, code))
        self._put_deliveries(delivered, rows, now)

    def _digests(self, part: Part, payloads: list[bytes]) -> Iterable[int]:
        """Return the checksum of each; if they are the very ones that were sent, they are known."""
        sent, digests = self._hashed.pop((part.ring_id, part.first_seq), ([], []))
        if len(sent) == len(payloads) and all(map(is_, sent, payloads)):
            return digests
        return map(zlib.crc32, payloads)

    def _put_deliveries(self, delivered: Deliver, rows: list[bytes], now: int) -> None:
        if not rows:
            return
        first = delivered.parts[0]
        head = spool.DELIVERIES_HEAD.pack(
            now,
            *first.ring_id,
            first.first_seq,
            delivered.safe_line,
            self._conf_nos.get(delivered.conf_id, -1),
            delivered.after_gap,
        )
        self._pos += len(rows)
        self._put(frame(spool.DELIVERIES, head + b"".join(rows)), now)

    def send(self, sent: Sent, now: int) -> None:
        """Record the first broadcast of packets."""
        if not self.has_rows:
            return
        if self._why_stopped:
            self.lost += len(sent.packets)
            self._n_sends += len(sent.packets)
            return
        head = self._sends_head
        if not self._sends or head[0] != now or head[1:3] != sent.ring_id:
            self._end_sends()
            head = self._sends_head = (now, *sent.ring_id, sent.first_seq)
            self.deadline = min(self.deadline, now + FLUSH_US)
        payloads = [packet.payload for packet in sent.packets]
        digests = [*map(zlib.crc32, payloads)]
        codes = [CODE_BY_SERVICE[packet.service] for packet in sent.packets]
        fields = (map(NUMBER_OF, payloads), digests, count(sent.first_seq - head[3]))
        self._sends += map(spool.SEND.pack, *fields, map(len, payloads), codes)
        if len(self._hashed) == HASHED_MAX:
            self._hashed.clear()
        self._hashed[sent.ring_id, sent.first_seq] = payloads, digests

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Record a visit of the token; every one, where deliveries are recorded too."""
        if not self.has_rows:
            return
        if self._sends:
            self._end_sends()
        body = spool.TOKEN_BODY.pack(
            now,
            *visit.ring_id,
            visit.token_seq,
            visit.seq,
            visit.aru,
            visit.fcc,
            visit.sent,
            visit.resent,
        )
        self._pseq += 1
        self._put(frame(spool.TOKEN, body), now)

    def install(self, configuration: Configuration, now: int) -> None:
        """Record a configuration change."""
        self._end_fold(now)
        self._event("conf", now, configuration.cause, conf=configuration)
        self._conf_nos[configuration.conf_id] = len(self._conf_nos)
        self._is_transitional = configuration.transitional

    def change_state(self, change: StateChange, now: int) -> None:
        """Record a move of the membership."""
        aux: dict[str, object] = {
            "state": change.state,
            "ring": str(change.ring_id),
            "about": change.about,
        }
        if change.proposed:
            aux["proposed"] = " ".join(map(str, change.proposed))
            aux["failed"] = " ".join(map(str, change.failed))
        if self.look is not None and change.state in CHANGING:
            aux.update(self.look(change, now)._asdict())
        self._event("state", now, change.cause, aux)

    def grow_window(self, grown: WindowGrown, now: int) -> None:
        """Record that more is under way than before."""
        aux = {"view": str(grown.view_id), "window": grown.size, "bound": grown.bound}
        self._event("window", now, aux=aux)

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Record the end of the life, and close the spool."""
        self._end_fold(now)
        self._event(how, now, cause)
        self.flush(now)
        self._close()

    def note_drops(self, counts: Mapping[str, int], now: int) -> None:
        """Record what was refused or dropped since this was last called, by reason."""
        news = {
            reason: count - self._dropped.get(reason, 0)
            for reason, count in counts.items()
            if count > self._dropped.get(reason, 0)
        }
        if news:
            self._dropped = dict(counts)
            self._event("drop", now, aux=news)

    def note_lag(self, late_us: int, now: int) -> None:
        """Record that this daemon was late."""
        self._event("lag", now, aux={"late_us": late_us})

    # What sessions are told (telling.py)

    def note(self, etype: str, now: int, cause: str, aux: Mapping[str, object]) -> None:
        """Record an event about sessions or groups."""
        self._event(etype, now, cause, aux)

    def put(self, record: bytes, now: int) -> None:
        """Append a record that does not depend on how much the ring has delivered."""
        self._put(record, now)

    def hurry(self, now: int) -> None:
        """See that what waits elsewhere is flushed in time."""
        self.deadline = min(self.deadline, now + FLUSH_US)

    def _event(
        self,
        etype: str,
        now: int,
        cause: str = "",
        aux: Mapping[str, object] | None = None,
        conf: Configuration | None = None,
    ) -> None:
        if self._sends:
            self._end_sends()
        self._pseq += 1
        self._put(encode_event(etype, self._pos, now, cause, aux, conf), now)

    def _end_sends(self) -> None:
        if self._sends:
            rows, self._sends = self._sends, []
            body = spool.SENDS_HEAD.pack(*self._sends_head) + b"".join(rows)
            self._n_sends += len(rows)
            self._put(frame(spool.SENDS, body), self._sends_head[0])

    def _add_origin(self, key: tuple[bytes, ProcessorId], now: int) -> int:
        """Number a sender that this spool has not met yet, as the engine attributes it."""
        origin = self._origins[key] = len(self._origins)
        identity, sender = key
        _, incarnation = spool.ORIGIN_BODY.unpack(identity) if identity else (0, 0)
        self._put(frame(spool.ORIGIN, spool.ORIGIN_BODY.pack(sender, incarnation)), now)
        return origin

    # Digests

    def _fold_in(self, digest: int, now: int) -> None:
        assert self._fold is not None
        self._pos += 1
        self._fold.add(digest)
        if self._fold.count == FOLD_MAX:
            self._end_fold(now)

    def _end_fold(self, now: int) -> None:
        fold = self._fold
        if fold is not None and fold.count:
            aux = {
                "first": self._pos - fold.count,
                "count": fold.count,
                "ordered": f"{fold.ordered:016x}",
                "unordered": f"{fold.unordered:016x}",
            }
            self._fold = Fold()
            self._event("digest", now, aux=aux)

    # Files

    def _put(self, record: bytes, now: int) -> None:
        if self._why_stopped:
            self.lost += 1
            return
        if not self._buffer:
            self.deadline = min(self.deadline, now + FLUSH_US)
        self._buffer.append(record)
        self._buffered += len(record)
        if self._buffered >= FLUSH_BYTES:
            self._write()

    def expire(self, now: int) -> None:
        """Write what has waited long enough; try again if it could not be written."""
        if not self._why_stopped:
            self.flush(now)
        elif self._file < 0:
            self._resume(now)

    def flush(self, now: int) -> None:
        """Write everything down that has happened."""
        self.flushing()
        self._end_sends()
        self._write()
        if self._size >= SPOOL_BYTES and not self._why_stopped:
            self.begin_anew()

    def _write(self) -> None:
        if self._why_stopped:
            return  # and the deadline is when to try again
        records, self._buffer = self._buffer, []
        self._buffered = 0
        self.deadline = NEVER
        if not records:
            return
        chunk = b"".join(records)
        try:
            written = os.write(self._file, chunk)
        except OSError as error:
            self._stop(error.strerror, len(records))
            return
        self._size += written
        self.written += written
        if written < len(chunk):
            self._stop("the disk is full", len(records))
            return
        self._whole = (self._pos, self._pseq, self._n_sends)

    def _open(self) -> None:
        """Begin the next spool; raise `OSError` if there is no room for it."""
        traced = self._traced
        if self._serial < 0:  # looked up once: a long trace has many files
            self._serial = next_serial(traced.directory)
        self._path = traced.directory / f"spool-{self._serial:06}{OPEN}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND
        self._origins.clear()
        header = Header(
            traced.run,
            traced.node,
            traced.incarnation,
            traced.level,
            self._pos,
            self._pseq,
            self._n_sends,
            len(self._conf_nos) - 1,
            self._is_transitional,
            [[session, count] for session, count in sorted(self.told.items()) if count],
        )
        chunk = START + header.encode()
        self._file = os.open(self._path, flags, 0o600)
        try:
            if os.write(self._file, chunk) < len(chunk):
                raise OSError(0, "the disk is full")
        except OSError:
            os.close(self._file)
            self._file = -1
            self._path.unlink(missing_ok=True)
            raise
        self._serial += 1
        self.file_no += 1
        self._size = len(chunk)
        self.written += len(chunk)

    def begin_anew(self) -> None:
        """Close this spool and begin the next."""
        self._write()
        self._origins.clear()
        self._close()
        if not self._why_stopped:
            try:
                self._open()
            except OSError as error:
                self._stop(error.strerror, 0)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with suppress(OSError):  # the directory is gone, perhaps; the file is read by any name
                self._path.rename(self._path.with_suffix(CLOSED))
            self.closed()

    def _stop(self, why: str | None, lost: int) -> None:
        """Trace no more until there is room; the ring goes on."""
        self.lost += lost
        self._why_stopped = why or "cannot be written"
        self._say(f"tracing stops: {self._path}: {self._why_stopped}; the ring goes on")
        self._buffer.clear()
        self._buffered = 0
        self._close()
        self.deadline = _later(RETRY_US)

    def _resume(self, now: int) -> None:
        try:
            self._open()
        except OSError:
            self.deadline = now + RETRY_US
            return
        self._say(f"tracing goes on, without {self.lost} records")
        self._why_stopped = ""
        self._sends.clear()
        pos, pseq, sends = self._whole
        self._event("gap", now, aux={"pos": pos, "pseq": pseq, "sends": sends, "lost": self.lost})

    def status(self) -> dict[str, object]:
        """Return what a person wants to know of the trace."""
        return {
            "level": self._traced.level,
            "written_bytes": self.written,
            "lost": self.lost,
            "stopped": self._why_stopped,
        }


def _nothing() -> None:
    pass


def _later(us: int) -> int:
    return time.monotonic_ns() // 1_000 + us


def next_serial(directory: Path) -> int:
    """Return a number above that of every spool and every part of a directory."""
    names = [path.stem for path in directory.glob("spool-*")]
    names += [path.stem for path in directory.glob("run_id=*/node=*/events-*.parquet")]
    numbers = [name.rpartition("-")[2] for name in names]
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=-1)
