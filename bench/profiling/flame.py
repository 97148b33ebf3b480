"""Flame graphs: a frame is as wide as its share of the samples, and stands on who called it.

What all stacks have in common at the bottom is left out. The colour is the stage's; the wider of
two neighbours stands to the left. One picture a file, nothing to load.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.profiling.stacks import Stack, by_stage
from bench.profiling.stages import CALLER, REST, WAY, Frame, own_stage
from evensong.report.markup import Markup, tag

WIDTH, MARGIN, ROW = 1200, 8, 17
TITLE, KEY = 28, 18  # heights: of the title, and of a line of the key
KEYS_A_LINE = 3
SHARE_LEAST = 0.003  # narrower frames are left out
LETTER = 6.7  # how wide one is
HUES = (212, 28, 130, 355, 275, 180, 52, 320, 90)
FONT = "text{font:11px ui-monospace,monospace}.title{font:600 14px system-ui,sans-serif}"


def _theme(ink: str, back: str, grey: str, saturation: int, lightness: int) -> str:
    rules = [f"text{{fill:{ink}}}.back{{fill:{back}}}.rest{{fill:{grey}}}"]
    for at, hue in enumerate(HUES):
        rules.append(f".s{at}{{fill:hsl({hue},{saturation}%,{lightness}%)}}")
    return "".join(rules)


STYLE = (
    f"{FONT}{_theme('#1f2328', '#fff', '#d8dee4', 75, 80)}"
    f"@media(prefers-color-scheme:dark){{{_theme('#e6edf3', '#0d1117', '#3d444d', 45, 30)}}}"
)


@dataclass
class Node:
    """A frame, in all samples in which it was called on the same way."""

    frame: Frame
    stage: str
    count: int = 0
    above: "dict[Frame, Node]" = field(default_factory=dict)

    def callees(self) -> "list[Node]":
        """Return what it called, the most frequent first."""
        return sorted(self.above.values(), key=lambda one: (-one.count, one.frame))


def tree(stacks: Mapping[Stack, int], kind: str) -> Node:
    """Return all stacks as one tree, whose root has no frame of its own."""
    root = Node(Frame("", ""), REST)
    for stack, count in stacks.items():
        node = root
        node.count += count
        for frame in stack:
            stage = own_stage(frame, kind)
            stage = node.stage if stage == CALLER else stage
            node = node.above.setdefault(frame, Node(frame, stage))
            node.count += count
    return root


def trunk(root: Node) -> Node:
    """Return the first node at which ways part, or that was itself at work."""
    node = root
    while len(node.above) == 1:
        (only,) = node.above.values()
        if only.count < node.count:
            break
        node = only
    return node


def label(frame: Frame, width: float) -> str:
    """Return as much of a name as there is room for: at least its last part, or nothing."""
    room = int((width - 4) / LETTER)
    parts = frame.name().split(".")
    for at in range(len(parts)):
        short = ".".join(parts[at:])
        if len(short) <= room:
            return short
    return f"{parts[-1][: room - 1]}…" if room >= 5 else ""


def drawn(title: str, stacks: Mapping[Stack, int], kind: str) -> Markup:
    """Draw the stacks of one kind of process."""
    base = trunk(tree(stacks, kind))
    boxes: list[tuple[Node, int, float]] = []
    _place(base, 0, 0.0, base.count * SHARE_LEAST, boxes)
    stages = {stage: count for stage, count in by_stage(stacks, kind).items() if count}
    top = TITLE + KEY * -(-len(stages) // KEYS_A_LINE) + 6
    depth = 1 + max((level for _, level, _ in boxes), default=0)
    height = top + depth * ROW + MARGIN
    content: list[Markup] = [
        tag("title", title),
        tag("style", Markup(STYLE)),
        tag("rect", class_="back", width=WIDTH, height=height),
        tag("text", title, class_="title", x=MARGIN, y=18),
        *_key(stages, kind),
    ]
    scale = (WIDTH - 2 * MARGIN) / max(1, base.count)
    for node, level, left in boxes:
        content.append(_box(node, MARGIN + left * scale, height - MARGIN - level * ROW, scale))
    return tag(
        "svg",
        content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
    )


def _place(
    node: Node, level: int, left: float, least: float, boxes: list[tuple[Node, int, float]]
) -> None:
    """Say where a node and all above it stand: how high, and after how many samples."""
    boxes.append((node, level, left))
    for one in node.callees():
        if one.count >= least:
            _place(one, level + 1, left, least, boxes)
        left += one.count


def _box(node: Node, x: float, bottom: float, scale: float) -> Markup:
    width = node.count * scale
    share = 100 * width / (WIDTH - 2 * MARGIN)
    name = node.frame.name() if node.frame.module else "everything"
    hint = tag("title", f"{name}: {share:.1f} %, {node.stage}")
    y = bottom - ROW
    look = _look(node.stage)
    rect = tag("rect", class_=look, x=x, y=y, width=max(0.5, width - 0.5), height=ROW - 1)
    shown = label(node.frame, width) if node.frame.module else name
    return tag("g", hint, rect, tag("text", shown, x=x + 2, y=y + 12) if shown else None)


def _key(stages: Mapping[str, int], kind: str) -> list[Markup]:
    content: list[Markup] = []
    step = (WIDTH - 2 * MARGIN) / KEYS_A_LINE
    ordered = [stage for stage, where in WAY if where == kind and stage in stages]
    for number, stage in enumerate(ordered):
        x, y = MARGIN + (number % KEYS_A_LINE) * step, TITLE + number // KEYS_A_LINE * KEY
        share = 100 * stages[stage] / sum(stages.values())
        content.append(tag("rect", class_=_look(stage), x=x, y=y, width=12, height=12))
        content.append(tag("text", f"{stage} {share:.1f} %", x=x + 17, y=y + 10))
    return content


def _look(stage: str) -> str:
    """Return the class of a stage: its place among those of its kind of process."""
    if stage == REST:
        return "rest"
    (kind,) = [where for one, where in WAY if one == stage]
    return f"s{[one for one, where in WAY if where == kind].index(stage)}"
