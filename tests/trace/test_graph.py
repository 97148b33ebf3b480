"""The picture of a causal graph holds what happened in the run, and can be read."""

from collections import Counter
from functools import cache
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from evensong.sim.campaign import load_setup
from evensong.sim.transis.memoir import Entrance, Memoir, Name, Receipt, Turn, recall
from evensong.sim.transis.swarm import swarm
from evensong.trace.graph import LINES_MAX, graph_drawing
from evensong.trace.graph_layout import LEAN, Layout, Span, count_posts, largest_span

SVG = "{http://www.w3.org/2000/svg}"
TWO_AT_ONCE = "docs/protocols/two-at-once.json"
PICTURE = "docs/protocols/two-at-once.svg"
ALL = Span(0, 2**60)
SEEDS = (0, 5)


@cache
def memoir_of(seed: int) -> Memoir:
    return recall(swarm(seed, 4, 60))[0]


@cache
def picture(seed: int) -> ElementTree.Element:
    return ElementTree.fromstring(graph_drawing(memoir_of(seed), ALL, "title", "remark"))


def groups(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if kind in (one.get("class") or "").split()]


def words(one: ElementTree.Element) -> str:
    return one.findtext(f"{SVG}title") or ""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_message_of_the_graph_is_drawn_with_its_kind_and_votes(seed: int) -> None:
    memoir = memoir_of(seed)
    drawn = {
        (one.get("data-view"), one.get("data-message")): one
        for one in groups(picture(seed), "message")
    }
    assert len(drawn) == len(memoir.posts)
    for name, post in memoir.posts.items():
        one = drawn[str(name.view_id), str(name)]
        if not memoir.is_ordered(name):
            assert one.get("data-votes") is None
            continue
        votes = memoir.votes(name)
        assert one.get("data-kind") == post.node.message.service.name.lower()
        assert one.get("data-votes") == " ".join(map(str, votes.values()))
        assert len(groups(one, "voted")) == len(votes)
        size = len(memoir.graphs[name.view_id].members)
        assert len(groups(one, "voted")) + len(groups(one, "open")) == size
        for proc, vote in votes.items():
            assert (f"p{proc} itself" if vote == name else f"p{proc} by {vote}") in words(one)


@pytest.mark.parametrize("seed", SEEDS)
def test_arrows_are_the_acknowledgements_and_lead_to_the_right(seed: int) -> None:
    memoir = memoir_of(seed)
    arrows = groups(picture(seed), "edge")
    told = Counter((one.get("data-from"), one.get("data-to")) for one in arrows)
    acks = Counter(
        (str(Name(name.view_id, *ack)), str(name))
        for name, post in memoir.posts.items()
        for ack in post.node.message.acks
    )
    assert told == acks
    layout = Layout(memoir, ALL)
    for name, post in memoir.posts.items():
        for ack in post.node.message.acks:
            assert layout.x[name] >= layout.x[Name(name.view_id, *ack)] + LEAN


@pytest.mark.parametrize("seed", SEEDS)
def test_time_never_runs_back_and_messages_of_a_lane_do_not_touch(seed: int) -> None:
    layout = Layout(memoir_of(seed), ALL)
    assert layout.moments == sorted(layout.moments)
    lanes: dict[int, list[float]] = {}
    for name, post in layout.posts.items():
        lanes.setdefault(post.proc, []).append(layout.x[name])
    for places in lanes.values():
        assert all(later - earlier > 15 for earlier, later in pairwise(places))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_delivery_stands_in_its_processors_lane_with_its_time(seed: int) -> None:
    memoir = memoir_of(seed)
    root = picture(seed)
    named = [
        (int(one.get("data-node") or 0), one.get("data-message"), int(one.get("data-at") or 0))
        for one in groups(root, "delivery")
    ]
    rest = sum(int(one.get("data-rest") or 0) for one in root.iter())
    receipts = [one for one in memoir.happenings if isinstance(one, Receipt)]
    told = [(one.proc, str(one.name), one.at_us) for one in receipts]
    assert len(named) + rest == len(told)
    assert not Counter(named) - Counter(told)
    for one in groups(root, "delivery"):
        assert f"p{one.get('data-node')} delivers {one.get('data-message')}" in words(one)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_band_for_every_stay_in_a_view_and_a_mark_for_every_start_and_end(seed: int) -> None:
    memoir = memoir_of(seed)
    bands = Counter(
        (one.get("data-node"), one.get("data-view")) for one in groups(picture(seed), "stay")
    )
    entrances = [one for one in memoir.happenings if isinstance(one, Entrance)]
    assert bands == Counter((str(one.proc), str(one.conf.conf_id)) for one in entrances)
    marks = Counter(
        (one.get("data-node"), one.get("data-what")) for one in groups(picture(seed), "turn")
    )
    turns = [one for one in memoir.happenings if isinstance(one, Turn)]
    assert marks == Counter((str(one.proc), one.what) for one in turns)
    colours: dict[str, set[str]] = {}
    for stay in groups(picture(seed), "stay"):
        kind = groups(stay, "band")[0].get("class") or ""
        colours.setdefault(stay.get("data-view") or "", set()).add(kind)
    assert all(len(found) == 1 for found in colours.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_votes_decided_is_delivered_by_rounds(seed: int) -> None:
    rounds = {
        (one.get("data-view"), one.get("data-message")): int(one.get("data-round") or 0)
        for one in groups(picture(seed), "message")
    }
    last: dict[tuple[int, str], int] = {}
    checked = 0
    for one in memoir_of(seed).happenings:
        if isinstance(one, Receipt) and one.place and not one.after_gap:
            at = rounds[str(one.name.view_id), str(one.name)]
            lane = (one.proc, str(one.name.view_id))
            assert at >= last.get(lane, 1)
            last[lane] = at
            checked += 1
    assert checked


def test_a_span_shows_what_is_in_it_and_the_view_that_it_begins_in() -> None:
    memoir = memoir_of(5)
    times = sorted(post.at_us for post in memoir.posts.values())
    span = Span(times[len(times) // 3], times[2 * len(times) // 3])
    root = ElementTree.fromstring(graph_drawing(memoir, span, "title"))
    shown = [name for name, post in memoir.posts.items() if span.has(post.at_us)]
    assert 0 < len(shown) < len(memoir.posts)
    assert count_posts(memoir, span) == len(shown)
    assert Counter(one.get("data-message") for one in groups(root, "message")) == Counter(
        map(str, shown)
    )
    before = [
        one
        for one in memoir.happenings
        if isinstance(one, Entrance) and one.proc == 1 and one.at_us < span.from_us
    ]
    first = next(one for one in groups(root, "stay") if one.get("data-node") == "1")
    assert first.get("data-view") == str(before[-1].conf.conf_id)


def test_the_longest_span_has_as_many_messages_as_are_asked_for_and_no_more() -> None:
    memoir = memoir_of(0)
    for most in (1, 10, 40):
        span = largest_span(memoir, 0, most)
        assert count_posts(memoir, span) <= most
        assert count_posts(memoir, Span(0, span.to_us + 1)) > most
    assert count_posts(memoir, largest_span(memoir, 0, len(memoir.posts))) == len(memoir.posts)


def test_a_column_names_so_many_and_counts_the_rest() -> None:
    memoir = recall(swarm(5, 4, 200))[0]
    deepest = max(len(stack.receipts) for stack in Layout(memoir, ALL).stacks)
    assert deepest > LINES_MAX + 1
    root = ElementTree.fromstring(graph_drawing(memoir, ALL, "title"))
    columns = groups(root, "stack")
    assert max(len(groups(one, "delivery")) for one in columns) <= LINES_MAX + 1
    assert sum(int(one.get("data-rest") or 0) for one in root.iter()) > 0


def test_the_picture_is_the_same_every_time_and_needs_nothing_else() -> None:
    memoir = memoir_of(0)
    text = graph_drawing(memoir, ALL, 'a "title" <with> &', "remark")
    assert text == graph_drawing(memoir, ALL, 'a "title" <with> &', "remark")
    assert ElementTree.fromstring(text).findtext(f"{SVG}title") == 'a "title" <with> &'
    assert "prefers-color-scheme: dark" in text
    assert text.count("http") == 1, "the name of SVG itself, and nothing to load"
    assert "<script" not in text


def test_a_large_view_tells_the_number_of_votes() -> None:
    memoir = recall(swarm(1, 14, 40))[0]
    root = ElementTree.fromstring(graph_drawing(memoir, ALL, "title"))
    ordered = [name for name in memoir.posts if memoir.is_ordered(name)]
    large = [name for name in ordered if len(memoir.graphs[name.view_id].members) > 12]
    assert large
    drawn = {
        (one.get("data-view"), one.get("data-message")): one for one in groups(root, "message")
    }
    for name in large:
        told = [one.text for one in groups(drawn[str(name.view_id), str(name)], "number")]
        size = len(memoir.graphs[name.view_id].members)
        assert f"{len(memoir.votes(name))}/{size}" in told


def test_every_mark_of_a_picture_is_in_its_legend() -> None:
    (legend,) = groups(picture(0), "legend")
    told = [one.text for one in legend.iter(f"{SVG}text")]
    for what in ("agreed", "safe", "causal", "basic", "starts", "leaves", "crashes"):
        assert what in told
    marks = [one.get("data-what") for seed in SEEDS for one in groups(picture(seed), "turn")]
    assert set(marks) <= set(told)


def test_the_picture_in_the_documents_is_what_the_code_draws() -> None:
    memoir = recall(load_setup(TWO_AT_ONCE))[0]
    root = ElementTree.fromstring(graph_drawing(memoir, ALL, "title"))
    with open(PICTURE, encoding="utf-8") as file:
        kept = ElementTree.fromstring(file.read())
    for kind in ("message", "edge", "delivery", "stay", "turn"):
        mine, theirs = (
            [{**one.attrib, "words": words(one)} for one in groups(drawn, kind)]
            for drawn in (root, kept)
        )
        assert mine == theirs, f"draw it again: evensong sim --plan {TWO_AT_ONCE} --draw {PICTURE}"
