"""What the index of synchrony must come to, on a small instance; all in virtual time."""

from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import synchrony
from bench.synchrony import (
    ALLACK,
    BARE_ALLACK,
    BARE_TOTO,
    RING,
    TOTO,
    WAYS,
    Cell,
    Figures,
    cells,
    holds,
    measure,
    model,
)

SVG = "{http://www.w3.org/2000/svg}"
MESSAGES = 60


@cache
def figures(way: str, nodes: int, rate: int = 160) -> Figures:
    return measure(Cell(way, nodes, rate, MESSAGES))


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("way", [TOTO, BARE_TOTO])
def test_toto_delivers_with_half_of_the_members_and_one_more_at_best(way: str, nodes: int) -> None:
    heard = figures(way, nodes).heard
    assert min(heard) == nodes // 2 + 1
    assert max(heard) <= nodes


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("way", [ALLACK, BARE_ALLACK])
def test_allack_waits_for_everybody(way: str, nodes: int) -> None:
    assert list(figures(way, nodes).heard) == [nodes]


@pytest.mark.parametrize("nodes", [3, 5])
def test_every_message_counts_at_every_processor(nodes: int) -> None:
    for way in WAYS:
        assert figures(way, nodes).deliveries == MESSAGES * nodes


@pytest.mark.parametrize("nodes", [3, 5])
def test_toto_is_sooner_than_allack(nodes: int) -> None:
    assert figures(TOTO, nodes).mean < figures(ALLACK, nodes).mean
    assert figures(BARE_TOTO, nodes).mean < figures(BARE_ALLACK, nodes).mean
    assert figures(TOTO, nodes).mean < figures(BARE_TOTO, nodes).mean, "null messages help"


def test_the_model_is_the_time_until_enough_of_the_others_have_spoken() -> None:
    # Three that speak 100 times a second together: 30 ms each; one of two, or both of them.
    assert model(Cell(BARE_TOTO, 3, 100, 1)) == 30_000 / 2 + synchrony.LATENCY_US
    assert model(Cell(BARE_ALLACK, 3, 100, 1)) == 30_000 * (1 / 2 + 1) + synchrony.LATENCY_US


def test_a_run_is_the_same_every_time() -> None:
    assert measure(Cell(TOTO, 3, 160, MESSAGES)) == figures(TOTO, 3)


def test_what_must_not_be_is_told() -> None:
    cell = Cell(ALLACK, 5, 160, MESSAGES)
    good = figures(ALLACK, 5)
    assert holds({cell: good}) == []
    assert "delivered with 4 heard, below 5" in holds({cell: good._replace(heard={4: 1})})[0]
    bare = Cell(BARE_TOTO, 5, 160, MESSAGES)
    assert "never delivered with 3 heard" in holds({bare: good._replace(heard={4: 1})})[0]


def test_tables_and_plot_go_into_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "doc.md"
    document.write_text(
        "before\n<!-- bench-synchrony: begin -->\nold\n<!-- bench-synchrony: end -->\n"
    )
    words = ["--nodes", "3", "--rates", "160,1000", "--messages", str(MESSAGES)]
    words += ["--results", str(tmp_path / "results"), "--write", str(document)]
    assert synchrony.main(words) == 0
    lines = (tmp_path / "results").read_text().splitlines()
    assert len(lines) == len(list(cells([3], [160, 1000], MESSAGES)))
    text = document.read_text()
    assert "old" not in text
    assert "| 3 | 160 |" in text
    assert "| 3 | ToTo | 2 | 2 |" in text
    drawn = ElementTree.fromstring((tmp_path / synchrony.PICTURE).read_text())
    series = [one.get("data-series") for one in drawn.iter(f"{SVG}path") if one.get("data-series")]
    assert series[: len(series) // 2] == series[len(series) // 2 :], "a panel for each rate"
    assert set(WAYS) <= set(series)
    # What is in the file is not run again.
    capsys.readouterr()
    assert synchrony.main(words) == 0
    assert "Cell" not in capsys.readouterr().err
    assert text == document.read_text()


def test_the_ring_has_no_such_number() -> None:
    assert figures(RING, 3).heard == {}
    assert figures(RING, 3).model == 0
