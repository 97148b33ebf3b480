"""Plots: bars and curves on scales of decades, one picture a file, nothing to load."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from evensong.report.markup import Markup, tag

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 720, 16, 190, 90, 44, 26
GAP = 10  # between groups of bars
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2328}.grid{stroke:#d0d7de}.title{font-weight:600}"
    ".back{fill:#fff}.s0{fill:#0969da}.s1{fill:#54aeff}.s2{fill:#bc4c00}.s3{fill:#8250df}"
    ".c0{stroke:#0969da}.c1{stroke:#54aeff}.c2{stroke:#bc4c00}.c3{stroke:#8250df}"
    ".curve{fill:none;stroke-width:2}.thin{stroke-width:1;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.back{fill:#0d1117}}"
)


class Group(NamedTuple):
    """Bars that stand together: a value for each series, or none."""

    name: str
    values: Sequence[float | None]


def bars(title: str, series: Sequence[str], groups: Sequence[Group]) -> Markup:
    """Draw groups of bars, one for each series, on a common scale of decades."""
    values = [one for group in groups for one in group.values if one]
    low = floor(log10(min(values))) if values else 0
    high = max(low + 1, ceil(log10(max(values)))) if values else 1
    span = WIDTH - LEFT - RIGHT
    height = TOP + sum(ROW * len(group.values) + GAP for group in groups) + BOTTOM

    def across(value: float) -> float:
        return LEFT + span * (log10(value) - low) / (high - low)

    drawn: list[Markup] = [
        tag("style", Markup(STYLE)),
        tag("rect", class_="back", width=WIDTH, height=height),
        tag("text", title, class_="title", x=8, y=16),
        *_legend(series),
    ]
    for decade in range(low, high + 1):
        x = f"{across(10.0**decade):.1f}"
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1=TOP - 4, y2=height - BOTTOM))
        label = _short(10.0**decade)
        drawn.append(tag("text", label, x=x, y=height - 8, **{"text-anchor": "middle"}))
    y = TOP
    for group in groups:
        drawn.append(tag("text", group.name, x=8, y=y + 12))
        for number, value in enumerate(group.values):
            if value:
                end = across(value)
                length = f"{max(1.0, end - LEFT):.1f}"
                hint = tag("title", f"{group.name}, {series[number]}: {value:,.0f}")
                drawn.append(
                    tag(
                        "rect",
                        hint,
                        class_=f"s{number}",
                        x=LEFT,
                        y=y,
                        width=length,
                        height=ROW - 3,
                    )
                )
                drawn.append(tag("text", f"{value:,.0f}", x=f"{end + 4:.1f}", y=y + 11))
            y += ROW
        y += GAP
    return tag(
        "svg",
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
    )


def _legend(series: Sequence[str], left: int = LEFT) -> list[Markup]:
    drawn: list[Markup] = []
    for number, name in enumerate(series):
        x = left + number * 165
        drawn.append(tag("rect", class_=f"s{number}", x=x, y=24, width=10, height=10))
        drawn.append(tag("text", name, x=x + 15, y=33))
    return drawn


def _short(value: float) -> str:
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


class Curve(NamedTuple):
    """Values at places; a model's is drawn thin."""

    name: str
    points: Sequence[tuple[float, float]]
    is_model: bool = False


PANEL, PANEL_GAP = 190, 44  # height of a plot with curves, and what is between two


def panels(title: str, plots: Sequence[tuple[str, Sequence[Curve]]]) -> Markup:
    """Draw plots below each other, both scales by decades; curves of one number look the same."""
    height = TOP + len(plots) * (PANEL + PANEL_GAP)
    names = [curve.name for curve in plots[0][1]] if plots else []
    drawn: list[Markup] = [
        tag("style", Markup(STYLE)),
        tag("rect", class_="back", width=WIDTH, height=height),
        tag("text", title, class_="title", x=8, y=16),
        *_legend(names, 8),
    ]
    places = sorted({x for _, curves in plots for one in curves for x, _ in one.points})
    for number, (heading, curves) in enumerate(plots):
        top = TOP + number * (PANEL + PANEL_GAP) + 20
        drawn += _panel(heading, curves, places, top)
    return tag(
        "svg",
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
    )


def _panel(
    heading: str, curves: Sequence[Curve], places: Sequence[float], top: float
) -> list[Markup]:
    values = [y for one in curves for _, y in one.points if y > 0]
    low = floor(log10(min(values))) if values else 0
    high = max(low + 1, ceil(log10(max(values)))) if values else 1
    left, right, bottom = 60, WIDTH - 20, top + PANEL - 20
    first, last = (log10(places[0]), log10(places[-1])) if places else (0.0, 1.0)

    def across(x: float) -> float:
        return left + (right - left) * (log10(x) - first) / max(1e-9, last - first)

    def down(y: float) -> float:
        return bottom - (bottom - top) * (log10(y) - low) / (high - low)

    drawn = [tag("text", heading, x=8, y=f"{top - 6:.1f}")]
    for decade in range(low, high + 1):
        height = f"{down(10.0**decade):.1f}"
        drawn.append(tag("line", class_="grid", x1=left, x2=right, y1=height, y2=height))
        label = _short(10.0**decade)
        drawn.append(tag("text", label, x=left - 6, y=height, **{"text-anchor": "end"}))
    for x in places:
        at = f"{across(x):.1f}"
        drawn.append(tag("text", f"{x:g}", x=at, y=bottom + 16, **{"text-anchor": "middle"}))
    for number, one in enumerate(curves):
        points = [(x, y) for x, y in one.points if y > 0]
        line = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        look = f"curve c{number} thin" if one.is_model else f"curve c{number}"
        drawn.append(tag("polyline", class_=look, points=line))
        for x, y in [] if one.is_model else points:
            hint = tag("title", f"{one.name}, {x:g}: {y:,.0f}")
            centre = {"cx": f"{across(x):.1f}", "cy": f"{down(y):.1f}"}
            drawn.append(tag("circle", hint, class_=f"s{number}", r=3, **centre))
    return drawn
