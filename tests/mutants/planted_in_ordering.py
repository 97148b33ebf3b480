"""Planted bugs: the token, the order, flow control [SRP §4]."""

from typing import Final

from tests.mutants.mutant import UNIT, Mutant, Seeds

RUN: Final = (
    "test_ring.py::test_datagrams_that_come_together_have_the_effects_of_one_after_the_other"
)

ROW: Final = "test_rows.py::test_a_row_has_the_effects_of_its_messages_one_after_the_other"
LONG: Final = "tests/daemon/test_long_frames.py::"

ORDERING_MUTANTS: Final = (
    Mutant(
        "a row replaces what is there",
        "ordering.py",
        "            or not (first > buffer.high "
        "or messages.keys().isdisjoint(range(first, last + 1)))\n",
        "",
        UNIT + ROW,
    ),
    Mutant(
        "a row of another ring is kept",
        "ordering.py",
        "            row.ring_id != self.ring_id\n            or ",
        "            ",
        UNIT + ROW,
    ),
    Mutant(
        "a row comes while the token rests here",
        "holder.py",
        "return self.held_token is None and self.ring.add_row(row, transmitter)",
        "return self.ring.add_row(row, transmitter)",
        UNIT + "test_rows.py::test_who_holds_the_token_takes_no_row_beyond_it",
    ),
    Mutant(
        "the lengths in a row need not add up",
        "rows.py",
        "    if edges[-1] != len(frame):\n",
        "    if edges[-1] > len(frame):\n",
        UNIT + "test_rows.py::test_a_row_that_cannot_be_is_refused",
    ),
    Mutant(
        "a long frame may come twice",
        "../../daemon/opening.py",
        "if piece or pieces != count or count > PIECES_MAX or first <= life.highest:",
        "if piece or pieces != count or count > PIECES_MAX:",
        LONG + "test_a_frame_comes_once",
    ),
    Mutant(
        "pieces of two frames are put together",
        "../../daemon/opening.py",
        "    if life.aead is None and not _is_one_frame(data, size, first, count):\n"
        "            return None  # where nothing is sealed, only this tells\n",
        "    pass\n",
        LONG + "test_pieces_of_two_frames_are_not_taken_for_one",
    ),
    Mutant(
        "pieces that wait are never forgotten",
        "../../daemon/opening.py",
        "if len(waiting) == WAITING_MAX:",
        "if False:",
        LONG + "test_pieces_without_the_rest_take_bounded_room_however_many_lives_there_are",
    ),
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
        "if kept.service is SAFE and last > self.my_safe:",
        "if False:",
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
        "../effects.py",
        "                each.append(Sent(effect.ring_id, seq, [packet]))\n"
        "                each.append(Broadcast(datagram))\n",
        "                each.append(Broadcast(datagram))\n"
        "                each.append(Sent(effect.ring_id, seq, [packet]))\n",
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
        "ring.flow.account(token, weight + repairs, backlog)",
        "ring.flow.account(token, weight, backlog)",
        Seeds(0, 20),
    ),
    Mutant(
        "retransmissions not charged to the visit",
        "flow.py",
        "self.messages_max - resent, window_free",
        "self.messages_max, window_free",
        UNIT + "test_flow.py::test_retransmissions_are_charged_to_the_visit_and_the_window",
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
        "window_free, room))",
        "window_free))",
        UNIT + "test_flow.py::test_the_receive_buffers_bound_new_messages",
    ),
    Mutant(
        "repairs charged to the share",
        "flow.py",
        "min(max(1, share), self.messages_max - resent",
        "min(max(1, share) - resent",
        UNIT + "test_flow.py::test_who_has_little_to_send_is_not_starved_by_repairs",
    ),
    Mutant(
        "a repair counts as one datagram however wide it is",
        "ordering.py",
        "                weight += weigh([Packet(message.service, message.payload[wrapping:])])\n",
        "                weight += 1\n",
        UNIT + "test_ordering.py::test_a_repair_takes_as_much_of_the_window_as_it_fills_datagrams",
    ),
    Mutant(
        "a repair that is wider than its room breaks the window's count",
        "ordering.py",
        "        return repairs, min(weight, repairs_max)",
        "        return repairs, weight",
        UNIT + "test_ordering.py::test_a_repair_takes_as_much_of_the_window_as_it_fills_datagrams",
    ),
    Mutant(
        "a second token taken while one rests here",
        "holder.py",
        "            and self.held_token is None\n",
        "",
        UNIT + "test_hostile_tokens.py::test_a_second_token_is_refused_while_one_rests_here",
    ),
    Mutant(
        "a token before the representative has made it",
        "holder.py",
        "            and not (is_mine_to_make and ring.is_representative())\n",
        "",
        UNIT + "test_hostile_tokens.py::test_the_representative_takes_no_token_before_its_own",
    ),
    Mutant(
        "a flag that nobody has set",
        "ordering.py",
        "            and token.retrans_flg == (token.retrans_setter in self.members)\n",
        "            and token.retrans_setter in (0, *self.members)\n",
        UNIT + "test_ordering.py::test_a_token_that_cannot_be_is_known_by_a_field",
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
        "            and self.stuck_for > self.parameters.fail_to_rcv_time\n",
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
    Mutant(
        "recovery traffic taken for messages in a run",
        "ordering.py",
        "            or flags not in PLAIN\n",
        "            or flags > 3\n",
        UNIT + RUN,
    ),
    Mutant(
        "a run beyond the horizon",
        "ordering.py",
        "not buffer.aru < first <= last <= buffer.aru + buffer.horizon\n"
        "            or seqs != tuple",
        "not buffer.aru < first\n            or seqs != tuple",
        UNIT + RUN,
    ),
    Mutant(
        "a run of another ring",
        "ordering.py",
        "            or RingId(ring_seq, ring_rep) != self.ring_id\n",
        "",
        UNIT + RUN,
    ),
    Mutant(
        "a run takes what it has",
        "ordering.py",
        "            or not messages.keys().isdisjoint(seqs)\n",
        "",
        UNIT + RUN,
    ),
    Mutant(
        "a run of several senders",
        "ordering.py",
        "            or heads.count(heads[0]) != count\n",
        "",
        UNIT + RUN,
    ),
    Mutant(
        "a run of several services",
        "ordering.py",
        "            or rests.count(rests[0]) != count\n",
        "",
        UNIT + RUN,
    ),
    Mutant(
        "a run with holes",
        "ordering.py",
        "            or seqs != tuple(range(first, first + count))\n",
        "",
        UNIT + RUN,
    ),
    Mutant(
        "a run forgets the holes it fills",
        "../buffer.py",
        "            while aru + 1 in messages:\n"
        "                aru += 1\n"
        "            self.aru = aru\n"
        "        if last",
        "            self.aru = aru\n        if last",
        UNIT + "test_ring.py::test_a_run_waits_for_the_hole_before_it_and_fills_it",
    ),
    Mutant(
        "a run fills holes that it does not",
        "../buffer.py",
        "        if first == self.aru + 1:\n            messages",
        "        if first > self.aru:\n            messages",
        UNIT + "test_ordering.py::test_a_run_above_a_hole_leaves_the_aru_where_it_is",
    ),
    Mutant(
        "what comes together is never delivered",
        "ring.py",
        "            machine.deliver_stored()\n            return\n",
        "            return\n",
        UNIT + RUN,
    ),
    Mutant(
        "rows are no sign of life",
        "ring.py",
        "        machine.holder.note_traffic(now)\n",
        "",
        UNIT + ROW,
    ),
    Mutant(
        "rows that come together are never delivered",
        "ring.py",
        "        if has_kept:\n            self._deliver_rows(now)\n",
        "",
        UNIT + "test_rows.py::test_rows_that_come_together_are_delivered_together",
    ),
    Mutant(
        "what ends a ring is acted on before the rows that came before it are delivered",
        "ring.py",
        "                self._deliver_rows(now)\n            self.receive(datagram, now)\n",
        "            self.receive(datagram, now)\n",
        UNIT + "test_rows.py::test_what_ends_a_ring_comes_after_the_rows_before_it",
    ),
    Mutant(
        "a stretch is delivered though its end is not safe",
        "ordering.py",
        "                last = self.my_safe\n                if last < seq:",
        "                if self.my_safe < seq:",
        UNIT
        + "test_ordering.py::test_safe_messages_that_came_together_are_delivered_as_they_get_safe",
    ),
    Mutant(
        "an idle token rests nowhere",
        "ordering.py",
        "        return seq == self.my_last_seq\n",
        "        return False\n",
        UNIT + "test_ordering.py::"
        "test_an_idle_token_rests_with_who_sent_last_and_at_first_with_the_representative",
    ),
    Mutant(
        "a token rests soon though several send",
        "ordering.py",
        "                self.speaker = kept.sender_id\n                self.spoke = 0\n",
        "                self.speaker = kept.sender_id\n",
        UNIT + "test_ordering.py::test_the_token_rests_soon_with_who_alone_has_been_sending",
    ),
    Mutant(
        "nobody knows that a sole sender's token rests",
        "ordering.py",
        "return is_sole or self.idle_visits >= self.rests_after() - 1",
        "return self.idle_visits >= self.parameters.idle_rotations - 1",
        UNIT + "test_states_timers.py::test_others_know_that_the_token_of_a_sole_sender_rests_soon",
    ),
    Mutant(
        "what is sent while the token lingers is no part of the visit",
        "holder.py",
        "        repairs += self.held_weight  # what was broadcast of this visit already\n",
        "",
        UNIT + "test_states_timers.py::"
        "test_what_is_sent_while_the_token_lingers_gets_its_place_at_once",
    ),
    Mutant(
        "the token lingers longer with every message",
        "holder.py",
        "hold.deadline = min(hold.deadline, now + ring.linger_us())",
        "hold.deadline = now + 2 * ring.linger_us()",
        UNIT + "test_states_timers.py::"
        "test_what_is_sent_while_the_token_lingers_gets_its_place_at_once",
    ),
    Mutant(
        "a safe message waits for a token that lingers",
        "holder.py",
        "is_done = ring.high_delivered == token.seq and not ring.spoke_safe and",
        "is_done =",
        UNIT + "test_states_timers.py::test_a_safe_message_sends_a_lingering_token_on",
    ),
    Mutant(
        "the token lingers though somebody waits for the safe line",
        "holder.py",
        "is_needed = self.is_called or self.is_hurried",
        "is_needed = self.is_called",
        UNIT + "test_states_timers.py::"
        "test_a_token_lingers_with_nobody_while_somebody_waits_for_the_safe_line",
    ),
    Mutant(
        "a visit with many messages makes a sole sender",
        "ordering.py",
        "return is_speaker and self.flow.alone_visits >= ALONE_VISITS",
        "return is_speaker",
        UNIT + "test_states_timers.py::test_many_messages_of_one_visit_do_not_make_a_sole_sender",
    ),
    Mutant(
        "who sends all the while calls the token at every rotation",
        "ordering.py",
        "is_sole = is_sole and self.flow.silent_visits >= ALONE_VISITS - 1  # else it knows of me",
        "pass",
        UNIT + "test_states_timers.py::test_who_has_just_sent_does_not_call",
    ),
    Mutant(
        "who calls before the token comes is not heard",
        "holder.py",
        "is_needed = self.is_called or self.is_hurried",
        "is_needed = self.is_hurried",
        UNIT + "test_states_timers.py::test_who_calls_before_the_token_is_here_need_not_call_again",
    ),
    Mutant(
        "the token lingers though somebody lacks a message",
        "ordering.py",
        "is_everywhere = token.aru == token.seq == self.high_delivered",
        "is_everywhere = token.seq == self.high_delivered",
        UNIT + "test_states_timers.py::test_a_token_does_not_linger_while_somebody_lacks_a_message",
    ),
    Mutant(
        "the token lingers for as long as others wait for it",
        "ordering.py",
        "return min(LINGER_MAX, parameters.hold // 2, parameters.token_retransmit // 2)",
        "return LINGER_MAX",
        UNIT + "test_states_timers.py::test_nobody_takes_a_token_that_lingers_for_a_lost_one",
    ),
    Mutant(
        "a frame that no visit has room for waits at each",
        "../groups/sendqueue.py",
        "return not lane.offset and left * plain < size <= min(self.width, plain_max) * plain",
        "return not lane.offset and left * plain < size <= self.width * plain",
        "tests/core/groups/test_sendqueue.py::"
        "test_what_no_visit_leaves_enough_room_for_is_cut_all_the_same",
    ),
    Mutant(
        "a token that was held counts as a long rotation",
        "../../daemon/pace.py",
        " and not visit.was_held",
        "",
        "tests/daemon/test_pace.py::test_a_rotation_in_which_the_token_was_held_is_not_measured",
    ),
    Mutant(
        "a frame is cut to fill what is left of a visit",
        "../groups/sendqueue.py",
        "            if packets and left < self.width and self._may_wait(left, plain_max):\n"
        "                break\n",
        "",
        "tests/core/groups/test_sendqueue.py::"
        "test_what_a_packet_of_its_own_would_hold_waits_for_one_rather_than_being_cut",
    ),
    Mutant(
        "a message by itself waits until the ring is served",
        "../../daemon/driver.py",
        "if few and _is_little(events, few):",
        "if False and few:",
        "tests/daemon/test_telling_first.py::"
        "test_a_message_by_itself_is_written_to_its_client_before_it_is_broadcast",
    ),
    Mutant(
        "the ring waits until a client has been written a large message",
        "../../daemon/driver.py",
        "return 0 < len(sizes) <= frames_max and sum(sizes) <= LITTLE_BYTES",
        "return 0 < len(sizes) <= frames_max",
        "tests/daemon/test_telling_first.py::"
        "test_of_several_messages_or_a_large_one_the_ring_hears_before_the_clients_do",
    ),
    Mutant(
        "the ring waits until clients have been told of several messages",
        "../../daemon/driver.py",
        "return 1 if delivered == 1 else 0",
        "return FEW_FRAMES",
        "tests/daemon/test_telling_first.py::"
        "test_of_several_messages_or_a_large_one_the_ring_hears_before_the_clients_do",
    ),
    Mutant(
        "a few messages wait until they are broadcast, though nobody waits for the token",
        "../../daemon/driver.py",
        "            return FEW_FRAMES\n        return 1",
        "            return 1\n        return 1",
        "tests/daemon/test_telling_first.py::"
        "test_a_few_messages_are_written_before_they_are_broadcast_where_the_token_stays",
    ),
    Mutant(
        "the token lingers only with who has nothing to send",
        "holder.py",
        "if not rest_us or waiting > FEW or (waiting and not self._may_send_held()):",
        "if not rest_us or waiting:",
        UNIT + "test_states_timers.py::"
        "test_what_waited_for_the_token_goes_out_at_once_and_the_token_lingers",
    ),
    Mutant(
        "the token stays with who sends though somebody waits for the safe line",
        "holder.py",
        "return not self.is_hurried and self.ring.is_mine()",
        "return self.ring.is_mine()",
        UNIT + "test_states_timers.py::"
        "test_a_token_lingers_with_nobody_while_somebody_waits_for_the_safe_line",
    ),
    Mutant(
        "a token that goes on at once counts as held",
        "holder.py",
        "self.send_held(now, was_held=False) if waiting",
        "self.send_held(now) if waiting",
        UNIT + "test_states_timers.py::"
        "test_a_token_that_goes_on_as_soon_as_it_has_come_was_not_held",
    ),
    Mutant(
        "the token lingers with who sends at full speed",
        "holder.py",
        "if not rest_us or waiting > FEW or",
        "if not rest_us or",
        UNIT + "test_states_timers.py::test_a_token_for_which_much_waits_does_not_linger",
    ),
)
