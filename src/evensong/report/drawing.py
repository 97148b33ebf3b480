"""The parts that plots are made of.

A plot fills the width it is given and keeps its height and the size of its letters, on a phone as
on a screen: places across are percentages, places down are pixels. Curves lie in a nested drawing
that is stretched. Each plot has a title and a description, and its numbers in a table behind it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from evensong.report.markup import Content, Markup, join, tag

LETTER: Final = 7.0  # width of a figure of a label
AXIS: Final = 22  # what the labels of an axis need below a plot
ROWS_MAX: Final = 400  # of a table behind a plot


def figure(
    anchor: str,
    title: str,
    description: Content,
    body: Content,
    table: Markup,
) -> Markup:
    """Return a plot with its caption above and its numbers behind it."""
    caption = tag("figcaption", tag("strong", title), " ", tag("span", description))
    numbers = tag("details", tag("summary", f"Numbers: {title}"), table, class_="numbers")
    return tag("figure", caption, body, numbers, id=anchor)


def drawing(
    anchor: str,
    title: str,
    description: str,
    height: int,
    content: Content,
    scale: Markup | None = None,
) -> Markup:
    """Return a drawing as wide as there is room; a scale stands at its left."""
    drawn = tag(
        "svg",
        tag("title", title, id=f"{anchor}-title"),
        tag("desc", description, id=f"{anchor}-desc"),
        content,
        role="img",
        aria_labelledby=f"{anchor}-title {anchor}-desc",
        width="100%",
        height=height,
    )
    return drawn if scale is None else tag("div", scale, drawn, class_="plot")


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Content]], label: str, *, texts: int = 1
) -> Markup:
    """Return a table that scrolls in itself; its first `texts` columns are words."""
    everything = list(rows)
    shown = everything[:ROWS_MAX]

    def sort(at: int) -> str | None:
        return None if at < texts else "number"

    head = tag(
        "tr", [tag("th", name, scope="col", class_=sort(at)) for at, name in enumerate(headings)]
    )
    body = [
        tag("tr", [tag("td", cell, class_=sort(at)) for at, cell in enumerate(row)])
        for row in shown
    ]
    rest = len(everything) - len(shown)
    more = tag("p", f"{rest:,} more rows are left out here.", class_="soft") if rest else None
    inner = tag("table", tag("thead", head), tag("tbody", body))
    scroll = tag("div", inner, class_="scroll", role="region", aria_label=label, tabindex=0)
    return join([scroll, more])


def across(share: float) -> str:
    """Return a place across a plot, from 0 to 1."""
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"


class Levels(NamedTuple):
    """Horizontal grid lines, and the scale that names them."""

    lines: Markup
    scale: Markup


def levels(values: Sequence[float], labels: Sequence[str], y_top: float, y_bottom: float) -> Levels:
    """Return a grid from 0 to the last of some values."""
    lines: list[Markup] = []
    names: list[Markup] = []
    for value, label in zip(values, labels, strict=True):
        y = y_bottom - (y_bottom - y_top) * value / values[-1]
        lines.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid" if value else "base"))
        names.append(tag("text", label, x="100%", y=y + 4, text_anchor="end", class_="tick"))
    widest = max(len(label) for label in labels)
    height = round(y_bottom + AXIS)
    scale = tag("svg", names, width=round(widest * LETTER) + 2, height=height, aria_hidden="true")
    return Levels(join(lines), scale)


def marks_below(places: Sequence[tuple[float, str]], y: float) -> Markup:
    """Return the labels of the axis below a plot; places are from 0 to 1."""
    parts: list[Markup] = []
    for share, label in places:
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        parts.append(tag("line", x1=across(share), x2=across(share), y1=y, y2=y + 5, class_="base"))
        parts.append(
            tag("text", label, x=across(share), y=y + 18, text_anchor=anchor, class_="tick")
        )
    return join(parts)


def stretched(y: float, height: float, content: Content) -> Markup:
    """Return a nested drawing of 1000 by 1000 units that is stretched over the plot."""
    return tag(
        "svg",
        content,
        x="0",
        y=y,
        width="100%",
        height=height,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
    )


def at(share: float, y: float, content: Content) -> Markup:
    """Return shapes in pixels around a place of the plot."""
    return tag("svg", content, x=across(share), y=y, overflow="visible", width=1, height=1)


def legend(entries: Iterable[tuple[str, Content]]) -> Markup:
    """Return what the looks of a plot mean; a look is a class of the style sheet."""
    items = [
        tag(
            "li",
            tag(
                "svg",
                tag("rect", width="100%", height="100%", rx=2, class_=look),
                width=22,
                height=12,
                aria_hidden="true",
            ),
            tag("span", text),
        )
        for look, text in entries
    ]
    return tag("ul", items, class_="legend")
