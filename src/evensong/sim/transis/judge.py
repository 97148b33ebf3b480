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
            if sequence != expected:
                pairs = zip(sequence, expected, strict=False)
                at = next((n for n, (a, b) in enumerate(pairs) if a != b), -1)
                found.blame(
                    f"from {conf_id} to {next_id}: {one.name} and {first.name} order "
                    f"differently from place {at + 1} on",
                    (one.node, first.node),
                )
    return found


def causal_order(reading: Reading) -> Finding:
    """LC1: whatever its sender had delivered or sent before comes before a message.

    Within a view, BASIC messages apart. The past of a unit is a vector: how many units of each
    member of the view are in it.
    """
    found = Finding("LC1")
    pasts = _pasts(reading)
    for one in reading.lives:
        for _, rows in _rows_of_views(one):
            delivered: dict[UnitId, int] = {}  # by life: (sender, incarnation, 0)
            for row in rows:
                past = pasts.get(row.unit_id)
                if past is None or row.service is Service.BASIC:
                    continue
                found.checked += 1
                late = [name for name, count in past.items() if delivered.get(name, 0) < count]
                if late:
                    found.blame(
                        f"{one.name} delivers {row.unit_id} before something of "
                        f"{late[0].sender} that its sender had seen",
                        (one.node,),
                        (row.unit_id,),
                    )
                name = row.unit_id._replace(origin_no=0)
                delivered[name] = delivered.get(name, 0) + 1
    return found


def _pasts(reading: Reading) -> dict[UnitId, dict[UnitId, int]]:
    """Return for each unit but BASIC ones how many of each life's are in its past, in its view."""
    sends = [(send.t_us, one, send) for one in reading.lives for send in one.life.sends]
    sends.sort(key=lambda item: item[0])
    pasts: dict[UnitId, dict[UnitId, int]] = {}
    # For each life: the view, how many deliveries were taken in, what it has seen, what it sent.
    seen: dict[str, tuple[int, int, dict[UnitId, int]]] = {}
    for _, one, send in sends:
        conf_no, taken, past = seen.get(one.name, (-1, 0, {}))
        if conf_no != send.conf_no:
            span = one.spans[send.conf_no]
            conf_no, taken, past = send.conf_no, span.start, {}
        for row in one.life.deliveries[taken : send.pos]:
            if row.service is not Service.BASIC:
                _merge(past, pasts.get(row.unit_id, {}), row.unit_id)
        if send.service is not Service.BASIC and send.unit_id not in pasts:
            pasts[send.unit_id] = dict(past)
            _merge(past, {}, send.unit_id)
        seen[one.name] = (conf_no, max(taken, send.pos), past)
    return pasts


def _merge(into: dict[UnitId, int], past: dict[UnitId, int], unit_id: UnitId) -> None:
    for name, count in past.items():
        if into.get(name, 0) < count:
            into[name] = count
    name = unit_id._replace(origin_no=0)
    into[name] = max(into.get(name, 0), past.get(name, 0) + 1)


def agreed_order(reading: Reading) -> Finding:
    """LA1: in a view all order alike what the votes decide, also those who part later.

    What is left when a view ends (`after_gap`) is ordered by those who go on together: LV2.
    """
    found = Finding("LA1")
    orders: dict[RingId, tuple[LifeReading, list[UnitId]]] = {}
    for one in reading.lives:
        for conf_id, rows in _rows_of_views(one):
            order = [row.unit_id for row in rows if row.service in ORDERED and not row.after_gap]
            if not order:
                continue
            found.checked += len(order)
            who, longest = orders.setdefault(conf_id, (one, order))
            shared = min(len(order), len(longest))
            if order[:shared] != longest[:shared]:
                at = next(n for n in range(shared) if order[n] != longest[n])
                found.blame(
                    f"in {conf_id} {one.name} has {order[at]} at place {at + 1} and "
                    f"{who.name} {longest[at]}",
                    (one.node, who.node),
                    (order[at], longest[at]),
                )
            elif len(order) > len(longest):
                orders[conf_id] = (one, order)
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
            if any(com.ended in CUT for com in coms):
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
            sent = {sending.unit for sending in com.sendings}
            span = com.regular
            assert span is not None
            if not sent or (span.next_id is None and com.ended != "quiesce"):
                continue
            for other in coms:
                assert other.regular is not None
                if other.regular.next_id != span.next_id or other.ended not in (None, "quiesce"):
                    continue
                found.checked += len(sent)
                missing = sent - other.unit_set
                if missing:
                    first = ids[min(missing)]
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
        found.checked += len(lives)
        starts = [(one.life.events[0].t_us, one.life.incarnation, one) for one in lives]
        starts.sort(key=lambda start: start[0])
        for (_, earlier, _), (_, later, one) in pairwise(starts):
            if later <= earlier:
                found.blame(f"{one.name} begins after incarnation {earlier}", (one.node,))
    for one, send in reading.sent_twice:
        found.blame(f"{one.name} sends {send.unit_id} again", (one.node,), (send.unit_id,))
    return found


def settled(reading: Reading) -> Finding:
    """LM3: after the last disturbance everybody is in its final view within the bound told."""
    found = Finding("LM3")
    limits = reading.limits
    if limits.settle_us is None:
        return found
    for one in reading.lives:
        if one.life.ended != "quiesce":
            continue
        found.checked += 1
        installed_us = max(event.t_us for event in one.life.events if event.conf is not None)
        if installed_us - limits.last_us > limits.settle_us:
            found.blame(
                f"{one.name} installs its final {one.last_conf_id} "
                f"{installed_us - limits.last_us} us after the last disturbance, "
                f"{limits.settle_us} are allowed",
                (one.node,),
            )
    return found


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
