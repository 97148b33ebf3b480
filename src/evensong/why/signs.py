"""What the words mean by which the engines give the reason of a state, and of a failure.

The ring and the broadcast domain of Transis have reasons of their own; a story asks here what kind
of reason one is, and only where the engines differ which engine gave it.
"""

from typing import Final

from evensong.core.engine import CHANGING, TRANSIS, engine_in
from evensong.core.transis.states import RELAYED
from evensong.why.records import Record

COLLECT: Final = "collect"  # the state in which a domain finds out who is there
TOKEN_LOSS: Final = "token loss"
FOREIGN: Final = "foreign"  # a message or a beacon of another configuration
JOIN: Final = "join"
PROBED: Final = "silent"  # and did not answer when it was probed
AGREE_TIMEOUT: Final = "agree timeout"
# Nothing came of it: it did not agree in time, or did not answer.
NOT_HEARD: Final = frozenset(["consensus timeout", PROBED, AGREE_TIMEOUT])
LEFT: Final = frozenset(["leave", "left"])
STUCK: Final = "stuck"  # it kept the window of the domain full
DEAF: Final = frozenset(["fail to receive", STUCK])
PAST_LOST: Final = "its past is lost"  # what its last message refers to cannot be had any more
# It was heard, and not here: it is in another view, or said that it would never agree.
ELSEWHERE: Final = frozenset(["is in another view", "accused me", f"accused me{RELAYED}"])


def begins(record: Record) -> bool:
    """Whether a node leaves its configuration with this state."""
    return record.text("state") in CHANGING


def engine_of(record: Record) -> str:
    """Return the engine that has such a state, or nothing."""
    return engine_in(record.text("state"))


def is_suspicion(cause: str) -> bool:
    """Whether a node left its configuration because it missed somebody, or the token."""
    return cause in (TOKEN_LOSS, PROBED)


def is_word(record: Record) -> bool:
    """Whether somebody else's proposal was followed."""
    cause = record.text("cause")
    if engine_of(record) == TRANSIS:
        return cause.startswith("join message")
    return cause.startswith(JOIN)


def is_hearing(record: Record) -> bool:
    """Whether a node had heard whom a record is about, from itself."""
    cause = record.text("cause")
    if engine_of(record) == TRANSIS:
        heard = ("foreign message", "join message", "is in another view", "accused me", "restarted")
        return cause in heard
    return cause.startswith((JOIN, FOREIGN))
