"""What a memoir keeps of a run is what happened in it."""

from functools import cache

import pytest

from evensong.core.effects import Service
from evensong.core.transis.frames import JOIN
from evensong.sim.campaign import load_setup
from evensong.sim.run import digest_of, run_recorded
from evensong.sim.setup import Setup
from evensong.sim.transis.memoir import (
    FAILS,
    OPEN,
    Entrance,
    Memoir,
    Name,
    Post,
    Receipt,
    Turn,
    recall,
)
from evensong.sim.transis.swarm import swarm

TWO_AT_ONCE = "docs/protocols/two-at-once.json"
SEEDS = (0, 5)  # with crashes, all services, and messages that are left when a view ends


@cache
def setup_of(seed: int) -> Setup:
    return swarm(seed, 4, 60)


@cache
def memoir_of(seed: int) -> Memoir:
    return recall(setup_of(seed))[0]


def follows(memoir: Memoir, later: Name, earlier: Name) -> bool:
    """Whether one message follows another or is it, read off the acknowledgements alone."""
    waiting, seen = [later], set()
    while waiting:
        name = waiting.pop()
        if name == earlier:
            return True
        if name in seen or name.number < 1:
            continue
        seen.add(name)
        acks = memoir.posts[name].node.message.acks
        waiting += [Name(name.view_id, *ack) for ack in acks]
        waiting.append(name._replace(number=name.number - 1))
    return False


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_recalled_is_the_same_run(seed: int) -> None:
    _, run = recall(setup_of(seed))
    outcome, history = run_recorded(setup_of(seed))
    assert digest_of(run.history) == outcome.digest == digest_of(history)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_delivery_among_several_is_kept_with_its_time(seed: int) -> None:
    memoir = memoir_of(seed)
    _, history = run_recorded(setup_of(seed))
    told = {
        (life.node, row.unit_id, row.t_us, row.service, row.seq, row.reduced)
        for life in history.lives.values()
        for row in life.deliveries
        if len(life.confs[row.conf_no].members) > 1
    }
    kept = {
        (
            one.proc,
            memoir.posts[one.name].node.unit_id,
            one.at_us,
            one.service,
            one.place,
            one.reduced,
        )
        for one in memoir.happenings
        if isinstance(one, Receipt)
    }
    assert kept == told
    assert kept


@pytest.mark.parametrize("seed", SEEDS)
def test_views_starts_and_crashes_are_kept_in_order(seed: int) -> None:
    memoir = memoir_of(seed)
    _, history = run_recorded(setup_of(seed))
    views = sorted(
        (event.t_us, life.node, event.conf.conf_id)
        for life in history.lives.values()
        for event in life.events
        if event.conf is not None and not event.conf.transitional
    )
    entrances = [one for one in memoir.happenings if isinstance(one, Entrance)]
    assert sorted((one.at_us, one.proc, one.conf.conf_id) for one in entrances) == views
    crashes = sum(life.ended == "fail" for life in history.lives.values())
    turns = [one for one in memoir.happenings if isinstance(one, Turn)]
    assert sum(one.what == FAILS for one in turns) == crashes
    serials = [one.serial for one in memoir.happenings]
    assert serials == sorted(set(serials))
    times = [one.at_us for one in memoir.happenings]
    assert times == sorted(times)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_vote_is_the_first_message_of_a_member_that_follows(seed: int) -> None:
    memoir = memoir_of(seed)
    ordered = [name for name in memoir.posts if memoir.is_ordered(name)][:12]
    assert ordered
    first_joins: dict[tuple[object, int], int] = {}
    for one in sorted(memoir.posts, reverse=True):
        if memoir.posts[one].node.message.kind == JOIN:
            first_joins[one.view_id, one.proc] = one.number
    for name in ordered:
        expected: dict[int, Name] = {}
        for one in sorted(memoir.posts):
            is_early = one.number <= first_joins.get((one.view_id, one.proc), one.number)
            is_first = one.view_id == name.view_id and one.proc not in expected
            if is_first and is_early and follows(memoir, one, name):
                expected[one.proc] = one
        assert memoir.votes(name) == expected


@pytest.mark.parametrize(("seed", "allack"), [(0, 0), (5, 0), (2, 1)])
def test_votes_decide_when_more_than_half_have_spoken_and_allack_when_all_have(
    seed: int, allack: int
) -> None:
    memoir = memoir_of(seed)
    assert setup_of(seed).options.lansis.allack == allack
    candidates = {
        memoir.name_of(node): [memoir.name_of(one) for one in found.candidates]
        for view_id in memoir.graphs
        for found in memoir.rounds(view_id)
        for node in found.chosen
    }
    decided = [
        one
        for one in memoir.happenings
        if isinstance(one, Receipt) and one.place and one.inserted and not one.after_gap
    ]
    assert decided
    for one in decided:
        size = len(memoir.graphs[one.name.view_id].members)
        heard, spoken = memoir.heard(one), memoir.spoken(one, candidates[one.name])
        assert one.name.proc in heard
        assert set(heard) <= set(spoken)
        assert len(spoken) == size if allack or size <= 2 else len(spoken) > size // 2
        # Where an even number is divided, half of all votes may do for each of two.
        assert allack or len(heard) >= size - size // 2
        if one.service is Service.SAFE and not one.reduced:
            assert len(heard) == size


def test_two_messages_at_once_are_ordered_by_who_was_heard_first() -> None:
    memoir, run = recall(load_setup(TWO_AT_ONCE))
    assert not run.violations
    agreed = [
        post.name
        for post in memoir.posts.values()
        if post.node.unit_id.sender and post.node.message.service is Service.AGREED
    ]
    first, second = agreed
    assert (first.proc, second.proc) == (1, 2)
    assert memoir.votes(first)[3] < memoir.votes(second)[3], "p3 heard of p1's message first"
    rounds = memoir.rounds(first.view_id)
    chosen = [[memoir.name_of(node) for node in one.chosen] for one in rounds]
    assert chosen[:2] == [[first], [second]]
    assert [memoir.name_of(node) for node in rounds[0].candidates] == [first, second]


def test_who_was_a_candidate_is_kept_until_it_was_chosen() -> None:
    memoir, _ = recall(load_setup(TWO_AT_ONCE))
    agreed = [name for name in memoir.posts if memoir.is_ordered(name)]
    for name, proc in ((agreed[0], 1), (agreed[1], 1), (agreed[0], 3)):
        since, until = memoir.candidacies[name, proc]
        delivered = [
            one.at_us
            for one in memoir.happenings
            if isinstance(one, Receipt) and (one.proc, one.name) == (proc, name)
        ]
        assert since < until == delivered[0]
        assert until != OPEN
    posts = [one for one in memoir.happenings if isinstance(one, Post)]
    assert memoir.candidacies[agreed[0], 1][0] == memoir.posts[agreed[0]].at_us
    assert len(posts) == len(memoir.posts)
