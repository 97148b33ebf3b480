import pytest

from evensong.core.unit import NO_UNIT, UNIT, Origin, UnitId, body_of, decode_unit, encode_unit


def test_a_unit_is_read_back() -> None:
    payload = encode_unit(UnitId(3, 1 << 40, 7), b"credo", 2)
    assert decode_unit(payload) == UnitId(3, 1 << 40, 7)
    assert body_of(payload) == b"credo"
    assert UNIT.unpack_from(payload)[3] == 2


@pytest.mark.parametrize("size", range(UNIT.size))
def test_what_is_too_short_is_no_unit(size: int) -> None:
    payload = encode_unit(UnitId(3, 9, 7), b"")[:size]
    assert decode_unit(payload) == NO_UNIT
    assert body_of(payload) == b""


def test_an_origin_numbers_its_units_from_one() -> None:
    origin = Origin(3, 9)
    units = [origin.unit(b"a"), origin.unit(b"b")]
    assert [decode_unit(unit) for unit in units] == [UnitId(3, 9, 1), UnitId(3, 9, 2)]
    assert units == [encode_unit(UnitId(3, 9, 1), b"a"), encode_unit(UnitId(3, 9, 2), b"b")]
