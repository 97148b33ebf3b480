"""A seed decides a run with clients on a broadcast domain."""

from evensong.sim.groups.draw import with_clients
from evensong.sim.groups.run import run_setup
from evensong.sim.run import Outcome
from evensong.sim.transis.swarm import swarm


def run(seed: int, nodes: int | None = None, messages: int | None = None) -> Outcome:
    """Run what a seed decides, with every check."""
    return run_setup(with_clients(swarm(seed, nodes, 0), messages))
