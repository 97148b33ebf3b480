"""Messages in the paper's notation: `a2B1` is B's first message, which acknowledges A's second.

A mark behind it says what it is: nothing AGREED, `!` SAFE, `~` CAUSAL, `-` BASIC, `.` a null
message. Members are A, B, C … with the ids 1, 2, 3 …, all in their first life, in view 5.
"""

import re
from collections.abc import Sequence
from random import Random

from evensong.core.effects import Deliver, Effect, Service
from evensong.core.ids import Configuration, RingId
from evensong.core.transis import wire
from evensong.core.transis.frames import NULL, REGULAR, Message
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.view import View
from evensong.core.unit import UnitId, body_of, encode_unit

VIEW = RingId(5, 77)
PASSAGE = Configuration(RingId(6, 88), VIEW, (1, 2), transitional=True, cause="")
MARKS = {
    "": (REGULAR, Service.AGREED),
    "!": (REGULAR, Service.SAFE),
    "~": (REGULAR, Service.CAUSAL),
    "-": (REGULAR, Service.BASIC),
    ".": (NULL, wire.NO_SERVICE),
}
WORD = re.compile(r"((?:[a-z]\d+)*)([A-Z])(\d+)([!~.-]?)")


def proc(letter: str) -> int:
    """Return the id of a member."""
    return ord(letter.upper()) - ord("A") + 1


def message(word: str) -> Message:
    """Make a message; it carries its name."""
    found = WORD.fullmatch(word)
    assert found is not None, word
    acks, sender, number, mark = found.groups()
    kind, service = MARKS[mark]
    named = re.findall(r"([a-z])(\d+)", acks)
    return wire.make_message(
        kind,
        service,
        proc(sender),
        1,
        VIEW,
        int(number),
        0,
        tuple(sorted((proc(letter), int(acked)) for letter, acked in named)),
        0,
        encode_unit(UnitId(proc(sender), 1, int(number)), f"{sender}{number}".encode())
        if kind == REGULAR
        else b"",
        None,
        False,
        0,
    )


def chain(words: str) -> list[Message]:
    """Make messages, one after the other."""
    return [message(word) for word in words.replace(",", " ").split()]


def name_of(one: Message) -> str:
    """Return a message's name."""
    return f"{chr(ord('A') + one.sender_id - 1)}{one.number}"


def some_words(rng: Random, size: int, count: int, marks: Sequence[str]) -> list[str]:
    """Let members speak at random, each of what it happens to have heard."""
    places = [Place(size, me=chr(ord("A") + at)) for at in range(size)]
    sent: list[str] = []
    for _ in range(count):
        at = rng.randrange(size)
        place = places[at]
        for word in rng.sample(sent, rng.randint(0, len(sent))):
            place.hear(word)
        graph = place.view.graph
        acks = "".join(f"{chr(96 + member)}{number}" for member, number in graph.acks_of(at))
        word = f"{acks}{chr(65 + at)}{graph.inserted[at] + 1}{rng.choice(marks)}"
        place.hear(word)
        sent.append(word)
    return sent


class Place:
    """A view at one member, into which messages are put by hand."""

    def __init__(self, size: int, me: str = "A", allack: int = 0) -> None:
        self.effects: list[Effect] = []
        members = tuple((number, 1) for number in range(1, size + 1))
        parameters = Parameters(allack=allack)
        self.view = View(VIEW, members, proc(me), parameters, Random(0), self.effects)

    def hear(self, words: str) -> str:
        """Take messages in; return what was delivered by that, in order."""
        for one in chain(words):
            index = self.view.graph.index_of(one)
            assert index is not None
            if not self.view.graph.is_new(index, one.number):
                continue
            assert self.view.graph.keep(one, index)
            self.view.receive_basic(one)
            ready = self.view.graph.next_ready(None)
            while ready is not None:
                self.view.insert(ready)
                ready = self.view.graph.next_ready(None)
            self.view.advance()
        return self.told()

    def close(self) -> str:
        """End the view with what there is; `'` marks what comes in the passage behind it."""
        self.view.close(PASSAGE)
        return self.told()

    def told(self) -> str:
        """Return what was delivered since the last time, and forget it."""
        rows = [
            body_of(one.payload).decode() + ("'" if effect.conf_id == PASSAGE.conf_id else "")
            for effect in self.effects
            if isinstance(effect, Deliver)
            for one in effect.messages()
        ]
        self.effects.clear()
        return " ".join(rows)
