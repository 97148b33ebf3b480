"""Fail-over at the best settings of each: candidates are flooded, killed, and one of each wins.

Called by `python -m bench.failover --candidates`. Three settings of ours and three of corosync:
each floods for two minutes, and whoever is suspected then, though alive, is counted. Then one node
after the other is killed, the candidates in turns. Of each system the fastest wins that stood its
flood: no false suspicion for which nobody's own lateness accounts, few for which it does. The
winner floods for ten minutes more; if it does not stand that, the next one does it. A flood ends
as soon as it cannot be stood any more.

How late a daemon was itself: ours tells it of every ring that ends, and what is above a third of
`token_loss` excuses; corosync writes into its log when it was not let run for 0.8 of `token`.
"""

import json
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

from bench.failover import (
    EXCUSED_MAX,
    KILLS_A_TURN,
    MS,
    NODES,
    RATIO_MAX,
    SIZE,
    Cluster,
    Crash,
    progress,
    suspicions,
    take_turn,
)
from bench.peers import document
from bench.peers.cells import OURS, THEIRS
from bench.peers.client import compile_client
from bench.peers.corosync import Corosync, Pause, patience
from bench.peers.figures import Noise, Spread, wake_lateness_us
from bench.peers.network import CannotMeasure, Network
from bench.peers.ours import Evensong
from bench.peers.waiting import now_us
from evensong.core.totem.parameters import PROFILES
from evensong.errors import EvensongError

MARKS = "bench-failover-candidates"
TOGETHER_US = 1_000_000  # views that shrink within a second shrink for one reason
LOST = (CannotMeasure, EvensongError, OSError, subprocess.SubprocessError)
LOOK_EVERY_S = 10  # how often a flood is looked at
LATE_US = 1_000_000  # a pause and what follows from it are so near each other


class Candidate(NamedTuple):
    """Settings of one system."""

    system: str
    token_ms: int  # silence after which the token is lost
    settings: tuple[tuple[str, int], ...]  # the timeouts that make it, in ms

    @property
    def name(self) -> str:
        return f"{self.system}, {self.token_ms} ms"

    def said(self) -> str:
        """Say the settings for people."""
        return ", ".join(f"`{key}` {value}" for key, value in self.settings)

    def make(
        self, network: Network, home: Path, client: Path, transport: str, *, is_realtime: bool
    ) -> Cluster:
        """Return daemons with these settings, not yet started."""
        if self.system == THEIRS:
            lines = [f"{key}: {value}" for key, value in self.settings]
            fixed = ("token_coefficient: 0", "token_retransmits_before_loss_const: 2")
            timeouts = (*lines, *fixed, *patience(transport))
            return Corosync(network, home, client, transport, timeouts, is_realtime=is_realtime)
        table = ", ".join(f'{key} = "{value}ms"' for key, value in self.settings)
        extra = f"timeouts = {{ {table} }}"
        return Evensong(network, home, client, "fast", is_realtime=is_realtime, extra=extra)


def _ours(token_loss: int, retransmit: int, hold: int, consensus: int) -> Candidate:
    timeouts = {"token_loss": token_loss, "token_retransmit": retransmit, "hold": hold}
    return Candidate(OURS, token_loss, (*timeouts.items(), ("consensus", consensus)))


def _theirs(token: int, consensus: int, join: int) -> Candidate:
    return Candidate(THEIRS, token, (("token", token), ("consensus", consensus), ("join", join)))


# Ours: the profile `fast`, and two that are more patient; 45 and 60 ms did not stand on a virtual
# machine whose host takes a core away for up to 200 ms. Corosync's: the lowest that once stood a
# short flood, and two above; its `consensus` is the least that it takes, 1.2 of `token`.
CANDIDATES = (
    _ours(PROFILES["fast"].token_loss // MS, 10, 8, PROFILES["fast"].consensus // MS),
    _theirs(100, 120, 30),
    _ours(140, 10, 8, 28),
    _theirs(150, 180, 45),
    _ours(200, 10, 8, 40),
    _theirs(250, 300, 50),
)


class Stand(NamedTuple):
    """What a flood came to: who was suspected in it, though alive."""

    seconds: float
    delivered_per_s: int
    false: int  # suspicions for which nobody's lateness accounts,
    excused: int  # and those for which somebody's does
    told: list[str]  # each of them

    def holds(self) -> bool:
        return not self.false and self.excused <= EXCUSED_MAX


def shrinkages(views: Mapping[int, Sequence[tuple[int, list[int]]]], since: int) -> list[int]:
    """Return when members were lost to somebody's view, once for all who lost them together."""
    at_each = sorted(
        at
        for seen in views.values()
        for (_, before), (at, after) in pairwise(seen)
        if at >= since and set(before) - set(after)
    )
    found: list[int] = []
    for at in at_each:
        if not found or at - found[-1] > TOGETHER_US:
            found.append(at)
    return found


def excuse(at: int, pauses: Sequence[Pause]) -> Pause | None:
    """Return the longest pause that can have led to what happened then."""
    near = [
        one
        for one in pauses
        if one.until_us - one.lasted_us - LATE_US <= at <= one.until_us + LATE_US
    ]
    return max(near, key=lambda one: one.lasted_us, default=None)


def stand(cluster: Cluster, token_ms: int, seconds: float) -> Stand:
    """Flood and count who is suspected meanwhile; it ends as soon as it cannot hold any more."""
    cluster.flood(SIZE)
    began, before = now_us(), cluster.delivered()

    def so_far() -> Stand:
        spent = (now_us() - began) / 1e6
        rate = (cluster.delivered() - before) / max(spent, 1e-3)
        excused, told = suspected(cluster, token_ms, began)
        return Stand(round(spent, 1), round(rate), len(told) - excused, excused, told)

    while True:
        seen = so_far()
        if not seen.holds():
            time.sleep(2 * LATE_US / 1e6)  # who was late itself may tell so after the others
            seen = so_far()
        if not seen.holds() or seen.seconds >= seconds:
            return seen
        time.sleep(min(LOOK_EVERY_S, max(0.1, seconds - seen.seconds)))


def suspected(cluster: Cluster, token_ms: int, began: int) -> tuple[int, list[str]]:
    """Return how many suspicions since then are excused, and what is told of all of them."""
    told: list[str] = []
    excused = 0
    if isinstance(cluster, Evensong):
        for one in suspicions(cluster.breaks(began), began):
            excused += one.lag_us > token_ms * MS // 3
            told.append(f"after {one.at_s} s: {'; '.join(one.told)}")
    else:
        views = {node: cluster.views(node) for node in range(1, NODES + 1)}
        pauses = cluster.pauses(began)
        for at in shrinkages(views, began):
            cause = excuse(at, pauses)
            excused += cause is not None
            why = f"; n{cause.node} not let run for {cause.lasted_us // MS} ms" if cause else ""
            told.append(f"after {(at - began) / 1e6:.3f} s: a view that lost somebody{why}")
    return excused, told


class Seen(NamedTuple):
    """What was seen of one candidate."""

    candidate: Candidate
    flood: Stand
    crashes: list[Crash]
    disturbed: int  # kills into a ring that was broken already, not counted
    long: Stand | None = None  # of a winner, or of one that would have been
    failed: str = ""  # what could not be measured: then it is out

    def took_ms(self) -> Spread | None:
        took = [one.last_us for one in self.crashes]
        return Spread.of(took, MS) if took else None

    def may_win(self) -> bool:
        return bool(self.crashes) and self.flood.holds() and not self.failed

    def told(self) -> dict[str, object]:
        """Return it as plain data, which `document.candidates` reads."""
        took, long = self.took_ms(), self.long
        return {
            "name": self.candidate.name,
            "system": self.candidate.system,
            "settings": self.candidate.said(),
            "flood": self.flood._asdict(),
            "took_ms": took._asdict() if took else None,
            "kills_us": [one.last_us for one in self.crashes],
            "disturbed": self.disturbed,
            "stands": self.may_win(),
            "failed": self.failed,
            "long": long._asdict() if long else None,
            "wins": long is not None and long.holds(),
        }


def ranked(seen: Sequence[Seen], system: str) -> list[Seen]:
    """Return those of a system that may win, the fastest first."""
    may = [one for one in seen if one.candidate.system == system and one.may_win()]
    return sorted(may, key=lambda one: statistics.median(crash.last_us for crash in one.crashes))


class Choice(NamedTuple):
    """Everything that a run has shown."""

    transport: str
    is_realtime: bool
    seen: list[Seen]
    noise: dict[str, float]
    wake_late_us: Spread

    def winner(self, system: str) -> Seen | None:
        stood = [one for one in ranked(self.seen, system) if one.long and one.long.holds()]
        return next(iter(stood), None)

    def median_ms(self, system: str) -> float | None:
        won = self.winner(system)
        took = won.took_ms() if won else None
        return took.p50 if took else None

    def ratio(self) -> float | None:
        ours, theirs = self.median_ms(OURS), self.median_ms(THEIRS)
        return ours / theirs if ours and theirs else None

    def bars(self) -> dict[str, bool]:
        ratio = self.ratio()
        return {
            f"{OURS}: a candidate stands both floods": self.winner(OURS) is not None,
            f"{THEIRS}: a candidate stands both floods": self.winner(THEIRS) is not None,
            f"medians of the winners <= {RATIO_MAX}": ratio is not None and ratio <= RATIO_MAX,
        }

    def told(self) -> dict[str, object]:
        """Return it as plain data."""
        ratio = self.ratio()
        return {
            "transport": self.transport,
            "realtime": self.is_realtime,
            "candidates": [one.told() for one in self.seen],
            "ratio": None if ratio is None else round(ratio, 4),
            "noise": self.noise,
            "wake_late_us": self.wake_late_us._asdict(),
            "bars": self.bars(),
        }

    def as_json(self) -> str:
        return json.dumps(self.told())

    def machine(self) -> str:
        """Say how busy the machine was with other things."""
        late, noise = self.wake_late_us, self.noise
        return (
            f"{noise['cores']:.0f} cores, of which other things took {noise['others_cores']} "
            f"and the host of a virtual machine {noise['stolen_cores']}; a sleep of 1 ms "
            f"ended {late.p50:.0f} us late, one in a hundred {late.p99:.0f}."
        )

    def table(self) -> str:
        happened = [f"{one.candidate.name}: {line}" for one in self.seen for line in _happened(one)]
        lines = [document.candidates(self.told()), "", *happened, self.machine()]
        lines += [f"{'holds ' if holds else 'MISSED'}  {bar}" for bar, holds in self.bars().items()]
        return "\n".join(lines)


def _happened(seen: Seen) -> list[str]:
    """Say everything that went wrong with a candidate."""
    long = [f"long flood, {one}" for one in (seen.long.told if seen.long else [])]
    return [*seen.flood.told, *long, *([seen.failed] if seen.failed else [])]


class Lasts(NamedTuple):
    """How much of everything."""

    kills: int = 20  # of each candidate
    flood_s: float = 120
    long_s: float = 600


def measure(
    lasts: Lasts,
    transport: str,
    *,
    is_realtime: bool,
    candidates: Sequence[Candidate] = CANDIDATES,
) -> Choice:
    """Let every candidate flood, kill, and let the winners flood for long."""
    with tempfile.TemporaryDirectory(prefix="evensong-bench-") as made, Network(NODES) as network:
        directory = Path(made)
        client = compile_client(directory)
        homes = count(1)
        noise = Noise()

        def make(one: Candidate) -> Cluster:
            home = directory / f"{one.system}-{next(homes)}"
            return one.make(network, home, client, transport, is_realtime=is_realtime)

        seen = [_flood(one, make, lasts.flood_s) for one in candidates]
        rng = random.Random(1)
        for first in range(0, lasts.kills, KILLS_A_TURN):
            for number, one in enumerate(seen):
                name = one.candidate.name
                progress(f"{name}: kill {first + 1} and on, of {lasts.kills}")
                kills = min(KILLS_A_TURN, lasts.kills - first)
                seen[number] = one if one.failed else _kill(one, make, kills, first, rng)
        for system in (OURS, THEIRS):
            _crown(seen, system, make, lasts.long_s)
        late = Spread.of(wake_lateness_us(), 1)
        return Choice(transport, is_realtime, seen, noise.so_far(), late)


def _flood(one: Candidate, make: Callable[[Candidate], Cluster], seconds: float) -> Seen:
    progress(f"{one.name}: {SIZE} B flood for {seconds:.0f} s")
    try:
        with make(one) as cluster:
            return Seen(one, stand(cluster, one.token_ms, seconds), [], 0)
    except LOST as error:  # such settings may be too short for a ring to come up at all
        return Seen(one, Stand(seconds, 0, 0, 0, []), [], 0, failed=_why(error))


def _kill(
    one: Seen,
    make: Callable[[Candidate], Cluster],
    kills: int,
    first: int,
    rng: random.Random,
) -> Seen:
    try:
        with make(one.candidate) as cluster:
            turn = take_turn(cluster, kills, first, rng)
    except LOST as error:
        return one._replace(failed=_why(error))
    return one._replace(
        crashes=one.crashes + turn.crashes, disturbed=one.disturbed + turn.disturbed
    )


def _why(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _crown(
    seen: list[Seen], system: str, make: Callable[[Candidate], Cluster], seconds: float
) -> None:
    """Let the fastest flood for long, then the next, until one has stood it."""
    for one in ranked(seen, system):
        progress(f"{one.candidate.name}: flood for {seconds:.0f} s, to win")
        place = seen.index(one)
        try:
            with make(one.candidate) as cluster:
                long = stand(cluster, one.candidate.token_ms, seconds)
        except LOST as error:
            seen[place] = one._replace(failed=_why(error))
            continue
        seen[place] = one._replace(long=long)
        if long.holds():
            return
