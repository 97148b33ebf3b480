"""What is read off traces of a demonstration, on histories made by hand."""

import pytest

from evensong.core.effects import Deliver, Service, StateChange
from evensong.core.ids import Configuration, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.core.unit import UnitId, encode_unit
from evensong.demo.clerks import Book, Wait
from evensong.demo.findings import (
    ViewChange,
    are_equal,
    last_ring,
    latencies,
    percentile,
    view_changes,
)
from evensong.demo.play import Act, Record
from evensong.sim.history import History, Life

ALL = RingId(4, 1)
WITHOUT_3 = RingId(8, 1)
AGAIN = RingId(12, 1)
KILL = Act("kill", "n3 was killed", 1_000, 2_000)


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([7], 50) == percentile([7], 99) == 7
    values = list(range(1, 101))
    assert (percentile(values, 50), percentile(values, 99)) == (50, 99)


def record(*acts: Act, waits: tuple[Wait, ...] = (), stopped_us: int = 10_000) -> Record:
    return Record((1, 2, 3), 3, list(acts), list(waits), [], stopped_us, "")


def test_latency_is_of_what_was_delivered_before_anything_broke() -> None:
    waits = (
        Wait("safe", 100, 30),
        Wait("agreed", 100, 10),
        Wait("agreed", 200, 20),
        Wait("agreed", 990, 500),  # it waited for the ring without the one that was killed
        Wait("agreed", 2_000, 5),
    )
    found = latencies(record(KILL, waits=waits))
    assert list(found) == ["agreed", "safe"]
    assert found["agreed"] == (2, 10, 20)
    assert found["safe"] == (1, 30, 30)


def test_ledgers_are_equal_if_every_node_has_the_same() -> None:
    one, two = (Book(node, 9, "same", 0, 0, 0) for node in (1, 2))
    assert are_equal([one, two], (1, 2))
    assert not are_equal([one, two._replace(digest="other")], (1, 2))
    assert not are_equal([one], (1, 2))
    assert not are_equal([], ())


def ring(life: Life, conf_id: RingId, members: tuple[int, ...], noticed: int, at: int) -> None:
    """Let a life lose its ring and come into another."""
    life.change_state(StateChange("gather", ALL, "token loss", 0), noticed)
    life.change_state(StateChange("commit", conf_id, "", 0), noticed + 1)
    life.install(Configuration(conf_id, ALL, members, transitional=False, cause="test"), at)


def deliver(life: Life, conf_id: RingId, *numbers: int) -> None:
    messages = [
        RegularMessage(
            1, conf_id, number, Service.AGREED, 0, 0, encode_unit(UnitId(1, 1, number), b"")
        )
        for number in numbers
    ]
    life.deliver(Deliver(conf_id, messages, 0, after_gap=False), 9_000)


def run_with_a_crash() -> History:
    history = History()
    for node in (1, 2, 3):
        life = history.begin(node, 1, 0)
        ring(life, ALL, (1, 2, 3), 100, 200 + node)
        if node == 3:
            life.end("lost", 900)
            continue
        ring(life, WITHOUT_3, (1, 2), 1_300 + node, 1_500 + node)
    return history


def test_a_change_has_its_cause_its_times_and_who_left() -> None:
    *_, last = view_changes(run_with_a_crash(), record(KILL))
    assert last.act is KILL
    assert (last.detect_us, last.recover_us) == (301, 201)
    assert (last.change.noticed_by, last.change.cause) == (1, "token loss")
    assert (last.left, last.joined) == ((3,), ())


def test_who_comes_back_is_new_and_its_act_begins_with_its_life() -> None:
    history = run_with_a_crash()
    again = history.begin(3, 2, 3_400)
    ring(again, AGAIN, (1, 2, 3), 3_400, 3_700)
    for node in (1, 2):
        ring(history.lives[node, 1], AGAIN, (1, 2, 3), 3_500, 3_600)
    restart = Act("restart", "n3 was started again", 3_000, 4_000)
    *_, last = view_changes(history, record(KILL, restart))
    assert last.act is not None
    assert last.act.name == "restart"
    assert (last.left, last.joined) == ((), (3,))
    assert (last.detect_us, last.recover_us) == (0, 300)


def test_a_change_that_nothing_was_done_for_says_so() -> None:
    late = KILL._replace(at_us=5_000, over_us=6_000)
    found = view_changes(run_with_a_crash(), record(late))
    assert [change_of(one) for one in found] == [(ALL, None), (WITHOUT_3, None)]


def test_a_change_that_was_under_way_detects_nothing() -> None:
    amid = KILL._replace(at_us=1_400)
    *_, last = view_changes(run_with_a_crash(), record(amid))
    assert last.act is amid
    assert last.detect_us is None


def test_changes_of_the_stop_are_not_told() -> None:
    found = view_changes(run_with_a_crash(), record(KILL, stopped_us=1_200))
    assert [one.change.conf.conf_id for one in found] == [ALL]


def change_of(one: ViewChange) -> tuple[RingId, Act | None]:
    return one.change.conf.conf_id, one.act


@pytest.mark.parametrize(
    ("orders", "is_equal"), [(((1, 2), (1, 2), (1, 2)), True), (((1, 2), (2, 1), (1, 2)), False)]
)
def test_the_last_ring_of_all_has_equal_orders_or_not(
    orders: tuple[tuple[int, ...], ...], is_equal: bool
) -> None:
    history = History()
    for node, numbers in enumerate(orders, start=1):
        life = history.begin(node, 1, 0)
        ring(life, ALL, (1, 2, 3), 100, 200)
        deliver(life, ALL, *numbers)
    assert last_ring(history, (1, 2, 3)) == (ALL, 2, is_equal)


def test_who_died_is_not_in_the_last_ring() -> None:
    history = run_with_a_crash()
    again = history.begin(3, 2, 3_400)
    again.install(Configuration(AGAIN, ALL, (3,), transitional=False, cause="start"), 3_500)
    assert last_ring(history, (1, 2, 3)) is None
    assert last_ring(history, (1, 2, 3, 4)) is None
