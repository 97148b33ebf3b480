"""What a daemon's log says of its engine, in the engine's own words."""

from io import StringIO

from evensong.core.effects import StateChange
from evensong.core.ids import RingId
from evensong.daemon.log import Log

VIEW = RingId(3, 77)
MS = 1_000


def told(*changes: tuple[str, str, int]) -> list[str]:
    out = StringIO()
    log = Log(out, "n1")
    for state, cause, at in changes:
        log.change_state(StateChange(state, VIEW, cause, 2), at)
    log.close()
    return [line.split(" n1 ")[1] for line in out.getvalue().splitlines()]


def test_a_ring_is_looked_for_from_the_start() -> None:
    assert told(
        ("gather", "start", 0), ("commit", "agreed", 4 * MS), ("operational", "", 9 * MS)
    ) == [
        "looks for a ring, because: start (n2)",
        "operational after 9.0 ms",
    ]


def test_a_domain_begins_settled_and_its_collecting_is_no_news() -> None:
    assert told(("stable", "start", 7 * MS), ("collect", "foreign", 8 * MS)) == []
    assert told(
        ("stable", "start", 0),
        ("collect", "foreign", 1 * MS),
        ("stable", "nobody to join with", 2 * MS),
        ("agree", "silent", 5 * MS),
        ("stable", "installed", 8 * MS),
    ) == ["looks for another view, because: silent (n2)", "stable after 3.0 ms"]
