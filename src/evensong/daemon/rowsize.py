"""How many messages travel as one: many while the network keeps all, few when it loses some.

A row that lacks a piece is lost as a whole, and is repaired message by message. So a repair that is
heard, whoever sends it to whomever, halves the rows; a time without any doubles them again.
"""

from typing import Final, final

from evensong.daemon.burst import burst_of

ROW_MAX: Final = 64  # messages
CALM_US: Final = 500_000


def width_of(datagram_size: int) -> int:
    """How many datagrams of this size a message may fill while nothing gets lost."""
    return max(1, burst_of(datagram_size))


@final
class RowSize:
    """The most messages that a row may have now."""

    __slots__ = ("_changed_at", "messages_max")

    def __init__(self) -> None:
        self.messages_max = ROW_MAX
        self._changed_at = 0

    def repaired(self, now: int) -> None:
        """Note that something got lost."""
        self.messages_max = max(1, self.messages_max // 2)
        self._changed_at = now

    def look(self, now: int) -> int:
        """Return the most messages, once it has been seen whether the network is calm."""
        if self.messages_max < ROW_MAX and now - self._changed_at >= CALM_US:
            self.messages_max = min(ROW_MAX, 2 * self.messages_max)
            self._changed_at = now
        return self.messages_max
