"""An idle ring on a network that loses datagrams: a token that rests is not a lost one."""

import pytest

from evensong.core.totem.parameters import FAST, LAN, Parameters
from evensong.sim.engines import TOTEM
from evensong.sim.history import History
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from evensong.sim.world import World

NODES = (1, 2, 3, 4, 5)


@pytest.mark.parametrize(("parameters", "loss"), [(LAN, 0.05), (FAST, 0.02)])
@pytest.mark.parametrize(("seed", "speaker"), [(1, 0), (2, 4)])
def test_an_idle_ring_holds_on_a_network_that_loses(
    parameters: Parameters, loss: float, seed: int, speaker: int
) -> None:
    options = Options(NODES, seed, Weather(latency_us=200), parameters=parameters)
    history = History()
    said = (Burst(2_000_000, speaker),) if speaker else ()  # the token rests there from then on
    world = World(Setup(options, workload=said), TOTEM, history)
    world.run(3_000_000)
    formed = [len(life.confs) for life in history.lives.values()]
    for source in NODES:
        for target in NODES:
            if source != target:
                world.network.set_loss(source, target, loss)
    before = world.datagrams
    world.run(33_000_000)
    assert world.datagrams - before > 1_000  # it did go round
    assert [len(life.confs) for life in history.lives.values()] == formed
