"""The cores of both engines in one process: what they deliver, and how they are measured."""

import json

import pytest

from evensong.bench import beside, engines
from evensong.bench.beside import Beside
from evensong.bench.engines import NAME, Loopback, Turn, measure, measure_all
from evensong.cli import bench as command
from evensong.cli.main import main
from evensong.core.effects import Deliver
from evensong.sim.setup import ENGINES

ENOUGH = 300


@pytest.mark.parametrize("nodes", [3, 4])
@pytest.mark.parametrize("engine", ENGINES)
def test_all_deliver_everybodys_messages_in_one_order(engine: str, nodes: int) -> None:
    heard: dict[int, list[tuple[int, int]]] = {}

    def listen(node: int, delivered: Deliver) -> None:
        for part in delivered.parts:
            for payload in part.payloads():
                assert len(payload) == engines.SIZE
                heard.setdefault(node, []).append(NAME.unpack_from(payload))

    loopback = Loopback(engine, nodes, engines.SIZE, listen)
    loopback.form()
    installs = loopback.installs
    while min(loopback.delivered) < ENOUGH:
        loopback.sweep()
    assert loopback.installs == installs, "nobody was suspected"
    shortest = min(heard.values(), key=len)
    assert all(order[: len(shortest)] == shortest for order in heard.values())
    assert {sender for sender, _ in shortest} == set(range(1, nodes + 1))
    for sender in range(1, nodes + 1):
        numbers = [number for who, number in shortest if who == sender]
        assert numbers == list(range(1, len(numbers) + 1)), "in the order of its sender"


def test_rates_are_of_cpu_time_and_of_one_processor() -> None:
    turn = Turn(nodes=4, messages=1_000, cpu_s=2.0, view_changes=0)
    assert turn.per_s() == 2_000
    assert turn.cpu_us() == 500
    assert turn.together_per_s() == 500


def test_a_turn_counts_what_the_first_processor_delivers_after_the_warm_up() -> None:
    turn = measure("transis", 3, 64, 0.01)
    assert turn.messages > 0
    assert turn.cpu_s >= 0.01
    assert turn.view_changes == 0


def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []

    def note(engine: str, nodes: int, size: int, seconds: float) -> Turn:
        done.append((engine, nodes))
        return Turn(nodes, 1, 1.0, 0)

    monkeypatch.setattr(engines, "measure", note)
    taken = measure_all([3, 4], 64, 1.0, 2, lambda: None)
    first, second = done[:4], done[4:]
    assert first == [("totem", 3), ("transis", 3), ("totem", 4), ("transis", 4)]
    assert second == [("transis", 3), ("totem", 3), ("transis", 4), ("totem", 4)]
    assert {key: len(turns) for key, turns in taken.items()} == dict.fromkeys(done, 2)


def test_the_command_tells_both_engines_from_three_to_ten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def made_up(engine: str, nodes: int, size: int, seconds: float) -> Turn:
        return Turn(nodes, 1_000 * (1 + len(engine)), float(nodes), 0)

    monkeypatch.setattr(engines, "measure", made_up)
    assert main(["bench", "engines", "--cores", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["of"], told["size"], told["turns"], told["seconds"]) == ("cores", 1024, 3, 1)
    cells = {(one["engine"], one["nodes"]): one for one in told["cells"]}
    assert list(cells) == [(engine, n) for engine in ENGINES for n in range(3, 11)]
    assert cells["totem", 5]["messages_per_s"]["median"] == 6_000
    assert cells["transis", 10]["on_one_cpu_per_s"]["median"] == 800
    assert main(["bench", "engines", "--cores", "--nodes", "4:5"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in table[2:]] == [
        [engine, n] for engine in ENGINES for n in ("4", "5")
    ]


def test_the_command_tells_daemons_of_both_engines_in_one_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[tuple[str, int]] = []

    def made_up(engine: str, nodes: int, size: int, seconds: float) -> Beside:
        done.append((engine, nodes))
        rate = 10_000.0 * len(engine) / nodes + len(done)
        return Beside(rate, rate - 1, 20.0, 1, 100, 400 * nodes, 900 * nodes, 0)

    monkeypatch.setattr(beside, "measure", made_up)
    assert main(["bench", "engines", "--json", "--turns", "2", "--nodes", "3:4"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["of"], told["size"], told["seconds"]) == ("daemons", 1024, 3)
    assert done[:4] == [("totem", 3), ("transis", 3), ("totem", 4), ("transis", 4)]
    assert done[4:6] == [("transis", 3), ("totem", 3)]
    cells = {(one["engine"], one["nodes"]): one for one in told["cells"]}
    assert list(cells) == [(engine, n) for engine in ENGINES for n in (3, 4)]
    assert len(cells["totem", 3]["delivered_per_s"]["all"]) == 2
    assert cells["transis", 4]["p50_us"]["median"] == 1_600
    assert main(["bench", "engines", "--nodes", "3", "--turns", "1"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in table[2:]] == [["totem", "3"], ["transis", "3"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_daemons_of_an_engine_are_measured(engine: str) -> None:
    turn = beside.measure(engine, 2, 1_024, 1)
    assert turn.delivered_per_s >= turn.least_per_s > 0
    assert turn.samples > 0
    assert 0 < turn.p50_us <= turn.p99_us


@pytest.mark.parametrize(
    "words",
    [
        ["--trace"],
        ["--api", "batch"],
        ["--size", "8", "--cores"],
        ["--size", "100000", "--cores"],
    ],
)
def test_what_the_engines_do_not_take_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "engines", *words]) == 2
    assert capsys.readouterr().err.startswith(f"evensong: {words[0]}: ")
    assert engines.SIZE <= command.ENGINE_MESSAGE_MOST
