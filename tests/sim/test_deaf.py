"""A processor that hears tokens and Joins but no messages: a link that eats large frames."""

from evensong.core.totem import wire
from evensong.sim.engines import TOTEM
from evensong.sim.history import History
from evensong.sim.network import DROP, Rule
from evensong.sim.setup import Options, Setup
from evensong.sim.workload import Burst
from evensong.sim.world import World

DEAF = 3
SLICE_US = 10_000


def world_of_four() -> World:
    bursts = tuple(Burst(at_us=20_000 + 1_000 * turn, node=1, units=4) for turn in range(3_000))
    setup = Setup(Options(nodes=(1, 2, 3, 4), seed=1), (), bursts)
    return World(setup, TOTEM, History())


def silent_slices(world: World, slices: int) -> int:
    """Count the slices of time in which 1 delivers nothing."""
    silent = 0
    for _ in range(slices):
        life = world.by_node[1].life
        assert life is not None
        before = len(life.deliveries)
        world.run(world.now + SLICE_US)
        silent += len(life.deliveries) == before
    return silent


def test_a_processor_deaf_to_messages_does_not_stop_the_ring_for_ever() -> None:
    world = world_of_four()
    world.run(100_000)
    assert silent_slices(world, 10) == 0
    world.network.add_rule(Rule(DROP, wire.REGULAR, target=DEAF, times=2**31))
    world.run(world.now + 1_000_000)
    assert silent_slices(world, 100) <= 25  # it is let in again now and then, ever more rarely


def test_it_is_back_when_it_hears_again() -> None:
    world = world_of_four()
    world.run(100_000)
    world.network.add_rule(Rule(DROP, wire.REGULAR, target=DEAF, times=2**31))
    world.run(world.now + 1_000_000)
    world.network.forget_rules()
    assert world.run_until(world.is_converged, world.now + 2_500_000)
