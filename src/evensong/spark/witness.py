"""A violation told as a short story: who did what, and what stood around it at each.

The first line is the one that the in-memory check gives. Below it each life that is named, or that
has the units in question, shows a few deliveries around them, in its own order.
"""

from typing import Final

from evensong.core.unit import UnitId
from evensong.sim.evs import Reading, Violation
from evensong.sim.evs.reading import LifeReading

AROUND: Final = 2  # deliveries shown on either side
LIVES_MAX: Final = 3


def story(reading: Reading, violation: Violation) -> str:
    """Return the witness with its neighbourhood."""
    units = set(violation.units[:2])
    if not units:
        return violation.text
    lines = [violation.text]
    for one in _who(reading, violation, units):
        shown = _neighbourhood(reading, one, units)
        if shown:
            lines.append(f"    {one.name}: {shown}")
    return "\n".join(lines)


def _who(reading: Reading, violation: Violation, units: set[UnitId]) -> list[LifeReading]:
    """Choose lives: first those that are blamed, then others that know the units."""
    has = [one for one in reading.lives if units & {d.unit_id for d in one.life.deliveries}]
    named = [one for one in has if one.node in violation.nodes]
    others = [one for one in has if one not in named]
    return (named + others)[:LIVES_MAX]


def _neighbourhood(reading: Reading, one: LifeReading, units: set[UnitId]) -> str:
    """Show the deliveries around the units: `… 2/1:6, [1/1:2 in 4.1], [1/1:1 in 4.1], 2/1:7 …`."""
    deliveries = one.life.deliveries
    places = [at for at, delivery in enumerate(deliveries) if delivery.unit_id in units]
    shown: list[str] = []
    last = -1
    for at in range(len(deliveries)):
        if not any(abs(at - place) <= AROUND for place in places[:4]):
            continue
        if at != last + 1:
            shown.append("…")
        last = at
        unit_id = deliveries[at].unit_id
        if unit_id in units:
            span = one.span_of_delivery(at)
            where = f" in {span.conf.conf_id}" if span is not None else ""
            shown.append(f"[{unit_id}{where}]")
        else:
            shown.append(str(unit_id))
    if last < len(deliveries) - 1:
        shown.append("…")
    return ", ".join(shown).replace("…, ", "… ").replace(", …", " …")
