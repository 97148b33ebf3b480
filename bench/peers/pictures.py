"""Plots of a comparison: bars on a scale of decades, one picture a file, nothing to load."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from evensong.report.markup import Markup, tag

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 720, 16, 190, 90, 44, 26
GAP = 10  # between groups of bars
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2328}.grid{stroke:#d0d7de}.title{font-weight:600}"
    ".back{fill:#fff}.s0{fill:#0969da}.s1{fill:#54aeff}.s2{fill:#bc4c00}.s3{fill:#8250df}"
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


def _legend(series: Sequence[str]) -> list[Markup]:
    drawn: list[Markup] = []
    for number, name in enumerate(series):
        x = LEFT + number * 165
        drawn.append(tag("rect", class_=f"s{number}", x=x, y=24, width=10, height=10))
        drawn.append(tag("text", name, x=x + 15, y=33))
    return drawn


def _short(value: float) -> str:
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"
