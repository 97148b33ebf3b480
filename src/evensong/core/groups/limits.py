"""Bounds of the group layer: what a client, a frame and a daemon may ask for."""

from typing import Final, NamedTuple

from evensong.errors import BadParameters

GROUP_NAME_BYTES_MAX: Final = 64
USER_NAME_BYTES_MAX: Final = 32
RESERVED: Final = "\0"  # what begins so is for libraries to send to, and for nobody to be in
GROUPS_MAX: Final = 64  # in the destination of one message
SETS_MAX: Final = 1_024  # destinations that one session keeps at once
SESSIONS_MAX: Final = 4_096  # sessions of one daemon at one time
JOINED_MAX: Final = 4_096  # groups of one session
MESSAGE_MAX: Final = 16 * 2**20  # the default; never more than LENGTH_MAX
LENGTH_MAX: Final = 2**30  # no message is longer, whatever the settings
DEFICIT: Final = 16 * 1_024  # bytes that a session may send before the next one's turn
PAYLOAD_LEAST: Final = 400  # every control message but directories and destinations fits
PAYLOAD_MOST: Final = 64_000
BATCH_MAX: Final = 57_500  # bytes of a frame of several messages: 7 of 8 KiB, 56 of 1 KiB
COPIED_MAX: Final = 4_096  # bytes of a frame that are copied; a longer one may stay where it lies
CHUNK_LEAST: Final = 64  # a smaller piece of a large message waits for the next packet


class Limits(NamedTuple):
    """The settings of the group layer; all daemons of a cluster should have the same."""

    payload_max: int = 1_300  # of a packet, the unit's head included
    message_max: int = MESSAGE_MAX
    session_bytes_max: int = 2 * MESSAGE_MAX  # that one session may have queued
    queue_bytes_max: int = 200 * 1_300  # of all sessions together: throttling goes by it

    def check(self) -> None:
        """Refuse limits that cannot work."""
        rules = [
            (PAYLOAD_LEAST <= self.payload_max <= PAYLOAD_MOST, "payload_max within 400 .. 64000"),
            (0 < self.message_max <= LENGTH_MAX, "message_max within 1 .. 2 ** 30"),
            (
                self.session_bytes_max >= self.message_max + PAYLOAD_LEAST,
                "session_bytes_max >= message_max + 400",
            ),
            (self.queue_bytes_max > 0, "queue_bytes_max > 0"),
        ]
        for holds, rule in rules:
            if not holds:
                raise BadParameters(f"for groups the rule is: {rule}")
