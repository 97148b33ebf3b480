"""Nodes: groups above a real ring, driven by the simulator."""

import pytest

from evensong.sim.swarm import swarm
from tests.core.groups.simulated import Simulated


@pytest.mark.parametrize("seed", range(12))
def test_a_swarm_of_faults_breaks_no_promise_of_the_groups(seed: int) -> None:
    simulated = Simulated(swarm(seed), seed)
    simulated.run()
    assert simulated.check_order() == []
    assert simulated.onlooker.facts.relevant["G3"]
