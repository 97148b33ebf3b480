"""Planted bugs: what a client is told of its own frames, what counts of it, and what is kept."""

from dataclasses import dataclass
from typing import Final

from tests.mutants.mutant import Mutant, Seeds

CONNECTION: Final = "tests/daemon/test_connection.py::"
OWN: Final = "tests/client/test_own.py::"


@dataclass(frozen=True)
class ClientMutant(Mutant):
    """A bug planted in the library, or where a daemon meets it."""

    @property
    def path(self) -> str:
        """Return where it is planted, below `src`."""
        return "evensong/" + self.file


CLIENT_MUTANTS: Final = (
    ClientMutant(
        "what is left out does not wait",
        "daemon/connection.py",
        "            size = sum(map(len, parts)) + left_out\n",
        "            size = sum(map(len, parts))\n",
        CONNECTION + "test_what_is_left_out_is_warned_of_and_ends_a_connection_at_the_same_amounts",
    ),
    ClientMutant(
        "what is left out takes nothing of the window",
        "daemon/connection.py",
        "        self.unconsumed += left_out\n",
        "",
        CONNECTION + "test_what_is_left_out_counts_as_if_it_were_written",
    ),
    ClientMutant(
        "what is left out is never consumed",
        "client/dialogue.py",
        "            size += head.length  # left out, and counted by the daemon\n",
        "",
        OWN + "test_what_was_left_out_is_consumed_once_it_is_read",
    ),
    ClientMutant(
        "what does not come back is kept",
        "client/dialogue.py",
        "        if not comes_back:\n            self._sent.drop(first_no)\n",
        "",
        OWN + "test_what_does_not_come_back_is_not_kept",
    ),
    ClientMutant(
        "what is refused is kept",
        "client/dialogue.py",
        "                    self._sent.drop(first_no)\n",
        "",
        OWN + "test_what_is_refused_is_not_kept",
    ),
    ClientMutant(
        "what was sent is kept when the connection is lost",
        "client/dialogue.py",
        "        self._sent.clear()\n",
        "",
        OWN + "test_nothing_is_kept_when_the_connection_ends",
    ),
    ClientMutant(
        "a frame comes back as the one before it",
        "client/outgoing.py",
        "        sent = self.kept.pop(head.first_no, None)\n",
        "        sent = self.kept.pop(next(iter(self.kept), 0), None)\n",
        OWN + "test_frames_come_back_in_whatever_order_they_are_told",
    ),
    ClientMutant(
        "any header will do",
        "client/outgoing.py",
        "        if sent is None or header not in (sent[0], as_agreed(sent[0])):\n",
        "        if sent is None:\n",
        OWN + "test_a_delivery_of_what_was_not_sent_loses_the_connection",
    ),
    ClientMutant(
        "small messages stay where they were read",
        "client/packing.py",
        "    return head, bytes(frame)\n",
        "    return head, frame\n",
        "tests/client/test_packing.py::"
        "test_what_is_taken_out_of_a_buffer_stays_when_that_is_overwritten",
    ),
    ClientMutant(
        "everybody is told a frame without its content",
        "daemon/sessions.py",
        "            if session == event.own:\n",
        "            if event.own:\n",
        "tests/daemon/test_sessions.py::"
        "test_its_sender_gets_a_frame_without_the_content_and_others_get_all",
    ),
    ClientMutant(
        "every receipt says that its frame comes back",
        "core/groups/layer.py",
        "        own = session if is_mine and session in recipients else NO_SESSION\n",
        "        own = session if is_mine else NO_SESSION\n",
        "tests/core/groups/test_layer.py::"
        "test_a_receipt_says_whether_its_frame_comes_back_and_a_frame_whose_own_it_is",
        Seeds(0, 1, clients=True),
    ),
)
