"""Plans with clients: what cannot be run is refused by place; the command line has them, too."""

import json
from pathlib import Path

import pytest

from evensong.cli.main import main
from evensong.errors import BadScenario
from evensong.sim import admit
from evensong.sim.groups.acts import ASK, CLOSE, JOIN, LEAVE, SEND, Act, Clients
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_setup
from evensong.sim.setup import Options, Setup, setup_from_json, setup_to_json
from evensong.sim.workload import Burst

GOOD = Act(1_000, 1, 0, SEND, ("Ann",))


def setup_of(*acts: Act, payload_max: int = 600, workload: tuple[Burst, ...] = ()) -> Setup:
    return Setup(Options((1, 2)), (), workload, Clients(acts, payload_max=payload_max))


@pytest.mark.parametrize(
    ("setup", "place"),
    [
        (setup_of(Act(0, 3, 0, SEND, ("g",))), r"acts\[0\]: 3 is none of the processors"),
        (setup_of(GOOD, Act(0, 1, 3, SEND, ("g",))), r"acts\[1\].seat: 3"),
        (setup_of(Act(-1, 1, 0, SEND, ("g",))), r"acts\[0\].at_us"),
        (setup_of(Act(0, 1, 0, "sing", ("g",))), r"acts\[0\].kind: 'sing'"),
        (setup_of(Act(0, 1, 0, SEND, ())), r"acts\[0\].groups: expected 1 to 64"),
        (setup_of(Act(0, 1, 0, JOIN, ("#g",))), r"acts\[0\].groups: '#g' is no name"),
        (setup_of(Act(0, 1, 0, JOIN, ("@1.0",))), r"acts\[0\].groups: '@1.0' is no seat"),
        (setup_of(Act(0, 1, 0, SEND, ("@ann",))), r"acts\[0\].groups: '@ann' is no seat"),
        (setup_of(Act(0, 1, 0, SEND, ("g",), 20_000, 2)), r"acts\[0\]: several messages of 20000"),
        (setup_of(Act(0, 1, 0, SEND, ("g",), 10, 9)), r"acts\[0\].count: 9"),
        (setup_of(Act(0, 1, 0, SEND, ("g",), 10**9)), r"acts\[0\].size"),
        (setup_of(GOOD, payload_max=10), r"clients.payload_max: 10"),
        (setup_of(GOOD, workload=(Burst(0, 1),)), r"workload: where clients act"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place(setup: Setup, place: str) -> None:
    with pytest.raises(BadScenario, match=place):
        admit.check(setup)


def test_every_kind_of_act_is_done() -> None:
    setup = setup_of(
        Act(20_000, 1, 0, JOIN, ("Bea", "cid")),
        Act(20_000, 2, 0, JOIN, ("Bea",)),
        Act(40_000, 1, 0, ASK, ("Bea", "cid"), 2_000, safe=True),
        Act(50_000, 2, 0, SEND, ("@1.0", "dan"), discard=True),
        Act(60_000, 1, 0, LEAVE, ("cid",)),
        Act(70_000, 1, 0, CLOSE),
    )
    admit.check(setup)
    outcome = run_setup(setup)
    assert outcome.violations == ()
    assert {"joins", "disconnects", "multi-group messages", "private messages"} <= set(
        outcome.happened
    )


def test_acts_that_do_not_fit_are_refused_by_place() -> None:
    with pytest.raises(BadScenario, match=r"acts\[0\].size: expected an integer"):
        setup_from_json(
            '{"options": {"nodes": [1]},'
            ' "acts": [{"at_us": 1, "node": 1, "seat": 0, "kind": "send", "size": "x"}]}'
        )
    with pytest.raises(BadScenario, match=r"clients.pace: no such field"):
        setup_from_json('{"options": {"nodes": [1]}, "clients": {"pace": 1}}')


def test_a_plan_says_itself_whether_there_are_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    act = {"at_us": 30_000, "node": 1, "seat": 0, "kind": "send", "groups": ["Ann"]}
    plan.write_text(json.dumps({"options": {"nodes": [1, 2]}, "acts": [act]}), encoding="utf-8")
    assert main(["sim", "--plan", str(plan)]) == 0
    assert "clients, in runs joins 1" in capsys.readouterr().out
    assert main(["sim", "--plan", str(plan), "--clients"]) == 2
    assert "no --clients beside it" in capsys.readouterr().err


def test_json_has_what_came_about_and_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seed", "1", "--clients", "--messages", "40", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["happened"]["joins"] == 1
    assert {"D1", "D7", "G1", "G8", "S1", "S3", "I15", "EVS1.3"} <= set(plain["properties"])


def test_what_a_seed_draws_can_be_run_as_a_plan() -> None:
    for seed in range(40):
        setup = draw(seed)
        admit.check(setup)
        assert setup_from_json(setup_to_json(setup)) == setup
