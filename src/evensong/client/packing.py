"""Which messages go into which frame: as many as fit, since a frame is what everybody handles."""

from collections.abc import Iterator, Sequence

from evensong.core.groups.frame import COUNT_MAX, HEADER_SIZE, TABLED_MAX


def pack(payloads: Sequence[bytes], frame_max: int) -> Iterator[Sequence[bytes]]:
    """Cut a sequence into the contents of frames, in order, none longer than it may be.

    A message that is too long for company goes alone; the daemon cuts it into pieces.

    >>> [len(frame) for frame in pack([b"credo"] * 100, 300)]
    [39, 39, 22]
    """
    if not payloads:
        return
    lengths = list(map(len, payloads))
    longest = max(lengths)
    room = frame_max - HEADER_SIZE
    if longest == min(lengths):  # the common case: no counting needed
        step = min(room // (2 + longest), COUNT_MAX) if longest <= TABLED_MAX else 1
        step = max(step, 1)
        for at in range(0, len(payloads), step):
            yield payloads[at : at + step]
        return
    begin = 0
    left = room
    for at, length in enumerate(lengths):
        cost = 2 + length
        is_open = at > begin
        if is_open and (
            cost > left
            or length > TABLED_MAX
            or lengths[begin] > TABLED_MAX
            or at - begin == COUNT_MAX
        ):
            yield payloads[begin:at]
            begin = at
            left = room
        left -= cost
    yield payloads[begin:]
