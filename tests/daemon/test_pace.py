from evensong.core.effects import TokenVisit
from evensong.core.ids import RingId
from evensong.daemon.pace import Pace


def visit(*, fcc: int = 1, ring: int = 4, was_held: bool = False) -> TokenVisit:
    return TokenVisit(RingId(ring, 1), 1, 1, 1, fcc, 0, 0, was_held=was_held)


def test_rotations_with_traffic_are_measured() -> None:
    pace = Pace()
    assert pace.rotation_us(99) == 0
    now = 0
    for took in [2_000] * 98 + [70_000] * 2:
        pace.visit(visit(), now)
        now += took
    pace.visit(visit(), now)
    assert pace.rotations == 100
    assert 2_000 <= pace.rotation_us(50) < 2_300
    assert 70_000 <= pace.rotation_us(99) < 70_300


def test_an_idle_ring_and_a_new_one_are_not_measured() -> None:
    pace = Pace()
    for now, seen in enumerate((visit(), visit(fcc=0), visit(ring=8), visit(ring=12))):
        pace.visit(seen, now * 100_000)
    assert pace.rotations == 0


def test_a_rotation_in_which_the_token_was_held_is_not_measured() -> None:
    pace = Pace()
    for now in range(3):
        pace.visit(visit(was_held=True), now * 4_000)
    assert pace.rotations == 0
    pace.visit(visit(), 8_500)
    assert pace.rotations == 1


def test_what_takes_very_long_counts_as_the_longest() -> None:
    pace = Pace()
    pace.visit(visit(), 0)
    pace.visit(visit(), 10**9)
    assert pace.rotation_us(50) == pace.rotation_us(100) > 1_000_000
