"""EVS5, EVS6, TG and FIFO: in which order things were delivered.

All but EVS6.1 and EVS6.2 are asked of origin identities alone. Those two ask whether the protocol's
own numbering (ring_id, seq) is one: they come in addition and never instead.
"""

from bisect import bisect_right
from itertools import pairwise
from operator import lt
from typing import Final

from evensong.core.ids import RingId
from evensong.sim.evs.reading import Com, LifeReading, Reading, Reference
from evensong.sim.evs.verdict import Finding

UNDELIVERED: Final = 1 << 62  # a place after every other


def causal_order(reading: Reading) -> Finding:
    """EVS5: who delivers m' delivers, before it and in com(c), all of c that m' could depend on.

    The direct causes of a send by q are q's own sends and deliveries in c before it. All others
    follow from them, so it is enough to look at q's previous send and at what q delivered between
    the two: linear in the deliveries, for each order that is looked at.
    """
    found = Finding("EVS5")
    for reference in reading.references.values():
        senders = [com for com in reference.coms if com.sendings]
        if not senders:
            continue
        lengths = sorted(len(com.units) for com in reference.followers)
        order = reference.longest.units
        for sender in senders:
            in_step = sender.in_regular == order[: len(sender.in_regular)]
            _judge_causes(reading, found, sender, reference.longest, lengths, in_step=in_step)
            for other in reference.others:
                _judge_causes(reading, found, sender, other, [len(other.units)], in_step=False)
    return found


def _judge_causes(
    reading: Reading,
    found: Finding,
    sender: Com,
    at_whom: Com,
    lengths: list[int],
    *,
    in_step: bool,
) -> None:
    """Look at the sends of one life in the order of another, which `lengths` are prefixes of.

    `in_step`: the sender's deliveries follow the same order, so the number of them before a send is
    the place of the latest.
    """
    place = at_whom.place.get
    assert sender.regular is not None
    start = sender.regular.start
    delivered = sender.life.units
    previous, covered = -1, start
    for unit, before in sender.sendings:
        at = place(unit, UNDELIVERED)
        if at != UNDELIVERED and (previous >= 0 or before > start):
            found.checked += len(lengths) - bisect_right(lengths, at)
            cause = -1
            if previous >= 0 and place(previous, UNDELIVERED) >= at:
                cause = previous
            elif in_step:
                if before - start - 1 > at:
                    cause = delivered[before - 1]
            else:
                for earlier in delivered[covered:before]:
                    if earlier != unit and place(earlier, UNDELIVERED) >= at:
                        cause = earlier
                        break
            if cause >= 0 and cause != unit:
                found.blame(
                    f"{at_whom.life.name} delivers {reading.name(unit)} and not before it "
                    f"{reading.name(cause)}, which {sender.life.name} had when sending it",
                    (at_whom.life.node, sender.life.node),
                    (reading.units.ids[cause], reading.units.ids[unit]),
                )
        previous, covered = unit, before


def numbering(reading: Reading) -> Finding:
    """EVS6.1: the protocol's numbers rise with the order of events at every process."""
    found = Finding("EVS6.1")
    for one in reading.lives:
        deliveries = one.life.deliveries
        keys = [(row.ring_id, row.seq) for row in deliveries]
        found.checked += len(keys)
        if not all(map(lt, keys, keys[1:])):
            for at in range(1, len(keys)):
                if keys[at] <= keys[at - 1]:
                    before, after = deliveries[at - 1].unit_id, deliveries[at].unit_id
                    found.blame(
                        f"{one.name} delivers {after} as {_key(keys[at])} "
                        f"after {before} as {_key(keys[at - 1])}",
                        (one.node,),
                        (before, after),
                    )
        for send in one.life.sends:
            found.checked += 1
            if 0 < send.pos <= len(keys) and (send.ring_id, send.seq) <= keys[send.pos - 1]:
                found.blame(
                    f"{one.name} sends {send.unit_id} as {_key((send.ring_id, send.seq))} "
                    f"after delivering {_key(keys[send.pos - 1])}",
                    (one.node,),
                    (send.unit_id,),
                )
    return found


def _key(key: tuple[RingId, int]) -> str:
    return f"{key[0]}#{key[1]}"


def same_number(reading: Reading) -> Finding:
    """EVS6.2: a unit has the same number everywhere, and no other unit has it."""
    found = Finding("EVS6.2")
    found.checked = reading.n_deliveries
    units = reading.units
    for one in reading.lives:
        deliveries = one.life.deliveries
        seqs = [units.seqs[unit] for unit in one.units]
        ring_ids = [units.ring_ids[unit] for unit in one.units]
        if [d.seq for d in deliveries] == seqs and [d.ring_id for d in deliveries] == ring_ids:
            continue
        for row, seq, ring_id in zip(deliveries, seqs, ring_ids, strict=True):
            if (row.seq, row.ring_id) != (seq, ring_id):
                found.blame(
                    f"{one.name} delivers {row.unit_id} as {_key((row.ring_id, row.seq))}, "
                    f"elsewhere it is {_key((ring_id, seq))}",
                    (one.node,),
                    (row.unit_id,),
                )
    holder: dict[tuple[RingId, int], int] = {}
    for unit, key in enumerate(zip(units.ring_ids, units.seqs, strict=True)):
        first = holder.setdefault(key, unit)
        if first != unit and units.ids[first] != units.ids[unit]:
            found.blame(
                f"{reading.name(first)} and {reading.name(unit)} are both {_key(key)}",
                (),
                (units.ids[first], units.ids[unit]),
            )
    return found


def no_holes(reading: Reading) -> Finding:
    """EVS6.3: who delivers m' in c' also delivers what somebody delivered before m'.

    Provided its sender is in c': a transitional c' asks only for units of its own members. Orders
    that are prefixes of one another cannot break this; each that differs is compared with all.
    """
    found = Finding("EVS6.3")
    for reference in reading.references.values():
        if sum(1 for com in reference.coms if com.units) < 2:
            continue
        found.checked += sum(max(0, len(com.units) - 1) for com in reference.coms)
        if reference.others:
            _compare_orders(reading, found, reference)
    return found


def _compare_orders(reading: Reading, found: Finding, reference: Reference) -> None:
    for late in reference.coms:
        for early in [reference.longest, *reference.others]:
            if early is not late and (late in reference.others or early is not reference.longest):
                _judge_holes(reading, found, early, late)


def _judge_holes(reading: Reading, found: Finding, early: Com, late: Com) -> None:
    """Blame `late` for the first unit it lacks of what `early` delivered before a common one."""
    units = reading.units
    judged = (
        (late.regular, set(late.in_regular)),
        (late.transitional, set(late.in_transitional)),
    )
    for span, delivered in judged:
        if span is None or not delivered:
            continue
        hole = -1
        for unit in early.units:
            if hole < 0:
                if unit not in late.unit_set and units.ids[unit].sender in span.conf.members:
                    hole = unit
            elif unit in delivered:
                found.blame(
                    f"{late.life.name} delivers {reading.name(unit)} in {span.conf.conf_id} "
                    f"without {reading.name(hole)}, which {early.life.name} delivered before it",
                    (late.life.node, early.life.node),
                    (units.ids[hole], units.ids[unit]),
                )
                break


def global_order(reading: Reading) -> Finding:
    """TG: all lives' orders fit into one: "directly before", over all of them, has no cycle."""
    found = Finding("TG")
    edges: set[tuple[int, int]] = set()
    for one in reading.lives:
        units = one.first_units
        found.checked += max(0, len(units) - 1)
        edges.update(pairwise(units))
    after: list[list[int]] = [[] for _ in range(len(reading.units))]
    n_before = [0] * len(reading.units)
    for earlier, later in edges:
        after[earlier].append(later)
        n_before[later] += 1
    ready = [unit for unit, count in enumerate(n_before) if not count]
    done = 0
    while ready:
        done += 1
        for later in after[ready.pop()]:
            n_before[later] -= 1
            if not n_before[later]:
                ready.append(later)
    if done < len(reading.units):
        cycle = _shortest_cycle(after, [unit for unit, count in enumerate(n_before) if count])
        steps = [
            f"{reading.name(one)} before {reading.name(other)} at {_who(reading, one, other)}"
            for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        ]
        found.blame("; ".join(steps), (), tuple(reading.units.ids[unit] for unit in cycle))
    return found


def _shortest_cycle(after: list[list[int]], left: list[int]) -> list[int]:
    """Return a cycle among the units that a topological sort left over.

    Every one of them has a predecessor that is left over, so going backwards must close a circle;
    a search from a unit on that circle then finds the shortest way around.
    """
    among = set(left)
    some_before: dict[int, int] = {}
    for unit in sorted(left):
        for later in after[unit]:
            if later in among:
                some_before.setdefault(later, unit)
    unit = min(left)
    seen: set[int] = set()
    while unit not in seen:
        seen.add(unit)
        unit = some_before[unit]
    origin = unit
    came_from: dict[int, int] = {}
    layer = [origin]
    while origin not in came_from:
        following = []
        for unit in layer:
            for later in sorted(after[unit]):
                if later in among and later not in came_from:
                    came_from[later] = unit
                    following.append(later)
        layer = following
    cycle = [came_from[origin]]
    while cycle[-1] != origin:
        cycle.append(came_from[cycle[-1]])
    return cycle[::-1]


def _who(reading: Reading, earlier: int, later: int) -> str:
    """Name a life that delivered the two directly after one another."""
    for one in reading.lives:
        if (earlier, later) in pairwise(one.first_units):
            return one.name
    raise AssertionError("an edge of the order that no life has")


def sender_order(reading: Reading) -> Finding:
    """FIFO: each receiver delivers a sender's units in the order in which they were spoken."""
    found = Finding("FIFO")
    life_codes: dict[tuple[int, int], int] = {}
    sender_by_unit = [
        life_codes.setdefault((unit_id.sender, unit_id.incarnation), len(life_codes))
        for unit_id in reading.units.ids
    ]
    origin_by_unit = [unit_id.origin_no for unit_id in reading.units.ids]
    for one in reading.lives:
        latest = [0] * len(life_codes)
        found.checked += len(one.first_units)
        for unit in one.first_units:
            sender = sender_by_unit[unit]
            origin_no = origin_by_unit[unit]
            if origin_no <= latest[sender]:
                _blame_fifo(reading, found, one, unit, latest[sender])
            else:
                latest[sender] = origin_no
    return found


def _blame_fifo(reading: Reading, found: Finding, one: LifeReading, unit: int, latest: int) -> None:
    unit_id = reading.units.ids[unit]
    if unit_id.origin_no == latest and unit >= reading.n_sent_units:
        return  # the same name with other content: EVS1.3 has it
    found.blame(f"{one.name} delivers {unit_id} after number {latest}", (one.node,), (unit_id,))
