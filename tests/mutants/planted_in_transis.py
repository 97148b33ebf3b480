"""Planted bugs: the causal graph, ToTo, flow and membership of a broadcast domain [Transis].

SPECIFIED says which mutant stands for which of those that the specification lists.
"""

from dataclasses import dataclass
from typing import Final

from tests.mutants.mutant import Mutant, Seeds

TRANSIS: Final = "evensong/core/transis/"
UNIT: Final = "tests/core/transis/"
DAG: Final = UNIT + "test_dag.py::"
TOTO: Final = UNIT + "test_toto.py::"
VIEW: Final = UNIT + "test_view.py::"
MEMBERSHIP: Final = UNIT + "test_membership.py::"
HOSTILE: Final = UNIT + "test_hostile.py::"
DIRECTED: Final = "tests/sim/transis/test_directed.py::"


@dataclass(frozen=True)
class TransisMutant(Mutant):
    """A bug planted in Transis."""

    @property
    def path(self) -> str:
        """Return where it is planted, below `src`."""
        return TRANSIS + self.file


def seeds(first: int, last: int) -> Seeds:
    """Return runs of a broadcast domain."""
    return Seeds(first, last, engine="transis")


TRANSIS_MUTANTS: Final = (
    TransisMutant(
        "the last message that follows is the vote",
        "toto.py",
        "range(before[at] + 1, last + 1)",
        "range(1, last + 1)",
        TOTO + "test_members_decide_a_prefix_of_what_all_votes_together_give",
    ),
    TransisMutant(
        "ToTo without the internal test",
        "toto.py",
        "        if not all(self._is_internal(node) for node in unbeaten):\n",
        "        if not unbeaten:\n",
        TOTO + "test_members_decide_a_prefix_of_what_all_votes_together_give",
    ),
    TransisMutant(
        "ToTo without the external test",
        "toto.py",
        "        if not (is_complete or self._is_external(unbeaten)):\n            return []\n",
        "",
        TOTO + "test_an_unknown_candidate_may_come_before",
    ),
    TransisMutant(
        "a voting cycle lasts for ever",
        "toto.py",
        "            return self._take(candidates) if is_complete else []  # a voting cycle\n",
        "            return []\n",
        DIRECTED + "test_a_voting_cycle_ends",
    ),
    TransisMutant(
        "ToTo with the number of the survivors",
        "states.py",
        "        timers.agree.start(now)\n        if agreement.published",
        "        self.view.toto._phi = (self.view.graph.size - sum(self.flow.failed)) // 2\n"
        "        timers.agree.start(now)\n        if agreement.published",
        seeds(4, 5),
    ),
    TransisMutant(
        "what follows a JOIN counts",
        "dag.py",
        "        return not first_join or node.number <= first_join\n",
        "        return first_join >= 0\n",
        DAG + "test_a_second_join_tells_nobody_that_a_message_is_everywhere",
        seeds(28, 29),
    ),
    TransisMutant(
        "regular messages are sent after a JOIN",
        "flow.py",
        "        while not self.is_quiet and source.backlog():\n",
        "        while source.backlog():\n",
        DIRECTED + "test_what_is_submitted_during_a_change_goes_out_in_the_next_view",
    ),
    TransisMutant(
        "finals need not be in the graph",
        "membership.py",
        "        if finals is None or any(self._is_outside(one, view) for one in finals):\n",
        "        if finals is None:\n",
        DIRECTED + "test_a_late_member_gets_what_is_missing_of_the_old_view",
    ),
    TransisMutant(
        "no rule A",
        "flow.py",
        "        return self.view.graph.needed(self.failed) if any(self.failed) else None\n",
        "        return None\n",
        DIRECTED + "test_a_message_of_one_cut_off_that_only_one_got_is_delivered_by_nobody_else",
    ),
    TransisMutant(
        "views named by number and least member",
        "membership.py",
        "zlib.crc32(packed) or 1",
        "sorted(finals)[0][0]",
        MEMBERSHIP + "test_a_view_id_tells_two_agreements_of_one_round_apart",
    ),
    TransisMutant(
        "entries without the number of their view",
        "frames.py",
        '    view_no: int\n\n    def __str__(self) -> str:\n        return f"{self.proc}@',
        "    view_no: int\n\n"
        "    def __eq__(self, other: object) -> bool:\n"
        "        return isinstance(other, tuple) and self[:2] == other[:2]\n\n"
        "    def __hash__(self) -> int:\n"
        "        return hash(self[:2])\n\n"
        '    def __str__(self) -> str:\n        return f"{self.proc}@',
        seeds(2, 3),
    ),
    TransisMutant(
        "a JOIN is repeated as a new message",
        "states.py",
        "        self.flow.repeat_join(agreement.pubs[agreement.me][agreement.current()])\n",
        "        self.flow.originate_join(agreement.current(), now)\n",
        DIRECTED + "test_a_repeated_join_is_the_same_message",
    ),
    TransisMutant(
        "nobody takes a mate's word on who has failed",
        "membership.py",
        "        if is_mate:\n            self.failed.update(proposal.failed)\n",
        "",
        MEMBERSHIP + "test_a_mates_word_on_who_has_failed_is_taken_over_and_a_foreigners_is_not",
    ),
    TransisMutant(
        "the next view is numbered after the least",
        "membership.py",
        "NUMBER_STRIDE + max(entry.view_no for entry in proposal.required())",
        "NUMBER_STRIDE + min(entry.view_no for entry in proposal.required())",
        MEMBERSHIP + "test_a_views_number_is_above_those_of_all_who_come_into_it",
    ),
    TransisMutant(
        "what is left comes in the order of arrival",
        "toto.py",
        "self._take([min(self.candidates, key=_place)]) if self.candidates else []",
        "self._take(self.candidates[:1])",
        VIEW + "test_a_view_that_ends_delivers_what_the_votes_decide_and_then_the_rest_by_name",
    ),
    TransisMutant(
        "the incarnation is not stored",
        "states.py",
        "StableRecord(self.ceiling, self.incarnation, self.timestamp_high)",
        "StableRecord(self.ceiling, 0, self.timestamp_high)",
        seeds(0, 1),
    ),
    TransisMutant(
        "safe at a majority",
        "view.py",
        "            if node.message.service is SAFE and not self.graph.is_stable(node):\n"
        "                break",
        "            if node.message.service is SAFE and node.voters.bit_count() * 2 <= "
        "self.graph.size:\n"
        "                break",
        VIEW + "test_a_safe_message_is_delivered_when_everybody_has_spoken_after_it",
    ),
    TransisMutant(
        "causal messages are delivered when they are inserted",
        "view.py",
        "queue[0].message.service is CAUSAL and self._is_due(queue[0]):",
        "queue[0].message.service is CAUSAL:",
        VIEW + "test_a_causal_message_waits_for_ordered_ones_in_its_past",
    ),
    TransisMutant(
        "nobody asks for what is missing",
        "flow.py",
        "            ranges += [(view.procs[index], first, last) for first, last in missing]\n",
        "",
        DIRECTED + "test_a_lost_message_is_asked_for_once_and_sent_again_by_its_sender",
    ),
    TransisMutant(
        "forgotten when delivered",
        "dag.py",
        "        if node.number <= self.stable[node.index]:\n            self.nodes",
        "        if node.number:\n            self.nodes",
        DIRECTED + "test_any_holder_sends_again_what_its_sender_cannot",
    ),
    TransisMutant(
        "orphans are acknowledged",
        "dag.py",
        "[(members[at][0], self.leaves[at]) for at in sorted(self.leaves) if at != index]",
        "[(members[at][0], n) for at, n in enumerate(self.known) if n and at != index]",
        DAG + "test_only_what_could_be_delivered_is_acknowledged",
    ),
    TransisMutant(
        "no help for who is late",
        "states.py",
        "            for needed in self.passage.help_for(entry, now):\n",
        "            for needed in self.passage.finals[:0]:\n",
        DIRECTED + "test_a_late_member_gets_the_finals_from_who_installed",
    ),
    TransisMutant(
        "the view before is forgotten at once",
        "states.py",
        "        self.previous = old\n",
        "        self.previous = None\n",
        DIRECTED + "test_a_late_member_gets_what_is_missing_of_the_old_view",
    ),
    TransisMutant(
        "null messages only when nobody talks",
        "flow.py",
        "        view.receive_basic(message)\n        return True\n",
        "        view.receive_basic(message)\n"
        "        if not self.is_quiet:\n"
        "            self.timers.heartbeat.start(now)\n"
        "        return True\n",
        DIRECTED + "test_who_only_hears_null_messages_speaks_all_the_same",
    ),
    TransisMutant(
        "a newcomer's JOIN extends an agreement",
        "states.py",
        "            entry in agreement.failed or entry not in agreement.joint\n",
        "            entry in agreement.failed\n",
        DIRECTED + "test_in_an_agreement_a_newcomers_proposal_changes_nothing",
    ),
    TransisMutant(
        "the stuck detector sees heartbeats move",
        "view.py",
        "            self.settled += node.message.kind == REGULAR\n",
        "            self.settled += 1\n",
        DIRECTED + "test_who_holds_the_window_and_still_speaks_is_given_up",
    ),
    TransisMutant(
        "listeners slow a busy sender down",
        "flow.py",
        "self._unacked >= max(1, self._parameters.w_low // 2):",
        "self._unacked >= 2**31:",
        DIRECTED + "test_a_busy_sender_need_not_wait_for_idle_acknowledgements",
    ),
    TransisMutant(
        "everybody answers a request at once",
        "flow.py",
        "            rank = 0 if index == view.my_index else (view.my_index - at) % size or size\n",
        "            rank = 0\n",
        DIRECTED + "test_any_holder_sends_again_what_its_sender_cannot",
    ),
    TransisMutant(
        "who hears an answer never answers",
        "repair.py",
        "        if (index, number) not in self._insisting:\n            self._due",
        "        if index >= 0:\n            self._due",
        DIRECTED + "test_another_holder_answers_who_cannot_hear_the_sender",
    ),
    TransisMutant(
        "a full window does not block",
        "window.py",
        "        if unstable >= self.w_high:\n            return BLOCKED\n",
        "",
        UNIT + "test_window.py::test_the_delay_grows_from_nothing_to_blocked",
    ),
    TransisMutant(
        "others are suspected for my own lateness in a domain",
        "lansis.py",
        "            self.machine.on_pause(now)\n",
        "            pass\n",
        DIRECTED + "test_who_was_suspended_hears_first_what_the_others_said_meanwhile",
    ),
    TransisMutant(
        "who is forgiven has been heard",
        "detection.py",
        "        self._forgiven_at = now\n        self._probes.clear()\n",
        "        for index in range(len(self._heard_at)):\n            self.hear(index, now)\n",
        DIRECTED + "test_who_was_suspended_still_helps_a_late_member",
    ),
    TransisMutant(
        "strangers are never left alone",
        "states.py",
        "            if not self.acquaintances.is_left_alone(proc, now):\n",
        "            if proc:\n",
        DIRECTED + "test_a_stranger_with_whom_nothing_comes_about_is_left_alone_for_a_while",
    ),
    TransisMutant(
        "who comes and goes at once is welcome again at once",
        "detection.py",
        "            if came_at is not None and now - came_at < LASTING",
        "            if came_at is not None and now - came_at < 0",
        DIRECTED + "test_over_a_link_that_carries_one_way_views_change_less_and_less_often",
    ),
    TransisMutant(
        "a new life is left alone for what the one before did",
        "detection.py",
        "            self._forget(proc)  # a new life has done nothing yet\n",
        "            pass\n",
        UNIT + "test_detection.py::test_a_new_life_is_not_left_alone_for_what_the_one_before_did",
    ),
    TransisMutant(
        "why a proposal grows is kept to oneself",
        "states.py",
        "        if self.agreement.conclude() != self.agreement.current():\n",
        "        if not self.agreement.published:\n",
        DIRECTED + "test_why_a_proposal_grows_is_recorded",
    ),
    TransisMutant(
        "a reduced message says nothing of it",
        "view.py",
        "                    if is_safe:\n                        self._unsafe",
        "                    if node.message:\n                        self._unsafe",
        DIRECTED + "test_a_safe_message_in_flight_at_a_partition_is_reduced_on_both_sides",
    ),
    TransisMutant(
        "what comes in a passage has its place in the view",
        "view.py",
        "            message.sender_id,\n            self._conf_id,\n",
        "            message.sender_id,\n            self.view_id,\n",
        VIEW + "test_what_is_safe_for_those_who_go_on_only_comes_in_their_passage",
    ),
    TransisMutant(
        "a passage is named by where it leads",
        "membership.py",
        "view_id_of(view_id.seq - 1, _names(mates))",
        "view_id_of(view_id.seq - 1, [])",
        MEMBERSHIP + "test_a_passage_has_a_name_of_its_own_between_two_views",
    ),
    TransisMutant(
        "no number is left for the passage",
        "membership.py",
        "NUMBER_STRIDE: Final = 2",
        "NUMBER_STRIDE: Final = 1",
        MEMBERSHIP + "test_a_passage_has_a_name_of_its_own_between_two_views",
    ),
    TransisMutant(
        "a basic message comes each time it is heard",
        "flow.py",
        "        if not graph.is_new(index, message.number):\n",
        "        view.receive_basic(message)\n"
        "        if not graph.is_new(index, message.number):\n",
        seeds(1, 2),
    ),
    TransisMutant(
        "who is in no view publishes in mine",
        "states.py",
        "        if is_mate and entry[:2] not in self.view.graph.members:\n",
        "        if is_mate and not entry:\n",
        HOSTILE + "test_who_publishes_in_a_view_without_being_in_it_is_not_heard",
    ),
    TransisMutant(
        "a leap in view numbers is believed",
        "lansis.py",
        "machine.view.view_id.seq + VIEW_NO_LEAP:",
        "machine.view.view_id.seq + 2 * VIEW_NO_LEAP:",
        HOSTILE + "test_a_leap_in_view_numbers_is_not_followed",
    ),
    TransisMutant(
        "with too many publishers I forget what I have published",
        "membership.py",
        "            if len(self.pubs) >= PUBLISHERS_MAX and entry != self.me:\n",
        "            if len(self.pubs) >= PUBLISHERS_MAX:\n",
        HOSTILE + "test_however_many_publish_i_know_what_i_have_published",
    ),
    TransisMutant(
        "who publishes by two entries holds everybody up",
        "states.py",
        "            late = agreement.out_of_reach(self.view) or agreement.doubled()\n",
        "            late = agreement.out_of_reach(self.view)\n",
        HOSTILE + "test_who_publishes_by_two_entries_holds_nobody_up",
    ),
    TransisMutant(
        "whoever might join is kept",
        "detection.py",
        "            if len(self.entries) < ENTRIES_MAX:\n                self",
        "            if entry:\n                self",
        HOSTILE + "test_of_those_who_might_join_no_more_are_kept_than_a_proposal_names",
    ),
    TransisMutant(
        "the first proposals of a noisy publisher are kept",
        "membership.py",
        "                del pubs[next(iter(pubs))]\n",
        "                return\n",
        HOSTILE + "test_of_one_publishers_proposals_the_latest_are_kept",
    ),
    TransisMutant(
        "a member may be far ahead of what everybody has",
        "dag.py",
        "        if message.number > self.stable[index] + AHEAD_MAX:\n",
        "        if message.number > self.inserted[index] + AHEAD_MAX:\n",
        HOSTILE + "test_nothing_is_kept_that_is_far_ahead_of_what_everybody_has",
    ),
)

SPECIFIED: Final[dict[int, tuple[str, ...]]] = {
    1: ("the last message that follows is the vote",),
    2: ("ToTo without the internal test",),
    3: ("ToTo without the external test",),
    4: ("a voting cycle lasts for ever",),
    5: ("ToTo with the number of the survivors",),
    6: ("what follows a JOIN counts",),
    7: ("regular messages are sent after a JOIN",),
    8: ("finals need not be in the graph",),
    9: ("no rule A",),
    10: ("views named by number and least member",),
    11: ("entries without the number of their view",),
    12: ("a JOIN is repeated as a new message",),
    13: ("nobody takes a mate's word on who has failed",),
    14: ("the next view is numbered after the least",),
    15: ("what is left comes in the order of arrival",),
    16: ("the incarnation is not stored",),
    17: ("safe at a majority",),
    18: ("causal messages are delivered when they are inserted",),
    19: ("nobody asks for what is missing",),
    20: ("forgotten when delivered",),
    21: ("orphans are acknowledged",),
    22: ("no help for who is late", "the view before is forgotten at once"),
    23: ("null messages only when nobody talks",),
    24: ("a newcomer's JOIN extends an agreement",),
}
