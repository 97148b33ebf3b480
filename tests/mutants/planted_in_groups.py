"""Planted bugs: process groups, their directory, their views, packing and fragments [TPG]."""

from dataclasses import dataclass
from typing import Final

from tests.mutants.mutant import Mutant, Seeds

GROUPS: Final = "evensong/core/groups/"
LAYER: Final = "tests/core/groups/test_layer.py::"
CHANGES: Final = "tests/core/groups/test_changes.py::"
QUEUE: Final = "tests/core/groups/test_sendqueue.py::"
ASSEMBLY: Final = "tests/core/groups/test_assembly.py::"
TRANSFER: Final = "tests/core/groups/test_transfer.py::"


@dataclass(frozen=True)
class GroupMutant(Mutant):
    """A bug planted in the group layer."""

    @property
    def path(self) -> str:
        """Return where it is planted, below `src`."""
        return GROUPS + self.file


def runs(seed: int) -> Seeds:
    """Return the run with clients that catches a mutant, too."""
    return Seeds(seed, seed + 1, clients=True)


GROUP_MUTANTS: Final = (
    GroupMutant(
        "membership tested once, not at each message",
        "layer.py",
        "if route.version != self.directory.version:",
        "if route.version < 0:",
        LAYER + "test_membership_is_tested_where_a_message_is_delivered_not_where_it_was_sent",
        runs(0),
    ),
    GroupMutant(
        "a member of two groups gets two copies",
        "routes.py",
        "        route.recipients = tuple(sorted(found))",
        "        route.recipients = tuple(sorted(found)) * len(route.destination.groups)",
        LAYER + "test_a_message_to_several_groups_has_one_place_and_comes_once",
        runs(0),
    ),
    GroupMutant(
        "a former life's private name still leads here",
        "sessions.py",
        "            and member.incarnation == self._incarnation\n",
        "",
        LAYER + "test_a_private_name_of_a_former_life_leads_nowhere",
        runs(41),
    ),
    GroupMutant(
        "every frame takes one place",
        "layer.py",
        "            sub += places",
        "            sub += 1",
        LAYER + "test_messages_of_a_frame_have_places_one_behind_the_other",
        runs(0),
    ),
    GroupMutant(
        "a departing session overtakes its own messages",
        "sendqueue.py",
        "            lane.items.append(self._wish_item(farewell))\n"
        "            self._enter(lane, lane.items[-1])",
        "            lane.items.appendleft(self._wish_item(farewell))\n"
        "            self._enter(lane, lane.items[0])",
        LAYER + "test_a_session_that_ends_leaves_all_groups_at_one_place_after_its_messages",
        runs(3),
    ),
    GroupMutant(
        "a daemon believes who speaks for another",
        "layer.py",
        "if sender != sender_id:",
        "if not sender:",
        LAYER + "test_bad_packets_are_counted_and_have_no_effect",
    ),
    GroupMutant(
        "view ids from local counters",
        "views.py",
        "ViewId(change.conf_id, change.seq, change.sub, change.counter)",
        "ViewId(RingId(0, 0), 0, 0, change.counter)",
        "tests/core/groups/test_schedules.py",
        runs(0),
    ),
    GroupMutant(
        "components share the id of a transitional view",
        "layer.py",
        "        self.conf_id = RingId(seq, rep ^ members[0] ^ self.together[0])\n",
        "",
        CHANGES
        + "test_views_of_two_components_in_one_transitional_configuration_have_different_ids",
    ),
    GroupMutant(
        "a transitional view is named by the lowest of a component alone",
        "layer.py",
        "RingId(seq, rep ^ members[0] ^ self.together[0])",
        "RingId(seq, self.together[0])",
        CHANGES + "test_two_passages_with_one_number_and_one_lowest_daemon_show_different_views",
        Seeds(18, 19, clients=True, engine="transis"),
    ),
    GroupMutant(
        "half of the electorate is a majority",
        "views.py",
        "return 2 * len(present) > len(electorate)",
        "return 2 * len(present) >= len(electorate)",
        "tests/core/groups/test_views.py::test_a_majority_is_more_than_half_of_the_electorate",
    ),
    GroupMutant(
        "two views for one change of the network",
        "layer.py",
        "        self._exchange = Exchange(self.configuration, self.together)\n"
        "        if self._my_id",
        "        self._exchange = Exchange(self.configuration, self.together)\n"
        "        self._show_changed(self._network_change(), self.together)\n"
        "        if self._my_id",
        CHANGES + "test_a_member_cut_off_and_back_in_one_change_is_in_left_and_in_joined",
    ),
    GroupMutant(
        "no regular view after a transitional one",
        "views.py",
        "return group.is_transitional or group.members() != group.regular",
        "return group.members() not in (group.regular, group.shown)",
        CHANGES + "test_a_partition_is_shown_once_on_each_side",
        runs(10),
    ),
    GroupMutant(
        "state told after application messages",
        "sendqueue.py",
        "        while own and filling.takes(len(own[0]), 1, Service.AGREED):\n"
        "            self.queued_bytes -= len(own[0])\n"
        "            filling.add(own.popleft(), 1, Service.AGREED)\n"
        "        turns = self._turns\n"
        "        while not own and turns and self._take_turn(turns[0], filling):\n"
        "            pass\n",
        "        turns = self._turns\n"
        "        while turns and self._take_turn(turns[0], filling):\n"
        "            pass\n"
        "        while not turns and own and filling.takes(len(own[0]), 1, Service.AGREED):\n"
        "            self.queued_bytes -= len(own[0])\n"
        "            filling.add(own.popleft(), 1, Service.AGREED)\n",
        CHANGES + "test_a_state_goes_ahead_of_what_its_daemon_has_queued",
    ),
    GroupMutant(
        "together is whoever is in the transitional configuration",
        "layer.py",
        "self.together = tuple([one for one in self.together if one in members])",
        "self.together = members",
        CHANGES + "test_components_are_who_has_gone_together_since_directories_were_equal",
        runs(36),
    ),
    GroupMutant(
        "another component's join counts after a cut exchange",
        "layer.py",
        "            elif origin[0] in self.together:\n",
        "            elif origin[0]:\n",
        CHANGES + "test_a_cut_exchange_leaves_each_component_to_itself",
    ),
    GroupMutant(
        "what was held back is lost with its exchange",
        "layer.py",
        "                self._show(name, group, change, self.together)\n        self._release()",
        "                self._show(name, group, change, self.together)\n"
        "        self._held.clear()\n"
        "        self._release()",
        CHANGES + "test_an_exchange_that_is_cut_short_gives_its_messages_to_the_transitional_part",
        runs(37),
    ),
    GroupMutant(
        "one component is enough to go on",
        "exchange.py",
        "        return not self._missing",
        "        return bool(self.states)",
        CHANGES + "test_messages_wait_for_the_directories_and_reach_the_members_of_both_sides",
        runs(0),
    ),
    GroupMutant(
        "merged members are not sorted by where they joined",
        "directory.py",
        "            group.entries.sort()",
        "            pass",
        "tests/core/groups/test_directory.py::test_both_sides_of_a_merge_are_equal",
        runs(0),
    ),
    GroupMutant(
        "the safe line overtakes its messages",
        "layer.py",
        "        if self.state is State.EXCHANGING:\n            self._safe_line = line",
        "        if line.seq < 0:\n            self._safe_line = line",
        CHANGES + "test_a_safe_line_is_held_back_with_its_messages",
    ),
    GroupMutant(
        "unfinished messages outlive their configuration",
        "layer.py",
        "        self.assembly.clear()\n",
        "",
        CHANGES + "test_a_message_cut_by_a_change_is_sent_again_and_delivered_once",
        runs(10),
    ),
    GroupMutant(
        "a minority is not shown that it is one",
        "views.py",
        " or group.primary != primary",
        "",
        CHANGES + "test_who_stays_is_shown_that_its_daemons_are_too_few_or_enough_again",
        runs(1),
    ),
    GroupMutant(
        "who was lost to a joiner is no kin of the snapshot it restores",
        "transfer.py",
        "                    self.kin = [key for key in self._members if key in kin]\n",
        "                    pass\n",
        TRANSFER + "test_who_was_left_behind_while_it_waited_is_kin_of_who_told_it",
    ),
    GroupMutant(
        "destinations outlive their session",
        "layer.py",
        "            self.routes.forget(member)\n",
        "",
        LAYER + "test_the_destinations_of_a_session_that_ends_are_forgotten_by_all",
    ),
    GroupMutant(
        "a private name leads to whoever has the number",
        "sessions.py",
        "            and member.user == self.open[member.session].member.user\n",
        "",
        LAYER + "test_a_private_name_with_another_user_leads_nowhere",
    ),
    GroupMutant(
        "orphan fragment completed",
        "assembly.py",
        "if frame is None or frame.first_no != first_no:\n            self.orphans += 1\n",
        "if frame is None:\n            self.orphans += 1\n",
        ASSEMBLY + "test_a_piece_of_another_message_completes_nothing",
    ),
    GroupMutant(
        "pieces of another frame taken together",
        "assembly.py",
        "if frame is None or frame.first_no != first_no:\n            self.orphans += len",
        "if frame is None:\n            self.orphans += len",
        ASSEMBLY + "test_pieces_of_another_frame_are_orphans",
    ),
    GroupMutant(
        "pieces taken together beyond a frame's end",
        "assembly.py",
        "        if frame.missing <= 0:\n",
        "        if frame.missing < 0:\n",
        ASSEMBLY + "test_pieces_taken_together_are_those_taken_one_by_one",
    ),
    GroupMutant(
        "pieces of two sessions taken for one frame's",
        "packet.py",
        "payload[stop:ALONE_SIZE] != rest or payload[:begin]",
        "payload[:begin]",
        "tests/core/groups/test_packet.py::test_like_pieces_end_where_another_begins",
    ),
    GroupMutant(
        "a daemon may speak for another in a frame by itself",
        "layer.py",
        "if lone is not None and lone[0] == sender_id:",
        "if lone is not None:",
        LAYER + "test_nobody_speaks_for_another_in_a_frame_by_itself",
    ),
    GroupMutant(
        "a frame by itself need not fill its packet",
        "packet.py",
        "and length == stop - at - ALONE_SIZE",
        "and length <= stop - at - ALONE_SIZE",
        "tests/core/groups/test_packet.py::test_a_lone_frame_is_seen_as_the_packet_says_it",
    ),
    GroupMutant(
        "a small frame keeps all that it came in",
        "packet.py",
        "    if size <= COPIED_MAX or 2 * size < len(payload):",
        "    if size <= COPIED_MAX:",
        "tests/core/groups/test_packet.py::test_a_frame_that_is_most_of_its_packet_is_not_copied_"
        "and_a_small_one_keeps_nothing",
    ),
    GroupMutant(
        "the messages of a cut frame take one place",
        "sendqueue.py",
        "        places = head.places if is_last else 0\n",
        "        places = int(is_last)\n",
        LAYER + "test_a_frame_of_several_messages_may_be_larger_than_a_packet",
        runs(0),
    ),
    GroupMutant(
        "a packet with more places than it can count",
        "sendqueue.py",
        "return size <= self.room and self.places + places <= PLACES_MAX",
        "return size <= self.room",
        QUEUE + "test_a_packet_has_no_more_places_than_it_can_count",
    ),
    GroupMutant(
        "a large frame keeps the turn until it is cut to the end",
        "sendqueue.py",
        "            count = min(count, lane.deficit // room)\n",
        "            pass\n",
        QUEUE + "test_the_middle_of_a_large_frame_leaves_others_their_turns",
    ),
    GroupMutant(
        "the middle of a frame repeats its last piece",
        "sendqueue.py",
        "        lane.offset += count * size\n",
        "        lane.offset += (count - 1) * size\n",
        QUEUE + "test_the_middle_of_a_large_frame_is_cut_at_once_as_piece_by_piece",
        runs(0),
    ),
    GroupMutant(
        "a cut message goes on where newcomers have not seen its beginning",
        "sendqueue.py",
        "            self._count(lane, lane.offset)\n            lane.offset = 0\n",
        "",
        QUEUE + "test_a_message_without_its_end_is_sent_again_from_its_beginning",
        runs(10),
    ),
    GroupMutant(
        "newcomers are not told destinations",
        "sendqueue.py",
        "            lane.announced.clear()\n",
        "",
        QUEUE + "test_a_destination_is_announced_once_in_a_configuration",
        runs(0),
    ),
    GroupMutant(
        "a safe frame in an agreed packet",
        "sendqueue.py",
        "        if flags & SAFE or is_note:\n            return Service.SAFE\n",
        "",
        QUEUE + "test_agreed_frames_close_their_packet_before_a_safe_one",
        runs(0),
    ),
    GroupMutant(
        "agreed frames wait behind a safe one",
        "sendqueue.py",
        "return service is Service.CAUSAL and mine is None",
        "return service is Service.SAFE or (service is Service.CAUSAL and mine is None)",
        QUEUE + "test_agreed_frames_close_their_packet_before_a_safe_one",
    ),
    GroupMutant(
        "a frame that an empty packet holds is cut",
        "sendqueue.py",
        "        is_too_long = size > (self._wide_room() if filling.frames else filling.room)\n",
        "        is_too_long = size > filling.room\n",
        QUEUE + "test_what_a_packet_of_its_own_would_hold_waits_for_one_rather_than_being_cut",
    ),
    GroupMutant(
        "a large message stops the other sessions",
        "sendqueue.py",
        "            lane.deficit -= room - filling.room\n",
        "            lane.deficit -= min(0, room - filling.room)\n",
        QUEUE + "test_a_small_message_overtakes_a_large_one_of_another_session",
    ),
    GroupMutant(
        "the backlog promises more than there is",
        "sendqueue.py",
        "return max(-(-self.queued_bytes // self._room), self._wide)",
        "return -(-self.queued_bytes // self._room) + self._wide",
        QUEUE + "test_the_backlog_is_what_can_be_pulled",
    ),
    GroupMutant(
        "throttling goes by the queue, not by who fills it",
        "sendqueue.py",
        "        if has_share and session not in self._throttled:",
        "        if session not in self._throttled:",
        QUEUE + "test_who_has_most_of_a_full_queue_is_throttled_until_it_is_nearly_empty",
    ),
    GroupMutant(
        "who meets without state forgets the kin of other sides",
        "transfer.py",
        "        self.kin = [*there, *(key for key in self.kin if key not in there)]\n",
        "        self.kin = there or self.kin\n",
        TRANSFER + "test_who_was_alone_without_state_is_kin_of_all_after_a_merge",
        runs(52),
    ),
    GroupMutant(
        "what a joiner held is forgotten with the snapshot",
        "transfer.py",
        "while self._held and since is not None and self._held[0][0] < since:",
        "while self._held and since is not None:",
        TRANSFER + "test_who_joins_gets_the_state_and_then_what_came_after",
        runs(0),
    ),
    GroupMutant(
        "what a snapshot holds already is applied again",
        "transfer.py",
        "        self._flush(offer.place)\n        self._say(Ready",
        "        self._flush(None)\n        self._say(Ready",
        runs(3),
    ),
    GroupMutant(
        "an offer of an earlier meeting is believed",
        "transfer.py",
        "            if question is None or question.place != offer.place:\n",
        "            if question is None:\n",
        runs(11),
    ),
    GroupMutant(
        "a side's messages after the meeting count before it",
        "transfer.py",
        "        return self.has_state and not self._is_meeting\n",
        "        return self.has_state\n",
        runs(11),
    ),
    GroupMutant(
        "snapshot taken one message late",
        "transfer.py",
        "            self._live_view(view, place)\n            self._donate(place)\n        elif",
        "            self._live_view(view, place)\n        elif",
        TRANSFER + "test_who_joins_gets_the_state_and_then_what_came_after",
        runs(0),
    ),
    GroupMutant(
        "donor's death forgotten",
        "transfer.py",
        "            self._live_view(view, place)\n            self._donate(place)\n        elif",
        "            self._live_view(view, place)\n"
        "            if view.cause is Cause.JOIN:\n"
        "                self._donate(place)\n"
        "        elif",
        TRANSFER + "test_a_donor_that_is_gone_halfway_is_replaced",
        runs(276),
    ),
    GroupMutant(
        "a snapshot from before its joining is restored",
        "transfer.py",
        "for bound in (self._joined_at, self._epoch)",
        "for bound in (self._epoch,)",
        TRANSFER + "test_an_old_snapshot_is_no_use_to_who_joined_later",
        runs(1),
    ),
    GroupMutant(
        "one side is enough to go on",
        "transfer.py",
        "return covered.issuperset(self.members)",
        "return bool(covered)",
        TRANSFER + "test_sides_that_meet_merge_their_states_at_one_place",
        runs(0),
    ),
    GroupMutant(
        "what was held is lost with a broken meeting",
        "transfer.py",
        "        self._flush(None)\n        self._is_primary = was_primary",
        "        self._held.clear()\n        self._is_primary = was_primary",
        TRANSFER + "test_sides_that_meet_and_lose_a_donor_begin_again",
    ),
    GroupMutant(
        "the view in which sides met makes all of them primary",
        "transfer.py",
        "        self._is_primary = was_primary  # the view in which sides met is nobody's own\n",
        "",
        TRANSFER + "test_a_primary_side_wins_even_if_the_meeting_is_broken_once",
    ),
    GroupMutant(
        "a side that is not seen is believed",
        "transfer.py",
        "if key not in self._present:",
        "if not key:",
        TRANSFER + "test_in_random_schedules_all_replicas_end_equal[250]",
    ),
    GroupMutant(
        "losses shown by transitional views alone are forgotten",
        "transfer.py",
        "(bool(view.left) or view.cause is Cause.NETWORK)",
        "bool(view.left)",
        TRANSFER + "test_a_loss_that_only_transitional_views_show_is_noticed",
    ),
    GroupMutant(
        "packets are filled before a new configuration is known",
        "../node.py",
        "        self._climb()\n        backlog = self.groups.queue.backlog()\n"
        "        return backlog + self.foreign.backlog() "
        "if self.foreign is not None else backlog\n\n"
        "    def pull(self, packets_max: int) -> list[Packet]:\n"
        '        """Hand over the next packets, packed now; '
        'foreign ones get half, if they need it."""'
        "\n        self._climb()\n",
        "        backlog = self.groups.queue.backlog()\n"
        "        return backlog + self.foreign.backlog() "
        "if self.foreign is not None else backlog\n\n"
        "    def pull(self, packets_max: int) -> list[Packet]:\n"
        '        """Hand over the next packets, packed now; '
        'foreign ones get half, if they need it."""'
        "\n",
        "tests/core/groups/test_node.py"
        "::test_a_message_cut_by_a_lost_neighbour_begins_again_in_the_same_call",
        runs(2),
    ),
)

# Pitfalls of the specification, by number: the mutants that fall into them, or why none can.
GROUP_PITFALLS: Final[dict[int, tuple[str, ...] | str]] = {
    1: ("membership tested once, not at each message",),
    2: ("state told after application messages",),
    3: ("two views for one change of the network",),
    4: ("unfinished messages outlive their configuration", "orphan fragment completed"),
    5: ("a safe frame in an agreed packet",),
    6: (
        "view ids from local counters",
        "components share the id of a transitional view",
        "a transitional view is named by the lowest of a component alone",
    ),
    7: ("a member of two groups gets two copies",),
    8: ("a former life's private name still leads here",),
    9: "Control frames have a call of their own, which never throttles.",
    10: ("every frame takes one place",),
}
