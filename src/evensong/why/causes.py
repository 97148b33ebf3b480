"""From what nodes wrote down to why a ring came about: rules, the gravest first. Pure.

Every rule reads records and names those it went by. What nobody recorded is said to be unknown, not
guessed: a node that fell silent and left no record was killed *or* cut off.
"""

from collections.abc import Sequence
from typing import Final

from evensong.core.ids import ProcessorId, RingId
from evensong.why.changes import Cause, Company, gone_of, sides_of
from evensong.why.links import Links, links_of
from evensong.why.passages import Passage, Ring
from evensong.why.records import Record, unique
from evensong.why.signs import (
    DEAF,
    ELSEWHERE,
    FOREIGN,
    JOIN,
    LEFT,
    NOT_HEARD,
    PAST_LOST,
    PROBED,
    STUCK,
    TOKEN_LOSS,
    is_suspicion,
)
from evensong.why.words import listed, members_text, ms, names

KINDS: Final = {
    "left": "it departed in good order",
    "killed": "its life ended without goodbye, or by an error that it wrote down",
    "stuck": "its daemon is there and does not answer: suspended, or hung",
    "late": "it was itself late: suspended, or its machine was too busy",
    "one-way": "it is heard and does not hear, or the other way round",
    "partition": "two sides each fell silent to the other",
    "deaf": "it held the others up by not receiving, or not acknowledging, what they sent",
    "unrepaired": "what its last message refers to could not be had any more",
    "silent": "nobody heard it any more, and it left no record: killed or cut off",
    "apart": "it went elsewhere",
    "restart": "it started again",
    "join": "it started",
    "came": "it was not with them before; where it was is not recorded",
    "start": "all of them started",
    "alone": "it found nobody else",
    "merge": "rings heard of each other",
    "token": "the token was lost, and nobody was late or gone",
    "guest": "somebody was heard who did not come",
    "unknown": "the records do not say",
}
LAG_SHARE: Final = 3  # a lateness beyond this part of token_loss explains suspicions


def causes_of(company: Company, ring: Ring | None, ways: Sequence[Passage]) -> tuple[Cause, ...]:
    """Return why a ring came about, or is to, the most probable cause first."""
    gone = gone_of(ring, ways)
    found = _fates(company, ring, ways, gone)
    explained = {node for cause in found for node in cause.nodes}
    found += _lateness(company, ways, explained)
    found += _arrivals(company, ring, ways)
    found += _merge(ring, ways)
    found += _strangers(ring, ways)
    found.sort(key=lambda cause: cause.kind == "apart")  # whatever else is known says more
    if not found:
        found += _deafness(ways) or _lost_token(ring, ways) or _guests(ring, ways)
    if not found:
        first = _noticed_first(ways)
        found.append(
            Cause(
                "unknown",
                (first.node,),
                f"n{first.node} left its {_noun(first)} ({_why(first)}); more is not recorded",
                (first.began,),
            )
        )
    return tuple(found)


def lateness_limit_us(company: Company) -> int:
    """Return from where on a lateness explains something; by how long others waited if nobody says.

    0 if neither is known: then nothing is put down to lateness.
    """
    loss = max((account.token_loss_us for account in company.accounts), default=0)
    if not loss:
        ways = company.passages
        waits = [way.token.us_before for way in ways if way.token and way.cause == TOKEN_LOSS]
        waits += [
            heard[0]
            for way in ways
            if way.cause == PROBED and (heard := way.heard_at_giving_up(way.about))
        ]
        loss = max(waits, default=0)
    return loss // LAG_SHARE


# Who is gone


def _fates(
    company: Company,
    ring: Ring | None,
    ways: Sequence[Passage],
    gone: Sequence[ProcessorId],
) -> list[Cause]:
    """Say what became of each that is gone; those of one fate share a sentence."""
    found: list[Cause] = []
    open_questions: dict[RingId, list[ProcessorId]] = {}
    left = []
    for node in gone:
        old = next(way.left for way in ways if node in way.left.members)
        cause = _known_fate(company, node, old, ways)
        if cause is None:
            open_questions.setdefault(old.ring_id, []).append(node)
        elif cause.kind == "left":
            left.append(cause)
        else:
            found.append(cause)
    if left:
        nodes = tuple(node for cause in left for node in cause.nodes)
        records = tuple(record for cause in left for record in cause.records)
        found.append(Cause("left", nodes, f"{names(nodes)} left (stop)", records))
    for ring_id, nodes_left in open_questions.items():
        found += _by_links(company, ring, ring_id, ways, nodes_left)
    return found


def _known_fate(
    company: Company, node: ProcessorId, old: Ring, ways: Sequence[Passage]
) -> Cause | None:
    """Return what became of a node by its own record, or by what it told the others."""
    told = [
        record
        for way in ways
        for record in way.states
        if record.text("cause") in LEFT and record.number("about") == node
    ]
    stay = company.last_in(node, old.ring_id)
    how = stay.end.text("how") if stay is not None and stay.end is not None else ""
    if told or how == "stop":
        own = (stay.end,) if stay is not None and stay.end is not None else ()
        return Cause("left", (node,), f"n{node} left (stop)", (*told, *own))
    if stay is not None and stay.end is not None and how == "fail":
        why = stay.end.text("cause") or "no reason is recorded"
        sentence = f"n{node} failed ({why}){_silence(node, ways)}"
        return Cause("killed", (node,), sentence, (stay.end, *_silence_records(node, ways)))
    cut = company.cut_before(next(way for way in ways if way.left == old), node)
    records = _silence_records(node, ways)
    if cut is not None and cut.account.is_stuck and not company.is_seen_after(node, old.ring_id):
        sentence = f"n{node} is suspended or hung: its daemon is there and does not answer"
        return Cause("stuck", (node,), sentence + _silence(node, ways), (cut.last, *records))
    if cut is not None and cut.account.ended == "lost":
        noun = _noun(ways[0])
        where = (
            f" in {noun} {cut.ring.ring_id}" if cut.ring.members else f" before its first {noun}"
        )
        where = "" if cut.ring.ring_id == old.ring_id else where
        sentence = f"n{node} was killed: its record stops{where}, without a goodbye"
        return Cause("killed", (node,), sentence + _silence(node, ways), (cut.last, *records))
    way = company.way_out(node, old.ring_id)
    lag = _lateness_of(company, way) if way is not None else None
    if lag is not None and _covers(lag[0], [us for us, _, _ in _silences(node, ways)]):
        sentence = (
            f"n{node} was itself {ms(lag[0])} late, suspended or too busy: the others gave it up"
        )
        return Cause("late", (node,), sentence, (lag[1], *records))
    return None


def _silence(node: ProcessorId, ways: Sequence[Passage]) -> str:
    """Say who had heard a node last before giving it up."""
    found = _silences(node, ways)
    if not found:
        return ""
    us, who, record = min(found, key=lambda one: one[:2])
    if "heard" in record.figures:
        probed = ", nor had it answered when it was probed," if _is_probed(record) else ""
        return f"; n{who} had not heard it for {ms(us)}{probed} when it gave it up"
    return f"; n{who} had delivered nothing of it for {ms(us)} when it gave it up"


def _silence_records(node: ProcessorId, ways: Sequence[Passage]) -> tuple[Record, ...]:
    silences = [record for _, _, record in _silences(node, ways)]
    given_up = [
        one.record
        for way in ways
        for one in way.gave_up
        if one.node == node and one.record not in silences
    ]
    return (*silences, *given_up)


def _silences(node: ProcessorId, ways: Sequence[Passage]) -> list[tuple[int, int, Record]]:
    found = []
    for way in ways:
        heard = way.heard_at_giving_up(node)
        if heard is not None:
            found.append((heard[0], way.node, heard[1]))
    return found


def _by_links(
    company: Company,
    ring: Ring | None,
    old_id: RingId,
    ways: Sequence[Passage],
    gone: Sequence[ProcessorId],
) -> list[Cause]:
    """Say what became of nodes by who still heard whom when their ring ended."""
    here = {way.node for way in ways}
    members = frozenset(ring.members) if ring is not None else frozenset(here)
    links = links_of(company, old_id)
    late = [way for way in ways if _is_to_blame(company, way, gone)]
    found: list[Cause] = []
    rest: Sequence[ProcessorId] = gone
    if not late:
        crossing = links.one_way_between(members, frozenset(gone))
        if crossing:
            found.append(_one_way(company, old_id, links, crossing))
            rest = []  # whoever is gone for it took the word of those two
        elif links.is_split_between(members, frozenset(gone)):
            found.append(_partition(company, members, old_id, gone, links))
            rest = []
    is_late = bool(late)
    return found + [_other_fate(company, node, old_id, ways, is_late=is_late) for node in rest]


def _one_way(
    company: Company,
    old_id: RingId,
    links: Links,
    crossing: Sequence[tuple[ProcessorId, ProcessorId]],
) -> Cause:
    told = []
    for deaf in sorted({deaf for deaf, _ in crossing}):
        unheard = [heard for one, heard in crossing if one == deaf]
        they = "they hear" if len(unheard) > 1 else f"n{unheard[0]} hears"
        told.append(f"n{deaf} does not hear {names(unheard)}, though {they} n{deaf}")
    records = [record for pair in crossing for record in links.records_of(*pair)]
    nodes = tuple(sorted({node for pair in crossing for node in pair}))
    sentence = f"one way only: {listed(told)}"
    ways = [company.way_out(heard, old_id) for _, heard in crossing]
    unmeasured = {way.node for way in ways if way is not None and way.lag() is None}
    if unmeasured:
        were = "were" if len(unmeasured) > 1 else "was"
        sentence += f"; or {names(unmeasured)} {were} too slow to answer: that is not recorded"
    return Cause("one-way", nodes, sentence, unique(records))


def _partition(
    company: Company,
    members: frozenset[ProcessorId],
    old_id: RingId,
    gone: Sequence[ProcessorId],
    links: Links,
) -> Cause:
    """Name the sides: who went into one ring is on one side."""
    sides = [members]
    for node in gone:
        way = company.way_out(node, old_id)
        side = frozenset(way.joined.members) if way and way.joined else frozenset([node])
        if not any(node in one for one in sides):
            sides.append(side)
    told = " | ".join(members_text(side) for side in sorted(sides, key=min))
    nodes = tuple(sorted(frozenset().union(*sides)))
    sentence = f"partition: {told} each gave up the other side"
    return Cause("partition", nodes, sentence, links.silence_records(members, frozenset(gone)))


def _other_fate(
    company: Company, node: ProcessorId, old_id: RingId, ways: Sequence[Passage], *, is_late: bool
) -> Cause:
    given_up = [one for way in ways for one in way.gave_up if one.node == node]
    deaf = tuple(one.record for one in given_up if one.cause in DEAF)
    if deaf:
        return Cause("deaf", (node,), f"n{node} {_held_up(deaf)}", deaf)
    lost = tuple(one.record for one in given_up if one.cause == PAST_LOST)
    if lost:
        sentence = f"n{node} refers to messages that the others lack, and nobody could send again"
        return Cause("unrepaired", (node,), sentence, lost)
    way = company.way_out(node, old_id)
    records = _silence_records(node, ways)
    elsewhere = [one for one in given_up if one.cause in ELSEWHERE]
    if way is None and elsewhere:
        first = elsewhere[0].record
        sentence = (
            f"n{node} went on without them: n{first.node} heard of it ({first.text('cause')})"
        )
        return Cause("apart", (node,), sentence, records)
    if way is not None and (is_late or elsewhere or not records):
        where = f" and is in {_noun(way)} {way.joined}" if way.joined is not None else ""
        sentence = f"n{node} went on without them: it left ({_why(way)}){where}"
        return Cause("apart", (node,), sentence, (way.began,))
    if way is not None:
        sentence = (
            f"n{node} was given up{_silence(node, ways)}; "
            f"it left its {_noun(way)} itself ({_why(way)})"
        )
        return Cause("apart", (node,), sentence, (*records, way.began))
    account = company.account_of(node)
    again = ""
    if account is not None:
        again = "; of that time it has no record"
    sentence = f"n{node} was killed or cut off{_silence(node, ways)}{again}"
    return Cause("silent", (node,), sentence, records)


# Those who stay


def _lateness_of(company: Company, way: Passage) -> tuple[int, Record] | None:
    """Return how late a node was itself when it left its ring, if that was so late as to matter."""
    lag = way.lag()
    limit_us = lateness_limit_us(company)
    if lag is None or way.is_fresh or not limit_us or lag[0] <= limit_us:
        return None
    is_of_this_ring = way.began.t_us - way.since_us >= lag[0]  # else it was late before that
    return lag if is_of_this_ring else None


def _covers(lag_us: int, silences_us: Sequence[int]) -> bool:
    """Whether a lateness is long enough to have been the better part of a silence."""
    return not silences_us or 2 * lag_us >= min(silences_us)


def _is_to_blame(company: Company, way: Passage, gone: Sequence[ProcessorId]) -> bool:
    """Whether a node can have missed others because it was late itself."""
    lag = _lateness_of(company, way)
    silences = [us for node in gone for us, _, _ in _silences(node, [way])]
    return lag is not None and _covers(lag[0], silences)


def _lateness(
    company: Company, ways: Sequence[Passage], explained: set[ProcessorId]
) -> list[Cause]:
    """Name those who were late themselves, and whether anybody else suspected somebody."""
    found = []
    doubts = NOT_HEARD | ELSEWHERE
    has_suspicion = any(is_suspicion(way.cause) or way.gave_up_by(doubts) for way in ways)
    for way in ways:
        lag = _lateness_of(company, way)
        is_return = any(one.left.ring_id > way.left.ring_id for one in ways if not one.is_fresh)
        if lag is None or way.node in explained or not (has_suspicion or is_return):
            continue
        others = [one for one in ways if one is not way and is_suspicion(one.cause)]
        if others:
            missed = "gave somebody up" if way.is_view else "lost the token"
            what = f"{names(one.node for one in others)} {missed} meanwhile"
        elif is_suspicion(way.cause):
            what = "it suspected others, nobody else did"
        else:
            what = f"it left its {_noun(way)} when it went on ({_why(way)})"
        sentence = f"n{way.node}'s own loop was {ms(lag[0])} late: {what}"
        records = (lag[1], *(one.began for one in others))
        found.append(Cause("late", (way.node,), sentence, records))
    return found


def _arrivals(company: Company, ring: Ring | None, ways: Sequence[Passage]) -> list[Cause]:
    """Name those who have started, for the first time or again."""
    fresh = [way for way in ways if way.is_fresh]
    if not fresh:
        return []
    again = [way for way in fresh if company.lived_before(way.account)]
    first = [way for way in fresh if way not in again]
    nodes = tuple(way.node for way in first)
    members = ring.members if ring is not None else ()
    found = []
    for way in again:
        is_missed = not any(way.node in one.left.members for one in ways if one is not way)
        what = "restarted" if is_missed else "restarted, before anybody had missed it"
        records = (*way.account.records[:1], way.began)
        sentence = f"n{way.node} joined again ({what})"
        found.append(Cause("restart", (way.node,), sentence, records))
    records = tuple(record for way in first for record in (*way.account.records[:1], way.began))
    if first and len(members) == 1:
        found.append(Cause("alone", nodes, f"{names(nodes)} started and found nobody", records))
    elif len(nodes) > 1 and set(nodes) == set(members):
        sentence = f"{names(nodes)} started and found each other"
        found.append(Cause("start", nodes, sentence, records))
    elif first:
        found.append(Cause("join", nodes, f"{names(nodes)} joined (started)", records))
    return found


def _merge(ring: Ring | None, ways: Sequence[Passage]) -> list[Cause]:
    """Say which rings came together, and who heard of the other first."""
    settled = [way for way in ways if not way.is_fresh]
    sides = sides_of(settled)
    if len(sides) < 2 or ring is None:
        return []
    left_by = {way.node: way.left for way in settled}
    parts = {
        side.ring_id: members_text(way.node for way in settled if way.left == side)
        for side in sides
    }
    noun = _noun(settled[0])
    told = " and ".join(f"{nodes} of {noun} {ring_id}" for ring_id, nodes in parts.items())
    sentence = f"merge: {told}"
    heard = _heard_first(settled)
    if heard is not None:
        other = left_by[heard.number("about") or 0]
        whose = f"n{heard.text('about')}, {noun} {other.ring_id}"
        sentence += f"; n{heard.node} heard {_sign(heard)} of {whose}"
    records = tuple(way.began for way in settled)
    return [Cause("merge", tuple(sorted(left_by)), sentence, records)]


def _heard_first(ways: Sequence[Passage]) -> Record | None:
    """Return which record first tells of somebody of another side."""
    left_by = {way.node: way.left.ring_id for way in ways}
    found = [
        (not record.text("cause").startswith(FOREIGN), record.t_us, record.node, record)
        for way in ways
        for record in (way.collected, way.began)
        if record is not None
        and record.text("cause").startswith((FOREIGN, JOIN))
        and left_by.get(record.number("about") or 0, way.left.ring_id) != way.left.ring_id
    ]
    return min(found, key=lambda one: one[:3])[3] if found else None


def _sign(record: Record) -> str:
    cause = record.text("cause")
    if not cause.startswith(FOREIGN):
        return "a Join"
    return "a beacon" if "beacon" in cause else f"a {cause}"


def _strangers(ring: Ring | None, ways: Sequence[Passage]) -> list[Cause]:
    """Name those who came from where nobody recorded, and how they were heard of."""
    if all(way.is_fresh for way in ways):
        return []  # it is they who came, as far as anybody knows
    known = {way.node for way in ways} | {node for way in ways for node in way.left.members}
    found = []
    for node in sorted(set(ring.members) - known if ring is not None else ()):
        signs = [way for way in ways if way.about == node]
        how = f"; n{signs[0].node} heard it ({signs[0].cause})" if signs else ""
        sentence = f"n{node} came: from where, or whether it had just started, is not recorded{how}"
        found.append(Cause("came", (node,), sentence, tuple(way.began for way in signs or ways)))
    return found


def _deafness(ways: Sequence[Passage]) -> list[Cause]:
    """Name who was accused of not receiving, and came along all the same."""
    accused = {one.node: one.record for way in ways for one in way.gave_up if one.cause in DEAF} | {
        way.about: way.began for way in ways if way.cause in DEAF
    }
    return [
        Cause("deaf", (node,), f"n{node} did not receive what the others had sent", (record,))
        for node, record in sorted(accused.items())
    ]


def _lost_token(ring: Ring | None, ways: Sequence[Passage]) -> list[Cause]:
    """Say where a token was seen last, if its loss is all there is."""
    losers = [way for way in ways if way.cause == TOKEN_LOSS]
    if not losers:
        return []
    sentence = f"the token was lost ({names(way.node for way in losers)} waited for it in vain)"
    seen = [way for way in ways if way.token is not None]
    records = [way.began for way in losers]
    if seen:
        holder = max(seen, key=lambda way: way.token.token_seq if way.token else 0)
        assert holder.token is not None
        order = holder.left.members
        following = order[(order.index(holder.node) + 1) % len(order)]
        sentence += f": n{holder.node} had it last, and passed it to n{following}"
        records.append(holder.token.record)
    known = {way.node for way in ways}
    if ring is not None and known >= set(ring.members):
        sentence += "; nobody was late or gone: datagrams were lost"
    nodes = tuple(way.node for way in losers)
    return [Cause("token", nodes, sentence, unique(records))]


def _guests(ring: Ring | None, ways: Sequence[Passage]) -> list[Cause]:
    """Name who was heard, and did not come."""
    members = ring.members if ring is not None else ()
    found = []
    for way in ways:
        if way.about and way.about not in members and way.cause.startswith((FOREIGN, JOIN)):
            sentence = f"n{way.node} heard n{way.about} ({way.cause}), which did not come"
            found.append(Cause("guest", (way.about,), sentence, (way.began,)))
    return found[:1]


def _held_up(records: Sequence[Record]) -> str:
    if any(record.text("cause") == STUCK for record in records):
        return "did not acknowledge what the others had sent, and kept the window full"
    return "did not receive what the others had sent, and held the ring up"


def _is_probed(record: Record) -> bool:
    return record.text("cause") == PROBED


def _noun(way: Passage) -> str:
    return "view" if way.is_view else "ring"


def _noticed_first(ways: Sequence[Passage]) -> Passage:
    return min(ways, key=lambda way: (way.is_fresh, way.began.t_us, way.node))


def _why(way: Passage) -> str:
    about = f", n{way.about}" if way.about else ""
    return f"{way.cause or 'no reason is recorded'}{about}"
