"""The promises to clients: one clean history, and a history that breaks each."""

import pytest

from evensong.sim.evs.groups import GROUP_PROPERTIES, check_groups
from evensong.sim.evs.verdict import Status
from evensong.sim.groups.draw import draw, with_clients
from evensong.sim.groups.run import run_recorded
from evensong.sim.transis.swarm import swarm as domain
from tests.sim.group_cases import CASES, CLEAN, Case
from tests.sim.group_language import story
from tests.sim.group_sides import SIDES, in_a_domain


def test_a_clean_history_makes_every_promise_relevant_and_keeps_it() -> None:
    verdicts = check_groups(story(CLEAN))
    assert {name: one.status for name, one in verdicts.by_property.items()} == dict.fromkeys(
        GROUP_PROPERTIES, Status.PASS
    ), verdicts.explain()


@pytest.mark.parametrize("broken", CASES, ids=lambda one: one.name)
def test_what_is_broken_is_found_and_nothing_else(broken: Case) -> None:
    verdicts = check_groups(story(broken.text))
    assert set(verdicts.failed) == broken.fails, verdicts.explain()


def status_of(text: str, name: str) -> tuple[Status, int]:
    verdict = check_groups(story(text))[name]
    return verdict.status, verdict.n_unknown


def test_every_promise_has_a_case_that_breaks_nothing_else() -> None:
    alone = {name for one in CASES for name in one.fails if len(one.fails) == 1}
    assert alone == set(GROUP_PROPERTIES)


def test_who_was_hung_up_on_misses_what_came_later_and_nothing_before() -> None:
    assert "close slow consumer" in CLEAN
    lost = CLEAN.replace("say m3, m1, m2, m4, close", "say m3, m1, m4, close")
    assert status_of(lost, "G3")[0] is Status.FAIL
    early = CLEAN.replace("say m3, m1, m2, m4, close", "say m3, m1, close")
    assert status_of(early, "G3")[0] is Status.PASS


def test_what_a_killed_daemon_may_have_told_is_unknown() -> None:
    killed = CLEAN.replace("m1, m2, m4, close slow consumer", "m1, m2") + "end r open"
    assert status_of(killed, "G3") == (Status.INCONCLUSIVE, 1)
    assert status_of(killed, "G6")[0] is Status.PASS


def test_a_send_that_a_killed_daemon_may_have_made_is_unknown() -> None:
    killed = CLEAN.replace("r.1: v3, say m3,", "r.1: v3,") + "end r open"
    assert status_of(killed, "G6") == (Status.INCONCLUSIVE, 2)


def test_members_without_a_trace_are_unknown() -> None:
    alone = "\n".join(line for line in CLEAN.splitlines() if "r.1: v3" not in line)
    status, n_unknown = status_of(alone, "G3")
    assert (status, n_unknown) == (Status.INCONCLUSIVE, 1)


def test_a_life_whose_groups_are_not_whole_is_not_judged() -> None:
    history = story(CLEAN.replace("m1, m2, m4, close", "m2, m1, m4, close"))
    assert check_groups(history).failed
    history.lives[3, 1].has_groups = False
    assert not check_groups(history).failed


def test_a_life_that_recorded_views_alone_counts_for_them() -> None:
    history = story(CLEAN)
    life = history.lives[3, 1]
    life.heard.clear()
    life.said.clear()
    life.events[:] = [
        event._replace(aux=tuple(pair for pair in event.aux if pair[0] != "at"))
        for event in life.events
        if event.etype != "dest"
    ]
    verdicts = check_groups(history)
    assert not verdicts.failed, verdicts.explain()
    assert verdicts["G1"].n_checked == check_groups(story(CLEAN))["G1"].n_checked


@pytest.mark.parametrize("seed", [0, 3, 41])
def test_runs_with_clients_keep_every_promise_on_record(seed: int) -> None:
    outcome, history = run_recorded(draw(seed))
    assert not outcome.violations
    verdicts = check_groups(history)
    assert not verdicts.failed, verdicts.explain()
    assert not verdicts.n_unknown
    assert {"G2", "G3", "G4", "G7", "G8"} <= set(verdicts.having(Status.PASS))


@pytest.mark.parametrize("broken", CASES, ids=lambda one: one.name)
def test_a_broadcast_domain_breaks_the_same_by_the_same(broken: Case) -> None:
    verdicts = check_groups(in_a_domain(story(broken.text)))
    assert set(verdicts.failed) == broken.fails, verdicts.explain()


def test_a_clean_history_is_clean_in_a_broadcast_domain() -> None:
    verdicts = check_groups(in_a_domain(story(CLEAN)))
    assert {one.status for one in verdicts.by_property.values()} == {Status.PASS}


@pytest.mark.parametrize("name", SIDES)
def test_each_side_of_a_partition_has_places_of_its_own(name: str) -> None:
    make, about, is_broken = SIDES[name]
    assert (about in check_groups(make()).failed) is is_broken


# p and q answer each other by what is not ordered; what is basic comes to p before its cause.
LOOSE = (
    CLEAN.replace(
        "m8: p.1 to b at S/3\n",
        "m8: p.1 to b at S/3\n"
        "    c1: p.1 to a at S/0 causal\n"
        "    c2: q.1 to a at S/0 causal\n"
        "    b1: q.1 to a at S/0 basic\n"
        "    u3: a at S/9 {p.1 q.1} disconnect r.1 stayed p.1 q.1\n",
    )
    .replace("say m8, m8\n", "say m8, m8, say c1, c1, b1, c2, u3\n")
    .replace("m7, m8\n", "m7, m8, c1, say c2, c2, say b1, b1, u3\n")
)


@pytest.mark.parametrize(
    ("old", "new", "fails"),
    [
        ("", "", set()),
        ("m8, c1, say", "m8, say", {"G2"}),  # one of two who come to u3 together lacks it
        ("c1, b1, c2, u3", "c1, c2, u3", set()),  # what is basic need not be before u3
        ("say c1, c1, b1, c2", "say c1, c2, c1, b1", {"G8"}),  # an answer before its question
        ("say c1, c1,", "say c1, c1, c1,", {"G6"}),
        ("m8, c1, say c2", "c1, m8, say c2", {"G5", "G8"}),  # p had sent, and been told, m8
        ("say c1, c1,", "say c1, c1 misnamed,", {"G7"}),
    ],
)
def test_what_is_not_ordered_is_held_against_what_is_promised_of_it(
    old: str, new: str, fails: set[str]
) -> None:
    assert not old or LOOSE.count(old) == 1
    verdicts = check_groups(in_a_domain(story(LOOSE.replace(old, new))))
    assert set(verdicts.failed) == fails, verdicts.explain()


def test_who_is_under_the_last_view_is_asked_for_what_is_causal() -> None:
    resting = LOOSE.replace(", u3\n", "\n")
    assert not check_groups(in_a_domain(story(resting))).failed
    lacking = resting.replace("m8, c1, say", "m8, say")
    assert set(check_groups(in_a_domain(story(lacking))).failed) == {"G3"}


@pytest.mark.parametrize("seed", [2, 4])
def test_a_run_of_the_second_engine_keeps_every_promise_to_clients(seed: int) -> None:
    _, history = run_recorded(with_clients(domain(seed, None, 0), None))
    verdicts = check_groups(history)
    assert {one.status for one in verdicts.by_property.values()} == {Status.PASS}, (
        verdicts.explain()
    )
