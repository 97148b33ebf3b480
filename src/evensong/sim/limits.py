"""What a run is made with, as its trace tells it, so that whoever reads it can judge by it.

Every life tells at its start how much may be sent (`window_size`, `messages_max`). A run that ends
its faults also promises times after the last of them: `settle_us`, within which everybody is in its
final configuration, and `state_us`, which no state of forming a ring outlasts. Both follow from
the parameters and the weather; while there are faults nothing is promised.
"""

from typing import Final

from evensong.core.transis.detection import BACKOFF_MOST
from evensong.sim.faults import Calm, Drift, When
from evensong.sim.groups.acts import Clients
from evensong.sim.history import Aux
from evensong.sim.setup import TRANSIS, Options, Setup

ENGINE: Final = "engine"  # who does not tell it is a ring
OF_THE_RING: Final = ("window_size", "messages_max")


def limits_of(options: Options) -> Aux:
    """Return what may be sent, as the `aux` of a start."""
    if options.engine == TRANSIS:
        return ((ENGINE, TRANSIS), ("w_high", str(options.lansis.w_high)))
    return tuple((name, str(getattr(options.parameters, name))) for name in OF_THE_RING)


def bounds_of(setup: Setup) -> Aux:
    """Return what a run promises about times, as the `aux` of a start.

    Nothing if it has no calm.
    """
    if not is_calmed(setup):
        return ()
    return (("settle_us", str(forming_us(setup))), ("state_us", str(state_us(setup))))


def is_calmed(setup: Setup) -> bool:
    """Whether the plan ends the faults, so that everything must converge."""
    return not setup.plan or any(isinstance(fault, Calm) for fault in setup.plan)


def calm_of(setup: Setup) -> int:
    """Return when the last fault has struck and the last client has acted by itself."""
    acts = setup.clients.acts if setup.clients is not None else ()
    return max([item.at_us for item in (*setup.plan, *setup.workload, *acts)], default=0)


def settle_us(setup: Setup) -> int:
    """Return the time within which a calm world must be quiet (I15).

    A ring must be formed, and what waits must be sent.
    """
    if setup.options.engine == TRANSIS:
        return lansis_settle_us(setup)
    parameters = setup.options.parameters
    units = sum(burst.units for burst in setup.workload)
    if setup.clients is not None:
        units += settle_units(setup.clients)
    rotations = units // parameters.messages_max + 2 * parameters.idle_rotations
    return forming_us(setup) + _with_drift(setup, rotations * _rotation_us(setup))


def forming_us(setup: Setup) -> int:
    """Return the time within which a calm world must have formed its last ring (LV-2).

    A processor that was missed often is left alone for up to 16 * (1 + U) beacons; then a ring must
    be agreed on and formed in spite of failed attempts, once for each that may be in the way.
    """
    if setup.options.engine == TRANSIS:
        return lansis_forming_us(setup)
    parameters = setup.options.parameters
    form = parameters.consensus + parameters.form_retry_limit * parameters.token_loss
    bound = 2 * 16 * parameters.beacon + parameters.token_loss
    return _with_drift(setup, bound + (len(setup.options.nodes) + 1) * form)


def state_us(setup: Setup) -> int:
    """Return how long a processor of a calm world may be in one state of forming a ring (LV-3).

    It gathers until it agrees or misses somebody (`consensus`); then it needs the token, or gives
    up (`token_loss`). A recovery in which the token does come sends what is left of the old ring,
    a window in each rotation.
    """
    if setup.options.engine == TRANSIS:
        return lansis_state_us(setup)
    parameters = setup.options.parameters
    rotations = parameters.receive_horizon // parameters.window_size + 2
    timeout = max(parameters.consensus, parameters.token_loss)
    return _with_drift(setup, timeout + rotations * _rotation_us(setup))


def lansis_forming_us(setup: Setup) -> int:
    """Return the time within which a calm broadcast domain must be in its last view (L13).

    Somebody must be found to be gone, and four changes may be in the way of each other; who was
    left alone for a while is heard again after it.
    """
    parameters = setup.options.lansis
    detect = parameters.silence_max() + (parameters.probes + 1) * parameters.probe
    alone = BACKOFF_MOST * 3 // 2 * parameters.heartbeat  # and a half more, by chance
    change = parameters.collect * 5 // 4 + 3 * parameters.agree
    return _with_drift(setup, detect + alone + 4 * change)


def lansis_settle_us(setup: Setup) -> int:
    """Return the time within which it must be quiet as well: what waits is sent and repaired."""
    parameters = setup.options.lansis
    units = sum(burst.units for burst in setup.workload)
    if setup.clients is not None:
        units += settle_units(setup.clients)
    drain = units * (parameters.pace_max + parameters.ack_idle)
    return lansis_forming_us(setup) + _with_drift(setup, _repair_us(setup.options) + drain)


def lansis_state_us(setup: Setup) -> int:
    """Return how long a processor of a calm domain may be in one state of a change.

    In AGREE it may go through as many rounds as there are others.
    """
    parameters = setup.options.lansis
    return _with_drift(setup, (len(setup.options.nodes) + 1) * parameters.agree)


def exchange_us(options: Options) -> int:
    """Return how long the sides of a new configuration may take to tell each other their groups.

    On a ring two token losses; in a broadcast domain as long as two repairs.
    """
    if options.engine == TRANSIS:
        return _repair_us(options)
    return 2 * options.parameters.token_loss


def _repair_us(options: Options) -> int:
    return 2 * (options.lansis.nack_retry_max + options.lansis.heartbeat)


def settle_units(clients: Clients) -> int:
    """Return how many packets may still wait at the calm because of clients.

    What they sent, and for each act a snapshot that it made necessary.
    """
    sent = sum(act.count * (1 + act.size // clients.payload_max) for act in clients.acts)
    return 2 * sent + 20 * len(clients.acts)


def _rotation_us(setup: Setup) -> int:
    weather = setup.options.weather
    hop = weather.latency_us + weather.jitter_us + setup.options.parameters.packet_time
    return len(setup.options.nodes) * hop


def _with_drift(setup: Setup, bound: int) -> int:
    faults = [fault.then if isinstance(fault, When) else fault for fault in setup.plan]
    drifts = [abs(fault.ppm) for fault in faults if isinstance(fault, Drift)]
    ppm = max([setup.options.drift_ppm_max, *drifts])  # a clock that was put wrong stays so
    return bound + bound * 2 * ppm // 1_000_000
