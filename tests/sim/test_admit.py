import json

import pytest

from evensong.errors import BadScenario, EvensongError
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
        ({"kind": "pause", "node": 1, "for_us": -1}, "plan[0].for_us: -1 is not within 0 to"),
        (
            {"kind": "drift", "node": 1, "ppm": -1_000_000},
            "plan[0].ppm: -1000000 is not within -500000 to 500000",
        ),
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
    assert "a processor id: 0 is not within 1 to" in refuse(options={"nodes": [0, 1]})
    assert "1..128" in refuse(options={"nodes": list(range(1, 130))})
    assert "no probability" in refuse(options={"nodes": [1], "weather": {"loss": 1.5}})
    assert "options.weather.latency_us: -1 is not within" in refuse(
        options={"nodes": [1], "weather": {"latency_us": -1}}
    )
    for name in ("cost_us", "send_us", "visit_us"):
        assert f"options.{name}: -1 is not within" in refuse(options={"nodes": [1], name: -1})
    assert "options.receive_buffer: 0 is not within 1 to" in refuse(
        options={"nodes": [1], "receive_buffer": 0}
    )
    smoke = {"nodes": [1], "weather": {"loss_by_kind": [["smoke", 0.5]]}}
    assert "'smoke' is none of" in refuse(options=smoke)
    assert "workload[0]: 3 is none" in refuse(workload=[{"at_us": 0, "node": 3}])
    assert "workload[0].at_us: -5 is not within" in refuse(workload=[{"at_us": -5, "node": 1}])


BURST = {"at_us": 0, "node": 1}
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"workload": [BURST | {"units": 10**9}]}, "workload[0].units: 1000000000 is not within"),
        ({"workload": [BURST | {"units": 600_000}] * 2}, "units of all bursts: 1200000 is not"),
        ({"workload": [BURST | {"at_us": 10**15}]}, "workload[0].at_us: 1000000000000000 is not"),
        ({"workload": [BURST | {"at_us": 2**63}]}, "workload[0].at_us: 9223372036854775808 is not"),
        ({"workload": [BURST | {"at_us": HOUR_US}]}, "us until it is quiet; expected at most"),
        ({"workload": [BURST | {"safe": float("nan")}]}, "workload[0].safe: nan is no probability"),
        ({"plan": [{"kind": "heal", "at_us": 10**15}]}, "plan[0].at_us: 1000000000000000 is not"),
        (
            {"plan": [{"kind": "pause", "at_us": 0, "node": 1, "for_us": 2**63}]},
            "plan[0].for_us: 9223372036854775808 is not",
        ),
        (
            {"plan": [{"kind": "crash", "at_us": 0, "node": 1, "effects": 2**40}]},
            "plan[0].effects: 1099511627776 is not",
        ),
    ],
)
def test_a_run_that_would_not_end_is_refused(parts: dict[str, object], complaint: str) -> None:
    assert complaint in refuse(**parts)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"seed": 2**63 + 1}, "options.seed: "),
        ({"skew_us_max": 2**63}, "options.skew_us_max: 9223372036854775808 is not within"),
        ({"skew_us_max": 2**70}, "options.skew_us_max: a number too large"),
        ({"receive_buffer": 2**40}, "options.receive_buffer: 1099511627776 is not within"),
        ({"cost_us": 10**6}, "a rotation of the token takes 2000200 us"),
        ({"send_us": 10**6, "visit_us": 5}, "a rotation of the token takes 2000210 us"),
        ({"weather": {"latency_us": 7_501}}, "a rotation of the token takes 15002 us"),
        ({"weather": {"latency_us": 2**63}}, "options.weather.latency_us: 9223372036854775808"),
        ({"weather": {"loss": 10**400}}, "options.weather.loss: a number too large"),
        ({"weather": {"loss": float("inf")}}, "options.weather.loss: inf is no probability"),
        ({"parameters": {"miss_count": 10**19}}, "every parameter <= 1099511627776"),
        ({"parameters": {"ceiling_stride": 2**64}}, "parameters.ceiling_stride: a number too"),
        ({"parameters": {"beacon": 2**40}}, "us until it is quiet; expected at most"),
        ({"parameters": {"datagram_max": 20}}, "datagram_max >= "),
    ],
)
def test_a_number_out_of_bounds_is_refused(options: dict[str, object], complaint: str) -> None:
    assert complaint in refuse(options={"nodes": [1, 2]} | options)


def test_the_bounds_themselves_are_admitted() -> None:
    options = {"nodes": [1, 2], "skew_us_max": 2**40, "seed": 2**63, "cost_us": 7_400}
    burst = BURST | {"at_us": HOUR_US - 10_000_000, "units": 100, "safe": 1}
    text = json.dumps({"options": options, "workload": [burst]})
    admit.check(setup_from_json(text))
    assert refuse(options=options | {"cost_us": 7_401}) != ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 100_000, "setup: line 1: more than 50 brackets deep"),
        ('{"plan":\n' + '{"a":' * 60, "setup: line 2: more than 50 brackets deep"),
        ('{"options": {"nodes": [1], "seed": %s}}' % ("7" * 5_000), "options.seed: a number too"),
        ('{"options": {"nodes": [-%s]}}' % ("7" * 5_000), "options.nodes[0]: a number too large"),
        ('{"options": {"nodes": [1], "seed": %s}}' % ("7" * 401), "options.seed: a number too"),
        ('"[', "setup: line 1: Unterminated string"),
    ],
)
def test_json_out_of_bounds_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(BadScenario) as refused:
        setup_from_json(text)
    assert complaint in str(refused.value)


def test_brackets_in_a_string_are_not_deep() -> None:
    with pytest.raises(BadScenario, match="no such field"):
        setup_from_json('{"%s": 1}' % ("[" * 200 + '\\"' + "{" * 200))


def test_a_when_in_many_whens_is_refused() -> None:
    fault: dict[str, object] = {"kind": "heal", "at_us": 0}
    for _ in range(60):
        fault = {"kind": "when", "at_us": 0, "node": 0, "state": "commit", "then": fault}
    assert "brackets deep" in refuse(plan=[fault])
