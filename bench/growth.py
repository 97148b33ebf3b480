"""How a ring grows: rotation, ordered packets, fail-over and CPU against the number of daemons.

Two ways. Daemons on this machine, on loopback, share its cores: they flood by themselves, are
nearly idle for a while, and one is killed several times. And simulated processors, each with a core
of its own, on virtual time, with what sending, receiving and a visit of the token cost the real
ring of three. Beside both stands what calculation says (`bench/growing/models.py`).

    python -m bench.growth [--nodes 2 3 5 8] [--turns 3] [--json] [--write docs/performance.md]

Needs no root. Sizes take turns, and a figure is the median of its turns. A size is sensible as long
as no ring of all ended in the flood, the slowest rotation but one in a hundred is at most a quarter
of `token_loss` (the margin of `evensong config tune`), and it orders at least a quarter of what the
best size does.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.growing.models import CALIBRATED, Costs, Modelled, one_machine, own_machines
from bench.growing.real import Grown, Lasts, grow
from bench.growing.simulated import Simulated, simulate
from bench.local import CORES
from bench.peers import document, pictures
from bench.peers.figures import Noise
from bench.peers.network import CannotMeasure
from evensong.cli.up import interruptible
from evensong.core.totem.parameters import LAN
from evensong.errors import EvensongError

NODES = (2, 3, 5, 8, 12, 16, 24, 32)
SIMULATED = (2, 3, 5, 8, 12, 16, 24, 32, 48, 64)
ROTATIONS = 20
NAME = "bench-growth"
MARGIN = 4  # of a rotation in `token_loss`
SHARE_LEAST = 0.25  # of the best size's rate
USUAL = Costs.of(CALIBRATED, 10.0, 400.0)  # where no ring of three was measured
LOST = (CannotMeasure, EvensongError, OSError)


class Growth(NamedTuple):
    """Everything that a run has shown."""

    real: dict[int, list[Grown]]  # turns, by size
    failed: dict[int, str]  # why a size could not be measured
    costs: Costs
    simulated: dict[int, Simulated]
    noise: dict[str, float]

    def middle(self, nodes: int, name: str) -> float:
        """Return the median of a figure of the turns, or of all kills."""
        found = [getattr(turn, name) for turn in self.real[nodes]]
        values = [one for turn in found for one in (turn if isinstance(turn, list) else [turn])]
        return statistics.median(values) if values else 0.0

    def why_not(self, nodes: int) -> str:
        """Say why so many daemons are too many on this machine; empty if they are not."""
        if nodes in self.failed:
            return self.failed[nodes]
        best = max(self.middle(one, "packets_per_s") for one in self.real)
        token_loss = LAN.token_loss
        turns = self.real[nodes]
        ended = sum(turn.suspected + turn.excused for turn in turns)
        if ended:
            return f"{ended} rings ended in the flood"
        if MARGIN * self.middle(nodes, "rotation_p99_us") > token_loss:
            return f"a rotation in a hundred takes more than 1/{MARGIN} of token_loss"
        if self.middle(nodes, "packets_per_s") < SHARE_LEAST * best:
            return f"orders less than {SHARE_LEAST:g} of what the best size does"
        return ""

    def why_not_simulated(self, nodes: int) -> str:
        """Say why so many processors are too many if each has its own machine."""
        one = self.simulated[nodes]
        best = max(each.packets_per_s for each in self.simulated.values())
        if one.changes:
            return f"{one.changes} configurations were installed in the flood"
        if MARGIN * one.rotation_us > LAN.token_loss:
            return f"a rotation takes more than 1/{MARGIN} of token_loss"
        if one.packets_per_s < SHARE_LEAST * best:
            return f"orders less than {SHARE_LEAST:g} of what the best size does"
        return ""

    def stops(self, verdicts: Mapping[int, str]) -> str:
        """Say up to what size it is sensible, and why not beyond."""
        last = 0
        for nodes, why in sorted(verdicts.items()):
            if why:
                return f"sensible up to {last}; not {nodes}: {why}" if last else f"{nodes}: {why}"
            last = nodes
        return f"sensible up to {last}, the largest that was tried"

    def verdict_real(self) -> str:
        sizes = sorted({*self.real, *self.failed})
        return self.stops({nodes: self.why_not(nodes) for nodes in sizes})

    def verdict_simulated(self) -> str:
        return self.stops({nodes: self.why_not_simulated(nodes) for nodes in self.simulated})

    def modelled(self, nodes: int) -> Modelled:
        return one_machine(nodes, self.costs, CORES)

    def as_json(self) -> str:
        told = {
            "cores": CORES,
            "costs_us": self.costs._asdict(),
            "real": {
                nodes: {
                    "turns": [turn._asdict() for turn in turns],
                    "model": self.modelled(nodes)._asdict(),
                    "too_many": self.why_not(nodes),
                }
                for nodes, turns in self.real.items()
            },
            "failed": self.failed,
            "simulated": {
                nodes: {
                    **one._asdict(),
                    "model": own_machines(nodes, self.costs)._asdict(),
                    "too_many": self.why_not_simulated(nodes),
                }
                for nodes, one in self.simulated.items()
            },
            "sensible": {
                "one machine": self.verdict_real() if self.real else "",
                "own machines": self.verdict_simulated() if self.simulated else "",
            },
            "noise": self.noise,
        }
        return json.dumps(told)

    def table(self) -> str:
        """Return both tables of Markdown, and what follows from them."""
        paragraphs: list[str] = []
        if self.real:
            paragraphs += [self._real_table(), f"On one machine: {self.verdict_real()}."]
        if self.simulated:
            costs = self.costs
            paragraphs += [
                f"Simulated, a core for each; a copy sent costs {costs.send:.2f} us, a packet "
                f"received {costs.receive:.2f}, a visit {costs.visit:.0f}, a hop {costs.hop:.0f}:",
                self._simulated_table(),
                f"On machines of their own: {self.verdict_simulated()}.",
            ]
        noise = self.noise
        paragraphs.append(
            f"{noise['cores']:.0f} cores; other things took {noise['others_cores']} meanwhile."
        )
        return "\n\n".join(paragraphs)

    def _real_table(self) -> str:
        rows = []
        for nodes, turns in sorted(self.real.items()):
            model = self.modelled(nodes)
            kills = [one for turn in turns for one in turn.failover_ms]
            rows.append(
                [
                    str(nodes),
                    document.spread([turn.packets_per_s for turn in turns]),
                    f"{model.packets_per_s:,.0f}",
                    document.spread([turn.rotation_us for turn in turns]),
                    f"{model.rotation_us:,.0f}",
                    document.spread([turn.idle_rotation_us for turn in turns]),
                    document.spread([turn.cpu_us for turn in turns], 1),
                    f"{model.cpu_us:.1f}",
                    document.spread(kills),
                    f"{model.failover_ms:,.0f}",
                    document.spread([one for turn in turns for one in turn.recovery_ms], 1),
                    f"{sum(turn.suspected for turn in turns)}, "
                    f"{sum(turn.excused for turn in turns)}",
                ]
            )
        headings = ["daemons", "packets/s", "model", "rotation, us", "model", "nearly idle, us"]
        headings += ["CPU a packet, us", "model", "fail-over, ms", "model", "after noticing, ms"]
        return document.table([*headings, "suspicions, excused"], rows)

    def _simulated_table(self) -> str:
        rows = []
        for nodes, one in sorted(self.simulated.items()):
            model = own_machines(nodes, self.costs)
            rows.append(
                [
                    str(nodes),
                    f"{one.packets_per_s:,.0f}",
                    f"{model.packets_per_s:,.0f}",
                    f"{one.rotation_us:,.0f}",
                    f"{model.rotation_us:,.0f}",
                    document.spread(one.failover_ms, 1),
                    f"{model.failover_ms:,.1f}",
                ]
            )
        headings = ["processors", "packets/s", "model", "rotation, us", "model"]
        return document.table([*headings, "fail-over, ms", "model"], rows)

    def drawn(self) -> str:
        """Return the plots."""
        plots = []
        for heading, real, model in (
            ("packets a second", "packets_per_s", "packets_per_s"),
            ("rotation in a flood, us", "rotation_us", "rotation_us"),
            ("fail-over, ms", "failover_ms", "failover_ms"),
        ):
            sizes, many = sorted(self.real), sorted(self.simulated)
            measured = [(nodes, self.middle(nodes, real)) for nodes in sizes]
            simulated = [(nodes, _value(self.simulated[nodes], real)) for nodes in many]
            box = [(nodes, float(getattr(self.modelled(nodes), model))) for nodes in sizes]
            apart = [
                (nodes, float(getattr(own_machines(nodes, self.costs), model))) for nodes in many
            ]
            curves = [
                pictures.Curve("one machine", measured),
                pictures.Curve("its model", box, is_model=True),
                pictures.Curve("simulated", simulated),
                pictures.Curve("its model", apart, is_model=True),
            ]
            plots.append((heading, curves))
        return str(pictures.panels("Against the number of processors", plots))


def _value(one: Simulated, name: str) -> float:
    found = getattr(one, name)
    return statistics.median(found) if isinstance(found, list) and found else float(found or 0)


class Wanted(NamedTuple):
    """What is to be measured."""

    nodes: Sequence[int] = NODES
    simulated: Sequence[int] = SIMULATED
    turns: int = 3
    lasts: Lasts = Lasts()
    rotations: int = ROTATIONS


def measure(wanted: Wanted) -> Growth:
    """Let all sizes take turns, then simulate."""
    noise = Noise()
    real: dict[int, list[Grown]] = {}
    failed: dict[int, str] = {}
    for turn in range(wanted.turns):
        for nodes in wanted.nodes:
            if nodes not in failed:
                progress(f"{nodes} daemons: turn {turn + 1} of {wanted.turns}")
                try:
                    real.setdefault(nodes, []).append(grow(nodes, wanted.lasts))
                except LOST as error:
                    failed[nodes] = (str(error).strip() or type(error).__name__).splitlines()[0]
                    progress(f"{nodes} daemons: {failed[nodes]}")
    real = {nodes: turns for nodes, turns in real.items() if turns and nodes not in failed}
    costs = calibrated(real.get(CALIBRATED, []))
    simulated: dict[int, Simulated] = {}
    for nodes in wanted.simulated:
        progress(f"{nodes} simulated processors")
        simulated[nodes] = simulate(nodes, costs, wanted.lasts.kills, wanted.rotations)
    return Growth(real, failed, costs, simulated, noise.so_far())


def calibrated(turns: Sequence[Grown]) -> Costs:
    """Return what things cost the ring of three, by the medians of its turns."""
    if not turns:
        return USUAL
    cpu = statistics.median(turn.cpu_us for turn in turns)
    return Costs.of(CALIBRATED, cpu, statistics.median(turn.idle_rotation_us for turn in turns))


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write(told: Growth, path: Path) -> None:
    """Put tables and plots into a document, in place of those of the run before."""
    plot = path.with_name(f"{NAME}.svg")
    plot.write_text(told.drawn() + "\n")
    part = f"{told.table()}\n\n![Against the number of processors]({plot.name})"
    path.write_text(document.replaced(path.read_text(), NAME, part))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure how a ring grows.",
        epilog="example: python -m bench.growth --nodes 2 3 5 --simulated 2 3 5 64 --json",
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES, help="daemons, up to 32")
    parser.add_argument("--simulated", type=int, nargs="*", default=SIMULATED, help="processors")
    parser.add_argument("--turns", type=int, default=3, help="of each size (default: 3)")
    parser.add_argument("--seconds", type=float, default=3, help="of each flood (default: 3)")
    parser.add_argument("--kills", type=int, default=3, help="of each turn (default: 3)")
    parser.add_argument("--rotations", type=int, default=ROTATIONS, help="simulated (default: 20)")
    parser.add_argument("--write", type=Path, help="a document with marks; plots go beside it")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    lasts = Lasts(args.seconds, args.kills, min(1.0, args.seconds))
    wanted = Wanted(args.nodes, args.simulated, args.turns, lasts, args.rotations)
    try:
        with interruptible():
            told = measure(wanted)
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
