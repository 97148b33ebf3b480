"""The promises of the group layer over random schedules; `Watcher` holds them at every step."""

import pytest

from evensong.errors import InvariantBroken
from tests.core.groups.schedule import Schedule

SEEDS = 300
STEPS = 150


# The table of states and events in layer.py, without its dashes, and without what only a broken
# daemon does: tell a state that nobody waits for (test_layer.py has that). An engine tells no safe
# line in a transitional configuration.
PAIRS = {
    (state, event)
    for state, events in {
        "REGULAR": ("frame", "wish", "set", "transitional", "safe line"),
        "EXCHANGING": ("frame", "wish", "set", "state", "transitional", "safe line"),
        "TRANSITIONAL": ("frame", "wish", "set", "state", "nobody else", "others"),
    }.items()
    for event in events
}


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_random_schedules_keep_every_promise(first: int) -> None:
    relevant: dict[str, int] = {}
    pairs: set[tuple[str, str]] = set()
    for seed in range(first, first + 50):
        schedule = Schedule(seed)
        try:
            schedule.run(STEPS)
        except InvariantBroken as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        pairs |= schedule.order.facts.pairs
        for promise in schedule.order.facts.relevant:
            relevant[promise] = relevant.get(promise, 0) + 1
    assert sorted(relevant) == [
        "D1",
        "D2",
        "D3",
        "D4",
        "D5",
        "G1",
        "G2",
        "G3",
        "G4",
        "G5",
        "G6",
        "G7",
    ]
    assert min(relevant.values()) > 35, relevant
    assert pairs == PAIRS
