from pathlib import Path

import pytest

from evensong.core.effects import Deliver, Packet, Sent, Service, StateChange, TokenVisit
from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.errors import BadTrace
from evensong.sim.history import Life
from evensong.sim.unit import UnitId, encode_unit
from evensong.trace.recording import Recorder, read_recordings

RING = RingId(4, 1)
PAYLOAD = encode_unit(UnitId(1, 9, 1), b"credo")


def play(into: Recorder | Life) -> None:
    into.install(Configuration(RING, NO_RING, (1,), transitional=False, cause="start"), 2)
    into.change_state(StateChange("gather", RING, "start", 0), 3)
    into.send(Sent(RING, 1, Packet(Service.SAFE, PAYLOAD)), 4)
    into.deliver(
        Deliver(
            RING, [RegularMessage(1, RING, 1, Service.SAFE, 0, 0, PAYLOAD)], 1, after_gap=False
        ),
        5,
    )
    into.visit(TokenVisit(RING, 1, 1, 1, 1, 1, 0), 6)


def record(directory: Path) -> Path:
    play(Recorder(directory, 1, 9, 1))
    return directory / "1-9.jsonl"


def rows(life: Life) -> list[object]:
    events = [(e.pos, e.t_us, e.etype, repr(e.conf), e.cause, e.aux) for e in life.events]
    return [life.sends, life.deliveries, events, life.ended]


@pytest.mark.parametrize(("running", "ended"), [((), "fail"), ((1,), "quiesce")])
def test_a_record_reads_back_as_the_life_it_was(
    tmp_path: Path, running: tuple[int, ...], ended: str
) -> None:
    record(tmp_path)
    life = Life(1, 9)
    life.start(1)
    play(life)
    life.end(ended, 6)
    assert rows(read_recordings(tmp_path, running).lives[1, 9]) == rows(life)


def test_an_end_that_was_recorded_stands(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 1, 9, 1)
    play(recorder)
    recorder.end("stop", 7, "leave")
    assert read_recordings(tmp_path, [1]).lives[1, 9].ended == "stop"


def test_a_torn_line_is_no_event(tmp_path: Path) -> None:
    path = record(tmp_path)
    path.write_bytes(path.read_bytes() + b'["deliver", 7, [4')
    assert len(read_recordings(tmp_path).lives[1, 9].deliveries) == 1


def test_a_record_that_makes_no_sense_is_refused_by_name(tmp_path: Path) -> None:
    path = record(tmp_path)
    path.write_bytes(path.read_bytes() + b'["sing", 7]\n')
    with pytest.raises(BadTrace, match=r"1-9\.jsonl: cannot be read: no such event"):
        read_recordings(tmp_path)
