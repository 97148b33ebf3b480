import json

import pytest

from evensong.errors import EvensongError
from evensong.sim import admit
from evensong.sim.setup import setup_from_json
from evensong.sim.swarm import swarm


def test_what_a_seed_draws_is_admitted() -> None:
    for seed in range(200):
        admit.check(swarm(seed))
    admit.check(swarm(1, nodes=1))
    admit.check(swarm(1, nodes=128))


def refuse(**parts: object) -> str:
    value = {"options": {"nodes": [1, 2]}} | parts
    with pytest.raises(EvensongError) as refused:
        admit.check(setup_from_json(json.dumps(value)))
    return str(refused.value)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"kind": "crash", "node": 9}, "plan[0]: 9 is none of the processors"),
        ({"kind": "cut", "source": 0, "target": 7}, "plan[0]: 7 is none of the processors"),
        ({"kind": "partition", "components": [[1], [3]]}, "plan[0]: 3 is none"),
        ({"kind": "calm", "stay_down": [4]}, "plan[0]: 4 is none"),
        ({"kind": "crash_in", "node": 1, "state": "asleep"}, "plan[0].state: 'asleep' is none of"),
        (
            {"kind": "drop_next", "frame": "smoke", "source": 0, "target": 0},
            "plan[0].frame: 'smoke' is none of regular, token",
        ),
        ({"kind": "lossy", "source": 0, "target": 0, "probability": 2}, "2.0 is no probability"),
        ({"kind": "pause", "node": 1, "for_us": -1}, "plan[0].for_us: expected no negative"),
        ({"kind": "drift", "node": 1, "ppm": -1_000_000}, "plan[0].ppm: expected"),
        (
            {"kind": "when", "node": 0, "state": "commit", "then": {"kind": "leave", "node": 8}},
            "plan[0].then: 8 is none",
        ),
    ],
)
def test_a_fault_that_cannot_strike_is_refused(fault: dict[str, object], complaint: str) -> None:
    if "then" in fault:
        then = fault["then"]
        assert isinstance(then, dict)
        fault = fault | {"then": then | {"at_us": 0}}
    assert complaint in refuse(plan=[fault | {"at_us": 0}])


def test_options_and_bursts_are_looked_at_too() -> None:
    assert "no processor id" in refuse(options={"nodes": [0, 1]})
    assert "1..128" in refuse(options={"nodes": list(range(1, 130))})
    assert "no probability" in refuse(options={"nodes": [1], "weather": {"loss": 1.5}})
    assert "no negative times" in refuse(options={"nodes": [1], "weather": {"latency_us": -1}})
    assert "no negative numbers" in refuse(options={"nodes": [1], "cost_us": -1})
    assert "room for a datagram" in refuse(options={"nodes": [1], "receive_buffer": 0})
    smoke = {"nodes": [1], "weather": {"loss_by_kind": [["smoke", 0.5]]}}
    assert "'smoke' is none of" in refuse(options=smoke)
    assert "workload[0]: 3 is none" in refuse(workload=[{"at_us": 0, "node": 3}])
    assert "workload[0]: expected" in refuse(workload=[{"at_us": -5, "node": 1}])
