"""What a run tells of its limits makes properties relevant, and a bug breaks them."""

import pytest

from evensong.sim import evs
from evensong.sim.evs.limits import limits_told, submitted_told
from evensong.sim.faults import Calm, Drift, Pause
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.sim.limits import bounds_of, forming_us, settle_us, state_us
from evensong.sim.setup import Options, Setup
from evensong.sim.swarm import swarm
from tests.sim.planted import ENGINES, SETUP, run_planted, run_sound

OPTIONS = Options((1, 2, 3))


def test_a_sound_ring_keeps_what_its_history_tells() -> None:
    verdicts = evs.check(run_sound())
    assert verdicts.holds, verdicts.explain()
    assert set(verdicts.having(evs.Status.PASS)) >= {*ENGINES, "TF3"}


@pytest.mark.parametrize("name", ENGINES)
def test_a_planted_bug_breaks_the_property_that_is_about_it(name: str) -> None:
    verdicts = evs.check(run_planted(name))
    assert name in verdicts.failed, verdicts.explain()


def test_swarm_runs_tell_their_limits_and_what_was_submitted() -> None:
    relevant = set()
    for setup in (swarm(3), swarm(8), draw(3)):
        outcome, history = run_recorded(setup)
        assert not outcome.violations
        parameters = setup.options.parameters
        told = limits_told(history)
        assert told.window_size == parameters.window_size
        assert told.messages_max == parameters.messages_max
        assert told.settle_us == forming_us(setup)
        assert told.state_us == state_us(setup)
        assert sum(submitted_told(history).values()) > 0
        relevant |= {name for name, one in outcome.statuses.items() if one is evs.Status.PASS}
    assert relevant >= {*ENGINES, "TF3"}


def test_a_run_without_a_calm_promises_no_times() -> None:
    assert bounds_of(Setup(OPTIONS, (Pause(10, 1),))) == ()
    assert [name for name, _ in bounds_of(Setup(OPTIONS, (Calm(10),)))] == ["settle_us", "state_us"]


def test_bounds_are_no_wider_than_what_the_run_is_given() -> None:
    assert state_us(SETUP) < forming_us(SETUP) < settle_us(SETUP)
    assert state_us(SETUP) < 4 * OPTIONS.parameters.token_loss


def test_a_clock_that_was_put_wrong_widens_the_bounds() -> None:
    drifting = Setup(OPTIONS, (Drift(5, 1, -50_000), Calm(10)))
    assert state_us(drifting) > state_us(Setup(OPTIONS, (Calm(10),)))
