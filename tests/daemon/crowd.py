"""Clients that come to daemons for a moment, and go in every way there is."""

import os
import signal
import struct
from pathlib import Path

from evensong.core.groups.frame import encode_whole
from evensong.ipc import wire
from evensong.ipc.frames import HasLeft
from tests.daemon.raw_client import RawClient

GROUP = "choir"


class Visitor(RawClient):
    """A client that joins, says two things and goes."""

    def __init__(self, state: Path, user: str) -> None:
        super().__init__(state, user)
        self.said: list[bytes] = []

    def perform(self) -> None:
        """Ask to be a member and send, without waiting for either."""
        self.say(wire.encode_join(self.request_id(), GROUP))
        self.said = [b"%s %d" % (self.user.encode(), number) for number in range(2)]
        for message in self.said:
            self.send((GROUP,), message)


def say_goodbye(visitor: Visitor) -> None:
    """Say BYE and hear the answer."""
    visitor.say(wire.encode_bye())
    visitor.hear_all()


def leave_first(visitor: Visitor) -> None:
    """Leave the group, then say BYE."""
    visitor.say(wire.encode_leave(visitor.request_id(), GROUP))
    visitor.hear_one(HasLeft)
    say_goodbye(visitor)


def hear_and_close(visitor: Visitor) -> None:
    """Close without a word, once everything that was said has been ordered."""
    while len(visitor.receipts) < len(visitor.said):
        visitor.hear()
    visitor.stream.close()


def close_at_once(visitor: Visitor) -> None:
    """Close without reading: who writes to it then is told that it was reset."""
    visitor.stream.close()


def close_in_a_frame(visitor: Visitor) -> None:
    """Close in the middle of a large frame."""
    frame = encode_whole(visitor.member.session, visitor.next_no, 0, 0, [bytes(2**20)])
    visitor.say(wire.encode_send(9, frame)[: 2**19])
    visitor.stream.close()


def talk_nonsense(visitor: Visitor) -> None:
    """Say what is no frame, and be hung up on."""
    visitor.say(struct.pack("!I", 2**32 - 1) * 4)
    visitor.hear_all()


ORDERLY = (say_goodbye, leave_first, hear_and_close)  # what was said before must come
WAYS = (*ORDERLY, close_at_once, close_in_a_frame, talk_nonsense)
NONSENSE = "malformed: stream: length"  # what a daemon calls it


def kill_in_the_middle_of_a_send(state: Path, user: str) -> None:
    """Let a process join, say `whole` and half of something large; kill it with `kill -9`."""
    ready, written = os.pipe()
    child = os.fork()
    if not child:
        killed = RawClient(state, user)
        killed.join(GROUP)
        killed.send((GROUP,), b"whole")
        frame = encode_whole(killed.member.session, 2, 0, 0, [bytes(2**20)])
        killed.say(wire.encode_send(5, frame)[: 2**19])
        os.write(written, b"!")
        signal.pause()
    assert os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(written)
