"""Rings as large as they may be: all start at once, ten are lost at once, the rest go on."""

import pytest

from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem.parameters import Parameters
from evensong.sim.evs import Status
from evensong.sim.faults import Calm, Crash
from evensong.sim.run import run_recorded
from evensong.sim.setup import Options, Setup
from evensong.sim.workload import Burst

MS = 1_000
FORMED_MS = 120
CRASH_MS = 200
AFTER_MS = 350


@pytest.mark.parametrize("count", [64, PROCESSORS_MAX])
def test_a_large_ring_forms_at_once_loses_ten_and_goes_on(count: int) -> None:
    nodes = tuple(range(1, count + 1))
    lost = nodes[2 :: count // 10][:10]  # here and there on the ring
    speakers = [node for node in nodes[:: count // 8] if node not in lost]
    workload = [
        Burst(at * MS, node, units=2, safe=0.5) for at in (FORMED_MS, AFTER_MS) for node in speakers
    ]
    crashes = [Crash(CRASH_MS * MS, node) for node in lost]
    options = Options(nodes, parameters=Parameters.for_ring(count))
    setup = Setup(options, (*crashes, Calm(CRASH_MS * MS, lost)), tuple(workload))

    outcome, history = run_recorded(setup)

    assert outcome.violations == ()
    assert Status.INCONCLUSIVE not in outcome.statuses.values()
    survivors = [life for life in history.lives.values() if life.ended == "quiesce"]
    assert len(survivors) == count - 10
    memberships = [
        [conf.members for conf in life.confs if not conf.transitional] for life in survivors
    ]
    stayed = tuple(node for node in nodes if node not in lost)
    # Alone at the start, then all together, then those who are left: not one ring in between.
    for life, seen in zip(survivors, memberships, strict=True):
        assert seen == [(life.node,), nodes, stayed]
    sent = 2 * len(speakers)
    for life in survivors:
        before = [d for d in life.deliveries if d.t_us < CRASH_MS * MS]
        assert len(before) == sent
        assert len(life.deliveries) == 2 * sent


def test_settings_for_a_ring_suit_it() -> None:
    for count in range(1, PROCESSORS_MAX + 1):
        parameters = Parameters.for_ring(count)
        parameters.check(count)
        assert parameters.token_loss >= Parameters().token_loss


def test_small_rings_have_the_usual_timeouts_and_larger_ones_longer() -> None:
    usual = Parameters()
    assert Parameters.for_ring(5) == usual._replace(messages_max=13)
    assert Parameters.for_ring(32).token_loss == usual.token_loss
    assert Parameters.for_ring(33).token_loss == 2 * usual.token_loss
    assert Parameters.for_ring(128).consensus == 4 * usual.consensus
