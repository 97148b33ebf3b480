"""The driver's own promises, on a real socket and with a peer that says what the test wants."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evensong.core.effects import StateChange
from evensong.core.groups.limits import Limits
from evensong.core.ids import Configuration
from evensong.core.node import Node
from evensong.core.stable import FIRST_START
from evensong.core.totem import wire
from evensong.core.totem.frames import Join
from evensong.core.totem.parameters import PROFILES
from evensong.daemon.burst import Burst
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.driver import ASIDE, Driver, Life, clock
from evensong.daemon.listener import Listener
from evensong.daemon.opening import Opener
from evensong.daemon.seal import COUNTER, ENVELOPE, HEAD_SIZE, NAME_SIZE, Key, Sealer, make_key
from evensong.daemon.settings import DATAGRAM_MAX, PACKET, Address
from evensong.daemon.stable import StableStore
from evensong.daemon.watch import Watch
from evensong.sim.history import History
from evensong.sim.history import Life as HistoryLife
from tests.daemon.local import free_ports, own_host, wait_for

KEY = make_key(bytes(range(32)))


class Recorded(Listener):
    """Writes a life down, as the simulator does."""

    def __init__(self, life: HistoryLife) -> None:
        self.life = life

    def install(self, configuration: Configuration, now: int) -> None:
        self.life.install(configuration, now)

    def change_state(self, change: StateChange, now: int) -> None:
        self.life.change_state(change, now)

    def end(self, how: str, now: int, cause: str = "") -> None:
        self.life.end(how, now, cause)


class Stage:
    """A driver of node 1, nodes 2 and 3 as the test plays them."""

    def __init__(self, state: Path, key: Key | None = KEY) -> None:
        host = own_host()
        here, there, beyond = (Address(host, port) for port in free_ports(host, 3))
        self.peer_address = there
        self.own = Datagrams(here, {2: there, 3: beyond})
        self.peer = Datagrams(there, {1: here})
        self.third = Datagrams(beyond, {1: here})
        self.key = key
        self.sealer = Sealer("demo", key, 2, 5, 9)
        self.history = History()
        self.driver = Driver(
            Life(1, 7, 3),
            FIRST_START,
            PROFILES["lan"],
            PACKET,
            Limits(),
            (1, 2, 3),
            Sealer("demo", key, 1, 7, 3),
            Opener("demo", (key,) if key else (), 1_024, DATAGRAM_MAX),
            self.own,
            StableStore(state),
            [2, 3],
            [Recorded(self.history.begin(1, 7, clock()))],
        )

    def say(self, kind: int, node: int = 2, rest: bytes = b"") -> None:
        sealer = self.sealer if node == 2 else Sealer("demo", self.key, node, 5, 9)
        self.peer.unicast(1, sealer.seal(wire.HEADER.pack(kind, node, 5) + rest))

    def turn(self) -> None:
        """Let the driver take in what has arrived."""
        self.driver.watch.dispatch(self.driver.watch.wait(5_000_000))

    def close(self) -> None:
        self.driver.watch.close()
        for one in (self.own, self.peer, self.third):
            one.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with closing(Stage(tmp_path)) as made:
        yield made


def test_data_comes_before_tokens_and_joins_after(stage: Stage) -> None:
    for kind in (wire.JOIN, wire.TOKEN, wire.LEAVE, wire.REGULAR, wire.COMMIT, wire.REGULAR):
        stage.say(kind)
    stage.turn()
    drops = stage.driver.core.engine.drops()  # frames cut short, in the order they were handed over
    assert [reason.partition(":")[0] for reason in drops] == [
        "regular",
        "token",
        "commit",
        "join",
        "ring id",  # of the Leave
    ]
    assert drops["regular: size"] == 2


def test_what_is_refused_is_booked_by_reason_and_on_whom_it_claims_to_be(stage: Stage) -> None:
    stage.say(wire.JOIN, node=4)
    stage.peer.unicast(1, b"rubbish")
    stage.peer.unicast(1, Sealer("demo", None, 2, 5, 9).seal(wire.HEADER.pack(wire.JOIN, 2, 5)))
    stage.driver.ignore([2])
    stage.say(wire.JOIN)
    stage.turn()
    assert stage.driver.refusals == {
        ("not a peer", 0): 1,
        ("truncated", 0): 1,
        ("unsealed", 2): 1,
        ("ignored", 2): 1,
    }
    assert stage.driver.heard_at == {}


def test_each_datagram_of_a_burst_is_booked_on_whom_it_claims_to_be(stage: Stage) -> None:
    stage.driver.ignore([2])
    sealers = [stage.sealer, Sealer("demo", KEY, 4, 5, 9)]
    for _ in range(2):  # a life that is met, and one that is known
        for node, sealer in zip((2, 4), sealers, strict=True):
            frames = [wire.HEADER.pack(wire.JOIN, node, 5)] * 3
            stage.peer.broadcast(sealer.seal_burst(frames))
        stage.turn()
    assert stage.driver.refusals == {("not a peer", 0): 6, ("ignored", 2): 6}
    assert stage.driver.heard_at == {}


def test_a_burst_is_heard_if_any_of_it_is_the_rings(stage: Stage) -> None:
    for kinds in ((ASIDE, ASIDE), (ASIDE, ASIDE), (ASIDE, wire.JOIN)):
        assert stage.driver.heard_at == {}
        frames = [wire.HEADER.pack(kind, 2, 5) for kind in kinds]
        stage.peer.broadcast(stage.sealer.seal_burst(frames))
        stage.turn()
    assert list(stage.driver.heard_at) == [2]


@pytest.mark.parametrize("kind", [wire.REGULAR, wire.TOKEN, ASIDE])
@pytest.mark.parametrize("length", [0, 12])
def test_a_burst_of_frames_too_short_to_say_whose_they_are_is_refused(
    tmp_path: Path, kind: int, length: int
) -> None:
    with closing(Stage(tmp_path, key=None)) as stage:
        frame = wire.HEADER.pack(kind, 2, 5)
        stage.say(wire.JOIN)
        cut = [stage.sealer.seal(frame + bytes(7)) for _ in range(3)]
        at = slice(ENVELOPE.size - COUNTER.size, ENVELOPE.size)
        short = [
            one[: at.start]
            + COUNTER.pack(COUNTER.unpack(one[at])[0], length, 0, 1)
            + one[at.stop :]
            for one in cut
        ]
        stage.peer.broadcast(Burst(b"".join(short), len(short[0])))
        stage.turn()
        assert stage.driver.refusals == {("frame of another transmitter", 2): 3}


@pytest.mark.parametrize("length", [NAME_SIZE, HEAD_SIZE - 1])
def test_a_tail_behind_made_up_pieces_is_refused(stage: Stage, length: int) -> None:
    """Whoever has seen a datagram knows how a life is named; it takes no key to say so."""
    stage.say(wire.JOIN)
    stage.turn()
    name = stage.sealer.name
    pieces = [name + COUNTER.pack(90 + piece, 100, piece, 2) + bytes(80) for piece in range(2)]
    burst = Burst(b"".join([*pieces, pieces[0][:length]]), len(pieces[0]))
    stage.peer.broadcast(burst)
    stage.turn()
    assert stage.driver.refusals == {("altered", 2): 1, ("truncated", 0): 1}


def test_what_is_queued_takes_one_turn_after_any_calm(stage: Stage) -> None:
    driver = stage.driver
    lone, many = 5, 100
    turns = 0

    def refused() -> int:
        return sum(driver.refusals.values())

    def rubbish(_now: int) -> None:
        """Send one by itself a few times, then many that the kernel does not merge."""
        nonlocal turns
        said = stage.peer.sent + stage.third.sent
        if said < lone and refused() == said:
            stage.peer.unicast(1, b"rubbish")
        elif said == lone == refused():
            for _ in range(many // 2):
                stage.peer.unicast(1, b"rubbish")
                stage.third.unicast(1, b"rubbish")
        elif said > lone:
            turns += 1
        if refused() == lone + many:
            driver.how = "stop"

    driver.turn_ends.append(rubbish)
    driver.run()
    assert turns < 10, "a little more than one, for the two may meet"


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_busy_daemon_does_not_sleep_while_the_ring_rests_here(
    is_busy: bool, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests = [True, False, True, False]
    ways: list[str] = []

    def waited(way: str, _timeout_us: int) -> list[tuple[int, int]]:
        ways.append(way)
        stage.driver.how = "stop" if len(ways) == 4 else ""
        return []

    monkeypatch.setattr(Node, "rests", lambda _: rests[len(ways)])
    monkeypatch.setattr(Watch, "wait", lambda _, timeout_us: waited("sleeps", timeout_us))
    monkeypatch.setattr(Watch, "look", lambda _, timeout_us: waited("looks", timeout_us))
    stage.driver.is_busy = is_busy
    stage.driver.run()
    assert ways == (["looks", "sleeps", "looks", "sleeps"] if is_busy else ["sleeps"] * 4)


def test_nothing_is_said_before_the_disk_has_it(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "ring.tmp").mkdir()  # so that no record can be written
    stage.driver.run()
    assert stage.driver.how == "fail"
    assert "cannot be stored" in stage.driver.why
    assert [*stage.peer.drain(64)] == []
    assert stage.own.sent == 0


def test_clients_hear_nothing_of_a_ring_that_could_not_be_recorded(
    stage: Stage, tmp_path: Path
) -> None:
    """Its id may be used again after a restart, and with it every place in its order."""
    driver, node = stage.driver, stage.driver.core
    told: list[object] = []
    driver.tell = told.extend
    node.start(clock())
    driver.perform()
    session = node.open_session("ann", 0, clock())
    node.join(session, "g", 0, clock())
    driver.perform()
    (tmp_path / "ring.tmp").mkdir()
    told.clear()
    far_ahead = Join(2, 5, frozenset([2]), frozenset(), 50_000)
    node.receive(wire.encode_join(far_ahead), clock())
    while not driver.how:
        node.expire(node.deadline())  # until it goes on without the peer
        driver.perform()
    assert "cannot be stored" in driver.why
    assert told == []


def test_a_key_that_comes_back_meets_no_counter_twice(stage: Stage) -> None:
    other = make_key(bytes(32))
    counters: list[int] = []
    for keys in ((KEY, other), (other, KEY), (other,), (KEY,), (KEY, other)):
        stage.driver.set_keys("demo", keys)
        sealed = stage.driver.seal(wire.HEADER.pack(wire.JOIN, 1, 7))
        key_id, counter = ENVELOPE.unpack(sealed[: ENVELOPE.size])[4:9:4]
        assert key_id == keys[0].key_id
        counters.append(counter)
    assert counters == sorted(set(counters))


def test_whoever_is_no_peer_any_more_is_refused(stage: Stage) -> None:
    there = stage.peer_address
    stage.say(wire.JOIN)
    stage.turn()
    assert list(stage.driver.heard_at) == [2]
    stage.driver.set_peers({4: there})
    assert stage.driver.heard_at == {}
    stage.say(wire.JOIN)
    stage.turn()
    assert stage.driver.refusals == {("not a peer", 0): 1}
    stage.say(wire.JOIN, node=4)
    stage.turn()
    assert list(stage.driver.heard_at) == [4]


def test_a_broadcast_is_sealed_once_and_a_repetition_again(stage: Stage) -> None:
    stage.driver.leave()
    stage.driver.run()
    assert stage.driver.how == "stop"
    heard: dict[Datagrams, list[bytes]] = {stage.peer: [], stage.third: []}

    def is_complete() -> bool:
        for one, got in heard.items():
            got.extend(each for burst in one.drain(64) for each in burst.split())
        return sum(map(len, heard.values())) >= stage.own.sent

    wait_for("all that was sent", is_complete)
    assert heard[stage.peer] == heard[stage.third]
    assert len(set(heard[stage.peer])) == len(heard[stage.peer])
    opener = Opener("demo", (KEY,), 1_024, DATAGRAM_MAX)
    kinds = [opener.open(datagram)[0] for datagram in heard[stage.peer]]
    assert kinds[-2:] == [wire.LEAVE, wire.LEAVE]
    assert [life.ended for life in stage.history.lives.values()] == ["stop"]
