"""A change as a few lines for people, and as plain values for programs."""

from typing import Final

from evensong.why.changes import Cause, Change
from evensong.why.passages import Passage
from evensong.why.records import Record
from evensong.why.words import listed, members_text, ms, names

INDENT: Final = "  "
LATE_US: Final = 10_000  # less is not worth a word


def story(change: Change) -> list[str]:
    """Return a change in lines: what, why, what each saw, how long it took, what is not known."""
    lines = [_headline(change)]
    lines += [INDENT + cause.sentence for cause in change.causes]
    lines += [INDENT + line for way in change.passages for line in _seen(way)]
    lines.append(INDENT + _times(change))
    lines += [f"{INDENT}not known: {one}" for one in change.unknown]
    return lines


def _headline(change: Change) -> str:
    was = ", ".join(f"{side.ring_id} {members_text(side.members)}" for side in change.sides)
    if change.ring is None:
        where = f"under way at {names(way.node for way in change.passages)}"
    else:
        noun = "view" if any(way.is_view for way in change.passages) else "ring"
        where = f"{noun} {change.ring.ring_id} {members_text(change.ring.members)}"
    parts = [f"change {change.number}: {where}, was {was}"]
    if change.gone:
        parts.append(f"without {names(change.gone)}")
    if change.came and change.ring is not None and set(change.came) != set(change.ring.members):
        parts.append(f"with {names(change.came)}")
    return "; ".join(parts)


def _seen(way: Passage) -> list[str]:
    """Return what one node saw and believed, in a line."""
    told = [f"n{way.node}: {_reason(way)}"]
    if way.token is not None:
        token = way.token
        told.append(
            f"last token {token.token_seq} from n{token.came_from} (seq {token.seq}) "
            f"{ms(token.us_before)} before"
        )
    heard = {node: us for node, us in way.heard().items() if node != way.node}
    if heard and not way.is_fresh:
        word = "heard" if "heard" in way.began.figures else "last delivered of"
        told.append(f"{word} " + ", ".join(f"n{node} {ms(us)}" for node, us in heard.items()))
    lag = way.lag()
    if lag is not None and lag[0] >= LATE_US and not way.is_fresh:
        told.append(f"own loop {ms(lag[0])} late")
    told += _beliefs(way)
    return ["; ".join(told)]


def _reason(way: Passage) -> str:
    reason = way.cause or "no reason is recorded"
    if way.about:
        reason += f" (n{way.about})"
    if way.collected is not None:
        about = way.collected.text("about")
        reason += f" after {way.collected.text('cause')} (n{about})"
    if way.is_fresh:
        return "started" if way.cause == "start" else f"started, {reason}"
    return reason


def _beliefs(way: Passage) -> list[str]:
    by_cause: dict[tuple[str, int], list[int]] = {}
    for one in way.gave_up:
        by_cause.setdefault((one.cause, one.by), []).append(one.node)
    told = []
    for (cause, by), nodes in by_cause.items():
        whose = f" of n{by}" if by else ""
        told.append(f"gave up {names(nodes)} ({cause}{whose})")
    if way.attempts() > 1:
        told.append(f"{'proposed' if way.is_view else 'committed'} {way.attempts()} times")
    return told


def _times(change: Change) -> str:
    told = []
    if change.detect_us is not None:
        told.append(f"noticed after {ms(change.detect_us)}")
    slowest = max(
        (way for way in change.passages if way.installed is not None),
        key=lambda way: (not way.is_fresh, way.took_us() or 0),
        default=None,
    )
    if slowest is not None and change.recover_us is not None:
        phases = [f"{name} {ms(us)}" for name, us in slowest.phases_us().items()]
        word = "took" if all(way.is_fresh for way in change.passages) else "recovered in"
        told.append(f"{word} {ms(change.recover_us)} (n{slowest.node}: {listed(phases)})")
    if not told:
        return "how long it takes is not known yet"
    clock = "times of one clock" if change.is_one_clock else "each node's time by its own clock"
    return f"{', '.join(told)}; {clock}"


# For programs


def plain(change: Change) -> dict[str, object]:
    """Return a change as values that JSON can carry."""
    return {
        "change": change.number,
        "ring": str(change.ring.ring_id) if change.ring else None,
        "members": list(change.ring.members) if change.ring else None,
        "was": [
            {"ring": str(side.ring_id), "members": list(side.members)} for side in change.sides
        ],
        "came": list(change.came),
        "gone": list(change.gone),
        "causes": [_plain_cause(cause) for cause in change.causes],
        "nodes": [_plain_way(way) for way in change.passages],
        "one_clock": change.is_one_clock,
        "detect_us": change.detect_us,
        "recover_us": change.recover_us,
        "unknown": list(change.unknown),
    }


def _plain_cause(cause: Cause) -> dict[str, object]:
    return {
        "kind": cause.kind,
        "nodes": list(cause.nodes),
        "sentence": cause.sentence,
        "records": [_plain_record(record) for record in cause.records],
    }


def _plain_record(record: Record) -> dict[str, object]:
    return {**record._asdict(), "figures": dict(record.figures)}


def _plain_way(way: Passage) -> dict[str, object]:
    token, lag = way.token, way.lag()
    return {
        "node": way.node,
        "incarnation": way.account.incarnation,
        "source": way.account.source,
        "was": str(way.left.ring_id),
        "started": way.is_fresh,
        "cause": way.cause,
        "about": way.about,
        "noticed_us": way.began.t_us,
        "installed_us": way.installed.t_us if way.installed else None,
        "phases_us": way.phases_us(),
        "attempts": way.attempts(),
        "last_token": None
        if token is None
        else {
            "token_seq": token.token_seq,
            "seq": token.seq,
            "from": token.came_from,
            "us_before": token.us_before,
        },
        "heard_us_before": {str(node): us for node, us in way.heard().items()},
        "own_lag_us": None if lag is None else lag[0],
        "timers": [record.text("name") for record in way.timers],
        "gave_up": [
            {"node": one.node, "cause": one.cause, "by": one.by or None} for one in way.gave_up
        ],
        "records": [_plain_record(record) for record in way.states],
    }
