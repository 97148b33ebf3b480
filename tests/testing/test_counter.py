"""The worked example of docs/testing.md: a replicated counter that survives a merge."""

import json

import pytest

from evensong.core.groups.events import View
from evensong.testing import Client, Cluster, Message, cluster
from evensong.testing.client import Event


class Counter:
    """Counts in a group; every member has the same value.

    Sides that were apart have counted apart, so each member's share is kept by itself: of two
    sides' snapshots the larger share of a member is the later one.
    """

    def __init__(self, client: Client, group: str) -> None:
        self.shares: dict[str, int] = {}
        self.client = client
        self.group = group
        client.join(group, state=self)
        client.read_with(self.on_event)

    @property
    def value(self) -> int:
        return sum(self.shares.values())

    def add(self, amount: int) -> None:
        self.client.send(self.group, b"%d" % amount)

    def on_event(self, event: Event) -> None:
        if isinstance(event, Message):
            name = str(event.sender)
            self.shares[name] = self.shares.get(name, 0) + int(event.payload)

    def snapshot(self) -> bytes:
        return json.dumps(self.shares, sort_keys=True).encode()

    def restore(self, snapshot: bytes) -> None:
        self.shares = json.loads(snapshot)

    def merge(self, snapshots: list[bytes]) -> None:
        sides = [json.loads(snapshot) for snapshot in snapshots]
        names = sorted({name for side in sides for name in side})
        self.shares = {name: max(side.get(name, 0) for side in sides) for name in names}


def counters(es: Cluster) -> list[Counter]:
    return [Counter(es.client(node, f"n{node}"), "votes") for node in es.nodes]


@pytest.mark.parametrize("seed", range(10))
def test_a_counter_survives_a_merge(seed: int) -> None:
    es = cluster(3, seed=seed)
    one, two, three = counters(es)
    es.settle()
    one.add(5)
    es.settle()
    es.partition([1, 2], [3])
    es.settle()
    two.add(10)
    three.add(100)
    es.settle()
    assert (one.value, two.value, three.value) == (15, 15, 105)
    es.heal()
    es.settle()
    assert (one.value, two.value, three.value) == (115, 115, 115)


@pytest.mark.parametrize("seed", range(10))
def test_who_comes_later_is_told_the_value(seed: int) -> None:
    es = cluster(3, seed=seed, loss=0.05)
    first, *_ = counters(es)
    es.settle()
    first.add(7)
    es.advance(0.002)
    late = Counter(es.client(3, "late"), "votes")
    first.add(1)
    es.settle()
    assert late.value == first.value == 8
    es.crash(1)
    es.advance(1)
    es.settle()
    assert late.value == 8
    es.restart(1)
    again = Counter(es.client(1, "again"), "votes")
    es.settle()
    assert again.value == 8
    view = again.client.view("votes")
    assert isinstance(view, View)
    assert sorted(member.user for member in view.members) == ["again", "late", "n2", "n3"]
