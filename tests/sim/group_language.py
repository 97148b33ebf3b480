"""Histories of clients in a few lines, for tests of what is promised to them.

    m1: p.1 to a at 5                     a frame: sender, groups, place; `x2` messages,
                                          `discard`, `body z`, `no 3` (its number), and `safe`,
                                          `causal` or `basic`: what is not ordered is `at 0`
    v2: a at 3 {p.1 q.1} join q.1         a view: group, place, members, cause and subject,
                                          `stayed p.1`
    p.1: v1, v2, say m1, m1, left a at 9  what a session is shown, sends, is told
    q.1: v2, m1, close                    `end p fail` ends the whole of p so; else all quiesce

A frame or a view may be told otherwise than it is: `m1 body x`, `m1 at 9`, `m1 in T` (in that
configuration), `m1 misnamed` (reduced where it is not), `v2 {p.1}`.
A place is `seq` or `seq.sub`, with `T/` or `S/` before it in the transitional configuration or in
the second ring; a view of the network is `at T` or `at S`. Every node has three configurations.
"""

import re
import zlib
from typing import Final, NamedTuple

from evensong.core.effects import Service
from evensong.core.ids import Configuration, RingId
from evensong.sim.history import FrameId, GroupDelivery, GroupSend, History, Life

NODES: Final = {"p": 1, "q": 2, "r": 3}
CONFS: Final = {"": 0, "T": 1, "S": 2}
RINGS: Final = (RingId(4, 1), RingId(4, 1), RingId(8, 1))
CONF_IDS: Final = (RingId(4, 1), RingId(6, 1), RingId(8, 1))


class Where(NamedTuple):
    """A place of the order."""

    conf_no: int
    seq: int
    sub: int


class Frame(NamedTuple):
    """A frame and whom it is for."""

    frame_id: FrameId
    groups: str
    where: Where
    discard: bool
    service: Service
    body: str
    messages: int


def where(text: str) -> Where:
    """Read a place."""
    conf, slash, place = text.rpartition("/")
    if not slash and place in CONFS:
        return Where(CONFS[place], 0, 0)
    seq, _, sub = place.partition(".")
    return Where(CONFS[conf], int(seq), int(sub or 0))


def member(text: str) -> str:
    """Return a member as traces name it."""
    node, session = text.split(".")
    return f"{NODES[node]}/1.{session}"


def key_of(text: str) -> tuple[int, int]:
    """Return node and session."""
    node, session = text.split(".")
    return NODES[node], int(session)


class Story:
    """Reads the language."""

    def __init__(self, text: str) -> None:
        self.history: Final = History()
        self.frames: Final[dict[str, Frame]] = {}
        self.views: Final[dict[str, str]] = {}
        self._counts: Final[dict[str, int]] = {}
        self._counter = 0
        self._ends: Final[dict[int, str]] = {}
        for line in filter(None, map(str.strip, text.splitlines())):
            self._read(line)
        for life in self.history.lives.values():
            how = self._ends.get(life.node, "quiesce")
            if how != "open":
                life.end(how, 9)

    def _read(self, line: str) -> None:
        if line.startswith("end "):
            _, node, how = line.split()
            self._ends[NODES[node]] = how
            return
        name, _, rest = line.partition(": ")
        if "." in name:
            self._tell(name, rest)
        elif "{" in rest:
            self._counter += 1
            self.views[name] = f"{rest} #{self._counter}"
        else:
            self.frames[name] = self._frame(rest)

    def _frame(self, text: str) -> Frame:
        found = re.fullmatch(r"(\S+) to (\S+) at (\S+)((?: .+)?)", text)
        assert found, text
        sender, groups, place, more = found.groups()
        messages = int((re.search(r" x(\d+)", more) or ["", "1"])[1])
        body = (re.search(r" body (\S+)", more) or ["", "."])[1]
        number = re.search(r" no (\d+)", more)
        first_no = int(number[1]) if number else self._counts.get(sender, 0) + 1
        self._counts[sender] = max(self._counts.get(sender, 0), first_no + messages - 1)
        node, session = key_of(sender)
        asked = [one for one in Service if f" {one.name.lower()}" in more]
        service = asked[0] if asked else Service.AGREED
        frame_id = FrameId(node, 1, session, first_no)
        return Frame(frame_id, groups, where(place), " discard" in more, service, body, messages)

    def _life(self, node: int) -> Life:
        if (node, 1) not in self.history.lives:
            life = self.history.begin(node, 1, 0)
            everybody = tuple(sorted(NODES.values()))
            before = RingId(0, 0)
            for conf_no, conf_id in enumerate(CONF_IDS):
                is_between = conf_no == 1
                conf = Configuration(conf_id, before, everybody, transitional=is_between, cause="")
                life.install(conf, 0)
                before = conf_id
        return self.history.lives[node, 1]

    def _tell(self, who: str, items: str) -> None:
        node, session = key_of(who)
        life = self._life(node)
        life.note("open", 1, aux=(("session", str(session)), ("user", who[0])))
        heard = life.heard.setdefault(session, [])
        for item in items.split(", "):
            act, _, rest = item.partition(" ")
            if act == "say":
                life.said.append(self._said(life, self.frames[rest], len(heard)))
            elif act == "close":
                aux = (("session", str(session)), ("at", str(len(heard))))
                life.note("close", 1, rest or "asked", aux)
            elif act == "left":
                group, _, place = rest.partition(" at ")
                life.note("left", 1, aux=left(group, session, where(place), len(heard)))
            elif act in self.views:
                text, _, changed = self.views[act].partition(" #")
                view = View(f"{text} {rest}" if rest else text, int(changed))
                life.note("gview", 1, view.cause, view.aux(session, len(heard)))
            else:
                frame = self.frames[act]
                if rest.startswith("body "):
                    frame = frame._replace(body=rest.removeprefix("body "))
                elif rest.startswith("at "):
                    frame = frame._replace(where=where(rest.removeprefix("at ")))
                heard.append(self._heard(life, frame, rest))

    def _number(self, life: Life, frame: Frame) -> int:
        discard = str(int(frame.discard))
        groups = "[" + ", ".join(f'"{name}"' for name in frame.groups.split("+")) + "]"
        dests = [dict(event.aux) for event in life.events if event.etype == "dest"]
        for dest in dests:
            if (dest["groups"], dest["discard"]) == (groups, discard):
                return int(dest["dest_no"])
        aux = (("dest_no", str(len(dests))), ("groups", groups), ("discard", discard))
        life.note("dest", 1, aux=aux)
        return len(dests)

    def _said(self, life: Life, frame: Frame, pos: int) -> GroupSend:
        at = frame.where
        return GroupSend(
            frame.frame_id.session,
            frame.frame_id.first_no,
            RINGS[at.conf_no],
            at.seq,
            at.conf_no,
            pos,
            frame.service,
            self._number(life, frame),
            len(frame.body),
            zlib.crc32(frame.body.encode()),
            1,
            frame.messages,
        )

    def _heard(self, life: Life, frame: Frame, rest: str) -> GroupDelivery:
        at = frame.where
        conf_no = CONFS["T"] if rest == "in T" else at.conf_no
        return GroupDelivery(
            frame.frame_id,
            RINGS[at.conf_no],
            at.seq,
            at.sub,
            conf_no,
            frame.service,
            (conf_no == 1) != (rest == "misnamed"),
            self._number(life, frame),
            len(frame.body),
            zlib.crc32(frame.body.encode()),
            1,
            frame.messages,
        )


class View:
    """A view as a line says it; what comes later in the line counts."""

    def __init__(self, text: str, counter: int) -> None:
        found = re.match(r"(\S+) at (\S+) \{(.*?)\}", text)
        assert found, text
        self.group: Final = found[1]
        self.where: Final = where((re.findall(r"\bat (\S+)", text))[-1])
        self.members: Final = re.findall(r"\{(.*?)\}", text)[-1].split()
        self.stayed: Final = (re.search(r"stayed ([^{}]*)", text) or ["", ""])[1].split()
        because = re.search(r"\b(join|leave|disconnect) (\S+)", text)
        self.cause: Final = because[1] if because else "network"
        self.subject: Final = member(because[2]) if because else ""
        self.counter: Final = counter

    def aux(self, session: int, at: int) -> tuple[tuple[str, str], ...]:
        """Return what an event tells of it."""
        conf_no, seq, sub = self.where
        return (
            ("group", self.group),
            ("view", f"{CONF_IDS[conf_no]}:{seq}.{sub}:{self.counter}"),
            ("kind", "transitional" if conf_no == 1 else "regular"),
            ("members", " ".join(map(member, self.members))),
            ("stayed", " ".join(map(member, self.stayed))),
            ("subject", self.subject),
            ("conf_no", str(conf_no)),
            ("sessions", str(session)),
            ("at", str(at)),
        )


def left(group: str, session: int, at: Where, pos: int) -> tuple[tuple[str, str], ...]:
    """Return what an event tells of a departure."""
    return (
        ("group", group),
        ("session", str(session)),
        ("place", f"{at.seq}.{at.sub}"),
        ("conf_no", str(at.conf_no)),
        ("at", str(pos)),
    )


def story(text: str) -> History:
    """Return the history that a text tells."""
    return Story(text).history
