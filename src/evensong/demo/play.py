"""What the demonstration does to real daemons: a crash, a restart, a partition, a merge.

Each act is done, and then waited for: it is over when those who should be in one ring are. What it
took is read off the traces afterwards; here is only written down what was done and when.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

from evensong.cli.up import Cluster, lay_out
from evensong.core.engine import TOTEM
from evensong.core.ids import ProcessorId
from evensong.daemon.control import ask
from evensong.daemon.driver import clock
from evensong.demo.clerks import Book, Clerks, Wait
from evensong.errors import Unreachable

PROFILE: Final = "lan"
SETTINGS: Final = 'testing = true\ntrace = "events"\n'
QUIET_S: Final = 30.0
UNCHANGED_S: Final = 5.0
ANSWER_S: Final = 30.0
POLL_S: Final = 0.1


class Act(NamedTuple):
    """Something that was done to the daemons, and when its consequences were over."""

    name: str  # start, kill, restart, partition, merge
    text: str
    at_us: int
    over_us: int


class Record(NamedTuple):
    """What was done, and what clerks saw of it."""

    nodes: tuple[ProcessorId, ...]
    victim: ProcessorId
    acts: list[Act]
    waits: list[Wait]  # of clerks, in the order of the answers
    books: list[Book]  # the ledgers at the end
    stopped_us: int  # when the daemons were told to stop
    trouble: str  # why it was cut short; empty: it was not


class Narrator(Protocol):
    """Who tells what happens while it does."""

    def tell(self, text: str) -> None:
        """Tell a step."""
        ...

    def passing(self, text: str) -> None:
        """Show where things are."""
        ...


def named(nodes: Sequence[ProcessorId]) -> str:
    """Return the names of daemons as a list."""
    return " ".join(f"n{node}" for node in nodes)


def perform(
    directory: Path, nodes: int, calm_s: float, narrator: Narrator, engine: str = TOTEM
) -> Record:
    """Play it on daemons of a new directory; raise `Unreachable` if they cannot even start.

    Whatever happens, no daemon runs when this is over.
    """
    play = Play(directory, nodes, calm_s, narrator, engine)
    trouble = ""
    try:
        play.start()
        try:
            play.go_on()
        except Unreachable as error:
            trouble = str(error)
            narrator.tell(f"it cannot go on: {trouble}")
    finally:
        play.stop()
    trouble = trouble or play.left_badly()
    waits = play.clerks.waits
    return Record(play.nodes, play.victim, play.acts, waits, play.books, play.stopped_us, trouble)


@final
class Play:
    """The acts, in their order."""

    def __init__(
        self, directory: Path, nodes: int, calm_s: float, narrator: Narrator, engine: str = TOTEM
    ) -> None:
        settings = f'{SETTINGS}engine = "{engine}"\n'
        self._configs: Final = lay_out(directory, nodes, PROFILE, is_insecure=False, extra=settings)
        self._cluster: Final = Cluster(self._configs)
        self._calm_s: Final = calm_s
        self._narrator: Final = narrator
        self._struck_us = 0  # when the current act began
        self.stopped_us = 0
        self.nodes: Final = tuple(range(1, nodes + 1))
        self.victim: Final = nodes // 2 + 1
        self.acts: Final[list[Act]] = []
        self.clerks: Final = Clerks(nodes)
        self.books: list[Book] = []
        self._changed_at = 0.0  # when a ledger was last seen to change

    # The acts

    def start(self) -> None:
        """Start the daemons; each is alone, then they find each other."""
        self._narrator.tell(f"{len(self.nodes)} daemons start: {named(self.nodes)}")
        with self._act("start", "they started"):
            self._cluster.start()
            self._ring_of(self.nodes)

    def go_on(self) -> None:
        """Do everything else, up to a ring of all that is at rest."""
        for node in self.nodes:
            self.clerks.join(self._cluster.state_of(self._config(node)), node)
        self._narrator.tell("a clerk at every daemon keeps the ledger, by agreed and safe messages")
        self._be_calm(2 * self._calm_s)
        self._kill()
        self._restart()
        self._partition()
        self._merge()
        self.clerks.hush()
        self._wait_until("silent", self.clerks.is_silent)
        self._wait_until("at rest", self._is_quiet)
        self._narrator.tell("the clerks are silent, and every daemon has delivered everything")
        self._compare()
        self.clerks.stop()
        self._wait_until("rid of the clerks", self._are_clerks_gone)
        self._wait_until("at rest", self._is_quiet)
        self._narrator.tell("every daemon is told to stop")

    def _kill(self) -> None:
        victim = self._config(self.victim)
        survivors = [node for node in self.nodes if node != self.victim]
        with self._act("kill", f"n{self.victim} was killed (kill -9)"):
            pid = self._cluster.processes[victim].pid
            self._narrator.tell(f"n{self.victim} is killed: kill -9 {pid}")
            self._cluster.kill(victim)
            self._ring_of(survivors)
        self._be_calm(self._calm_s)

    def _restart(self) -> None:
        victim = self._config(self.victim)
        with self._act("restart", f"n{self.victim} was started again"):
            self._narrator.tell(f"n{self.victim} is started again")
            self._cluster.start_one(victim)
            self._ring_of(self.nodes)
        self.clerks.join(self._cluster.state_of(victim), self.victim)
        self._narrator.tell(
            f"a new clerk at n{self.victim} has no ledger, and gets it from the others"
        )
        self._be_calm(self._calm_s)

    def _partition(self) -> None:
        half = len(self.nodes) - len(self.nodes) // 2
        sides = self.nodes[:half], self.nodes[half:]
        split = " | ".join(map(named, sides))
        with self._act("partition", f"the network was split: {split}"):
            self._narrator.tell(f"the network is split: {split}")
            for side, other in (sides, sides[::-1]):
                self._ignore(side, other)
            for side in sides:
                self._ring_of(side)
        self._be_calm(self._calm_s)

    def _merge(self) -> None:
        with self._act("merge", "the network was healed"):
            self._narrator.tell("the network is healed")
            self._ignore(self.nodes, ())
            self._ring_of(self.nodes)
        self._be_calm(self._calm_s)

    def stop(self) -> None:
        """Stop whatever still runs."""
        self.clerks.stop()
        self.stopped_us = clock()
        self._cluster.stop()

    def left_badly(self) -> str:
        """Say who did not leave in good order."""
        codes = {config.stem: one.returncode for config, one in self._cluster.processes.items()}
        bad = [f"{name} ended with {code}" for name, code in codes.items() if code]
        return "; ".join(bad)

    # Their parts

    @contextmanager
    def _act(self, name: str, text: str) -> Iterator[None]:
        at_us = self._struck_us = clock()
        yield
        self.acts.append(Act(name, text, at_us, clock()))

    def _config(self, node: ProcessorId) -> Path:
        return self._configs[node - 1]

    def _ring_of(self, nodes: Sequence[ProcessorId]) -> None:
        ring = self._cluster.wait_for_one_ring([self._config(node) for node in nodes])
        took_s = (clock() - self._struck_us) / 1_000_000
        self._narrator.tell(f"{named(nodes)} are one ring, {ring}, {took_s:.1f} s later")

    def _ignore(self, nodes: Sequence[ProcessorId], peers: Sequence[ProcessorId]) -> None:
        for node in nodes:
            state = self._cluster.state_of(self._config(node))
            ask(state, {"do": "ignore", "peers": list(peers)})

    def _be_calm(self, seconds: float) -> None:
        """Let the clerks work for a while, and until each of them has been answered."""
        began, heard, before = time.monotonic(), self.clerks.heard(), self.clerks.answers()
        while (passed_s := time.monotonic() - began) < seconds or self._is_unheard(before):
            time.sleep(POLL_S)
            self._narrator.passing(f"{self.clerks.heard():,} entries so far")
            gone = self._cluster.gone()
            if gone:
                raise Unreachable(f"{gone} has stopped by itself; its log says why")
            if passed_s > seconds + ANSWER_S:
                raise Unreachable(f"not every clerk is answered within {ANSWER_S:.0f} s")
        rate = (self.clerks.heard() - heard) / passed_s
        self._narrator.tell(f"{self.clerks.heard():,} entries so far, {rate:,.0f} a second now")

    def _is_unheard(self, before: Mapping[str, int]) -> bool:
        now = self.clerks.answers()
        return any(count == before.get(name, 0) for name, count in now.items())

    def _wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + QUIET_S
        while not holds():
            if time.monotonic() > until:
                raise Unreachable(f"not everybody is {what} within {QUIET_S:.0f} s")
            time.sleep(POLL_S)

    def _compare(self) -> None:
        """Look into the ledgers once everybody has read everything."""
        self._wait_until("done reading", self._is_settled)
        for book in self.books:
            told = f"n{book.node}: {book.entries:,} entries, {book.digest}"
            if book.restored:
                told += ", begun with the state of others"
            if book.merged:
                told += f", merged {book.merged} times" if book.merged > 1 else ", merged once"
            self._narrator.tell(f"the ledger at {told}")

    def _is_settled(self) -> bool:
        """Whether ledgers are equal, or have not changed for so long that they never will be."""
        before, self.books = self.books, list(self.clerks.books())
        now = time.monotonic()
        if before != self.books:
            self._changed_at = now
        are_equal = len({book.digest for book in self.books}) == 1
        is_over = now - self._changed_at > UNCHANGED_S  # a clerk on a busy machine may pause
        return len(self.books) == len(self.nodes) and (are_equal or is_over)

    def _are_clerks_gone(self) -> bool:
        """Whether every daemon has heard that they are: what tells it is a message, too."""
        states = map(self._cluster.state_of, self._configs)
        clients = [ask(state, {"do": "status"})["clients"] for state in states]
        return not any(isinstance(one, dict) and one["groups"] for one in clients)

    def _is_quiet(self) -> bool:
        """Whether all have delivered the same last message, and nothing waits anywhere."""
        places = set()
        for config in self._configs:
            state = self._cluster.state_of(config)
            status = ask(state, {"do": "status"})
            if status["backlog"] or status["sent"] != status["own_delivered"]:
                return False
            last = ask(state, {"do": "deliveries"})["last"]
            assert isinstance(last, list)
            places.add((last[-1]["ring"], last[-1]["seq"]) if last else ("", 0))
        return len(places) == 1
