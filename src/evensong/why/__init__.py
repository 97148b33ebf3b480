"""Why views changed: what traces, flight recorders and running daemons say, put together.

    for change in explain(history):
        print("\n".join(story(change)))

No clause of a story is invented: each cause has the records that it is backed by.
"""

from collections.abc import Iterable

from evensong.sim.history import History
from evensong.why.causes import causes_of
from evensong.why.changes import (
    Cause,
    Change,
    Company,
    came_of,
    clocks_agree,
    company_of,
    gone_of,
    groups_of,
    missing_of,
    recovery_us,
    sides_of,
)
from evensong.why.detection import detection_us
from evensong.why.passages import Passage, Ring
from evensong.why.records import Account, Record, from_history
from evensong.why.telling import plain, story

__all__ = [
    "Account",
    "Cause",
    "Change",
    "Passage",
    "Record",
    "Ring",
    "explain",
    "from_history",
    "plain",
    "story",
]


def explain(source: History | Iterable[Account]) -> list[Change]:
    """Explain every change of membership that a history or accounts tell of, in order."""
    accounts = from_history(source) if isinstance(source, History) else source
    company = company_of(accounts)
    return [
        _change(company, number, ring, ways)
        for number, (ring, ways) in enumerate(groups_of(company), 1)
    ]


def _change(company: Company, number: int, ring: Ring | None, ways: list[Passage]) -> Change:
    return Change(
        number,
        ring,
        sides_of(ways),
        came_of(ring, ways),
        gone_of(ring, ways),
        causes_of(company, ring, ways),
        tuple(sorted(ways, key=lambda way: way.node)),
        clocks_agree(ways),
        detection_us(company, ring, ways),
        recovery_us(ways),
        missing_of(company, ring, ways),
    )
