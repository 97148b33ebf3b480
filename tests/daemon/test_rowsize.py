import pytest

from evensong.daemon.rowsize import CALM_US, ROW_MAX, RowSize, width_of


def test_repairs_halve_rows_and_calm_doubles_them() -> None:
    size = RowSize()
    assert size.look(0) == ROW_MAX
    seen = []
    for now in range(8):
        size.repaired(now)
        seen.append(size.look(now))
    assert seen == [32, 16, 8, 4, 2, 1, 1, 1]
    assert size.look(7 + CALM_US - 1) == 1
    now = 7
    grown = []
    for _ in range(8):
        now += CALM_US
        grown.append(size.look(now))
    assert grown == [2, 4, 8, 16, 32, 64, 64, 64]


def test_it_grows_once_in_a_calm_time_however_often_one_looks() -> None:
    size = RowSize()
    size.repaired(0)
    size.repaired(0)
    assert [size.look(CALM_US) for _ in range(3)] == [32, 32, 32]
    size.repaired(CALM_US)
    assert size.look(2 * CALM_US - 1) == 16


@pytest.mark.parametrize(("size", "width"), [(548, 64), (1_452, 44), (4_000, 16), (8_952, 7)])
def test_a_message_fills_as_many_datagrams_as_one_call_sends(size: int, width: int) -> None:
    assert width_of(size) == width
