"""Planted bugs: joins, consensus, the commit token, durable ring ids [SRP §5]."""

from typing import Final

from tests.mutants.mutant import UNIT, Mutant, Seeds

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
        "or (not has_heard_me and self.strangers",
        "or (self.strangers",
        UNIT + "test_states_forming.py::test_a_quarantined_processor_that_names_me_is_heard",
    ),
    Mutant(
        "noise with my id stops me",
        "ring.py",
        "        DECODERS[kind](datagram)  # noise must not stop me\n",
        "",
        UNIT + "test_hostile_tokens.py::test_noise_that_bears_my_id_does_not_stop_me",
    ),
    Mutant(
        "a deaf processor is back at once",
        "states.py",
        "            self.strangers.accuse(suspect, now)\n",
        "            pass\n",
        "tests/sim/test_deaf.py::test_a_processor_deaf_to_messages_does_not_stop_the_ring_for_ever",
    ),
    Mutant(
        "a leap is followed whole",
        "membership.py",
        "min(join.ring_seq, self.max_join_seq + RING_SEQ_LEAP)",
        "join.ring_seq",
        UNIT + "test_states_forming.py::test_a_ring_seq_that_leaps_ahead_is_followed_step_by_step",
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
        "            transmitter == ring.predecessor\n            and self.held_token is None\n",
        "            self.held_token is None\n",
        UNIT + "test_states.py::test_a_ring_of_one_takes_no_token",
    ),
    Mutant(
        "a token copied to another member is taken",
        "holder.py",
        "            transmitter == ring.predecessor\n",
        "            transmitter in ring.others\n",
        UNIT
        + "test_states.py::test_a_token_that_was_copied_to_me_on_its_way_to_another_is_dropped",
    ),
    Mutant(
        "a commit token copied to another member is taken",
        "commit.py",
        "    return my_id in members and members[members.index(my_id) - 1] == transmitter\n",
        "    return my_id in members\n",
        UNIT
        + "test_states_forming.py::"
        + "test_a_commit_token_that_does_not_come_from_the_member_before_me_is_dropped",
    ),
)
