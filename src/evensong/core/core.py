"""The contract of an engine: it computes and never acts.

Calls go in, effects come out, one deadline says when to call again. Time is an integer of
microseconds, datagrams are bytes, randomness is injected. Same inputs, same bytes out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from evensong.core.effects import Effect, Packet
from evensong.core.run import Run


class Source(Protocol):
    """The layer above, seen from an engine: packets are pulled when they can be sent.

    Packing and timestamps are thereby decided at the moment of sending.
    """

    def backlog(self) -> int:
        """How many packets wait."""
        ...

    def pull(self, packets_max: int) -> list[Packet]:
        """Hand over the next packets, in order; together they weigh at most `packets_max`."""
        ...

    def weight(self, packets: Sequence[Packet]) -> int:
        """What they count for in flow control: a plain packet 1, a larger one more."""
        ...


Weigh: TypeAlias = Callable[[Sequence[Packet]], int]  # a source's `weight`


class Core(ABC):
    """One processor's engine. The driver calls it, then performs what `drain` returns, in order."""

    __slots__ = ()

    @abstractmethod
    def start(self, now: int) -> None:
        """Begin; called once, before anything else."""

    @abstractmethod
    def submit(self, now: int) -> None:
        """Say that the source has something to send."""

    @abstractmethod
    def receive(self, datagram: bytes, now: int) -> None:
        """Take in a datagram. Whatever it holds, this never raises: bad input is counted."""

    def receive_run(self, run: Run, now: int) -> None:
        """Take in datagrams that came together, in this order."""
        for datagram in run.frames():
            self.receive(datagram, now)

    def receive_many(self, datagrams: Sequence[bytes], now: int) -> None:
        """Take in datagrams of one turn, in this order; delivery may wait for the last of them."""
        for datagram in datagrams:
            self.receive(datagram, now)

    @abstractmethod
    def expire(self, now: int) -> None:
        """Act on every timer that is due."""

    @abstractmethod
    def leave(self, now: int) -> None:
        """Depart in good order; the core does nothing more."""

    @abstractmethod
    def deadline(self) -> int:
        """When to call `expire` next, in microseconds, or `NEVER`."""

    def rests(self) -> bool:
        """Whether nothing goes on, and whatever is submitted now gets its place at once."""
        return False

    def hurry(self, *, is_on: bool) -> None:
        """Say whether somebody here waits to hear that messages are safe; not all engines mind."""
        return

    @abstractmethod
    def drain(self) -> list[Effect]:
        """Return the effects since the last drain; a source may ask while it is pulled from."""
