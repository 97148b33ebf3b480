"""Plots over time, and of times: throughput, and how often something took how long."""

from collections.abc import Callable, Sequence
from math import log10
from typing import Final

from evensong.report.drawing import (
    AXIS,
    across,
    drawing,
    figure,
    legend,
    levels,
    marks_below,
    stretched,
    table,
)
from evensong.report.markup import Content, Markup, tag
from evensong.report.model import Run, Timing
from evensong.report.scales import (
    SECOND,
    amount,
    count,
    decades,
    duration,
    moment,
    size,
    ticks,
    time_ticks,
)

PANEL: Final = 96  # height of a small plot
SPREAD: Final = 180
LOOKS: Final = 4  # of series that lie in one plot
AT_ONCE: Final = 0.07  # of the width, for what took no time


def look(service: str, services: Sequence[str]) -> str:
    """Return the look of a service: its place among those of the run decides."""
    return f"s{services.index(service) % LOOKS}"


def services_of(run: Run) -> list[str]:
    """Return the services that were used in a run, in the order that decides their looks."""
    return sorted({one.service for one in run.throughput})


# Throughput


def throughput(run: Run, anchor: str) -> Markup:
    """Draw what each node delivered over time: a small plot a node, all with one scale."""
    services = services_of(run)
    names = sorted({one.node for one in run.throughput})
    seconds = run.width_us / SECOND
    sums: dict[tuple[int, int], int] = {}
    for one in run.throughput:
        sums[one.node, one.at_us] = sums.get((one.node, one.at_us), 0) + one.messages
    steps = ticks(max(sums.values()) / seconds, 2)
    span = max(
        max(one.at_us for one in run.throughput) + run.width_us,
        max((life.to_us for life in run.lives), default=0),
    )
    panels = [
        tag(
            "div",
            tag("p", f"n{node}", class_="panel-name"),
            _panel(run, node, services, steps, span, f"{anchor}-{node}"),
        )
        for node in names
    ]
    key = legend(
        [
            *[(look(service, services), service) for service in services],
            ("install-line", "a new ring"),
        ]
    )
    rows: list[list[Content]] = [
        [
            f"n{one.node}",
            one.service,
            moment(one.at_us),
            one.messages,
            amount(one.messages / seconds),
            size(one.size),
        ]
        for one in run.throughput
    ]
    headings = ("node", "service", "from", "messages", "a second", "content")
    description = (
        f"Messages delivered a second, at each node, in steps of {duration(run.width_us)}. "
        "Time starts with the first of those who read the same clock."
    )
    return figure(
        anchor,
        "Throughput",
        description,
        [tag("div", panels, class_="panels"), key],
        table(headings, rows, "Throughput over time", texts=2),
    )


def _panel(
    run: Run, node: int, services: Sequence[str], steps: list[float], span: int, anchor: str
) -> Markup:
    top, seconds = steps[-1], run.width_us / SECOND
    y_top, y_bottom = 8, PANEL
    stacked: dict[int, float] = {}
    bars = []
    mine = [one for one in run.throughput if one.node == node]
    for one in sorted(mine, key=lambda one: (one.at_us, one.service)):
        rate = one.messages / seconds
        height = (y_bottom - y_top) * rate / top
        y = y_bottom - stacked.get(one.at_us, 0.0) - height
        stacked[one.at_us] = stacked.get(one.at_us, 0.0) + height
        title = tag("title", f"{moment(one.at_us)}: {amount(rate)} {one.service} a second")
        bars.append(
            tag(
                "rect",
                title,
                x=across(one.at_us / span),
                width=across(run.width_us / span * 0.9),
                y=y,
                height=max(height, 0.5),
                class_=look(one.service, services),
            )
        )
    rings = [
        stay.from_us / span for stay in run.stays if stay.node == node and not stay.is_transitional
    ]
    lines = [
        tag("line", x1=across(x), x2=across(x), y1=y_top, y2=y_bottom, class_="install-line")
        for x in rings
    ]
    places = [(us / span, label) for us, label in time_ticks(span, 5)]
    total = sum(one.messages for one in mine)
    busiest = max((rate * top / (y_bottom - y_top) for rate in stacked.values()), default=0.0)
    grid = levels(steps, [amount(step) for step in steps], y_top, y_bottom)
    return drawing(
        anchor,
        f"Throughput of n{node}",
        f"n{node} delivered {count(total, 'message')}, at most {amount(busiest)} a second.",
        y_bottom + AXIS,
        [grid.lines, lines, bars, marks_below(places, y_bottom)],
        grid.scale,
    )


# How times are spread


def spread(
    anchor: str,
    title: str,
    description: str,
    timings: Sequence[Timing],
    what: str,
    names: Sequence[str],
) -> Markup:
    """Draw how often something took how long, a curve each; `names` decide how each looks."""
    services = [*names, *(one.name for one in timings if one.name not in names)]
    at_once = any(one.bins and one.bins[0][0] == 0 for one in timings)
    edges = [
        edge for one in timings for low, high, _ in one.bins if low > 0 for edge in (low, high)
    ]
    low, high = min(edges, default=1.0), max(edges, default=10.0)
    begin = AT_ONCE if at_once else 0.0
    scale = (1 - begin) / (log10(high) - log10(low))

    def place(us: float) -> float:
        return begin + (log10(us) - log10(low)) * scale

    top = max((n / one.n for one in timings for _, _, n in one.bins), default=1.0)
    steps = ticks(top, 3)
    y_top, y_bottom = 18, SPREAD
    curves = []
    for one in timings:
        curves.extend(_curve(one, look(one.name, services), steps[-1], place))
    places = [(place(us), label) for us, label in decades(low, high)]
    if at_once:
        places = [(0.0, "0")] + [one for one in places if one[0] > begin + 0.06]
    halves = [
        tag(
            "line",
            tag("title", f"{one.name}: half within {duration(one.p50_us)}"),
            x1=across(place(one.p50_us)),
            x2=across(place(one.p50_us)),
            y1=y_top,
            y2=y_bottom,
            class_=f"half {look(one.name, services)}-line",
        )
        for one in timings
        if one.p50_us >= low
    ]
    told = [f"{one.name}: half within {duration(one.p50_us)}, {_late(one)}" for one in timings]
    grid = levels(steps, [f"{100 * step:.3g} %" for step in steps], y_top, y_bottom)
    shape = drawing(
        f"{anchor}-plot",
        title,
        f"{'; '.join(told)}.",
        y_bottom + AXIS,
        [
            grid.lines,
            stretched(y_top, y_bottom - y_top, curves),
            halves,
            marks_below(places, y_bottom),
        ],
        grid.scale,
    )
    key = legend((look(one.name, services), _sentence(one, what)) for one in timings)
    return figure(anchor, title, description, [shape, key], timing_table(timings, title))


def _late(one: Timing) -> str:
    return f"99 % within {duration(one.p99_us)}"


def _sentence(one: Timing, what: str) -> str:
    return (
        f"{one.name}: half within {duration(one.p50_us)}, {_late(one)}, the longest "
        f"{duration(one.max_us)}; {count(one.n, what)}"
    )


def _curve(one: Timing, look_: str, top: float, place: Callable[[float], float]) -> list[Markup]:
    points: list[str] = []
    last = -1.0
    for low, high, n in one.bins:
        y = 1000 * (1 - n / one.n / top)
        if low == 0:
            right = 1000 * (AT_ONCE - 0.015)
            points.append(f"M0 1000V{y:.1f}H{right:.1f}V1000")
            continue
        left, right = 1000 * place(low), 1000 * place(high)
        if abs(left - last) > 0.01:
            points.append(f"{'V1000' if last >= 0 else ''}M{left:.1f} 1000")
        points.append(f"V{y:.1f}H{right:.1f}")
        last = right
    path = "".join(points) + ("V1000" if last >= 0 else "")
    return [
        tag("path", d=path, class_=f"area {look_}"),
        tag("path", d=path, class_=f"curve {look_}-line", vector_effect="non-scaling-stroke"),
    ]


def timing_table(timings: Sequence[Timing], label: str, whose: str = "service") -> Markup:
    """Return quantiles as a table."""
    rows = [
        [
            one.name,
            f"{one.n:,}",
            *map(duration, (one.mean_us, one.p50_us, one.p90_us, one.p99_us, one.max_us)),
        ]
        for one in timings
    ]
    return table((whose, "number", "mean", "half", "90 %", "99 %", "longest"), rows, label)
