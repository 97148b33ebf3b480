"""Who was with whom: a lane a node, time to the right, a bar a configuration.

The same configuration has the same letter and the same colour at all its members. Nodes whose
clocks differ are drawn apart, each set of lanes with a time axis of its own.
"""

from typing import Final

from evensong.report.drawing import AXIS, across, at, drawing, figure, legend, marks_below, table
from evensong.report.markup import Markup, join, tag
from evensong.report.model import Life, Run, Stay
from evensong.report.scales import count, moment, nodes, time_ticks

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
COLOURS: Final = 10
LANE: Final = 44
BAR: Final = 24
NAME: Final = 16  # height of a lane's name above its bar
LABEL_LEAST: Final = 0.03  # of the width, for a letter to fit
WIDE_LEAST: Final = 0.16  # for the name of the ring to fit
ENDINGS: Final = {
    "fail": "crashed",
    "stop": "left",
    "quiesce": "was there at the end",
    "lost": "was killed or lost",
    "nothing": "its trace stops without an end",
}


def letters(run: Run) -> dict[str, str]:
    """Give each configuration of two or more a letter, in the order of first installation."""
    first: dict[str, tuple[int, int, str]] = {}
    for stay in run.stays:
        if stay.is_transitional or len(stay.members) < 2:
            continue
        seq = int(stay.conf_id.partition(".")[0])
        key = (stay.from_us, seq, stay.conf_id)
        first[stay.conf_id] = min(first.get(stay.conf_id, key), key)
    ordered = sorted(first, key=lambda conf_id: first[conf_id])
    return {conf_id: LETTERS[number % len(LETTERS)] for number, conf_id in enumerate(ordered)}


def lanes(run: Run, anchor: str) -> Markup:
    """Draw the lanes of a run."""
    by_clock: dict[str, list[Life]] = {}
    for life in run.lives:
        by_clock.setdefault(life.clock, []).append(life)
    letter_by_conf = letters(run)
    colour_by_conf = {conf_id: number % COLOURS for number, conf_id in enumerate(letter_by_conf)}
    drawings = [
        _drawn(run, lives, f"{anchor}-{number}", letter_by_conf, colour_by_conf)
        for number, lives in enumerate(by_clock.values())
    ]
    description = (
        "A bar is a configuration, from its installation to the next; one letter and one colour "
        "at all its members, grey where a node was alone."
    )
    if len(by_clock) > 1:
        description += (
            f" These nodes read {len(by_clock)} clocks, which cannot be compared: each set of "
            "lanes has a time axis of its own."
        )
    key = legend(
        [
            ("ring c0", "with others"),
            ("ring alone", "alone"),
            ("transitional", "transitional"),
        ]
    )
    signs = tag(
        "p",
        tag("b", "×"),
        " its end was a crash, or is not in the trace · ",
        tag("b", "▸"),
        " it started again · ",
        tag("b", "○"),
        " it left",
        class_="soft small",
    )
    rows = [
        [
            f"n{stay.node}",
            letter_by_conf.get(stay.conf_id, "–"),
            stay.conf_id,
            "transitional" if stay.is_transitional else "regular",
            nodes(stay.members),
            moment(stay.from_us),
            moment(stay.to_us),
        ]
        for stay in run.stays
    ]
    headings = ("node", "letter", "configuration", "kind", "members", "from", "to")
    numbers = table(headings, rows, "Configurations of each node", texts=5)
    return figure(anchor, "Who was with whom", description, join([*drawings, key, signs]), numbers)


def _drawn(
    run: Run,
    lives: list[Life],
    anchor: str,
    letter_by_conf: dict[str, str],
    colour_by_conf: dict[str, int],
) -> Markup:
    names = sorted({life.node for life in lives})
    keys = {(life.node, life.incarnation) for life in lives}
    span = max(1, max(life.to_us for life in lives))
    y_axis = len(names) * LANE + 2
    parts: list[Markup] = []
    for number, node in enumerate(names):
        y = number * LANE + NAME
        parts.append(tag("text", f"n{node}", x="0", y=y - 4, class_="name"))
        parts.append(tag("line", x1="0", x2="100%", y1=y + BAR / 2, y2=y + BAR / 2, class_="lane"))
        stays = [
            stay for stay in run.stays if stay.node == node and (node, stay.incarnation) in keys
        ]
        parts.extend(
            _bar(stay, span, y, letter_by_conf, colour_by_conf)
            for stay in [*_regular(stays), *_transitional(stays)]
        )
        mine = sorted((life for life in lives if life.node == node), key=lambda one: one.from_us)
        for again, life in enumerate(mine):
            parts.extend(_signs(life, span, y, is_again=again > 0))
    places = [(us / span, label) for us, label in time_ticks(span, 6)]
    description = (
        f"{count(len(names), 'node')}, {count(len(letter_by_conf), 'configuration')} of more than "
        f"one. {' '.join(_told(run, life) for life in lives)}"
    )
    return drawing(
        anchor,
        f"Configurations of {nodes(names)} over time",
        description,
        y_axis + AXIS,
        [parts, marks_below(places, y_axis)],
    )


def _regular(stays: list[Stay]) -> list[Stay]:
    return [stay for stay in stays if not stay.is_transitional]


def _transitional(stays: list[Stay]) -> list[Stay]:
    return [stay for stay in stays if stay.is_transitional]


def _bar(
    stay: Stay,
    span: int,
    y: int,
    letter_by_conf: dict[str, str],
    colour_by_conf: dict[str, int],
) -> Markup:
    left, width = stay.from_us / span, max(0, stay.to_us - stay.from_us) / span
    kind = "transitional" if stay.is_transitional else "regular"
    cause = f", because of: {stay.cause}" if stay.cause else ""
    title = tag(
        "title",
        f"n{stay.node}: {kind} {stay.conf_id} of {nodes(stay.members)}{cause}; "
        f"{moment(stay.from_us)} to {moment(stay.to_us)}",
    )
    if stay.is_transitional:
        seam = tag("rect", title, x=-2, y=-3, width=4, height=BAR + 6, class_="transitional")
        return at(left, y, seam)
    letter = letter_by_conf.get(stay.conf_id)
    look = "ring alone" if letter is None else f"ring c{colour_by_conf[stay.conf_id]}"
    shape = tag("rect", width="100%", height="100%", rx=3, class_=look)
    label = None
    if letter is not None and width >= LABEL_LEAST:
        text = f"{letter}  {stay.conf_id}" if width >= WIDE_LEAST else letter
        label = tag("text", text, x=6, y=BAR - 8, class_="in-ring")
    return tag(
        "svg",
        title,
        shape,
        label,
        x=across(left),
        y=y,
        width=across(max(width, 0.0025)),
        height=BAR,
    )


def _signs(life: Life, span: int, y: int, *, is_again: bool) -> list[Markup]:
    middle = y + BAR / 2
    signs = []
    if is_again:
        title = tag("title", f"n{life.node} starts again at {moment(life.from_us)}")
        signs.append(
            at(
                life.from_us / span,
                middle,
                tag("path", title, d="M-2 -7L8 0L-2 7z", class_="start"),
            )
        )
    title = tag("title", f"n{life.node}: {ENDINGS[life.ended]}, {moment(life.to_us)}")
    if life.ended in ("fail", "lost", "nothing"):
        cross = tag("path", title, d="M-6 -6L6 6M6 -6L-6 6", class_="crash")
        signs.append(at(min(life.to_us / span, 0.99), middle, cross))
    elif life.ended == "stop":
        ring = tag("circle", title, cx=0, cy=0, r=5, class_="left")
        signs.append(at(min(life.to_us / span, 0.992), middle, ring))
    return signs


def _told(run: Run, life: Life) -> str:
    mine = [
        stay.conf_id
        for stay in _regular(list(run.stays))
        if (stay.node, stay.incarnation) == (life.node, life.incarnation)
    ]
    shown = mine if len(mine) <= 8 else [*mine[:4], "…", *mine[-3:]]
    return f"n{life.node} went through {', '.join(shown) or 'nothing'}; {ENDINGS[life.ended]}."
