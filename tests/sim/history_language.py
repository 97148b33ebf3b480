"""Histories in a few words, for tests.

A line a life: `name: step, step, …`. Lives of one processor over restarts are `p`, `p#2`, ….

    conf R1{p,q}            installs regular R1, following what it was in
    conf T2{p}<R1           installs transitional T2 of R1
    send m1, send m3 safe   first broadcast; the unit is named for its sender, in order of sending;
                            `causal` and `basic` are services as well
    del m1                  delivers a unit that somebody sends
    token R1 5 sent 3 fcc 4 a visit of the token
    window R1 7 of 9        7 messages are unacknowledged where 9 may be
    commit R1               the membership protocol agrees to R1; `agree` and `stable` are states
                            of the second engine
    quiesce, fail, stop     the end; a line without one is a recording that was cut off
    lost                    the end, some time after what was recorded last

Processors p, q, r, … are 1, 2, 3, …. R<n> is configuration 4n.1 and T<n> is (4n-2).1; a letter
behind the number, as in T2q, puts that processor's id for the 1. Keys (ring_id, seq) are handed out
from the first line to the last, in the order of sending.

Steps take a suffix for lies: `del m1 as R1#7` delivers under another key, `del m1 for R1` names
another configuration, `del m1 body x` has another content, `del m1 agreed` another service, `del m1
from q` another sender; `del m1 line 3` is told that everybody has all up to number 3; `send m1 no
2` is a client's second unit; `del m1 gap` was ordered without votes; `conf T2{p} regular` is no
longer transitional. `del 1/1:9` delivers a unit by its identity that nobody sent.
"""

import re
from typing import NamedTuple

from evensong.core.effects import (
    Deliver,
    Packet,
    Sent,
    Service,
    StateChange,
    TokenVisit,
    WindowGrown,
)
from evensong.core.ids import NO_RING, Configuration, RingId
from evensong.core.totem.frames import RegularMessage
from evensong.core.unit import UnitId, encode_unit
from evensong.sim.history import History, Life


class _Unit(NamedTuple):
    unit_id: UnitId
    ring_id: RingId
    seq: int
    service: Service


def processor(name: str) -> int:
    """Return the id of a processor by its letter."""
    return ord(name) - ord("p") + 1


def conf_id(name: str) -> RingId:
    """Return the id of a configuration by its name."""
    found = re.fullmatch(r"([RT])(\d+)([p-z]?)", name)
    assert found, name
    kind, number, rep = found.groups()
    return RingId(4 * int(number) - (2 if kind == "T" else 0), processor(rep or "p"))


def _steps(line: str) -> list[str]:
    """Split at the commas that are not inside braces."""
    return [step.strip() for step in re.split(r",(?![^{]*\})", line) if step.strip()]


def _plan(lines: list[tuple[str, list[str]]]) -> dict[str, _Unit]:
    """Name and number every unit that is sent, before anybody delivers it."""
    units: dict[str, _Unit] = {}
    last_seq: dict[RingId, int] = {}
    for life, steps in lines:
        name, _, incarnation = life.partition("#")
        ring, origin_no = NO_RING, 0
        for step in steps:
            words = step.split()
            if words[0] == "conf" and words[1].startswith("R"):
                ring = conf_id(words[1].partition("{")[0])
            elif words[0] == "send" and words[1] not in units:
                origin_no = int(words[-1]) if "no" in words else origin_no + 1
                last_seq[ring] = last_seq.get(ring, 0) + 1
                units[words[1]] = _Unit(
                    UnitId(processor(name), int(incarnation or 1), origin_no),
                    ring,
                    last_seq[ring],
                    next((one for one in Service if one.name.lower() in words), Service.AGREED),
                )
    return units


def history(text: str) -> History:
    """Build a history from its lines."""
    lines = []
    for line in text.strip().splitlines():
        life_name, _, rest = line.partition(":")
        lines.append((life_name.strip(), _steps(rest)))
    units = _plan(lines)
    made = History()
    for life_name, steps in lines:
        name, _, incarnation = life_name.partition("#")
        life = made.begin(processor(name), int(incarnation or 1), 0)
        for at, step in enumerate(steps, 1):
            _perform(life, step, 10 * at, units)
    return made


def with_limits(run: History, **limits: int | str) -> History:
    """Let every life tell at its start and at its end what the run was made with."""
    for life in run.lives.values():
        told = tuple((name, str(value)) for name, value in limits.items())
        life.events[0] = life.events[0]._replace(aux=told)
        life.events[-1] = life.events[-1]._replace(aux=told)
    return run


def _perform(life: Life, step: str, now: int, units: dict[str, _Unit]) -> None:
    verb, *words = step.split()
    if verb == "conf":
        life.install(_configuration(life, *words), now)
    elif verb == "send":
        unit = units[words[0]]
        packet = Packet(unit.service, encode_unit(unit.unit_id, b"body"))
        life.send(Sent(unit.ring_id, unit.seq, [packet]), now)
    elif verb == "del":
        life.deliver(_delivery(life, words, units), now)
    elif verb == "token":
        ring, token_seq, _, sent, _, fcc = words
        life.visit(TokenVisit(conf_id(ring), int(token_seq), 0, 0, int(fcc), int(sent), 0), now)
    elif verb == "window":
        life.grow_window(WindowGrown(conf_id(words[0]), int(words[1]), int(words[3])), now)
    elif verb in ("commit", "agree", "stable"):
        life.change_state(StateChange(verb, conf_id(words[0]), "", 0), now)
    else:
        assert verb in ("quiesce", "fail", "stop", "lost"), step
        life.end(verb, now)


def _configuration(life: Life, text: str, kind: str = "") -> Configuration:
    found = re.fullmatch(r"(\w+)\{([^}]*)\}(?:<(\w+))?", text)
    assert found, text
    name, members, prev = found.groups()
    before = life.confs[-1].conf_id if life.confs else NO_RING
    return Configuration(
        conf_id(name),
        conf_id(prev) if prev else before,
        tuple(sorted(processor(member) for member in members.split(","))),
        transitional=name.startswith("T") and kind != "regular",
        cause="test",
    )


def _delivery(life: Life, words: list[str], units: dict[str, _Unit]) -> Deliver:
    name, *lies = words
    if name in units:
        unit = units[name]
    else:
        sender, incarnation, origin_no = map(int, re.split("[/:]", name))
        unit = _Unit(
            UnitId(sender, incarnation, origin_no), life.confs[-1].conf_id, 99, Service.AGREED
        )
    ring_id, seq, service = unit.ring_id, unit.seq, unit.service
    where = life.confs[-1].conf_id if life.confs else NO_RING
    body, line = b"body", 0
    sender_id = unit.unit_id.sender
    for at, word in enumerate(lies):
        if word == "as":
            ring, _, number = lies[at + 1].partition("#")
            ring_id, seq = conf_id(ring), int(number)
        elif word == "for":
            where = conf_id(lies[at + 1])
        elif word == "body":
            body = lies[at + 1].encode()
        elif word == "line":
            line = int(lies[at + 1])
        elif word == "from":
            sender_id = processor(lies[at + 1])
        elif word in ("agreed", "safe", "causal", "basic"):
            service = Service[word.upper()]
    payload = encode_unit(unit.unit_id, body)
    message = RegularMessage(sender_id, ring_id, seq, service, 0, 0, payload)
    return Deliver(where, [message], line, after_gap="gap" in lies)
