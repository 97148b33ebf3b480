import pytest
from hypothesis import given
from hypothesis.strategies import integers

from evensong.core.stable import (
    FIRST_START,
    RECORD,
    StableRecord,
    decode_record,
    encode_record,
)
from evensong.errors import CorruptRecord

U64 = integers(0, 2**64 - 1)


@given(U64, U64, U64)
def test_a_record_is_read_back_as_written(ceiling: int, incarnation: int, time: int) -> None:
    record = StableRecord(ceiling, incarnation, time)
    stored = encode_record(record)
    assert len(stored) == RECORD.size == 34
    assert decode_record(stored) == record


def test_a_first_start_remembers_nothing() -> None:
    assert FIRST_START == (0, 0, 0)


@pytest.mark.parametrize("at", range(RECORD.size))
def test_a_record_with_any_byte_changed_is_refused(at: int) -> None:
    stored = bytearray(encode_record(StableRecord(1_028, 7, 3)))
    stored[at] ^= 0x40
    with pytest.raises(CorruptRecord):
        decode_record(bytes(stored))


@pytest.mark.parametrize("size", [0, 1, RECORD.size - 1, RECORD.size + 1])
def test_a_record_of_another_size_is_refused(size: int) -> None:
    stored = (encode_record(FIRST_START) * 2)[:size]
    with pytest.raises(CorruptRecord, match=f"{size} bytes"):
        decode_record(stored)
