"""Frames on their way out: the one that still takes messages, and those that may come back.

A daemon does not return what a program sent itself: it says by a frame's header where that was
delivered. So messages are kept from their sending on, until the frame has come back, or it is
known that it will not: its receipt says so, or it is refused, or the daemon is lost.
"""

from collections.abc import Sequence
from typing import Final, final

from evensong.client.flights import Flight
from evensong.client.packing import are_small
from evensong.core.groups.frame import HEADER, HEADER_SIZE, Head, as_agreed
from evensong.errors import MalformedFrame


@final
class OpenFrame:
    """A frame that still takes messages."""

    __slots__ = ("flags", "flight", "left", "messages", "set_no", "to")

    def __init__(
        self, flight: Flight, to: str | Sequence[str], set_no: int, flags: int, left: int
    ) -> None:
        self.flight: Final = flight
        self.to: Final = to if isinstance(to, str) else None  # a list may change
        self.set_no: Final = set_no
        self.flags: Final = flags
        self.messages: Final[list[bytes]] = []
        self.left = left  # bytes


@final
class Sent:
    """Frames that may come back."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        # Headers, and messages or the frame, by number of the first message.
        self.kept: Final[dict[int, tuple[bytes, bytes | Sequence[bytes]]]] = {}

    def keep(self, first_no: int, frame: bytes, messages: Sequence[bytes]) -> None:
        """Keep a frame's messages, which do not change any more; small ones as their frame."""
        content = frame if are_small(frame, len(messages)) else messages
        self.kept[first_no] = (frame[:HEADER_SIZE], content)

    def drop(self, first_no: int) -> None:
        """Keep a frame no longer: it does not come back."""
        self.kept.pop(first_no, None)

    def clear(self) -> None:
        """Keep nothing any more."""
        self.kept.clear()

    def take(self, header: bytes | memoryview) -> tuple[Head, bytes | Sequence[bytes]]:
        """Return what was kept of a frame that has come back; on a ring it is agreed at least."""
        head = Head(*HEADER.unpack(header))
        sent = self.kept.pop(head.first_no, None)
        if sent is None or header not in (sent[0], as_agreed(sent[0])):
            raise MalformedFrame("a delivery of what was not sent")
        return head, sent[1]
