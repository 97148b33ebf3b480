"""Who was in which configuration when: the lanes that every rendering of a run is made of."""

from typing import NamedTuple

from evensong.core.ids import Configuration, ProcessorId, RingId
from evensong.sim.history import History, Life


class Stay(NamedTuple):
    """A configuration at one life, from when to when."""

    conf: Configuration
    from_us: int
    to_us: int
    n_delivered: int


def stays(life: Life) -> list[Stay]:
    """Return the configurations of a life, in order."""
    installed = [event for event in life.events if event.conf is not None]
    until = life_end(life)
    found = []
    for number, event in enumerate(installed):
        assert event.conf is not None
        following = installed[number + 1] if number + 1 < len(installed) else None
        to_us = following.t_us if following else until
        last_pos = following.pos if following else len(life.deliveries)
        found.append(Stay(event.conf, event.t_us, max(event.t_us, to_us), last_pos - event.pos))
    return found


def life_start(life: Life) -> int:
    """Return when the life began."""
    return life.events[0].t_us if life.events else 0


def life_end(life: Life) -> int:
    """Return the time of the last thing known of a life."""
    times = [row.t_us for row in (life.events[-1:] or [])]
    times += [row.t_us for row in life.deliveries[-1:]] + [row.t_us for row in life.sends[-1:]]
    return max(times, default=0)


def lives_by_node(history: History) -> dict[ProcessorId, list[Life]]:
    """Return the lives of each processor, both in order."""
    found: dict[ProcessorId, list[Life]] = {}
    for node, incarnation in sorted(history.lives):
        found.setdefault(node, []).append(history.lives[node, incarnation])
    return found


def time_range(history: History) -> tuple[int, int]:
    """Return when the run began and ended."""
    lives = history.lives.values()
    begin = min((life_start(life) for life in lives), default=0)
    return begin, max([life_end(life) for life in lives] + [begin])


def conf_names(history: History) -> list[Configuration]:
    """Return every regular configuration of two or more, in the order of first installation."""
    first: dict[RingId, tuple[int, RingId]] = {}
    confs: dict[RingId, Configuration] = {}
    for life in history.lives.values():
        for stay in stays(life):
            conf = stay.conf
            if conf.transitional or len(conf.members) < 2:
                continue
            key = (stay.from_us, conf.conf_id)
            if conf.conf_id not in first or key < first[conf.conf_id]:
                first[conf.conf_id] = key
                confs[conf.conf_id] = conf
    return [confs[conf_id] for conf_id in sorted(first, key=first.__getitem__)]


def member_text(conf: Configuration) -> str:
    """Return the members as a set is written."""
    return "{" + ",".join(map(str, conf.members)) + "}"


def conf_text(conf: Configuration) -> str:
    """Return a configuration's kind, id and members."""
    kind = "transitional" if conf.transitional else "regular"
    return f"{kind} {conf.conf_id} {member_text(conf)}"
