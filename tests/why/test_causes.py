"""Each kind of fault in the simulator, and what `why` makes of it. It does not look at the plan."""

import pytest

from evensong.sim.faults import (
    Calm,
    Crash,
    Cut,
    Heal,
    Leave,
    Lossy,
    Partition,
    Pause,
    Plan,
    Restart,
)
from evensong.sim.history import History
from evensong.sim.run import run_recorded
from evensong.sim.setup import TOTEM, Options, Setup
from evensong.sim.workload import Burst
from evensong.why import Account, Change, explain, from_history
from evensong.why.causes import KINDS

MS = 1_000
EVERYBODY = 0

CASES: dict[str, tuple[tuple[int, ...], Plan, list[tuple[tuple[int, ...], list[str]]]]] = {
    "a crash": (
        (1, 2, 3),
        (Crash(50 * MS, 2),),
        [((1, 3), ["killed 2"])],
    ),
    "the representative crashes": (
        (1, 2, 3),
        (Crash(50 * MS, 1),),
        [((2, 3), ["killed 1"])],
    ),
    "two crash at once": (
        (1, 2, 3, 4),
        (Crash(50 * MS, 2), Crash(50 * MS, 4)),
        [((1, 3), ["killed 2", "killed 4"])],
    ),
    "an orderly leave": (
        (1, 2, 3),
        (Leave(50 * MS, 3),),
        [((1, 2), ["left 3"])],
    ),
    "a crash, and a start that is missed": (
        (1, 2, 3),
        (Crash(50 * MS, 2), Restart(150 * MS, 2)),
        [((1, 3), ["killed 2"]), ((1, 2, 3), ["restart 2"])],
    ),
    "a start before anybody missed it": (
        (1, 2, 3),
        (Crash(50 * MS, 2), Restart(52 * MS, 2)),
        [((1, 2, 3), ["restart 2"])],
    ),
    "a suspension": (
        (1, 2, 3),
        (Pause(50 * MS, 2, 100 * MS),),
        [((1, 3), ["late 2"]), ((1, 2, 3), ["late 2", "merge 1 2 3"])],
    ),
    "a partition and its end": (
        (1, 2, 3, 4, 5),
        (Partition(50 * MS, ((1, 2), (3, 4, 5))), Heal(200 * MS)),
        [
            ((1, 2), ["partition 1 2 3 4 5"]),
            ((3, 4, 5), ["partition 1 2 3 4 5"]),
            ((1, 2, 3, 4, 5), ["merge 1 2 3 4 5"]),
        ],
    ),
    "one is cut off": (
        (1, 2, 3),
        (Partition(50 * MS, ((1, 2), (3,))),),
        [((1, 2), ["partition 1 2 3"]), ((3,), ["partition 1 2 3"])],
    ),
    "one is killed, starts again and is cut off": (
        (1, 2, 3, 4, 5),
        (Crash(40 * MS, 3), Restart(100 * MS, 3), Partition(180 * MS, ((1, 2), (3, 4, 5)))),
        [
            ((1, 2, 4, 5), ["killed 3"]),
            ((1, 2, 3, 4, 5), ["restart 3"]),
            ((1, 2), ["partition 1 2 3 4 5"]),
        ],
    ),
    "one hears nobody": (
        (1, 2, 3),
        (Cut(50 * MS, EVERYBODY, 2),),
        [((2,), ["one-way 1 2 3"])],
    ),
    "one does not hear another": (
        (1, 2, 3),
        (Cut(50 * MS, 1, 2),),
        [((2, 3), ["one-way 1 2"])],
    ),
    "a burst of loss takes the token": (
        (1, 2, 3),
        (Lossy(50 * MS, EVERYBODY, EVERYBODY, 1.0, 17 * MS),),
        [((1, 2, 3), ["token 1 2 3"])],
    ),
}


def simulated(nodes: tuple[int, ...], plan: Plan, until: int = 260, engine: str = TOTEM) -> History:
    workload = tuple(Burst(at * MS, nodes[at % len(nodes)]) for at in range(10, until))
    down = tuple(fault.node for fault in plan if isinstance(fault, Crash | Leave))
    calm = Calm(until * MS, down)
    outcome, history = run_recorded(Setup(Options(nodes, engine=engine), (*plan, calm), workload))
    assert not outcome.broken()
    return history


def told(change: Change) -> list[str]:
    return [" ".join([cause.kind, *map(str, cause.nodes)]) for cause in change.causes]


@pytest.mark.parametrize("name", CASES)
def test_the_cause_of_each_change_is_named(name: str) -> None:
    nodes, plan, expected = CASES[name]
    first, *later = explain(simulated(nodes, plan))
    assert first.ring is not None
    assert told(first) == [" ".join(["start", *map(str, nodes)])]
    found = [(change.ring.members, told(change)) for change in later if change.ring is not None]
    assert found[: len(expected)] == expected


@pytest.mark.parametrize("name", CASES)
def test_every_cause_is_backed_by_records_of_those_who_were_there(name: str) -> None:
    nodes, plan, _ = CASES[name]
    accounts = from_history(simulated(nodes, plan))
    written = {id(record) for account in accounts for record in account.records}
    for change in explain(accounts):
        for cause in change.causes:
            assert cause.kind in KINDS
            assert cause.records
            assert {id(record) for record in cause.records} <= written
            assert {record.what for record in cause.records} <= {
                *("start", "state", "conf", "lag", "token", "end")
            }


def test_what_the_plan_did_is_not_looked_at() -> None:
    accounts = from_history(simulated((1, 2, 3), (Pause(50 * MS, 2, 100 * MS),)))
    for account in accounts:
        assert any(record.what == "fault_inject" for record in account.records)
        account.records[:] = [one for one in account.records if one.what != "fault_inject"]
    assert told(explain(accounts)[1]) == ["late 2"]


def without(accounts: list[Account], node: int) -> list[Account]:
    return [account for account in accounts if account.node != node]


def test_whose_record_is_missing_was_killed_or_cut_off_and_nobody_can_tell() -> None:
    accounts = from_history(simulated((1, 2, 3), (Crash(50 * MS, 2),)))
    change = explain(without(accounts, 2))[1]
    assert told(change) == ["silent 2"]
    (cause,) = change.causes
    assert cause.sentence.startswith("n2 was killed or cut off; n3 had delivered nothing of it for")
    assert change.unknown == ("n2's recorder is not here",)


def test_a_record_that_stops_short_was_of_one_that_was_killed() -> None:
    history = simulated((1, 2, 3), (Crash(50 * MS, 2),))
    (life,) = [life for life in history.lives.values() if life.node == 2]
    at_end = life.events.pop().t_us
    life.ended = ""
    life.end("lost", at_end)
    change = explain(history)[1]
    assert told(change) == ["killed 2"]
    assert change.causes[0].sentence.startswith("n2 was killed: its record stops, without a goodb")


def test_a_record_that_stops_before_the_ring_is_still_of_one_that_was_killed() -> None:
    history = simulated((1, 2, 3), (Crash(50 * MS, 2),))
    (life,) = [life for life in history.lives.values() if life.node == 2]
    del life.events[1:]
    life.ended = ""
    life.end("lost", life.events[0].t_us)
    change = explain(history)[1]
    assert told(change) == ["killed 2"]
    assert "stops before its first ring" in change.causes[0].sentence


def test_a_change_has_its_phases_and_times() -> None:
    _, change = explain(simulated((1, 2, 3), (Crash(50 * MS, 2),)))
    assert (change.gone, change.came) == ((2,), ())
    assert change.is_one_clock
    # The token is missed after 15 ms, consensus without the dead one takes another 8.
    assert change.detect_us is not None
    assert 14 * MS < change.detect_us < 16 * MS
    assert change.recover_us is not None
    assert 8 * MS < change.recover_us < 12 * MS
    for way in change.passages:
        phases = way.phases_us()
        assert list(phases) == ["agree", "commit", "recover"]
        assert sum(phases.values()) == way.took_us()
        assert way.token is not None
        assert 14 * MS < way.token.us_before < 16 * MS
        assert [(one.node, one.cause) for one in way.gave_up] == [(2, "consensus timeout")]
        assert set(way.heard()) >= {2}
    one, three = change.passages
    assert one.token is not None
    assert three.token is not None
    assert (one.token.came_from, three.token.came_from) == (3, 2)


def test_whose_word_was_taken_for_a_failure_is_told() -> None:
    change = explain(simulated((1, 2, 3), (Cut(50 * MS, 1, 2),)))[1]
    gave_up = {
        way.node: [(one.node, one.cause, one.by) for one in way.gave_up] for way in change.passages
    }
    assert gave_up == {2: [(1, "consensus timeout", 0)], 3: [(1, "join", 2)]}


def test_times_of_different_clocks_are_not_compared() -> None:
    accounts = from_history(simulated((1, 2, 3), (Crash(50 * MS, 2),)))
    apart = [
        Account(
            account.node,
            account.incarnation,
            account.source,
            f"host {account.node}",
            ended=account.ended,
            records=[
                record._replace(t_us=record.t_us + account.node * 10**9)
                for record in account.records
            ],
        )
        for account in accounts
    ]
    together, change = explain(accounts)[1], explain(apart)[1]
    assert told(change) == told(together) == ["killed 2"]
    assert not change.is_one_clock
    assert change.detect_us is not None
    assert change.detect_us < 20 * MS  # by the clock of whoever noticed, since it heard of n2
    assert change.recover_us is not None
    assert together.recover_us is not None
    assert change.recover_us <= together.recover_us


def test_a_change_that_is_under_way_is_told_last() -> None:
    history = simulated((1, 2, 3), (Crash(50 * MS, 2),))
    for life in history.lives.values():
        gather = next(
            (
                at
                for at, event in enumerate(life.events)
                if event.t_us > 50 * MS and dict(event.aux).get("state") == "gather"
            ),
            None,
        )
        if gather is not None:
            del life.events[gather + 1 :]
            life.ended = ""
    *_, change = explain(history)
    assert change.ring is None
    assert [way.node for way in change.passages] == [1, 3]
    assert change.recover_us is None
