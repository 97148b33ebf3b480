"""Planted bugs, each with the test that must notice it.

A mutant replaces one piece of text, found exactly once in one file: of the core, of the library, or
of where a daemon meets it. Its killer is a test or, where no test is directed at it, a range of
swarm seeds. PITFALLS says which mutant stands for which pitfall of the single ring's specification.
"""

from typing import Final

from tests.mutants.mutant import Equivalent
from tests.mutants.planted_in_clients import CLIENT_MUTANTS
from tests.mutants.planted_in_groups import GROUP_MUTANTS
from tests.mutants.planted_in_membership import MEMBERSHIP_MUTANTS
from tests.mutants.planted_in_ordering import ORDERING_MUTANTS
from tests.mutants.planted_in_recovery import RECOVERY_MUTANTS
from tests.mutants.planted_in_transis import TRANSIS_MUTANTS
from tests.mutants.planted_in_unordered import UNORDERED_MUTANTS

MUTANTS: Final = (
    *RECOVERY_MUTANTS,
    *ORDERING_MUTANTS,
    *MEMBERSHIP_MUTANTS,
    *GROUP_MUTANTS,
    *TRANSIS_MUTANTS,
    *UNORDERED_MUTANTS,
    *CLIENT_MUTANTS,
)

EQUIVALENT: Final = (
    Equivalent(
        "the safe line left out of the commit entry",
        "commit.py",
        "whatever is safe is delivered in the same step, so high_delivered is never below my_safe.",
    ),
)

# Pitfalls of the ring's specification, by number: the mutants that fall into them, or why none can.
PITFALLS: Final[dict[int, tuple[str, ...] | str]] = {
    1: ("old ring not frozen", "late old-ring message accepted in recovery"),
    2: ("echoes of a past ring taken as foreign", "old Joins end an operational ring"),
    3: ("fail set cleared early",),
    4: ("consensus waits at random",),
    5: ("a Join heard just before is lost",),
    6: ("second token after conversion",),
    7: ("install_seq from a local counter",),
    8: ("obligation sets dropped", "promise not remembered"),
    9: ("ring seq used above the durable ceiling", "ring seq written after use"),
    10: ("a twin is not noticed",),
    11: ("messages in flight are requested",),
    12: ("requests without bound",),
    13: ("retransmissions not charged to the window", "retransmissions not charged to the visit"),
    14: ("the first token keeps an old aru_id",),
    15: ("queued Joins believed after a pause", "others suspected for my own lateness"),
    16: ("delivery before the token is passed on",),
    17: "The room for encapsulation is reserved by the layer that packs, which is not here yet.",
    18: ("no quarantine", "damping does not double"),
    19: ("consensus of some is enough",),
    20: ("delivery while a ring forms",),
    21: "Timestamps are raised by the layer above at the moment of sending; a ring carries them.",
    22: "A ring id that was made durable and never installed harms nobody.",
    23: ("join timer running in COMMIT", "old Joins throw a forming ring back"),
    24: ("split point from local data", "split point also from other old rings"),
    25: ("a ring of one takes a token",),
}
