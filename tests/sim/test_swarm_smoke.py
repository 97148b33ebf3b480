"""A little of what `make soak` does, in every test run: seeds in parcels that cores share."""

import pytest

from evensong.sim.coverage import UNREACHABLE
from evensong.sim.evs import Status
from evensong.sim.swarm import run

SEEDS = 60
PARCEL = 4


@pytest.mark.parametrize("first", range(0, SEEDS, PARCEL))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + PARCEL):
        outcome = run(seed)
        shown = [str(violation) for violation in outcome.violations]
        assert not shown, f"evensong sim --seed {seed}: {shown[0]}"
        assert not outcome.pairs & UNREACHABLE.keys()
        assert Status.INCONCLUSIVE not in outcome.statuses.values()
        assert outcome.deliveries > 0
