"""How long it took until a node that was gone was missed."""

from collections.abc import Sequence

from evensong.why.changes import Company, gone_of
from evensong.why.passages import Passage, Ring
from evensong.why.records import one_clock
from evensong.why.signs import TOKEN_LOSS


def detection_us(company: Company, ring: Ring | None, ways: Sequence[Passage]) -> int | None:
    """Return the time from the last sign of those who are gone until a ring was first left.

    From their own end if it is recorded and clocks can be compared; else since the node that left
    first had heard them, by its own clock; else since it had last seen the token.
    """
    settled = [way for way in ways if not way.is_fresh]
    if not settled:
        return None
    ended = _since_end(company, ring, settled)
    if ended is not None:
        return ended
    gone = gone_of(ring, ways)
    heard = [way.heard()[node] for way in settled for node in gone if node in way.heard()]
    if heard:
        return min(heard)
    waits = [way.token.us_before for way in settled if way.token and way.cause == TOKEN_LOSS]
    return min(waits, default=None)


def _since_end(company: Company, ring: Ring | None, ways: Sequence[Passage]) -> int | None:
    found = []
    for node in gone_of(ring, ways):
        for way in ways:
            stay = company.last_in(node, way.left.ring_id)
            is_told = stay is not None and stay.end is not None
            if stay is None or stay.end is None or not is_told:
                continue
            is_exact = stay.end.text("how") in ("fail", "stop")
            if is_exact and one_clock([stay.account, way.account]):
                found.append(way.began.t_us - stay.end.t_us)
    return min((us for us in found if us >= 0), default=None)
