"""`evensong sim --draw`: the picture of one run's causal graph, or of a part of it.

A picture that has too many messages is none. Without `--span` a run is drawn from its beginning as
far as a picture goes, and that is said; a span that holds more is refused, with one that fits.
"""

import argparse
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from evensong.errors import BadScenario
from evensong.sim.campaign import Task
from evensong.sim.setup import TRANSIS
from evensong.sim.transis.memoir import recall
from evensong.sim.whole import whole

if TYPE_CHECKING:
    from evensong.sim.transis.memoir import Memoir
    from evensong.trace.graph_layout import Span

POSTS_MAX: Final = 400  # messages that a picture shows
MS: Final = 1_000
END: Final = 2**60  # of a span that goes on to the end


class Part(NamedTuple):
    """A part of a run that was asked for, in microseconds; the end is not included."""

    from_us: int
    to_us: int


def part(text: str) -> Part:
    """Read A:B, milliseconds of virtual time; what is left out is the beginning or the end."""
    first, colon, last = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r}: expected A:B in ms, such as 40:62.5")
    found = Part(_us(first, text) if first else 0, _us(last, text) if last else END)
    if found.from_us >= found.to_us:
        raise argparse.ArgumentTypeError(f"{text!r}: the end must be after the beginning")
    return found


def _us(number: str, text: str) -> int:
    try:
        value = Decimal(number) * MS
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r}: {number!r} is not a number of ms") from None
    if not value.is_finite() or not 0 <= value < END:
        raise argparse.ArgumentTypeError(f"{text!r}: {number} ms is not within a run")
    return int(value)


def check(args: argparse.Namespace, engine: str, n_runs: int, *, has_clients: bool) -> None:
    """Refuse before the first run what cannot be drawn."""
    if args.draw is None:
        if args.span is not None:
            raise BadScenario("--span chooses what --draw FILE shows: there is none")
        return
    if n_runs != 1:
        raise BadScenario(f"--draw: a picture is of one run, not of {n_runs:,}: name it by --seed")
    if engine != TRANSIS:
        raise BadScenario(
            f"--draw: {engine} orders by a token and has no causal graph; with --engine "
            f"{TRANSIS} there is one"
        )
    if has_clients:
        raise BadScenario("--draw: a run with clients is not drawn, only one without")
    path = Path(args.draw)
    try:
        if path.is_dir():
            raise BadScenario(f"{path}: cannot be written: it is a directory")
        if not path.parent.is_dir():
            raise BadScenario(f"{path}: cannot be written: there is no directory {path.parent}")
    except OSError as error:  # a name that no file can have
        raise BadScenario(f"{path}: cannot be written: {error.strerror}") from error


def draw(file: str, task: Task, chosen: Part | None) -> dict[str, object]:
    """Draw the run of a task; return what was drawn."""
    from evensong.trace.graph import graph_drawing
    from evensong.trace.graph_layout import count_posts

    memoir, _ = recall(task.setup())
    span = _span(memoir, chosen)
    shown, total = count_posts(memoir, span), len(memoir.posts)
    remark = (
        f"{span.from_us / MS:g} to {span.to_us / MS:g} ms of virtual time: "
        f"{shown} of the {total} messages of the graph"
    )
    path = Path(file)
    try:
        with whole(path) as partial:
            picture = graph_drawing(memoir, span, task.command(), remark)
            partial.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise BadScenario(f"{path}: cannot be written: {error.strerror}") from error
    return {
        "file": str(path),
        "from_ms": span.from_us / MS,
        "to_ms": span.to_us / MS,
        "messages": shown,
        "of": total,
    }


def _span(memoir: "Memoir", chosen: Part | None) -> "Span":
    from evensong.trace.graph_layout import Span, count_posts, largest_span

    if chosen is None:
        return largest_span(memoir, 0, POSTS_MAX)
    end = largest_span(memoir, chosen.from_us, len(memoir.posts)).to_us
    span = Span(chosen.from_us, min(chosen.to_us, end))
    posts = count_posts(memoir, span)
    if posts > POSTS_MAX:
        fits = largest_span(memoir, chosen.from_us, POSTS_MAX)
        raise BadScenario(
            f"--span: {posts} messages of the graph are too many for a picture, which shows "
            f"{POSTS_MAX}; {fits.from_us / MS:g}:{fits.to_us / MS:g} would do"
        )
    if not any(span.has(one.at_us) for one in memoir.happenings):
        raise BadScenario(f"--span: the run is over at {end / MS:g} ms, nothing happens then")
    return span


def told(drawn: dict[str, object]) -> str:
    """Say what was drawn."""
    text = f"drawn: {drawn['file']}, {drawn['from_ms']:g} to {drawn['to_ms']:g} ms, "
    text += f"{drawn['messages']} of {drawn['of']} messages of the graph"
    return text if drawn["messages"] == drawn["of"] else f"{text}; --span A:B shows another part"
