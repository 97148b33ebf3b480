"""Every exception evensong raises.

EvensongError
├── MalformedFrame      bytes off the wire do not form a frame; the datagram is dropped
├── CorruptRecord       the stable record cannot be read; the processor must not start
├── BadParameters       timeouts or limits that cannot work together
├── BadSettings         a daemon's settings that cannot be read or used
├── CannotStart         a daemon lacks something it needs: key, state directory, address
├── Unreachable         nobody answers where a daemon should
├── BadRequest          a daemon was asked for something it does not do
├── BadScenario         a text scenario or fault plan that cannot be read
├── BadTrace            a trace that cannot be read or written
└── InvariantBroken     a simulated processor broke an invariant of its protocol
"""


class EvensongError(Exception):
    """The root: catch this to catch everything of ours."""


class MalformedFrame(EvensongError):
    """Bytes off the wire do not form a frame. Definite: the datagram had no effect."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CorruptRecord(EvensongError):
    """The stable record cannot be read. Starting anyway could reuse a ring id."""


class BadParameters(EvensongError):
    """Timeouts or limits that cannot work together; the message names the rule."""


class BadSettings(EvensongError):
    """A daemon's settings that cannot be used; the message names the key and what is allowed."""


class CannotStart(EvensongError):
    """A daemon lacks something it needs. Definite: it has sent nothing."""


class Unreachable(EvensongError):
    """Nobody answers where a daemon should. Indefinite if a request was under way."""


class BadRequest(EvensongError):
    """A daemon was asked for something it does not do. Definite: nothing was done."""


class BadScenario(EvensongError):
    """A text scenario or fault plan that cannot be read; the message names the line."""


class BadTrace(EvensongError):
    """A trace that cannot be read or written; the message names the file."""


class InvariantBroken(EvensongError):
    """A simulated processor broke an invariant of its protocol: a bug of ours, with its name."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text
