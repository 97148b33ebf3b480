"""A core survives whatever comes: `make hostile` throws a million frames, `make test` a part."""

from random import Random

import pytest

from evensong.core.totem import wire
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.rows import decode_row
from evensong.core.totem.states import State
from evensong.errors import MalformedFrame
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
    siege = Siege(rng, victims())
    while siege.thrown < frames:
        siege.besiege()
    assert siege.had_effect > siege.thrown // 100  # not everything bounces off the door


class Siege:
    """Throws frames at cores and looks what becomes of them."""

    def __init__(self, rng: Random, all_victims: list[Victim]) -> None:
        self.rng = rng
        self.victims = all_victims
        self.lives = 0
        self.thrown = 0
        self.had_effect = 0

    def besiege(self) -> None:
        """Throw frames at one core, until it leaves the state that it is to be tried in."""
        victim = self.victims[self.lives % len(self.victims)]
        self.lives += 1
        core = victim.thaw()
        machine = core.machine
        now = victim.now
        before = digest(core)
        dropped = sum(machine.drops.values())
        for _ in range(FRAMES_A_LIFE):
            frame = draw(self.rng, victim)
            self.thrown += 1
            core.receive(frame, now)
            effects = core.drain()
            total = sum(machine.drops.values())
            after = digest(core)
            if effects:
                self.had_effect += 1
                check_output(effects)
                if core.halted or machine.state is not victim.state:
                    break
            elif total - dropped >= messages_in(frame):
                assert after == before, frame.hex()
            before, dropped = after, total
        check_bounds(core)
        if not core.halted:
            pass_time(core, now)


def messages_in(frame: bytes) -> int:
    """Return how many drops say that nothing of a frame was taken in: of a row each message."""
    try:
        row = decode_row(frame) if frame[:1] == bytes([wire.ROW]) else None
    except MalformedFrame:
        return 1
    return row.last_seq - row.first_seq + 1 if row else 1


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
