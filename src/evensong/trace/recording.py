"""What one life observably did, line by line as it happens, and back as a `History`.

For tests of real daemons: every event is in the file before the next effect is performed, so a
record cut short by `kill -9` is exact up to its end. Not for production; a trace is.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

from evensong.core.effects import Deliver, Packet, Sent, Service, StateChange, TokenVisit
from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.errors import BadTrace
from evensong.sim.history import History, Life

ENDING: Final = ".jsonl"


@final
class Recorder:
    """A listener that writes everything down, one line an event."""

    def __init__(self, directory: Path, node: ProcessorId, incarnation: int, now: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{node}-{incarnation}{ENDING}"
        self._file: Final = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._line("start", now, node, incarnation)

    def _line(self, *fields: object) -> None:
        os.write(self._file, json.dumps(fields).encode() + b"\n")

    def send(self, sent: Sent, now: int) -> None:
        """Record the first broadcast of a packet."""
        service, payload, timestamp = sent.packet
        self._line("send", now, sent.ring_id, sent.seq, service.name, payload.hex(), timestamp)

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Record deliveries."""
        for one in delivered.messages:
            self._line(
                "deliver",
                now,
                delivered.conf_id,
                one.ring_id,
                one.seq,
                one.sender_id,
                one.service.name,
                one.timestamp,
                one.payload.hex(),
                delivered.safe_line,
                delivered.after_gap,
            )

    def install(self, configuration: Configuration, now: int) -> None:
        """Record a configuration change."""
        self._line(
            "install",
            now,
            configuration.conf_id,
            configuration.prev_id,
            configuration.members,
            configuration.transitional,
            configuration.cause,
        )

    def change_state(self, change: StateChange, now: int) -> None:
        """Record a move of the membership."""
        self._line("state", now, change.state, change.ring_id, change.cause, change.about)

    def visit(self, visit: TokenVisit, now: int) -> None:
        """Record a visit of the token."""
        self._line(
            "visit",
            now,
            visit.ring_id,
            visit.token_seq,
            visit.seq,
            visit.aru,
            visit.fcc,
            visit.sent,
            visit.resent,
        )

    def end(self, how: str, now: int, cause: str = "") -> None:
        """Record the end of the life."""
        self._line("end", now, how, cause)
        os.close(self._file)


def read_recordings(directory: Path, still_running: Iterable[ProcessorId] = ()) -> History:
    """Read all lives of a directory.

    A life without an end failed, unless it is the last one of a processor that still runs.
    """
    paths = sorted(directory.glob(f"*{ENDING}"), key=_life_of)
    latest = {_life_of(path)[0]: path for path in paths}
    history = History()
    for path in paths:
        whole = path.read_bytes().rpartition(b"\n")[0]
        if not whole:
            continue
        try:
            rows = [json.loads(line) for line in whole.split(b"\n")]
            life = _replay(history, rows)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise BadTrace(f"{path}: cannot be read: {error}") from error
        if not life.ended:
            is_running = life.node in still_running and latest[life.node] == path
            life.end("quiesce" if is_running else "fail", rows[-1][1])
    return history


def _life_of(path: Path) -> tuple[int, int]:
    node, _, incarnation = path.name.removesuffix(ENDING).partition("-")
    return int(node), int(incarnation)


def _replay(history: History, rows: list[list[object]]) -> Life:
    """Play a record back into a life."""
    (_, started_at, node, incarnation), *rest = rows
    life = history.begin(_int(node), _int(incarnation), _int(started_at))
    for kind, at, *fields in rest:
        now = _int(at)
        if kind == "deliver":
            life.deliver(_deliver(fields), now)
        elif kind == "send":
            ring, seq, service, payload, timestamp = fields
            packet = Packet(Service[str(service)], bytes.fromhex(str(payload)), _int(timestamp))
            life.send(Sent(_ring(ring), _int(seq), packet), now)
        elif kind == "install":
            conf, prev, members, transitional, cause = fields
            life.install(
                Configuration(
                    _ring(conf),
                    _ring(prev),
                    tuple(map(_int, _list(members))),
                    transitional=bool(transitional),
                    cause=str(cause),
                ),
                now,
            )
        elif kind == "state":
            state, ring, cause, about = fields
            life.change_state(StateChange(str(state), _ring(ring), str(cause), _int(about)), now)
        elif kind == "visit":
            ring, *numbers = fields
            token_seq, seq, aru, fcc, sent, resent = map(_int, numbers)
            life.visit(TokenVisit(_ring(ring), token_seq, seq, aru, fcc, sent, resent), now)
        elif kind == "end":
            how, cause = fields
            life.end(str(how), now, str(cause))
        else:
            raise ValueError(f"no such event: {kind}")
    return life


def _deliver(fields: list[object]) -> Deliver:
    conf, ring, seq, sender, service, timestamp, payload, safe_line, after_gap = fields
    message = RegularMessage(
        _int(sender),
        _ring(ring),
        _int(seq),
        Service[str(service)],
        0,
        _int(timestamp),
        bytes.fromhex(str(payload)),
    )
    return Deliver(_ring(conf), [message], _int(safe_line), after_gap=bool(after_gap))


def _int(raw: object) -> int:
    if not isinstance(raw, int):
        raise TypeError(f"{raw!r} is no number")
    return raw


def _list(raw: object) -> list[object]:
    if not isinstance(raw, list):
        raise TypeError(f"{raw!r} is no list")
    return raw


def _ring(raw: object) -> RingId:
    seq, rep = _list(raw)
    return RingId(_int(seq), _int(rep))
