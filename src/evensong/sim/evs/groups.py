"""The promises of process groups, judged on what clients were told: G1 to G8.

`check_groups` runs them over an in-memory `History` that has group rows, as `check` runs the
properties of the ring. Where we say more exactly what is asked:

- G2 and G3 do not ask a sender for what it did not want to have back.
- G3 asks a member for every frame that another one was told under the same view, up to its horizon:
  the place at which it was shown the next view, left, or was last told something; everything, if
  the run came to rest under that view. Who was hung up on or went away misses what came later.
- G3 also asks whoever was a member when it sent a frame to its group, and is one still when the
  run comes to rest, for that frame: what nobody was told, no two members can disagree about.
- G4, G5 and G7 look at the first time that a frame is told; a second one is G6's.
- Keys rise in each stream and a frame has one key everywhere: that is a numbering, so no two
  clients can have been told two frames in different orders, and no cycle need be looked for.
- G8 takes a frame's place as its sender's daemon gave it: all that the session had been told by
  then lies before it.

In a broadcast domain (Transis) what is left when a view ends gets its place from those who go on
together, under the id of their transitional configuration. So there a frame has one place in each
configuration (G4), nobody is asked for what was told on another side (G3), and since a frame has no
place when it is sent, G8 takes those at which it was told, and those of its causes in the same
configuration.

What is not ordered there (CAUSAL, BASIC) has no place. G2 asks for what is CAUSAL as for all else,
and not for what is BASIC. G3 asks for what is CAUSAL whoever is under the same view when the run
comes to rest. G4 asks nothing. G5 lets what is BASIC come before what was sent before it, and G8
goes by where a stream has it, causes that are BASIC apart.
"""

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from evensong.sim.evs.streams import (
    CUT,
    NOWHERE,
    QUIESCE,
    GroupReading,
    Place,
    Stay,
    Stream,
    Told,
    is_private_to,
    ring_of,
)
from evensong.sim.evs.verdict import Finding, Verdicts
from evensong.sim.history import FrameId, GroupDelivery, GroupSend, History
from evensong.trace.groups import Member, Shown, To

if TYPE_CHECKING:
    from evensong.core.ids import RingId

Content: TypeAlias = tuple[object, ...]


def same_members(reading: GroupReading) -> Finding:
    """G1: a view id is one list of members, and who is shown a view is in it."""
    found = Finding("G1")
    lists: dict[tuple[str, str], dict[tuple[Member, ...], int]] = {}
    shown_at: dict[tuple[str, str], int] = {}
    for life, shown in reading.showings:
        key = (shown.group, shown.view)
        lists.setdefault(key, {}).setdefault(shown.members, life.node)
        shown_at[key] = shown_at.get(key, 0) + 1
        strangers = [
            session
            for session in shown.sessions
            if (life.node, life.incarnation, session) not in shown.members
        ]
        if strangers:
            found.blame(
                f"view {shown.view} of {shown.group} is shown to {life.node}/{life.incarnation}."
                f"{strangers[0]}, which is not in it",
                (life.node,),
            )
    for (group, view), members in lists.items():
        times = shown_at[group, view]
        found.checked += times if times > 1 else 0
        if len(members) > 1:
            nodes = tuple(members.values())
            texts = [" ".join(map(_name, one)) for one in list(members)[:2]]
            found.blame(
                f"view {view} of {group} is {texts[0]} at {nodes[0]} and {texts[1]} at {nodes[1]}",
                nodes,
            )
    return found


def same_messages(reading: GroupReading) -> Finding:
    """G2: who goes together from a view to the next has been told the same between them."""
    found = Finding("G2")
    cohorts: dict[tuple[object, ...], list[Stay]] = {}
    for stay in reading.stays:
        after = stay.following
        if after is not None and stay.stream.member in after.stayed:
            key = (stay.shown.group, stay.shown.view, after.view, after.stayed)
            cohorts.setdefault(key, []).append(stay)
    for stays in cohorts.values():
        if len(stays) < 2:
            continue
        found.checked += len(stays)
        union = {
            told.row.frame_id: (stay, told)
            for stay in stays
            for told in stay.frames()
            if not told.is_basic or told.is_placed
        }
        for stay in stays:
            mine = {told.row.frame_id for told in stay.frames()}
            for frame_id, (other, told) in union.items():
                if frame_id not in mine and not _is_own_discard(told, stay.stream.member):
                    assert stay.following is not None
                    found.blame(
                        f"{stay.stream.name} and {other.stream.name} went together from view "
                        f"{stay.shown.view} of {stay.shown.group} to {stay.following.view}; only "
                        f"{other.stream.name} was told {frame_id} between them",
                        (stay.stream.member[0], other.stream.member[0]),
                    )
    return found


def to_the_members(reading: GroupReading) -> Finding:
    """G3: a frame is told to the members of its groups at its place, and to nobody else."""
    found = Finding("G3")
    under: dict[Stream, dict[str, list[Stay]]] = {}
    by_view: dict[tuple[str, str], list[Stay]] = {}
    for stay in reading.stays:
        under.setdefault(stay.stream, {}).setdefault(stay.shown.group, []).append(stay)
        by_view.setdefault((stay.shown.group, stay.shown.view), []).append(stay)
    for stream in reading.streams.values():
        found.checked += len(stream.told)
        for told in stream.told:
            if not _is_addressed(stream, told, under.get(stream, {})):
                found.blame(
                    f"{stream.name} was told {told.row.frame_id}, sent to "
                    f"{', '.join(told.to.names) or 'nobody knows whom'}, and is in none of them",
                    (stream.member[0],),
                )
    for stays in by_view.values():
        _judge_view(reading, stays, found)
    for stream in reading.streams.values():
        if stream.end == QUIESCE:
            _judge_own(reading, stream, found)
    return found


def _is_addressed(stream: Stream, told: Told, stays: dict[str, list[Stay]]) -> bool:
    for name in told.to.names:
        if is_private_to(name, stream.member):
            return True
        if any(stay.start <= told.pos < stay.stop for stay in stays.get(name, ())):
            return True
    return False


def _judge_own(reading: GroupReading, stream: Stream, found: Finding) -> None:
    """Who is in a group from before it sends to the end of the run hears itself."""
    since: dict[str, tuple[RingId, int]] = {}  # where the membership began that lasts
    for _, what, _ in stream.turns:
        if isinstance(what, Shown):
            since.setdefault(what.group, (ring_of(stream.life, what.conf_no), what.seq))
        else:
            since.pop(what.group, None)
    destinations = reading.destinations[stream.member[:2]]
    for said in stream.life.said:
        to = destinations.get(said.dest_no)
        frame_id = FrameId(*stream.member, said.first_no)
        if said.session != stream.member[2] or to is None or to.is_discarded:
            continue
        place = (said.ring_id, said.seq)
        is_member = any(name in since and since[name] < place for name in to.names)
        if is_member and frame_id not in stream.frames:
            found.blame(f"{stream.name} was never told {frame_id}, its own", (stream.member[0],))


def _judge_view(reading: GroupReading, stays: list[Stay], found: Finding) -> None:
    shown = stays[0].shown
    union: dict[tuple[FrameId, RingId | None], Told] = {}
    for stay in stays:
        for told in stay.frames():
            side = told.row.ring_id if reading.has_sides else None
            if told.is_placed or not told.is_basic:
                union.setdefault((told.row.frame_id, side), told)
    for stay in stays:
        stream = stay.stream
        for (frame_id, side), told in union.items():
            if frame_id in stream.frames or _is_own_discard(told, stream.member):
                continue
            if side is not None and not _is_of_its_side(stay, told):
                continue
            if told.place < stay.horizon if told.is_placed else stay.how == QUIESCE:
                found.blame(
                    f"{stream.name} was not told {frame_id}, which others under view {shown.view} "
                    f"of {shown.group} were",
                    (stream.member[0],),
                )
            elif stay.how == CUT:
                found.unknown += 1
    _judge_presence(reading, stays, found)


def _is_of_its_side(stay: Stay, told: Told) -> bool:
    """Whether a stay, of a broadcast domain, comes to an end behind a frame in its configuration.

    Who parts need not have all that others were told in the view, nor anything of another side.
    """
    ring_id = told.row.ring_id
    if stay.how == QUIESCE:
        return any(conf.conf_id == ring_id for conf in stay.stream.life.confs)
    return stay.horizon[0] == ring_id or any(
        own.row.ring_id == ring_id and told.place < own.place for own in stay.frames()
    )


def _judge_presence(reading: GroupReading, stays: list[Stay], found: Finding) -> None:
    """Who is in the view that somebody ends in has been shown it, and ends in it, too."""
    shown = stays[0].shown
    there = {stay.stream.member: stay for stay in stays}
    is_last = any(stay.how == QUIESCE for stay in stays)
    for member in shown.members:
        stream = reading.streams.get(member)
        if stream is None:
            found.unknown += 1
        elif is_last and stream.end == QUIESCE:
            stay = there.get(member)
            if stay is None or stay.how != QUIESCE:
                found.blame(
                    f"{stream.name} is in view {shown.view} of {shown.group}, in which others end, "
                    "and does not end in it",
                    (member[0],),
                )


def total_order(reading: GroupReading) -> Finding:
    """G4: all clients are told frames in one order, whatever groups these are sent to."""
    found = Finding("G4")
    places: dict[tuple[FrameId, RingId | None], dict[Place, str]] = {}
    times: dict[tuple[FrameId, RingId | None], int] = {}
    for stream in reading.streams.values():
        before = NOWHERE
        for told in filter(attrgetter("is_placed"), stream.first_told()):
            frame_id = told.row.frame_id
            key = (frame_id, told.row.ring_id if reading.has_sides else None)
            places.setdefault(key, {}).setdefault(told.place, stream.name)
            times[key] = times.get(key, 0) + 1
            if told.place <= before:
                found.blame(
                    f"{stream.name} was told {frame_id} at {_where(told.place)} after something "
                    f"at {_where(before)}",
                    (stream.member[0],),
                )
            before = max(before, told.last_place)
    found.checked = sum(count for count in times.values() if count > 1)
    for (frame_id, _), somewhere in places.items():
        if len(somewhere) > 1:
            (one, name), (other, other_name) = list(somewhere.items())[:2]
            found.blame(
                f"{frame_id} is at {_where(one)} for {name} and at {_where(other)} for {other_name}"
            )
    return found


def sender_order(reading: GroupReading) -> Finding:
    """G5: what one client sends comes in the order in which it was sent."""
    found = Finding("G5")
    for stream in reading.streams.values():
        due: dict[tuple[int, int, int], int] = {}
        for told in stream.first_told():
            *sender, first_no = told.row.frame_id
            key = (sender[0], sender[1], sender[2])
            if key in due:
                found.checked += 1
                if first_no < due[key]:
                    found.blame(
                        f"{stream.name} was told {told.row.frame_id} after what its sender sent "
                        f"later, up to number {due[key] - 1}",
                        (stream.member[0],),
                    )
            if told.is_placed or not told.is_basic:
                due[key] = max(due.get(key, 0), first_no + told.row.messages)
    return found


def as_sent(reading: GroupReading) -> Finding:
    """G6: no message is told in part, altered, invented or twice."""
    found = Finding("G6")
    sent = _sent(reading)
    contents: dict[FrameId, set[Content]] = {}
    for stream in reading.streams.values():
        found.checked += len(stream.told)
        for told in stream.told:
            frame_id = told.row.frame_id
            if stream.frames[frame_id].pos != told.pos:
                found.blame(f"{stream.name} was told {frame_id} twice", (stream.member[0],))
            said = sent.get(frame_id)
            if said is not None:
                if _content(told.row, told.to) != said:
                    found.blame(
                        f"{stream.name} was told {frame_id} other than it was sent",
                        (stream.member[0], frame_id.sender),
                    )
            elif frame_id[:2] not in reading.whole:
                found.unknown += 1
                contents.setdefault(frame_id, set()).add(_content(told.row, told.to))
            else:
                text = f"{stream.name} was told {frame_id}, which was never sent"
                found.blame(text, (stream.member[0], frame_id.sender))
    for frame_id, several in contents.items():
        if len(several) > 1:
            found.blame(f"{frame_id} was told in {len(several)} versions", (frame_id.sender,))
    return found


def _sent(reading: GroupReading) -> dict[FrameId, Content]:
    return {
        FrameId(*key, said.session, said.first_no): _content(
            said, reading.destinations.get(key, {}).get(said.dest_no)
        )
        for key, life in reading.lives.items()
        for said in life.said
    }


def _content(row: GroupSend | GroupDelivery, to: To | None) -> Content:
    return row.digest, row.size, row.messages, row.service, to


def views_in_order(reading: GroupReading) -> Finding:
    """G7: views have their places among messages, the same for all, and say them rightly."""
    found = Finding("G7")
    for stream in reading.streams.values():
        _judge_views(stream, found)
        confs = stream.life.confs
        for told in stream.first_told():
            row = told.row
            conf = confs[row.conf_no] if 0 <= row.conf_no < len(confs) else None
            if conf is None or row.reduced != conf.transitional:
                found.blame(
                    f"{stream.name} was told {row.frame_id} as "
                    f"{'reduced' if row.reduced else 'not reduced'} in configuration "
                    f"{conf.conf_id if conf else 'none'}",
                    (stream.member[0],),
                )
    return found


def _judge_views(stream: Stream, found: Finding) -> None:
    latest: dict[str, tuple[object, ...]] = {}
    members_of: set[str] = set()
    place_before = (-1, 0, 0)
    for at, what, cause in stream.turns:
        if not isinstance(what, Shown):
            members_of.discard(what.group)
            continue
        found.checked += 1
        nodes = (stream.member[0],)
        rank = (what.conf_id, what.seq, what.sub, what.counter)
        is_own_joining = what.subject == stream.member and cause == "join"
        if what.group not in members_of and not is_own_joining:
            text = f"the first view of {_about(what, stream)} is not its own joining"
            found.blame(text, nodes)
        if latest.get(what.group, ()) >= rank:
            found.blame(f"view {_about(what, stream)} comes after a later one", nodes)
        latest[what.group] = max(rank, latest.get(what.group, rank))
        members_of.add(what.group)
        place = (what.conf_no, what.seq, what.sub)
        if place < place_before:
            found.blame(f"view {_about(what, stream)} comes after one of a later place", nodes)
        place_before = max(place_before, place)
        _judge_place(stream, at, what, found)


def _judge_place(stream: Stream, at: int, shown: Shown, found: Finding) -> None:
    """A view lies where its id says: behind earlier frames of its configuration, before later."""
    place = (shown.seq, shown.sub)
    for told in stream.first_told():
        row = told.row
        if row.conf_no != shown.conf_no:
            is_right = (row.conf_no < shown.conf_no) == (told.pos < at)
        else:
            is_right = not row.seq or ((row.seq, row.sub) < place) == (told.pos < at)
        if not is_right:
            found.blame(
                f"view {_about(shown, stream)} is on the wrong side of {row.frame_id}",
                (stream.member[0],),
            )
            return


def causal_order(reading: GroupReading) -> Finding:
    """G8: what a client had been told when it sent a message comes before that message."""
    found = Finding("G8")
    if reading.has_sides:
        _judge_causes_by_side(reading, found)
        _judge_unordered_causes(reading, found)
        return found
    for stream in reading.streams.values():
        highest: list[tuple[object, ...]] = []
        for told in stream.told:
            place = (told.row.ring_id, told.row.seq)
            highest.append(max(highest[-1], place) if highest else place)
        for said in stream.life.said:
            if said.session != stream.member[2] or not said.pos or not highest:
                continue
            found.checked += 1
            cause = highest[min(said.pos, len(highest)) - 1]
            if cause >= (said.ring_id, said.seq):
                found.blame(
                    f"{stream.name} sent number {said.first_no} to {said.ring_id} {said.seq} when "
                    f"it had been told something at {cause[0]} {cause[1]}",
                    (stream.member[0],),
                )
    return found


def _judge_causes_by_side(reading: GroupReading, found: Finding) -> None:
    """Judge G8 where a frame gets its place after it was sent, and from each side its own."""
    places: dict[RingId, dict[FrameId, Place]] = {}
    for stream in reading.streams.values():
        for told in filter(attrgetter("is_placed"), stream.first_told()):
            places.setdefault(told.row.ring_id, {}).setdefault(told.row.frame_id, told.place)
    for stream in reading.streams.values():
        asked = [said for said in stream.life.said if said.session == stream.member[2] and said.pos]
        if not stream.told:
            continue
        found.checked += len(asked)
        for at in places.values():
            # What the client was told of this side, with the greatest place up to there.
            known: list[int] = []
            greatest: list[Place] = []
            for told in stream.told:
                place = at.get(told.row.frame_id)
                if place is not None:
                    known.append(told.pos)
                    greatest.append(max(greatest[-1], place) if greatest else place)
            for said in asked:
                own = at.get(FrameId(*stream.member, said.first_no))
                n_before = bisect_left(known, said.pos)
                if own is not None and n_before and greatest[n_before - 1] >= own:
                    found.blame(
                        f"{stream.name} sent number {said.first_no}, which came to {_where(own)}, "
                        f"when it had been told something at {_where(greatest[n_before - 1])}",
                        (stream.member[0],),
                    )


def _judge_unordered_causes(reading: GroupReading, found: Finding) -> None:
    """Judge G8 by streams where a frame, or what caused it, has no place."""
    sent: dict[FrameId, int] = {
        FrameId(*stream.member, said.first_no): said.pos
        for stream in reading.streams.values()
        for said in stream.life.said
        if said.session == stream.member[2]
    }
    for stream in reading.streams.values():
        if all(told.is_placed for told in stream.told):
            continue
        latest: dict[Member, list[int]] = {}  # where the latest is of what another was told so far
        for told in stream.first_told():
            frame_id = told.row.frame_id
            sender = reading.streams.get(frame_id[:3])
            if sender is None or frame_id not in sent or told.is_basic:
                continue
            if sender.member not in latest:
                latest[sender.member] = _latest_of(sender, stream)
            known = latest[sender.member]
            found.checked += 1
            if known[min(sent[frame_id], len(known) - 1)] > told.pos:
                found.blame(
                    f"{stream.name} was told {frame_id} before something that {sender.name} had "
                    "been told when it sent it",
                    (stream.member[0],),
                )


def _latest_of(sender: Stream, stream: Stream) -> list[int]:
    """Return how far back in a stream the first so many frames go that another was told."""
    latest = [-1]
    for told in sender.told:
        own = stream.frames.get(told.row.frame_id)
        is_known = own is not None and (told.is_placed or not told.is_basic)
        latest.append(max(latest[-1], own.pos if own is not None and is_known else -1))
    return latest


def _is_own_discard(told: Told, member: Member) -> bool:
    return told.to.is_discarded and told.row.frame_id[:3] == member


def _name(member: Member) -> str:
    return f"{member[0]}/{member[1]}.{member[2]}"


def _where(place: Place) -> str:
    return f"{place[0]} {place[1]}.{place[2]}"


def _about(shown: Shown, stream: Stream) -> str:
    return f"{shown.view} of {shown.group} at {stream.name}"


GROUP_PROPERTIES: Final[dict[str, Callable[[GroupReading], Finding]]] = {
    "G1": same_members,
    "G2": same_messages,
    "G3": to_the_members,
    "G4": total_order,
    "G5": sender_order,
    "G6": as_sent,
    "G7": views_in_order,
    "G8": causal_order,
}


def check_groups(history: History) -> Verdicts:
    """Judge what clients were told in a run."""
    reading = GroupReading(history)
    return Verdicts([judge(reading) for judge in GROUP_PROPERTIES.values()])
