"""Schedules that are enumerated rather than drawn: every node, every step, every hop.

Chance seldom hits the short while in which a ring forms, and it did not catch the mutants that
matter most there. Every run is judged at every step and, over its whole history, at the end.
"""

import pytest

from evensong.core.ids import ProcessorId
from evensong.core.totem.parameters import Parameters
from evensong.sim.faults import Calm, Crash, CrashIn, Slow
from evensong.sim.run import run_setup
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from tests.sim.trial import ALWAYS, Trial

FORMING = ("commit", "recovery")


def check(trial: Trial) -> None:
    trial.conclude()


# S1: loss


@pytest.mark.parametrize("seed", range(6))
def test_one_message_in_ten_lost(seed: int) -> None:
    nodes = (1, 2, 3, 4, 5)
    weather = Weather(jitter_us=50, loss_by_kind=(("regular", 0.10),))
    bursts = [Burst(20_000 + at * 700, 1 + at % 5, 4, safe=0.5) for at in range(40)]
    outcome = run_setup(Setup(Options(nodes, seed, weather), (), tuple(bursts)))
    assert outcome.violations == ()
    assert outcome.deliveries == 5 * 160


# S2: the token lost so many times on one hop


@pytest.mark.parametrize("hop", [(1, 2), (2, 3), (3, 1)])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_lost_token_is_resent(hop: tuple[ProcessorId, ProcessorId], times: int) -> None:
    trial = Trial((1, 2, 3))
    before = trial.rings_installed()
    trial.drop("token", *hop, times=times)
    trial.send(2, "credo")
    trial.settle()
    assert trial.rings_installed() == before
    check(trial)


# S3: a crash at each step of Commit and Recovery


def after_a_crash() -> Trial:
    """Four of five form a ring; a message before the others is lost with the fifth."""
    trial = Trial((1, 2, 3, 4, 5))
    trial.hold("regular", 5)
    trial.hold("regular", 2, 4)
    trial.send(5, "lost with 5")
    trial.run(900)
    trial.send(2, "missed by 4")
    trial.send(3, "agreed", safe=False)
    trial.run(600)
    trial.strike(Crash(0, 5))
    return trial


def before_a_merge() -> Trial:
    """Two rings with messages that are not safe yet hear of each other."""
    trial = Trial((1, 2, 3, 4), rings=((1, 2), (3, 4)))
    trial.drop("regular", 1, 2, times=ALWAYS)
    trial.drop("regular", 4, 3, times=ALWAYS)
    trial.send(1, "missed by 2")
    trial.send(4, "missed by 3")
    trial.send(2, "of 2", safe=False)
    trial.run(900)
    trial.part((1, 2, 3, 4))
    trial.reach(1, "gather")
    trial.heal()
    return trial


MAKERS = [after_a_crash, before_a_merge]


def counted(maker_no: int) -> Trial:
    trial = MAKERS[maker_no]()
    trial.census.effects.clear()
    trial.census.visits.clear()
    trial.settle()
    return trial


@pytest.mark.parametrize("maker_no", range(len(MAKERS)), ids=lambda no: MAKERS[no].__name__)
@pytest.mark.parametrize("node", [1, 2, 3, 4])
@pytest.mark.parametrize("state", FORMING)
def test_a_crash_at_each_step(maker_no: int, node: ProcessorId, state: str) -> None:
    steps = counted(maker_no).census.effects[node, state]
    assert steps
    for effects in range(steps):
        trial = MAKERS[maker_no]()
        trial.strike(CrashIn(0, node, state, effects))
        trial.settle()
        assert not trial.world.by_node[node].is_up(), f"{node} survived {effects} in {state}"
        check(trial)


# S10: full load on windows of all sizes, with one slow node


@pytest.mark.parametrize("window_size", [1, 2, 5, 16, 50])
def test_the_window_holds_at_full_load(window_size: int) -> None:
    messages_max = -(-window_size // 2)
    parameters = Parameters(window_size=window_size, messages_max=messages_max)
    trial = Trial((1, 2, 3, 4), parameters)
    trial.strike(Slow(0, 3, 60))
    for node in (1, 2, 3, 4):
        trial.send(node, "psalm", safe=node % 2 == 0, times=6 * window_size)
    trial.census.fcc_max = 0
    trial.run(3_000)
    assert trial.census.fcc_max == window_size  # I4 is checked at every visit
    check(trial)


@pytest.mark.parametrize("window_size", [4, 50])
def test_the_window_holds_with_repairs(window_size: int) -> None:
    parameters = Parameters(window_size=window_size, messages_max=min(17, window_size))
    weather = Weather(loss_by_kind=(("regular", 0.2),))
    options = Options((1, 2, 3, 4), 3, weather, parameters)
    bursts = [Burst(20_000, node, 60, safe=0.3) for node in options.nodes]
    plan = (Slow(0, 2, 60), Calm(200_000))
    assert run_setup(Setup(options, plan, tuple(bursts))).violations == ()


# S11: a late message of a departed sender reaches one member only


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("state", FORMING)
@pytest.mark.parametrize("safe", [True, False], ids=["safe", "agreed"])
def test_a_late_message_reaches_one_member(node: ProcessorId, state: str, safe: bool) -> None:
    trial = Trial((1, 2, 3, 4))
    trial.hold("regular", 4)
    trial.send(4, "late", safe=safe)
    trial.run(1_000)
    trial.strike(Crash(0, 4))
    trial.reach(node, state)
    assert trial.release("regular", 4, node)
    trial.settle()
    check(trial)


# S12 and S13: the token dies on a hop of the rotation in which the ring is installed


def token_dies_after(node: ProcessorId) -> Trial:
    """Let the members up to `node` install the ring, and lose the token on the hop after it."""
    visits = counted(0).census.visits[node, "recovery"]
    trial = after_a_crash()
    trial.reach(node, "recovery")
    trial.drop("token", node, node % 4 + 1, skip=visits - 1, times=ALWAYS)
    trial.reach(node, "operational")
    states = [trial.world.by_node[other].state for other in (1, 2, 3, 4)]
    assert states == ["operational"] * node + ["recovery"] * (4 - node)
    return trial


@pytest.mark.parametrize("node", [1, 2, 3, 4])
def test_the_token_dies_after_an_installation(node: ProcessorId) -> None:
    trial = token_dies_after(node)
    trial.send(1, "new of 1")
    trial.send(4, "new of 4")
    trial.reach(1, "gather")
    trial.heal()
    trial.settle()
    check(trial)


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("state", FORMING)
def test_installers_are_parted_from_the_others(node: ProcessorId, state: str) -> None:
    trial = token_dies_after(node)
    installers = list(range(1, node + 1))
    others = list(range(node + 1, 5))
    trial.send(1, "new of 1")
    trial.send(4, "new of 4")
    trial.part(installers, others)
    if len(others) > 1:
        trial.reach(4, state)  # and the network heals in the middle of their next attempt
        trial.heal()
    trial.settle()
    check(trial)


# S14: a promise is made, and the promiser is cut off


@pytest.mark.parametrize("maker_no", range(len(MAKERS)), ids=lambda no: MAKERS[no].__name__)
@pytest.mark.parametrize("node", [1, 2, 3, 4])
@pytest.mark.parametrize("crashes", [False, True], ids=["parted", "then a crash"])
def test_a_promiser_is_cut_off(maker_no: int, node: ProcessorId, crashes: bool) -> None:
    trial = MAKERS[maker_no]()
    trial.reach_promise(node)
    others = [other for other in (1, 2, 3, 4) if other != node]
    trial.part([node], others)
    if crashes:
        trial.strike(CrashIn(0, others[0], "recovery", 1))
    trial.settle()
    check(trial)
