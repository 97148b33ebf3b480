"""What Transis promises, judged on what every processor observably did.

Order and sets are judged by origin identity; the protocol's own places are not looked at. What
extended virtual synchrony and Transis have in common is judged by the same functions (EVS1 to EVS3,
TR2, TR3, LV-1). EVS6 and EVS7 are not promised across partitions; see docs/guarantees.md.

A BASIC message is delivered when it first comes, by whoever gets it: it is no part of what members
have in common when they go on together (LV1), nor of the causal order (LC1).

A view ends in a transitional configuration of those who go on together. Order and causes are asked
of both as one; what is safe in the view is safe for all its members.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId, RingId
from evensong.core.transis.dag import ORDERED
from evensong.core.unit import UnitId
from evensong.sim.evs import basics, membership, sets, walk
from evensong.sim.evs.reading import Com, LifeReading, Reading, Span
from evensong.sim.evs.verdict import Finding, Verdicts
from evensong.sim.history import CUT, Delivery, History, LifeId

GONE: Final = ("fail", "stop")
AGREE: Final = "agree"  # the state in which a view is left for another


def _rows(one: LifeReading, span: Span) -> list[Delivery]:
    return one.life.deliveries[span.start : span.stop]


def _rows_of_views(one: LifeReading) -> list[tuple[RingId, list[Delivery]]]:
    """Return what a life delivered in each view, with the transitional configuration behind it."""
    return [
        (conf_id, [row for span in com.spans for row in _rows(one, span)])
        for conf_id, com in one.coms.items()
    ]


def _passages(reading: Reading) -> dict[tuple[RingId, RingId], list[tuple[LifeReading, Span]]]:
    """Return who went from which configuration to which."""
    found: dict[tuple[RingId, RingId], list[tuple[LifeReading, Span]]] = {}
    for one in reading.lives:
        for span in one.spans:
            if span.next_id is not None:
                found.setdefault((span.conf.conf_id, span.next_id), []).append((one, span))
    return found


def same_set(reading: Reading) -> Finding:
    """LV1: who goes on together delivered the same in each configuration, BASIC apart."""
    found = Finding("LV1")
    for (conf_id, next_id), company in _passages(reading).items():
        sets_ = [
            {row.unit_id for row in _rows(one, span) if row.service is not Service.BASIC}
            for one, span in company
        ]
        found.checked += len(company) - 1
        for (one, _), units in zip(company[1:], sets_[1:], strict=True):
            if units != sets_[0]:
                first = company[0][0]
                differ = tuple(sorted(units ^ sets_[0])[:4])
                found.blame(
                    f"from {conf_id} to {next_id}: {one.name} and {first.name} differ in "
                    f"{', '.join(map(str, differ))}",
                    (one.node, first.node),
                    differ,
                )
    return found


def _sequence(one: LifeReading, span: Span) -> list[UnitId]:
    return [row.unit_id for row in _rows(one, span) if row.service in ORDERED]


def same_sequence(reading: Reading) -> Finding:
    """LV2: and ordered messages in the same sequence."""
    found = Finding("LV2")
    for (conf_id, next_id), company in _passages(reading).items():
        first, first_span = company[0]
        expected = _sequence(first, first_span)
        for one, span in company[1:]:
            found.checked += 1
            sequence = _sequence(one, span)
            at = _first_difference(sequence, expected)
            if at is not None:
                units = tuple(dict.fromkeys((*sequence[at : at + 1], *expected[at : at + 1])))
                found.blame(
                    f"from {conf_id} to {next_id}: {one.name} and {first.name} order "
                    f"differently from place {at + 1} on",
                    (one.node, first.node),
                    units,
                )
    return found


def _first_difference(one: list[UnitId], other: list[UnitId]) -> int | None:
    """Return where two orders part: where one of them ends, if nowhere before; None if equal."""
    if one == other:
        return None
    pairs = zip(one, other, strict=False)
    shared = min(len(one), len(other))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), shared)


def causal_order(reading: Reading) -> Finding:
    """LC1: whatever its sender had delivered or sent before comes before a message.

    Within a view, BASIC messages apart. A message is asked for what its sender delivered since the
    message before, and for that one: what is further back is before that one already.
    """
    found = Finding("LC1")
    causes = _causes(reading)
    for one in reading.lives:
        for conf_id, rows in _rows_of_views(one):
            place: dict[UnitId, int] = {}
            for at, row in enumerate(rows):
                if row.service is not Service.BASIC:
                    place.setdefault(row.unit_id, at)
            for unit_id, at in place.items():
                asked = causes.get((conf_id, unit_id))
                if asked is None:
                    continue  # it was not sent here, or nobody knows
                found.checked += 1
                late = [cause for cause in asked if place.get(cause, at) >= at]
                if late:
                    first = min(late)
                    found.blame(
                        f"{one.name} delivers {unit_id} in {conf_id} without {first} before it, "
                        "which its sender had delivered or sent",
                        (one.node,),
                        (unit_id, first),
                    )
    return found


def _causes(reading: Reading) -> dict[tuple[RingId, UnitId], list[UnitId]]:
    """Return for each view and unit sent in it, BASIC ones apart, what directly caused it.

    No times are compared: what a life had delivered when it sent is told by positions.
    """
    causes: dict[tuple[RingId, UnitId], list[UnitId]] = {}
    units = reading.units
    for one in reading.lives:
        for conf_id, com in one.coms.items():
            heard = [
                (at, one.life.deliveries[at])
                for span in com.spans
                for at in range(span.start, span.stop)
            ]
            taken, before = 0, None
            for sending in com.sendings:
                if units.services[sending.unit] is Service.BASIC:
                    continue
                asked = [] if before is None else [before]
                while taken < len(heard) and heard[taken][0] < sending.before:
                    row = heard[taken][1]
                    is_own = row.unit_id[:2] == (one.node, one.life.incarnation)
                    if row.service is not Service.BASIC and not is_own:
                        asked.append(row.unit_id)
                    taken += 1
                before = units.ids[sending.unit]
                causes.setdefault((conf_id, before), asked)
    return causes


def agreed_order(reading: Reading) -> Finding:
    """LA1: in a view all order alike what the votes decide, also those who part later.

    What is left when a view ends (`after_gap`) is ordered by those who go on together: LV2.
    """
    found = Finding("LA1")
    orders: dict[RingId, list[tuple[LifeReading, list[UnitId]]]] = {}
    for one in reading.lives:
        for conf_id, rows in _rows_of_views(one):
            order = [row.unit_id for row in rows if row.service in ORDERED and not row.after_gap]
            if order:
                found.checked += len(order)
                orders.setdefault(conf_id, []).append((one, order))
    for conf_id, company in orders.items():
        who, longest = max(company, key=lambda pair: len(pair[1]))
        for one, order in company:
            at = _first_difference(order, longest[: len(order)])
            if at is not None:
                found.blame(
                    f"in {conf_id} {one.name} has {order[at]} at place {at + 1} and "
                    f"{who.name} {longest[at]}",
                    (one.node, who.node),
                    (order[at], longest[at]),
                )
    return found


def _coms_of(reading: Reading, conf_id: RingId, node: ProcessorId) -> list[Com]:
    return [com for com in reading.coms.get(conf_id, ()) if com.life.node == node]


def safe_delivery(reading: Reading) -> Finding:
    """LS1: what is safe in a view, not only behind it, every member of it delivers, or fails."""
    found = Finding("LS1")
    safe: dict[RingId, tuple[tuple[ProcessorId, ...], set[UnitId]]] = {}
    for one in reading.lives:
        for span in one.spans:
            if span.conf.transitional:
                continue
            _, units = safe.setdefault(span.conf.conf_id, (span.conf.members, set()))
            units.update(row.unit_id for row in _rows(one, span) if row.service is Service.SAFE)
    ids = reading.units.ids
    for conf_id, (members, units) in safe.items():
        for node in members:
            found.checked += len(units)
            coms = _coms_of(reading, conf_id, node)
            missing = units.difference(*({ids[unit] for unit in com.units} for com in coms))
            if not missing or any(com.ended in GONE for com in coms):
                continue
            if any(com.ended in CUT for com in coms) or (
                not coms and reading.may_have_installed(node, conf_id)
            ):
                found.unknown += len(missing)
                continue
            first = min(missing)
            found.blame(
                f"{first} was safe in {conf_id}, and p{node} does not deliver it there",
                (node,),
                (first,),
            )
    return found


def basic_delivery(reading: Reading) -> Finding:
    """LB1: a message comes to all who stay in its view or leave it together with its sender.

    That it comes once is EVS1.4. This is asked of every service: BASIC is the least of them.
    """
    found = Finding("LB1")
    ids = reading.units.ids
    for conf_id, coms in reading.coms.items():
        for com in coms:
            sent = {ids[sending.unit] for sending in com.sendings}
            span = com.regular
            assert span is not None
            if not sent or (span.next_id is None and com.ended != "quiesce"):
                continue
            for other in coms:
                assert other.regular is not None
                if other.regular.next_id != span.next_id or other.ended not in (None, "quiesce"):
                    continue
                found.checked += len(sent)
                missing = sent.difference(ids[unit] for unit in other.units)
                if missing:
                    first = min(missing)
                    found.blame(
                        f"{com.life.name} sent {first} in {conf_id}, and {other.life.name}, "
                        "which stayed with it, does not deliver it",
                        (com.life.node, other.life.node),
                        (first,),
                    )
    return found


def views(reading: Reading) -> Finding:
    """LM1: a view id is one set of members, with oneself; the views of one processor rise."""
    found = membership.uniqueness(reading)
    named = Finding("LM1")
    named.checked = found.checked
    for violation in found.violations:
        named.blame(violation.text, violation.nodes)
    for lives in reading.by_node.values():
        before = 0
        for one in lives:
            for span in one.spans:
                if span.conf.conf_id.seq <= before or one.node not in span.conf.members:
                    named.blame(f"{one.name} installs {span.conf} after number {before}")
                before = span.conf.conf_id.seq
    return named


def identities(reading: Reading) -> Finding:
    """LM2: incarnations of a processor rise in time, and no name of a message is used twice."""
    found = Finding("LM2")
    for lives in reading.by_node.values():
        known = [one for one in lives if one.life.events]
        found.checked += len(known)
        starts = [(one.life.events[0].t_us, one.life.incarnation, one) for one in known]
        starts.sort(key=lambda start: start[0])
        for (_, earlier, _), (_, later, one) in pairwise(starts):
            if later <= earlier:
                found.blame(f"{one.name} begins after incarnation {earlier}", (one.node,))
    found.violations.extend(names_used_twice(reading).violations)
    return found


def names_used_twice(reading: Reading) -> Finding:
    """LM2, as far as it is about messages."""
    found = Finding("LM2")
    for one, send in reading.sent_twice:
        found.blame(f"{one.name} sends {send.unit_id} again", (one.node,), (send.unit_id,))
    return found


def settled(reading: Reading) -> Finding:
    """LM3: after the last disturbance everybody is in its final view within the bound told.

    Who sees the end of the run while it agrees on another view is late if the time is over, and
    unknown if it is not; so is who has no end.
    """
    found = Finding("LM3")
    limits = reading.limits
    if limits.settle_us is None:
        return found
    for one in reading.lives:
        if not one.spans or one.life.ended not in ("quiesce", ""):
            continue
        if not one.life.ended:
            found.unknown += 1  # it may have gone on
            continue
        found.checked += 1
        installed_us, is_settled = _final_view(one)
        took = (installed_us if is_settled else one.life.events[-1].t_us) - limits.last_us
        if took > limits.settle_us:
            final = f"installs its final {one.last_conf_id}" if is_settled else "has not settled"
            found.blame(
                f"{one.name} {final} {took} us after the last disturbance, "
                f"{limits.settle_us} are allowed",
                (one.node,),
            )
        elif not is_settled:
            found.unknown += 1
    return found


def _final_view(one: LifeReading) -> tuple[int, bool]:
    """Return when a life installed its last configuration, and whether it meant to stay there."""
    installed_us = 0
    is_settled = False
    for event in one.life.events:
        if event.conf is not None:
            installed_us = event.t_us
            is_settled = not event.conf.transitional
        elif event.etype == "state":
            is_settled = dict(event.aux).get("state") != AGREE
    return installed_us, is_settled


def window(reading: Reading) -> Finding:
    """LW1: no more is unacknowledged at once than flow control allows."""
    found = Finding("LW1")
    for one in reading.lives:
        for event in one.life.events:
            if event.etype != "window":
                continue
            found.checked += 1
            told = dict(event.aux)
            if int(told["window"]) > int(told["bound"]):
                found.blame(
                    f"{one.name} has {told['window']} unacknowledged messages in {told['view']}, "
                    f"{told['bound']} are allowed",
                    (one.node,),
                )
    return found


PROPERTIES: Final[dict[str, Callable[[Reading], Finding]]] = {
    "EVS1.1": walk.partial_order,
    "EVS1.2": basics.process_order,
    "EVS1.3": basics.sent_before,
    "EVS1.4": basics.sent_once,
    "EVS2.1": basics.stays_together,
    "EVS2.2": basics.inside_span,
    "EVS3": sets.self_delivery,
    "TR2": sets.in_its_configuration,
    "TR3": sets.all_delivered,
    "LV-1": sets.submitted_delivered,
    "LV1": same_set,
    "LV2": same_sequence,
    "LC1": causal_order,
    "LA1": agreed_order,
    "LS1": safe_delivery,
    "LB1": basic_delivery,
    "LM1": views,
    "LM2": identities,
    "LM3": settled,
    "LW1": window,
}


def check(history: History, submitted: Mapping[LifeId, int] | None = None) -> Verdicts:
    """Judge a run; `submitted` is what each life was handed over, by default as its end tells."""
    reading = Reading(history, submitted)
    return Verdicts([judge(reading) for judge in PROPERTIES.values()])
