"""The table of states and events of a broadcast domain, and which of its pairs cannot happen."""

from typing import Final

from evensong.core.transis.states import State
from evensong.sim.coverage import Pair, Table

STATES: Final = tuple(state.value for state in State)

EVENTS: Final = (
    "submit",
    "pause",
    "foreign",
    "break",
    "message",
    "message of another view",
    "join of a mate",
    "join of a foreigner",
    "aj of a mate",
    "aj of a foreigner",
    "nack",
    "ping",
    "pong",
    "leave",
    "silence_timeout",
    "collect_timeout",
    "offer_timeout",
    "agree_timeout",
    "repeat_timeout",
    "stuck_timeout",
    "nack_timeout",
    "resend_timeout",
    "null_timeout",
    "pace_timeout",
)

_COLLECTING: Final = "the timer runs in COLLECT only: leaving it stops it"
_AGREEING: Final = "the timer runs in AGREE only: installing a view stops it"
_QUIET: Final = "entering AGREE stops the timer: nothing is sent until the next view"

UNREACHABLE: Final[dict[Pair, str]] = {
    ("stable", "collect_timeout"): _COLLECTING,
    ("agree", "collect_timeout"): _COLLECTING,
    ("stable", "offer_timeout"): _COLLECTING,
    ("agree", "offer_timeout"): _COLLECTING,
    ("stable", "agree_timeout"): _AGREEING,
    ("collect", "agree_timeout"): _AGREEING,
    ("stable", "repeat_timeout"): _AGREEING,
    ("collect", "repeat_timeout"): _AGREEING,
    ("agree", "stuck_timeout"): _QUIET,
    ("agree", "null_timeout"): _QUIET,
    ("agree", "pace_timeout"): _QUIET,
}

DOMAIN: Final = Table(STATES, EVENTS, UNREACHABLE)
