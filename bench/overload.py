"""What overload does, and what one that is slow costs the others.

Daemons on loopback, a client at each that hands over more than the ring takes, and one more client
that only listens. In each turn five things are done to them, one after the other, with daemons of
their own: nothing; a daemon that is stopped for a part of every tenth of a second; a listener that
takes little; a process that computes on the first core without end; and nothing once more, which
tells how much two equal ones differ.

    python -m bench.overload [--turns 5] [--seconds 4] [--json] [--write docs/performance.md]

Told are rates and latencies, beside those of the undisturbed turn; the largest queues that the
daemons' status showed, beside their bounds; each sender's share; who was suspected, by a daemon's
own lateness or without; and what was sent again. Needs no root.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.eager import Task
from bench.failover import suspicions
from bench.local import SETTINGS, Ring, local_ring
from bench.peers import document
from bench.peers.figures import Noise
from bench.peers.network import CannotMeasure
from bench.peers.waiting import now_us
from evensong.bench.groups import quantile
from evensong.bench.member import FRAME_BYTES
from evensong.cli.up import interruptible
from evensong.client.dialogue import SEND_WINDOW
from evensong.daemon.control import ask
from evensong.errors import EvensongError

NAME = "bench-overload"
ROOT = Path(__file__).parents[1]
CALM, NODE, CLIENT, CORE, AGAIN = (
    "undisturbed",
    "a slow node",
    "a slow client",
    "a busy core",
    "undisturbed again",
)
WAYS = (CALM, NODE, CLIENT, CORE, AGAIN)
SLOW = 2  # the node that is slow, and where the listener is
SLOW_PAUSE_S = 0.25  # of a slow client, after each batch
STOP_S, EVERY_S = 0.03, 0.1  # a slow node is stopped for so long, so often
LOOKS_S = 0.1  # between two looks at queues
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"
LOST = (CannotMeasure, EvensongError, OSError, subprocess.SubprocessError)


class Load(NamedTuple):
    """What is done, and for how long."""

    nodes: int = 3
    size: int = 100
    seconds: float = 4.0
    warm_up_s: float = 1.0


class Queues(NamedTuple):
    """The most that waited at a daemon at any look, in bytes; and what bounds it."""

    to_send: int = 0  # of all clients of a daemon, for the token
    to_client: int = 0  # for one client
    unconsumed: int = 0  # written to one client, which is not done with it
    backlog: int = 0  # packets of the daemon's own
    looks: int = 0

    def with_status(self, status: Mapping[str, object]) -> "Queues":
        """Return these with what a daemon's status shows."""
        clients, backlog = status["clients"], status["backlog"]
        assert isinstance(clients, dict)
        assert isinstance(backlog, int)
        sessions = clients["sessions"]
        return Queues(
            max(self.to_send, clients["to_send"]),
            max([self.to_client, *(one["queued"] for one in sessions)]),
            max([self.unconsumed, *(one["unconsumed"] for one in sessions)]),
            max(self.backlog, backlog),
            self.looks + 1,
        )


class Turn(NamedTuple):
    """What one way came to in one turn."""

    delivered_per_s: float  # at the clients of undisturbed nodes, the median
    slowest_per_s: float  # at the sender's client that heard least
    listener_per_s: float
    listener_ended: str  # by which error, if it was hung up on
    p50_us: int  # from handing over to own delivery, of all senders
    p99_us: int
    window_us: float  # how long a full window of a client takes at its share of the rate
    shares: list[float]  # of the packets, by sender
    suspected: int
    excused: int
    resent: int
    packets: int
    queues: Queues
    bounds: dict[str, int]  # in bytes, as the settings have it


class Looking:
    """Looks at the queues of all daemons every so often, in a thread."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.queues = Queues()

    def _look(self) -> None:
        while True:
            for node in self._ring.running():
                self.queues = self.queues.with_status(self._ring.status(node))
            if self._over.wait(LOOKS_S):
                return

    def __enter__(self) -> "Looking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def stopped_often(pid: int) -> Iterator[None]:
    """Let a process stand still for a part of the time; it runs afterwards."""
    over = threading.Event()

    def stop_and_go() -> None:
        while not over.wait(EVERY_S - STOP_S):
            os.kill(pid, signal.SIGSTOP)
            over.wait(STOP_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core computing; by itself the process ends when this one is gone."""
    spinning = subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True)
    try:
        os.sched_setaffinity(spinning.pid, {min(os.sched_getaffinity(0))})
        yield
    finally:
        spinning.kill()
        spinning.wait()


class Clients:
    """The processes of all clients of a turn: a sender at each node, and a listener."""

    def __init__(self, ring: Ring, load: Load, listener_pause_s: float) -> None:
        self._tasks = [
            Task(
                f"unix://{ring.state(node)}/client.sock",
                f"eager-{node}",
                len(ring.nodes()) + 1,
                load.size,
                True,
                0.0,
            )
            for node in ring.nodes()
        ]
        listener = self._tasks[SLOW - 1]._replace(name="listener", sends=False)
        self._tasks.append(listener._replace(pause_s=listener_pause_s))
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Clients":
        try:
            for task in self._tasks:
                command = [sys.executable, "-m", "bench.eager", json.dumps(task)]
                self._processes.append(
                    subprocess.Popen(
                        command,
                        cwd=ROOT,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                        start_new_session=True,  # Ctrl-C is for us; we end them
                    )
                )
            self._wait_for("ready")
            self._tell("go")
            self._wait_for("flows")
        except BaseException:  # nobody leaves what was not entered
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()

    def _wait_for(self, word: str) -> None:
        for process in self._processes:
            if _line(process) != word:
                raise CannotMeasure("a client did not come up; see what it said above")

    def _tell(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def count(self, begin_ns: int, end_ns: int) -> None:
        """Tell all from when to when to count."""
        self._tell(json.dumps([begin_ns, end_ns]))

    def told(self) -> list[dict[str, object]]:
        """Return what each saw, the listener last."""
        lines = [_line(process) for process in self._processes]
        if not all(lines):
            raise CannotMeasure("a client failed; see what it said above")
        return [json.loads(line) for line in lines]


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


class Counts(NamedTuple):
    """What the daemons have counted."""

    by_sender: dict[int, int]  # packets delivered, at the first daemon
    resent: int

    @classmethod
    def of(cls, ring: Ring) -> "Counts":
        told = ask(ring.state(1), {"do": "deliveries"})["by_sender"]
        assert isinstance(told, dict)
        by_sender = {int(sender): int(count) for sender, count in told.items()}
        return cls(by_sender, sum(ring.count(node, "resent") for node in ring.running()))


def take_turn(way: str, load: Load) -> Turn:
    """Overload a ring of its own, with what is done to it."""
    with ExitStack() as stack:
        ring = stack.enter_context(local_ring(load.nodes, SETTINGS))
        pause_s = SLOW_PAUSE_S if way == CLIENT else 0.0
        clients = stack.enter_context(Clients(ring, load, pause_s))
        if way == NODE:
            stack.enter_context(stopped_often(ring.pid(SLOW)))
        elif way == CORE:
            stack.enter_context(busy_core())
        now = time.monotonic_ns()
        begin = now + int(load.warm_up_s * 1e9)
        end = begin + int(load.seconds * 1e9)
        clients.count(begin, end)
        _sleep_until(begin)
        began_us, before = now_us(), Counts.of(ring)
        with Looking(ring) as looking:
            _sleep_until(end)
        after = Counts.of(ring)
        suspected, excused = _suspected(ring, began_us)
        told = clients.told()
        bounds = _bounds(ring)
    *senders, listener = told
    rates = [_number(one) / load.seconds for one in senders]
    apart = [rate for node, rate in enumerate(rates, start=1) if way != NODE or node != SLOW]
    samples = sorted(sample for one in senders for sample in _samples(one))
    packets = _more(after.by_sender, before.by_sender)
    rate = statistics.median(apart)
    return Turn(
        rate,
        min(rates),
        _number(listener) / load.seconds,
        str(listener["ended"]),
        quantile(samples, 0.5),
        quantile(samples, 0.99),
        1e6 * SEND_WINDOW / max(1.0, rate * load.size / load.nodes),
        [packets.get(node, 0) / max(1, sum(packets.values())) for node in range(1, load.nodes + 1)],
        suspected,
        excused,
        after.resent - before.resent,
        sum(packets.values()),
        looking.queues,
        bounds,
    )


def _sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - time.monotonic_ns()) / 1e9)


def _suspected(ring: Ring, since: int) -> tuple[int, int]:
    """Return how many rings of all have ended: without anybody's lateness, and with it."""
    patience = ring.settings().parameters.patience()
    seen = suspicions(ring.breaks(since), since, len(ring.nodes()))
    excused = sum(one.lag_us > patience // 3 for one in seen)
    return len(seen) - excused, excused


def _bounds(ring: Ring) -> dict[str, int]:
    """Return what may wait at most, in bytes: at a daemon for the token, and for a client.

    One client of each daemon sends. What it has under way is bounded by its window, beyond which
    it goes by one batch, laid out as frames.
    """
    return {"to_send": SEND_WINDOW + 2 * FRAME_BYTES, "to_client": ring.settings().client_queue}


def _number(told: Mapping[str, object]) -> int:
    delivered = told["delivered"]
    assert isinstance(delivered, int)
    return delivered


def _samples(told: Mapping[str, object]) -> list[int]:
    samples = told["samples_us"]
    assert isinstance(samples, list)
    return samples


def _more(after: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    return {sender: count - before.get(sender, 0) for sender, count in after.items()}


class Overload(NamedTuple):
    """Everything that a run has shown."""

    load: Load
    turns: dict[str, list[Turn]]  # by way
    noise: dict[str, float]

    def ratios(self, way: str, name: str) -> list[float]:
        """Return a figure over that of the undisturbed, turn by turn."""
        pairs = zip(self.turns[way], self.turns[CALM], strict=True)
        return [getattr(one, name) / max(1e-9, getattr(calm, name)) for one, calm in pairs]

    def figures(self, way: str, name: str) -> list[float]:
        return [float(getattr(turn, name)) for turn in self.turns[way]]

    def as_json(self) -> str:
        told = {
            "load": self.load._asdict(),
            "turns": {
                way: [{**turn._asdict(), "queues": turn.queues._asdict()} for turn in turns]
                for way, turns in self.turns.items()
            },
            "ratios": {
                way: {
                    name: round(statistics.median(self.ratios(way, name)), 4)
                    for name in ("delivered_per_s", "p50_us", "p99_us")
                }
                for way in self.turns
            },
            "noise": self.noise,
        }
        return json.dumps(told)

    def table(self) -> str:
        """Return both tables of Markdown."""
        noise = self.noise
        return "\n\n".join(
            [
                self._rates(),
                "Queues are the largest that any look at any daemon showed, KiB; suspicions and "
                "what was sent again are of all turns:",
                self._bounded(),
                f"{noise['cores']:.0f} cores; other things took {noise['others_cores']} meanwhile.",
            ]
        )

    def _rates(self) -> str:
        headings = ["", "messages/s at the others", "ratio", "at the slowest sender"]
        headings += ["at the listener", "p50, ms", "ratio", "p99, ms", "a window, ms"]
        return document.table(headings, [self._rate_row(way) for way in self.turns])

    def _rate_row(self, way: str) -> list[str]:
        return [
            way,
            document.spread(self.figures(way, "delivered_per_s")),
            document.spread(self.ratios(way, "delivered_per_s"), 2),
            document.spread(self.figures(way, "slowest_per_s")),
            document.spread(self.figures(way, "listener_per_s")),
            document.spread([one / 1_000 for one in self.figures(way, "p50_us")], 1),
            document.spread(self.ratios(way, "p50_us"), 2),
            document.spread([one / 1_000 for one in self.figures(way, "p99_us")], 1),
            document.spread([one / 1_000 for one in self.figures(way, "window_us")], 1),
        ]

    def _bounded(self) -> str:
        rows = []
        for way, turns in self.turns.items():
            shares = [share for turn in turns for share in turn.shares]
            to_send = max(turn.queues.to_send for turn in turns)
            to_client = max(turn.queues.to_client for turn in turns)
            ended = [turn.listener_ended for turn in turns if turn.listener_ended]
            rows.append(
                [
                    way,
                    f"{to_send >> 10:,} of {turns[0].bounds['to_send'] >> 10:,}",
                    f"{to_client >> 10:,} of {turns[0].bounds['to_client'] >> 10:,}",
                    f"{min(shares):.3f}–{max(shares):.3f}",
                    f"{sum(turn.suspected for turn in turns)}, "
                    f"{sum(turn.excused for turn in turns)}",
                    f"{sum(turn.resent for turn in turns):,} of "
                    f"{sum(turn.packets for turn in turns):,}",
                    f"{len(ended)} of {len(turns)}",
                ]
            )
        headings = ["", "to send", "to a client", "shares of senders", "suspicions, excused"]
        return document.table([*headings, "packets sent again", "hung up on the listener"], rows)


def measure(ways: Sequence[str], turns: int, load: Load) -> Overload:
    """Let all ways take turns."""
    noise = Noise()
    seen: dict[str, list[Turn]] = {way: [] for way in ways}
    for number in range(turns):
        for way in ways:
            progress(f"{way}: turn {number + 1} of {turns}")
            seen[way].append(take_turn(way, load))
    return Overload(load, seen, noise.so_far())


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write(told: Overload, path: Path) -> None:
    """Put the tables into a document, in place of those of the run before."""
    path.write_text(document.replaced(path.read_text(), NAME, told.table()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure overload, and what one that is slow costs the others.",
        epilog="example: python -m bench.overload --turns 5 --seconds 4 --json",
    )
    parser.add_argument("--nodes", type=int, default=3, help="daemons (default: 3)")
    parser.add_argument("--size", type=int, default=100, help="of a message (default: 100)")
    parser.add_argument("--turns", type=int, default=5, help="of each way (default: 5)")
    parser.add_argument("--seconds", type=float, default=4, help="of each turn (default: 4)")
    parser.add_argument("--write", type=Path, help="a document with marks")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(words)
    if args.nodes < SLOW:
        parser.error(f"--nodes: at least {SLOW}")
    load = Load(args.nodes, args.size, args.seconds, min(1.0, args.seconds))
    try:
        with interruptible():
            told = measure(WAYS, args.turns, load)
    except LOST as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    if args.write:
        write(told, args.write)
    print(told.as_json() if args.json else told.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
