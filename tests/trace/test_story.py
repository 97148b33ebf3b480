"""What people are shown of a run holds what happened in it."""

import re
from xml.etree import ElementTree

import pytest

from evensong.sim.history import History
from evensong.trace.story import conf_story, drawing, text_drawing
from tests.sim.history_language import history

SVG = "{http://www.w3.org/2000/svg}"

RUN = history(
    """p: conf R1{p,q,r}, send m1, del m1, conf T2{p,q}, conf R2{p,q}, quiesce
       q: conf R1{p,q,r}, del m1, conf T2{p,q}, conf R2{p,q}, stop
       r: conf R1{p,q,r}, fail"""
)
again = RUN.begin(3, 2, 45)
again.end("quiesce", 60)


def test_the_story_is_told_in_order_of_time() -> None:
    assert conf_story(RUN) == [
        "     0.000 ms  p1  starts",
        "     0.000 ms  p2  starts",
        "     0.000 ms  p3  starts",
        "     0.010 ms  p1  installs regular 4.1 {1,2,3} (test)",
        "     0.010 ms  p2  installs regular 4.1 {1,2,3} (test)",
        "     0.010 ms  p3  installs regular 4.1 {1,2,3} (test)",
        "     0.020 ms  p3  crashes",
        "     0.030 ms  p2  installs transitional 6.1 {1,2} (test)",
        "     0.040 ms  p1  installs transitional 6.1 {1,2} (test)",
        "     0.040 ms  p2  installs regular 8.1 {1,2} (test)",
        "     0.045 ms  p3  starts again",
        "     0.050 ms  p1  installs regular 8.1 {1,2} (test)",
        "     0.050 ms  p2  leaves",
        "     0.060 ms  p1  is there at the end",
        "     0.060 ms  p3  is there at the end",
    ]


def test_the_terminal_shows_a_line_a_processor_and_a_letter_a_configuration() -> None:
    lines = text_drawing(RUN, width=31).splitlines()
    assert lines == [
        "p1        AAAAAAAAAAAA~~~~BBBBB",
        "p2        AAAAAAAA~~~~BBBB!",
        "p3        AAAAx         ^",
        "      0.000 ms         0.060 ms",
        "      A 4.1 {1,2,3}",
        "      B 8.1 {1,2}",
        "      - alone   ~ transitional   x crash   ^ restart   ! leave",
    ]


def test_time_begins_with_the_run_and_who_was_lost_crashed() -> None:
    history = History()
    history.begin(7, 1, 5_000_000).end("lost", 5_000_010)
    lane, axis, *_ = text_drawing(history, width=31, prefix="n").splitlines()
    assert lane == "n7                            x"
    assert axis == "      0.000 ms         0.010 ms"


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_the_lanes_keep_to_the_width(width: int) -> None:
    lanes = text_drawing(RUN, width).splitlines()[:3]
    assert all(len(lane) <= max(16, width) for lane in lanes)


def picture(run: History) -> ElementTree.Element:
    return ElementTree.fromstring(drawing(run))


def test_the_picture_has_a_lane_a_processor() -> None:
    lanes = picture(RUN).findall(f"{SVG}g[@class='processor']")
    assert [lane.get("data-node") for lane in lanes] == ["1", "2", "3"]
    assert [lane.findtext(f"{SVG}text") for lane in lanes] == ["p1", "p2", "p3"]


def test_the_picture_has_a_bar_for_every_stay_in_one_colour_a_configuration() -> None:
    bars = [
        bar
        for bar in picture(RUN).iter(f"{SVG}rect")
        if (bar.get("class") or "").startswith("conf ")
    ]
    assert [bar.get("data-conf") for bar in bars] == ["4.1", "8.1", "4.1", "8.1", "4.1"]
    colours = {(bar.get("data-conf"), bar.get("class")) for bar in bars}
    assert colours == {("4.1", "conf c0"), ("8.1", "conf c1")}
    assert all(float(bar.get("width") or 0) > 0 for bar in bars)


def test_the_picture_marks_seams_crashes_restarts_and_leaves() -> None:
    lanes = picture(RUN).findall(f"{SVG}g[@class='processor']")
    marks = [
        [shape.get("class") for shape in lane if shape.get("class") in MARKS] for lane in lanes
    ]
    assert marks == [["seam"], ["seam", "left"], ["crash", "start"]]


MARKS = ("seam", "crash", "start", "left")


def test_a_bar_tells_its_configuration_to_who_points_at_it() -> None:
    titles = [title.text for title in picture(RUN).iter(f"{SVG}title")]
    assert "regular 4.1 {1,2,3}: test; 0.01 ms to 0.04 ms, 1 delivery" in titles
    assert "crash at 0.02 ms" in titles


def test_the_picture_speaks_to_readers_who_do_not_see_it() -> None:
    root = picture(RUN)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title")
    said = root.findtext(f"{SVG}desc") or ""
    assert "p1 went through 4.1, 8.1 to the end." in said
    assert "p3 went through 4.1 and crashed." in said


def test_the_picture_has_a_light_and_a_dark_side_with_the_same_classes() -> None:
    style = picture(RUN).findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    coloured = re.compile(r"\.(c\d|paper|title|crash|alone)\b")
    assert set(coloured.findall(dark)) == set(coloured.findall(light))


def test_a_processor_alone_is_grey() -> None:
    alone = picture(history("p: conf R1{p}, quiesce"))
    (bar,) = (bar for bar in alone.iter(f"{SVG}rect") if bar.get("data-conf"))
    assert bar.get("class") == "conf alone"


def test_markup_in_a_cause_stays_text() -> None:
    run = history("p: conf R1{p}, quiesce")
    event = run.lives[1, 1].events[1]
    assert event.conf is not None
    conf = type(event.conf)(
        event.conf.conf_id, event.conf.prev_id, (1,), transitional=False, cause="<b>&"
    )
    run.lives[1, 1].events[1] = event._replace(conf=conf)
    assert any("<b>&" in (title.text or "") for title in picture(run).iter(f"{SVG}title"))


def test_the_same_history_gives_the_same_bytes() -> None:
    turned = History()
    for key in reversed(list(RUN.lives)):
        turned.lives[key] = RUN.lives[key]
    assert drawing(turned) == drawing(RUN)
    assert text_drawing(turned) == text_drawing(RUN)
    assert conf_story(turned) == conf_story(RUN)


def test_an_empty_run_can_be_shown() -> None:
    assert picture(History()).tag == f"{SVG}svg"
    assert conf_story(History()) == []
    assert text_drawing(History()).endswith("leave\n")
