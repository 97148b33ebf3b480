"""Changes of membership, each put together from what all of its nodes wrote down.

A change is one ring that came about. Rings are put in the order of their ids, which every node's
own order agrees with; no clock is asked for that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evensong.core.ids import ProcessorId, RingId
from evensong.why.passages import Passage, Ring, Stay, passages
from evensong.why.records import Account, Record, one_clock


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a ring came about, or came to its end; a change may have several."""

    kind: str  # a word for programs; `causes.KINDS` has them all
    nodes: tuple[ProcessorId, ...]  # whom it is about
    sentence: str
    records: tuple[Record, ...]  # what it is backed by


@dataclass(frozen=True, slots=True)
class Change:
    """One ring that came about: who came and went, why, and how each member got there."""

    number: int
    ring: Ring | None  # none: it is still under way, or never came to an end
    sides: tuple[Ring, ...]  # the rings that its members come from, the largest first
    came: tuple[ProcessorId, ...]  # new to the largest side
    gone: tuple[ProcessorId, ...]  # were with one of its members, and are no more
    causes: tuple[Cause, ...]  # the most probable first
    passages: tuple[Passage, ...]
    is_one_clock: bool  # else times of different nodes are not compared
    detect_us: int | None  # from the last sign of what is gone until the first node left its ring
    recover_us: int | None  # from then until the last one had the new ring
    unknown: tuple[str, ...]  # what is not here, in sentences


@dataclass(slots=True)
class Company:
    """Everything that is known of a run: its accounts, and the ways they tell of."""

    accounts: list[Account]
    passages: list[Passage] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)

    def account_of(self, node: ProcessorId) -> Account | None:
        """Return the latest account of a node."""
        found = [one for one in self.accounts if one.node == node]
        return max(found, key=_incarnation) if found else None

    def way_out(self, node: ProcessorId, ring_id: RingId) -> Passage | None:
        """Return how a node left a ring."""
        for passage in self.passages:
            if passage.node == node and passage.left.ring_id == ring_id:
                return passage
        return None

    def last_in(self, node: ProcessorId, ring_id: RingId) -> Stay | None:
        """Return the end of a life of a node in a ring."""
        for stay in self.stays:
            if stay.account.node == node and stay.ring.ring_id == ring_id:
                return stay
        return None

    def cut_before(self, way: Passage, node: ProcessorId) -> Stay | None:
        """Return where the record of a node stops that was with another one in the ring it left.

        The last moments of a life that was killed are not written down, nor are those of one that
        is suspended: its record may stop before that ring, even before any. A life is not meant if
        a later one is known to have been in that ring.
        """
        ring_id = way.left.ring_id
        latest = max(
            (
                one.account.incarnation
                for one in self.passages
                if one.node == node
                and (one.left.ring_id == ring_id or (one.joined and one.joined.ring_id == ring_id))
            ),
            default=0,
        )
        found = [
            stay
            for stay in self.stays
            if stay.account.node == node
            and stay.account.incarnation >= latest
            and stay.ring.ring_id <= ring_id
            and (stay.ring.members or _is_earlier(stay, way))
        ]
        return max(found, key=lambda one: one.account.incarnation, default=None)

    def is_seen_after(self, node: ProcessorId, ring_id: RingId) -> bool:
        """Whether a node was in a later ring of anybody."""
        return any(
            one.joined is not None and one.joined.ring_id > ring_id and node in one.joined.members
            for one in self.passages
        )

    def lived_before(self, account: Account) -> bool:
        """Whether the node is known to have lived before this life."""
        node, incarnation = account.node, account.incarnation
        if any(one.node == node and one.incarnation < incarnation for one in self.accounts):
            return True
        way = next((one for one in self.passages if one.account is account), None)
        own = way.joined.ring_id if way is not None and way.joined is not None else None
        return own is not None and any(
            node in ring.members and ring.ring_id < own
            for one in self.passages
            for ring in (one.left,)
            if one.node != node
        )


def company_of(accounts: Iterable[Account]) -> Company:
    """Read all ways out of accounts."""
    company = Company(sorted(accounts, key=_whose))
    for account in company.accounts:
        for one in passages(account):
            if isinstance(one, Stay):
                company.stays.append(one)
            else:
                company.passages.append(one)
    return company


def groups_of(company: Company) -> list[tuple[Ring | None, list[Passage]]]:
    """Return the rings that came about, each with the ways into it; what is under way is last."""
    rings: dict[RingId, Ring] = {}
    ways: dict[RingId, list[Passage]] = {}
    open_ways: list[Passage] = []
    for passage in company.passages:
        if passage.joined is None:
            if passage.end is None:
                open_ways.append(passage)
        else:
            rings[passage.joined.ring_id] = passage.joined
            ways.setdefault(passage.joined.ring_id, []).append(passage)
    found: list[tuple[Ring | None, list[Passage]]] = [
        (rings[ring_id], ways[ring_id]) for ring_id in sorted(rings)
    ]
    if open_ways:
        found.append((None, open_ways))
    return found


def sides_of(ways: Sequence[Passage]) -> tuple[Ring, ...]:
    """Return the rings that these come from, the one that most of them come from first.

    Rings of one, of those who have just started, are last.
    """
    rings = {way.left.ring_id: way.left for way in ways}
    fresh = {way.left.ring_id for way in ways if way.is_fresh}
    here = {node for way in ways for node in (way.joined.members if way.joined else (way.node,))}
    elsewhere = {way.node: way.left.ring_id for way in ways}

    def size(ring: Ring) -> int:
        return sum(
            elsewhere.get(one, ring.ring_id) == ring.ring_id for one in here & {*ring.members}
        )

    return tuple(
        sorted(rings.values(), key=lambda one: (one.ring_id in fresh, -size(one), one.ring_id))
    )


def came_of(ring: Ring | None, ways: Sequence[Passage]) -> tuple[ProcessorId, ...]:
    """Return who is new to the largest of the sides."""
    if ring is None:
        return ()
    sides = sides_of(ways)
    fresh = {way.node for way in ways if way.is_fresh}
    stayed = set(sides[0].members) - (fresh if len(sides[0].members) > 1 else set())
    if len(sides[0].members) == 1 and all(way.is_fresh for way in ways):
        return ring.members  # nobody was anywhere before
    return tuple(sorted(set(ring.members) - stayed))


def gone_of(ring: Ring | None, ways: Sequence[Passage]) -> tuple[ProcessorId, ...]:
    """Return who had been with a member and is not in the new ring."""
    if ring is None:
        return ()
    return tuple(sorted({node for way in ways for node in way.left.members} - set(ring.members)))


def clocks_agree(ways: Sequence[Passage]) -> bool:
    """Whether times of these ways may be compared."""
    return one_clock(way.account for way in ways)


def recovery_us(ways: Sequence[Passage]) -> int | None:
    """Return the time from the first sign to the last installation, or that of the slowest."""
    done = [way for way in ways if way.installed is not None]
    settled = [way for way in done if not way.is_fresh] or done
    if not settled:
        return None
    if clocks_agree(done):
        began = min(way.began.t_us for way in settled)
        return max(way.installed.t_us for way in done if way.installed) - began
    return max(way.took_us() or 0 for way in settled)


def missing_of(company: Company, ring: Ring | None, ways: Sequence[Passage]) -> tuple[str, ...]:
    """Say whose records are not here, or do not reach back far enough."""
    told = []
    concerned = {node for way in ways for node in way.left.members}
    concerned.update(ring.members if ring is not None else ())
    for node in sorted(concerned - {way.node for way in ways}):
        account = company.account_of(node)
        if account is None:
            told.append(f"n{node}'s recorder is not here")
        elif account.is_stuck:
            told.append(f"n{node}'s daemon is there and does not answer")
        elif not _reaches(company, node, ring, ways):
            told.append(f"what n{node} recorded does not cover this change")
    return tuple(told)


def _reaches(
    company: Company, node: ProcessorId, ring: Ring | None, ways: Sequence[Passage]
) -> bool:
    """Whether anything of a node is known that belongs to the rings of a change."""
    rings = {way.left.ring_id for way in ways if node in way.left.members}
    if ring is not None and node in ring.members:
        rings.add(ring.ring_id)
    return any(
        company.way_out(node, ring_id) is not None or company.last_in(node, ring_id) is not None
        for ring_id in rings
    )


def _incarnation(account: Account) -> int:
    return account.incarnation


def _whose(account: Account) -> tuple[ProcessorId, int]:
    return account.node, account.incarnation


def _is_earlier(stay: Stay, way: Passage) -> bool:
    return one_clock([stay.account, way.account]) and stay.last.t_us < way.began.t_us
