"""A frame longer than a datagram is sealed as one and cut; what comes together is opened as one."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists

from evensong.core.totem import wire
from evensong.daemon.burst import Burst
from evensong.daemon.opening import LIVES_MAX, MISFIT, WAITING_MAX, Opener
from evensong.daemon.seal import (
    COUNTER,
    HEAD_SIZE,
    NAME_SIZE,
    PIECE_AT,
    PIECES_AT,
    PIECES_MAX,
    Key,
    Refused,
    Sealer,
    make_key,
)
from evensong.daemon.settings import DATAGRAM_MAX

KEY = make_key(bytes(range(32)))
WINDOW = 256
SIZE = 200  # of a datagram here
KEYS = pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "bare"])


def sealer(key: Key | None, node: int = 1, boot: int = 9) -> Sealer:
    return Sealer("demo", key, node, 5, boot)


def opener(key: Key | None, *acquainted: Sealer) -> Opener:
    """Return one that knows these lives: each has said something short."""
    opens = Opener("demo", (key,) if key else (), WINDOW, DATAGRAM_MAX)
    for one in acquainted:
        opens.open(one.seal(frame(0, _node(one))))
    return opens


def _node(one: Sealer) -> int:
    return int.from_bytes(one.name[14:18])


def frame(size: int, node: int = 1) -> bytes:
    return wire.HEADER.pack(wire.ROW, node, 5) + Random(size).randbytes(size)


def by_piece(opens: Opener, datagrams: list[bytes]) -> list[bytes | str]:
    """Return what comes of each: a frame, nothing, or why it is refused."""
    came: list[bytes | str] = []
    for one in datagrams:
        try:
            came.append(opens.open_piece(one) or "")
        except Refused as refused:
            came.append(refused.reason)
    return came


@KEYS
@pytest.mark.parametrize("size", [100, 150, 151, 300, 5_000])
def test_a_long_frame_comes_out_as_it_went_in(key: Key | None, size: int) -> None:
    seals = sealer(key)
    together, apart = opener(key, seals), opener(key, seals)
    burst = seals.seal_long(frame(size), SIZE)
    assert all(len(one) <= SIZE for one in burst.split())
    if len(burst.split()) == 1:
        assert apart.open(burst.data) == frame(size)
    else:
        assert together.open_long(burst) == frame(size)
        assert by_piece(apart, burst.split())[-1] == frame(size)
        assert together.lives() == apart.lives()


@KEYS
def test_as_much_fits_as_it_says(key: Key | None) -> None:
    seals = sealer(key)
    most = seals.long_max(SIZE, 7)
    assert len(seals.seal_long(frame(most - 13), SIZE).split()) == 7
    assert len(seals.seal_long(frame(most - 12), SIZE).split()) == 8


@KEYS
def test_pieces_come_in_any_order(key: Key | None) -> None:
    seals = sealer(key)
    for order in permutations(range(3)):
        opens = opener(key, seals)
        pieces = seals.seal_long(frame(400), SIZE).split()
        assert len(pieces) == 3
        assert by_piece(opens, [pieces[at] for at in order]) == ["", "", frame(400)]


@KEYS
def test_frames_are_told_apart_though_their_pieces_mingle(key: Key | None) -> None:
    first, second = sealer(key), sealer(key, 2)
    opens = opener(key, first, second)
    pieces = [
        first.seal_long(frame(400), SIZE).split(),
        first.seal_long(frame(401), SIZE).split(),
        second.seal_long(frame(402, 2), SIZE).split(),
    ]
    mingled = [one for row in zip(*pieces, strict=True) for one in row]
    assert by_piece(opens, mingled)[-3:] == [frame(400), frame(401), frame(402, 2)]


@KEYS
def test_a_frame_that_lacks_a_piece_never_comes(key: Key | None) -> None:
    seals = sealer(key)
    opens = opener(key, seals)
    pieces = seals.seal_long(frame(400), SIZE).split()
    assert opens.open_long(Burst(b"".join(pieces[:2]), SIZE)) is None
    assert by_piece(opens, [pieces[0], pieces[2], pieces[0]]) == ["", "", ""]
    assert opens.open(seals.seal(frame(9))) == frame(9)
    assert by_piece(opens, pieces[1:2]) == [frame(400)], "late, but it was missing"


@KEYS
def test_a_frame_comes_once(key: Key | None) -> None:
    seals = sealer(key)
    opens = opener(key, seals)
    burst = seals.seal_long(frame(400), SIZE)
    assert opens.open_long(burst) == frame(400)
    assert opens.open_long(burst) is None
    assert by_piece(opens, burst.split()) == ["replay"] * 3
    assert by_piece(opens, seals.seal_long(frame(400), SIZE).split())[-1] == frame(400)
    assert by_piece(opens, burst.split()) == ["replay"] * 3


@pytest.mark.parametrize("at", [HEAD_SIZE - 3, HEAD_SIZE, SIZE - 1, SIZE + HEAD_SIZE + 9, 450])
def test_what_was_altered_is_refused_as_a_whole(at: int) -> None:
    seals = sealer(KEY)
    opens = opener(KEY, seals)
    burst = seals.seal_long(frame(400), SIZE)
    altered = bytearray(burst.data)
    altered[at] ^= 1
    assert opens.open_long(Burst(bytes(altered), SIZE)) is None
    came = by_piece(opens, Burst(bytes(altered), SIZE).split())
    assert came in (["", "", "altered"], ["", "", ""])  # of which one is of another frame
    assert opens.lives() == {(1, 5, 9): 1}, "nothing is counted as seen"
    assert opens.open(seals.seal(frame(1))) == frame(1)


@KEYS
def test_pieces_of_two_frames_are_not_taken_for_one(key: Key | None) -> None:
    seals = sealer(key)
    opens = opener(key, seals)
    one, other = (seals.seal_long(frame(size), SIZE).split() for size in (400, 401))
    mixed = [one[0], other[1], one[2]]
    assert opens.open_long(Burst(b"".join(mixed), SIZE)) is None
    assert by_piece(opens, mixed) == ["", "", ""]
    elsewhere = sealer(key, boot=10)
    elsewhere.counter = seals.counter
    strange, mine = (by.seal_long(frame(400), SIZE).split() for by in (elsewhere, seals))
    assert opens.open_long(Burst(b"".join([mine[0], strange[1], mine[2]]), SIZE)) is None


@KEYS
def test_a_life_is_proven_by_a_whole_frame_only(key: Key | None) -> None:
    seals = sealer(key)
    opens = opener(key)
    burst = seals.seal_long(frame(400), SIZE)
    assert opens.open_long(burst) is None
    assert by_piece(opens, burst.split()) == ["unknown life"] * 3
    assert by_piece(opens, sealer(key, boot=3).seal_long(frame(400), SIZE).split()[:1]) == [
        "unknown life"
    ]
    foreign = Sealer("other", key, 1, 5, 9).seal_long(frame(400), SIZE)
    assert by_piece(opens, foreign.split()) == ["cluster"] * 3


@pytest.mark.parametrize(
    ("piece", "pieces"), [(3, 3), (9, 3), (0, PIECES_MAX + 1), (1, 0), (255, 255)]
)
def test_pieces_that_cannot_be_are_refused(piece: int, pieces: int) -> None:
    seals = sealer(None)
    opens = opener(None, seals)
    datagrams = seals.seal_long(frame(400), SIZE).split()
    odd = bytearray(datagrams[2])
    odd[PIECE_AT], odd[PIECES_AT] = piece, pieces
    assert by_piece(opens, [datagrams[0], bytes(odd)]) == ["", MISFIT]
    assert by_piece(opens, datagrams[1:])[-1] == frame(400), "the others are not spoilt"


@KEYS
def test_pieces_too_long_for_the_frame_that_they_are_of_are_refused(key: Key | None) -> None:
    seals = sealer(key)
    opens = opener(key, seals)
    pieces = seals.seal_long(frame(400), SIZE).split()
    padded = [one.ljust(2 * SIZE, b"\0") for one in pieces]
    assert by_piece(opens, padded) == [MISFIT] * 3
    assert by_piece(opens, pieces)[-1] == frame(400)


@given(booleans(), integers(HEAD_SIZE + 40, 400), integers(30, 2_000))
def test_no_piece_that_was_sealed_is_too_long(is_sealed: bool, size: int, length: int) -> None:
    key = KEY if is_sealed else None
    seals = sealer(key)
    opens = opener(key, seals)
    pieces = seals.seal_long(frame(length), size).split()
    if len(pieces) > 1:
        assert by_piece(opens, pieces) == [""] * (len(pieces) - 1) + [frame(length)]


def test_pieces_without_the_rest_take_bounded_room_however_many_lives_there_are() -> None:
    lives = [sealer(None, boot=boot) for boot in range(WAITING_MAX + 1)]
    opens = opener(None, *lives)
    rows = [seals.seal_long(frame(400), SIZE).split() for seals in lives]
    for row in rows:
        assert by_piece(opens, row[:2]) == ["", ""]
    assert by_piece(opens, rows[1][2:]) == [frame(400)]
    assert by_piece(opens, rows[0][2:]) == [""], "the oldest made room"


def test_a_life_that_is_heard_in_pieces_only_is_not_the_first_to_be_forgotten() -> None:
    seals = sealer(None)
    others = [sealer(None, 2, boot) for boot in range(LIVES_MAX)]
    opens = opener(None, seals, *others[:-1])
    assert by_piece(opens, seals.seal_long(frame(400), SIZE).split())[-1] == frame(400)
    opens.open(others[-1].seal(frame(0, 2)))
    assert (1, 5, 9) in opens.lives()
    assert (2, 5, 0) not in opens.lives(), "it has been silent for longer"


def said_otherwise(piece: bytes, length: int, pieces: int) -> bytes:
    """Return a piece that somebody made up who has seen one, and has no key."""
    counter, _, number, _ = COUNTER.unpack_from(piece, NAME_SIZE)
    return piece[:NAME_SIZE] + COUNTER.pack(counter, length, number, pieces) + bytes(60)


@KEYS
@pytest.mark.parametrize(("length", "pieces"), [(412, 3), (414, 3), (413, 4), (413, 2)])
def test_who_says_otherwise_of_a_frame_does_not_spoil_it(
    key: Key | None, length: int, pieces: int
) -> None:
    seals = sealer(key)
    opens = opener(key, seals)
    genuine = seals.seal_long(frame(400), SIZE).split()
    forged = [said_otherwise(one, length, pieces) for one in genuine[:2]]
    mingled = [forged[0], genuine[0], forged[1], *genuine[1:]]
    assert by_piece(opens, mingled)[-1] == frame(400)


def test_a_piece_that_is_there_is_not_replaced() -> None:
    seals = sealer(KEY)
    opens = opener(KEY, seals)
    genuine = seals.seal_long(frame(400), SIZE).split()
    forged = [said_otherwise(one, 413, 3) for one in genuine]
    assert by_piece(opens, [*genuine[:2], *forged[:2], genuine[2]])[-1] == frame(400)


def test_a_frame_that_was_spoilt_comes_if_it_is_sent_again() -> None:
    seals = sealer(KEY)
    opens = opener(KEY, seals)
    genuine = seals.seal_long(frame(400), SIZE).split()
    spoilt = [said_otherwise(genuine[0], 413, 3), *genuine]
    assert by_piece(opens, spoilt) == ["", "", "", "altered"]
    assert by_piece(opens, genuine)[-1] == frame(400)


@KEYS
def test_a_tail_too_short_for_a_head_is_no_frame(key: Key | None) -> None:
    """The kernel hands it over with the pieces before it, whoever sent it."""
    seals = sealer(key)
    opens = opener(key, seals)
    head = seals.seal(frame(0))
    for length in range(HEAD_SIZE):
        assert opens.open_long(Burst(head[:length], SIZE)) is None


@given(booleans(), lists(integers(0, 700), min_size=1, max_size=4), lists(integers(0, 9)))
def test_pieces_that_come_together_are_opened_as_one_by_one(
    is_sealed: bool, sizes: list[int], swaps: list[int]
) -> None:
    key = KEY if is_sealed else None
    seals = sealer(key)
    together, apart = opener(key, seals), opener(key, seals)
    for size in sizes:
        pieces = seals.seal_long(frame(150 + size), SIZE).split()
        if len(pieces) == 1:
            continue
        for at in swaps:
            here, there = at % (len(pieces) - 1), (at + 1) % (len(pieces) - 1)
            pieces[here], pieces[there] = pieces[there], pieces[here]
        whole = together.open_long(Burst(b"".join(pieces), SIZE))
        expected = by_piece(apart, pieces)
        if whole is None:
            assert by_piece(together, pieces) == expected
        else:
            assert expected[-1] == whole
        assert together.lives() == apart.lives()


@given(integers(0, 600), integers(1, 255))
def test_one_wrong_byte_never_gets_through_the_seal(at: int, by: int) -> None:
    seals = sealer(KEY)
    opens = opener(KEY, seals)
    data = bytearray(seals.seal_long(frame(400), SIZE).data)
    at %= len(data)
    data[at] ^= by
    whole = opens.open_long(Burst(bytes(data), SIZE))
    if whole is not None:
        assert whole == frame(400)  # it was in a header that says what others say too
        assert at % SIZE < HEAD_SIZE
        assert at >= SIZE
