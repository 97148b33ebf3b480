"""The causal graph of a run, as a picture in SVG: what follows what, who voted, who delivered when.

One lane a processor, time to the right (`graph_layout.py`). A band is a view; the same view has the
same colour in all its members' lanes. A message stands in its sender's lane with its number; arrows
lead to it from what it acknowledges. Under an ordered message is its ballot: a mark for each member
of the view, filled if that member voted for it; above it, in which round ToTo chose it. What a
processor delivers stands below its lane, a column for each moment. Pointing at a message shows who
voted for it by what, and where it went; the words say the rest.

The picture needs nothing else, and follows the reader's light or dark setting. Same run, same
bytes.
"""

from typing import Final, final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.core.transis.frames import JOIN, NULL, REGULAR, ViewId
from evensong.report.markup import Content, Markup, tag
from evensong.report.style import DARK, LIGHT
from evensong.sim.transis.memoir import FAILS, LEAVES, STARTS, Memoir, Name, Post
from evensong.trace.graph_layout import (
    LEFT,
    PIP,
    PIPS_MAX,
    Layout,
    Span,
    Stack,
    Stay,
    ticks,
)
from evensong.trace.graph_words import Words, ms

TOP: Final = 118  # above the first lane
NODE: Final = 34  # from the top of a lane to its messages
RADIUS: Final = 9.0
BALLOT: Final = 17.0  # from a message down to its ballot
DELIVERED: Final = 36  # from the messages down to the first line of deliveries
LINE: Final = 11
LINES_MAX: Final = 10  # deliveries that are named in a column
LANE_GAP: Final = 14
APART: Final = 120.0  # between two times on the axis
REPEATED: Final = 1_000  # the names of lanes are repeated after so much
N_COLOURS: Final = 10
WIDTH_MIN: Final = 920  # the legend needs it
SERVICES: Final = (Service.AGREED, Service.SAFE, Service.CAUSAL, Service.BASIC)

STYLE: Final = """
  text { font: 11px system-ui, sans-serif; }
  .title { font-size: 15px; font-weight: 600; } .lane { font-size: 13px; font-weight: 600; }
  .number { font-size: 9px; text-anchor: middle; } .round { font-size: 9px; text-anchor: middle; }
  .view { font-size: 10px; } .what { font-size: 10px; text-anchor: middle; }
  .band { fill-opacity: .38; } .tick { stroke-dasharray: 1 4; }
  .edge, .own, .vote, .way { fill: none; } .edge { stroke-width: 1.1; } .own { stroke-width: 2; }
  .body { stroke-width: 2; } .ring { fill: none; stroke-width: 1.2; }
  .vote { stroke-width: 2.2; } .way { stroke-width: 1.2; stroke-dasharray: 3 3; }
  .more { visibility: hidden; pointer-events: none; }
  .message:hover .more, .message:focus .more { visibility: visible; }
  .message { outline: none; cursor: default; } .crash { stroke-width: 2.5; fill: none; }
"""


def _theme(colours: dict[str, str]) -> str:
    rules = [
        ".paper, .body {{ fill: {card}; }} text {{ fill: {ink}; }} .soft {{ fill: {soft}; }}",
        ".tick {{ stroke: {line}; }} .edge, .own {{ stroke: {before}; }}",
        ".head {{ fill: {before}; }}",
        ".agreed {{ stroke: {s0}; }} .safe {{ stroke: {s2}; }} .causal {{ stroke: {s1}; }}",
        ".basic {{ stroke: {s3}; }} .null {{ fill: {before}; }} .join {{ stroke: {ink}; }}",
        ".voted {{ fill: {ink}; }} .open {{ fill: none; stroke: {before}; }}",
        ".round {{ fill: {link}; }} .vote {{ stroke: {link}; }} .way {{ stroke: {s2}; }}",
        ".alone {{ fill: {alone}; }} .crash {{ stroke: {crash}; }} .start {{ fill: {start}; }}",
        *(f".c{at} {{{{ fill: {{c{at}}}; }}}}" for at in range(N_COLOURS)),
    ]
    return "\n  ".join(rules).format(**colours)


def graph_drawing(memoir: Memoir, span: Span, title: str, remark: str = "") -> str:
    """Draw what happened within a span; the remark is told below the title."""
    return _Picture(Layout(memoir, span), title, remark).draw()


@final
class _Picture:
    """A picture that is being drawn."""

    def __init__(self, layout: Layout, title: str, remark: str) -> None:
        self._layout: Final = layout
        self._memoir: Final = layout.memoir
        self._words: Final = Words(layout.memoir)
        self._title: Final = title
        self._remark: Final = remark
        deepest = max((len(stack.receipts) for stack in layout.stacks), default=0)
        self._lines: Final = min(deepest, LINES_MAX + 1)
        lane = NODE + DELIVERED + LINE * self._lines + LANE_GAP
        self._y: Final = {proc: TOP + lane * at for at, proc in enumerate(layout.procs)}
        self._lane: Final = lane
        self._bottom: Final = TOP + lane * len(layout.procs)
        self._width: Final = max(layout.width, float(WIDTH_MIN))
        self._colours: Final[dict[ViewId, int]] = {}
        for stay in layout.stays:
            if len(stay.entrance.conf.members) > 1:
                self._colours.setdefault(stay.entrance.conf.conf_id, len(self._colours))
        self._ways: Final[dict[Name, list[Stack]]] = {}
        for stack in layout.stacks:
            for receipt in stack.receipts:
                self._ways.setdefault(receipt.name, []).append(stack)

    def draw(self) -> str:
        """Return the picture."""
        layout = self._layout
        height = self._bottom + 34
        content: list[Content] = [
            tag("title", self._title),
            tag("desc", self._words.summary(layout.span, layout.procs)),
            tag(
                "style",
                Markup(
                    f"{STYLE}  {_theme(LIGHT)}\n  @media (prefers-color-scheme: dark) {{\n"
                    f"  {_theme(DARK)}\n  }}\n"
                ),
            ),
            tag("defs", _arrowhead()),
            tag("rect", class_="paper", width=self._width, height=height),
            tag("text", self._title, class_="title", x=LEFT, y=24),
            tag("text", self._remark, class_="soft", x=LEFT, y=42) if self._remark else None,
            _legend(),
            self._axis(),
            *(self._band(stay) for stay in layout.stays),
            *(self._lane_names(proc) for proc in layout.procs),
            tag("g", [self._edges(post) for post in layout.posts.values()], class_="edges"),
            *(self._stack(stack) for stack in layout.stacks),
            *(self._message(post) for post in layout.posts.values()),
            *(self._turn(turn.proc, turn.what, turn.at_us, x) for turn, x in layout.turns),
        ]
        return (
            str(
                tag(
                    "svg",
                    [[one, Markup("\n")] for one in content if one is not None],
                    xmlns="http://www.w3.org/2000/svg",
                    viewBox=f"0 0 {self._width:.0f} {height}",
                    width=f"{self._width:.0f}",
                    height=height,
                    role="img",
                )
            )
            + "\n"
        )

    # -- what is behind ----------------------------------------------------------------------

    def _axis(self) -> Markup:
        y = self._bottom + 20
        return tag(
            "g",
            [
                [
                    tag("path", class_="tick", d=f"M{x:.1f} {TOP - 6}V{self._bottom + 6}"),
                    tag("text", ms(at_us), class_="soft what", x=x, y=y),
                ]
                for at_us, x in ticks(self._layout.moments, APART)
            ],
            class_="axis",
        )

    def _band(self, stay: Stay) -> Markup:
        conf = stay.entrance.conf
        y = self._y[stay.entrance.proc]
        colour = self._colours.get(conf.conf_id)
        kind = "alone" if colour is None else f"c{colour % N_COLOURS}"
        label = self._words.view(conf)
        wide = max(2.0, stay.to_x - stay.x)
        fits = wide > 5.6 * len(label) + 10
        return tag(
            "g",
            tag("title", self._words.stay(stay.entrance)),
            tag(
                "rect",
                class_=f"band {kind}",
                x=stay.x,
                y=y,
                width=wide,
                height=self._lane - LANE_GAP,
                rx=4,
            ),
            tag("text", label, class_="view soft", x=stay.x + 5, y=y + 11) if fits else None,
            class_="stay",
            data_node=stay.entrance.proc,
            data_view=str(conf.conf_id),
        )

    def _lane_names(self, proc: ProcessorId) -> Markup:
        # Beside the lane, and again above it for those who have scrolled to the right.
        y = self._y[proc]
        places = range(REPEATED, int(self._width) - REPEATED // 4, REPEATED)
        return tag(
            "g",
            tag("text", f"p{proc}", class_="lane", x=14, y=y + NODE + 4),
            [tag("text", f"p{proc}", class_="view soft", x=x, y=y - 3) for x in places],
            class_="processor",
            data_node=proc,
        )

    def _edges(self, post: Post) -> Content:
        layout, name = self._layout, post.name
        x, y = layout.x[name], self._y[post.proc] + NODE
        drawn: list[Markup] = []
        before = Name(name.view_id, name.proc, name.number - 1)
        if before in layout.x:
            drawn.append(tag("path", class_="own", d=f"M{layout.x[before]:.1f} {y}H{x:.1f}"))
        for ack in post.node.message.acks:
            cause = Name(name.view_id, *ack)
            if cause not in layout.x:
                continue
            from_x, from_y = layout.x[cause], self._y[cause.proc] + NODE
            far = max(1.0, ((x - from_x) ** 2 + (y - from_y) ** 2) ** 0.5)
            gap = self._size(post) + 2.0  # the head of the arrow stops short of what it points at
            to_x, to_y = x - (x - from_x) * gap / far, y - (y - from_y) * gap / far
            drawn.append(
                tag(
                    "path",
                    class_="edge",
                    d=f"M{from_x:.1f} {from_y}L{to_x:.1f} {to_y:.1f}",
                    data_from=str(cause),
                    data_to=str(name),
                    marker_end="url(#head)",
                )
            )
        return drawn

    def _size(self, post: Post) -> float:
        return {REGULAR: RADIUS, JOIN: 7.0}.get(post.node.message.kind, 4.0)

    # -- messages ----------------------------------------------------------------------------

    def _message(self, post: Post) -> Markup:
        name, message = post.name, post.node.message
        x, y = self._layout.x[name], float(self._y[post.proc] + NODE)
        is_ordered = self._memoir.is_ordered(name)
        votes = self._memoir.votes(name) if is_ordered else {}
        place = self._words.round_of(name)
        said: list[Content] = [tag("title", self._words.message(post))]
        if is_ordered:
            said.append(self._more(name, votes, x, y))
        said.append(_body(message.kind, message.service, x, y))
        if message.kind != NULL:
            said.append(tag("text", str(name.number), class_="number", x=x, y=y + 3))
        if is_ordered:
            said.append(self._ballot(name, votes, x, y + BALLOT))
            if place:
                said.append(tag("text", f"r{place}", class_="round", x=x, y=y - 13))
        return tag(
            "g",
            said,
            class_="message",
            tabindex=0,
            data_message=str(name),
            data_view=str(name.view_id),
            data_kind=_kind(message.kind, message.service),
            data_round=place or None,
            data_votes=" ".join(str(vote) for vote in votes.values()) if is_ordered else None,
        )

    def _more(self, name: Name, votes: dict[ProcessorId, Name], x: float, y: float) -> Markup:
        """Draw what is seen when somebody points at a message."""
        drawn: list[Markup] = []
        for vote in votes.values():
            if vote in self._layout.x and vote != name:
                to_x, to_y = self._layout.x[vote], self._y[vote.proc] + NODE
                drawn.append(tag("path", class_="vote", d=f"M{to_x:.1f} {to_y}L{x:.1f} {y:.1f}"))
        for stack in self._ways.get(name, []):
            to_y = self._y[stack.proc] + NODE + DELIVERED - LINE
            drawn.append(tag("path", class_="way", d=f"M{x:.1f} {y:.1f}L{stack.x:.1f} {to_y}"))
        return tag("g", drawn, class_="more")

    def _ballot(self, name: Name, votes: dict[ProcessorId, Name], x: float, y: float) -> Markup:
        procs = self._memoir.graphs[name.view_id].procs
        if len(procs) > PIPS_MAX:
            text = f"{len(votes)}/{len(procs)}"
            return tag("text", text, class_="number", x=x, y=y + 4)
        left = x - PIP * len(procs) / 2
        return tag(
            "g",
            [
                tag(
                    "rect",
                    class_="voted" if proc in votes else "open",
                    x=left + PIP * at + 0.7,
                    y=y,
                    width=PIP - 1.4,
                    height=4,
                )
                for at, proc in enumerate(procs)
            ],
            class_="ballot",
        )

    # -- deliveries, starts and ends ---------------------------------------------------------

    def _stack(self, stack: Stack) -> Markup:
        y = self._y[stack.proc] + NODE + DELIVERED
        shown = stack.receipts
        if len(shown) > LINES_MAX + 1:
            shown = shown[:LINES_MAX]
        drawn: list[Content] = []
        for at, receipt in enumerate(shown):
            mark = "'" if receipt.reduced else ""
            drawn.append(
                tag(
                    "text",
                    tag("title", self._words.receipt(receipt)),
                    f"{receipt.name.proc}.{receipt.name.number}{mark}",
                    class_="what delivery",
                    x=stack.x,
                    y=y + LINE * at,
                    data_node=stack.proc,
                    data_message=str(receipt.name),
                    data_at=receipt.at_us,
                )
            )
        rest = len(stack.receipts) - len(shown)
        if rest:
            names = ", ".join(self._words.receipt(one) for one in stack.receipts[len(shown) :])
            drawn.append(
                tag(
                    "text",
                    tag("title", names),
                    f"+{rest}",
                    class_="what soft",
                    x=stack.x,
                    y=y + LINE * len(shown),
                    data_node=stack.proc,
                    data_rest=rest,
                )
            )
        return tag("g", drawn, class_="stack")

    def _turn(self, proc: ProcessorId, what: str, at_us: int, x: float) -> Markup:
        said = tag("title", f"p{proc} {what} at {ms(at_us)}")
        drawn = _mark(what, x, float(self._y[proc] + NODE), said)
        return tag("g", drawn, class_="turn", data_node=proc, data_what=what)


def _mark(what: str, x: float, y: float, said: Markup | None = None) -> Markup:
    """Draw that a processor starts, leaves or crashes."""
    if what == STARTS:
        return tag("path", said, class_="start", d=f"M{x - 5:.1f} {y - 6:.1f}l9 6l-9 6z")
    if what == LEAVES:
        return tag("circle", said, class_="soft", cx=x, cy=y, r=5)
    return tag("path", said, class_="crash", d=f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12")


def _kind(kind: int, service: Service) -> str:
    if kind == REGULAR:
        return service.name.lower()
    return "join" if kind == JOIN else "null"


def _body(kind: int, service: Service, x: float, y: float) -> Content:
    look = f"body {_kind(kind, service)}"
    if kind == NULL:
        return tag("circle", class_="null", cx=x, cy=y, r=4)
    if kind == JOIN:
        return tag("path", class_=look, d=f"M{x - 9:.1f} {y:.1f}l9 -9l9 9l-9 9z")
    if service is Service.CAUSAL:
        return tag("rect", class_=look, x=x - 8, y=y - 8, width=16, height=16, rx=2)
    if service is Service.BASIC:
        return tag("path", class_=look, d=f"M{x - 10:.1f} {y + 7:.1f}l10 -18l10 18z")
    circle = tag("circle", class_=look, cx=x, cy=y, r=RADIUS)
    if service is Service.SAFE:
        return [circle, tag("circle", class_="ring safe", cx=x, cy=y, r=RADIUS - 3)]
    return circle


def _arrowhead() -> Markup:
    return tag(
        "marker",
        tag("path", class_="head", d="M0 0L6 3L0 6z"),
        id="head",
        viewBox="0 0 6 6",
        refX=6,
        refY=3,
        markerWidth=6,
        markerHeight=6,
        orient="auto",
    )


def _legend() -> Markup:
    drawn: list[Content] = []
    x, y = float(LEFT), 64.0
    for service in SERVICES:
        drawn.append(_body(REGULAR, service, x + 9, y))
        drawn.append(tag("text", service.name.lower(), class_="soft", x=x + 24, y=y + 4))
        x += 88
    for kind, text in ((NULL, "null: acknowledges"), (JOIN, "join: proposes a view")):
        drawn.append(_body(kind, Service.AGREED, x + 9, y))
        drawn.append(tag("text", text, class_="soft", x=x + 24, y=y + 4))
        x += 146
    for what in (STARTS, LEAVES, FAILS):
        drawn.append(_mark(what, x + 9, y))
        drawn.append(tag("text", what, class_="soft", x=x + 20, y=y + 4))
        x += 70
    ballot = [
        tag(
            "rect", class_="voted" if at < 2 else "open", x=LEFT + 5 * at, y=82, width=3.6, height=4
        )
        for at in range(3)
    ]
    drawn += [
        *ballot,
        tag("text", "who of the view voted for it", class_="soft", x=LEFT + 24, y=89),
        tag("text", "r3", class_="round", x=LEFT + 205, y=89),
        tag("text", "ToTo's round that chose it", class_="soft", x=LEFT + 220, y=89),
        tag("text", "2.7", class_="what", x=LEFT + 395, y=89),
        tag("text", "delivered there: p2's 7 (' reduced)", class_="soft", x=LEFT + 412, y=89),
        tag("text", "point at a message for more", class_="soft", x=LEFT + 620, y=89),
    ]
    return tag("g", drawn, class_="legend")
