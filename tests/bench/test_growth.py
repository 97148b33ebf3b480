"""How a ring grows: small ones, really and simulated; what is said of them, never how fast."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench import growth
from bench.growing.models import Costs, one_machine, own_machines, packets_a_rotation
from bench.growing.real import Grown
from bench.growing.simulated import Simulated, simulate
from bench.growth import Growth
from bench.peers import document
from evensong.core.totem.parameters import LAN
from tests.bench.processes import descendants

COSTS = Costs.of(3, 10.0, 400.0)
NOISE = {"cores": 2, "others_cores": 0.1, "stolen_cores": 0.0}


def grown(
    packets_per_s: float, rotation_p99_us: int = 3_000, excused: int = 0, suspected: int = 0
) -> Grown:
    kills = [501.0, 504.0]
    return Grown(
        packets_per_s, 2_000, 480, rotation_p99_us, 400, 10, suspected, excused, kills, [200.0], 0
    )


def told(real: dict[int, Grown], failed: dict[int, str], simulated: dict[int, Simulated]) -> Growth:
    return Growth({nodes: [one] for nodes, one in real.items()}, failed, COSTS, simulated, NOISE)


def test_costs_of_a_ring_give_back_its_cpu_and_its_idle_rotation() -> None:
    assert COSTS.cpu_us(3) == pytest.approx(10.0)
    assert 3 * COSTS.per_visit_us() == pytest.approx(400.0)
    assert COSTS.send / COSTS.receive == pytest.approx(1.3 / 1.4)


def test_a_model_is_bounded_by_the_window_and_on_one_machine_by_its_cores() -> None:
    assert [packets_a_rotation(nodes) for nodes in (2, 3, 64)] == [440, 660, 704]
    apart = own_machines(8, COSTS)
    rotation = 8 * 400 / 3 + 704 * 7 * COSTS.send
    assert apart.rotation_us == pytest.approx(rotation)
    assert apart.packets_per_s == pytest.approx(704e6 / rotation)
    assert one_machine(8, COSTS, 1).packets_per_s == pytest.approx(1e6 / COSTS.cpu_us(8))
    assert one_machine(8, COSTS, 64) == apart


@pytest.mark.parametrize("nodes", [2, 5])
def test_simulated_rings_do_about_what_the_model_says(nodes: int) -> None:
    seen, model = simulate(nodes, COSTS, 1, 4), own_machines(nodes, COSTS)
    assert seen.changes == 0
    assert seen.rotation_us == pytest.approx(model.rotation_us, rel=0.1)
    assert seen.packets_per_s == pytest.approx(model.packets_per_s, rel=0.15)
    (failover_ms,) = seen.failover_ms
    assert failover_ms == pytest.approx(model.failover_ms, rel=0.05)
    assert simulate(nodes, COSTS, 1, 4) == seen


def test_a_size_stops_being_sensible_by_a_stated_rule() -> None:
    quarter = LAN.token_loss // 4
    real = {2: grown(200_000), 3: grown(160_000, quarter), 5: grown(50_001)}
    assert told(real, {}, {}).verdict_real() == "sensible up to 5, the largest that was tried"
    slow = told({**real, 3: grown(160_000, quarter + 1)}, {}, {})
    assert slow.verdict_real().startswith("sensible up to 2; not 3: a rotation in a hundred")
    small = told({**real, 8: grown(49_999)}, {}, {})
    assert "up to 5; not 8: orders less than 0.25" in small.verdict_real()
    ended = told({**real, 8: grown(90_000, excused=1, suspected=2)}, {}, {})
    assert "not 8: 3 rings ended" in ended.verdict_real()
    assert "not 32: no ring" in told(real, {32: "no ring of n1"}, {}).verdict_real()
    one = Simulated(2_000, 200_000, [500.0], 0)
    many = {3: one, 16: one._replace(rotation_us=quarter + 1)}
    assert "up to 3; not 16: a rotation takes" in told({}, {}, many).verdict_simulated()
    many = {3: one, 16: one._replace(packets_per_s=49_999), 32: one._replace(changes=1)}
    assert "up to 3; not 16: orders less" in told({}, {}, many).verdict_simulated()


def test_tables_and_plots_go_into_the_document(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(document.marks_of(growth.NAME)))
    simulated = {3: Simulated(2_000, 200_000, [500.0, 502.0], 0)}
    growth.write(told({2: grown(200_000), 3: grown(160_000)}, {}, simulated), page)
    assert "| 3 | 160,000 |" in page.read_text()
    assert "| 502 (501–504) |" in page.read_text()
    assert "| 501.0 (500.0–502.0) |" in page.read_text()
    assert f"]({growth.NAME}.svg)" in page.read_text()
    drawing = (tmp_path / f"{growth.NAME}.svg").read_text()
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
    real = Path("docs/performance.md").read_text()
    assert document.replaced(real, growth.NAME, "first") != real


def test_two_daemons_are_flooded_hurt_and_gone(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--nodes 2 --simulated 2 --turns 1 --seconds 0.2 --kills 1 --rotations 3 --json"
    assert growth.main(words.split()) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["failed"] == {}
    (turn,) = seen["real"]["2"]["turns"]
    assert turn["packets_per_s"] > 0
    assert turn["cpu_us"] > 0
    assert len(turn["failover_ms"]) + turn["disturbed"] == 1
    assert all(one > LAN.token_loss / 2_000 for one in turn["failover_ms"])
    assert len(seen["simulated"]["2"]["failover_ms"]) == 1
    assert not descendants()
