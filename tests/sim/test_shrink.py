from pathlib import Path

from evensong.sim.faults import Calm, Crash, Partition, When
from evensong.sim.run import run_setup
from evensong.sim.setup import Options, Setup, Weather, setup_from_json
from evensong.sim.shrink import save, shrink
from evensong.sim.swarm import swarm


def test_it_finds_the_smallest_setup_for_a_toy_failure() -> None:
    """The toy fails when 2 crashes after a partition and 3 speaks afterwards."""

    def trial(setup: Setup) -> frozenset[str]:
        faults = [fault.then if isinstance(fault, When) else fault for fault in setup.plan]
        parted = [fault.at_us for fault in faults if isinstance(fault, Partition)]
        crashed = [fault.at_us for fault in faults if isinstance(fault, Crash) and fault.node == 2]
        spoken = [burst.at_us for burst in setup.workload if burst.node == 3]
        fails = parted and crashed and spoken and min(parted) < max(crashed) < max(spoken)
        return frozenset(["toy"] if fails else ["other"])

    setup = next(setup for setup in map(swarm, range(1_000)) if "toy" in trial(setup))
    small = shrink(setup, "toy", trial)
    assert trial(small) == {"toy"}
    assert len(small.plan) == 2
    assert len(small.workload) == 1
    assert small.workload[0].units == 1
    assert small.options.nodes == (2, 3)
    assert small.options.weather == Weather()
    assert small.options.parameters == Options((1,)).parameters


def test_what_fails_otherwise_is_not_taken() -> None:
    def trial(setup: Setup) -> frozenset[str]:
        return frozenset(["wanted"] if len(setup.plan) > 3 else ["another"])

    assert len(shrink(swarm(1), "wanted", trial).plan) == 4


def test_a_real_run_shrinks(tmp_path: Path) -> None:
    """What is looked for: somebody delivers a transitional configuration after a crash."""

    def trial(setup: Setup) -> frozenset[str]:
        outcome = run_setup(setup)
        found = outcome.configurations > 3 * len(setup.options.nodes) and "crash" in outcome.faults
        return frozenset(["toy"] if found else [])

    setup = next(setup for setup in map(swarm, range(1_000)) if "toy" in trial(setup))
    small = shrink(setup, "toy", trial, runs_max=150)
    assert "toy" in trial(small)
    assert len([fault for fault in small.plan if not isinstance(fault, Calm)]) < len(setup.plan)
    path = tmp_path / "small.json"
    assert save(small, path) == f"evensong sim --plan {path}"
    assert setup_from_json(path.read_text()) == small


def test_it_gives_up_after_so_many_runs() -> None:
    runs = 0

    def trial(setup: Setup) -> frozenset[str]:
        nonlocal runs
        runs += 1
        return frozenset(["toy"])

    shrink(swarm(1), "toy", trial, runs_max=5)
    assert runs == 5
