"""Timeouts from what was measured: the profile `auto`.

All processors of a ring must have equal parameters, and none can change them while it runs. So a
daemon never tunes itself: `evensong config tune` asks running daemons what they measured, and the
figures go into everybody's settings, where the same figures give the same timeouts.
"""

from typing import Final, NamedTuple

from evensong.core.totem.parameters import FAST, LAN, Parameters

TOKEN_LOSS_LEAST: Final = FAST.token_loss
TOKEN_LOSS_MOST: Final = 30_000_000
ROUND: Final = 15_000  # of these, so that no timeout needs microseconds finer than 500
MARGIN: Final = 4  # a token that is late by this many times the worst seen is lost
SCALED: Final = (
    "token_retransmit",
    "token_loss",
    "join",
    "consensus",
    "beacon",
    "hold",
    "fail_to_rcv_time",
)


class Measured(NamedTuple):
    """What was seen of a ring under its usual load, in microseconds."""

    rotation: int  # the slowest rotations of the token, but for one in a hundred
    lag: int  # how late a daemon attended to its timers, at worst


def tuned(measured: Measured) -> Parameters:
    """Return the timeouts of `lan`, shorter or longer, so that the worst seen is no crash."""
    wanted = -(-MARGIN * (measured.rotation + measured.lag) // ROUND) * ROUND
    token_loss = min(max(wanted, TOKEN_LOSS_LEAST), TOKEN_LOSS_MOST)
    return LAN._replace(**{key: getattr(LAN, key) * token_loss // LAN.token_loss for key in SCALED})


def worst(measured: list[Measured]) -> Measured:
    """Return what holds for all of several daemons."""
    return Measured(max(one.rotation for one in measured), max(one.lag for one in measured))
