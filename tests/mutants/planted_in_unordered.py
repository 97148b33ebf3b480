"""Planted bugs: what is not ordered, where an engine has it, above which groups have views."""

from typing import Final

from tests.mutants.mutant import Seeds
from tests.mutants.planted_in_groups import GroupMutant

UNORDERED: Final = "tests/core/groups/test_unordered.py::"
TRANSFER: Final = "tests/core/groups/test_transfer.py::"


def runs(seed: int) -> Seeds:
    """Return the run with clients of a broadcast domain that catches a mutant, too."""
    return Seeds(seed, seed + 1, clients=True, engine="transis")


UNORDERED_MUTANTS: Final = (
    GroupMutant(
        "joins and leaves are agreed beside causal messages",
        "sendqueue.py",
        "Service.SAFE if self.has_unordered else Service.AGREED",
        "Service.AGREED",
        UNORDERED + "test_joins_and_leaves_are_safe_where_something_is_not_ordered",
    ),
    GroupMutant(
        "notes are agreed beside causal messages",
        "sendqueue.py",
        "        if flags & SAFE or is_note:\n",
        "        if flags & SAFE:\n",
        UNORDERED + "test_notes_are_safe_where_something_is_not_ordered",
    ),
    GroupMutant(
        "a basic packet does not wait for the view it was sent in",
        "layer.py",
        "as_of > self.directory.counter:",
        "as_of < 0:",
        UNORDERED + "test_a_basic_packet_waits_for_the_view_in_which_it_was_sent",
        runs(57),
    ),
    GroupMutant(
        "a basic packet leans on announcements",
        "sendqueue.py",
        "        if item.service is Service.BASIC:\n"
        "            return self._take_basic(session, lane, item, filling)\n",
        "",
        UNORDERED + "test_a_basic_packet_may_overtake_the_announcement_of_its_destination",
        runs(0),
    ),
    GroupMutant(
        "a causal frame in an agreed packet",
        "sendqueue.py",
        "return service is Service.CAUSAL and mine is None",
        "return service is Service.CAUSAL and mine is not Service.BASIC",
        UNORDERED + "test_a_packet_is_of_one_service_and_the_lane_keeps_its_order",
    ),
    GroupMutant(
        "pieces of a causal frame are agreed",
        "sendqueue.py",
        "Service.CAUSAL if item.service is Service.CAUSAL else Service.AGREED",
        "Service.AGREED",
        UNORDERED + "test_what_is_too_large_for_a_packet_is_causal_in_all_its_pieces",
    ),
    GroupMutant(
        "what is causal is sent as basic",
        "sendqueue.py",
        "        if flags & CAUSAL:\n"
        "            return Service.CAUSAL\n"
        "        assert flags & BASIC\n",
        "",
        UNORDERED + "test_a_packet_is_of_one_service_and_the_lane_keeps_its_order",
        runs(0),
    ),
    GroupMutant(
        "what is not ordered is held as if no snapshot had it",
        "transfer.py",
        "            self._held.append((self._last_place, message))\n",
        "            self._held.append((place or (NO_RING._replace(seq=2**63), 0, 0), message))\n",
        TRANSFER + "test_what_is_not_ordered_is_held_behind_what_it_came_behind",
        runs(3),
    ),
)
