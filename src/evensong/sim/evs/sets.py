"""EVS3, EVS4, EVS7, TF3, TR2, TR3 and LV-1: who must have delivered what."""

from evensong.core.ids import ProcessorId, RingId
from evensong.core.unit import UnitId
from evensong.sim.evs.reading import Com, LifeReading, Reading
from evensong.sim.evs.verdict import Finding
from evensong.sim.history import CUT


def self_delivery(reading: Reading) -> Finding:
    """EVS3: a sender delivers what it sent in c, in com(c), unless it failed there.

    Of sends, not of submits. Who left in good order counts as failed.
    """
    found = Finding("EVS3")
    for one in reading.lives:
        for com in one.coms.values():
            missing = {sending.unit for sending in com.sendings} - com.unit_set
            if com.ended in ("fail", "stop"):
                continue
            found.checked += len(com.sendings)
            if com.ended in CUT:
                found.unknown += len(missing)
                continue
            for unit in sorted(missing):
                unit_id = reading.units.ids[unit]
                found.blame(
                    f"{one.name} sends {unit_id} in {com.spans[0].regular_id} "
                    "and does not deliver it there",
                    (one.node,),
                    (unit_id,),
                )
    return found


def failure_atomicity(reading: Reading) -> Finding:
    """EVS4: who goes from c directly to the same next configuration delivered the same set in c."""
    found = Finding("EVS4")
    first: dict[tuple[RingId, RingId], tuple[str, ProcessorId, list[int]]] = {}
    for one in reading.lives:
        for span in one.spans:
            if span.next_id is None:
                continue
            units = one.units[span.start : span.stop]
            key = (span.conf.conf_id, span.next_id)
            if key not in first:
                first[key] = (one.name, one.node, units)
                continue
            found.checked += 1
            name, node, others = first[key]
            if units != others and set(units) != set(others):
                ids = reading.units.ids
                here = sorted(ids[unit] for unit in set(units) - set(others))
                there = sorted(ids[unit] for unit in set(others) - set(units))
                found.blame(
                    f"from {span.conf.conf_id} to {span.next_id}: only {one.name} delivers "
                    f"{_listed(here)}, only {name} delivers {_listed(there)}",
                    (one.node, node),
                    (*here, *there),
                )
    return found


def _listed(ids: list[UnitId]) -> str:
    shown = ", ".join(map(str, ids[:4])) or "nothing"
    return f"{shown} and {len(ids) - 4} more" if len(ids) > 4 else shown


def safe_delivery(reading: Reading) -> Finding:
    """EVS7.1: what is delivered as safe in c, every member of c delivers in com(c), or it fails.

    A member that leaves in good order counts as failed. One whose recording stops in com(c) leaves
    the question open.
    """
    found = Finding("EVS7.1")
    for (conf_id, regular_id, members), safe in reading.safe_units.items():
        for node in members:
            found.checked += len(safe)
            coms = [com for com in reading.coms.get(regular_id, ()) if com.life.node == node]
            missing = safe.difference(*(com.unit_set for com in coms))
            if not missing or any(com.ended in ("fail", "stop") for com in coms):
                continue
            if any(com.ended in CUT for com in coms) or (
                not coms and reading.may_have_installed(node, regular_id)
            ):
                found.unknown += len(missing)
                continue
            for unit in sorted(missing):
                unit_id = reading.units.ids[unit]
                found.blame(
                    f"{unit_id} was delivered as safe in {conf_id}, "
                    f"and p{node} does not deliver it there",
                    (node,),
                    (unit_id,),
                )
    return found


def safe_after_all_installed(reading: Reading) -> Finding:
    """EVS7.2: a safe unit delivered in a regular c means that all members installed c."""
    found = Finding("EVS7.2")
    for conf_id, regular_id, members in reading.safe_units:
        if conf_id != regular_id:
            continue
        installed = {com.life.node for com in reading.coms.get(conf_id, ())}
        for node in members:
            found.checked += 1
            if node in installed:
                continue
            if reading.may_have_installed(node, conf_id):
                found.unknown += 1
            else:
                found.blame(
                    f"a safe unit was delivered in {conf_id}, which p{node} never installed",
                    (node,),
                )
    return found


def stable_line(reading: Reading) -> Finding:
    """TF3: what a life is told that everybody has, every member delivers in com(c), or it fails.

    Whether they had it at that time only who sees their buffers can say (invariant I5 of the
    simulator). But who has a unit delivers it; so who does not deliver it did not have it.
    """
    found = Finding("TF3")
    units = reading.units
    for conf_id, reference in reading.references.items():
        coms = reference.coms
        line, teller = max(((_line(com), com.life.name) for com in coms), key=lambda told: told[0])
        orders = [reference.longest.units, *(com.units for com in reference.others)]
        told = {
            unit
            for order in orders
            for unit in order
            if units.seqs[unit] <= line and units.ring_ids[unit] == conf_id
        }
        regular = coms[0].regular
        if not told or regular is None:
            continue
        for node in regular.conf.members:
            found.checked += 1
            own = [com for com in coms if com.life.node == node]
            missing = told.difference(*(com.unit_set for com in own))
            if not missing or any(com.ended in ("fail", "stop") for com in own):
                continue
            if any(com.ended in CUT for com in own) or (
                not own and reading.may_have_installed(node, conf_id)
            ):
                found.unknown += 1
                continue
            first = units.ids[min(missing, key=lambda unit: units.seqs[unit])]
            found.blame(
                f"{teller} is told that everybody in {conf_id} has all up to {line}, "
                f"and p{node} does not deliver {first} there",
                (node,),
                (first,),
            )
    return found


def _line(com: Com) -> int:
    """Return the greatest safe line that a life was told in com(c)."""
    rows = com.life.life.deliveries
    return max((d.safe_line for s in com.spans for d in rows[s.start : s.stop]), default=0)


def in_its_configuration(reading: Reading) -> Finding:
    """TR2: a unit is delivered in the configuration c it was sent in, or in its transitional."""
    found = Finding("TR2")
    known = reading.n_sent_units
    found.checked = sum(
        len(one.units)
        if max(one.units, default=-1) < known
        else sum(unit < known for unit in one.units)
        for one in reading.lives
    )
    found.unknown = reading.n_sent_in_a_lost_tail
    for one, span, unit in reading.misplaced:
        unit_id = reading.units.ids[unit]
        found.blame(
            f"{one.name} delivers {unit_id} of {reading.sent_in(unit)} in {span.conf.conf_id}",
            (one.node,),
            (unit_id,),
        )
    return found


def _final_coms(reading: Reading) -> list[tuple[RingId, list[Com]]]:
    """Return the configurations in which all members were when the run ended or was cut off."""
    final = []
    for conf_id, coms in reading.coms.items():
        regular = coms[0].regular
        assert regular is not None
        stayed = [
            com for com in coms if com.life.last_conf_id == conf_id and com.ended in ("quiesce", "")
        ]
        if {com.life.node for com in stayed} == set(regular.conf.members):
            final.append((conf_id, stayed))
    return final


def all_delivered(reading: Reading) -> Finding:
    """TR3: in a configuration that no change ends, every member delivers every unit sent."""
    found = Finding("TR3")
    for conf_id, coms in _final_coms(reading):
        sent = {sending.unit for com in coms for sending in com.sendings}
        is_open = any(not com.life.life.ended for com in coms)
        for com in coms:
            found.checked += len(sent)
            missing = sent - com.unit_set
            if is_open:
                found.unknown += len(missing)
                continue
            for unit in sorted(missing):
                unit_id = reading.units.ids[unit]
                found.blame(
                    f"{com.life.name} stays in {conf_id} and does not deliver {unit_id} sent in it",
                    (com.life.node,),
                    (unit_id,),
                )
    return found


def submitted_delivered(reading: Reading) -> Finding:
    """LV-1: what a process alive at quiesce submitted is delivered, by itself and with its members.

    A unit sent in an earlier configuration cannot be owed by members that joined later; of those
    who were there, EVS4 and EVS7 say what they owe. So the members of the final configuration owe
    what was sent in it, and the sender owes all.
    """
    found = Finding("LV-1")
    ids = reading.units.ids
    for one in reading.lives:
        own = (one.node, one.life.incarnation)
        if not one.life.ended and own not in reading.submitted:
            found.unknown += 1  # its end would have told
            continue
        count = reading.submitted.get(own, 0)
        if not count or one.life.ended in ("fail", "stop", "lost"):
            continue
        found.checked += count
        delivered = {ids[unit].origin_no for unit in one.units if ids[unit][:2] == own}
        if not one.life.ended:
            found.unknown += max(0, count - len(delivered))
            continue
        if len(delivered) < count:
            found.blame(
                f"{one.name} submitted {count} units and delivered {len(delivered)} of them",
                (one.node,),
            )
        owed_by_members(reading, one, found)
    return found


def owed_by_members(reading: Reading, one: LifeReading, found: Finding) -> None:
    """Ask the members of a life's final configuration for what it sent there."""
    ids = reading.units.ids
    final = one.last_conf_id
    if final is None or final not in one.coms:
        return
    sent = {sending.unit for sending in one.coms[final].sendings}
    for com in reading.coms.get(final, ()):
        if com.life is one or com.life.life.ended != "quiesce":
            continue
        found.checked += len(sent)
        for unit in sorted(sent - com.unit_set):
            found.blame(
                f"{one.name} sent {ids[unit]} in its final {final}, "
                f"and {com.life.name} does not deliver it",
                (one.node, com.life.node),
                (ids[unit],),
            )
