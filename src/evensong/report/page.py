"""The page: what it says, from top to bottom."""

from collections.abc import Sequence
from typing import Final

from evensong.report import verdicts
from evensong.report.bars import came_and_went, change_anchor, changes, fairness_table, load
from evensong.report.charts import services_of, spread, throughput, timing_table
from evensong.report.drawing import table
from evensong.report.lanes import ENDINGS, lanes, letters
from evensong.report.markup import Content, Markup, join, slug, tag
from evensong.report.model import Change, Report, Run, Source, Story
from evensong.report.scales import amount, count, duration, moment, nodes, percent, size
from evensong.report.style import style

STORIES_MAX: Final = 40
# Nothing is loaded from anywhere, and nothing in the page runs: browsers are told to see to it.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
NOT_TRACED: Final = (
    "Messages were not traced in this run; the trace level “events” writes them down."
)


def render(report: Report) -> str:
    """Return the page."""
    sums = verdicts.summed(report)
    sections = [_section("verdict", "Verdict", verdicts.section(report, sums))] if sums else []
    if len(report.runs) > 1 or report.n_runs > len(report.runs):
        sections.append(_section("runs", "Runs", _run_list(report)))
    entries = [(f"run-{slug(run.run_id)}", f"Run {run.run_id}") for run in report.runs]
    sections += [_run(run) for run in report.runs]
    sections.append(_section("read", "What was read", _read(report)))
    contents = [
        *([("verdict", "Verdict")] if sums else []),
        *([("runs", "Runs")] if len(report.runs) > 1 else []),
        *entries,
        ("read", "What was read"),
    ]
    body = [
        tag("a", "Skip to the verdict", href="#main", class_="skip"),
        _definitions(),
        tag("header", tag("h1", report.title), tag("p", _lead(report), class_="soft")),
        tag(
            "nav",
            tag("ul", [tag("li", tag("a", name, href=f"#{anchor}")) for anchor, name in contents]),
            aria_label="Contents",
        ),
        tag("main", verdicts.banner(sums), _tiles(report), sections, id="main"),
        tag("footer", _made(report)),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", f"{report.title}: {_subject(report)}"),
        tag("style", Markup(style())),
    ]
    page = tag("html", "\n", tag("head", head), "\n", tag("body", _lines(body)), "\n", lang="en")
    return f"<!doctype html>\n{page}\n"


def _lines(content: Sequence[Content]) -> Markup:
    return join([[one, "\n"] for one in content])


def _section(anchor: str, heading: str, *content: Content) -> Markup:
    return tag("section", tag("h2", heading), content, id=anchor)


def _subject(report: Report) -> str:
    names = [run.run_id for run in report.runs]
    return f"run {names[0]}" if len(names) == 1 else count(report.n_runs or len(names), "run")


def _lead(report: Report) -> str:
    lives = [life for run in report.runs for life in run.lives]
    n_nodes = _n_nodes(report)
    return f"{_subject(report).capitalize()}: {count(n_nodes, 'node')}, " + (
        "one life each" if len(lives) == n_nodes else f"{len(lives)} lives"
    )


def _n_nodes(report: Report) -> int:
    return len({(run.run_id, life.node) for run in report.runs for life in run.lives})


def _tiles(report: Report) -> Markup:
    lives = [life for run in report.runs for life in run.lives]
    loads = [one for run in report.runs for one in run.load]
    span = sum(max((life.to_us for life in run.lives), default=0) for run in report.runs)
    sent = sum(one.messages_sent for one in loads)
    tiles = [
        ("messages sent", amount(sent)),
        ("messages delivered", amount(sum(one.messages_delivered for one in loads))),
        ("time", duration(span)),
        ("messages a second", amount(sent / (span / 1_000_000)) if span else "–"),
        ("changes of membership", amount(sum(len(run.changes) for run in report.runs))),
        (
            "nodes, lives",
            f"{_n_nodes(report)}, {len(lives)}",
        ),
    ]
    return tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", value)) for name, value in tiles],
        class_="tiles",
    )


def _run_list(report: Report) -> Markup:
    rows: list[list[Content]] = []
    for run in report.runs:
        found = verdicts.statuses_of(run.verdicts)
        told = ", ".join(f"{n} {status}" for status, n in found.items() if n) or "not judged"
        rows.append(
            [
                tag("a", run.run_id, href=f"#run-{slug(run.run_id)}"),
                told,
                len({life.node for life in run.lives}),
                len(run.changes),
                f"{sum(one.messages_sent for one in run.load):,}",
            ]
        )
    headings = ("run", "verdicts", "nodes", "changes", "messages sent")
    rest = report.n_runs - len(report.runs)
    more = (
        tag("p", f"{count(rest, 'run')} more are not shown; every one of them is in the tables.")
        if rest > 0
        else None
    )
    return join([table(headings, rows, "Runs", texts=2), more])


# One run


def _run(run: Run) -> Markup:
    key = slug(run.run_id)
    parts: list[Content] = []
    if run.lives:
        parts.append(lanes(run, f"lanes-{key}"))
    else:
        parts.append(tag("p", "There is nothing in this run.", class_="soft"))
    parts.append(_changes(run, key))
    parts.append(_messages(run, key))
    parts.append(_token(run, key))
    parts.append(_load(run, key))
    return _section(f"run-{key}", f"Run {run.run_id}", parts)


def _changes(run: Run, key: str) -> Content:
    heading = tag("h3", "Changes of membership")
    if not run.changes:
        return [heading, tag("p", "No two nodes ever formed a ring in this run.", class_="soft")]
    letter_by_conf = letters(run)
    told = [_story(run, one, letter_by_conf) for one in run.changes[:STORIES_MAX]]
    rest = len(run.changes) - len(told)
    return [
        heading,
        changes(run, f"changes-{key}", letter_by_conf),
        tag("ol", told, class_="stories"),
        tag("p", f"{count(rest, 'more change')} are in the table.", class_="soft")
        if rest
        else None,
    ]


def _story(run: Run, one: Change, letter_by_conf: dict[str, str]) -> Markup:
    letter = letter_by_conf.get(one.conf_id, "")
    strong = f"{letter}  ring {one.conf_id} of {nodes(one.members)}"
    story = one.story or _plain_story(one)
    seen = None
    if story.seen:
        lines = [tag("li", line) for line in story.seen]
        seen = tag("details", tag("summary", "What each of them saw"), tag("ul", lines))
    return tag(
        "li",
        tag("p", tag("strong", strong), f"; {came_and_went(one)}"),
        tag("p", f"at {moment(one.noticed_us)}", class_="when"),
        [tag("p", _sentence(line)) for line in story.causes],
        tag("p", _sentence(story.times), class_="soft") if story.times else None,
        [tag("p", f"Not known: {line}", class_="soft") for line in story.unknown],
        seen,
        id=change_anchor(run, one),
    )


def _sentence(text: str) -> str:
    """Begin with a capital letter, unless with the name of a node, and end with a stop."""
    is_name = text[:1] == "n" and text[1:2].isdecimal()
    begun = text if is_name else text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."


def _plain_story(one: Change) -> Story:
    blow = f"{one.blow}; {duration(one.detect_us)} later " if one.blow and one.detect_us else ""
    silence = ""
    if one.cause == "token loss" and one.silence_us is not None:
        silence = f", {duration(one.silence_us)} after the last token"
    first = f"{blow}n{one.noticed_by} left its ring: {one.cause or 'no cause is known'}{silence}."
    took = duration(one.installed_us - one.noticed_us)
    if one.is_one_clock:
        return Story((first,), times=f"the last member had the new ring {took} later")
    return Story(
        (first,),
        times=f"n{one.noticed_by} had the new ring {took} later",
        unknown=("who was first and who was last; the members read different clocks",),
    )


def _messages(run: Run, key: str) -> Content:
    heading = tag("h3", "Messages")
    if not run.throughput:
        return [heading, tag("p", NOT_TRACED, class_="soft")]
    services = services_of(run)
    parts: list[Content] = [heading, throughput(run, f"throughput-{key}")]
    if run.latency:
        description = (
            "From a message's first broadcast to its delivery at its own sender, by one clock: "
            "how many took how long. A dotted line is where half of them are through."
        )
        parts.append(
            spread(
                f"latency-{key}",
                "Latency at the sender",
                description,
                run.latency,
                "packet",
                services,
            )
        )
    if run.one_way:
        description = (
            "From a message's first broadcast to its delivery at another node. Only a simulated "
            "run has one clock for all, which this takes."
        )
        title = "Latency from node to node"
        parts.append(
            spread(f"one-way-{key}", title, description, run.one_way, "delivery", services)
        )
    return parts


def _token(run: Run, key: str) -> Content:
    heading = tag("h3", "The token")
    if not run.rotation:
        told = "No visits of the token were traced in this run."
        return [heading, tag("p", told, class_="soft")]
    description = (
        "How long the token took to come back to a node, over all rounds of all nodes. A ring that "
        "has nothing to say lets its token rest."
    )
    resent = sum(one.packets_resent for one in run.load)
    sent = sum(one.packets_sent for one in run.load)
    again = f"{count(sent, 'packet')} were sent, and {count(resent, 'packet')} once more "
    again += "because somebody lacked them"
    again += f": {percent(resent / sent)}." if resent and sent else "."
    return [
        heading,
        spread(f"rotation-{key}", "A round of the token", description, run.rounds, "round", ()),
        timing_table(run.rotation, "Rounds of the token at each node", "node"),
        tag("p", again),
    ]


def _load(run: Run, key: str) -> Content:
    heading = tag("h3", "Load and fairness")
    if not any(one.messages_sent for one in run.load):
        return [heading, tag("p", "No sends were traced in this run.", class_="soft")]
    parts: list[Content] = [heading, load(run, f"load-{key}")]
    if run.fairness:
        whole = sum(one.messages for one in run.fairness)
        index = sum(one.jain * one.messages for one in run.fairness) / whole
        parts += [
            tag(
                "p",
                f"Jain's index, weighted by what was sent in each configuration, is "
                f"{index:.3f}. It is 1 where all members sent the same, and 1/n where one of n "
                "sent everything; it tells what clients wanted as much as what the ring allowed.",
            ),
            fairness_table(run.fairness),
        ]
    return parts


# What was read, and how it was made


def _read(report: Report) -> Content:
    parts: list[Content] = []
    if report.sources:
        parts.append(table(("path", "files", "size"), map(_source, report.sources), "Sources"))
    parts += [tag("p", note) for note in report.notes]
    rows = [
        [
            run.run_id,
            f"n{life.node}",
            str(life.incarnation),
            life.level,
            ENDINGS[life.ended],
            _doubts(life.gaps, has_beginning=life.has_beginning),
            moment(life.from_us),
            moment(life.to_us),
            f"{life.configurations:,}",
            f"{life.events:,}",
        ]
        for run in report.runs
        for life in run.lives
    ]
    headings = (
        "run", "node", "incarnation", "level", "end", "missing", "from", "to", "configurations",
        "events",
    )  # fmt: skip
    clocks = {(run.run_id, life.clock) for run in report.runs for life in run.lives}
    parts.append(tag("h3", "Lives"))
    parts.append(table(headings, rows, "Lives", texts=6))
    if len(clocks) > len(report.runs):
        told = "Times are compared only where nodes read the same clock, as on one machine."
        parts.append(tag("p", told, class_="soft"))
    return parts


def _source(one: Source) -> list[Content]:
    files = "–" if one.files is None else f"{one.files:,}"
    return [tag("code", one.name), files, "–" if one.size is None else size(one.size)]


def _doubts(gaps: int, *, has_beginning: bool) -> str:
    found = [] if has_beginning else ["its beginning"]
    found += [count(gaps, "gap")] if gaps else []
    return ", ".join(found) or "–"


def _made(report: Report) -> Content:
    parts: list[Content] = [f"Made by evensong {report.version}"]
    if report.command:
        parts += [" with ", tag("code", report.command)]
    return tag("p", [*parts, ". This page loads nothing and runs nothing."])


def _definitions() -> Markup:
    """Return the patterns that tell looks apart without colour."""

    def hatch(name: str, angle: int, back: str | None) -> Markup:
        behind = tag("rect", width=6, height=6, class_=back) if back else None
        line = tag("path", d="M0 0V6", class_=name)
        return tag(
            "pattern",
            behind,
            line,
            id=name,
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({angle})",
        )

    dots = tag(
        "pattern",
        tag("rect", width=5, height=5, class_="dots-back-s2"),
        tag("circle", cx=2.5, cy=2.5, r=1.4, class_="dots-s2"),
        id="dots-s2",
        width=5,
        height=5,
        patternUnits="userSpaceOnUse",
    )
    patterns = [
        hatch("hatch-s1", 45, "hatch-back-s1"),
        hatch("hatch-before", -45, None),
        hatch("hatch-seam", 45, None),
        dots,
    ]
    return tag("svg", tag("defs", patterns), class_="defs", aria_hidden="true")
