"""Timeouts and limits of a ring, and the rules between them that make it work.

All times are microseconds. A timeout that is too short for the ring's size makes it reform for
ever, so the rules are checked at start-up and named when they fail.
"""

from typing import Final, NamedTuple, Self

from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem.parts import PART_FRAME, PARTS_MAX
from evensong.core.totem.wire import COMMIT_FRAME, ENTRY, RTR_MAX, TABLE_MAX
from evensong.errors import BadParameters

MS = 1_000
PARAMETER_MAX: Final = 2**40  # as microseconds twelve days; whatever is added to it stays encodable

TIMES: Final = (
    "token_retransmit",
    "token_loss",
    "join",
    "consensus",
    "beacon",
    "hold",
    "fail_to_rcv_time",
    "visit_time_max",
    "packet_time",
)


def datagram_least(processors: int) -> int:
    """Return the smallest `datagram_max` at which a commit token of so many fits into its parts."""
    entry = ENTRY.size + -(-TABLE_MAX // 8)  # with an obligation set over as many ids as can be
    commit = COMMIT_FRAME.size + 4 * TABLE_MAX + processors * entry
    return PART_FRAME.size + -(-commit // PARTS_MAX)


class Parameters(NamedTuple):
    """The settings of one ring; equal at all of its processors."""

    token_retransmit: int = 3 * MS
    token_loss: int = 15 * MS
    join: int = 2 * MS
    consensus: int = 8 * MS
    beacon: int = 50 * MS
    hold: int = 5 * MS
    fail_to_rcv_time: int = 100 * MS
    fail_to_rcv_visits_min: int = 50  # a slow ring needs more than time to accuse somebody
    form_retry_limit: int = 2
    idle_rotations: int = 30
    window_size: int = 50  # messages a rotation, all processors together
    messages_max: int = 17  # messages a visit
    receive_horizon: int = 1_000  # messages beyond what is released; bounds every buffer
    rtr_max: int = 32  # ranges of retransmission requests in a token
    miss_count: int = 1  # visits that must miss a message before it is requested
    datagram_max: int = 1_400  # larger control frames travel in parts
    ceiling_stride: int = 1_024
    visit_time_max: int = 100  # what one visit may take, for the rule about token_loss
    packet_time: int = 10

    @classmethod
    def for_ring(cls, processors: int) -> Self:
        """Return settings that suit a ring of so many processors.

        The usual ones suit up to 32. Beyond, a rotation takes longer and a herd of Joins takes
        longer to agree: every timeout is stretched alike, once for each further 32. A visit sends
        less, so that a full window is still shared by several.
        """
        usual = cls()
        share = -(-13 * usual.window_size // (10 * processors))  # of a window, and a bit more
        messages_max = min(usual.window_size, max(5, share))
        return usual.stretched(max(1, -(-processors // 32)))._replace(messages_max=messages_max)

    def stretched(self, factor: int) -> Self:
        """Return the same settings with every timeout so many times as long."""
        return self._replace(
            token_retransmit=self.token_retransmit * factor,
            token_loss=self.token_loss * factor,
            join=self.join * factor,
            consensus=self.consensus * factor,
            beacon=self.beacon * factor,
            hold=self.hold * factor,
            fail_to_rcv_time=self.fail_to_rcv_time * factor,
        )

    def patience(self) -> int:
        """Return after how long a silence others suspect a processor."""
        return self.token_loss

    def agreement(self) -> int:
        """Return after how long those who do not agree to a change are given up."""
        return self.consensus

    def messages_at_once(self) -> int:
        """Return how many messages a processor sends in one go."""
        return self.messages_max

    def check(self, processors: int) -> None:
        """Refuse what cannot work on a ring of so many processors."""
        rules = [
            (
                2 <= processors <= PROCESSORS_MAX or processors == 1,
                f"1..{PROCESSORS_MAX} processors",
            ),
            (min(self) > 0, "every parameter is positive"),
            (max(self) <= PARAMETER_MAX, f"every parameter <= {PARAMETER_MAX}"),
            (self.token_loss >= 4 * self.token_retransmit, "token_loss >= 4 * token_retransmit"),
            (self.consensus > 2 * self.join, "consensus > 2 * join"),
            (2 * self.hold < self.token_loss, "2 * hold < token_loss"),
            (self.beacon >= self.join, "beacon >= join"),
            (
                self.token_loss
                >= 3 * (processors * self.visit_time_max + self.window_size * self.packet_time),
                "token_loss >= 3 * (processors * visit_time_max + window_size * packet_time)",
            ),
            (self.messages_max <= self.window_size, "messages_max <= window_size"),
            (self.window_size <= self.receive_horizon, "window_size <= receive_horizon"),
            (
                self.datagram_max >= datagram_least(processors),
                f"datagram_max >= {datagram_least(processors)}, or a commit token has more parts "
                f"than {PARTS_MAX}",
            ),
            (self.rtr_max <= RTR_MAX, f"rtr_max <= {RTR_MAX}, or a token is no token to others"),
        ]
        for holds, rule in rules:
            if not holds:
                raise BadParameters(
                    f"for {processors} processors the rule is: {rule}{self._concerned(rule)}"
                )

    def _concerned(self, rule: str) -> str:
        """Say what the values are that a rule speaks about, or that no rule allows."""
        words = rule.replace("(", " ").replace(")", " ").replace(",", " ").split()
        values = self._asdict()
        names = [name for name in values if name in words] or [
            name for name, value in values.items() if not 0 < value <= PARAMETER_MAX
        ]
        told = [f"{name} = {_written(values[name], is_time=name in TIMES)}" for name in names]
        return f"; here {', '.join(told)}" if told else ""


def _written(value: int, *, is_time: bool) -> str:
    if not is_time:
        return str(value)
    return f"{value} us" if value % MS else f"{value // MS} ms"


# What fast machines on a fast network keep in flight; it fits a receive buffer of 1 MB. A visit has
# room for five of the largest packets, of 44 datagrams each; in a ring of eight, for two.
# The token overtakes messages: what it misses once is in flight, what it misses twice is lost.
WIDE: Final = {
    "window_size": 704,
    "messages_max": 220,
    "receive_horizon": 4_096,
    "miss_count": 2,
}
FAST = Parameters(  # a quiet LAN, machines that keep their time: a crash is noticed within 80 ms
    token_retransmit=10 * MS,
    token_loss=75 * MS,
    join=4 * MS,
    consensus=15 * MS,
    beacon=100 * MS,
    hold=8 * MS,
    fail_to_rcv_time=300 * MS,
    **WIDE,
)
LAN = Parameters(
    token_retransmit=60 * MS,
    token_loss=300 * MS,
    join=40 * MS,
    consensus=200 * MS,
    beacon=200 * MS,
    hold=50 * MS,
    fail_to_rcv_time=2_000 * MS,
    **WIDE,
)
WAN = LAN.stretched(5)
PROFILES: Final = {"fast": FAST, "lan": LAN, "wan": WAN}
