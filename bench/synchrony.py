"""The index of synchrony: how long an agreed message takes, and of how many it must be heard.

    python -m bench.synchrony [--nodes 3,5,9,15] [--messages 300] [--json] [--write]

The simulator sends the same messages, by chance at a given rate over all processors, through the
ring, through ToTo and through AllAck (every member must have spoken). Time is virtual and runs do
not differ: nothing here depends on the machine. A message counts from the moment at which its
client hands it over until a processor delivers it, at every processor.

`bare` ways send no message but the clients': neither acknowledgements when idle nor heartbeats
within the run; more is sent after the messages that count, for its votes. These ways are what the
model is about: with each of n processors speaking at rate lambda/n, by chance, ToTo waits for half
of the others, AllAck for all of them.

Each finished cell is a line of JSON in a file (`--results`); a run that is started again goes on
behind its last one. `--write` puts tables and a plot into docs/protocols/transis.md.
"""

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.lines import Panel, Series, panels
from bench.peers.document import replaced, table
from evensong.core.totem.parameters import Parameters
from evensong.core.transis.parameters import MS
from evensong.core.transis.parameters import Parameters as LansisParameters
from evensong.core.unit import UnitId
from evensong.sim.history import History
from evensong.sim.run import Run
from evensong.sim.setup import TOTEM, TRANSIS, Options, Setup, Weather
from evensong.sim.transis.memoir import Memoir, Receipt, recall
from evensong.sim.workload import Burst

DOCUMENT = Path("docs/protocols/transis.md")
PICTURE = "synchrony.svg"
NAME = "bench-synchrony"
NODES = (3, 5, 9, 15)
RATES = (160, 1_000, 5_000)  # messages a second, over all processors
TOTO, ALLACK, BARE_TOTO, BARE_ALLACK = "ToTo", "AllAck", "ToTo, bare", "AllAck, bare"
RING = "totem"
WAYS = (RING, TOTO, ALLACK, BARE_TOTO, BARE_ALLACK)
BARE = (BARE_TOTO, BARE_ALLACK)
FIRST_US = 1_000 * MS  # by then there is one view of all
LATENCY_US, JITTER_US = 100, 20
SILENCE = 5_000 * MS  # longer than anybody is silent in a bare run
WIDE = 4_000  # a window that nobody waits for
AFTERWARDS = 12  # messages of each processor that are sent for their votes alone


class Cell(NamedTuple):
    """One run."""

    way: str
    nodes: int
    rate: int
    messages: int


class Figures(NamedTuple):
    """What a run came to; latencies in microseconds of virtual time."""

    mean: float
    p50: float
    p99: float
    deliveries: int
    heard: dict[int, int]  # deliveries by how many members had spoken; the ring has no such number
    model: float  # 0: there is none


# -- what is run -----------------------------------------------------------------------------


def arrivals(cell: Cell) -> tuple[Burst, ...]:
    """Draw who speaks when: the same for every way, but what is sent afterwards for its votes."""
    rng = Random(cell.nodes * 1_000_003 + cell.rate)
    at_us = float(FIRST_US)
    found = []
    for _ in range(cell.messages + (AFTERWARDS * cell.nodes if cell.way in BARE else 0)):
        at_us += rng.expovariate(cell.rate) * 1e6
        found.append(Burst(int(at_us), rng.randint(1, cell.nodes), body_max=0))
    return tuple(found)


def lansis(cell: Cell) -> LansisParameters:
    """Return the settings of a way of Transis."""
    found = LansisParameters.for_domain(cell.nodes)
    if cell.way in BARE:
        found = found._replace(heartbeat=SILENCE, ack_idle=SILENCE, w_low=WIDE, w_high=WIDE + 1)
    return found._replace(allack=int(cell.way in (ALLACK, BARE_ALLACK)))


def setup_of(cell: Cell) -> Setup:
    options = Options(
        nodes=tuple(range(1, cell.nodes + 1)),
        seed=1,
        weather=Weather(latency_us=LATENCY_US, jitter_us=JITTER_US),
        parameters=Parameters.for_ring(cell.nodes),
        engine=TOTEM if cell.way == RING else TRANSIS,
        lansis=lansis(cell),
    )
    return Setup(options, (), arrivals(cell))


def measure(cell: Cell) -> Figures:
    """Do a run; every message must have reached everybody."""
    setup = setup_of(cell)
    heard: Counter[int] = Counter()
    if cell.way == RING:
        run = Run(setup, None, None)
    else:
        memoir, run = recall(setup)
        heard = spoken(memoir)
    assert not run.violations, run.violations
    times = latencies(cell, setup, run.history)
    rank = sorted(times)
    return Figures(
        mean=round(statistics.fmean(times), 1),
        p50=rank[len(rank) // 2],
        p99=rank[len(rank) * 99 // 100],
        deliveries=len(times),
        heard=dict(sorted(heard.items())),
        model=model(cell) if cell.way in BARE else 0,
    )


def spoken(memoir: Memoir) -> Counter[int]:
    """Count deliveries by how many members had spoken for a candidate of the message's round.

    What is known after the step by which it is delivered may be more than decided it, never less.
    """
    heard: Counter[int] = Counter()
    candidates = {
        memoir.name_of(node): [memoir.name_of(one) for one in found.candidates]
        for view_id in memoir.graphs
        for found in memoir.rounds(view_id)
        for node in found.chosen
    }
    for one in memoir.happenings:
        if isinstance(one, Receipt) and one.inserted:
            heard[len(memoir.spoken(one, candidates[one.name]))] += 1
    return heard


def latencies(cell: Cell, setup: Setup, history: History) -> list[int]:
    """Return how long each message that counts took to each processor."""
    handed: dict[UnitId, int] = {}
    counts: Counter[int] = Counter()
    incarnation = {life.node: life.incarnation for life in history.lives.values()}
    for burst in setup.workload:
        counts[burst.node] += 1
        handed[UnitId(burst.node, incarnation[burst.node], counts[burst.node])] = burst.at_us
    orders = [[row.unit_id for row in life.deliveries] for life in history.lives.values()]
    assert all(order == orders[0] for order in orders), "one order for all"
    assert len(orders[0]) == len(handed), "everybody delivers everything"
    last_us = setup.workload[cell.messages - 1].at_us
    rows = [
        row
        for life in history.lives.values()
        for row in life.deliveries
        if handed[row.unit_id] <= last_us
    ]
    end_us = setup.workload[-1].at_us
    assert cell.way not in BARE or all(row.t_us < end_us for row in rows), "by clients' votes"
    return [row.t_us - handed[row.unit_id] for row in rows]


def harmonic(number: int) -> float:
    return sum(1 / at for at in range(1, number + 1))


def model(cell: Cell) -> float:
    """Return the mean time until enough others have spoken, each after a time by chance, in us."""
    others = cell.nodes - 1
    needed = others if cell.way == BARE_ALLACK else cell.nodes // 2
    each_us = cell.nodes / cell.rate * 1e6
    return round(each_us * (harmonic(others) - harmonic(others - needed)) + LATENCY_US, 1)


# -- what is told ----------------------------------------------------------------------------


def cells(nodes: Sequence[int], rates: Sequence[int], messages: int) -> Iterator[Cell]:
    for n in nodes:
        for rate in rates:
            for way in WAYS:
                yield Cell(way, n, rate, messages)


def milliseconds(us: float) -> str:
    return f"{us / MS:.2f}" if us < 10 * MS else f"{us / MS:.1f}"


def latency_table(found: dict[Cell, Figures]) -> str:
    rows = []
    for n, rate in dict.fromkeys((cell.nodes, cell.rate) for cell in found):
        line = [str(n), f"{rate:,}"]
        for way in WAYS:
            one = next(
                figures
                for cell, figures in found.items()
                if (cell.way, cell.nodes, cell.rate) == (way, n, rate)
            )
            text = f"{milliseconds(one.mean)} ({milliseconds(one.p99)})"
            if one.model:
                text = f"{milliseconds(one.mean)}, model {milliseconds(one.model)}"
            line.append(text)
        rows.append(line)
    return table(["n", "messages/s", *WAYS], rows)


def heard_table(found: dict[Cell, Figures]) -> str:
    rows = []
    for n in dict.fromkeys(cell.nodes for cell in found):
        for way in WAYS[1:]:
            heard: Counter[int] = Counter()
            for cell, figures in found.items():
                if (cell.way, cell.nodes) == (way, n):
                    heard.update(figures.heard)
            total = sum(heard.values())
            least = min(heard)
            shares = ", ".join(f"{at}: {heard[at] / total:.0%}" for at in sorted(heard))
            index = n // 2 + 1 if way in (TOTO, BARE_TOTO) else n
            rows.append([str(n), way, str(index), str(least), shares])
    return table(["n", "", "index", "least heard", "heard at delivery"], rows)


def plot(found: dict[Cell, Figures]) -> str:
    drawn = []
    for rate in dict.fromkeys(cell.rate for cell in found):
        series = []
        for way in WAYS:
            points = [
                (cell.nodes, figures.mean / MS, figures.model / MS)
                for cell, figures in found.items()
                if (cell.way, cell.rate) == (way, rate)
            ]
            series.append(Series(way, [(n, mean) for n, mean, _ in points]))
            if way in BARE:
                told = [(n, expected) for n, _, expected in points]
                series.append(Series(f"{way}: model", told, is_model=True))
        drawn.append(Panel(f"{rate:,} messages/s", series))
    return str(
        panels("Agreed latency against the number of processors", "ms, mean", "processors", drawn)
    )


def part(found: dict[Cell, Figures]) -> str:
    """Return what goes into the document."""
    return "\n\n".join(
        [
            "Milliseconds of virtual time from the client's call to the delivery, mean over all "
            "processors (p99):",
            latency_table(found),
            f"![agreed latency against the number of processors]({PICTURE})",
            "How many members a processor had heard speak, by messages that follow one of the "
            "candidates, when it delivered a message; the sender is one of them. Over all rates:",
            heard_table(found),
        ]
    )


def told(found: dict[Cell, Figures]) -> dict[str, object]:
    return {"cells": [{**cell._asdict(), **one._asdict()} for cell, one in found.items()]}


def holds(found: dict[Cell, Figures]) -> list[str]:
    """Return what is not as it must be."""
    wrong = []
    for cell, one in found.items():
        index = cell.nodes if cell.way in (ALLACK, BARE_ALLACK) else cell.nodes // 2 + 1
        if one.heard and min(one.heard) < index:
            wrong.append(f"{cell}: delivered with {min(one.heard)} heard, below {index}")
        if cell.way == BARE_TOTO and cell.rate == min(RATES) and min(one.heard) != index:
            wrong.append(f"{cell}: never delivered with {index} heard")
    return wrong


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def read(path: Path) -> dict[Cell, Figures]:
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            heard = {int(key): value for key, value in row["figures"].pop("heard").items()}
            found[Cell(**row["cell"])] = Figures(**row["figures"], heard=heard)
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Measure agreed latency and the index of synchrony, in the simulator.",
        epilog="example: python -m bench.synchrony --write",
    )
    parser.add_argument("--nodes", type=numbers, default=list(NODES), metavar="N,N")
    parser.add_argument("--rates", type=numbers, default=list(RATES), metavar="R,R")
    parser.add_argument("--messages", type=int, default=300, metavar="N", help="in each run")
    parser.add_argument("--results", type=Path, default=Path("out/bench-synchrony.jsonl"))
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("--write", nargs="?", type=Path, const=DOCUMENT, metavar="DOCUMENT")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    args = parser.parse_args(words)
    if args.anew:
        args.results.unlink(missing_ok=True)
    args.results.parent.mkdir(parents=True, exist_ok=True)
    known = read(args.results)
    found = {}
    for cell in cells(args.nodes, args.rates, args.messages):
        if cell not in known:
            print(cell, file=sys.stderr, flush=True)
            known[cell] = measure(cell)
            with args.results.open("a") as file:
                row = {"cell": cell._asdict(), "figures": known[cell]._asdict()}
                file.write(json.dumps(row) + "\n")
        found[cell] = known[cell]
    if args.write:
        (args.write.parent / PICTURE).write_text(plot(found) + "\n")
        args.write.write_text(replaced(args.write.read_text(), NAME, part(found)))
    wrong = holds(found)
    print(json.dumps({**told(found), "wrong": wrong}) if args.json else part(found))
    for text in wrong:
        print(f"bench: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
