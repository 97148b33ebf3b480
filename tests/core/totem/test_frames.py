from evensong.core.effects import Service
from evensong.core.ids import RingId
from evensong.core.run import Run, run_of
from evensong.core.totem.frames import RegularMessage, Stretch

RING = RingId(4, 1)


def stretch(run: Run, skip: int) -> Stretch:
    return Stretch(2, RING, 7, Service.AGREED, 0, 0, run, skip)


def test_bytes_at_a_place_are_seen_without_the_payloads() -> None:
    frames = [b"head" + payload for payload in (b"abc", b"axc", b"abz")]
    for run in (run_of(frames), Run([b"".join(frames)] * 3, [0, 7, 14], [7, 14, 21])):
        part = stretch(run, len(b"head"))
        for at in range(3):
            assert part.bytes_at(at) == {payload[at] for payload in part.payloads()}
    assert part.cut(8, 8).bytes_at(1) == {ord("x")}


def test_bytes_beyond_the_end_are_none() -> None:
    assert stretch(run_of([b"headab"]), 4).bytes_at(2) == set()
    message = RegularMessage(2, RING, 7, Service.AGREED, 0, 0, b"ab")
    assert message.bytes_at(1) == {ord("b")}
    assert message.bytes_at(2) == set()
