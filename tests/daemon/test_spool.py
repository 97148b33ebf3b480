"""What a daemon writes down is what comes back, whatever happens to the file."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensong.core.effects import Deliver, Packet, Sent, Service, StateChange, TokenVisit
from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.core.timer import NEVER
from evensong.core.totem.frames import RegularMessage
from evensong.core.unit import UnitId, digest, encode_unit
from evensong.daemon import spool as writing
from evensong.daemon.spool import Spool, Traced
from evensong.errors import BadTrace
from evensong.sim.history import Life
from evensong.trace.assembly import TracedLife
from evensong.trace.directory import read_directory, settle
from evensong.trace.judge import judge

RING = RingId(4, 1)
NEXT = RingId(8, 1)


def payload(number: int, sender: int = 1, incarnation: int = 9) -> bytes:
    return encode_unit(UnitId(sender, incarnation, number), b"credo %d" % number)


def begin(directory: Path, level: str = "events", incarnation: int = 9) -> Spool:
    traced = Traced("test", 1, incarnation, 3, level, directory)
    return Spool(traced, 1, lambda _: None)


def deliver(into: Spool | Life, seq: int, content: bytes, now: int = 5, sender: int = 1) -> None:
    service = Service.SAFE if seq % 3 == 0 else Service.AGREED
    message = RegularMessage(sender, RING, seq, service, 0, 0, content)
    into.deliver(Deliver(RING, [message], seq - 1, after_gap=seq == 2), now)


def install(into: Spool | Life, now: int = 2) -> None:
    into.install(Configuration(RING, NO_RING, (1, 2), transitional=False, cause="start"), now)


def play(into: Spool | Life) -> None:
    install(into)
    into.change_state(StateChange("gather", RING, "start", 0), 3)
    for seq in (1, 2):
        into.send(Sent(RING, seq, [Packet(Service.AGREED, payload(seq))]), 4)
    deliver(into, 1, payload(1))
    pair = [
        RegularMessage(1, RING, 2, Service.AGREED, 0, 0, payload(2)),
        RegularMessage(2, RING, 3, Service.SAFE, 0, 0, payload(1, 2, 7)),
    ]
    into.deliver(Deliver(RING, pair, 2, after_gap=True), 5)
    into.send(Sent(RING, 4, [Packet(Service.SAFE, payload(3))]), 6)
    into.visit(TokenVisit(RING, 1, 1, 1, 1, 1, 0), 6)
    old, new = RingId(6, 1), NEXT
    into.install(Configuration(old, RING, (1,), transitional=True, cause="token loss"), 7)
    last = RegularMessage(1, RING, 4, Service.SAFE, 0, 0, payload(3))
    into.deliver(Deliver(old, [last], 3, after_gap=False), 7)
    into.install(Configuration(new, old, (1,), transitional=False, cause="token loss"), 7)


def rows(life: Life) -> list[object]:
    events = [(e.pos, e.t_us, e.etype, repr(e.conf), e.cause, e.aux) for e in life.events[1:]]
    return [life.sends, life.deliveries, events, list(map(repr, life.confs)), life.ended]


def lives(directory: Path) -> list[TracedLife]:
    (found,) = read_directory(directory).values()
    return found


def only_life(directory: Path) -> Life:
    (one,) = lives(directory)
    return one.life


def test_a_spool_reads_back_as_the_life_it_was(tmp_path: Path) -> None:
    spool, life = begin(tmp_path), Life(1, 9)
    life.start(1)
    for one in (spool, life):
        play(one)
        one.end("stop", 9, "leave")
    assert rows(only_life(tmp_path)) == rows(life)
    assert [path.suffix for path in tmp_path.iterdir()] == [".spool"]


def test_what_is_flushed_is_there_and_nothing_else(tmp_path: Path) -> None:
    spool = begin(tmp_path)
    assert [event.etype for event in only_life(tmp_path).events] == ["start"]
    install(spool)
    spool.send(Sent(RING, 1, [Packet(Service.AGREED, payload(1))]), 50)
    assert spool.deadline == 2 + writing.FLUSH_US
    assert only_life(tmp_path).sends == []
    spool.expire(spool.deadline)
    assert len(only_life(tmp_path).sends) == 1
    assert only_life(tmp_path).ended == ""


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_torn_tail_ends_the_reading_at_the_last_whole_record(tmp_path: Path, cut: int) -> None:
    spool = begin(tmp_path)
    play(spool)
    deliver(spool, 5, payload(4), now=8)
    spool.flush(9)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-cut])
    (one,) = lives(tmp_path)
    assert one.is_torn
    assert len(one.life.deliveries) == 4


def test_a_flipped_bit_ends_the_reading(tmp_path: Path) -> None:
    spool = begin(tmp_path)
    install(spool)
    spool.flush(3)
    (path,) = tmp_path.iterdir()
    whole = len(path.read_bytes())
    deliver(spool, 1, payload(1))
    spool.flush(6)
    content = bytearray(path.read_bytes())
    for at in range(whole, len(content)):
        content[at] ^= 1
        path.write_bytes(content)
        assert only_life(tmp_path).deliveries == []
        content[at] ^= 1
    path.write_bytes(content)
    assert len(only_life(tmp_path).deliveries) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"rubbish and more", "is no spool of a trace"),
        (b"EVSPOOL\x09", "version 9; 1 and 2 can be read"),
    ],
)
def test_what_is_no_spool_of_ours_is_refused_by_name(
    tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "spool-000000.spool").write_bytes(content)
    with pytest.raises(BadTrace, match=rf"spool-000000\.spool: .*{why}"):
        read_directory(tmp_path)


def test_a_payload_that_is_no_unit_is_recorded_as_nobody_s(tmp_path: Path) -> None:
    spool = begin(tmp_path)
    install(spool)
    for size in (0, 11, 12, 21):
        deliver(spool, size + 1, bytes(range(1, size + 1)), sender=2)
    spool.end("stop", 9)
    life = only_life(tmp_path)
    assert [one.unit_id[:2] for one in life.deliveries] == [(2, 0)] * 4
    assert "EVS1.3" in judge(lives(tmp_path)).verdicts.failed


def test_a_packet_that_changed_since_it_was_sent_is_recorded_as_delivered(tmp_path: Path) -> None:
    spool = begin(tmp_path)
    install(spool)
    deliver(spool, 1, payload(1))  # from now on the origin is known
    sent, changed, same = payload(2), payload(2)[:-1] + b"?", payload(4)
    spool.send(Sent(RING, 2, [Packet(Service.AGREED, sent)]), 4)
    spool.send(Sent(RING, 4, [Packet(Service.AGREED, same)]), 4)
    deliver(spool, 2, changed)
    deliver(spool, 4, same)
    spool.end("stop", 9)
    life = only_life(tmp_path)
    assert [row.digest for row in life.sends] == [digest(sent), digest(same)]
    assert [row.digest for row in life.deliveries[1:]] == [digest(changed), digest(same)]


def test_a_large_spool_is_closed_and_another_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SPOOL_BYTES", 500)
    spool, life = begin(tmp_path), Life(1, 9)
    life.start(1)
    for one in (spool, life):
        play(one)
        for seq in range(5, 50):
            deliver(one, seq, payload(seq - 1))
            if one is spool:
                spool.flush(6)
        one.end("stop", 9)
    assert len(list(tmp_path.glob("*.spool"))) > 3
    assert rows(only_life(tmp_path)) == rows(life)


def test_lives_follow_one_another_and_who_lived_again_had_died(tmp_path: Path) -> None:
    install(begin(tmp_path, incarnation=9))
    begin(tmp_path, incarnation=12)
    found = lives(tmp_path)
    settle(found, "quiesce")
    assert [(one.life.incarnation, one.life.ended) for one in found] == [
        (9, "lost"),
        (12, "quiesce"),
    ]


def test_below_events_nothing_is_written_of_messages(tmp_path: Path) -> None:
    spool = begin(tmp_path, "views")
    play(spool)
    spool.end("stop", 9)
    (one,) = lives(tmp_path)
    assert one.level == "views"
    assert not one.life.deliveries
    assert not one.life.sends
    assert [event.etype for event in one.life.events] == [
        *("start", "conf", "state", "conf", "conf", "stop"),
    ]
    assert one.life.events[-1].pos == 4
    judged = judge([one])
    assert not judged.is_complete
    assert judged.verdicts.by_property.keys() == {"TM1", "TM2", "TM4"}


def test_digests_tell_orders_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FOLD_MAX", 4)
    folds = []
    for name, order in (("a", (1, 2, 3, 4, 5)), ("b", (1, 3, 2, 4, 5)), ("c", (1, 2, 3, 4, 6))):
        (tmp_path / name).mkdir()
        spool = begin(tmp_path / name, "digests")
        install(spool)
        for number in order:
            deliver(spool, number, payload(number))
        spool.end("stop", 9)
        events = only_life(tmp_path / name).events
        folds.append([dict(event.aux) for event in events if event.etype == "digest"])
    assert [[fold["count"] for fold in one] for one in folds] == [["4", "1"]] * 3
    first, second = [one[0] for one in folds], [one[1] for one in folds]
    assert first[0] == first[2]
    assert first[0]["ordered"] != first[1]["ordered"]
    assert first[0]["unordered"] == first[1]["unordered"]
    assert second[0] == second[1]
    assert second[0]["unordered"] != second[2]["unordered"]


def test_a_batch_of_more_senders_than_a_spool_can_name_goes_on_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ORIGINS_MAX", 3)
    spool, life = begin(tmp_path), Life(1, 9)
    life.start(1)
    senders = (1, 2, 3, 4, 1, 5, 6, 2)
    batch = [
        RegularMessage(sender, RING, seq, Service.AGREED, 0, 0, payload(seq, sender, sender + 100))
        for seq, sender in enumerate(senders, 1)
    ]
    for one in (spool, life):
        install(one)
        one.deliver(Deliver(RING, batch, 0, after_gap=False), 5)
        one.end("stop", 9)
    assert len(list(tmp_path.glob("*.spool"))) == 3
    assert rows(only_life(tmp_path)) == rows(life)


def test_the_numbers_of_a_long_trace_are_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path).end("stop", 2)
    asked: list[Path] = []

    def count(directory: Path) -> int:
        asked.append(directory)
        return 1

    monkeypatch.setattr(writing, "next_serial", count)
    monkeypatch.setattr(writing, "SPOOL_BYTES", 100)
    spool = begin(tmp_path, incarnation=12)
    for now in (3, 4, 5):
        spool.change_state(StateChange("gather", RING, "start", 0), now)
        spool.flush(now)
    assert asked == [tmp_path]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["spool-000000.spool", "spool-000001.spool"]
    assert names[-1] == "spool-000004.open"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "trace"
    directory.mkdir()
    yield directory
    directory.chmod(0o700)


def test_without_room_tracing_stops_and_goes_on_with_a_gap(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    spool = Spool(Traced("test", 1, 9, 3, "events", full), 1, said.append)
    install(spool)
    deliver(spool, 1, payload(1))
    spool.flush(6)
    with monkeypatch.context() as no_room:
        no_room.setattr(os, "write", refuse)
        deliver(spool, 2, payload(2))
        spool.expire(10)
        deliver(spool, 3, payload(3))
        spool.expire(spool.deadline)
    assert len(said) == 1
    assert "No space left on device; the ring goes on" in said[0]
    assert spool.status()["stopped"] == "No space left on device"
    assert spool.lost == 2
    deliver(spool, 4, payload(4))
    spool.expire(spool.deadline)
    deliver(spool, 5, payload(5), now=20)
    spool.end("stop", 30)
    assert said[1:] == ["tracing goes on, without 3 records"]
    (one,) = lives(full)
    assert one.gaps == 1
    assert len(one.life.deliveries) == 1
    assert one.left_out == 3  # the gap, a delivery and the end
    assert one.life.ended == ""
    settle([one], "quiesce")
    assert one.life.ended == ""
    assert not judge([one]).is_complete


def refuse(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_trace_that_could_not_begin_begins_later(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as no_room:
        no_room.setattr(os, "open", refuse)
        spool = begin(full)
        install(spool)
    assert spool.status()["stopped"]
    assert spool.deadline < NEVER
    spool.expire(spool.deadline)
    assert not spool.status()["stopped"]
    deliver(spool, 1, payload(1))
    spool.end("stop", 9)
    (one,) = lives(full)
    assert (one.gaps, one.life.events) == (1, [])
    assert judge([one]).verdict == "inconclusive"


def test_a_trace_that_stops_over_many_sends_goes_on(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = begin(full)
    install(spool)
    monkeypatch.setattr(writing, "FLUSH_BYTES", 1_000)
    with monkeypatch.context() as no_room:
        no_room.setattr(os, "write", refuse)
        for seq in range(1, 101):  # of one time: one frame, written as soon as it ends
            spool.send(Sent(RING, seq, [Packet(Service.AGREED, payload(seq))]), 5)
        spool.expire(spool.deadline)
    assert spool.status()["stopped"]
    assert spool.deadline < NEVER
    spool.expire(spool.deadline)
    assert not spool.status()["stopped"]
    spool.flush(8)
    (one,) = lives(full)
    assert one.gaps == 1
