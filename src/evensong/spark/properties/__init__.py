"""Every property of the audit, in the order of the catalogue.

A property is a pure function of a `History` to a `Finding`: how many rows it is about, and the rows
that break it. No violation means that it holds.
"""

from typing import Final

from evensong.core import engine
from evensong.spark.properties import deliveries, membership, timing
from evensong.spark.properties.finding import Finding, Property
from evensong.spark.properties.groups import GROUPS
from evensong.spark.properties.transis import SHARED, TRANSIS
from evensong.trace import judge

__all__ = ["BY_ENGINE", "OF_CONFIGURATIONS", "OF_GROUPS", "PROPERTIES", "Finding", "Property"]

RING: Final = (
    Property(
        "EVS1.1",
        "no cycle of causes",
        "Nothing happens before itself: what you reply to has been said.",
        deliveries.partial_order,
    ),
    Property(
        "EVS1.2",
        "one order at each process",
        "What a process did is one sequence; a restarted process is another one.",
        membership.process_order,
    ),
    Property(
        "EVS1.3",
        "delivered means sent",
        "A message comes from who it says, with the content it was sent with.",
        deliveries.sent_before,
    ),
    Property(
        "EVS1.4",
        "sent once, delivered once",
        "No message comes twice; no need to remember what you have seen.",
        deliveries.sent_once,
    ),
    Property(
        "EVS2.1",
        "who stays, stays with all members",
        "The members you are shown at the end are the ones that are with you.",
        membership.stays_together,
    ),
    Property(
        "EVS2.2",
        "everything in its configuration",
        "Each message is delivered in the membership it is labelled with.",
        deliveries.inside_span,
    ),
    Property(
        "EVS2.3",
        "changes are clean cuts",
        "A change of membership lies between the same messages for everybody (with EVS2.4).",
        deliveries.consistent_cuts,
    ),
    Property(
        "EVS3",
        "you hear yourself",
        "What you sent comes back to you in order, unless you fail first.",
        deliveries.self_delivery,
    ),
    Property(
        "EVS4",
        "who goes on together has the same messages",
        "After a change, members that came along with you need no exchange of what they missed.",
        deliveries.failure_atomicity,
    ),
    Property(
        "EVS5",
        "causal order",
        "An answer never comes before its question.",
        deliveries.causal_order,
    ),
    Property(
        "EVS6.1",
        "numbers rise",
        "The position of a message grows along every process; it can serve as a clock.",
        deliveries.numbering,
    ),
    Property(
        "EVS6.2",
        "one number a message",
        "Everybody sees a message under the same position, and no other there.",
        deliveries.same_number,
    ),
    Property(
        "EVS6.3",
        "no holes",
        "Whoever has a message has what came before it, from everyone still there.",
        deliveries.no_holes,
    ),
    Property(
        "EVS7.1",
        "safe means everybody",
        "A message delivered as safe reaches every member, unless the member fails.",
        deliveries.safe_delivery,
    ),
    Property(
        "EVS7.2",
        "safe means everybody is in",
        "A safe message tells that all members have installed the membership.",
        membership.safe_after_all_installed,
    ),
    Property(
        "TM1",
        "one id, one membership",
        "Two processes with the same view id have the same members.",
        membership.uniqueness,
    ),
    Property(
        "TM2",
        "membership is agreed",
        "Nobody is made a member who did not agree.",
        membership.consensus,
    ),
    Property(
        "TM4",
        "the same change for all",
        "Processes that change together are told the same about the change.",
        membership.same_change,
    ),
    Property(
        "TR2",
        "delivered where it was sent",
        "A message never leaks into a later membership.",
        deliveries.in_its_configuration,
    ),
    Property(
        "TR3",
        "without changes, everything arrives",
        "While nobody fails, every member gets every message.",
        deliveries.all_delivered,
    ),
    Property(
        "TG",
        "one order for all",
        "All processes' orders fit into a single one, judged without the protocol's numbers.",
        deliveries.global_order,
    ),
    Property(
        "TF1",
        "the window is kept",
        "No sender floods the ring beyond its share.",
        timing.window,
    ),
    Property(
        "TF2",
        "one token",
        "Two processes never hold the token of one ring at once.",
        timing.token_uniqueness,
    ),
    Property(
        "TF3",
        "stable means everybody has it",
        "What is said to be stable need not be kept: every member has it.",
        deliveries.stable_line,
    ),
    Property(
        "FIFO",
        "each sender in order",
        "What one process says is heard in the order it was said.",
        deliveries.sender_order,
    ),
    Property(
        "LV-1",
        "what was submitted arrives",
        "A process that lives on, and its members, deliver all that it submitted.",
        deliveries.submitted_delivered,
    ),
    Property(
        "LV-2",
        "it settles in time",
        "So long after the last fault everyone is in its final membership (TM3).",
        timing.settles,
    ),
    Property(
        "LV-3",
        "no state lasts too long",
        "Forming a ring does not go on forever.",
        timing.leaves_states,
    ),
)

# What can be judged where only configurations were recorded.
OF_CONFIGURATIONS: Final = judge.OF_CONFIGURATIONS

# What is judged by what clients were told.
OF_GROUPS: Final = tuple(one.id for one in GROUPS)

PROPERTIES: Final[dict[str, Property]] = {one.id: one for one in (*RING, *TRANSIS, *GROUPS)}

# What runs of each engine are held to.
BY_ENGINE: Final = {
    engine.TOTEM: tuple(one.id for one in (*RING, *GROUPS)),
    engine.TRANSIS: (*SHARED, *(one.id for one in (*TRANSIS, *GROUPS))),
}
