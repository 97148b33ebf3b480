"""EVS1.2 to EVS2.2: events, sends and deliveries stand where they belong."""

from itertools import pairwise
from typing import Final

from evensong.sim.evs.reading import LifeReading, Reading, Span
from evensong.sim.evs.verdict import Finding
from evensong.sim.history import Delivery

UNKNOWN: Final = "unknown"


def process_order(reading: Reading) -> Finding:
    """EVS1.2: the events of a process are totally ordered; so are its incarnations."""
    found = Finding("EVS1.2")
    for one in reading.lives:
        life = one.life
        tables = (
            ("sends", [(row.pos, row.t_us) for row in life.sends]),
            ("events", [(event.pos, event.t_us) for event in life.events]),
        )
        for table, places in tables:
            found.checked += len(places)
            for before, after in pairwise(places):
                if after[0] < before[0] or after[1] < before[1]:
                    found.blame(f"{one.name} {table}: {after} follows {before}", (one.node,))
            if places and not 0 <= places[-1][0] <= len(life.deliveries):
                found.blame(f"{one.name} {table}: pos {places[-1][0]} beyond the end", (one.node,))
        times = [row.t_us for row in life.deliveries]
        found.checked += len(times)
        if times != sorted(times):
            found.blame(f"{one.name} deliveries: time runs backwards", (one.node,))
    for lives in reading.by_node.values():
        for one in lives[:-1]:
            found.checked += 1
            if one.life.ended == "quiesce":
                found.blame(f"{one.name} saw the end of the run and lived again", (one.node,))
    return found


def sent_before(reading: Reading) -> Finding:
    """EVS1.3: what is delivered was sent, with this content, in the same regular configuration.

    That the send came first is EVS1.1's cycle test; times of two hosts are not compared.
    """
    found = Finding("EVS1.3")
    found.checked = reading.n_deliveries
    units = reading.units
    for one in reading.lives:
        deliveries = one.life.deliveries
        if max(one.units, default=-1) < reading.n_sent_units:
            sizes = [units.sizes[unit] for unit in one.units]
            services = [units.services[unit] for unit in one.units]
            if [d.size for d in deliveries] == sizes and [
                d.service for d in deliveries
            ] == services:
                continue
        for unit, delivery in zip(one.units, deliveries, strict=True):
            complaint = _content_complaint(reading, unit, delivery)
            if complaint == UNKNOWN:
                found.unknown += 1
            elif complaint:
                found.blame(
                    f"{one.name} delivers {delivery.unit_id}, {complaint}",
                    (one.node,),
                    (delivery.unit_id,),
                )
    for one, span, unit in reading.misplaced:
        found.blame(
            f"{one.name} delivers {reading.name(unit)} in {span.conf.conf_id}, "
            f"sent in {reading.sent_in(unit)}",
            (one.node,),
            (units.ids[unit],),
        )
    return found


def _content_complaint(reading: Reading, unit: int, delivery: Delivery) -> str:
    send = reading.units.sends[unit]
    unit_id = delivery.unit_id
    if send is not None:
        if delivery.size != send.size:
            return f"{delivery.size} bytes, of which {send.size} were sent"
        if delivery.service is not send.service:
            return f"as {delivery.service.name}, sent as {send.service.name}"
        return ""
    if unit_id in reading.sent_ids:
        return "whose content is not what was sent"
    if (unit_id.sender, unit_id.incarnation) not in reading.by_life:
        return "whose sender never lived"
    if reading.may_have_sent(unit_id):
        return UNKNOWN
    return "which nobody sent"


def sent_once(reading: Reading) -> Finding:
    """EVS1.4: one send a unit, by its own sender, in a regular configuration; delivered once."""
    found = Finding("EVS1.4")
    found.checked = reading.n_sends + reading.n_deliveries
    for one, send in reading.sent_twice:
        found.blame(f"{one.name} sends {send.unit_id} again", (one.node,), (send.unit_id,))
    for one in reading.lives:
        own = (one.node, one.life.incarnation)
        for send in one.life.sends:
            span = one.span_of_send(send)
            if span is not None and span.conf.transitional:
                found.blame(
                    f"{one.name} sends {send.unit_id} in transitional {span.conf.conf_id}",
                    (one.node,),
                    (send.unit_id,),
                )
            if send.unit_id[:2] != own:
                found.blame(
                    f"{one.name} sends {send.unit_id}, which is not its own",
                    (one.node,),
                    (send.unit_id,),
                )
        if one.has_duplicates:
            seen: set[int] = set()
            for unit in one.units:
                if unit in seen:
                    unit_id = reading.units.ids[unit]
                    found.blame(f"{one.name} delivers {unit_id} again", (one.node,), (unit_id,))
                seen.add(unit)
    return found


def stays_together(reading: Reading) -> Finding:
    """EVS2.1: who stays in c to the end stays with all of c's members, none of them failed."""
    found = Finding("EVS2.1")
    for lives in reading.by_node.values():
        one = lives[-1]
        if one.life.ended not in ("quiesce", "") or not one.spans:
            continue
        conf = one.spans[-1].conf
        for node in conf.members:
            found.checked += 1
            other = reading.by_node[node][-1] if node in reading.by_node else None
            is_open = not one.life.ended or (other is not None and not other.life.ended)
            if is_open or (
                other is not None
                and not other.spans  # so it may have come before the lost recording
                and reading.may_have_installed(node, conf.conf_id)
            ):
                found.unknown += 1
            elif other is None:
                found.blame(
                    f"{one.name} stays in {conf.conf_id} with p{node}, which never lived",
                    (one.node, node),
                )
            elif other.last_conf_id != conf.conf_id or other.life.ended != "quiesce":
                found.blame(
                    f"{one.name} stays in {conf.conf_id} with {other.name}, "
                    f"which ended in {other.last_conf_id} by {other.life.ended}",
                    (one.node, node),
                )
    return found


def inside_span(reading: Reading) -> Finding:
    """EVS2.2: every event lies in the configuration it says it belongs to."""
    found = Finding("EVS2.2")
    for one in reading.lives:
        life = one.life
        found.checked += len(life.deliveries) + len(life.sends) + len(life.events)
        said = [row.conf_no for row in life.deliveries]
        is_in: list[int] = [-1] * (one.spans[0].start if one.spans else len(said))
        for number, span in enumerate(one.spans):
            is_in += [number] * (span.stop - span.start)
        if said != is_in:
            for row, here in zip(life.deliveries, is_in, strict=False):
                if row.conf_no != here:
                    found.blame(
                        f"{one.name} delivers {row.unit_id} for {_conf_name(one, row.conf_no)} "
                        f"while in {_conf_name(one, here)}",
                        (one.node,),
                        (row.unit_id,),
                    )
        elif -1 in is_in:
            found.blame(f"{one.name} delivers before any configuration", (one.node,))
        _judge_sends(one, found)
        installed = -1
        for event in life.events:
            installed += event.etype == "conf"
            if event.conf_no != installed:
                found.blame(
                    f"{one.name} has {event.etype} for {_conf_name(one, event.conf_no)} "
                    f"while in {_conf_name(one, installed)}",
                    (one.node,),
                )
    return found


def _judge_sends(one: LifeReading, found: Finding) -> None:
    latest = 0
    for send in one.life.sends:
        span: Span | None = one.span_of_send(send)
        recorded = one.spans[send.conf_no] if 0 <= send.conf_no < len(one.spans) else None
        if span is None or span is not recorded or send.conf_no < latest:
            found.blame(
                f"{one.name} sends {send.unit_id} for {_conf_name(one, send.conf_no)} "
                f"while in {span.conf.conf_id if span else 'no configuration'}",
                (one.node,),
                (send.unit_id,),
            )
        elif send.ring_id != span.regular_id:
            found.blame(
                f"{one.name} sends {send.unit_id} on ring {send.ring_id} in {span.conf.conf_id}",
                (one.node,),
                (send.unit_id,),
            )
        latest = max(latest, send.conf_no)


def _conf_name(one: LifeReading, number: int) -> str:
    if 0 <= number < len(one.spans):
        return str(one.spans[number].conf.conf_id)
    return "no configuration of its own"
