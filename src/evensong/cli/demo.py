"""`evensong demo`: a story of five processors, a crash, a partition and a merge, and its verdict.

The run is simulated and decided by its seed; everything told is read off its history afterwards.
"""

import argparse
import json
import statistics
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evensong.cli.command import EXIT_OK, EXIT_VIOLATION, Subparsers, add_command
from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.errors import BadTrace
from evensong.sim.evs import Status
from evensong.sim.faults import Calm, Crash, Fault, Heal, Partition, Restart
from evensong.sim.history import History
from evensong.sim.run import Outcome, run_recorded
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.tally import INVARIANTS
from evensong.sim.whole import whole
from evensong.sim.workload import Burst
from evensong.trace.changes import Change, changes
from evensong.trace.parquet import write_trace
from evensong.trace.story import drawing, text_drawing

if TYPE_CHECKING:
    from evensong.core.unit import UnitId

MS: Final = 1_000
NODES: Final = (1, 2, 3, 4, 5)
VICTIM: Final = 3
MAJORITY, MINORITY = (1, 2, 3), (4, 5)
SPEAK_FROM_MS: Final = 15
CRASH_MS: Final = 100
RESTART_MS: Final = 170
PARTITION_MS: Final = 240
HEAL_MS: Final = 330
END_MS: Final = 420
RUN_ID: Final = "demo"

CAUSES: Final = {
    "start": "it has just started and looks for others",
    "token loss": "no token came for 15 ms",
    "join": "somebody proposes another membership",
    "foreign regular": "it hears messages of a ring that it does not know",
    "foreign beacon": "it hears the beacon of a ring that it does not know",
    "consensus timeout": "somebody has stopped answering",
}


def register(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "demo",
        run,
        summary="tell the story of a ring that loses, splits and heals",
        example="evensong demo --seed 7",
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, another story")
    parser.add_argument("--out", metavar="DIR", default="out", help="where files go (default: out)")
    parser.add_argument("--json", action="store_true", help="print one object instead of a story")


def story_setup(seed: int) -> Setup:
    """Return the run that the demo tells."""
    plan: tuple[Fault, ...] = (
        Crash(CRASH_MS * MS, VICTIM),
        Restart(RESTART_MS * MS, VICTIM),
        Partition(PARTITION_MS * MS, (MAJORITY, MINORITY)),
        Heal(HEAL_MS * MS),
        Calm(END_MS * MS),
    )
    workload = tuple(
        Burst(at * MS + node * 137, node, units=1, body_max=200, safe=0.3)
        for at in range(SPEAK_FROM_MS, END_MS - 15, 2)
        for node in NODES
    )
    weather = Weather(latency_us=100, jitter_us=40, loss=0.005)
    return Setup(Options(NODES, seed=seed, weather=weather), plan, workload)


def run(args: argparse.Namespace) -> int:
    """Run it, tell it, and say whether it kept every promise."""
    outcome, history = run_recorded(story_setup(args.seed))
    files = _write(history, Path(args.out))
    if args.json:
        print(json.dumps(_plain(outcome, history, files)))
    else:
        _Teller(outcome, history).tell(args.seed, files)
    return EXIT_VIOLATION if outcome.violations else EXIT_OK


def _write(history: History, out: Path) -> list[str]:
    picture, trace = out / "demo.svg", out / "trace"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with whole(picture) as partial:
            partial.write_text(drawing(history), encoding="utf-8")
    except OSError as error:
        raise BadTrace(f"{out}: cannot be written: {error.strerror}") from error
    if find_spec("pyarrow") is None:
        return [str(picture)]
    return [str(picture), str(write_trace(history, trace, RUN_ID, is_replaced=True))]


def _plain(outcome: Outcome, history: History, files: list[str]) -> dict[str, object]:
    story = changes(history)
    crash = _change_after(story, CRASH_MS)
    sent = sum(len(life.sends) for life in history.lives.values())
    return {
        "messages": sent,
        "deliveries": outcome.deliveries,
        "messages_per_second": round(sent * 1_000_000 / outcome.virtual_us),
        "latency_ms": {
            service.name.lower(): _ms(_latency_us(history, service))
            for service in Service
            if _latencies(history, service)
        },
        "views": [
            {
                "ring": str(change.conf.conf_id),
                "members": list(change.conf.members),
                "cause": change.cause,
                "noticed_by": change.noticed_by,
                "noticed_ms": _ms(change.noticed_us),
                "installed_ms": _ms(change.installed_us),
            }
            for change in story
        ],
        "detection_ms": _ms(crash.noticed_us - CRASH_MS * MS) if crash else None,
        "recovery_ms": _ms(crash.took_us()) if crash else None,
        "properties": {name: status.value for name, status in outcome.statuses.items()},
        "violations": len(outcome.violations),
        "files": files,
    }


def _ms(t_us: int) -> float:
    return t_us / MS


def _change_after(story: Sequence[Change], at_ms: int) -> Change | None:
    return next((change for change in story if change.noticed_us >= at_ms * MS), None)


def _latencies(history: History, service: Service) -> list[int]:
    """Return how long it takes from the first broadcast until all five have delivered."""
    delivered: dict[UnitId, list[int]] = {}
    for life in history.lives.values():
        for row in life.deliveries:
            if row.service is service:
                delivered.setdefault(row.unit_id, []).append(row.t_us)
    return [
        max(delivered[send.unit_id]) - send.t_us
        for life in history.lives.values()
        for send in life.sends
        if send.service is service and len(delivered.get(send.unit_id, ())) == len(NODES)
    ]


def _latency_us(history: History, service: Service) -> int:
    return int(statistics.median(_latencies(history, service)))


class _Paper:
    """Where the story is printed; in colour where Rich is installed and the reader wants it."""

    def __init__(self) -> None:
        self._console = None
        if find_spec("rich") is not None:
            from rich.console import Console as RichConsole

            class Console(RichConsole):
                """Rich would end the program with 1 when its reader is gone; `main` sees to it."""

                def on_broken_pipe(self) -> None:
                    raise BrokenPipeError

            self._console = Console(highlight=False, soft_wrap=True)

    def write(self, text: str = "", style: str = "") -> None:
        if self._console is None:
            print(text)
        else:
            self._console.print(text, style=style or None, markup=False)

    def heading(self, text: str) -> None:
        self.write()
        self.write(text, "bold cyan")

    def explain(self, text: str) -> None:
        self.write(textwrap.fill(text, 88, initial_indent="   ", subsequent_indent="   "), "dim")

    def fact(self, at_us: int, text: str, style: str = "") -> None:
        self.write(f"   {at_us / MS:8.1f} ms   {text}", style)

    def note(self, text: str, style: str = "") -> None:
        self.write(f"                 {text}", style)


class _Teller:
    """Tells one run, stage by stage."""

    def __init__(self, outcome: Outcome, history: History) -> None:
        self.outcome: Final = outcome
        self.history: Final = history
        self.story: Final = changes(history)
        self.paper: Final = _Paper()

    def tell(self, seed: int, files: list[str]) -> None:
        """Tell everything."""
        self.paper.write(
            f"Five processors on a simulated network, seed {seed}. Times are virtual: the protocol "
            "is the real\none, the clock and the network are not."
        )
        self._formation()
        self._traffic()
        self._crash()
        self._restart()
        self._partition()
        self._merge()
        self._verdict()
        self._drawing(files)

    def _formation(self) -> None:
        self.paper.heading("1  Five processors become a ring")
        self.paper.explain(
            "Each starts alone. They tell each other whom they have heard of until all name the "
            "same members; then the lowest id sends a commit token round twice, and each installs "
            "the ring at one place in its stream of messages."
        )
        self.paper.fact(0, "p1 to p5 start, each on a ring of its own")
        self._changes(0, CRASH_MS)

    def _traffic(self) -> None:
        paper = self.paper
        paper.heading("2  Messages flow")
        paper.explain(
            "Whoever holds the token broadcasts, and numbers what it sends: that number is the "
            "order for all. An agreed message is delivered once everything before it is; a safe "
            "one waits until every member is known to hold it, another rotation or two of the "
            "token. The network loses one datagram in two hundred; the token carries the requests "
            "for what is missing."
        )
        sent, delivered = self._counts(SPEAK_FROM_MS, CRASH_MS)
        paper.fact(CRASH_MS * MS, f"{sent} messages sent so far, {delivered} deliveries")
        for service in (Service.AGREED, Service.SAFE):
            latency = _ms(_latency_us(self.history, service))
            paper.note(f"{service.name.lower():<6}  {latency:.2f} ms until all five delivered it")

    def _crash(self) -> None:
        paper = self.paper
        paper.heading(f"3  p{VICTIM} crashes")
        paper.explain(
            "Nobody is told. The token does not come back, somebody loses patience, and the others "
            "agree to go on without the one that stays silent. Before they do, they exchange what "
            "any of them lacks of the old ring: its last messages are delivered in a transitional "
            "configuration, which says that only these four are known to have them."
        )
        paper.fact(CRASH_MS * MS, f"p{VICTIM} crashes in the middle of the traffic", "red")
        self._changes(CRASH_MS, RESTART_MS)
        change = _change_after(self.story, CRASH_MS)
        if change is not None:
            detected = _ms(change.noticed_us - CRASH_MS * MS)
            recovered = _ms(change.took_us())
            text = f"detected after {detected:.1f} ms, recovered {recovered:.1f} ms later"
            paper.note(text, "bold")

    def _restart(self) -> None:
        self.paper.heading(f"4  p{VICTIM} comes back")
        self.paper.explain(
            "A restarted processor is a new one to the others. On its disk is one number, higher "
            "than any ring it ever spoke of, so that no ring's name is used twice; hence the jump."
        )
        self.paper.fact(RESTART_MS * MS, f"p{VICTIM} starts again", "green")
        self._changes(RESTART_MS, PARTITION_MS)

    def _partition(self) -> None:
        paper = self.paper
        paper.heading("5  The network splits")
        paper.explain(
            "p1, p2, p3 no longer hear p4 and p5. Both sides find out, both form a ring, and both "
            "go on: clients on either side send and deliver. Whoever needs one side only can tell "
            "by the members which it is on."
        )
        paper.fact(PARTITION_MS * MS, "the network splits: p1 p2 p3 | p4 p5", "red")
        self._changes(PARTITION_MS, HEAL_MS)
        for change in self.story:
            if PARTITION_MS * MS <= change.noticed_us < HEAL_MS * MS:
                ordered = sum(
                    send.ring_id == change.conf.conf_id
                    for life in self.history.lives.values()
                    for send in life.sends
                )
                members = _named(change.conf.members)
                paper.note(f"{members} order {ordered} messages of their own meanwhile")

    def _merge(self) -> None:
        self.paper.heading("6  It heals")
        self.paper.explain(
            "The first message across shows each side that there is another ring. They gather, and "
            "one ring takes the place of two. What either side delivered stays as it was: messages "
            "that both deliver come in one order everywhere."
        )
        self.paper.fact(HEAL_MS * MS, "the network heals", "green")
        self._changes(HEAL_MS, END_MS * 10)

    def _verdict(self) -> None:
        paper, outcome = self.paper, self.outcome
        paper.heading("7  Was every promise kept?")
        paper.explain(
            "Invariants were checked after every step of every processor. Now the whole history is "
            "held against the properties of extended virtual synchrony, by the names that clients "
            "gave their messages, not by the protocol's own numbers."
        )
        sent = sum(len(life.sends) for life in self.history.lives.values())
        paper.note(
            f"{sent} messages, {outcome.deliveries:,} deliveries, {outcome.configurations} "
            f"configurations, {outcome.datagrams:,} datagrams in {outcome.virtual_us / MS:.0f} ms"
        )
        holding = [name for name, how in outcome.statuses.items() if how is Status.PASS]
        paper.note(f"{len(INVARIANTS)} invariants, {len(outcome.statuses)} properties:")
        paper.write(
            textwrap.fill(
                " ".join(holding), 88, initial_indent=" " * 17, subsequent_indent=" " * 17
            )
        )
        if outcome.violations:
            for violation in outcome.violations:
                paper.note(f"BROKEN  {violation}", "bold red")
        else:
            open_ones = len(outcome.statuses) - len(holding)
            rest = f" ({open_ones} had nothing to say about this run)" if open_ones else ""
            paper.note(f"all hold, no violation{rest}", "bold green")

    def _drawing(self, files: list[str]) -> None:
        paper = self.paper
        paper.heading("The ring's life, a line a processor, a letter a ring")
        for line in text_drawing(self.history, 88).splitlines():
            paper.write("   " + line)
        paper.write()
        for file in files:
            paper.write(f"   written: {file}")
        paper.write(
            "   next:    evensong sim --seeds 0:100   (a hundred runs, faults of their own)"
        )

    # What the history says

    def _changes(self, from_ms: int, to_ms: int) -> None:
        """Tell the rings that came about in a while, one thing after the other."""
        facts: list[tuple[int, str]] = []
        for change in self.story:
            if not from_ms * MS <= change.noticed_us < to_ms * MS:
                continue
            if change.cause != "start":
                why = CAUSES.get(change.cause, change.cause)
                facts.append((change.noticed_us, f"p{change.noticed_by} notices: {why}"))
            members, ring = _named(change.conf.members), change.conf.conf_id
            facts.append((change.agreed_us, f"{members} have agreed and commit to ring {ring}"))
            facts.append((change.installed_us, f"{members} have installed ring {ring}"))
        for at_us, text in sorted(facts):
            self.paper.fact(at_us, text)

    def _counts(self, from_ms: int, to_ms: int) -> tuple[int, int]:
        lives = self.history.lives.values()
        during = range(from_ms * MS, to_ms * MS)
        sent = sum(send.t_us in during for life in lives for send in life.sends)
        return sent, sum(row.t_us in during for life in lives for row in life.deliveries)


def _named(members: Sequence[ProcessorId]) -> str:
    return " ".join(f"p{member}" for member in members)
