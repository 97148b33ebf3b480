from dataclasses import replace
from html.parser import HTMLParser

import pytest

from evensong.report import Report, render
from evensong.report.model import Run
from tests.report.sample import HOSTILE, PROMISES, REPORT, WHOLE

VOID = {"meta", "br", "hr"}
DRAWN = {
    "Who was with whom",
    "What each change took",
    "Throughput",
    "Latency at the sender",
    "Latency from node to node",
    "A round of the token",
    "Load of each node",
}


class Page(HTMLParser):
    """What is in a page: elements, anchors, links, headings and words; badly nested is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.captions: list[str] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @property
    def ids(self) -> list[str]:
        return [str(given["id"]) for _, given in self.elements if "id" in given]

    def of(self, name: str) -> list[dict[str, str | None]]:
        return [given for element, given in self.elements if element == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["strong"] and self._open[-2:-1] == ["figcaption"]:
            self.captions.append(data)
        if "style" not in self._open:
            self.words += data


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(REPORT))


def test_every_link_leads_somewhere_and_no_anchor_is_twice(page: Page) -> None:
    targets = [str(given["href"]) for given in page.of("a")]
    assert targets
    assert all(target.startswith("#") and target[1:] in page.ids for target in targets)
    assert len(page.ids) == len(set(page.ids))


def test_headings_go_down_one_step_at_a_time(page: Page) -> None:
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    for above, below in zip(page.headings, page.headings[1:], strict=False):
        assert below <= above + 1


def test_every_plot_is_there_has_words_and_has_its_numbers(page: Page) -> None:
    assert set(page.captions) == DRAWN
    pictures = [given for given in page.of("svg") if given.get("role") == "img"]
    assert len(pictures) >= len(DRAWN)
    for picture in pictures:
        labels = str(picture["aria-labelledby"]).split()
        assert len(labels) == 2
        assert set(labels) <= set(page.ids)
    assert len(page.of("figure")) == sum(
        str(given.get("class")) == "numbers" for given in page.of("details")
    )


def test_what_others_named_is_text_and_never_markup() -> None:
    html = render(REPORT)
    assert "<script" not in html
    assert HOSTILE in Page(html).words
    for _, given in Page(html).elements:
        assert not any(name.startswith("on") for name in given)


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object"} & {name for name, _ in page.elements}
    html = render(REPORT)
    assert "http" not in html.replace("http-equiv", "")
    assert "@import" not in html
    policy = next(given for given in page.of("meta") if "http-equiv" in given)
    assert str(policy["content"]).startswith("default-src 'none'")


def test_a_broken_promise_comes_first_with_its_witness() -> None:
    page = Page(render(REPORT))
    assert "Broken: 1 property, 7 times" in page.words
    assert f"run tuesday {HOSTILE}: n1 delivered {HOSTILE} before n2's" in page.words
    assert "and 6 more" in page.words
    items = [name for name in page.ids if name.startswith("property-")]
    assert items == ["property-TG", "property-EVS7-2e-1", "property-TR3", "property-EVS4"]


def test_vacuous_and_inconclusive_are_shown_as_such_and_explained(page: Page) -> None:
    assert page.words.count("inconclusive") >= 3
    assert "no proof of anything" in page.words
    assert "nobody can tell" in page.words


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (WHOLE, "Nothing is broken; 4 of 320 checks cannot be decided"),
        (replace(WHOLE, verdicts=WHOLE.verdicts[:1]), "Every promise was kept"),
        (replace(WHOLE, verdicts=WHOLE.verdicts[2:3]), "Nothing in these traces could be judged"),
        (replace(WHOLE, verdicts=()), "The traces were not judged"),
    ],
)
def test_the_first_line_says_no_more_than_is_known(run: Run, sentence: str) -> None:
    assert sentence in Page(render(Report((run,), PROMISES))).words


def test_members_with_different_clocks_are_drawn_apart(page: Page) -> None:
    assert "These nodes read 2 clocks, which cannot be compared" in page.words
    assert "who was first and who was last; the members read different clocks" in page.words


def test_a_story_tells_causes_and_what_each_saw(page: Page) -> None:
    assert "n2 joined (started)." in page.words
    assert "Recovered in 20 ms." in page.words
    assert "n1: join (n2)" in page.words


def test_equal_values_give_equal_bytes() -> None:
    assert render(REPORT) == render(replace(REPORT))


@pytest.mark.parametrize("run", [Run("empty"), replace(WHOLE, throughput=(), latency=())])
def test_what_is_not_there_is_said(run: Run) -> None:
    page = Page(render(Report((run,))))
    assert "Messages were not traced in this run" in page.words
    assert all(str(given["href"])[1:] in page.ids for given in page.of("a"))


def test_a_report_without_a_run_is_a_page() -> None:
    assert "The traces were not judged" in Page(render(Report(()))).words


def test_runs_that_are_not_shown_are_counted() -> None:
    page = Page(render(replace(REPORT, n_runs=300)))
    assert "298 runs more are not shown" in page.words


def test_a_service_looks_the_same_in_every_plot() -> None:
    html = render(Report((WHOLE,)))
    assert html.count('class="area s1"') == 2  # safe: at its sender, and from node to node
