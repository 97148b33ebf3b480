"""Raw epoll: who is called when a descriptor is ready. Level-triggered."""

import select
import time
from collections.abc import Callable
from typing import Final, TypeAlias, final

Ready: TypeAlias = Callable[[int], None]  # takes the epoll events

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
OVER: Final = select.EPOLLHUP | select.EPOLLERR


@final
class Watch:
    """The descriptors of one daemon."""

    __slots__ = ("_epoll", "_last", "_ready")

    def __init__(self) -> None:
        self._epoll: Final = select.epoll()
        self._ready: Final[dict[int, Ready]] = {}
        self._last: Final[set[int]] = set()

    def add(
        self, descriptor: int, ready: Ready, events: int = READ, *, is_last: bool = False
    ) -> None:
        """Call `ready` whenever the descriptor is; behind the others if it `is_last`."""
        self._ready[descriptor] = ready
        if is_last:
            self._last.add(descriptor)
        self._epoll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        """Wait for other events of a descriptor."""
        self._epoll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor that is about to be closed."""
        del self._ready[descriptor]
        self._last.discard(descriptor)
        self._epoll.unregister(descriptor)

    def wait(self, timeout_us: int) -> list[tuple[int, int]]:
        """Return who is ready with which events, after at most so long."""
        return self._epoll.poll(max(0, timeout_us) / 1_000_000)

    def look(self, timeout_us: int) -> list[tuple[int, int]]:
        """Return the same without ever sleeping: sooner, for all of a core meanwhile."""
        poll = self._epoll.poll
        until = time.monotonic_ns() + 1_000 * timeout_us
        while not (ready := poll(0)) and time.monotonic_ns() < until:
            pass
        return ready

    def dispatch(self, ready: list[tuple[int, int]]) -> None:
        """Call those that are ready, unless one before has removed them."""
        if len(ready) > 1:
            ready.sort(key=self._is_last)
        for descriptor, events in ready:
            call = self._ready.get(descriptor)
            if call is not None:
                call(events)

    def _is_last(self, ready: tuple[int, int]) -> bool:
        return ready[0] in self._last

    def close(self) -> None:
        """Give the descriptor up."""
        self._epoll.close()
