"""What a daemon's refusals and farewells mean, in words."""

from typing import Final

from evensong.core.groups.events import ErrorCode
from evensong.errors import AlreadyMember, BadName, NotMember, Refused
from evensong.ipc.frames import Farewell

REASONS: Final = {
    ErrorCode.BAD_NAME: "no process, group or destination may be called so",
    ErrorCode.BAD_FRAME: "the daemon does not understand a frame of this library",
    ErrorCode.TOO_LARGE: "a message is larger than the daemon takes",
    ErrorCode.UNKNOWN_SET: "the daemon does not know the destination",
    ErrorCode.BAD_SET: "a destination is 1 to 64 groups or private names",
    ErrorCode.ALREADY_MEMBER: "the connection is in that group already",
    ErrorCode.NOT_MEMBER: "the connection is not in that group",
    ErrorCode.QUEUE_FULL: "more is queued than one connection may have",
    ErrorCode.TOO_MANY: "there are too many connections, or the connection has too many groups",
}
_ERRORS: Final[dict[ErrorCode, type[Refused]]] = {
    ErrorCode.BAD_NAME: BadName,
    ErrorCode.ALREADY_MEMBER: AlreadyMember,
    ErrorCode.NOT_MEMBER: NotMember,
}


def refusal(code: ErrorCode) -> Refused:
    """Return the error that a program gets for a code."""
    return _ERRORS.get(code, Refused)(REASONS[code])


def words_of(farewell: Farewell) -> str:
    """Return why a daemon hung up."""
    reason = farewell.why.name.lower().replace("_", " ")
    return f"the daemon hung up: {farewell.text or reason}"
