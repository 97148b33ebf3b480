"""TM1, TM2, TM4, TF1 and TF2: what configurations and tokens look like."""

from itertools import pairwise

from evensong.core.ids import NO_RING, ProcessorId, RingId
from evensong.sim.evs.reading import LifeReading, Reading
from evensong.sim.evs.verdict import Finding


def uniqueness(reading: Reading) -> Finding:
    """TM1: an id stands for one set of members; a life is in one configuration at a time."""
    found = Finding("TM1")
    members_by_conf: dict[RingId, tuple[tuple[ProcessorId, ...], LifeReading]] = {}
    for one in reading.lives:
        before = NO_RING
        installed: set[RingId] = set()
        for span in one.spans:
            found.checked += 1
            conf = span.conf
            members, who = members_by_conf.setdefault(conf.conf_id, (conf.members, one))
            if members != conf.members:
                found.blame(
                    f"{conf.conf_id} is {_set(members)} to {who.name} and {_set(conf.members)} "
                    f"to {one.name}",
                    (who.node, one.node),
                )
            if conf.prev_id != before:
                found.blame(
                    f"{one.name} installs {conf.conf_id} as following {conf.prev_id} "
                    f"while in {before}",
                    (one.node,),
                )
            if conf.conf_id in installed:
                found.blame(f"{one.name} installs {conf.conf_id} twice", (one.node,))
            installed.add(conf.conf_id)
            before = conf.conf_id
    return found


def _set(members: tuple[ProcessorId, ...]) -> str:
    return "{" + ",".join(map(str, members)) + "}"


def consensus(reading: Reading) -> Finding:
    """TM2: who installs c is a member; a transitional c lies within both its neighbours.

    Where the states of the membership protocol are recorded: every member had agreed to c.
    """
    found = Finding("TM2")
    _judge_agreement(reading, found)
    for one in reading.lives:
        for number, span in enumerate(one.spans):
            found.checked += 1
            conf = span.conf
            if one.node not in conf.members:
                found.blame(
                    f"{one.name} installs {conf.conf_id} of {_set(conf.members)}", (one.node,)
                )
            if not conf.transitional:
                continue
            for neighbour in one.spans[max(0, number - 1) : number + 2]:
                if not set(conf.members) <= set(neighbour.conf.members):
                    found.blame(
                        f"{one.name}: transitional {conf.conf_id} of {_set(conf.members)} beside "
                        f"{neighbour.conf.conf_id} of {_set(neighbour.conf.members)}",
                        (one.node,),
                    )
    return found


def _judge_agreement(reading: Reading, found: Finding) -> None:
    agreed: set[tuple[str, ProcessorId]] = set()
    for one in reading.lives:
        for event in one.life.events:
            if event.etype == "state" and ("state", "commit") in event.aux:
                agreed.add((dict(event.aux)["ring"], one.node))
    for conf_id, coms in reading.coms.items():
        regular = coms[0].regular
        if not agreed or regular is None or len(regular.conf.members) == 1:
            continue  # a ring of one has nobody to agree with
        for node in regular.conf.members:
            found.checked += 1
            if (str(conf_id), node) in agreed:
                continue
            if reading.may_have_installed(node, conf_id):
                found.unknown += 1
            else:
                found.blame(
                    f"{coms[0].life.name} installs {conf_id}, to which p{node} never agreed",
                    (coms[0].life.node, node),
                )


def same_change(reading: Reading) -> Finding:
    """TM4: who installs C2 directly after C1 is told the same about C2 as others who do."""
    found = Finding("TM4")
    told: dict[tuple[RingId, RingId], tuple[bool, tuple[ProcessorId, ...], LifeReading]] = {}
    for one in reading.lives:
        before = NO_RING
        for span in one.spans:
            conf = span.conf
            key = (before, conf.conf_id)
            before = conf.conf_id
            if key not in told:
                told[key] = (conf.transitional, conf.members, one)
                continue
            found.checked += 1
            transitional, members, who = told[key]
            if (transitional, members) != (conf.transitional, conf.members):
                found.blame(
                    f"after {key[0]}, {conf.conf_id} is {_kind(transitional)} {_set(members)} to "
                    f"{who.name} and {_kind(conf.transitional)} {_set(conf.members)} to {one.name}",
                    (who.node, one.node),
                )
    return found


def _kind(transitional: bool) -> str:
    return "transitional" if transitional else "regular"


def window(reading: Reading) -> Finding:
    """TF1: no visit sends more than messages_max, no rotation more than window_size.

    Needs the limits the run was made with and the token visits in the history. Only gapless
    stretches of visits are judged as rotations, since recordings may be sampled.
    """
    found = Finding("TF1")
    window_size, messages_max = reading.limits.window_size, reading.limits.messages_max
    if window_size is None or messages_max is None:
        return found
    n_members = {
        str(span.conf.conf_id): len(span.conf.members)
        for one in reading.lives
        for span in one.spans
    }
    for ring, visits in reading.visits.items():
        found.checked += len(visits)
        n_rotation = n_members.get(ring, 1)
        total, first, due = 0, 0, -1
        for at, (token_seq, who, n_messages, fcc) in enumerate(visits):
            if token_seq != due:
                total, first = 0, at
            due = token_seq + 1
            total += n_messages
            if at - first == n_rotation:
                total -= visits[first][2]
                first += 1
            complaint = ""
            if n_messages > messages_max:
                complaint = f"{n_messages} messages, messages_max is {messages_max}"
            elif total > window_size:
                complaint = f"{total} in a rotation, window_size is {window_size}"
            elif not 0 <= fcc <= window_size:
                complaint = f"fcc is {fcc}, window_size is {window_size}"
            if complaint:
                one = reading.lives[who]
                found.blame(f"token {token_seq} of {ring} at {one.name}: {complaint}", (one.node,))
    return found


def token_uniqueness(reading: Reading) -> Finding:
    """TF2: on one ring, no two visits forward the same token_seq."""
    found = Finding("TF2")
    for ring, visits in reading.visits.items():
        found.checked += len(visits)
        for before, after in pairwise(visits):
            if before.token_seq == after.token_seq:
                one, other = reading.lives[before.who], reading.lives[after.who]
                found.blame(
                    f"token {after.token_seq} of {ring} is forwarded by {one.name} "
                    f"and by {other.name}",
                    (one.node, other.node),
                )
    return found
