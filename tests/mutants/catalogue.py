"""Planted bugs, each with the test that must notice it.

A mutant replaces one piece of text, found exactly once in one file of the core. Its killer is a
test or, where no test is directed at it, a range of swarm seeds. PITFALLS says which mutant stands
for which pitfall of the single ring's specification.
"""

from dataclasses import dataclass
from typing import Final

TOTEM: Final = "evensong/core/totem/"
UNIT: Final = "tests/core/totem/"
DIRECTED: Final = "tests/sim/test_directed.py::"


@dataclass(frozen=True)
class Seeds:
    """Swarm seeds, from the first up to but without the last."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"swarm seeds {self.first}:{self.last}"


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    file: str
    old: str
    new: str
    killer: str | Seeds

    @property
    def path(self) -> str:
        """Return where it is planted, below `src`."""
        return TOTEM + self.file

    def plant(self, source: str) -> str:
        """Return the source with the bug in it."""
        found = source.count(self.old)
        assert found == 1, f"{self.name}: its text is found {found} times in {self.path}"
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class Equivalent:
    """A change that no run can notice, and why."""

    name: str
    file: str
    reason: str


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
        "            sent = self._broadcast_old(token, recovery, resent)\n",
        "            sent = self._broadcast_old(token, recovery, resent)\n"
        "            sent += self._broadcast_new(token, resent + sent)\n",
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

ORDERING_MUTANTS: Final = (
    Mutant(
        "safe line from one visit",
        "ordering.py",
        "line = min(token.aru, self.aru_forwarded)",
        "line = token.aru",
        "tests/sim/test_directed.py::test_a_safe_message_waits_for_the_last_to_receive_it",
    ),
    Mutant(
        "aru raised by another",
        "ordering.py",
        "if my_aru < token.aru or token.aru_id == self.my_id or token.aru_id == NO_PROCESSOR:",
        "if my_aru != token.aru or token.aru_id == self.my_id or token.aru_id == NO_PROCESSOR:",
        "tests/sim/test_directed.py::test_a_safe_message_waits_for_the_last_to_receive_it",
    ),
    Mutant(
        "duplicate token accepted",
        "states.py",
        "if token.token_seq <= ring.my_token_seq:",
        "if token.token_seq < 0:",
        UNIT + "test_states.py::test_a_token_already_acted_on_is_dropped",
    ),
    Mutant(
        "resting token taken twice",
        "states.py",
        "if token.token_seq <= ring.my_token_seq:",
        "if token.token_seq < ring.my_token_seq:",
        UNIT + "test_states.py::test_a_token_that_rests_here_is_not_taken_twice",
    ),
    Mutant(
        "my_token_seq not raised on forwarding",
        "ordering.py",
        "        self.my_token_seq = token.token_seq\n        return Unicast",
        "        return Unicast",
        UNIT + "test_ordering.py"
        "::test_the_token_goes_to_the_next_id_and_from_the_last_to_the_first",
    ),
    Mutant(
        "a safe message does not block",
        "ordering.py",
        "if message is None or (message.service is Service.SAFE and message.seq > self.my_safe):",
        "if message is None:",
        UNIT + "test_ordering.py::test_a_safe_message_blocks_those_behind_it_until_it_is_safe",
    ),
    Mutant(
        "released before it is everywhere",
        "ordering.py",
        "upto = min(self.my_safe, self.high_delivered)",
        "upto = self.high_delivered",
        Seeds(0, 20),
    ),
    Mutant(
        "released before it is delivered",
        "ordering.py",
        "upto = min(self.my_safe, self.high_delivered)",
        "upto = self.my_safe",
        UNIT + "test_ordering.py::test_only_what_is_delivered_and_safe_is_forgotten",
    ),
    Mutant(
        "requests without bound",
        "ordering.py",
        "token.rtr = ranges(wanted)[: self.parameters.rtr_max]",
        "token.rtr = ranges(wanted)",
        UNIT + "test_ordering.py::test_requests_are_bounded_oldest_first",
    ),
    Mutant(
        "messages in flight are requested",
        "ordering.py",
        "upto = seqs_visited[0]",
        "upto = seqs_visited[-1]",
        UNIT + "test_ordering.py::test_a_message_is_requested_after_it_was_missed_so_often",
    ),
    Mutant(
        "others' requests overwritten",
        "ordering.py",
        "        if token.rtr:\n            wanted = sorted({*wanted, *elements(token.rtr)})\n",
        "",
        UNIT + "test_ordering.py::test_what_is_missing_is_requested_with_what_others_asked_for",
    ),
    Mutant(
        "answered requests stay",
        "ordering.py",
        "        token.rtr = ranges(left)\n",
        "",
        UNIT + "test_ordering.py::test_requests_are_answered_oldest_first_and_taken_off",
    ),
    Mutant(
        "Sent after Broadcast",
        "ordering.py",
        "            effects.append(Sent(self.ring_id, message.seq, packet))\n"
        "            effects.append(self._broadcast(message, 0))\n",
        "            effects.append(self._broadcast(message, 0))\n"
        "            effects.append(Sent(self.ring_id, message.seq, packet))\n",
        UNIT + "test_ordering.py::test_a_message_is_known_as_sent_before_it_is_broadcast",
    ),
    Mutant(
        "delivery before the token is passed on",
        "holder.py",
        "        forward = ring.pass_on(token)\n",
        "        forward = ring.pass_on(token)\n"
        "        if recovery is None:\n"
        "            self.deliver()\n",
        UNIT + "test_states.py::test_the_token_is_passed_on_before_anything_is_delivered",
    ),
    Mutant(
        "retransmissions not charged to the window",
        "holder.py",
        "ring.flow.account(token, sent + resent, backlog)",
        "ring.flow.account(token, sent, backlog)",
        Seeds(0, 20),
    ),
    Mutant(
        "retransmissions not charged to the visit",
        "flow.py",
        "min(allowed - resent, window_left - resent - requested, room)",
        "min(allowed, window_left - resent - requested, room)",
        UNIT + "test_flow.py::test_retransmissions_are_charged_to_the_allowance",
    ),
    Mutant(
        "no room left for requests",
        "flow.py",
        "window_left - resent - requested",
        "window_left - resent",
        UNIT + "test_flow.py::test_new_messages_leave_room_for_requests_still_open",
    ),
    Mutant(
        "my own last visit counted against me",
        "flow.py",
        "window_left = window - (token.fcc - self.my_trc)",
        "window_left = window - token.fcc",
        UNIT + "test_flow.py::test_the_window_leaves_out_what_others_sent_but_not_what_i_did",
    ),
    Mutant(
        "receive buffers without bound",
        "flow.py",
        "window_left - resent - requested, room))",
        "window_left - resent - requested))",
        UNIT + "test_flow.py::test_the_receive_buffers_bound_new_messages",
    ),
    Mutant(
        "one accuses oneself",
        "ordering.py",
        "            token.aru_id != self.my_id  # one never accuses oneself\n            and ",
        "            ",
        UNIT + "test_ordering.py::test_one_never_accuses_oneself",
    ),
    Mutant(
        "visits alone accuse",
        "ordering.py",
        "            and now - self.stuck_since > self.parameters.fail_to_rcv_time\n",
        "",
        UNIT + "test_ordering.py::test_visits_alone_accuse_nobody",
    ),
    Mutant(
        "time alone accuses",
        "ordering.py",
        "            and self.stuck_visits > self.parameters.fail_to_rcv_visits_min\n",
        "",
        UNIT + "test_ordering.py::test_time_alone_accuses_nobody",
    ),
    Mutant(
        "an old message stops token retransmission",
        "holder.py",
        "        if seq > self.last_token_seq:\n    ",
        "        if seq:\n    ",
        UNIT + "test_states_timers.py::test_a_message_sent_after_my_token_shows_that_it_arrived",
    ),
    Mutant(
        "an idle token is never asked for",
        "holder.py",
        "        if not self.hold_cancelled:\n",
        "        if self.hold_cancelled:\n",
        UNIT + "test_states_timers.py::test_who_does_not_hold_the_idle_token_asks_for_it_once",
    ),
)

MEMBERSHIP_MUTANTS: Final = (
    Mutant(
        "join timer running in COMMIT",
        "states.py",
        "        self.timers.stop_gathering()\n        self._change_state(State.COMMIT)\n",
        "        self.timers.consensus.stop()\n        self._change_state(State.COMMIT)\n",
        UNIT + "test_states_timers.py"
        "::test_outside_gather_no_join_is_sent_and_no_consensus_awaited",
    ),
    Mutant(
        "fail set cleared early",
        "membership.py",
        "        agreed = [self.my_id]\n",
        "        agreed = [self.my_id]\n        self.fail_set = frozenset()\n",
        UNIT + "test_membership.py::test_sets_only_grow_until_a_ring_is_installed",
    ),
    Mutant(
        "own id believed failed",
        "membership.py",
        "if self.my_id in join.fail_set:",
        "if self.my_id == join.sender_id:",
        UNIT + "test_membership.py::test_who_accuses_me_is_held_to_have_failed_and_i_am_not",
    ),
    Mutant(
        "outsiders break up my ring",
        "membership.py",
        "self.fail_set |= join.fail_set - self.my_memb",
        "self.fail_set |= join.fail_set",
        UNIT + "test_membership.py::test_an_outsider_may_not_break_up_my_ring",
    ),
    Mutant(
        "a Join heard just before is lost",
        "membership.py",
        "if join.proc_set == self.proc_set and join.fail_set == self.fail_set:\n"
        "                agreed.append",
        "if join.proc_set < self.proc_set:\n                agreed.append",
        UNIT + "test_membership.py::test_a_join_heard_just_before_i_changed_is_not_lost",
    ),
    Mutant(
        "consensus of some is enough",
        "membership.py",
        "return self.proc_set - self.fail_set <= self.agreed",
        "return len(self.agreed) > 1 or self.proc_set - self.fail_set <= self.agreed",
        UNIT + "test_membership.py::test_consensus_needs_everybody_proposed",
    ),
    Mutant(
        "a failed attempt is not forgotten",
        "membership.py",
        "        self.last_joins.clear()  # who agreed",
        "        # who agreed",
        UNIT + "test_membership.py::test_a_failed_attempt_forgets_agreements",
    ),
    Mutant(
        "nobody is ever blamed",
        "membership.py",
        "if attempts <= limit or not candidates:",
        "if attempts:",
        UNIT + "test_membership.py::test_past_the_limit_of_attempts_the_highest_other_id_is_blamed",
    ),
    Mutant(
        "quarantine also for Joins that name us",
        "states.py",
        "            and self.my_id not in join.proc_set - join.fail_set\n",
        "",
        UNIT + "test_states_forming.py::test_a_quarantined_processor_that_names_me_is_heard",
    ),
    Mutant(
        "no quarantine",
        "membership.py",
        "shut_until = now + self.FACTOR_MAX * beacon if is_shut else now",
        "shut_until = now",
        UNIT + "test_membership.py::test_past_the_limit_of_formations_its_joins_are_shut_out_too",
    ),
    Mutant(
        "damping does not double",
        "membership.py",
        "beacon * min(self.FACTOR_MAX, 2 ** (misses - 1))",
        "beacon",
        UNIT + "test_membership.py::test_damping_doubles_up_to_sixteen_beacons",
    ),
    Mutant(
        "repeated agreement restarts token_loss",
        "states.py",
        "elif len(members) > 1 and self.timers.consensus.is_armed():",
        "elif len(members) > 1:",
        UNIT + "test_states_forming.py"
        "::test_repeated_agreement_does_not_extend_the_wait_for_the_commit_token",
    ),
    Mutant(
        "echoes of a past ring taken as foreign",
        "states.py",
        "if transmitter in membership.my_memb and ring_id.seq <= self.my_ring_id.seq:",
        "if transmitter in membership.my_memb and ring_id.seq < 0:",
        UNIT + "test_states.py::test_a_member_that_shows_a_past_ring_is_an_echo",
    ),
    Mutant(
        "the originator is the stranger",
        "states.py",
        'self._hear_stranger("regular", transmitter, message.ring_id, now)',
        'self._hear_stranger("regular", message.sender_id, message.ring_id, now)',
        UNIT + "test_states.py::test_a_foreign_message_proposes_its_transmitter_not_its_originator",
    ),
    Mutant(
        "a member that gave up is not heard",
        "states.py",
        "if sender_id in membership.proposed() and join.ring_seq >= self.my_ring_id.seq:",
        "if sender_id in membership.proposed() and join.ring_seq > self.my_ring_id.seq:",
        UNIT + "test_states_forming.py"
        "::test_a_member_that_gave_the_forming_ring_up_throws_it_back_to_gather",
    ),
    Mutant(
        "old Joins throw a forming ring back",
        "states.py",
        "if sender_id in membership.proposed() and join.ring_seq >= self.my_ring_id.seq:",
        "if sender_id in membership.proposed():",
        UNIT + "test_states_forming.py::test_a_join_from_before_the_agreement_is_dropped",
    ),
    Mutant(
        "old Joins end an operational ring",
        "states.py",
        "elif sender_id in membership.my_memb and join.ring_seq < self.my_ring_id.seq:",
        "elif sender_id in membership.my_memb and join.ring_seq < 0:",
        UNIT + "test_states_forming.py"
        "::test_a_members_join_of_the_formation_of_this_very_ring_is_dropped",
    ),
    Mutant(
        "ring seq used above the durable ceiling",
        "states.py",
        "            self.effects.append(Persist(encode_record(record)))\n",
        "            _ = Persist(encode_record(record))\n",
        UNIT + "test_states_forming.py::test_a_ring_seq_is_durable_before_anybody_hears_of_it",
    ),
    Mutant(
        "ring seq written after use",
        "states.py",
        "        self._reserve(commit.ring_id.seq)\n"
        "        self.my_entry = commit.memb[commit.memb_index()] = entry_of(self.old)\n"
        '        self.effects.append(StateChange("commit", commit.ring_id, "consensus", '
        "NO_PROCESSOR))\n"
        "        self._forward_commit(commit, now)\n",
        "        self.my_entry = commit.memb[commit.memb_index()] = entry_of(self.old)\n"
        '        self.effects.append(StateChange("commit", commit.ring_id, "consensus", '
        "NO_PROCESSOR))\n"
        "        self._forward_commit(commit, now)\n"
        "        self._reserve(commit.ring_id.seq)\n",
        Seeds(0, 40),
    ),
    Mutant(
        "a restart reuses the stored ring seq",
        "states.py",
        "self.my_ring_id = RingId(record.ring_seq + RING_SEQ_STEP, my_id)",
        "self.my_ring_id = RingId(record.ring_seq, my_id)",
        UNIT + "test_ring.py::test_a_start_is_above_every_ring_id_used_before_and_durable_first",
    ),
    Mutant(
        "no room for the transitional id",
        "states.py",
        "RING_SEQ_STEP: Final = 4",
        "RING_SEQ_STEP: Final = 2",
        Seeds(0, 20),
    ),
    Mutant(
        "my entry in the commit token filled out of turn",
        "commit.py",
        "        and commit.memb_index() == commit.member_ids().index(my_id)\n",
        "",
        UNIT + "test_states_forming.py"
        "::test_in_gather_a_commit_token_that_is_not_mine_to_fill_is_dropped",
    ),
    Mutant(
        "recovery before all entries are filled",
        "states.py",
        "or not is_filled or commit.rotation != expected:",
        "or not is_filled:",
        UNIT + "test_states_forming.py::test_in_commit_a_commit_token_seen_before_is_dropped",
    ),
    Mutant(
        "a twin is not noticed",
        "ring.py",
        "if incarnation > machine.incarnation:",
        "if incarnation < 0:",
        UNIT + "test_ring.py::test_a_processor_that_hears_a_later_self_stops_with_an_error",
    ),
    Mutant(
        "queued Joins believed after a pause",
        "states.py",
        "self.stale_joins_until = now + self.parameters.join",
        "self.stale_joins_until = now",
        UNIT + "test_ring.py::test_joins_queued_while_i_was_suspended_are_dropped",
    ),
    Mutant(
        "others suspected for my own lateness",
        "states.py",
        "        self.timers.forgive(now)\n",
        "",
        UNIT + "test_ring.py::test_who_is_called_late_suspects_nobody",
    ),
    Mutant(
        "consensus waits at random",
        "states.py",
        "        self.timers.consensus.start(now)\n",
        "        self.timers.consensus.start_late(now, self.rng.randrange(1, 4_000))\n",
        UNIT + "test_states_forming.py::test_in_gather_news_starts_the_round_afresh",
    ),
    Mutant(
        "a departure is not believed",
        "states.py",
        "        membership.fail(transmitter)\n",
        "",
        UNIT + "test_states_forming.py::test_a_processor_that_departs_is_held_to_have_failed",
    ),
    Mutant(
        "a start does not wait for others",
        "states.py",
        "elif len(members) == 1 and len(membership.proc_set) > 1:",
        "elif len(members) == 1:",
        UNIT + "test_states_timers.py::test_a_start_waits_for_others_before_it_forms_a_ring_of_one",
    ),
    Mutant(
        "a ring of one takes a token",
        "holder.py",
        "            len(ring.members) > 1\n            and self.held_token is None\n",
        "            self.held_token is None\n",
        UNIT + "test_states.py::test_a_ring_of_one_takes_no_token",
    ),
)

MUTANTS: Final = (*RECOVERY_MUTANTS, *ORDERING_MUTANTS, *MEMBERSHIP_MUTANTS)

EQUIVALENT: Final = (
    Equivalent(
        "the safe line left out of the commit entry",
        "commit.py",
        "whatever is safe is delivered in the same step, so high_delivered is never below my_safe.",
    ),
)

# Pitfalls of the specification, by number: the mutants that fall into them, or why none can.
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
