"""Each kind of fault in a broadcast domain, and what `why` makes of it: views, not rings."""

import pytest

from evensong.sim.faults import Crash, Cut, Heal, Leave, Lossy, Partition, Pause, Plan, Restart
from evensong.sim.network import DROP
from evensong.sim.setup import TRANSIS
from evensong.why import Account, explain, from_history, story
from evensong.why.causes import KINDS
from evensong.why.recorder import from_entries
from tests.sim.transis.stage import Stage
from tests.why.scribe import Scribe, view_of_three
from tests.why.test_causes import EVERYBODY, MS, simulated, told, without

CASES: dict[str, tuple[tuple[int, ...], Plan, list[tuple[tuple[int, ...], list[str]]]]] = {
    "a crash": (
        (1, 2, 3),
        (Crash(50 * MS, 2),),
        [((1, 3), ["killed 2"])],
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
        [((1, 3), ["killed 2"]), ((1, 2, 3), ["restart 2"])],
    ),
    "a suspension": (
        (1, 2, 3),
        (Pause(50 * MS, 2, 100 * MS),),
        [
            ((2,), ["late 2", "apart 1", "apart 3"]),
            ((1, 3), ["late 2"]),
            ((1, 2, 3), ["merge 1 2 3"]),
        ],
    ),
    "a partition and its end": (
        (1, 2, 3, 4, 5),
        (Partition(50 * MS, ((1, 2), (3, 4, 5))), Heal(300 * MS)),
        [
            ((3, 4, 5), ["partition 1 2 3 4 5"]),
            ((1, 2), ["partition 1 2 3 4 5"]),
            ((1, 2, 3, 4, 5), ["merge 1 2 3 4 5"]),
        ],
    ),
    "one hears nobody": (
        (1, 2, 3),
        (Cut(50 * MS, EVERYBODY, 2),),
        [
            ((1, 2), ["one-way 2 3"]),
            ((2,), ["one-way 1 2 3"]),
            ((3,), ["one-way 2 3"]),
        ],
    ),
    "one does not hear another": (
        (1, 2, 3),
        (Cut(50 * MS, 1, 2),),
        [((2, 3), ["one-way 1 2"]), ((1,), ["one-way 1 2"])],
    ),
    "a burst of loss that is repaired": (
        (1, 2, 3),
        (Lossy(50 * MS, EVERYBODY, EVERYBODY, 1.0, 17 * MS),),
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause_of_each_change_is_named(name: str) -> None:
    nodes, plan, expected = CASES[name]
    accounts = from_history(simulated(nodes, plan, 500, engine=TRANSIS))
    written = {id(record) for account in accounts for record in account.records}
    first, *later = explain(accounts)
    assert told(first) == [" ".join(["start", *map(str, nodes)])]
    found = [(change.ring.members, told(change)) for change in later if change.ring is not None]
    assert found[: len(expected)] == expected
    assert found or not expected
    for change in (first, *later):
        assert not any("ring" in line.split() or "token" in line for line in story(change))
        for cause in change.causes:
            assert cause.kind in KINDS
            assert cause.records
            assert {id(record) for record in cause.records} <= written


def test_a_change_has_its_phases_and_whom_each_gave_up_why() -> None:
    plan = (Crash(50 * MS, 2), Crash(80 * MS, 4))
    _, change = explain(simulated((1, 2, 3, 4), plan, engine=TRANSIS))
    for way in change.passages:
        assert list(way.phases_us()) == ["agree"]
        assert [(one.node, one.cause, one.by) for one in way.gave_up][-1] == (4, "agree timeout", 0)
        assert way.attempts() == 2
    lines = story(change)
    assert "gave up n2 (silent); gave up n4 (agree timeout); proposed 2 times" in lines[3]


def test_what_was_collected_before_a_join_is_told() -> None:
    plan = (Partition(50 * MS, ((1,), (2, 3))), Heal(300 * MS))
    merge = explain(simulated((1, 2, 3), plan, 500, engine=TRANSIS))[-1]
    (cause,) = merge.causes
    assert "heard a foreign message of n" in cause.sentence
    for way in merge.passages:
        assert way.collected is not None
        phases = way.phases_us()
        assert list(phases) == ["collect", "agree"]
        assert phases["agree"] == way.took_us()


def test_who_kept_the_window_full_is_named() -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    stage.rule(DROP, "regular", 1, 3)
    stage.rule(DROP, "retr", 0, 3)
    stage.send(1, *map(str, range(100)))
    stage.run(300 * MS)
    changes = [one for one in explain(stage.history) if one.ring and one.ring.members == (1, 2)]
    assert told(changes[0])[0] == "deaf 3"
    assert changes[0].causes[0].sentence == (
        "n3 did not acknowledge what the others had sent, and kept the window full"
    )


def explained(*scribes: Scribe) -> list[str]:
    accounts: list[Account] = [
        from_entries(scribe.entries, "a recorder").account for scribe in scribes
    ]
    return story(explain(accounts)[-1])


def test_silence_is_told_with_its_probes() -> None:
    one, two, _ = view_of_three()
    for scribe in (one, two):
        scribe.proposes("silent", 3, failed="3", heard="1:20000 2:20000 3:251000")
        scribe.agrees("5.77", 1, 2)
    lines = explained(one, two)
    assert lines[0] == "change 2: view 5.77 {1,2}, was 3.66 {1,2,3}; without n3"
    assert lines[1] == (
        "  n3 was killed or cut off; n1 had not heard it for 251 ms, nor had it answered when it "
        "was probed, when it gave it up"
    )


def test_who_was_heard_elsewhere_was_not_killed() -> None:
    one, two, _ = view_of_three()
    one.proposes("is in another view", 3, failed="3", heard="2:20000 3:50")
    two.proposes("join message", 1, failed="3", heard="1:50 3:20000")
    for scribe in (one, two):
        scribe.agrees("5.77", 1, 2)
    assert explained(one, two)[1] == (
        "  n3 went on without them: n1 heard of it (is in another view)"
    )


def test_whose_past_could_not_be_repaired_is_named() -> None:
    one, two, _ = view_of_three()
    for scribe in (one, two):
        scribe.proposes("left", 4, proposed="1 2 3", heard="3:50")
        scribe.waits(400_000)
        scribe.proposes("its past is lost", 3, failed="3", heard="3:50")
        scribe.agrees("5.77", 1, 2)
    lines = explained(one, two)
    assert lines[1] == ("  n3 refers to messages that the others lack, and nobody could send again")


def test_a_join_that_only_others_sent_again_is_no_hearing() -> None:
    def gave_up(how: str) -> str:
        one, two, three = view_of_three()
        two.proposes("silent", 1, failed="1", heard="1:251000 3:50")
        two.agrees("5.77", 2, 3)
        three.proposes("join message", 2, failed="1", heard="1:50 2:50")
        three.agrees("5.77", 2, 3)
        one.proposes(f"accused me{how}", 2, failed="2 3", heard="2:90000 3:50")
        one.agrees("5.88", 1)
        return explained(two, three, one)[1]

    assert gave_up("").startswith("  one way only: n2 does not hear n1, though n1 hears n2")
    assert "one way" not in gave_up(", sent again")


def test_without_its_own_record_a_node_is_said_to_be_killed_or_cut_off() -> None:
    accounts = from_history(simulated((1, 2, 3), (Crash(50 * MS, 2),), engine=TRANSIS))
    change = explain(without(accounts, 2))[1]
    assert told(change) == ["silent 2"]
    assert change.unknown == ("n2's recorder is not here",)
