"""Extended virtual synchrony, judged on what every processor observably did.

`check` runs every property of the catalogue over an in-memory `History`. A property is a pure
function of the prepared history (`Reading`) to a `Finding` with witnesses a person can read. Order
and sets are judged by origin identity and content; the protocol's own keys only in addition.

Follows Moser et al., "Extended Virtual Synchrony" (EVS1 to EVS7), and the service definitions of
the Totem single-ring protocol (TM, TR, TF, TG). Where we say more exactly what is asked:

- EVS1.3 compares no times: that a send came first is EVS1.1's cycle test, good on any hosts.
- EVS2.3 stands for EVS2.4 too, and also forbids a delivery after its com(c) was left.
- EVS6.3, EVS5, TG and FIFO look at first deliveries; a second one is EVS1.4's and EVS6.1's.
- TR3 is asked of every configuration that the run ends in, since each life begins alone.
- TF3 asks for what must follow: that whoever is said to have a unit delivers it.
- LV-1 asks the members of a final configuration only for what was sent in it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from evensong.sim.evs import basics, membership, order, sets, timing, walk
from evensong.sim.evs.reading import Reading
from evensong.sim.evs.verdict import Finding, Status, Verdict, Verdicts, Violation
from evensong.sim.history import History, LifeId

__all__ = [
    "PROPERTIES",
    "Finding",
    "Reading",
    "Status",
    "Verdict",
    "Verdicts",
    "Violation",
    "check",
]

PROPERTIES: Final[dict[str, Callable[[Reading], Finding]]] = {
    "EVS1.1": walk.partial_order,
    "EVS1.2": basics.process_order,
    "EVS1.3": basics.sent_before,
    "EVS1.4": basics.sent_once,
    "EVS2.1": basics.stays_together,
    "EVS2.2": basics.inside_span,
    "EVS2.3": walk.consistent_cuts,  # and EVS2.4
    "EVS3": sets.self_delivery,
    "EVS4": sets.failure_atomicity,
    "EVS5": order.causal_order,
    "EVS6.1": order.numbering,
    "EVS6.2": order.same_number,
    "EVS6.3": order.no_holes,
    "EVS7.1": sets.safe_delivery,
    "EVS7.2": sets.safe_after_all_installed,
    "TM1": membership.uniqueness,
    "TM2": membership.consensus,
    "TM4": membership.same_change,
    "TR2": sets.in_its_configuration,
    "TR3": sets.all_delivered,
    "TG": order.global_order,
    "TF1": membership.window,
    "TF2": membership.token_uniqueness,
    "TF3": sets.stable_line,
    "FIFO": order.sender_order,
    "LV-1": sets.submitted_delivered,
    "LV-2": timing.settles,  # and TM3
    "LV-3": timing.leaves_states,
}


def check(history: History, submitted: Mapping[LifeId, int] | None = None) -> Verdicts:
    """Judge a run.

    `submitted` is the number of units each life's client handed over (LV-1), by default what the
    ends of lives tell. Limits (TF1, LV-2, LV-3) are what their starts tell; where nothing is told,
    these properties are vacuous.
    """
    reading = Reading(history, submitted)
    return Verdicts([judge(reading) for judge in PROPERTIES.values()])
