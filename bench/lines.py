"""Plots of lines, several beside each other on one scale of decades; nothing to load."""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import NamedTuple, TypeAlias

from evensong.report.markup import Markup, tag
from evensong.report.style import DARK, LIGHT

PANEL, GAP, LEFT, RIGHT, TOP, HEIGHT, BOTTOM = 250, 26, 56, 16, 84, 260, 44
COLOURS = ("ink", "s0", "s1", "s2", "s3")
MARKS = ("circle", "square", "diamond", "triangle", "cross")
STYLE = (
    "text{font:12px system-ui,sans-serif}.title{font-size:15px;font-weight:600}"
    ".mid{text-anchor:middle}.end{text-anchor:end}.line{fill:none;stroke-width:2}"
    ".model{stroke-width:1.4;stroke-dasharray:5 4}"
)


Up: TypeAlias = Callable[[float], float]  # where a value stands


class Series(NamedTuple):
    """A line; a model is drawn dashed, in the colour of the line before it."""

    name: str
    points: Sequence[tuple[float, float]]
    is_model: bool = False


class Panel(NamedTuple):
    """One plot of several."""

    name: str
    series: Sequence[Series]


def _theme(colours: dict[str, str]) -> str:
    rules = [
        f".back{{fill:{colours['card']}}}text{{fill:{colours['ink']}}}",
        f".soft{{fill:{colours['soft']}}}.grid{{stroke:{colours['grid']}}}",
    ]
    for at, name in enumerate(COLOURS):
        rules.append(f".l{at}{{stroke:{colours[name]}}}.f{at}{{fill:{colours[name]}}}")
    return "".join(rules)


def panels(title: str, across: str, below: str, drawn: Sequence[Panel]) -> Markup:
    """Draw plots beside each other; `across` is what goes upwards, `below` to the right."""
    values = [y for panel in drawn for one in panel.series for _, y in one.points if y > 0]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    high = max(high, low + 1)
    xs = sorted({x for panel in drawn for one in panel.series for x, _ in one.points})
    width = LEFT + len(drawn) * (PANEL + GAP) - GAP + RIGHT
    height = TOP + HEIGHT + BOTTOM

    def up(value: float) -> float:
        return TOP + HEIGHT * (high - log10(value)) / (high - low)

    content: list[Markup] = [
        tag("title", title),
        tag(
            "style",
            Markup(
                f"{STYLE}{_theme(LIGHT)}@media(prefers-color-scheme:dark){{{_theme(DARK)}}}",
            ),
        ),
        tag("rect", class_="back", width=width, height=height),
        tag("text", title, class_="title", x=8, y=20),
        tag("text", across, class_="soft", x=8, y=TOP - 10),
        *_legend(drawn[0].series),
    ]
    for number, panel in enumerate(drawn):
        left = LEFT + number * (PANEL + GAP)
        content += _grid(left, low, high, up, has_labels=not number)
        content += _lines(panel, left, xs, up)
        middle = left + PANEL / 2
        content.append(tag("text", panel.name, class_="mid", x=middle, y=TOP - 10))
        content.append(tag("text", below, class_="soft mid", x=middle, y=height - 8))
    return tag(
        "svg",
        content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
    )


def _grid(left: float, low: int, high: int, up: Up, *, has_labels: bool) -> list[Markup]:
    drawn = []
    for decade in range(low, high + 1):
        y = up(10.0**decade)
        drawn.append(tag("line", class_="grid", x1=left, x2=left + PANEL, y1=y, y2=y))
        if has_labels:
            drawn.append(tag("text", f"{10.0**decade:g}", class_="soft end", x=left - 6, y=y + 4))
    return drawn


def _lines(panel: Panel, left: float, xs: Sequence[float], up: Up) -> list[Markup]:
    step = PANEL / len(xs)
    # Sizes stand at equal distances: what counts is one beside the other.
    place = {x: left + step * (at + 0.5) for at, x in enumerate(xs)}
    drawn: list[Markup] = [
        tag("text", f"{x:g}", class_="soft mid", x=place[x], y=TOP + HEIGHT + 18) for x in xs
    ]
    colour = -1
    for one in panel.series:
        colour += not one.is_model
        points = [(place[x], up(y)) for x, y in one.points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        kind = "model" if one.is_model else "line"
        drawn.append(tag("path", class_=f"line {kind} l{colour}", d=path, data_series=one.name))
        if not one.is_model:
            for (x, y), (number, value) in zip(points, one.points, strict=True):
                hint = tag("title", f"{one.name}, {number:g}: {value:.2f}")
                drawn.append(_mark(colour, x, y, hint))
    return drawn


def _mark(colour: int, x: float, y: float, hint: Markup | None = None) -> Markup:
    look, kind = f"f{colour}", MARKS[colour % len(MARKS)]
    if kind == "circle":
        return tag("circle", hint, class_=look, cx=x, cy=y, r=4)
    shapes = {
        "square": "m-4 -4h8v8h-8z",
        "diamond": "m0 -5l5 5l-5 5l-5 -5z",
        "triangle": "m0 -5l5 9h-10z",
        "cross": "m-5 -2h3v-3h4v3h3v4h-3v3h-4v-3h-3z",
    }
    return tag("path", hint, class_=look, d=f"M{x:.1f} {y:.1f}{shapes[kind]}")


def _legend(series: Sequence[Series]) -> list[Markup]:
    drawn: list[Markup] = []
    x = float(LEFT)
    measured = [one for one in series if not one.is_model]
    for number, one in enumerate(measured):
        drawn.append(tag("path", class_=f"line l{number}", d=f"M{x:.1f} 42h22"))
        drawn.append(_mark(number, x + 11, 42.0))
        drawn.append(tag("text", one.name, x=x + 28, y=46))
        x += 40 + 7.2 * len(one.name)
    if len(measured) < len(series):
        drawn.append(tag("path", class_="line model l0", d=f"M{x:.1f} 42h22"))
        drawn.append(tag("text", "model", x=x + 28, y=46))
    return drawn
