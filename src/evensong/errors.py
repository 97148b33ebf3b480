"""Every exception evensong raises.

EvensongError
├── MalformedFrame      bytes off the wire do not form a frame; the datagram is dropped
├── CorruptRecord       the stable record cannot be read; the processor must not start
├── BadParameters       timeouts or limits that cannot work together
├── BadSettings         a daemon's settings that cannot be read or used
├── CannotStart         a daemon lacks something it needs: key, state directory, address
├── Unreachable         nobody answers where a daemon should
├── BadRequest          a daemon was asked for something it does not do
├── BadAddress          where to connect to was not said in a way that can be read
├── Refused             a daemon, or the library before it, said no; nothing was done
│   ├── BadName         a name that no process, group or destination may have
│   ├── TooLarge        a message beyond what the daemon takes
│   ├── NotOffered      a service that the cluster's engine does not have
│   ├── AlreadyMember   joined a group twice on one connection
│   └── NotMember       left a group without being in it
├── ConnectionLost      the daemon is gone; what it had accepted may still happen
├── ConnectionClosed    the program closed the connection before; nothing was done
├── OutcomeUnknown      a message was handed over and the daemon lost; it may be ordered or not
├── BadScenario         a text scenario or fault plan that cannot be read
├── BadCampaign         a directory that holds another campaign, or cannot hold one
├── BadTrace            a trace that cannot be read or written
├── SparkUnavailable    PySpark or a Java for it is missing, or it does not start
├── SparkFailed         Spark gave up in the middle of its work
└── InvariantBroken     a simulated processor broke an invariant of its protocol
"""

from typing import Self


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


class BadAddress(EvensongError):
    """An address that cannot be read; the message says what one looks like. Nothing was done."""


class Refused(EvensongError):
    """The daemon, or the library in its place, refused a request. Definite: it had no effect."""


class BadName(Refused):
    """A name that no process, group or destination may have. Definite: nothing was done."""


class TooLarge(Refused):
    """A message beyond what the daemon takes. Definite: nothing of it was sent.

    `size` is the message's, `size_max` the daemon's, both in bytes.
    """

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"a message of {size} bytes; the daemon takes at most {size_max}")
        self.size = size
        self.size_max = size_max

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        """Let it be pickled, and so be told from process to process."""
        return type(self), (self.size, self.size_max)


class NotOffered(Refused):
    """Something that the engine of this cluster does not have. Definite: nothing was done."""


class AlreadyMember(Refused):
    """The connection is in that group already. Definite: nothing was done."""


class NotMember(Refused):
    """The connection is not in that group. Definite: nothing was done."""


class ConnectionLost(EvensongError):
    """The daemon went away, or hung up and said why.

    From a call that sends: definite, this message was not sent. Of messages sent before, each
    receipt says `OutcomeUnknown` or how it ended. Memberships end with the connection. Nothing
    reconnects by itself: whoever goes on makes a new connection, and has a new private name.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ConnectionClosed(EvensongError):
    """The program has closed the connection, or left the group. Definite: nothing was done."""


class OutcomeUnknown(EvensongError):
    """The daemon was lost after a message was handed over and before its delivery was seen.

    Indefinite: the message may have been ordered, or be so later. Whoever sends it again must be
    ready to see it twice; `message_id` is what receivers see as `Message.id`.
    """

    def __init__(self, message_id: object, reason: str) -> None:
        super().__init__(f"message {message_id} was handed over, then: {reason}")
        self.message_id = message_id
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[object, str]]:
        """Let it be pickled, and so be told from process to process."""
        return type(self), (self.message_id, self.reason)


class BadScenario(EvensongError):
    """A text scenario or fault plan that cannot be read; the message names the line."""


class BadCampaign(EvensongError):
    """A directory that holds another campaign, or cannot hold one; the message says which."""


class BadTrace(EvensongError):
    """A trace that cannot be read or written; the message names the file."""


class SparkUnavailable(EvensongError):
    """PySpark or a Java for it is missing, or it does not start. Definite: nothing was done."""


class SparkFailed(EvensongError):
    """Spark gave up in the middle of its work; the message has the cause and where its log is.

    Indefinite: files that it was writing may be there in part.
    """


class InvariantBroken(EvensongError):
    """A simulated processor broke an invariant of its protocol: a bug of ours, with its name."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Let it be pickled, and so be told from process to process."""
        return type(self), (self.invariant, self.text)
