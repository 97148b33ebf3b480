"""Planted bugs: the exchange of old messages, promises, and the end of a ring [SRP §6]."""

from typing import Final

from tests.mutants.mutant import DIRECTED, UNIT, Mutant

RECOVERY_MUTANTS: Final = (
    Mutant(
        "old ring not frozen",
        "recovery.py",
        "ending.frozen = True",
        "ending.frozen = False",
        DIRECTED + "test_s11_a_departed_senders_message_reaches_one_member_late",
    ),
    Mutant(
        "late old-ring message accepted in recovery",
        "states.py",
        "if old.ending.frozen:",
        "if old.ending.frozen and self.state is not State.RECOVERY:",
        DIRECTED + "test_s11_a_departed_senders_message_reaches_one_member_late",
    ),
    Mutant(
        "old ring thawed by a failed recovery",
        "states.py",
        "        self.recovery = None  # a failed recovery;",
        "        self.old.ending.frozen = False\n"
        "        self.recovery = None  # a failed recovery;",
        UNIT + "test_states.py::test_the_old_ring_stays_frozen_when_recovery_fails",
    ),
    # With the promise at the second quiet visit, everybody has promised by anybody's third: the
    # paper's fourth visit is a margin that no schedule of ours tells from the third.
    Mutant(
        "install one rotation early",
        "recovery.py",
        "return self.install_rotations == 2",
        "return self.install_rotations == 1",
        UNIT + "test_recovery.py"
        "::test_a_ring_is_installed_two_rotations_after_everybody_has_the_exchange",
    ),
    Mutant(
        "count two quiet visits instead of three",
        "recovery.py",
        "if self.retrans_flg_count >= 3 and",
        "if self.retrans_flg_count >= 2 and",
        UNIT + "test_recovery.py"
        "::test_a_ring_is_installed_two_rotations_after_everybody_has_the_exchange",
    ),
    Mutant(
        "install two rotations early",
        "recovery.py",
        """        if self.retrans_flg_count >= 3 and token.aru >= self.install_seq:
            self.install_rotations += 1
        else:
            self.install_rotations = 0
        return self.install_rotations == 2
""",
        """        return self.retrans_flg_count >= 2 and token.aru >= self.install_seq
""",
        DIRECTED + "test_s13_those_who_installed_part_from_those_who_did_not",
    ),
    Mutant(
        "install without waiting for the aru",
        "recovery.py",
        "if self.retrans_flg_count >= 3 and token.aru >= self.install_seq:",
        "if self.retrans_flg_count >= 3:",
        UNIT + "test_recovery.py::test_an_aru_short_of_the_end_holds_installation_up",
    ),
    Mutant(
        "obligation sets dropped",
        "recovery.py",
        """frozenset(self.trans_memb).union(
            *[entry.obligation.intersection(old.members) for entry in together]
        )""",
        "frozenset(self.trans_memb)",
        DIRECTED + "test_s13_those_who_installed_part_from_those_who_did_not",
    ),
    Mutant(
        "obligations to processors that the old ring did not have",
        "recovery.py",
        "entry.obligation.intersection(old.members)",
        "entry.obligation",
        UNIT + "test_recovery.py::test_nobody_is_obliged_to_processors_of_other_rings",
    ),
    Mutant(
        "the split point told as the safe line",
        "recovery.py",
        "    safe_line = old.my_safe\n",
        "    safe_line = high_ring_delivered\n",
        UNIT + "test_recovery.py::test_a_delivery_does_not_tell_more_of_the_safe_line_than_is_true",
    ),
    Mutant(
        "nothing exchanged if anybody has promised",
        "recovery.py",
        "        all_received = all(\n",
        "        all_received = any(\n",
        UNIT + "test_recovery.py::test_one_who_has_not_promised_makes_all_exchange_again",
    ),
    Mutant(
        "promise not remembered",
        "recovery.py",
        "        ending.deliver_memb = self.deliver_memb\n",
        "",
        DIRECTED + "test_s12_the_token_dies_at_a_hop_of_recovery",
    ),
    Mutant(
        "obligation taken over on entering recovery",
        "recovery.py",
        "        self.retrans_queue: Final[deque[int]] = deque()\n",
        "        ending.deliver_memb = self.deliver_memb\n"
        "        self.retrans_queue: Final[deque[int]] = deque()\n",
        UNIT + "test_recovery.py::test_an_obligation_is_taken_over_with_the_promise_and_not_before",
    ),
    Mutant(
        "promise before everything is here",
        "recovery.py",
        "if self.retrans_flg_count >= 2 and my_aru >= self.install_seq:",
        "if self.retrans_flg_count >= 2:",
        UNIT + "test_recovery.py::test_the_exchange_ends_where_the_token_says_not_where_i_am",
    ),
    Mutant(
        "install_seq from a local counter",
        "recovery.py",
        "self.install_seq = token.seq",
        "self.install_seq = my_aru",
        UNIT + "test_recovery.py::test_the_exchange_ends_where_the_token_says_not_where_i_am",
    ),
    Mutant(
        "split point from local data",
        "recovery.py",
        "self.high_ring_delivered: Final = max(entry.high_delivered for entry in together)",
        "self.high_ring_delivered: Final = max(old.my_safe, old.ending.high_ring_delivered)",
        UNIT + "test_recovery.py::test_the_split_point_comes_from_the_commit_token_alone",
    ),
    Mutant(
        "split point also from other old rings",
        "recovery.py",
        "max(entry.high_delivered for entry in together)",
        "max(entry.high_delivered for entry in commit.memb)",
        UNIT + "test_recovery.py::test_the_split_point_comes_from_the_commit_token_alone",
    ),
    Mutant(
        "everything delivered behind a gap",
        "recovery.py",
        "elif not after_gap or messages[later].sender_id in old.ending.deliver_memb:",
        "else:",
        UNIT + "test_recovery.py::test_behind_a_gap_only_obligated_senders_are_delivered",
    ),
    Mutant(
        "departed senders dropped without a gap",
        "recovery.py",
        "elif not after_gap or messages[later].sender_id in old.ending.deliver_memb:",
        "elif messages[later].sender_id in old.ending.deliver_memb:",
        UNIT + "test_recovery.py::test_without_a_gap_a_departed_senders_messages_are_delivered_too",
    ),
    Mutant(
        "safe messages delivered in the regular part",
        "recovery.py",
        "if message.service is Service.SAFE and seq > high_ring_delivered:",
        "if seq < 0:",
        DIRECTED + "test_s9_a_safe_message_in_flight_at_a_partition_is_transitional_on_both_sides",
    ),
    Mutant(
        "only the first half is exchanged",
        "recovery.py",
        "sorted(seq for seq in messages if seq > low_ring_aru)",
        "sorted(seq for seq in messages if seq > old.buffer.aru)",
        DIRECTED + "test_s12_the_token_dies_at_a_hop_of_recovery",
    ),
    Mutant(
        "anybody resets retrans_flg",
        "recovery.py",
        "elif token.retrans_flg and token.retrans_setter == my_id:",
        "elif token.retrans_flg:",
        UNIT + "test_recovery.py::test_nobody_else_resets_the_flag_or_signs_it_over",
    ),
    Mutant(
        "recovery traffic never released",
        "holder.py",
        "            ring.consume_recovery_traffic()\n",
        "",
        DIRECTED + "test_an_exchange_larger_than_the_buffers_horizon_ends",
    ),
    Mutant(
        "application messages sent in recovery",
        "holder.py",
        "            sent, weight = self._broadcast_old(token, recovery, repairs)\n",
        "            sent, weight = self._broadcast_old(token, recovery, repairs)\n"
        "            sent += self._broadcast_new(token, 1, repairs + sent)[0]\n",
        UNIT + "test_states.py::test_in_recovery_the_new_rings_token_goes_round"
        "_and_no_application_message_is_sent",
    ),
    Mutant(
        "second token after conversion",
        "states.py",
        "                recovery.token_originated = True\n",
        "",
        UNIT + "test_states_forming.py"
        "::test_the_representative_makes_the_commit_token_the_new_rings_token_once",
    ),
    Mutant(
        "what earlier passes taught is forgotten",
        "commit.py",
        "max(old.high_delivered, old.my_safe, ending.high_ring_delivered)",
        "max(old.high_delivered, old.my_safe)",
        UNIT + "test_commit.py::test_what_an_earlier_pass_taught_and_promised_is_told_again",
    ),
    Mutant(
        "a promise is not told in the commit token",
        "commit.py",
        "        ending.received_flg,\n",
        "        False,\n",
        UNIT + "test_commit.py::test_what_an_earlier_pass_taught_and_promised_is_told_again",
    ),
    Mutant(
        "delivery while a ring forms",
        "states.py",
        "            old.buffer.add(message.seq, message)\n",
        "            old.buffer.add(message.seq, message)\n"
        "            self.effects.extend(old.deliver_ready())\n",
        UNIT + "test_states.py::test_a_message_of_the_ring_that_ends_is_kept_and_not_delivered",
    ),
    Mutant(
        "the first token keeps an old aru_id",
        "commit.py",
        "token = RegularToken(recovery.ring_id)",
        "token = RegularToken(recovery.ring_id, aru_id=recovery.commit.memb[-1].member_id)",
        UNIT + "test_commit.py::test_conversion_makes_a_new_rings_first_token",
    ),
)
