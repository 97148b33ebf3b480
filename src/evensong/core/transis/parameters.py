"""Timeouts and limits of a broadcast domain, and the rules between them that make it work.

All times are microseconds. What is derived from the heartbeat (how long to collect and to wait for
an agreement) is a parameter of its own, so that a test can bend it alone.
"""

from typing import Final, NamedTuple, Self

from evensong.core.ids import PROCESSORS_MAX
from evensong.errors import BadParameters

MS: Final = 1_000
PARAMETER_MAX: Final = 2**40  # as microseconds twelve days; whatever is added to it stays encodable
W_HIGH_SHARE: Final = 6  # unstable messages a member, where there are many
TIMES: Final = (
    "heartbeat",
    "ack_idle",
    "nack_delay",
    "nack_retry",
    "nack_retry_max",
    "retr_slot",
    "probe",
    "collect",
    "agree",
    "pace_max",
)


class Parameters(NamedTuple):
    """The settings of one broadcast domain; equal at all of its processors."""

    heartbeat: int = 20 * MS  # nobody is silent for longer
    ack_idle: int = 5 * MS  # within which a message is acknowledged, if by nothing else
    nack_delay: int = 2 * MS  # what is late by less is in flight
    nack_retry: int = 20 * MS
    nack_retry_max: int = 160 * MS
    retr_slot: int = 200  # between two that could retransmit the same
    probe: int = 10 * MS
    probes: int = 3
    collect: int = 40 * MS  # how long others are collected before a join is proposed
    agree: int = 80 * MS  # how long a proposal waits for whoever is silent
    pace_max: int = 4 * MS  # the delay between two messages when the window is all but full
    w_low: int = 16
    w_high: int = 64
    orphans_max: int = 4_096  # messages that wait for their predecessors
    early_max: int = 1_024  # messages of a view that is not installed yet
    ceiling_stride: int = 1_024
    allack: int = 0  # 1: a message is ordered when everybody has spoken, instead of by votes

    @classmethod
    def for_domain(cls, processors: int) -> Self:
        """Return settings that suit a domain of so many processors."""
        return cls().for_crowd(processors)

    def for_crowd(self, processors: int) -> Self:
        """Return the same settings for so many processors.

        Where there are many the window grows with them. The first proposals of a crowd that starts
        together differ, so they get more time to agree.
        """
        crowds = max(1, -(-processors // 16))
        return self._replace(
            w_high=max(self.w_high, W_HIGH_SHARE * processors),
            collect=self.collect * crowds,
            agree=self.agree * crowds,
        )

    def stretched(self, factor: int) -> Self:
        """Return the same settings with every timeout so many times as long."""
        values = self._asdict()
        return self._replace(**{name: values[name] * factor for name in TIMES})

    def silence_max(self) -> int:
        """Return how long nothing need be heard of a member that is well."""
        return 2 * self.heartbeat + self.pace_max

    def patience(self) -> int:
        """Return after how long a silence others suspect a processor."""
        return self.silence_max() + self.probes * self.probe

    def agreement(self) -> int:
        """Return after how long those who do not agree to a change are given up."""
        return self.agree

    def messages_at_once(self) -> int:
        """Return how many messages a processor sends in one go."""
        return self.w_low

    def check(self, processors: int) -> None:
        """Refuse what cannot work in a domain of so many processors."""
        rules = [
            (1 <= processors <= PROCESSORS_MAX, f"1..{PROCESSORS_MAX} processors"),
            (min(self[:-1]) > 0, "every parameter is positive"),
            (self.allack in (0, 1), "allack is 0 or 1"),
            (max(self) <= PARAMETER_MAX, f"every parameter <= {PARAMETER_MAX}"),
            (self.ack_idle <= self.heartbeat, "ack_idle <= heartbeat"),
            (2 * self.nack_delay <= self.heartbeat, "2 * nack_delay <= heartbeat"),
            (self.nack_retry <= self.nack_retry_max, "nack_retry <= nack_retry_max"),
            (self.collect >= self.heartbeat, "collect >= heartbeat"),
            (self.agree >= 2 * self.heartbeat, "agree >= 2 * heartbeat"),
            (self.w_low < self.w_high, "w_low < w_high"),
            (self.w_high >= 2 * processors, "w_high >= 2 * processors"),
            (self.w_high <= self.orphans_max, "w_high <= orphans_max"),
        ]
        for holds, rule in rules:
            if not holds:
                raise BadParameters(f"for {processors} processors the rule is: {rule}")


FAST: Final = Parameters(
    heartbeat=25 * MS, collect=50 * MS, agree=100 * MS, probe=8 * MS, pace_max=2 * MS
)
LAN: Final = Parameters(
    heartbeat=100 * MS,
    ack_idle=20 * MS,
    nack_delay=5 * MS,
    retr_slot=1 * MS,
    collect=200 * MS,
    agree=400 * MS,
    pace_max=20 * MS,
)
WAN: Final = LAN.stretched(5)
PROFILES: Final = {"fast": FAST, "lan": LAN, "wan": WAN}
