"""Who is at the other end of a local socket, and in which groups."""

import os
import socket
from collections.abc import Callable

import pytest

from evensong.daemon.credentials import is_allowed
from evensong.daemon.local_socket import KEEP

NOBODY = 65_534
CHOIR, OTHERS, STRANGERS = 54_321, 54_322, 54_323


def accepted_from(become: Callable[[], None], look: Callable[[socket.socket], bool]) -> bool:
    """Connect from a process that has become somebody, and return what a look at it says."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind("")  # a name that the kernel makes up
        listening.listen()
        where = listening.getsockname()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            become()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.connect(where)
                os.close(writing)
                os.read(reading, 1)  # until it has been looked at
            os._exit(0)
        stream, _ = listening.accept()
        with stream:
            seen = look(stream)
        os.close(reading)
        os.close(writing)
        assert os.waitpid(child, 0)[1] == 0
        return seen


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be somebody else")
@pytest.mark.parametrize(
    ("groups", "primary", "wanted", "may"),
    [
        ([OTHERS, CHOIR], NOBODY, CHOIR, True),
        ([], CHOIR, CHOIR, True),
        ([OTHERS, STRANGERS], NOBODY, CHOIR, False),
        ([*range(60_000, 60_254), OTHERS, CHOIR], NOBODY, CHOIR, True),
        ([OTHERS, CHOIR], NOBODY, KEEP, False),
    ],
)
def test_members_of_the_group_may_be_clients_whatever_their_primary_group(
    groups: list[int], primary: int, wanted: int, may: bool
) -> None:
    def become() -> None:
        os.setgroups(groups)
        os.setgid(primary)
        os.setuid(NOBODY)

    assert accepted_from(become, lambda stream: is_allowed(stream, wanted)) is may
