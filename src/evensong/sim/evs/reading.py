"""A history prepared for the check: units numbered, spans cut, com(c) gathered.

Every (origin identity, content digest) gets a small integer, its *unit number*; all questions of
order and sets are asked of these numbers. The protocol's own keys (ring_id, seq) and its own word
on where a delivery belongs (conf_no) are kept beside them and judged apart, by EVS2.2, EVS6.1 and
EVS6.2: a key produced by the protocol under test could hide its error.

`com(c)` at a life is the regular configuration c and the transitional one that followed it there.
Lives are never joined across incarnations; where a property speaks of a process over restarts it
says so.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple, final

from evensong.core.effects import Service
from evensong.core.ids import NO_RING, Configuration, ProcessorId, RingId
from evensong.core.unit import UnitId
from evensong.sim.evs.limits import Limits, limits_told, submitted_told
from evensong.sim.history import Delivery, History, Life, LifeId, Send

NOWHERE: Final = -1  # the configuration of a unit that nobody sent


@final
class Span:
    """A configuration at one life: from its installation to the next, and what was delivered."""

    __slots__ = ("conf", "last", "next_id", "regular_id", "start", "stop")

    def __init__(self, conf: Configuration, start: int, stop: int, next_id: RingId | None) -> None:
        self.conf: Final = conf
        self.start: Final = start  # deliveries [start, stop) happened in it
        self.stop: Final = stop
        self.next_id: Final = next_id  # the configuration installed directly after it
        self.last: Final = next_id is None
        self.regular_id: Final = conf.prev_id if conf.transitional else conf.conf_id


class Sending(NamedTuple):
    """A send of a life inside one regular configuration."""

    unit: int
    before: int  # deliveries of the life before it


class Visit(NamedTuple):
    """A visit of the token, as forwarded."""

    token_seq: int
    who: int  # the life, by its place in `Reading.lives`
    n_messages: int  # new and resent
    fcc: int


@final
class Com:
    """com(c) at one life."""

    __slots__ = ("__dict__", "life", "regular", "sendings", "spans", "transitional", "units")

    def __init__(self, life: "LifeReading") -> None:
        self.life: Final = life
        self.spans: Final[list[Span]] = []
        self.regular: Span | None = None
        self.transitional: Span | None = None
        self.units: list[int] = []  # in order, each once
        self.sendings: Final[list[Sending]] = []

    def add(self, span: Span) -> None:
        """Gather one more span of the configuration."""
        self.spans.append(span)
        if span.conf.transitional:
            self.transitional = span
        elif self.regular is None:
            self.regular = span
        self.units += self.life.units[span.start : span.stop]

    @cached_property
    def unit_set(self) -> set[int]:
        """The units delivered in com(c)."""
        return set(self.units)

    @cached_property
    def place(self) -> dict[int, int]:
        """Where each unit stands in this life's order of com(c)."""
        return {unit: at for at, unit in enumerate(self.units)}

    @property
    def in_regular(self) -> list[int]:
        """What was delivered in the regular configuration, as recorded."""
        span = self.regular
        return self.life.units[span.start : span.stop] if span else []

    @property
    def in_transitional(self) -> list[int]:
        """What was delivered in the transitional configuration, as recorded."""
        span = self.transitional
        return self.life.units[span.start : span.stop] if span else []

    @property
    def ended(self) -> str | None:
        """How the life ended in com(c), or None if it went on to another configuration."""
        return self.life.life.ended if any(span.last for span in self.spans) else None


@final
class LifeReading:
    """One life, its deliveries as unit numbers, its spans and its com(c) for each c."""

    __slots__ = ("coms", "first_units", "has_duplicates", "life", "name", "spans", "units")

    def __init__(self, life: Life, name: str) -> None:
        self.life: Final = life
        self.name: Final = name
        self.units: list[int] = []
        self.first_units: list[int] = []  # without second deliveries: those are EVS1.4's business
        self.has_duplicates = False
        self.spans: Final = _cut_spans(life)
        self.coms: Final[dict[RingId, Com]] = {}

    @property
    def node(self) -> ProcessorId:
        """The processor whose life it is."""
        return self.life.node

    @property
    def last_conf_id(self) -> RingId | None:
        """The configuration the life ended in."""
        return self.spans[-1].conf.conf_id if self.spans else None

    def take(self, units: list[int]) -> None:
        """Accept the numbered deliveries and gather com(c) for each c."""
        self.units = units
        self.has_duplicates = len(set(units)) != len(units)
        self.first_units = list(dict.fromkeys(units)) if self.has_duplicates else units
        for span in self.spans:
            com = self.coms.get(span.regular_id)
            if com is None:
                com = self.coms[span.regular_id] = Com(self)
            com.add(span)
        if self.has_duplicates:
            for com in self.coms.values():
                com.units = list(dict.fromkeys(com.units))

    def span_of_delivery(self, at: int) -> Span | None:
        """Return the configuration that delivery number `at` observably fell in."""
        found = None
        for span in self.spans:
            if span.start > at:
                break
            found = span
        return found

    def span_of_send(self, send: Send) -> Span | None:
        """Return the configuration a send falls in: as recorded if its place allows, else by place.

        At a boundary several configurations share one `pos`; only there conf_no decides.
        """
        if 0 <= send.conf_no < len(self.spans):
            span = self.spans[send.conf_no]
            if span.start <= send.pos <= span.stop:
                return span
        return self.span_of_delivery(send.pos)


def _cut_spans(life: Life) -> list[Span]:
    installed = [(e.conf, e.pos) for e in life.events if e.etype == "conf" and e.conf is not None]
    spans = []
    for number, (conf, start) in enumerate(installed):
        if number + 1 < len(installed):
            following, stop = installed[number + 1]
            spans.append(Span(conf, start, stop, following.conf_id))
        else:
            spans.append(Span(conf, start, len(life.deliveries), None))
    return spans


@final
class Units:
    """What is known of each unit, by unit number."""

    __slots__ = (
        "conf_codes",
        "digests",
        "ids",
        "number_by_content",
        "number_by_id",
        "ring_ids",
        "senders",
        "sends",
        "seqs",
        "services",
        "sizes",
    )

    def __init__(self) -> None:
        self.ids: Final[list[UnitId]] = []
        self.digests: Final[list[int]] = []
        self.sizes: Final[list[int]] = []
        self.services: Final[list[Service]] = []
        self.ring_ids: Final[list[RingId]] = []
        self.seqs: Final[list[int]] = []
        self.senders: Final[list[LifeReading | None]] = []  # the life that sent it
        self.sends: Final[list[Send | None]] = []
        self.conf_codes: Final[list[int]] = []  # of the configuration it was sent in
        self.number_by_id: Final[dict[UnitId, int]] = {}  # what was sent first under that name
        self.number_by_content: Final[dict[tuple[UnitId, int], int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def add(
        self, row: Send | Delivery, sender: LifeReading | None, send: Send | None, conf_code: int
    ) -> int:
        """Number a unit seen for the first time."""
        number = len(self.ids)
        self.ids.append(row.unit_id)
        self.digests.append(row.digest)
        self.sizes.append(row.size)
        self.services.append(row.service)
        self.ring_ids.append(row.ring_id)
        self.seqs.append(row.seq)
        self.senders.append(sender)
        self.sends.append(send)
        self.conf_codes.append(conf_code)
        self.number_by_id.setdefault(row.unit_id, number)
        self.number_by_content[row.unit_id, row.digest] = number
        return number

    def numbers(self, deliveries: list[Delivery]) -> list[int]:
        """Return the unit numbers of deliveries; what nobody sent gets a number of its own."""
        get = self.number_by_id.get
        numbers = [get(d.unit_id, -1) for d in deliveries]
        digests = self.digests
        if -1 not in numbers and [d.digest for d in deliveries] == [digests[n] for n in numbers]:
            return numbers
        return [self._number_of(d) for d in deliveries]

    def _number_of(self, row: Delivery) -> int:
        number = self.number_by_content.get((row.unit_id, row.digest))
        return self.add(row, None, None, NOWHERE) if number is None else number


@final
class Reference:
    """The orders of one regular configuration, measured against the longest of them.

    In a sound run nearly every order is a prefix of the longest, and one look at that one answers
    for all `followers`. Who differs (a gap in a transitional configuration, or an error) is in
    `others` and is looked at one by one.
    """

    __slots__ = ("coms", "followers", "longest", "others")

    def __init__(self, coms: list[Com]) -> None:
        self.coms: Final = coms
        self.longest: Final = max(coms, key=lambda com: len(com.units))
        self.followers: Final[list[Com]] = []
        self.others: Final[list[Com]] = []
        order = self.longest.units
        for com in coms:
            follows = com.units == order[: len(com.units)]
            (self.followers if follows else self.others).append(com)


@final
class Reading:
    """A whole history, prepared."""

    def __init__(
        self,
        history: History,
        submitted: Mapping[LifeId, int] | None = None,
    ) -> None:
        self.submitted: Final = submitted_told(history) if submitted is None else submitted
        self.limits: Final[Limits] = limits_told(history)
        lives = [history.lives[key] for key in sorted(history.lives)]
        nodes = [life.node for life in lives]
        self.lives: Final = [
            LifeReading(
                life,
                f"p{life.node}"
                if nodes.count(life.node) == 1
                else f"p{life.node}/{life.incarnation}",
            )
            for life in lives
        ]
        self.by_life: Final = {(one.node, one.life.incarnation): one for one in self.lives}
        self.by_node: Final[dict[ProcessorId, list[LifeReading]]] = {}
        self.units: Final = Units()
        self.sent_twice: Final[list[tuple[LifeReading, Send]]] = []
        self.n_deliveries: Final = sum(len(life.deliveries) for life in lives)
        self.n_sends: Final = sum(len(life.sends) for life in lives)
        self._conf_codes: Final[dict[RingId, int]] = {}
        self.replays: bool | None = None  # decided once, by the walk
        for one in self.lives:
            self.by_node.setdefault(one.node, []).append(one)
        sendings = [self._number_sends(one) for one in self.lives]
        self.n_sent_units: Final = len(self.units)  # numbers from here on: what nobody sent
        for one, sent in zip(self.lives, sendings, strict=True):
            one.take(self.units.numbers(one.life.deliveries))
            for span, sending in sent:
                one.coms[span.regular_id].sendings.append(sending)

    def _number_sends(self, one: LifeReading) -> list[tuple[Span, Sending]]:
        units = self.units
        sent = []
        for send in one.life.sends:
            span = one.span_of_send(send)
            code = self.code(span.regular_id) if span else NOWHERE
            if send.unit_id in units.number_by_id:
                self.sent_twice.append((one, send))
            number = units.number_by_content.get((send.unit_id, send.digest))
            if number is None:
                number = units.add(send, one, send, code)
            if span is not None:
                sent.append((span, Sending(number, min(send.pos, len(one.life.deliveries)))))
        return sent

    def code(self, conf_id: RingId) -> int:
        """Return a small integer for a configuration."""
        return self._conf_codes.setdefault(conf_id, len(self._conf_codes))

    def sent_in(self, unit: int) -> RingId:
        """Return the regular configuration a unit was sent in."""
        code = self.units.conf_codes[unit]
        return next((c for c, number in self._conf_codes.items() if number == code), NO_RING)

    @cached_property
    def sent_ids(self) -> set[UnitId]:
        """The names under which something was sent."""
        return set(self.units.ids[: self.n_sent_units])

    def name(self, unit: int) -> str:
        """Return a unit's name for a witness."""
        return str(self.units.ids[unit])

    @cached_property
    def coms(self) -> dict[RingId, list[Com]]:
        """com(c) of every life that installed c, for each regular c."""
        found: dict[RingId, list[Com]] = {}
        for one in self.lives:
            for conf_id, com in one.coms.items():
                if com.regular is not None:
                    found.setdefault(conf_id, []).append(com)
        return found

    @cached_property
    def references(self) -> dict[RingId, Reference]:
        """The orders of each regular configuration."""
        return {conf_id: Reference(coms) for conf_id, coms in self.coms.items()}

    @cached_property
    def safe_units(self) -> dict[tuple[RingId, RingId, tuple[ProcessorId, ...]], set[int]]:
        """What was delivered as safe, by configuration id, regular id and members."""
        found: dict[tuple[RingId, RingId, tuple[ProcessorId, ...]], set[int]] = {}
        safe = Service.SAFE
        for one in self.lives:
            services = [row.service for row in one.life.deliveries]
            for span in one.spans:
                part = slice(span.start, span.stop)
                pairs = zip(one.units[part], services[part], strict=True)
                units = {unit for unit, service in pairs if service is safe}
                if units:
                    key = (span.conf.conf_id, span.regular_id, span.conf.members)
                    found.setdefault(key, set()).update(units)
        return found

    @cached_property
    def misplaced(self) -> list[tuple[LifeReading, Span, int]]:
        """Deliveries outside com(c) of the configuration c their unit was sent in."""
        codes = self.units.conf_codes
        found = []
        for one in self.lives:
            for span in one.spans:
                here = self.code(span.regular_id)
                found += [
                    (one, span, unit)
                    for unit in one.units[span.start : span.stop]
                    if codes[unit] != here and unit < self.n_sent_units
                ]
        return found

    @cached_property
    def visits(self) -> dict[str, list[Visit]]:
        """The recorded visits of the token, by ring and in the order of token_seq."""
        found: dict[str, list[Visit]] = {}
        for who, one in enumerate(self.lives):
            for event in one.life.events:
                if event.etype == "token":
                    aux = dict(event.aux)
                    n_messages = int(aux["sent"]) + int(aux["resent"])
                    visit = Visit(int(aux["token_seq"]), who, n_messages, int(aux["fcc"]))
                    found.setdefault(aux["ring"], []).append(visit)
        for visits in found.values():
            visits.sort()
        return found

    @cached_property
    def n_sent_in_a_lost_tail(self) -> int:
        """How many deliveries are of units whose send may be in the lost tail of a recording."""
        known = self.n_sent_units
        return sum(
            self.may_have_sent(self.units.ids[unit])
            for one in self.lives
            for unit in one.units
            if unit >= known
        )

    def may_have_sent(self, unit_id: UnitId) -> bool:
        """Whether a send that is not recorded may be in the lost tail of its sender's recording."""
        sender = self.by_life.get((unit_id.sender, unit_id.incarnation))
        if sender is None or not sender.life.is_cut or unit_id in self.sent_ids:
            return False
        last = max((row.unit_id.origin_no for row in sender.life.sends), default=0)
        return unit_id.origin_no > last

    def may_have_installed(self, node: ProcessorId, conf_id: RingId) -> bool:
        """Whether the lost tail of a recording of the node may hold that configuration.

        Ring ids rise at a processor, over its restarts too; so a tail lies between the last
        configuration before it and the first of the next life.
        """
        lives = self.by_node.get(node, [])
        for at, one in enumerate(lives):
            if not one.life.is_cut or (one.spans and conf_id <= one.spans[-1].conf.conf_id):
                continue
            after = next((other.spans[0] for other in lives[at + 1 :] if other.spans), None)
            if after is None or conf_id < after.conf.conf_id:
                return True
        return False
