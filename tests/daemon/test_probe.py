"""Probes between two drivers that the test turns by hand."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.daemon.opening import Opener
from evensong.daemon.probe import (
    ANSWER,
    PROBE,
    PROBE_FRAME,
    PROBES_MAX,
    REASONS,
    About,
    Answered,
    Probes,
    decode_about,
    encode_about,
)
from evensong.daemon.seal import OVERHEAD, Sealer
from evensong.daemon.settings import DATAGRAM_MAX
from evensong.errors import MalformedFrame
from tests.daemon.local import wait_for
from tests.daemon.test_driver import KEY, Stage

ABOUT = About(
    wall_us=10**15,
    lag_us=2_000,
    heard_us_ago=None,
    ring_id=RingId(8, 1),
    state="operational",
    version="0.1",
    name="n1",
    parameters=(3, 2**40),
    members=(1, 2),
    peers=(2, 3),
    refused={"key": 4, "replay": 2},
)


class Asker(Stage):
    """Node 1 answers probes and asks; the test is node 2."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self.probes = Probes(self.driver, self.own, lambda _: ABOUT)
        self.driver.aside = self.probes.on_frame
        self.opener = Opener("demo", (KEY,), 1_024, DATAGRAM_MAX)
        self.got: list[bytes] = []

    def probe(self, *, number: int = 1, padding: int = 0, kind: int = PROBE) -> None:
        frame = PROBE_FRAME.pack(kind, 2, 5, number, 5) + bytes(padding)
        self.peer.unicast(1, self.sealer.seal(frame))

    def heard(self, count: int) -> list[bytes]:
        """Return the frames that node 2 got, once there are so many."""

        def is_complete() -> bool:
            datagrams = [one for burst in self.peer.drain(256) for one in burst.split()]
            self.got.extend(map(self.opener.open, datagrams))
            return len(self.got) >= count

        wait_for(f"{count} frames", is_complete)
        return self.got


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Asker]:
    with closing(Asker(tmp_path)) as made:
        yield made


def test_a_peer_is_answered_and_never_by_more_than_it_sent(stage: Asker) -> None:
    for padding in (0, 40, 1_000):
        stage.probe(number=padding, padding=padding)
        stage.turn()
        frame = stage.heard(1).pop()
        assert PROBE_FRAME.unpack_from(frame) == (ANSWER, 1, 7, padding, 5)
        assert len(frame) <= PROBE_FRAME.size + padding
        if padding == 1_000:
            assert decode_about(frame[PROBE_FRAME.size :]) == ABOUT
        else:
            assert frame[PROBE_FRAME.size :] == b""
    assert stage.driver.heard_at == {}, "a probe is no sign of the ring"


def test_a_stranger_is_not_answered(stage: Asker) -> None:
    frame = PROBE_FRAME.pack(PROBE, 4, 5, 1, 5)
    stage.peer.unicast(1, Sealer("demo", KEY, 4, 5, 9).seal(frame))
    stage.turn()
    stage.probe()
    stage.turn()
    assert [frame[0] for frame in stage.heard(1)] == [ANSWER]
    assert stage.driver.refusals == {("not a peer", 0): 1}


def test_nobody_is_answered_too_often(stage: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evensong.daemon.probe.clock", lambda: 5_000_000)
    for _ in range(3 * PROBES_MAX):
        stage.probe()
        stage.turn()
    assert stage.driver.refusals == {("probe", 2): 2 * PROBES_MAX}
    assert len(stage.heard(PROBES_MAX)) == PROBES_MAX


@pytest.mark.parametrize("size", [0, 500, 1_452])
def test_a_probe_has_the_size_that_was_asked_for_and_its_answer_is_taken(
    stage: Asker, size: int
) -> None:
    answers: list[Answered] = []
    stage.probes.begin(answers.append)
    stage.probes.ask(2, size)
    probe = stage.heard(1)[0]
    assert len(probe) + OVERHEAD == max(size, PROBE_FRAME.size + OVERHEAD)
    number = PROBE_FRAME.unpack_from(probe)[3]
    for _ in range(2):  # the second is a repetition, and tells nothing
        answer = PROBE_FRAME.pack(ANSWER, 2, 5, number, 7) + encode_about(ABOUT)
        stage.peer.unicast(1, stage.sealer.seal(answer))
        stage.turn()
    assert [one.about for one in answers] == [ABOUT]
    assert answers[0].asked.size == max(size, PROBE_FRAME.size + OVERHEAD)
    assert not stage.probes.is_under_way()


def test_an_answer_to_a_probe_that_another_life_sent_tells_of_a_twin(stage: Asker) -> None:
    stage.probes.begin(lambda _: pytest.fail("not ours"))
    stage.peer.unicast(1, stage.sealer.seal(PROBE_FRAME.pack(ANSWER, 2, 5, 1, 8)))
    stage.turn()
    assert stage.probes.others == {8: 1}


def test_what_is_no_probe_is_refused_and_counted(stage: Asker) -> None:
    stage.probes.begin(lambda _: pytest.fail("malformed"))
    stage.probes.ask(2, 0)
    number = PROBE_FRAME.unpack_from(stage.heard(1)[0])[3]
    stage.say(PROBE)  # a header alone
    stage.probe(kind=66)
    cut = PROBE_FRAME.pack(ANSWER, 2, 5, number, 7) + encode_about(ABOUT)[:-1]
    stage.peer.unicast(1, stage.sealer.seal(cut))

    def are_refused() -> bool:
        stage.turn()
        return sum(stage.driver.refusals.values()) == 3

    wait_for("all three", are_refused)
    assert stage.driver.refusals == {("probe", 2): 3}
    assert not stage.driver.core.engine.drops(), "the ring never sees them"
    assert wire.DECODERS.keys().isdisjoint({PROBE, ANSWER})


@given(
    st.builds(
        About,
        wall_us=st.integers(0, 2**63),
        lag_us=st.integers(0, 2**40),
        heard_us_ago=st.none() | st.integers(0, 2**50),
        ring_id=st.builds(RingId, st.integers(0, 2**62), st.integers(0, 2**32 - 1)),
        state=st.sampled_from(["", "gather", "operational"]),
        version=st.just("0.1"),
        name=st.text("abcä", max_size=8),
        parameters=st.lists(st.integers(0, 2**40), max_size=19).map(tuple),
        members=st.lists(st.integers(0, 2**32 - 1), max_size=128).map(tuple),
        peers=st.lists(st.integers(0, 2**32 - 1), max_size=128).map(tuple),
        refused=st.dictionaries(st.sampled_from(REASONS), st.integers(0, 2**32 - 1)),
    )
)
def test_what_is_said_is_read_back(about: About) -> None:
    assert decode_about(encode_about(about)) == about


def test_a_name_that_cannot_be_sent_is_sent_as_far_as_it_can() -> None:
    assert decode_about(encode_about(ABOUT._replace(name="n\udc80"))).name == "n?"


@given(st.binary(max_size=200))
def test_rubbish_is_malformed_or_harmless(chunk: bytes) -> None:
    try:
        about = decode_about(chunk)
    except MalformedFrame:
        return
    assert about.name.isprintable()
