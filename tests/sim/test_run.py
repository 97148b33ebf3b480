"""What a run makes of a core that raises."""

import struct

import pytest

from evensong.core.totem.ring import SingleRing
from evensong.sim.run import BUG, run_setup
from evensong.sim.shrink import shrink
from evensong.sim.swarm import swarm

MISTAKES = [
    struct.error("argument out of range"),
    OverflowError("too large"),
    ZeroDivisionError("by zero"),
    AssertionError(),
    KeyError(3),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=repr)
@pytest.mark.parametrize("step", ["start", "receive", "submit", "expire"])
def test_what_a_core_raises_is_a_bug_of_the_run(
    mistake: Exception, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> None:
        raise mistake

    monkeypatch.setattr(SingleRing, step, stumble)
    outcome = run_setup(swarm(3, 3, 30))
    assert outcome.broken() == {BUG}
    assert type(mistake).__name__ in outcome.violations[0].text


def test_a_run_that_a_core_ended_can_be_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise MISTAKES[0]

    monkeypatch.setattr(SingleRing, "submit", stumble)
    small = shrink(swarm(3, 3, 30), BUG, lambda setup: run_setup(setup).broken(), 100)
    assert len(small.workload) == 1
    assert small.options.nodes == (small.workload[0].node,)


def test_an_interrupt_is_not_about_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SingleRing, "submit", stop)
    with pytest.raises(KeyboardInterrupt):
        run_setup(swarm(3, 3, 30))
