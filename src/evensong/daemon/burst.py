"""Datagrams that the kernel takes or hands over in one call: one piece, cut at equal lengths."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

BURST_MAX: Final = 64  # datagrams that the kernel takes in one call,
BURST_BYTES_MAX: Final = 65_000  # and bytes
PADDING_MAX: Final = 10  # percent of a datagram that may be padding, to be part of a burst


@final
class Burst(NamedTuple):
    """Datagrams end to end: each has `size` bytes, the last one may have less."""

    data: bytes
    size: int

    def split(self) -> list[bytes]:
        """Return each datagram by itself."""
        data, size = self
        if size >= len(data):
            return [data]
        return [data[at : at + size] for at in range(0, len(data), size)]


def bursts(
    frames: Sequence[bytes], overhead: int, burst_max: int, size_max: int
) -> list[Sequence[bytes]]:
    """Cut a list of frames into those that one call can send, `overhead` bytes around each.

    They are equally long but for the last, which may be shorter. One that is a little shorter goes
    along in the middle: it is padded when it is sealed, and the envelope says where it ends. One
    that is longer than `size_max` cannot be sent, and is by itself: it takes nothing along.
    """
    if burst_max == 1:
        return [[one] for one in frames]
    if len(set(map(len, frames))) == 1:
        step = _most(len(frames[0]) + overhead, burst_max, size_max)
        return [frames[at : at + step] for at in range(0, len(frames), step)]
    made: list[list[bytes]] = []
    size = room = 0  # of the datagrams in the current burst, and how many more it may take
    for frame in frames:
        length = len(frame) + overhead
        if room and length <= size:
            made[-1].append(frame)
            is_near = 100 * (size - length) <= PADDING_MAX * size
            room = room - 1 if is_near else 0
        else:
            made.append([frame])
            size = length
            room = _most(size, burst_max, size_max) - 1
    return [*made]


def burst_of(size: int) -> int:
    """How many datagrams of this size the kernel takes in one call."""
    return min(BURST_MAX, BURST_BYTES_MAX // size)


def _most(size: int, burst_max: int, size_max: int) -> int:
    return max(1, min(burst_max, BURST_BYTES_MAX // size)) if size <= size_max else 1
