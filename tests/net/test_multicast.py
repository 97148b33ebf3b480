"""Daemons that speak to a multicast group, on an interface that carries one. Needs root."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from evensong.core.engine import ENGINES
from tests.daemon.local import LocalCluster
from tests.net.network import PREFIX, ip, sweep

NODES = (1, 2, 3)


@pytest.fixture
def namespace() -> Iterator[str]:
    """Yield a namespace with one interface that has addresses for every node."""
    sweep()
    name = f"{PREFIX}-{os.getpid()}-0"
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for device in ("lo", "v0", "v1"):
            ip("-n", name, "link", "set", device, "up")
        for node in NODES:
            ip("-n", name, "addr", "add", f"10.78.0.{node}/24", "dev", "v0")
            ip("-n", name, "addr", "add", f"fd78::{node}/64", "dev", "v0", "nodad")
        yield name
    finally:
        ip("netns", "del", name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("hosts", "group"),
    [
        ([f"10.78.0.{node}" for node in NODES], "239.255.101.7:5999"),
        ([f"[fd78::{node}]" for node in NODES], "[ff15::e5]:5999"),
    ],
)
def test_daemons_of_a_group_form_one_ring(
    tmp_path: Path, namespace: str, hosts: list[str], group: str, engine: str
) -> None:
    with LocalCluster(
        tmp_path,
        len(NODES),
        extra=f'testing = true\nmulticast = "{group}"\nmulticast_interface = "v0"',
        hosts=hosts,
        engine=engine,
        prefixes=[["ip", "netns", "exec", namespace]] * len(NODES),
    ) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        for node in cluster.nodes:
            cluster.send(node, 100)
            cluster.send(node, 10, "safe")
        cluster.wait_until_quiet(cluster.nodes)
        assert [cluster.status(node)["delivered"] for node in cluster.nodes] == [330] * 3
        cluster.kill(3)
        cluster.wait_for_ring([1, 2])
        cluster.send(2, 10)
        cluster.wait_until_quiet([1, 2])
        cluster.check_history()
