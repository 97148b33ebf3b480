"""Daemons that are given what they cannot use: each says in one sentence what, and says no more.

The daemons are processes, run as people run them. What would reach a peer is listened for.
"""

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from evensong.cli.main import main
from evensong.core.stable import StableRecord, decode_record, encode_record
from evensong.core.totem import wire
from evensong.core.totem.frames import Join
from evensong.daemon.keys import read_key
from evensong.daemon.main import next_incarnation
from evensong.daemon.opening import Opener
from evensong.daemon.seal import Sealer
from evensong.daemon.settings import DATAGRAM_MAX
from tests.daemon.local import DEADLINE_S, LocalCluster, wait_for

Refusal: TypeAlias = Callable[[int], str]

HOUR_MS: Final = 3_600_000
RECORD: Final = "ring.record"
# Root may read and write what the mode of a file forbids, unless it gives that up.
POWERLESS: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")


def powerless() -> tuple[str, ...]:
    """Return what runs a command such that the modes of files count."""
    if os.geteuid():
        return ()
    if shutil.which(POWERLESS[0]) is None:
        pytest.skip("as root, modes of files are tested through `setpriv` (util-linux)")
    return POWERLESS


class Peer:
    """Sits where node 2 should be, and hears what node 1 says."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind((cluster.hosts[1], cluster.ports[1]))
        key = read_key(cluster.directory / "cluster.key")
        self.opener = Opener("test", (key,), 4_096, DATAGRAM_MAX)
        self.sealer = Sealer("test", key, 2, 1, 1)
        self.node_1 = (cluster.hosts[0], cluster.ports[0])

    def heard(self) -> list[bytes]:
        """Return the frames that came since the last time."""
        frames: list[bytes] = []
        while True:
            try:
                frames.append(self.opener.open(self.socket.recv(2_048)))
            except BlockingIOError:
                return frames

    def propose(self, ring_seq: int) -> None:
        """Ask node 1 into a ring."""
        join = Join(2, 1, frozenset([1, 2]), frozenset(), ring_seq)
        for _ in range(2):  # the first is news, the second agrees with what it answers
            self.socket.sendto(self.sealer.seal(wire.encode_join(join)), self.node_1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, 2, extra="") as cluster:
        yield cluster


@pytest.fixture
def peer(cluster: LocalCluster) -> Iterator[Peer]:
    peer = Peer(cluster)
    yield peer
    peer.socket.close()


def complaint(cluster: LocalCluster, code: int, prefix: tuple[str, ...] = ()) -> str:
    """Run a daemon that cannot start; return its one line."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "evensong.cli.main", "daemon", str(cluster.config(1))],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return one_line(done.returncode, code, done.stdout, done.stderr)


def one_line(returned: int, code: int, stdout: str, stderr: str) -> str:
    assert returned == code, stderr
    assert stdout == ""
    (line,) = stderr.splitlines()
    return line


@pytest.fixture
def refusal(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Return what runs a daemon that cannot start, in this process, and returns its one line."""

    def run(code: int) -> str:
        returned = main(["daemon", str(cluster.config(1))])
        return one_line(returned, code, *capsys.readouterr())

    return run


def change(cluster: LocalCluster, old: str, new: str) -> None:
    path = cluster.config(1)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# Settings


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("node = 1", "node = 0", "node: takes a number from 1 to"),
        ("node = 1", 'node = 1\nprofile = "slow"', "profile: takes one of fast, lan, wan"),
        ("node = 1", "node = 1\ncolour = 3", "colour: no such key; there are"),
        ('token_loss = "500ms"', 'token_loss = "1ms"', "token_loss >= 4 * token_retransmit"),
        ('cluster = "test"', "cluster = ", "not TOML"),
        ('keys = ["cluster.key"]', "", "keys: name a key file"),
    ],
)
def test_wrong_settings_are_named(
    cluster: LocalCluster, peer: Peer, refusal: Refusal, old: str, new: str, told: str
) -> None:
    change(cluster, old, new)
    line = refusal(2)
    assert "n1.toml" in line
    assert told in line
    assert not peer.heard()


def test_a_missing_settings_file_is_named(cluster: LocalCluster, refusal: Refusal) -> None:
    cluster.config(1).unlink()
    assert "n1.toml: No such file or directory" in refusal(2)


# What a daemon needs


def spoil_key(cluster: LocalCluster) -> None:
    (cluster.directory / "cluster.key").write_text("no key at all")


def make_key_a_directory(cluster: LocalCluster) -> None:
    (cluster.directory / "cluster.key").unlink()
    (cluster.directory / "cluster.key").mkdir()


def show_key_to_all(cluster: LocalCluster) -> None:
    (cluster.directory / "cluster.key").chmod(0o644)


def remove_state(cluster: LocalCluster) -> None:
    cluster.state(1).rmdir()


def make_state_a_file(cluster: LocalCluster) -> None:
    cluster.state(1).rmdir()
    cluster.state(1).write_text("")


def tear_record(cluster: LocalCluster) -> None:
    (cluster.state(1) / RECORD).write_bytes(encode_record(StableRecord(4, 1))[:9])


def empty_record(cluster: LocalCluster) -> None:
    (cluster.state(1) / RECORD).write_bytes(b"")


def rot_record(cluster: LocalCluster) -> None:
    record = bytearray(encode_record(StableRecord(4, 1)))
    record[8] ^= 1
    (cluster.state(1) / RECORD).write_bytes(record)


def make_record_a_directory(cluster: LocalCluster) -> None:
    (cluster.state(1) / RECORD).mkdir()


MISFORTUNES: Final[list[tuple[Callable[[LocalCluster], None], str]]] = [
    (spoil_key, "cluster.key: is no key file"),
    (make_key_a_directory, "cluster.key: Is a directory"),
    (show_key_to_all, "cluster.key: others can read it; `chmod 600` it"),
    (remove_state, "n1: there is no such directory; make it first"),
    (make_state_a_file, "n1: Not a directory"),
    (tear_record, "n1: stable record has 9 bytes"),
    (empty_record, "n1: stable record has 0 bytes"),
    (rot_record, "n1: stable record fails its checksum"),
    (make_record_a_directory, "n1: Is a directory"),
]


@pytest.mark.parametrize(
    ("spoil", "told"), MISFORTUNES, ids=[spoil.__name__ for spoil, _ in MISFORTUNES]
)
def test_what_it_needs_and_lacks_is_named(
    cluster: LocalCluster,
    peer: Peer,
    refusal: Refusal,
    spoil: Callable[[LocalCluster], None],
    told: str,
) -> None:
    spoil(cluster)
    assert told in refusal(3)
    assert not peer.heard()


def test_a_key_that_may_not_be_read_is_named(cluster: LocalCluster, peer: Peer) -> None:
    (cluster.directory / "cluster.key").chmod(0)
    assert "cluster.key: Permission denied" in complaint(cluster, 3, powerless())
    assert not peer.heard()


def test_a_state_directory_that_may_not_be_written_is_named(
    cluster: LocalCluster, peer: Peer
) -> None:
    cluster.state(1).chmod(0o500)
    assert "n1: Permission denied" in complaint(cluster, 3, powerless())
    assert not peer.heard()


def test_a_port_in_use_is_named(cluster: LocalCluster, peer: Peer) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((cluster.hosts[0], cluster.ports[0]))
        assert "the port is in use" in complaint(cluster, 3)
    assert not peer.heard()


# A disk that takes no more


def test_a_record_that_cannot_be_written_at_the_start_stops_it_unheard(
    cluster: LocalCluster, peer: Peer
) -> None:
    (cluster.state(1) / "ring.tmp").mkdir()
    cluster.start([1])
    assert cluster.reap(1) == 1
    assert "stopped: the ring's record cannot be stored: Is a directory" in cluster.log(1)
    assert not peer.heard()


def test_nothing_is_said_of_a_ring_that_could_not_be_recorded(
    cluster: LocalCluster, peer: Peer
) -> None:
    """The disk fills up; then a peer comes that is far ahead in ring numbers."""
    cluster.start([1])
    cluster.wait_for_ring([1])
    stored = (cluster.state(1) / RECORD).read_bytes()
    fill_disk(cluster)
    peer.heard()
    peer.propose(ring_seq=50_000)
    assert cluster.reap(1) == 1
    assert {frame[0] for frame in peer.heard()} <= {wire.JOIN, wire.BEACON}
    assert (cluster.state(1) / RECORD).read_bytes() == stored


def test_a_ring_that_could_be_recorded_is_spoken_of(cluster: LocalCluster, peer: Peer) -> None:
    cluster.start([1])
    cluster.wait_for_ring([1])
    peer.propose(ring_seq=50_000)
    wait_for("a commit token", lambda: wire.COMMIT in {frame[0] for frame in peer.heard()})
    assert decode_record((cluster.state(1) / RECORD).read_bytes()).ring_seq > 50_000


def test_a_log_that_cannot_be_written_does_not_stop_a_daemon(cluster: LocalCluster) -> None:
    cluster.start([1])
    cluster.wait_for_ring([1])
    fill_disk(cluster)
    cluster.start([2])
    cluster.wait_for_ring()
    cluster.send(1, 5, "safe")
    cluster.wait_until_delivered(cluster.nodes, 5)
    assert "joined" not in cluster.log(1)
    fill_disk(cluster, resource.RLIM_INFINITY)
    cluster.kill(2)
    cluster.wait_for_ring([1])
    wait_for("the loss to be told", lambda: "before this one are lost)" in cluster.log(1))


def fill_disk(cluster: LocalCluster, room: int = 0) -> None:
    """Let no file of node 1 grow from now on, as on a full disk; or let it again."""
    no_more = (room, resource.RLIM_INFINITY)
    resource.prlimit(cluster.processes[1].pid, resource.RLIMIT_FSIZE, no_more)


# A clock that is wrong


def test_a_life_is_named_later_than_the_one_before_whatever_the_clock_says() -> None:
    stored = StableRecord(8, 1_000_000)
    assert next_incarnation(stored, 1_000_000 + HOUR_MS) == 1_000_000 + HOUR_MS
    assert next_incarnation(stored, 1_000_000 - HOUR_MS) == 1_000_001
    assert next_incarnation(StableRecord(0, 0), 5) == 5


def test_a_restart_after_the_clock_went_back_an_hour_is_a_later_life(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 20)
        cluster.wait_until_delivered(cluster.nodes, 60)
        cluster.kill(2)
        path = cluster.state(2) / RECORD
        before = decode_record(path.read_bytes())
        ahead = before._replace(incarnation=before.incarnation + HOUR_MS)
        path.write_bytes(encode_record(ahead))  # as if that life had begun an hour later
        cluster.start([2])
        cluster.wait_for_ring()
        assert cluster.status(2)["incarnation"] == ahead.incarnation + 1
        cluster.send(2, 10, "safe")
        cluster.wait_until_quiet(cluster.nodes)
        cluster.check_history()


# Tells another hour each time it is asked, one ahead and one behind in turn.
MAD_CLOCK: Final = """
import itertools, runpy, sys, time
true_ns, turn = time.time_ns, itertools.cycle([3600, -3600])
time.time_ns = lambda: true_ns() + next(turn) * 10**9
time.time = lambda: time.time_ns() / 1e9
sys.argv = sys.argv[3:]
runpy.run_module("evensong.cli.main", run_name="__main__")
"""


def test_a_clock_that_is_stepped_by_an_hour_does_not_disturb_a_ring(tmp_path: Path) -> None:
    prefixes = [(), (sys.executable, "-c", MAD_CLOCK), ()]
    with LocalCluster(tmp_path, 3, prefixes=prefixes) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 20, "safe")
        cluster.wait_until_delivered(cluster.nodes, 60)
        cluster.check_history()
