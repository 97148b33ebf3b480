"""Consensus on who is in the next ring: proc_set, fail_set and the Joins that carry them [SRP §5].

Both sets only grow until a ring is installed; that bounds how long it can take.
Invariant: fail_set is part of proc_set, and this processor is never in its own fail_set.
"""

from enum import Enum
from random import Random
from typing import Final, NamedTuple, final

from evensong.core.ids import PROCESSORS_MAX, ProcessorId
from evensong.core.totem.frames import Join
from evensong.core.totem.parameters import Parameters

# How far one Join can take me ahead: more than processors get apart in a lifetime. To refuse a
# larger leap would keep out for ever who has made it; to follow it whole would let one Join use up
# all ids.
RING_SEQ_LEAP: Final = 2**40


class Weight(Enum):
    """What a Join means to its receiver."""

    AGREES = "the same sets as mine"
    BEHIND = "no more than I know"
    IGNORED = "from a processor that I hold to have failed, or too large"
    NEWS = "my sets have grown"


@final
class Membership:
    """One processor's proposal for the next ring, and who is known to share it."""

    __slots__ = (
        "agreed",
        "fail_set",
        "failed_attempts",
        "last_joins",
        "max_join_seq",
        "my_id",
        "my_memb",
        "proc_set",
    )

    def __init__(self, my_id: ProcessorId) -> None:
        self.my_id: Final = my_id
        self.my_memb: frozenset[ProcessorId] = frozenset([my_id])  # of the ring installed last
        self.proc_set: frozenset[ProcessorId] = self.my_memb
        self.fail_set: frozenset[ProcessorId] = frozenset()
        self.agreed: frozenset[ProcessorId] = self.my_memb  # those who proposed the same as I
        self.last_joins: Final[dict[ProcessorId, Join]] = {}
        self.max_join_seq = 0
        self.failed_attempts: Final[dict[tuple[ProcessorId, ...], int]] = {}

    def proposed(self) -> tuple[ProcessorId, ...]:
        """Return the members of the ring that I would form, ascending."""
        return tuple(sorted(self.proc_set - self.fail_set))

    def has_consensus(self) -> bool:
        """Whether everybody I propose has proposed the same."""
        return self.proc_set - self.fail_set <= self.agreed

    def begin_round(self) -> tuple[tuple[ProcessorId, ...], tuple[ProcessorId, ...]]:
        """Forget who agreed, but for those whose last Join already says what I say now.

        Return what that is: with whom I would form a ring, and whom I have given up.
        """
        agreed = [self.my_id]
        for sender_id, join in self.last_joins.items():
            if join.proc_set == self.proc_set and join.fail_set == self.fail_set:
                agreed.append(sender_id)  # else a Join heard just before I changed would be lost
        self.agreed = frozenset(agreed)
        return self.proposed(), tuple(sorted(self.fail_set))

    def can_add(self, processor_id: ProcessorId) -> bool:
        """Whether the proposal has room for this processor."""
        return processor_id in self.proc_set or len(self.proc_set) < PROCESSORS_MAX

    def add(self, processor_id: ProcessorId) -> None:
        """Propose a processor that was heard."""
        self.proc_set |= {processor_id}

    def fail(self, processor_id: ProcessorId) -> None:
        """Hold a proposed processor to have failed."""
        assert processor_id != self.my_id
        self.proc_set |= {processor_id}
        self.fail_set |= {processor_id}

    def fail_silent(self) -> frozenset[ProcessorId]:
        """Give up on those who did not agree in time; return them [SRP §5]."""
        silent = self.proc_set - self.fail_set - self.agreed
        self.fail_set |= silent
        self.last_joins.clear()
        return silent

    def count_failed_attempt(self, members: tuple[ProcessorId, ...], limit: int) -> ProcessorId:
        """Count a formation that came to nothing; past the limit, fail and return somebody.

        Who is blamed matters little, it serves termination: the highest id but mine [Amir95].
        """
        attempts = self.failed_attempts.get(members, 0) + 1
        self.failed_attempts[members] = attempts
        self.last_joins.clear()  # who agreed to it may be gone by now: let everybody say so again
        candidates = [member for member in self.proposed() if member != self.my_id]
        if attempts <= limit or not candidates:
            return 0
        self.fail(candidates[-1])
        return candidates[-1]

    def weigh(self, join: Join) -> Weight:
        """Take a Join in [SRP §5]."""
        proc_set = self.proc_set | join.proc_set
        if len(proc_set) > PROCESSORS_MAX:
            return Weight.IGNORED
        if join.ring_seq > self.max_join_seq:
            self.max_join_seq = min(join.ring_seq, self.max_join_seq + RING_SEQ_LEAP)
        if join.proc_set == self.proc_set and join.fail_set == self.fail_set:
            self.agreed |= {join.sender_id}
            return Weight.AGREES
        if join.proc_set <= self.proc_set and join.fail_set <= self.fail_set:
            return Weight.BEHIND  # it will catch up
        if join.sender_id in self.fail_set:
            return Weight.IGNORED
        self.proc_set = proc_set
        if self.my_id in join.fail_set:
            self.fail_set |= {join.sender_id}  # it cannot hear me; we will not share a ring
        elif join.sender_id in self.my_memb:
            self.fail_set |= join.fail_set
        else:
            self.fail_set |= join.fail_set - self.my_memb  # an outsider may not break up my ring
        self.last_joins[join.sender_id] = join
        return Weight.NEWS

    def install(self, members: tuple[ProcessorId, ...]) -> frozenset[ProcessorId]:
        """Start afresh from an installed ring; return those who were proposed and did not come."""
        absent = self.proc_set.difference(members)
        self.my_memb = frozenset(members)
        self.proc_set = self.my_memb
        self.fail_set = frozenset()
        self.agreed = frozenset([self.my_id])
        self.last_joins.clear()
        self.failed_attempts.clear()
        return absent


class _Stranger(NamedTuple):
    misses: int  # formations in a row that began with it and ended without it
    quiet_until: int  # its beacons and messages are not reacted to before
    shut_until: int  # its Joins neither: quarantine
    accusations: int = 0  # of failing to receive, in short succession
    deaf_until: int = 0  # for these, nothing that it says is reacted to before


@final
class Strangers:
    """Processors that were heard and never came: a deaf one must not reform the ring for ever.

    Deviation: ours, not the paper's; see docs/deviations.md#damping.
    """

    __slots__ = ("parameters", "rng", "strangers")

    FACTOR_MAX: Final = 16
    DEAF_FACTOR_MAX: Final = 8

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        self.parameters: Final = parameters
        self.rng: Final = rng
        self.strangers: Final[dict[ProcessorId, _Stranger]] = {}

    def missed(self, processor_ids: frozenset[ProcessorId], now: int) -> None:
        """Note that a ring was installed without these processors, which it had begun with."""
        beacon = self.parameters.beacon
        for processor_id in sorted(processor_ids):
            known = self.strangers.pop(processor_id, None)
            misses = known.misses + 1 if known else 1
            wait = beacon * min(self.FACTOR_MAX, 2 ** (misses - 1))
            quiet_until = now + wait + self.rng.randrange(wait)
            is_shut = misses > self.parameters.form_retry_limit
            shut_until = now + self.FACTOR_MAX * beacon if is_shut else now
            before = (known.accusations, known.deaf_until) if known else (0, 0)
            self._note(processor_id, _Stranger(misses, quiet_until, shut_until, *before))

    def accuse(self, processor_id: ProcessorId, now: int) -> None:
        """Note that a processor was left out because it failed to receive.

        It hears Joins and tokens, so it would be back at once and stop the ring again. It stays out
        for longer each time; having been in a ring meanwhile is no excuse, unless it was for long.
        """
        known = self.strangers.pop(processor_id, None) or _Stranger(0, now, now)
        wait_max = self.DEAF_FACTOR_MAX * self.parameters.fail_to_rcv_time
        is_again = known.accusations and now < known.deaf_until + 2 * wait_max
        accusations = known.accusations + 1 if is_again else 1
        wait = min(wait_max, self.parameters.fail_to_rcv_time * 2 ** min(accusations, 8))
        self._note(processor_id, known._replace(accusations=accusations, deaf_until=now + wait))

    def _note(self, processor_id: ProcessorId, stranger: _Stranger) -> None:
        self.strangers[processor_id] = stranger
        if len(self.strangers) > PROCESSORS_MAX:
            del self.strangers[next(iter(self.strangers))]  # the one noted longest ago

    def came(self, members: tuple[ProcessorId, ...]) -> None:
        """Forget what was held against processors that are in the ring now, but for deafness."""
        for member in members:
            stranger = self.strangers.pop(member, None)
            if stranger is not None and stranger.accusations:
                self._note(member, _Stranger(0, 0, 0, stranger.accusations, stranger.deaf_until))

    def is_quiet(self, processor_id: ProcessorId, now: int) -> bool:
        """Whether its beacons and messages are not to be reacted to yet."""
        stranger = self.strangers.get(processor_id)
        return stranger is not None and now < max(stranger.quiet_until, stranger.deaf_until)

    def is_shut_out(self, processor_id: ProcessorId, now: int) -> bool:
        """Whether even its Joins are not to be reacted to yet."""
        stranger = self.strangers.get(processor_id)
        return stranger is not None and now < stranger.shut_until

    def is_deaf(self, processor_id: ProcessorId, now: int) -> bool:
        """Whether it was accused of failing to receive, and not long enough ago."""
        stranger = self.strangers.get(processor_id)
        return stranger is not None and now < stranger.deaf_until
