"""A daemon that belongs to a program."""

import doctest
import os
from pathlib import Path

import pytest

import evensong
import evensong.node
import evensong.sync
from evensong.core.engine import ENGINES
from evensong.daemon.control import ask
from evensong.errors import BadSettings, CannotStart, Unreachable
from tests.daemon.local import LocalCluster


def test_the_example_runs() -> None:
    result = doctest.testmod(evensong.node, extraglobs={"evensong": evensong})
    assert result.attempted
    assert not result.failed


def test_it_ends_with_the_block_and_leaves_nothing() -> None:
    with evensong.Node() as node:
        state = Path(node.address.removeprefix("unix://")).parent
        with evensong.sync.connect(node.address) as es:
            assert es.message_max == 16 * 2**20
        pid = node.pid
    assert not state.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_it_runs_the_engine_that_is_named(engine: str) -> None:
    with evensong.Node(engine=engine) as node:
        state = Path(node.address.removeprefix("unix://")).parent
        assert ask(state, {"do": "status"})["engine"] == engine
        with evensong.sync.connect(node.address) as es:
            assert es.send("orders", b"buy 5").safe().members == (1,)


def test_an_engine_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="engine: is for a daemon without settings"):
        evensong.Node(tmp_path / "n1.toml", engine="transis")
    with pytest.raises(BadSettings, match="engine"), evensong.Node(engine="paxos"):
        pass


def test_settings_that_cannot_work_are_told(tmp_path: Path) -> None:
    config = tmp_path / "n1.toml"
    config.write_text('cluster = "x"\nnode = 1\nstate = "n1"\ninsecure = true\n')
    with pytest.raises(BadSettings), evensong.Node(config):
        pass
    config.write_text(
        'cluster = "x"\nnode = 1\nstate = "n1"\ninsecure = true\n[peers]\n1 = "203.0.113.9:1"\n'
    )
    (tmp_path / "n1").mkdir()
    with pytest.raises(CannotStart), evensong.Node(config):
        pass


def test_another_daemon_with_the_same_settings_is_not_taken_for_ours(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        with (
            pytest.raises(CannotStart, match="another daemon uses it"),
            evensong.Node(cluster.config(1)),
        ):
            pass
        assert cluster.wait_for_ring()


def test_before_the_block_there_is_no_daemon() -> None:
    node = evensong.Node()
    with pytest.raises(Unreachable, match="within the block"):
        print(node.pid)
    with pytest.raises(Unreachable, match="within the block"):
        print(node.address)
