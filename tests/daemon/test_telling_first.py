"""Who is served first when the token comes: the ring, or clients that wait for a message."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evensong.core.groups.events import Delivered, SessionEvent
from evensong.core.groups.frame import encode_whole
from evensong.core.groups.limits import Limits
from evensong.core.stable import FIRST_START
from evensong.core.totem.ordering import ALONE_VISITS
from evensong.core.totem.parameters import PROFILES
from evensong.core.totem.ring import SingleRing
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.driver import FEW_FRAMES, LITTLE_BYTES, Driver, Life, clock
from evensong.daemon.opening import Opener
from evensong.daemon.seal import Sealer, make_key
from evensong.daemon.settings import DATAGRAM_MAX, PACKET, Address
from evensong.daemon.stable import StableStore
from tests.daemon.local import free_ports, own_host

KEY = make_key(bytes(range(32)))
NODES = (1, 2)
GIVE_UP_US = 20_000_000


def holds_token(driver: Driver) -> bool:
    ring = driver.core.engine
    assert isinstance(ring, SingleRing)
    return ring.machine.holder.held_token is not None


class Pair:
    """Two drivers in one process, which turn in turn."""

    def __init__(self, state: Path) -> None:
        host = own_host()
        at = {
            node: Address(host, port) for node, port in zip(NODES, free_ports(host, 2), strict=True)
        }
        self.sockets = {
            node: Datagrams(at[node], {peer: at[peer] for peer in NODES if peer != node})
            for node in NODES
        }
        self.drivers = {node: self._driver(node, state) for node in NODES}
        for driver in self.drivers.values():
            driver.core.start(clock())
            driver.perform()
        groups = [driver.core.groups for driver in self.drivers.values()]
        self.turn_until(lambda: all(one.together == NODES for one in groups))

    def _driver(self, node: int, state: Path) -> Driver:
        (state / str(node)).mkdir()
        return Driver(
            Life(node, 7, node),
            FIRST_START,
            PROFILES["lan"],
            PACKET,
            Limits(),
            NODES,
            Sealer("demo", KEY, node, 7, node),
            Opener("demo", (KEY,), 1_024, DATAGRAM_MAX),
            self.sockets[node],
            StableStore(state / str(node)),
            [peer for peer in NODES if peer != node],
            [],
        )

    def turn_until(self, is_done: Callable[[], bool]) -> None:
        until = clock() + GIVE_UP_US
        while not is_done():
            assert clock() < until
            for driver in self.drivers.values():
                driver.watch.dispatch(driver.watch.wait(1_000))
                now = clock()
                if now >= driver.core.deadline():
                    driver.core.expire(now)
                driver.perform()

    def let_speak_alone(self, heard: "Heard") -> None:
        """Let the first send one by one until the token lingers with it."""
        speaker = self.drivers[1]
        for number in range(2, 2 + 4 * ALONE_VISITS):
            before = len(heard.when_told)
            heard.say(number, 1)
            self.turn_until(lambda before=before: len(heard.when_told) > before)  # type: ignore[misc]
        self.turn_until(lambda: holds_token(speaker))
        heard.when_told.clear()
        heard.when_written.clear()

    def close(self) -> None:
        for driver in self.drivers.values():
            driver.watch.close()
        for one in self.sockets.values():
            one.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with closing(Pair(tmp_path)) as made:
        yield made


class Heard:
    """How many datagrams its daemon had sent when a client was told of messages."""

    def __init__(self, pair: Pair) -> None:
        self.driver, self.sent = pair.drivers[1], pair.sockets[1]
        self.when_told: list[int] = []
        self.when_written: list[int] = []
        self.session = self.driver.core.open_session("ann", 0, clock())
        self.driver.core.join(self.session, "g", 0, clock())
        self.driver.core.define_set(self.session, 0, ["g"], 0)
        self.driver.tell, self.driver.write_few = self._tell, self._write
        self.say(1, 1)
        pair.turn_until(lambda: bool(self.when_told))
        self.when_told.clear()
        self.when_written.clear()

    def _tell(self, events: list[SessionEvent]) -> None:
        if any(isinstance(event, Delivered) for event in events):
            self.when_told.append(self.sent.sent)

    def _write(self, _now: int) -> None:
        self.when_written.append(self.sent.sent)

    def say(self, first_no: int, frames: int, size: int = 800) -> None:
        """Send frames of one message each."""
        self.sent_before = self.sent.sent
        body = bytes(size)
        for number in range(first_no, first_no + frames):
            frame = encode_whole(self.session, number, 0, 0, [body])
            self.driver.core.groups.send(self.session, frame, 0)
        self.driver.core.submit(clock())

    def check_ring_was_first(self) -> None:
        assert self.when_written == []
        assert len(self.when_told) == 1
        assert self.when_told[0] > self.sent_before


def test_a_message_by_itself_is_written_to_its_client_before_it_is_broadcast(pair: Pair) -> None:
    heard = Heard(pair)
    pair.turn_until(lambda: holds_token(pair.drivers[1]))
    heard.say(2, 1)
    pair.drivers[1].perform()
    assert heard.when_told == heard.when_written == [heard.sent_before]
    assert heard.sent.sent > heard.sent_before


@pytest.mark.parametrize(("frames", "size"), [(2, 800), (20, 800), (1, 20_000)])
def test_of_several_messages_or_a_large_one_the_ring_hears_before_the_clients_do(
    pair: Pair, frames: int, size: int
) -> None:
    heard = Heard(pair)
    pair.turn_until(lambda: holds_token(pair.drivers[1]))
    heard.say(2, frames, size)
    pair.drivers[1].perform()
    heard.check_ring_was_first()


def test_a_few_messages_are_written_before_they_are_broadcast_where_the_token_stays(
    pair: Pair,
) -> None:
    heard = Heard(pair)
    pair.let_speak_alone(heard)
    heard.say(1_000, 3)
    pair.drivers[1].perform()
    assert heard.when_told == heard.when_written == [heard.sent_before]
    assert heard.sent.sent > heard.sent_before


@pytest.mark.parametrize(("frames", "size"), [(2 * FEW_FRAMES, 8), (3, LITTLE_BYTES // 2)])
def test_of_more_than_a_few_the_ring_hears_first_though_the_token_stays(
    pair: Pair, frames: int, size: int
) -> None:
    heard = Heard(pair)
    pair.let_speak_alone(heard)
    heard.say(1_000, frames, size)
    assert holds_token(pair.drivers[1])
    pair.drivers[1].perform()
    heard.check_ring_was_first()
