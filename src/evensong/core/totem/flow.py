"""How many messages one visit of the token may broadcast [SRP §4.3].

Three limits: a visit's own, what the window leaves after everybody else's last visit, and a share
of the window in proportion to the backlog. A fourth keeps every receive buffer bounded.
A message that fills several datagrams counts as so many, whether it is new or sent again.
Invariant: 0 <= fcc <= window_size on every token forwarded.
Deviation: retransmissions are bound by the window but not by the share or the buffers' horizon, and
new messages leave room for requests still open; see docs/deviations.md#repair-first.
"""

from typing import Final, final

from evensong.core.totem.frames import RegularToken

BACKLOG_HONEST_MAX: Final = 2**30  # more than all processors of the largest ring together show


@final
class FlowControl:
    """One processor's part in the ring's flow control."""

    __slots__ = (
        "alone_visits",
        "messages_max",
        "my_pbl",
        "my_trc",
        "silent_visits",
        "window_size",
    )

    def __init__(self, window_size: int, messages_max: int) -> None:
        self.window_size: Final = window_size
        self.messages_max: Final = messages_max
        self.my_trc = 0  # broadcast on my previous visit
        self.my_pbl = 0  # my backlog as I last forwarded the token
        self.alone_visits = 0  # visits in a row since before which nobody else has broadcast,
        self.silent_visits = 0  # and in which I have not

    def is_plausible(self, token: RegularToken) -> bool:
        """Whether the counts can be honest: they contain my own, and keep to the window."""
        return (
            self.my_trc <= token.fcc <= self.window_size
            and self.my_pbl <= token.backlog <= BACKLOG_HONEST_MAX
        )

    def repairs_max(self, token: RegularToken) -> int:
        """How many datagrams of retransmissions this visit may send."""
        return min(self.messages_max, self.window_size - (token.fcc - self.my_trc))

    def new_max(
        self, token: RegularToken, my_tbl: int, room: int, resent: int, requested: int
    ) -> int:
        """How much new this visit may broadcast after retransmissions that weigh `resent`.

        `room` is what the receive buffers can take, `requested` what stays asked for on the token.
        """
        if not my_tbl:
            return 0
        window = self.window_size
        window_left = window - (token.fcc - self.my_trc)
        ring_backlog = token.backlog - self.my_pbl + my_tbl
        share = -(-window * my_tbl // ring_backlog)
        # Repairs are no part of my share: they would starve whoever has little to send and happens
        # to follow a processor with a bad link. Another processor must find room in the window to
        # answer what I could not.
        window_free = window_left - resent - requested
        return max(0, min(max(1, share), self.messages_max - resent, window_free, room))

    def account(self, token: RegularToken, broadcast: int, backlog: int) -> None:
        """Write this visit into the token, in place of my last one."""
        self.alone_visits = self.alone_visits + 1 if token.fcc == self.my_trc else 0
        self.silent_visits = 0 if broadcast else self.silent_visits + 1
        token.fcc += broadcast - self.my_trc
        self.my_trc = broadcast
        token.backlog += backlog - self.my_pbl
        self.my_pbl = backlog
