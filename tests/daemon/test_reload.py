"""Real daemons that take over new peers and keys while they run."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from evensong.daemon.keys import write_new_key
from evensong.errors import BadRequest
from tests.daemon.local import LocalCluster, wait_for

OLD, NEW = "cluster.key", "new.key"


@contextmanager
def traffic(cluster: LocalCluster, nodes: Sequence[int]) -> Iterator[None]:
    """Let these daemons send for as long as the block takes, and all of it arrive."""
    enough = threading.Event()
    broken: list[BaseException] = []

    def send() -> None:
        try:
            while not enough.is_set():
                for node in nodes:
                    if cluster.status(node)["backlog"] == 0:
                        cluster.send(node, 5, "safe" if node == 2 else "agreed")
        except BaseException as error:
            broken.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        enough.set()
        sender.join()
    assert not broken
    cluster.wait_until_quiet(nodes)


def wait_for_more(cluster: LocalCluster, nodes: Sequence[int]) -> None:
    """Wait until each of these has delivered something that was sent after now."""
    before = {node: int(str(cluster.status(node)["delivered"])) for node in nodes}
    wait_for(
        "more deliveries",
        lambda: all(
            int(str(cluster.status(node)["delivered"])) > count + 20
            for node, count in before.items()
        ),
    )


def views(cluster: LocalCluster, nodes: Sequence[int]) -> list[object]:
    return [(status["ring"], status["configurations"]) for status in map(cluster.status, nodes)]


def reload(cluster: LocalCluster, node: int) -> list[str]:
    changed = cluster.ask(node, do="reload")["changed"]
    assert isinstance(changed, list)
    return changed


def test_a_fourth_node_is_added_under_traffic(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 4) as cluster:
        three = [1, 2, 3]
        for node in three:
            cluster.configure(node, peers=three)
        cluster.start(three)
        cluster.wait_for_ring(three)
        before = views(cluster, three)
        with traffic(cluster, three):
            for node in three:
                cluster.configure(node)
                address = f"{cluster.hosts[0]}:{cluster.ports[3]}"
                assert reload(cluster, node) == [f"peer 4 at {address} added"]
                wait_for_more(cluster, three)
            assert views(cluster, three) == before
            cluster.start([4])
            cluster.wait_for_ring()
            wait_for_more(cluster, cluster.nodes)
        cluster.send(4, 10)
        cluster.wait_until_quiet(cluster.nodes)
        history = cluster.check_history()
        for life in history.lives.values():
            assert life.ended != "stop"


def test_a_node_is_removed_once_it_is_gone(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        cluster.configure(1, peers=[1, 2])
        with pytest.raises(BadRequest, match="node 3 is in the ring now; stop its daemon first"):
            reload(cluster, 1)
        known = cluster.status(1)["peers"]
        assert isinstance(known, dict)
        assert list(known) == ["2", "3"]
        cluster.signal(3, signal.SIGTERM)
        assert cluster.reap(3) == 0
        cluster.wait_for_ring([1, 2])
        assert reload(cluster, 1) == ["peer 3 removed"]
        cluster.start([3])  # it still knows the others, but they are not all its peers
        wait_for("n3 to be refused", lambda: cluster.refused(1, "not a peer") > 0)
        cluster.configure(2, peers=[1, 2])
        cluster.kill(3)
        cluster.wait_for_ring([1, 2])
        reload(cluster, 2)
        cluster.send(1, 10)
        cluster.wait_until_quiet([1, 2])
        cluster.check_history()


def test_keys_rotate_in_three_steps_under_traffic(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        write_new_key(tmp_path / NEW)
        cluster.start()
        cluster.wait_for_ring()
        before = views(cluster, cluster.nodes)
        with traffic(cluster, cluster.nodes):
            for keys in ([OLD, NEW], [NEW, OLD], [NEW]):
                for node in cluster.nodes:
                    cluster.configure(node, keys=keys)
                    assert len(reload(cluster, node)) == 1
                    wait_for_more(cluster, cluster.nodes)
            assert views(cluster, cluster.nodes) == before
        assert [cluster.status(node)["refused"] for node in cluster.nodes] == [{}, {}, {}]
        cluster.configure(1, keys=[OLD])
        reload(cluster, 1)  # a mistake, to see that the keys are what lets them hear each other
        cluster.wait_for_ring([2, 3])
        wait_for("refusals", lambda: cluster.refused(2, "key") > 0)
        cluster.configure(1, keys=[NEW])
        reload(cluster, 1)
        cluster.wait_for_ring()
        cluster.send(1, 10)
        cluster.wait_until_quiet(cluster.nodes)
        cluster.check_history()


def test_sighup_reloads_and_the_log_tells(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        write_new_key(tmp_path / NEW)
        cluster.configure(1, keys=[OLD, NEW])
        cluster.signal(1, signal.SIGHUP)
        wait_for("the log to tell", lambda: "reloaded: accepts keys" in cluster.log(1))
        cluster.config(1).write_text("colour = 1")
        cluster.signal(1, signal.SIGHUP)
        wait_for("the refusal", lambda: "keeps its settings: " in cluster.log(1))
        wait_for("its reason", lambda: "n1.toml: cluster: is missing" in cluster.log(1))
        assert cluster.status(1)["cluster"] == "test"
        cluster.wait_for_ring()


def test_what_cannot_change_is_refused_and_nothing_has_changed(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.start([1])
        cluster.wait_for_ring([1])
        before = cluster.status(1)
        configure = partial(cluster.configure, 1, keys=[NEW, OLD])  # which would be allowed
        write_new_key(tmp_path / NEW)
        for change, told in (
            (partial(configure, cluster="other"), "cluster: cannot change while the daemon runs"),
            (partial(configure, node_id=2), "node: cannot change"),
            (partial(configure, ports=[cluster.ports[0] + 1, 1]), "listen: cannot change"),
            (partial(configure, extra='testing = true\nprofile = "wan"'), "profile"),
            (partial(configure, extra="testing = true\nnode = 1"), "not TOML"),
            (partial(configure, keys=["none.key"]), "keys: .*none.key: No such file"),
            (partial(configure, extra="testing = true\ngso = 1"), "gso: takes one of auto, off"),
        ):
            change()
            with pytest.raises(BadRequest, match=told):
                reload(cluster, 1)
        after = cluster.status(1)
        for key in ("cluster", "node", "listen", "peers", "state", "ring"):
            assert after[key] == before[key]
        configure()
        changed = reload(cluster, 1)
        assert [one.partition(" key")[0] for one in changed] == ["seals with", "accepts"]
        assert reload(cluster, 1) == []
