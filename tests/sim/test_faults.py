import pytest

from evensong.errors import BadScenario
from evensong.sim.faults import (
    FAULT_KINDS,
    Calm,
    Clog,
    Crash,
    CrashIn,
    Cut,
    DelayNext,
    Drift,
    DropNext,
    Duplicate,
    Heal,
    Leave,
    Lossy,
    Partition,
    Pause,
    Plan,
    Reorder,
    Restart,
    Resume,
    Slow,
    Unclog,
    When,
    describe,
    plan_from_json,
    plan_to_json,
)
from evensong.sim.setup import Options, Setup, Weather, setup_from_json, setup_to_json
from evensong.sim.workload import Burst

ONE_OF_EACH: Plan = (
    Crash(1, 2, 3, True),
    CrashIn(2, 1, "recovery", 4),
    Restart(3, 1, True),
    Leave(4, 1),
    Pause(5, 1, 100),
    Resume(6, 1),
    Slow(7, 1, 50),
    Drift(8, 1, -300),
    Cut(9, 1, 2),
    Partition(10, ((1, 2), (3,))),
    Heal(11),
    Clog(12, 1, 2, 9),
    Unclog(13, 1, 2),
    Lossy(14, 0, 0, 0.125, 5),
    Duplicate(15, 1, 0, 0.5),
    Reorder(16, 1, 2, 0.1, 700, 8),
    DropNext(17, "token", 1, 2, 3),
    DelayNext(18, "beacon", 1, 0, 700, 2),
    Calm(19, (3,)),
    When(20, 0, "recovery", Partition(0, ((1,), (2,))), 50),
)


def test_every_kind_of_fault_survives_json() -> None:
    assert [fault.kind for fault in ONE_OF_EACH] == list(FAULT_KINDS)
    assert plan_from_json(plan_to_json(ONE_OF_EACH)) == ONE_OF_EACH


def test_a_setup_survives_json() -> None:
    weather = Weather(10, 20, 30, 0.1, loss_by_kind=(("token", 0.5),))
    setup = Setup(Options((1, 5), 9, weather), ONE_OF_EACH, (Burst(1, 5, 3, 100, 0.5),))
    assert setup_from_json(setup_to_json(setup)) == setup


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "plan: line 1"),
        ("{}", "plan: expected a list"),
        ("[3]", r"plan\[0\]: expected an object"),
        ('[{"kind": "crash", "at_us": 1}]', r"plan\[0\].node: is missing"),
        ('[{"kind": "flood"}]', r"plan\[0\]\.kind: 'flood' is none of crash,"),
        ('[{"kind": "heal", "at_us": "x"}]', r"plan\[0\]\.at_us: expected an integer"),
        ('[{"kind": "heal", "at_us": true}]', r"plan\[0\]\.at_us: expected an integer"),
        ('[{"kind": "heal", "at_us": -1}]', r"plan\[0\]\.at_us: before the run begins"),
        ('[{"kind": "heal", "at_us": 1, "node": 2}]', r"plan\[0\]\.node: no such field"),
        (
            '[{"kind": "heal", "at_us": 1}, {"kind": "crash", "at_us": 1}]',
            r"plan\[1\]\.node: is missing",
        ),
        (
            '[{"kind": "when", "at_us": 1, "then": {"kind": "slow"}}]',
            r"plan\[0\]\.then\.at_us: is missing",
        ),
        (
            '[{"kind": "partition", "at_us": 1, "components": [[1], 2]}]',
            r"plan\[0\]\.components\[1\]: expected a list",
        ),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadScenario, match=place):
        plan_from_json(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", "setup: expected an object"),
        ("{}", "options.nodes: is missing"),
        ('{"nodes": 3}', "setup.nodes: no such field"),
        ('{"options": {"nodes": []}}', "options.nodes: expected different processors"),
        ('{"options": {"nodes": [1, 1]}}', "options.nodes: expected different processors"),
        (
            '{"options": {"nodes": [1], "weather": {"loss": "much"}}}',
            "options.weather.loss: expected a number",
        ),
        (
            '{"options": {"nodes": [1], "parameters": {"join": 1.5}}}',
            "options.parameters.join: expected an integer",
        ),
        ('{"options": {"nodes": [1]}, "workload": [{}]}', r"workload\[0\]\.at_us: is missing"),
    ],
)
def test_a_bad_setup_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(BadScenario, match=place):
        setup_from_json(text)


def test_a_fault_is_said_in_one_line() -> None:
    assert describe(Crash(12_500, 3, 2)) == "12.500ms crash node=3 effects=2"
    assert describe(Partition(0, ((1, 2), (3,)))) == "0.000ms partition components=1,2|3"
    ambush = When(1_000, 0, "commit", Crash(0, 3), 20)
    assert describe(ambush) == "1.000ms when state=commit then (crash node=3) after_us=20"
