"""The group layer of one daemon: session calls and an engine's deliveries in, session events out.

Interface only on this commit.
"""

from collections.abc import Sequence
from typing import Final, final

from evensong.core.effects import Deliver, SafeLine
from evensong.core.groups.events import SessionEvent, SessionId
from evensong.core.groups.limits import Limits
from evensong.core.ids import Configuration, ProcessorId

NO_SESSION: Final[SessionId] = 0


@final
class Groups:
    """Process groups at one daemon.

    Below is an engine, from which deliveries come in one order, and which pulls packets from
    `queue`. Above are sessions, one for each connected process. Whoever drives it calls `drain`
    after each call and hands the events on, in order; a call that leaves `queue.backlog()` above
    zero should be followed by the engine's `submit`. core/node.py does all this.
    """

    def __init__(
        self,
        my_id: ProcessorId,
        incarnation: int,
        limits: Limits,
        electorate: tuple[ProcessorId, ...],
    ) -> None:
        raise NotImplementedError

    # -- sessions ----------------------------------------------------------------------------

    def open_session(self, user: str, request_id: int = 0) -> SessionId:
        """Open a session; `Welcome` follows, or `Error` and NO_SESSION."""
        raise NotImplementedError

    def close_session(self, session: SessionId) -> None:
        """End a session: it gets nothing more; what it has sent goes out, then it is gone.

        `Closed` follows when the last of it was pulled.
        """
        raise NotImplementedError

    def join(self, session: SessionId, group: str, request_id: int = 0) -> None:
        """Ask to be a member; the group's `ViewChange` with the session in it follows, or `Error`.

        It comes in the session's order: after whatever it has sent before.
        """
        raise NotImplementedError

    def leave(self, session: SessionId, group: str, request_id: int = 0) -> None:
        """Ask to be no member any more; `Left` follows, or `Error`."""
        raise NotImplementedError

    def define_set(
        self, session: SessionId, set_no: int, groups: Sequence[str], request_id: int = 0
    ) -> None:
        """Name a destination: 1 to 64 groups and private names; no answer but `Error`.

        Numbers are the session's own, 0 to 1023; one may be used again, for frames sent later.
        """
        raise NotImplementedError

    def send(self, session: SessionId, frame: bytes, request_id: int = 0) -> None:
        """Send a frame of kind WHOLE to a destination that was defined.

        `Receipt` follows when its place in the order is delivered here, or `Error` at once. The
        header's session must be the caller's.
        """
        raise NotImplementedError

    # -- what comes from the engine ----------------------------------------------------------

    def on_install(self, configuration: Configuration) -> None:
        """Take in a transitional or a regular configuration."""
        raise NotImplementedError

    def on_deliver(self, deliver: Deliver) -> None:
        """Take in packets, in order."""
        raise NotImplementedError

    def on_safe_line(self, line: SafeLine) -> None:
        """Take in that everybody has the ring's messages up to some seq."""
        raise NotImplementedError

    # -- what comes out ----------------------------------------------------------------------

    def drain(self) -> list[SessionEvent]:
        """Return the session events since the last drain, in order."""
        raise NotImplementedError
