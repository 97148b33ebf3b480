"""A disk that is really full; `make test-net` runs it, as root, for it mounts one of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from evensong.core.stable import decode_record, encode_record
from tests.daemon.local import LocalCluster

pytestmark = pytest.mark.skipif(bool(os.geteuid()), reason="to mount a small disk takes root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Write until nothing more fits."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4_096))
    assert os.statvfs(disk).f_bavail == 0
    return filler


def test_who_cannot_record_a_ring_stops_and_the_others_go_on(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "cluster").mkdir()
    with LocalCluster(tmp_path / "cluster", 3) as cluster:
        cluster.state(2).rmdir()
        cluster.state(2).symlink_to(small_disk)
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 20, "safe")
        cluster.wait_until_delivered(cluster.nodes, 60)
        filler = fill(small_disk)
        leap_ahead(cluster, 3)
        assert cluster.reap(2) == 1
        reason = "stopped: the ring's record cannot be stored: No space left on device"
        assert reason in cluster.log(2)
        cluster.wait_for_ring([1, 3])
        cluster.send(1, 10, "safe")
        cluster.wait_until_quiet([1, 3])
        filler.unlink()
        cluster.start([2])
        cluster.wait_for_ring()
        cluster.send(2, 10)
        cluster.wait_until_quiet(cluster.nodes)
        cluster.check_history()


def leap_ahead(cluster: LocalCluster, node: int) -> None:
    """Restart a daemon with ring numbers beyond what anybody has on record."""
    cluster.kill(node)
    path = cluster.state(node) / "ring.record"
    record = decode_record(path.read_bytes())
    path.write_bytes(encode_record(record._replace(ring_seq=record.ring_seq + 50_000)))
    cluster.start([node])
