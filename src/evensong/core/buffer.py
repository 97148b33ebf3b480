"""Messages by seq: what has been received, up to where without a hole, and what may be forgotten.

Invariant: released <= aru, every seq in released+1..aru is present, and seq aru+1 is not.
"""

from collections import deque
from typing import Final, Generic, TypeVar, final

Held = TypeVar("Held")


@final
class ReceiveBuffer(Generic[Held]):
    """The messages of one ring that are not yet known to be everywhere."""

    __slots__ = ("aru", "high", "horizon", "messages", "released")

    def __init__(self, horizon: int) -> None:
        self.horizon: Final = horizon  # how far beyond the aru a message may be; bounds the memory
        self.messages: Final[dict[int, Held]] = {}
        self.aru = 0  # all received up to here
        self.high = 0  # the highest seq received
        self.released = 0  # forgotten up to here: delivered here, and received by everybody

    def has(self, seq: int) -> bool:
        """Whether this seq was received, be it forgotten by now."""
        return seq <= self.aru or seq in self.messages

    def is_in_reach(self, seq: int) -> bool:
        """Whether an honest ring can have come to this seq: nobody runs ahead by more."""
        return seq <= self.aru + self.horizon

    def add(self, seq: int, message: Held) -> None:
        """Keep a message that is new and in reach."""
        messages = self.messages
        messages[seq] = message
        if seq > self.high:
            self.high = seq
        if seq == self.aru + 1:
            while seq + 1 in messages:
                seq += 1
            self.aru = seq

    def settle(self, first: int, last: int) -> None:
        """Count in messages that were put there directly, new and in reach, without a hole."""
        if first == self.aru + 1:
            messages = self.messages
            aru = last
            while aru + 1 in messages:
                aru += 1
            self.aru = aru
        if last > self.high:
            self.high = last

    def missing(self, upto: int) -> list[int]:
        """Return the holes up to a seq, ascending."""
        messages = self.messages
        return [seq for seq in range(self.aru + 1, upto + 1) if seq not in messages]

    def release(self, upto: int) -> None:
        """Forget what everybody has."""
        assert upto <= self.aru
        if upto > self.released:
            forgotten = range(self.released + 1, upto + 1)
            deque(map(self.messages.pop, forgotten), maxlen=0)  # a loop without a step of Python
            self.released = upto

    def skip(self, upto: int) -> None:
        """Count everything up to a seq of an empty buffer as received and released."""
        assert not self.messages
        self.aru = self.high = self.released = upto
