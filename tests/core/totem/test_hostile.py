"""A core survives whatever comes: `make hostile` throws a million frames, `make test` a part."""

from random import Random

import pytest

from evensong.core.totem import wire
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.states import State
from tests.core.totem.hostile import (
    FRAMES_A_LIFE,
    Victim,
    check_bounds,
    check_output,
    digest,
    draw,
    victims,
)

CHUNKS = 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hostile_frames_change_nothing_that_they_should_not(
    chunk: int, request: pytest.FixtureRequest
) -> None:
    frames = request.config.getoption("--hostile-frames") // CHUNKS
    rng = Random(f"hostile {chunk}")
    all_victims = victims()
    lives = -(-frames // FRAMES_A_LIFE)
    accepted = 0
    for life in range(lives):
        accepted += live(rng, all_victims[life % len(all_victims)])
    assert accepted > lives  # not everything bounces off the door


def live(rng: Random, victim: Victim) -> int:
    """Throw frames at a core; return how many had an effect."""
    core = victim.thaw()
    machine = core.machine
    now = victim.now
    accepted = 0
    before = digest(core)
    dropped = sum(machine.drops.values())
    for _ in range(FRAMES_A_LIFE):
        frame = draw(rng, victim)
        core.receive(frame, now)
        effects = core.drain()
        total = sum(machine.drops.values())
        after = digest(core)
        if effects:
            accepted += 1
            check_output(effects)
            if core.halted or accepted % 40 == 0:
                break
            if accepted % 8 == 0:
                now = pass_time(core, now)
                after = digest(core)
        elif total != dropped:
            assert after == before, frame.hex()
        before, dropped = after, total
    check_bounds(core)
    return accepted


def pass_time(core: SingleRing, now: int) -> int:
    """Let the next timer fire."""
    now = max(now, core.deadline())
    core.expire(now)
    check_output(core.drain())
    core.deadline()
    return now


@pytest.mark.parametrize("state", State)
def test_a_core_that_gets_nothing_else_for_a_long_time_stays_small(state: State) -> None:
    rng = Random(f"long {state.value}")
    all_victims = victims()
    victim = next(one for one in all_victims if one.state is state)
    core = victim.thaw()
    now = victim.now
    for n in range(6_000):
        frame = draw(rng, rng.choice(all_victims))
        if wire.HEADER.size <= len(frame) and wire.HEADER.unpack_from(frame)[1] == 2:
            continue  # a later self would stop it
        core.receive(frame, now)
        check_output(core.drain())
        if n % 10 == 0:
            now = pass_time(core, now)
        if n % 100 == 0:
            check_bounds(core)
    assert not core.halted
