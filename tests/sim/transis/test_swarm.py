import os
import subprocess
import sys

import pytest

from evensong.cli.main import main
from evensong.sim.campaign import Done, Task, broken_by
from evensong.sim.evs import Status
from evensong.sim.faults import Calm
from evensong.sim.run import run_setup, run_unchecked
from evensong.sim.setup import setup_from_json, setup_to_json
from evensong.sim.tally import Tally
from evensong.sim.transis import clients
from evensong.sim.transis.swarm import run, swarm

DIGEST = "from evensong.sim.transis.swarm import run; print(run(%d).digest)"


def test_a_seed_always_decides_the_same_run() -> None:
    assert swarm(5) == swarm(5)
    assert swarm(5) != swarm(6)
    first, second = run(5), run(5)
    assert first.digest == second.digest
    assert first.pairs == second.pairs
    assert first.digest != run(6).digest


def test_looking_on_changes_nothing() -> None:
    assert run_unchecked(swarm(5)).digest == run(5).digest


def test_the_order_of_hashes_decides_nothing() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST % 3]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1


def test_a_setup_from_a_file_gives_the_run_of_its_seed() -> None:
    setup = swarm(7)
    assert setup_from_json(setup_to_json(setup)) == setup
    assert run_setup(setup_from_json(setup_to_json(setup))).digest == run(7).digest
    assert broken_by(setup) == frozenset()


def test_runs_differ_in_services_sizes_and_ways_of_ordering() -> None:
    setups = [swarm(seed) for seed in range(60)]
    assert all(isinstance(setup.plan[-1], Calm) for setup in setups)
    assert {setup.options.lansis.allack for setup in setups} == {0, 1}
    assert {len(setup.options.nodes) for setup in setups} == set(range(2, 10))
    assert any(burst.basic and burst.causal for setup in setups for burst in setup.workload)


def test_everybody_speaks_after_the_calm_unless_messages_are_counted() -> None:
    setup = swarm(278)  # where nothing else is ordered while both are up
    last = setup.workload[-len(setup.options.nodes) :]
    assert [burst.node for burst in last] == [*setup.options.nodes]
    assert all(burst.at_us > setup.plan[-1].at_us for burst in last)
    assert run(278).statuses["L7"] is Status.PASS
    assert sum(burst.units for burst in swarm(278, messages=30).workload) == 30


@pytest.mark.parametrize("seed", range(6))
def test_a_few_seeds_keep_every_promise(seed: int) -> None:
    outcome = run(seed)
    assert outcome.violations == ()
    assert outcome.deliveries
    assert outcome.statuses["L7"] is Status.PASS
    assert outcome.counts["L7"].n_checked


def test_a_tally_says_in_how_many_runs_the_order_was_held_against_all_votes() -> None:
    tally = Tally(engine="transis")
    tally.add(Done(Task(2, engine="transis"), run(2)))
    silent = Task(3, messages=0, engine="transis")
    tally.add(Done(silent, run_setup(silent.setup())))
    told = tally.to_plain()
    assert isinstance(told["properties"], dict)
    assert told["properties"]["L7"] == {"pass": 1, "fail": 0, "vacuous": 1, "inconclusive": 0}
    assert told["runs_with_fault_in_change"] == told["runs_with_fault_in_commit_or_recovery"]


def test_the_command_runs_the_engine_and_says_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "--engine", "transis", "--seeds", "0:2", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "every promise kept" in out
    assert "while a view was agreed on" in out
    assert Task(4, engine="transis").command() == "evensong sim --seed 4 --engine transis"


# In 18 one goes on with others who go on without it, in 25 two part that have the same lowest
# member; in 31 one is alone and delivers in its next view within the step that ended the last.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 18, 25, 31])
def test_groups_above_it_keep_every_promise(seed: int) -> None:
    outcome = clients.run(seed)
    assert outcome.violations == ()
    assert {"G3", "G4", "G7", "S1", "LV1", "LA1"} <= outcome.statuses.keys()
    assert outcome.happened["network views"]


def test_the_command_runs_clients_on_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "--engine", "transis", "--seed", "6", "--clients", "--jobs", "1"]
    assert main(words) == 0
    assert "clients, in runs" in capsys.readouterr().out
    task = Task(6, clients=True, engine="transis")
    assert task.command() == "evensong sim --seed 6 --clients --engine transis"
    assert task.setup().clients is not None
    assert task.setup().options == swarm(6).options
