"""Who is told what a daemon's ring does."""

from evensong.core.effects import Deliver, Sent, StateChange, TokenVisit, WindowGrown
from evensong.core.ids import Configuration


class Listener:
    """Is told what happens, in order; a listener defines what it wants to hear, and only that.

    What it does not define is not called: a busy ring has no time for those who do not listen.
    """

    def send(self, sent: Sent, now: int) -> None:
        """One of our packets got its place in the order."""

    def deliver(self, delivered: Deliver, now: int) -> None:
        """Messages are delivered."""

    def install(self, configuration: Configuration, now: int) -> None:
        """A configuration is delivered."""

    def change_state(self, change: StateChange, now: int) -> None:
        """The membership moved."""

    def visit(self, visit: TokenVisit, now: int) -> None:
        """The token was here."""

    def grow_window(self, grown: WindowGrown, now: int) -> None:
        """More is unacknowledged than before in this view."""

    def end(self, how: str, now: int, cause: str = "") -> None:
        """This life is over: `stop` in good order, or `fail`."""
