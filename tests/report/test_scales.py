import pytest

from evensong.report.scales import (
    amount,
    count,
    decades,
    duration,
    nice_step,
    size,
    ticks,
    time_ticks,
)

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 µs"),
        (850, "850 µs"),
        (2_240, "2.2 ms"),
        (302_000, "302 ms"),
        (999_700, "1.0 s"),
        (1_500_000, "1.5 s"),
        (13 * SECOND, "13 s"),
        (200 * SECOND, "3 min 20 s"),
        (7_500 * SECOND, "2 h 5 min"),
        (-3_000, "-3.0 ms"),
    ],
)
def test_durations_have_the_unit_that_people_would_use(us: int, text: str) -> None:
    assert duration(us) == text


def test_amounts_and_sizes_are_short() -> None:
    assert [amount(number) for number in (7, 12_400, 1_234_567)] == ["7", "12,400", "1.2 million"]
    assert [size(number) for number in (950, 12_345, 5_000_000)] == ["950 B", "12.3 kB", "5.0 MB"]
    assert [count(1, "delivery"), count(2, "delivery"), count(3, "node")] == [
        "1 delivery",
        "2 deliveries",
        "3 nodes",
    ]


@pytest.mark.parametrize("top", [0.003, 0.4, 1, 7, 99, 1_234, 80_000_000])
def test_ticks_are_round_start_at_zero_and_cover_the_top(top: float) -> None:
    found = ticks(top, 3)
    assert found[0] == 0
    assert top <= found[-1] < top + 2 * (found[1] - found[0])
    assert len(found) <= 5
    assert nice_step(top, 3) == found[1]


@pytest.mark.parametrize("span_us", [40, 900, 375_000, 13 * SECOND, 3_700 * SECOND, 10**12])
def test_times_on_an_axis_are_within_it_and_not_too_many(span_us: int) -> None:
    found = time_ticks(span_us, 6)
    assert found[0][0] == 0
    assert all(0 <= us <= span_us for us, _ in found)
    assert 2 <= len(found) <= 16
    assert len({label for _, label in found}) == len(found)


def test_decades_are_those_between() -> None:
    assert decades(150, 120_000) == [(1e3, "1 ms"), (1e4, "10 ms"), (1e5, "100 ms")]
