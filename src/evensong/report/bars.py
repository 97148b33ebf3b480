"""Rows of bars: the load of each node, and what each change of membership took."""

from collections.abc import Sequence
from typing import Final

from evensong.report.drawing import across, drawing, figure, legend, table
from evensong.report.markup import Content, Markup, join, slug, tag
from evensong.report.model import Change, Fairness, Load, Run
from evensong.report.scales import amount, duration, moment, nodes, percent, size

ROW: Final = 42
CHANGES_MAX: Final = 40


# Load


def load(run: Run, anchor: str) -> Markup:
    """Draw each node's share of what was sent."""
    rows = [
        (
            f"n{one.node}",
            f"{amount(one.messages_sent)} sent · {percent(one.share or 0.0)}",
            [("s0", one.share or 0.0, f"n{one.node} sent {percent(one.share or 0.0)}")],
        )
        for one in run.load
    ]
    largest = max((one.share or 0.0 for one in run.load), default=1.0)
    shape = _rows(
        f"{anchor}-plot", "Share of each node", _load_told(run.load), rows, largest or 1.0
    )
    headings = (
        "node", "messages sent", "content sent", "share", "messages delivered", "content delivered",
        "visits of the token", "packets sent", "sent again",
    )  # fmt: skip
    cells = [
        [
            f"n{one.node}",
            f"{one.messages_sent:,}",
            size(one.bytes_sent),
            percent(one.share) if one.share is not None else "–",
            f"{one.messages_delivered:,}",
            size(one.bytes_delivered),
            f"{one.visits:,}",
            f"{one.packets_sent:,}",
            f"{one.packets_resent:,}",
        ]
        for one in run.load
    ]
    return figure(
        anchor,
        "Load of each node",
        "Messages that each node put into the order, and its share of all.",
        shape,
        table(headings, cells, "Load of each node"),
    )


def _load_told(loads: Sequence[Load]) -> str:
    return "; ".join(f"n{one.node} {percent(one.share or 0.0)}" for one in loads) + "."


def fairness_table(rows: Sequence[Fairness]) -> Markup:
    """Return how evenly each configuration was used, as a table."""
    cells: list[list[Content]] = [
        [
            one.conf_id,
            one.members,
            f"{one.messages:,}",
            f"{one.jain:.3f}",
            percent(one.least_share),
            percent(one.most_share),
        ]
        for one in rows
    ]
    headings = ("configuration", "members", "messages", "Jain's index", "least share", "most share")
    return table(headings, cells, "Fairness in each configuration")


# Changes


def changes(run: Run, anchor: str, letter_by_conf: dict[str, str]) -> Markup:
    """Draw what each change took: unnoticed, until agreed, until all had it."""
    shown = run.changes[:CHANGES_MAX]
    rows = []
    for one in shown:
        letter = letter_by_conf.get(one.conf_id, "")
        came = came_and_went(one)
        parts: list[tuple[str, float, str]] = []
        for name, us, kind in phases(one):
            if us is not None:
                parts.append((kind, float(us), f"{name}: {duration(us)}"))
        took = f"{duration(one.installed_us - one.noticed_us)}"
        rows.append((f"{letter}  {one.conf_id}", f"{took} · {came}", parts))
    largest = max((sum(us for _, us, _ in parts) for _, _, parts in rows), default=1.0)
    told = "; ".join(f"{name.strip()}: {text}" for name, text, _ in rows[:8])
    shape = _rows(f"{anchor}-plot", "What each change took", f"{told}.", rows, largest or 1.0)
    key = legend(
        [
            ("phase-before", "before anybody noticed"),
            ("phase-gather", "from the first sign until the members were agreed"),
            ("phase-recover", "until the last member had installed it"),
        ]
    )
    description = "Every configuration of two or more, in the order in which they were installed."
    if len(run.changes) > len(shown):
        description += f" The first {len(shown)} of {len(run.changes)} are drawn."
    cells: list[list[Content]] = [
        [
            tag("a", one.conf_id, href=f"#{change_anchor(run, one)}")
            if one in shown
            else one.conf_id,
            one.cause,
            f"n{one.noticed_by}",
            nodes(one.members),
            moment(one.noticed_us),
            *[duration(us) if us is not None else "–" for _, us, _ in phases(one)],
            duration(one.installed_us - one.noticed_us),
        ]
        for one in run.changes
    ]
    headings = (
        "configuration", "first sign", "noticed by", "members", "at", "before", "agreed after",
        "installed after", "took",
    )  # fmt: skip
    numbers = table(headings, cells, "Changes of membership", texts=4)
    return figure(anchor, "What each change took", description, [shape, key], numbers)


def change_anchor(run: Run, change: Change) -> str:
    """Return where the story of a change is."""
    return f"change-{slug(run.run_id)}-{slug(change.conf_id)}"


def phases(change: Change) -> list[tuple[str, int | None, str]]:
    """Return the parts of a change: name, how long (none: not known), look."""
    before = change.detect_us if change.detect_us is not None else None
    is_token = change.cause == "token loss"
    if before is None and is_token:
        before = change.silence_us
    agreed = change.agreed_us
    if agreed is None or not change.noticed_us <= agreed <= change.installed_us:
        whole = change.installed_us - change.noticed_us
        return [
            ("unnoticed", before, "phase-before"),
            ("until agreed", None, "phase-gather"),
            ("in all", whole, "phase-recover"),
        ]
    return [
        ("unnoticed", before, "phase-before"),
        ("until agreed", agreed - change.noticed_us, "phase-gather"),
        ("until installed", change.installed_us - agreed, "phase-recover"),
    ]


def came_and_went(change: Change) -> str:
    """Return who left and who joined."""
    parts = [
        f"{nodes(who)} {what}"
        for who, what in ((change.left, "left"), (change.joined, "joined"))
        if who
    ]
    return ", ".join(parts) or "the same members"


# Rows of bars


def _rows(
    anchor: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, str, Sequence[tuple[str, float, str]]]],
    largest: float,
) -> Markup:
    """Draw a bar a row, of one or more parts; its name and its text stand above it."""
    parts: list[Content] = []
    for number, (name, text, bars) in enumerate(rows):
        y = number * ROW
        parts.append(tag("text", name, x="0", y=y + 14, class_="name"))
        parts.append(tag("text", text, x="100%", y=y + 14, text_anchor="end", class_="tick"))
        left = 0.0
        for kind, value, told in bars:
            width = max(value / largest, 0.002)
            parts.append(
                tag(
                    "rect",
                    tag("title", told),
                    x=across(left),
                    y=y + 20,
                    width=across(width),
                    height=12,
                    class_=kind,
                )
            )
            left += width
    return drawing(anchor, title, description, max(1, len(rows)) * ROW, join(parts))
