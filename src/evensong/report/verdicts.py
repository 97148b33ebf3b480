"""The verdicts on a page: one line for all, one a property, and what the words mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evensong.report.markup import Content, Markup, join, slug, tag
from evensong.report.model import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    STATUSES,
    VACUOUS,
    Promise,
    Report,
    Verdict,
)
from evensong.report.scales import count

SIGNS: Final = {PASS: "✓", FAIL: "✕", VACUOUS: "–", INCONCLUSIVE: "?"}
WORDS: Final = {
    PASS: "There were cases, and the traces show that it held in each of them.",
    FAIL: "The traces show that it was broken. The witness says by whom and where.",
    VACUOUS: (
        "Nothing in these runs was about it, so it was neither kept nor broken: no proof of "
        "anything."
    ),
    INCONCLUSIVE: (
        "Nothing shows that it was broken, and in some cases nobody can tell: what would decide "
        "them is not in the traces, as after a kill, behind a gap, or where a node's is missing."
    ),
}
WITNESSES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Sum:
    """What the audit says of one property in all runs."""

    promise: Promise
    status: str  # the worst of all runs; vacuous only if it is in all of them
    n_checked: int
    n_unknown: int
    n_violations: int
    witnesses: tuple[tuple[str, str], ...]  # run and text


def summed(report: Report) -> list[Sum]:
    """Return one verdict a property, the worst first, else in the order of the catalogue."""
    by_property: dict[str, list[tuple[str, Verdict]]] = {}
    for promise in report.promises:
        by_property[promise.property_id] = []
    for run in report.runs:
        for one in run.verdicts:
            by_property.setdefault(one.property_id, []).append((run.run_id, one))
    promises = {promise.property_id: promise for promise in report.promises}
    sums = [
        _sum(promises.get(name, Promise(name, "", "")), found)
        for name, found in by_property.items()
        if found
    ]
    return sorted(sums, key=lambda one: STATUSES.index(one.status))  # sorting keeps what is equal


def _sum(promise: Promise, found: Sequence[tuple[str, Verdict]]) -> Sum:
    statuses = {one.status for _, one in found}
    order = (FAIL, INCONCLUSIVE, PASS, VACUOUS)
    return Sum(
        promise,
        next(status for status in order if status in statuses),
        sum(one.n_checked for _, one in found),
        sum(one.n_unknown for _, one in found),
        sum(one.n_violations for _, one in found),
        tuple((run_id, text) for run_id, one in found for text in one.witnesses),
    )


def banner(sums: Sequence[Sum]) -> Markup:
    """Return the verdict in a sentence."""
    numbers = {status: sum(one.status == status for one in sums) for status in STATUSES}
    if not sums:
        status, strong = VACUOUS, "The traces were not judged"
    elif numbers[FAIL]:
        broken = sum(one.n_violations for one in sums)
        status, strong = (
            FAIL,
            f"Broken: {count(numbers[FAIL], 'property')}, {count(broken, 'time')}",
        )
    elif numbers[INCONCLUSIVE]:
        unknown, checked = sum(one.n_unknown for one in sums), sum(one.n_checked for one in sums)
        status, strong = INCONCLUSIVE, "Nothing is broken, and not everything could be judged"
        if unknown:
            strong = f"Nothing is broken; {unknown:,} of {checked:,} checks cannot be decided"
    elif numbers[PASS]:
        status, strong = PASS, "Every promise was kept"
    else:
        status, strong = VACUOUS, "Nothing in these traces could be judged"
    told = {
        FAIL: ("is broken", "are broken"),
        INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
        VACUOUS: ("is vacuous", "are vacuous"),
        PASS: ("holds", "hold"),
    }
    parts = [f"{n} {told[name][n != 1]}" for name, n in numbers.items() if n]
    line = f"Of {count(len(sums), 'property')}, {', '.join(parts)}." if parts else None
    return tag(
        "div",
        tag("span", SIGNS[status], class_="sign", aria_hidden="true"),
        tag("p", tag("strong", strong), line),
        class_=f"banner is-{status}",
    )


def badge(status: str) -> Markup:
    """Return a verdict as a word with a sign."""
    sign = tag("span", SIGNS[status], aria_hidden="true")
    return tag("span", sign, f" {status}", class_=f"badge is-{status}")


def section(report: Report, sums: Sequence[Sum]) -> Markup:
    """Return the list of all properties."""
    several = len(report.runs) > 1
    words = [
        join([tag("dt", badge(status)), tag("dd", WORDS[status])]) for status in reversed(STATUSES)
    ]
    return join(
        [
            tag("ul", [_item(one, is_run_told=several) for one in sums], class_="verdicts"),
            tag(
                "details",
                tag("summary", "What the four words mean"),
                tag("dl", words, class_="words"),
            ),
        ]
    )


def _item(one: Sum, *, is_run_told: bool) -> Markup:
    figures = f"{one.n_checked:,} checked"
    figures += f", {one.n_unknown:,} unknown" if one.n_unknown else ""
    figures += f", {one.n_violations:,} broken" if one.n_violations else ""
    line: Content = [
        badge(one.status),
        tag("span", one.promise.property_id, class_="id"),
        tag("span", one.promise.title, class_="title"),
        tag("span", figures, class_="figures"),
    ]
    anchor = f"property-{slug(one.promise.property_id)}"
    shown = one.witnesses[:WITNESSES_MAX]
    witnesses = [
        tag("div", f"run {run_id}: {text}" if is_run_told else text, class_="witness")
        for run_id, text in shown
    ]
    rest = one.n_violations - len(shown)
    more = tag("p", f"and {rest:,} more") if one.n_violations and rest > 0 else None
    meaning = tag("p", one.promise.meaning) if one.promise.meaning else None
    if meaning is None and not witnesses:
        return tag("li", tag("div", line, class_="plain-verdict"), id=anchor)
    inside = tag("div", meaning, witnesses, more, class_="inside")
    return tag(
        "li", tag("details", tag("summary", line), inside, open=one.status == FAIL), id=anchor
    )


def statuses_of(verdicts: Sequence[Verdict]) -> Mapping[str, int]:
    """Count verdicts by status."""
    return {status: sum(one.status == status for one in verdicts) for status in STATUSES}
