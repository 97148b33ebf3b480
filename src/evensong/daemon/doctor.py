"""An examination: every peer is probed for a second or two, and what was found is handed back.

It goes on only while somebody asks: each request over the control socket sends one round of
probes, so the ring never waits and nothing is left running when the asker goes away.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, final

from evensong import __version__
from evensong.core.engine import FIELDS, engine_in
from evensong.core.ids import ProcessorId
from evensong.daemon.control import Answer, Request
from evensong.daemon.datagrams import Datagrams
from evensong.daemon.driver import STRANGER, Driver, clock
from evensong.daemon.facts import AboutFacts, Facts, PeerFacts, to_json
from evensong.daemon.probe import About, Answered, Probes, wall_us
from evensong.daemon.settings import DATAGRAM_MAX, PACKET, Settings

ROUND_US: Final = 40_000  # the shortest time between two rounds of probes
PATIENCE_US: Final = 800_000  # how long an answer is waited for
LENGTH_US: Final = 1_000_000  # the shortest examination: refusals are counted meanwhile
SMALL: Final = 0  # a probe as small as can be
ASK_BYTES: Final = 490  # what an answer about a daemon takes at most, and 8 more for each node
JUMBO: Final = (DATAGRAM_MAX, 8_900, 8_000, 4_000, 2_000)
SIZES: Final = (*JUMBO, PACKET, 1_424, 1_400, 1_372, 1_280, 1_200, 1_000, 800, 548)


class _Patient:
    """What is gathered about one peer."""

    def __init__(self) -> None:
        self.probes = 0
        self.answers = 0
        self.rtt_us: int | None = None
        self.size = 0
        self.clock_offset_us: int | None = None
        self.about: About | None = None

    def note(self, answered: Answered) -> None:
        """Take an answer in; the quickest tells most about the clock."""
        self.answers += 1
        self.size = max(self.size, answered.asked.size)
        is_quickest = self.rtt_us is None or answered.rtt_us < self.rtt_us
        if is_quickest:
            self.rtt_us = answered.rtt_us
        if answered.about is not None:
            if is_quickest or self.about is None:
                self.clock_offset_us = answered.clock_offset_us
            self.about = answered.about


@final
class Examination:
    """One look at all peers."""

    def __init__(self, driver: Driver, probes: Probes, settings: Settings) -> None:
        self._driver: Final = driver
        self._probes: Final = probes
        self._settings: Final = settings
        self.patients: Final = {peer: _Patient() for peer in sorted(settings.peers)}
        self.began_at: Final = clock()
        self.refusals_before: Final = dict(driver.refusals)
        self.lives_before: Final = driver.lives()
        self.others_before: Final = dict(probes.others)
        ask = min(settings.packet, ASK_BYTES + 8 * settings.processors())
        smaller = [size for size in SIZES if size < settings.packet]
        first = [SMALL, ask, settings.packet, ask, settings.packet, SMALL, ask, settings.packet]
        self._rounds: Final = [*first, *smaller, *smaller]
        self._asks: Final = ask
        self._round_at = 0
        probes.begin(self._note)

    def _note(self, answered: Answered) -> None:
        self.patients[answered.asked.peer].note(answered)

    def go_on(self) -> None:
        """Send the next round of probes, unless the last was a moment ago."""
        now = clock()
        if not self._rounds or now - self._round_at < ROUND_US:
            return
        self._round_at = now
        size = self._rounds.pop(0)
        for peer, patient in self.patients.items():
            # A size is tried until one as large has arrived.
            if size in (SMALL, self._asks) or patient.size < size:
                patient.probes += 1
                self._probes.ask(peer, size)
        if all(patient.size >= self._settings.packet for patient in self.patients.values()):
            self._rounds[:] = [size for size in self._rounds if size in (SMALL, self._asks)]

    def is_done(self) -> bool:
        """Whether every answer is here, or has had its time."""
        now = clock()
        if self._rounds or now - self.began_at < LENGTH_US:
            return False
        return not self._probes.is_under_way() or now - self._round_at >= PATIENCE_US

    def refused_since(self, peer: ProcessorId) -> dict[str, int]:
        """Return what was refused of a peer since this began."""
        before = Counter(self.refusals_before)
        before.subtract(self._driver.refusals)
        return {reason: -n for (reason, whom), n in sorted(before.items()) if whom == peer and n}

    def incarnations(self, node: ProcessorId) -> list[int]:
        """Return the incarnations of a node that spoke since this began."""
        return sorted(
            incarnation
            for (transmitter, incarnation, boot), counter in self._driver.lives().items()
            if transmitter == node
            and counter > self.lives_before.get((transmitter, incarnation, boot), 0)
        )


@final
class Doctor:
    """Answers the order `doctor`, and what other daemons ask about this one."""

    def __init__(
        self, settings: Callable[[], Settings], driver: Driver, datagrams: Datagrams
    ) -> None:
        self._settings: Final = settings
        self._driver: Final = driver
        self._datagrams: Final = datagrams
        self._probes: Final = Probes(driver, datagrams, self._about)
        self._examination: Examination | None = None
        self._asked_at = 0
        driver.aside = self._probes.on_frame

    def answer(self, _: Request) -> Answer:
        """Go on with the examination, or begin a new one; the facts come when it is done."""
        examination, asked_at = self._examination, self._asked_at
        self._asked_at = clock()
        if examination is None or self._asked_at - asked_at > PATIENCE_US:  # its asker went away
            examination = Examination(self._driver, self._probes, self._settings())
            self._examination = examination
        examination.go_on()
        if not examination.is_done():
            return {"done": False}
        self._examination = None
        return {"done": True, "facts": to_json(self._facts(examination))}

    def _about(self, asker: ProcessorId) -> About:
        """Say what this daemon is to one that asks."""
        driver, settings = self._driver, self._settings()
        configuration, change = driver.configuration, driver.change
        heard_at = driver.heard_at.get(asker)
        assert configuration is not None  # a ring of one is installed before anything is heard
        return About(
            wall_us(),
            driver.lag.recent_us(clock()),
            None if heard_at is None else clock() - heard_at,
            configuration.conf_id,
            change.state if change else "",
            __version__,
            settings.name,
            tuple(settings.parameters),
            configuration.members,
            tuple(sorted(settings.peers)),
            self._refused(asker),
        )

    def _refused(self, peer: ProcessorId) -> dict[str, int]:
        refusals = sorted(self._driver.refusals.items())
        return {reason: count for (reason, whom), count in refusals if whom == peer}

    def _facts(self, examination: Examination) -> Facts:
        driver, settings = self._driver, self._settings()
        configuration, change = driver.configuration, driver.change
        twins = set(examination.incarnations(settings.node))
        before = examination.others_before
        twins.update(
            incarnation
            for incarnation, count in self._probes.others.items()
            if count > before.get(incarnation, 0)
        )
        return Facts(
            node=settings.node,
            name=settings.name,
            cluster=settings.cluster,
            version=__version__,
            incarnation=driver.life.incarnation,
            listen=str(settings.listen),
            state=change.state if change else "",
            ring=str(configuration.conf_id) if configuration else "",
            members=list(configuration.members) if configuration else [],
            insecure=not settings.keys,
            packet=settings.packet,
            parameters=settings.parameters._asdict(),
            lag_us=driver.lag.recent_us(clock()),
            strangers=self._refused(STRANGER),
            strangers_now=examination.refused_since(STRANGER),
            twins=sorted(twins),
            took_ms=(clock() - examination.began_at) // 1_000,
            peers=[self._peer_facts(examination, peer) for peer in examination.patients],
        )

    def _peer_facts(self, examination: Examination, peer: ProcessorId) -> PeerFacts:
        driver = self._driver
        patient = examination.patients[peer]
        about = patient.about
        heard_at = driver.heard_at.get(peer)
        return PeerFacts(
            node=peer,
            name=about.name if about else f"n{peer}",
            configured=str(self._settings().peers.get(peer, "")),
            address=self._datagrams.address_of(peer),
            heard_ms_ago=None if heard_at is None else (clock() - heard_at) // 1_000,
            ignored=peer in driver.ignored,
            refused=self._refused(peer),
            refused_now=examination.refused_since(peer),
            incarnations=examination.incarnations(peer),
            probes=patient.probes,
            answers=patient.answers,
            rtt_us=patient.rtt_us,
            size=patient.size or None,
            clock_offset_us=patient.clock_offset_us,
            about=_about_facts(about, self._settings().engine) if about else None,
        )


def _about_facts(about: About, our_engine: str) -> AboutFacts:
    heard = about.heard_us_ago
    names = FIELDS[engine_in(about.state) or our_engine]
    return AboutFacts(
        version=about.version,
        state=about.state,
        ring=str(about.ring_id),
        members=list(about.members),
        peers=list(about.peers),
        parameters=dict(zip(names, about.parameters, strict=False)),
        lag_us=about.lag_us,
        heard_ms_ago=None if heard is None else heard // 1_000,
        refused=dict(about.refused),
    )
