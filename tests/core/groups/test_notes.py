import pytest
from hypothesis import given
from hypothesis.strategies import binary, booleans, integers, lists, tuples

from evensong.core.groups.notes import Chunk, Empty, Note, Offer, Ready, decode_note, encode_note
from evensong.core.ids import RingId
from evensong.errors import MalformedFrame

rings = tuples(integers(0, 2**64 - 1), integers(0, 2**32 - 1)).map(lambda pair: RingId(*pair))
places = tuples(rings, integers(0, 2**64 - 1), integers(0, 2**32 - 1))
keys = tuples(integers(0, 2**32 - 1), integers(0, 2**64 - 1), integers(0, 2**32 - 1))


@given(place=places, met=booleans(), primary=booleans(), size=integers(0, 2**40), piece=binary())
def test_notes_are_read_back(
    place: tuple[RingId, int, int], met: bool, primary: bool, size: int, piece: bytes
) -> None:
    notes: list[Note] = [
        Empty(place),
        Ready(place),
        Offer(place, met, primary, size, ((1, 2, 3), (4, 5, 6))),
        Chunk(place, size, piece),
    ]
    assert [decode_note(encode_note(note)) for note in notes] == notes


@given(kin=lists(keys, min_size=1, max_size=200))
def test_all_kin_are_told(kin: list[tuple[int, int, int]]) -> None:
    offer = Offer((RingId(4, 1), 5, 6), True, False, 7, tuple(kin))
    assert decode_note(encode_note(offer)) == offer


@given(junk=binary(max_size=60))
def test_junk_gives_one_error(junk: bytes) -> None:
    try:
        note = decode_note(junk)
    except MalformedFrame:
        return
    assert isinstance(note, Empty | Ready | Offer | Chunk)


PLACE = (RingId(4, 1), 5, 6)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        encode_note(Empty(PLACE)) + b"x",
        encode_note(Ready(PLACE))[:-1],
        encode_note(Offer(PLACE, True, True, 1, ())),
        encode_note(Offer(PLACE, True, True, 2**41, ((1, 1, 1),))),
        encode_note(Offer(PLACE, True, True, 1, ((1, 1, 1),)))[:-1],
        encode_note(Chunk(PLACE, 0, b""))[:-1],
        b"\x09" + encode_note(Empty(PLACE))[1:],
    ],
)
def test_what_is_no_note_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_note(content)
