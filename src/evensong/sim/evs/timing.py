"""LV-2 and LV-3: how long after its last disturbance a run may take for what it does.

Only a run that has one clock, a simulated one, tells such limits; so times of different processors
are compared here.
"""

from typing import Final

from evensong.sim.evs.reading import LifeReading, Reading
from evensong.sim.evs.verdict import Finding

ENDS_A_STATE: Final = ("state", "fail", "stop", "quiesce")
OPERATIONAL: Final = "operational"


def settles(reading: Reading) -> Finding:
    """LV-2, TM3: in time after the last disturbance, whoever lives is in its final configuration.

    Who saw the end of the run while it formed another one is late if the time is over, and unknown
    if it is not; so is who has no end.
    """
    found = Finding("LV-2")
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
        installed_us, end_us, is_settled = _final(one)
        took = (installed_us if is_settled else end_us) - limits.last_us
        if took > limits.settle_us:
            final = f"installs its final {one.last_conf_id}" if is_settled else "has not settled"
            allowed = f"{limits.settle_us} are allowed"
            found.blame(
                f"{one.name} {final} {took} us after the last fault, {allowed}", (one.node,)
            )
        elif not is_settled:
            found.unknown += 1
    return found


def _final(one: LifeReading) -> tuple[int, int, bool]:
    """Return when a life installed its last configuration, when it ended, and if that was it."""
    installed_us = end_us = 0
    is_settled = False
    for event in one.life.events:
        if event.conf is not None:
            installed_us = event.t_us
            is_settled = not event.conf.transitional
        elif event.etype == "state" and ("state", OPERATIONAL) not in event.aux:
            is_settled = False
        if event.etype != "token":
            end_us = event.t_us
    return installed_us, end_us, is_settled


def leaves_states(reading: Reading) -> Finding:
    """LV-3: undisturbed, no process stays in a state other than operational beyond the limit."""
    found = Finding("LV-3")
    limits = reading.limits
    if limits.state_us is None:
        return found
    for one in reading.lives:
        state, since_us = OPERATIONAL, 0
        for event in one.life.events:
            if event.etype not in ENDS_A_STATE:
                continue
            stayed = event.t_us - max(since_us, limits.last_us)
            if state != OPERATIONAL and stayed > 0:
                found.checked += 1
                if stayed > limits.state_us:
                    found.blame(
                        f"{one.name} stays in {state} for {stayed} us, "
                        f"{limits.state_us} are allowed",
                        (one.node,),
                    )
            state = dict(event.aux).get("state", OPERATIONAL)
            since_us = event.t_us
    return found
