"""A violation told as a short story: who did what, and what stood around it at each.

The first line is the one that the in-memory check gives. Below it each life that is named, or that
has the units in question, shows a few deliveries around them, in its own order.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from evensong.sim.evs import Reading, Violation
from evensong.sim.evs.reading import LifeReading

if TYPE_CHECKING:
    from evensong.core.unit import UnitId

AROUND: Final = 2  # deliveries shown on either side
LIVES_MAX: Final = 3
PLACES_MAX: Final = 4  # of the units in one life; more only if it repeats itself
UNITS_MAX: Final = 2


class Teller:
    """Tells violations of one reading; looks for their units once, for all of them."""

    def __init__(self, reading: Reading, violations: Iterable[Violation]) -> None:
        self._reading: Final = reading
        asked = {unit for violation in violations for unit in violation.units[:UNITS_MAX]}
        # Where each unit that is asked for stands, by life.
        self._places: Final[list[dict[UnitId, list[int]]]] = []
        for one in reading.lives:
            places: dict[UnitId, list[int]] = {}
            for at, delivery in enumerate(one.life.deliveries):
                if delivery.unit_id in asked:
                    places.setdefault(delivery.unit_id, []).append(at)
            self._places.append(places)

    def story(self, violation: Violation) -> str:
        """Return the witness with its neighbourhood."""
        units = violation.units[:UNITS_MAX]
        has = [
            (one, sorted(at for unit in units for at in places.get(unit, ())))
            for one, places in zip(self._reading.lives, self._places, strict=True)
        ]
        knowing = [(one, places) for one, places in has if places]
        named = [pair for pair in knowing if pair[0].node in violation.nodes]
        others = [pair for pair in knowing if pair[0].node not in violation.nodes]
        lines = [
            f"    {one.name}: {_neighbourhood(one, places[:PLACES_MAX])}"
            for one, places in [*named, *others][:LIVES_MAX]
        ]
        return "\n".join([violation.text, *lines])


def _neighbourhood(one: LifeReading, places: list[int]) -> str:
    """Show what a life delivered around some places: `… 2/1:6, [1/1:2 in 4.1], 2/1:7 …`."""
    deliveries = one.life.deliveries
    near = sorted(
        {
            at
            for place in places
            for at in range(max(0, place - AROUND), min(len(deliveries), place + AROUND + 1))
        }
    )
    shown = ""
    last = -1
    for at in near:
        if at != last + 1:
            shown += " … " if shown else "… "
        elif shown:
            shown += ", "
        last = at
        name = str(deliveries[at].unit_id)
        if at in places:
            span = one.span_of_delivery(at)
            name = f"[{name} in {span.conf.conf_id}]" if span is not None else f"[{name}]"
        shown += name
    return shown + (" …" if last < len(deliveries) - 1 else "")
