import json
import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from evensong.core.core import Source
from evensong.core.ids import ProcessorId
from evensong.core.stable import StableRecord
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.ring import SingleRing
from evensong.sim.engines import TOTEM, Engine
from evensong.sim.faults import CRASH_TORN, FAULT_KINDS, Calm, When
from evensong.sim.limits import is_calmed, settle_us
from evensong.sim.run import run_setup, run_unchecked
from evensong.sim.setup import Options, Setup, setup_from_json, setup_to_json
from evensong.sim.swarm import NODES_MAX, NODES_MIN, run, swarm

DIGEST = "from evensong.sim.swarm import run; print(run(%d).digest)"


def test_a_seed_always_decides_the_same_run() -> None:
    assert swarm(5) == swarm(5)
    assert swarm(5) != swarm(6)
    first, second = run(5), run(5)
    assert first.digest == second.digest
    assert first.pairs == second.pairs
    assert first.digest != run(6).digest


def test_looking_on_changes_nothing() -> None:
    assert run_unchecked(swarm(5)).digest == run(5).digest


@pytest.mark.parametrize("seed", [3, 4])
def test_the_order_of_hashes_decides_nothing(seed: int) -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST % seed]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1


def test_a_setup_from_a_file_gives_the_run_of_its_seed() -> None:
    setup = swarm(7)
    assert run_setup(setup_from_json(setup_to_json(setup))).digest == run(7).digest


def test_every_run_ends_in_a_calm() -> None:
    for seed in range(50):
        setup = swarm(seed)
        assert isinstance(setup.plan[-1], Calm)
        assert is_calmed(setup)
        assert NODES_MIN <= len(setup.options.nodes) <= NODES_MAX


def test_size_and_load_can_be_chosen() -> None:
    setup = swarm(1, nodes=4, messages=70)
    assert setup.options.nodes == (1, 2, 3, 4)
    assert sum(burst.units for burst in setup.workload) == 70


def test_runs_are_dense_and_faults_of_every_kind_strike() -> None:
    seeds = range(1_000, 1_060)
    struck: Counter[str] = Counter()
    deliveries = configurations = in_change = 0
    for seed in seeds:
        outcome = run_unchecked(swarm(seed))
        struck.update(outcome.faults.keys())
        deliveries += outcome.deliveries
        configurations += outcome.configurations
        in_change += outcome.faults_in_change > 0
    assert deliveries > 1_000 * len(seeds)
    assert configurations > 20 * len(seeds)
    assert in_change > 0.3 * len(seeds)
    assert set(struck) == {*FAULT_KINDS, CRASH_TORN} - {When.kind}


def test_a_ring_that_cannot_converge_is_told() -> None:
    text = '[{"kind": "partition", "at_us": 1000, "components": [[1], [2]]}]'
    plan = json.loads(text)
    calm = {"kind": "calm", "at_us": 2000, "stay_down": []}
    cut = {"kind": "pause", "at_us": 3000, "node": 2}
    setup = setup_from_json(json.dumps({"options": {"nodes": [1, 2]}, "plan": [*plan, calm, cut]}))
    outcome = run_setup(setup)
    assert outcome.broken() == {"I15", "LV-2", "LV-3"}


def test_a_mistake_in_a_core_ends_the_run_and_is_told() -> None:
    def make(
        my_id: ProcessorId,
        record: StableRecord,
        incarnation: int,
        parameters: Parameters,
        rng: Random,
        source: Source,
    ) -> SingleRing:
        broken = parameters._replace(miss_count=0)  # no visit is ever remembered
        return SingleRing(my_id, record, incarnation, broken, rng, source)

    outcome = run_setup(swarm(1), Engine(make, TOTEM.kinds))
    assert outcome.broken() == {"bug"}
    assert "IndexError" in outcome.violations[0].text
    assert not outcome.statuses  # what was still to come cannot be judged


def test_the_time_to_settle_grows_with_the_ring() -> None:
    assert settle_us(Setup(Options((1, 2)))) < settle_us(Setup(Options((1, 2, 3, 4))))
