"""Who and where: processor ids, ring ids and configurations.

A processor id is an unsigned 32-bit integer that survives restarts; 0 means nobody. A ring id is
the pair (seq, rep), ordered lexicographically, and prints as `8.1`. A configuration is what the
layer above sees of a ring: regular (the ring's own id and members) or transitional (the members of
the old ring that go together into the new one) [SRP §3].
"""

from typing import Final, NamedTuple, TypeAlias, final

ProcessorId: TypeAlias = int

NO_PROCESSOR: Final[ProcessorId] = 0
PROCESSOR_MAX: Final = 2**32 - 1
PROCESSORS_MAX: Final = 128  # the largest ring; it bounds every set of processors that is stored


class RingId(NamedTuple):
    """The identity of a ring or configuration; never used twice."""

    seq: int
    rep: ProcessorId

    def __str__(self) -> str:
        return f"{self.seq}.{self.rep}"


NO_RING: Final = RingId(0, NO_PROCESSOR)


@final
class Configuration:
    """A configuration as it is delivered, in order with the messages around it."""

    __slots__ = ("cause", "conf_id", "members", "prev_id", "transitional")

    def __init__(
        self,
        conf_id: RingId,
        prev_id: RingId,
        members: tuple[ProcessorId, ...],
        *,
        transitional: bool,
        cause: str,
    ) -> None:
        self.conf_id: Final = conf_id
        self.prev_id: Final = prev_id
        self.members: Final = members  # ascending
        self.transitional: Final = transitional
        self.cause: Final = cause  # why the configuration before it ended

    def __repr__(self) -> str:
        kind = "transitional" if self.transitional else "regular"
        members = ",".join(map(str, self.members))
        return f"<{kind} {self.conf_id} of {members} after {self.prev_id}: {self.cause}>"
