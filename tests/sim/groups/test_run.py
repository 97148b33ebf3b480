"""Runs with clients: the same everywhere, every promise relevant, and what breaks is told."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from evensong.core.ids import RingId
from evensong.errors import InvariantBroken
from evensong.sim import evs
from evensong.sim.campaign import Done, Task
from evensong.sim.groups.acts import JOIN, SEND, Act, Clients
from evensong.sim.groups.draw import draw
from evensong.sim.groups.facts import Facts
from evensong.sim.groups.replica import Log, Moment, Moments
from evensong.sim.groups.run import HAPPENINGS, PROMISES, Seats, run_setup
from evensong.sim.run import Outcome, Run
from evensong.sim.setup import Options, Setup, setup_from_json, setup_to_json
from evensong.sim.shrink import shrink
from evensong.sim.swarm import swarm
from evensong.sim.tally import Tally

SEEDS = range(24)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_setup(draw(seed)) for seed in SEEDS]


def test_every_promise_is_kept(outcomes: list[Outcome]) -> None:
    broken = {seed: outcomes[seed].violations for seed in SEEDS if outcomes[seed].violations}
    assert broken == {}


def test_every_promise_is_about_something(outcomes: list[Outcome]) -> None:
    relevant: Counter[str] = Counter()
    for outcome in outcomes:
        relevant.update(name for name in PROMISES if outcome.statuses[name] is evs.Status.PASS)
    assert set(relevant) == set(PROMISES)
    assert min(relevant.values()) >= len(SEEDS) // 10, relevant


def test_everything_that_should_come_about_does(outcomes: list[Outcome]) -> None:
    happened = Counter([what for outcome in outcomes for what in outcome.happened])
    assert set(happened) == set(HAPPENINGS)


def test_machines_and_faults_are_those_of_the_seed_without_clients() -> None:
    with_clients = draw(5)
    assert replace(with_clients, clients=None) == swarm(5, messages=0)
    assert draw(5, nodes=4).options.nodes == (1, 2, 3, 4)
    clients = draw(5, messages=40).clients
    assert clients is not None
    assert sum(act.count for act in clients.acts if act.kind in ("send", "ask")) == 40


def test_a_run_is_the_same_in_every_process() -> None:
    words = ["evensong.cli.main", "sim", "--seed", "3", "--clients", "--digest"]
    said = {
        subprocess.run(
            [sys.executable, "-m", *words],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "1")
    }
    assert said == {run_setup(draw(3)).digest}


def small(*acts: Act) -> Setup:
    return Setup(Options((1, 2)), clients=Clients(acts))


def test_what_clients_are_told_is_in_the_digest() -> None:
    setup = small(Act(30_000, 1, 0, SEND, ("Ann",)))
    again = small(Act(30_000, 1, 0, SEND, ("Bea",)))
    assert run_setup(setup).digest != run_setup(again).digest
    assert run_setup(setup).digest == run_setup(setup).digest


def test_a_setup_with_clients_is_read_back() -> None:
    setup = draw(8)
    assert setup_from_json(setup_to_json(setup)) == setup


def test_the_command_that_repeats_a_run_says_so() -> None:
    assert Task(7, clients=True).command() == "evensong sim --seed 7 --clients"
    assert Task(7, nodes=3, clients=True).setup() == draw(7, 3)


def test_a_tally_counts_runs_by_promise_and_by_what_came_about() -> None:
    tally = Tally(clients=True)
    for seed in range(2):
        tally.add(Done(Task(seed, clients=True), run_setup(draw(seed, messages=60))))
    plain = json.loads(json.dumps(tally.to_plain()))
    assert plain["properties"]["G3"] == {"pass": 2, "fail": 0, "vacuous": 0, "inconclusive": 0}
    assert set(plain["happened"]) == set(HAPPENINGS)
    assert plain["happened"]["joins"] == 2
    assert "happened" not in Tally().to_plain()


class Forgetful(Seats):
    """Clients one of which loses an entry of its state at the end."""

    def finish(self, calm_at: int) -> None:
        for process in self.crowd.all()[:1]:
            for replica in self.replicas_of(process):
                assert isinstance(replica.state, Log)
                replica.state.restore(b"\n".join(replica.state.entries[1:]))
        super().finish(calm_at)


def broken_by_forgetting(setup: Setup) -> frozenset[str]:
    assert setup.clients is not None
    company = Forgetful(setup, setup.clients)
    run = Run(setup, company.engine, company.crowd, company)
    return frozenset(violation.property_id for violation in run.violations)


def test_a_failing_run_is_shrunk_to_the_clients_that_matter() -> None:
    joins = [Act(1_000 * node, node, 0, JOIN, ("Ann",)) for node in (1, 2)]
    talk = [Act(30_000 + 100 * n, 1 + n % 2, n % 3, SEND, ("Ann", "cid"), 50, 2) for n in range(12)]
    setup = small(*joins, *talk)
    assert "S2" in broken_by_forgetting(setup)
    found = shrink(setup, "S2", broken_by_forgetting, 300)
    assert found.clients is not None
    assert len(found.clients.acts) == 2
    assert {act.node for act in found.clients.acts} == {1, 2}
    assert min(act.size for act in found.clients.acts) == 0


def test_kin_that_differ_at_one_place_are_told() -> None:
    moments = Moments(Facts())
    place = (RingId(4, 1), 7, 0)
    one, two, three = (1, 1, 1), (2, 1, 1), (3, 1, 1)
    moments.add("Ann", place, Moment(one, frozenset([one, two]), 5))
    moments.add("Ann", place, Moment(three, frozenset([three]), 6))
    moments.add("Bea", place, Moment(two, frozenset([one, two]), 6))
    with pytest.raises(InvariantBroken, match=r"S1: .* differ in group Ann"):
        moments.add("Ann", place, Moment(two, frozenset([one, two]), 6))


class Restless(Seats):
    """Clients that always want to say something more."""

    def is_quiet(self) -> bool:
        for process in self.crowd.all():
            self.crowd.wake(process)
        return super().is_quiet()


def test_a_run_that_does_not_come_to_rest_says_who_is_not_at_rest() -> None:
    setup = small(Act(30_000, 1, 0, SEND, ("Ann",)), Act(30_000, 2, 0, SEND, ("Ann",)))
    assert setup.clients is not None
    company = Restless(setup, setup.clients)
    run = Run(setup, company.engine, company.crowd, company)
    (violation,) = run.violations
    assert violation.property_id == "I15"
    assert "#c0#1#" in violation.text
    assert "is about to speak" in violation.text
