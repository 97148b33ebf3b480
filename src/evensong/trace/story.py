"""A run for people: lines to read, a drawing for terminals, and a picture.

`conf_story` tells who was in which configuration when. `text_drawing` shows it in columns, one line
a processor. `drawing` is the picture, in SVG: one lane a processor, time to the right. A regular
configuration is a bar; the same configuration has the same colour at all its members, and one of a
single processor is grey. A transitional configuration, which mostly takes no time at all, is a thin
hatched seam. Under each bar stands how much was delivered, as a faint profile. Colours follow the
reader's light or dark setting. Same history, same bytes.
"""

from collections.abc import Callable
from typing import Final
from xml.sax.saxutils import escape

from evensong.core.ids import ProcessorId, RingId
from evensong.sim.history import History, Life
from evensong.trace.lanes import (
    Stay,
    conf_names,
    conf_text,
    life_end,
    life_start,
    lives_by_node,
    member_text,
    stays,
    time_range,
)

ENDINGS: Final = {"fail": "crashes", "stop": "leaves", "quiesce": "is there at the end"}

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALONE: Final = "-"
SEAM_LETTER: Final = "~"
DOWN: Final = " "
CRASH: Final = "x"
RESTART: Final = "^"
LEFT: Final = "!"
MARKS: Final = {"fail": CRASH, "lost": CRASH, "stop": LEFT}
LABEL_WIDTH: Final = 6

WIDTH: Final = 1000
GUTTER: Final = 56  # left of the lanes, for their names
MARGIN: Final = 24
TOP: Final = 64
LANE: Final = 56
BAR: Final = 22
PROFILE: Final = 14  # height of the busiest delivery bin
BIN: Final = 3  # width of a delivery bin
SEAM: Final = 4  # width of a transitional configuration that takes no time
LETTER: Final = 6.2  # width of a letter of a label

# Hues that stay apart from one another on white and on black, in the order in which they are given.
LIGHT: Final = (
    "#8fb8de",
    "#f2b880",
    "#93cfa2",
    "#e39aa7",
    "#b9a7dd",
    "#d9cd6a",
    "#86cfcb",
    "#d7a98a",
    "#a9c46c",
    "#dba3cf",
)
DARK: Final = (
    "#2f6496",
    "#9c5a17",
    "#2c7a45",
    "#9a3f52",
    "#644fa0",
    "#827514",
    "#1f7874",
    "#875434",
    "#5b7a1c",
    "#8b4480",
)

# Plain rules without variables: renderers other than browsers read them too.
STYLE: Final = """
  svg { font: 12px system-ui, sans-serif; }
  .title { font-size: 15px; font-weight: 600; } .node { font-weight: 600; }
  .label { font-size: 11px; pointer-events: none; }
  .axis, .lane { stroke-width: 1; fill: none; } .lane { stroke-dasharray: 2 4; }
  .ticks { fill-opacity: .55; }
  .crash { stroke-width: 2.5; stroke-linecap: round; fill: none; }
  .hatch { stroke-width: 1.6; } .seam { fill: url(#hatch); }
"""


def _theme(ink: str, soft: str, line: str, paper: str, alone: str, crash: str, start: str) -> str:
    return (
        f".paper {{ fill: {paper}; }} .title, .node, .label {{ fill: {ink}; }} "
        f".soft, .ticks, .left {{ fill: {soft}; }} .axis, .lane {{ stroke: {line}; }} "
        f".hatch {{ stroke: {ink}; }} .alone {{ fill: {alone}; }} .crash {{ stroke: {crash}; }} "
        f".start {{ fill: {start}; }}"
    )


THEME_LIGHT: Final = _theme(
    "#1d2630", "#66727f", "#d5dbe1", "#ffffff", "#dfe4e9", "#c0272d", "#2c7a45"
)
THEME_DARK: Final = _theme(
    "#e8edf2", "#97a3b0", "#323b45", "#14191f", "#3a434d", "#ff6b6b", "#6ccf8c"
)


def conf_story(history: History) -> list[str]:
    """Tell, line by line, who started, installed what and why, and ended how."""
    told: list[tuple[int, ProcessorId, int, int, str]] = []
    for node, lives in lives_by_node(history).items():
        for number, life in enumerate(lives):
            for pseq, event in enumerate(life.events):
                because = f" ({event.cause})" if event.cause else ""
                if event.conf is not None:
                    text = f"installs {conf_text(event.conf)}{because}"
                elif event.etype in ENDINGS:
                    text = f"{ENDINGS[event.etype]}{because}"
                elif event.etype == "start":
                    text = "starts again" if number else "starts"
                else:
                    continue
                told.append((event.t_us, node, life.incarnation, pseq, text))
    width = max((len(f"p{node}") for _, node, _, _, _ in told), default=0)
    return [
        f"{t_us / 1000:10.3f} ms  {f'p{node}':<{width}}  {text}"
        for t_us, node, _, _, text in sorted(told)
    ]


def text_drawing(history: History, width: int = 80, prefix: str = "p") -> str:
    """Draw a line a processor over time: a letter a configuration, `x` crash, `^` restart.

    Time begins with the run; a real clock may have begun long before.
    """
    begin, end = time_range(history)
    n_columns = max(10, width - LABEL_WIDTH)
    confs = conf_names(history)
    letter_by_conf = {conf.conf_id: LETTERS[at % len(LETTERS)] for at, conf in enumerate(confs)}

    def column(t_us: int) -> int:
        return (t_us - begin) * (n_columns - 1) // max(1, end - begin)

    lines = []
    for node, lives in lives_by_node(history).items():
        cells = [DOWN] * n_columns
        for number, life in enumerate(lives):
            for stay in stays(life):
                letter = letter_by_conf.get(stay.conf.conf_id, ALONE)
                if stay.conf.transitional:
                    letter = SEAM_LETTER  # where it takes no time, the next bar covers it
                first, last = column(stay.from_us), column(stay.to_us)
                cells[first : last + 1] = letter * (last + 1 - first)
            if number:
                cells[column(life_start(life))] = RESTART
            if life.ended in MARKS:
                cells[column(life_end(life))] = MARKS[life.ended]
        lines.append(f"{f'{prefix}{node}':<{LABEL_WIDTH}}" + "".join(cells).rstrip())
    left, right = "0.000 ms", f"{(end - begin) / 1000:.3f} ms"
    lines.append(" " * LABEL_WIDTH + left + right.rjust(n_columns - len(left)))
    keys = [f"{letter_by_conf[conf.conf_id]} {conf.conf_id} {member_text(conf)}" for conf in confs]
    keys.append(
        f"{ALONE} alone   {SEAM_LETTER} transitional   {CRASH} crash   {RESTART} restart   "
        f"{LEFT} leave"
    )
    return "\n".join([*lines, *(" " * LABEL_WIDTH + key for key in keys)]) + "\n"


def drawing(history: History) -> str:
    """Draw a run."""
    begin, end = time_range(history)
    lanes = lives_by_node(history)
    scale = (WIDTH - GUTTER - MARGIN) / max(1, end - begin)

    def across(t_us: int) -> float:
        return GUTTER + (t_us - begin) * scale

    confs = conf_names(history)
    colour_by_conf = {conf.conf_id: at % len(LIGHT) for at, conf in enumerate(confs)}
    busiest = max((n for lives in lanes.values() for n in _bins(lives, across).values()), default=1)
    axis_y = TOP + LANE * len(lanes) + 4
    n_delivered = sum(len(life.deliveries) for life in history.lives.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {axis_y + 64}" '
        f'width="{WIDTH}" height="{axis_y + 64}" role="img" aria-labelledby="what how">',
        '<title id="what">The life of the ring</title>',
        f'<desc id="how">{escape(_description(history))}</desc>',
        f"<style>{STYLE}{_colours()}</style>",
        '<defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V4"/>'
        "</pattern></defs>",
        f'<rect class="paper" width="{WIDTH}" height="{axis_y + 64}"/>',
        f'<text class="title" x="{MARGIN}" y="28">The life of the ring</text>',
        f'<text class="soft" x="{MARGIN}" y="46">{_count(len(lanes), "processor")}, '
        f"{_count(len(confs), 'configuration')} of more than one, "
        f"{_count(n_delivered, 'delivery')}, {_ms(end - begin)}</text>",
        *_axis(begin, end, across, axis_y),
    ]
    for number, (node, lives) in enumerate(lanes.items()):
        y = TOP + LANE * number
        parts.append(f'<g class="processor" data-node="{node}">')
        parts.append(f'<text class="node" x="{MARGIN}" y="{y + BAR - 6}">p{node}</text>')
        parts.append(f'<path class="lane" d="M{GUTTER} {y + BAR / 2:g}H{WIDTH - MARGIN}"/>')
        parts.extend(_profile(_bins(lives, across), busiest, y + BAR + 2))
        for again, life in enumerate(lives):
            parts.extend(_bars(life, across, y, colour_by_conf))
            parts.extend(_marks(life, across, y, again=again > 0))
        parts.append("</g>")
    parts.extend(_legend(axis_y + 46))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _colours() -> str:
    def rules(colours: tuple[str, ...]) -> str:
        return " ".join(f".c{at} {{ fill: {colour}; }}" for at, colour in enumerate(colours))

    return (
        f"  {THEME_LIGHT}\n  {rules(LIGHT)}\n"
        "  @media (prefers-color-scheme: dark) {\n"
        f"    {THEME_DARK}\n    {rules(DARK)}\n  }}\n"
    )


def _count(number: int, what: str) -> str:
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{number:,} {what if number == 1 else plural}"


def _ms(t_us: int) -> str:
    return f"{t_us / 1000:,.10g} ms"


def _description(history: History) -> str:
    """Say in words what the picture shows, for those who do not see it."""
    sentences = []
    for node, lives in lives_by_node(history).items():
        for life in lives:
            names = [str(stay.conf.conf_id) for stay in stays(life) if not stay.conf.transitional]
            ending = {"fail": "and crashed", "stop": "and left"}.get(life.ended, "to the end")
            shown = names if len(names) <= 8 else [*names[:4], "…", *names[-3:]]
            sentences.append(f"p{node} went through {', '.join(shown) or 'nothing'} {ending}.")
    return " ".join(sentences)


def _bars(
    life: Life, across: Callable[[int], float], y: int, colour_by_conf: dict[RingId, int]
) -> list[str]:
    regular, seams = [], []
    for stay in stays(life):
        x, right = across(stay.from_us), across(stay.to_us)
        title = f"<title>{escape(_stay_text(stay))}</title>"
        if stay.conf.transitional:
            wide = max(SEAM, right - x)
            left = x - SEAM / 2 if right - x < SEAM else x
            seams.append(
                f'<rect class="seam" x="{left:.1f}" y="{y - 3}" width="{wide:.1f}" '
                f'height="{BAR + 6}">{title}</rect>'
            )
            continue
        colour = colour_by_conf.get(stay.conf.conf_id)
        kind = "alone" if colour is None else f"c{colour}"
        wide = max(1.0, right - x)
        regular.append(
            f'<rect class="conf {kind}" data-conf="{stay.conf.conf_id}" x="{x:.1f}" y="{y}" '
            f'width="{wide:.1f}" height="{BAR}" rx="3">{title}</rect>'
        )
        label = str(stay.conf.conf_id)
        if wide > len(label) * LETTER + 12:
            regular.append(f'<text class="label" x="{x + 7:.1f}" y="{y + BAR - 7}">{label}</text>')
    return regular + seams


def _stay_text(stay: Stay) -> str:
    cause = f": {stay.conf.cause}" if stay.conf.cause else ""
    return (
        f"{conf_text(stay.conf)}{cause}; {_ms(stay.from_us)} to {_ms(stay.to_us)}, "
        f"{_count(stay.n_delivered, 'delivery')}"
    )


def _marks(life: Life, across: Callable[[int], float], y: int, *, again: bool) -> list[str]:
    marks = []
    middle = y + BAR / 2
    if again:
        x = across(life_start(life))
        marks.append(
            f'<path class="start" d="M{x - 5:.1f} {middle - 6:g}l9 6l-9 6z">'
            f"<title>restart at {_ms(life_start(life))}</title></path>"
        )
    if life.ended in ("fail", "stop"):
        when = life_end(life)
        x = across(when)
        if life.ended == "fail":
            marks.append(
                f'<path class="crash" d="M{x - 6:.1f} {middle - 6:g}l12 12m0 -12l-12 12" '
                f'fill="none"><title>crash at {_ms(when)}</title></path>'
            )
        else:
            marks.append(
                f'<circle class="left" cx="{x:.1f}" cy="{middle:g}" r="5">'
                f"<title>leaves at {_ms(when)}</title></circle>"
            )
    return marks


def _bins(lives: list[Life], across: Callable[[int], float]) -> dict[int, int]:
    """Count the deliveries of a processor by where they fall in the picture."""
    counts: dict[int, int] = {}
    for life in lives:
        for row in life.deliveries:
            at = int(across(row.t_us)) // BIN
            counts[at] = counts.get(at, 0) + 1
    return counts


def _profile(bins: dict[int, int], busiest: int, y: int) -> list[str]:
    if not bins:
        return []
    # The root keeps a single delivery visible beside a burst of hundreds.
    steps = [
        f"M{at * BIN} {y}v{max(1.5, PROFILE * (n / busiest) ** 0.5):.1f}h{BIN - 1}V{y}z"
        for at, n in sorted(bins.items())
    ]
    return [f'<path class="ticks" d="{"".join(steps)}"/>']


def _axis(begin: int, end: int, across: Callable[[int], float], y: int) -> list[str]:
    parts = [f'<path class="axis" d="M{GUTTER} {y}H{WIDTH - MARGIN}"/>']
    step = _nice_step(max(1, end - begin))
    t_us = begin + -begin % step
    while t_us <= end:
        x = across(t_us)
        parts.append(f'<path class="axis" d="M{x:.1f} {TOP - 8}V{y + 4}"/>')
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{y + 18}" text-anchor="middle">{_ms(t_us)}</text>'
        )
        t_us += step
    return parts


def _nice_step(span: int) -> int:
    """Return 1, 2 or 5 times a power of ten, such that about eight steps fill the span."""
    step = 1
    while span // step > 8:
        for factor in (2, 5, 10):
            if span // (step * factor) <= 8:
                return step * factor
        step *= 10
    return step


def _legend(y: int) -> list[str]:
    def entry(x: int, sign: str, text: str) -> list[str]:
        return [sign, f'<text class="soft" x="{x + 26}" y="{y + 4}">{text}</text>']

    x = GUTTER
    return [
        '<g class="legend">',
        *entry(
            x, f'<rect class="c0" x="{x}" y="{y - 7}" width="20" height="14" rx="3"/>', "regular"
        ),
        *entry(
            x + 110,
            f'<rect class="alone" x="{x + 110}" y="{y - 7}" width="20" height="14" rx="3"/>',
            "alone",
        ),
        *entry(
            x + 205,
            f'<rect class="seam" x="{x + 217}" y="{y - 9}" width="{SEAM}" height="18"/>',
            "transitional",
        ),
        *entry(
            x + 335,
            f'<path class="crash" d="M{x + 345} {y - 5}l10 10m0 -10l-10 10"/>',
            "crash",
        ),
        *entry(x + 425, f'<path class="start" d="M{x + 437} {y - 6}l9 6l-9 6z"/>', "restart"),
        *entry(x + 520, f'<circle class="left" cx="{x + 535}" cy="{y}" r="5"/>', "leave"),
        *entry(
            x + 605,
            f'<path class="ticks" d="M{x + 610} {y - 6}v6h2v-6zm4 0v12h2v-12zm4 0v9h2v-9z"/>',
            "deliveries",
        ),
        "</g>",
    ]
