"""Messages are put together from their pieces, or not at all."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis.strategies import DataObject as Draw
from hypothesis.strategies import binary, data, integers, lists, sampled_from, tuples

from evensong.core.groups.assembly import Assembly, Chunk
from evensong.core.groups.frame import FIRST, LAST, MIDDLE, TOTAL

ANN = (1, 1, 1)
BOB = (1, 1, 2)


def first(total: int, chunk: bytes) -> bytes:
    return TOTAL.pack(total) + chunk


def whole(chunks: Sequence[Chunk] | None) -> bytes:
    assert chunks is not None
    return b"".join(chunks)


def test_pieces_make_a_message_at_the_last() -> None:
    assembly = Assembly()
    assert assembly.add(ANN, FIRST, 1, first(6, b"ab")) is None
    assert assembly.add(ANN, MIDDLE, 1, b"cd") is None
    assert whole(assembly.add(ANN, LAST, 1, b"ef")) == b"abcdef"
    assert not assembly.unfinished
    assert assembly.orphans == 0


def test_sessions_are_kept_apart() -> None:
    assembly = Assembly()
    assembly.add(ANN, FIRST, 1, first(4, b"ab"))
    assembly.add(BOB, FIRST, 1, first(4, b"wx"))
    assert whole(assembly.add(BOB, LAST, 1, b"yz")) == b"wxyz"
    assert whole(assembly.add(ANN, LAST, 1, b"cd")) == b"abcd"


def test_a_restarted_daemon_does_not_complete_what_its_former_life_began() -> None:
    assembly = Assembly()
    assembly.add((1, 1, 1), FIRST, 1, first(4, b"ab"))
    assert assembly.add((1, 2, 1), LAST, 1, b"cd") is None
    assert assembly.orphans == 1


def test_a_piece_without_its_beginning_is_an_orphan() -> None:
    assembly = Assembly()
    assert assembly.add(ANN, MIDDLE, 1, b"cd") is None
    assert assembly.add(ANN, LAST, 1, b"ef") is None
    assert assembly.orphans == 2


def test_a_piece_of_another_message_completes_nothing() -> None:
    assembly = Assembly()
    assembly.add(ANN, FIRST, 1, first(4, b"ab"))
    assert assembly.add(ANN, LAST, 2, b"cd") is None
    assert assembly.orphans == 1


def test_nothing_is_kept_over_a_regular_configuration() -> None:
    assembly = Assembly()
    assembly.add(ANN, FIRST, 1, first(4, b"ab"))
    assembly.clear()
    assert assembly.add(ANN, LAST, 1, b"cd") is None
    assert not assembly.unfinished


def test_a_new_beginning_replaces_the_old_one() -> None:
    assembly = Assembly()
    assembly.add(ANN, FIRST, 1, first(4, b"xx"))
    assembly.add(ANN, FIRST, 1, first(4, b"ab"))
    assert whole(assembly.add(ANN, LAST, 1, b"cd")) == b"abcd"
    assert assembly.orphans == 1


def test_pieces_that_do_not_sum_up_make_nothing() -> None:
    for chunks in ([b"cd", b"e"], [b"cd", b"efg"], [b"cdef", b""], [b"cdefg", b"h"]):
        assembly = Assembly()
        assembly.add(ANN, FIRST, 1, first(6, b"ab"))
        assembly.add(ANN, MIDDLE, 1, chunks[0])
        assert assembly.add(ANN, LAST, 1, chunks[1]) is None
        assert not assembly.unfinished
        assert assembly.orphans > 0


def test_a_beginning_that_cannot_be_is_an_orphan() -> None:
    assembly = Assembly()
    for content in (b"", b"\0\0", first(2**31, b"a"), first(2, b"ab"), first(0, b"")):
        assembly.add(ANN, FIRST, 1, content)
    assert not assembly.unfinished
    assert assembly.orphans == 5


@given(messages=lists(binary(min_size=3, max_size=50), min_size=1, max_size=6), draw=data())
def test_messages_cut_anywhere_arrive_in_the_order_of_their_ends(
    messages: list[bytes], draw: Draw
) -> None:
    """Each session sends its messages one after the other; sessions interleave at random."""
    lanes: list[list[tuple[int, int, bytes]]] = []
    for message in messages:
        cuts = sorted(draw.draw(lists(integers(1, len(message) - 1), min_size=1, unique=True)))
        chunks = [
            message[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(message)], strict=True)
        ]
        chunks[0] = first(len(message), chunks[0])
        kinds = [FIRST, *[MIDDLE] * (len(chunks) - 2), LAST]
        lanes.append([(kind, 1, chunk) for kind, chunk in zip(kinds, chunks, strict=True)])
    assembly = Assembly()
    made: list[bytes] = []
    ends: list[bytes] = []
    while any(lanes):
        session = draw.draw(sampled_from([n for n, lane in enumerate(lanes) if lane]))
        kind, number, chunk = lanes[session].pop(0)
        found = assembly.add((1, 1, session), kind, number, chunk)
        if found is not None:
            made.append(whole(found))
        if kind == LAST:
            ends.append(messages[session])
    assert made == ends
    assert assembly.orphans == 0


@given(
    pieces=lists(
        tuples(sampled_from([FIRST, MIDDLE, LAST]), integers(1, 2), binary(max_size=12)),
        max_size=20,
    )
)
def test_no_pieces_whatever_make_more_than_one_unfinished_message_a_session(
    pieces: list[tuple[int, int, bytes]],
) -> None:
    assembly = Assembly()
    for kind, number, content in pieces:
        made = assembly.add(ANN, kind, number, content)
        assert made is None or kind == LAST
        assert len(assembly.unfinished) <= 1


def test_pieces_taken_together_are_those_taken_one_by_one() -> None:
    chunks = [b"bb", b"cc", b"dd"]
    for missing in range(1, 9):
        total = 1 + missing
        together, apart = Assembly(), Assembly()
        for assembly in (together, apart):
            assembly.add(ANN, FIRST, 5, first(total, b"a"))
        together.add_middles(ANN, 5, chunks)
        for chunk in chunks:
            apart.add(ANN, MIDDLE, 5, chunk)
        assert together.unfinished.keys() == apart.unfinished.keys()
        assert bool(together.orphans) == bool(apart.orphans)
        rest = bytes(max(missing - 6, 0))
        assert together.add(ANN, LAST, 5, rest) == apart.add(ANN, LAST, 5, rest)


def test_pieces_of_another_frame_are_orphans() -> None:
    assembly = Assembly()
    assembly.add(ANN, FIRST, 5, first(9, b"a"))
    assembly.add_middles(ANN, 6, [b"b", b"c"])
    assert assembly.orphans == 2
    assert whole(assembly.add(ANN, LAST, 5, bytes(8))) == b"a" + bytes(8)
