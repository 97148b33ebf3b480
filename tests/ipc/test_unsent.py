"""What a stream does not take at once is written later, in order and whole."""

import socket

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists

from evensong.ipc.unsent import PARTS_MAX, Part, Unsent, rest_of

PARTS = lists(binary(min_size=1, max_size=9), max_size=12)


@given(PARTS, integers(0, 120))
def test_what_is_left_is_what_was_not_written(parts: list[Part], written: int) -> None:
    whole = b"".join(parts)
    written = min(written, len(whole))
    left = rest_of(parts, written)
    assert b"".join(left) == whole[written:]
    assert all(left)


def test_more_parts_than_one_call_takes_and_more_bytes_than_the_stream_does() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        parts = [bytes([number % 256]) * 700 for number in range(3 * PARTS_MAX)]
        unsent = Unsent()
        unsent.add(parts[:1_000])
        unsent.write(here)
        assert unsent, "the stream has taken all of it: make it more"
        unsent.add(parts[1_000:])
        whole = b"".join(parts)
        heard = b""
        while len(heard) < len(whole):
            heard += there.recv(65_536)
            unsent.write(here)
        assert heard == whole
        assert not unsent


def test_a_stream_that_is_gone_is_told_of() -> None:
    here, there = socket.socketpair()
    there.close()
    with here:
        unsent = Unsent()
        unsent.add([b"credo"])
        with pytest.raises(BrokenPipeError):
            unsent.write(here)
        unsent.clear()
        assert not unsent
