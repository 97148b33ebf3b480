"""A seed decides a run of a broadcast domain: as `sim/swarm.py`, with the words of this engine."""

from dataclasses import replace
from random import Random
from typing import Final

from evensong.core.ids import ProcessorId
from evensong.core.transis.parameters import MS, Parameters
from evensong.sim.run import Outcome, run_setup
from evensong.sim.setup import SWARM, TRANSIS, Options, Setup, derive
from evensong.sim.swarm import (
    NODES_MAX,
    NODES_MIN,
    Faults,
    Vocabulary,
    draw_weather,
    draw_workload,
)
from evensong.sim.workload import Burst

FRAMES: Final = ("regular", "null", "join", "retr", "nack", "aj", "ping", "pong", "leave")
DOMAIN: Final = Vocabulary(
    ("agree", "agree", "agree", "collect"),
    FRAMES,
    ("regular", "null", "null", "join", "join", "retr", "aj"),
    "null",
)
LAST_AFTER: Final = 11 * MS  # the calm; what is drawn is said before
LAST_BODY: Final = 16
SHARES: Final = (  # of SAFE, CAUSAL and BASIC messages; the rest are AGREED
    (0.0, 0.0, 0.0),
    (0.3, 0.0, 0.0),
    (0.25, 0.25, 0.25),
    (0.1, 0.3, 0.1),
    (1.0, 0.0, 0.0),
    (0.0, 0.6, 0.0),
    (0.2, 0.2, 0.5),
)


def run(seed: int, nodes: int | None = None, messages: int | None = None) -> Outcome:
    """Run what a seed decides, with every check."""
    return run_setup(swarm(seed, nodes, messages))


def swarm(seed: int, nodes: int | None = None, messages: int | None = None) -> Setup:
    """Draw a run from a seed."""
    rng = derive(seed, SWARM)
    count = nodes if nodes is not None else rng.randint(NODES_MIN, NODES_MAX)
    ids = tuple(range(1, count + 1))
    calm_at = rng.randint(250, 500) * MS
    options = Options(
        nodes=ids,
        seed=seed,
        weather=draw_weather(rng, FRAMES),
        cost_us=rng.choice((0, 0, 0, 0, 5, 20)),
        receive_buffer=rng.choice((256, 256, 40)),
        skew_us_max=rng.choice((0, 1_000 * MS)),
        drift_ppm_max=rng.choice((0, 0, 200, 20_000)),
        engine=TRANSIS,
        lansis=draw_parameters(rng, count),
    )
    turns = [rng.randrange(calm_at) for _ in range(rng.choice((0, 0, 3, 6)))]
    faults = Faults(rng, ids, calm_at, turns, DOMAIN).draw()
    total = messages if messages is not None else rng.randint(250, 550)
    bursts = _with_services(rng, draw_workload(rng, ids, calm_at, turns, total))
    return Setup(
        options, faults, bursts if messages is not None else (*bursts, *_last(ids, calm_at))
    )


def _last(ids: tuple[ProcessorId, ...], calm_at: int) -> list[Burst]:
    """Let everybody say one thing after the calm: so every run has something to be ordered."""
    return [Burst(calm_at + LAST_AFTER, node, 1, LAST_BODY) for node in ids]


def draw_parameters(rng: Random, count: int) -> Parameters:
    """Draw timeouts short enough for many changes in a run, and windows, some absurdly small."""
    heartbeat = rng.choice((4, 5, 5, 8, 15)) * MS
    usual = Parameters.for_domain(count)
    w_high = rng.choice((64, 64, 32, 20))
    parameters = usual._replace(
        heartbeat=heartbeat,
        ack_idle=rng.choice((heartbeat, heartbeat // 4, heartbeat // 4)),
        nack_delay=rng.choice((500, 1 * MS)),
        nack_retry=heartbeat,
        nack_retry_max=8 * heartbeat,
        probe=heartbeat // 2,
        collect=2 * heartbeat,
        agree=4 * heartbeat,
        pace_max=rng.choice((1, 2, 4)) * MS,
        w_low=rng.choice((16, 16, 4)),
        w_high=max(w_high, 2 * count),
        ceiling_stride=rng.choice((1_024, 16, 4, 1)),
        allack=rng.choice((0, 0, 0, 1)),
    )
    parameters.check(count)
    return parameters


def _with_services(rng: Random, bursts: tuple[Burst, ...]) -> tuple[Burst, ...]:
    safe, causal, basic = rng.choice(SHARES)
    return tuple(replace(burst, safe=safe, causal=causal, basic=basic) for burst in bursts)
