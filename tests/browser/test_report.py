"""The report in a real browser: nothing complains, everything is there, and it fits."""

from pathlib import Path

import pytest

from evensong.report import render
from tests.browser.devtools import Browser
from tests.report.sample import REPORT

WIDTHS = (400, 1100)
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    given = request.config.getoption("--page")
    if given:
        return Path(given).resolve()
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(REPORT), encoding="utf-8")
    return path


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_without_a_complaint_and_asks_for_nothing_else(
    browser: Browser, page: Path, pictures: Path, width: int, theme: str
) -> None:
    browser.show(width=width, theme=theme)
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.picture(pictures / f"report-{width}-{theme}.png").startswith(b"\x89PNG")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_to_the_side(browser: Browser, page: Path, width: int) -> None:
    browser.show(width=width)
    browser.open(page)
    browser.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.value("document.documentElement.scrollWidth") <= width
    wide = browser.value(
        "[...document.querySelectorAll('main p, main figure, main ul, main svg[role=img]')]"
        ".filter(one => one.getBoundingClientRect().right > innerWidth + 1)"
        ".map(one => one.outerHTML.slice(0, 80))"
    )
    assert wide == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_is_drawn_and_named(browser: Browser, page: Path, width: int) -> None:
    browser.show(width=width)
    browser.open(page)
    plots = browser.value(
        "[...document.querySelectorAll('svg[role=img]')].map(one => ({"
        "  title: one.querySelector('title').textContent,"
        "  told: one.querySelector('desc').textContent.length,"
        "  width: one.getBoundingClientRect().width,"
        "  height: one.getBoundingClientRect().height,"
        "  shapes: [...one.querySelectorAll('rect, path, line, text')].filter("
        "    shape => { const box = shape.getBoundingClientRect();"
        "      return box.width + box.height > 0 && getComputedStyle(shape).display != 'none' }"
        "  ).length }))"
    )
    assert len(plots) >= 7
    for plot in plots:
        assert plot["title"]
        assert plot["told"] > 10
        assert plot["width"] > 250
        assert plot["height"] > 30
        assert plot["shapes"] >= 3


def test_letters_of_plots_are_as_large_on_a_phone(browser: Browser, page: Path) -> None:
    heights = {}
    for width in WIDTHS:
        browser.show(width=width)
        browser.open(page)
        heights[width] = browser.value(
            "[...document.querySelectorAll('svg[role=img] text')]"
            ".map(one => Math.round(one.getBoundingClientRect().height))"
        )
    assert heights[400] == heights[1100]
    assert min(heights[400]) >= 12


def test_every_link_resolves(browser: Browser, page: Path) -> None:
    browser.show(width=1100)
    browser.open(page)
    dead = browser.value(
        "[...document.querySelectorAll('a')].map(one => one.getAttribute('href'))"
        ".filter(href => !href.startsWith('#') || !document.getElementById(href.slice(1)))"
    )
    assert dead == []
    assert browser.value("document.querySelectorAll('a').length") >= 3


def test_light_dark_and_paper_differ_as_they_should(browser: Browser, page: Path) -> None:
    colours = "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
    browser.show(width=1100, theme="light")
    browser.open(page)
    light = browser.value(colours)
    browser.show(width=1100, theme="dark")
    dark = browser.value(colours)
    assert light[0] == "rgb(253, 252, 250)"
    assert dark[0] == "rgb(21, 24, 27)"
    browser.print_media()
    assert browser.value(colours) == light


def test_looks_of_services_differ_by_more_than_colour(browser: Browser, page: Path) -> None:
    browser.show(width=1100)
    browser.open(page)
    fills = browser.value(
        "['s0', 's1', 's2'].map(name => {"
        "  const one = document.createElementNS('http://www.w3.org/2000/svg', 'rect');"
        "  one.setAttribute('class', name);"
        "  document.querySelector('svg[role=img]').append(one);"
        "  return getComputedStyle(one).fill })"
    )
    assert fills[0].startswith("rgb")
    assert "hatch-s1" in fills[1]
    assert "dots-s2" in fills[2]
    for pattern in ("hatch-s1", "dots-s2", "hatch-before", "hatch-seam"):
        assert browser.value(f"document.querySelectorAll('pattern#{pattern}').length") == 1
