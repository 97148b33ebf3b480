"""What `sim` and `campaign` have in common: seeds as arguments, and how runs are told."""

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from evensong.sim import coverage
from evensong.sim.campaign import Done, Task
from evensong.sim.groups.run import HAPPENINGS, UNORDERED_HAPPENINGS
from evensong.sim.setup import TOTEM, Setup
from evensong.sim.tally import Failure, Tally

SHOWN_MAX: Final = 10  # failing runs told one by one
SHRINK_RUNS_MAX: Final = 1_000
SHRINK_MAX: Final = 3  # failing runs that are shrunk, each for a property of its own
SEEDS_END: Final = 2**63
UNREACHED_SHOWN_FROM: Final = 1_000  # runs; fewer say little by what they do not reach


# Arguments


def seed(text: str) -> int:
    """Read a seed."""
    return _whole(text, 0, SEEDS_END)


def seeds(text: str) -> range:
    """Read A:B, the seeds from A up to B without B."""
    first, colon, end = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r}: expected A:B, such as 0:100")
    named = range(_whole(first, 0, SEEDS_END), _whole(end, 0, SEEDS_END))
    if not named:
        raise argparse.ArgumentTypeError(f"{text!r}: there is no seed from {first} up to {end}")
    return named


def within(lowest: int, highest: int) -> Callable[[str], int]:
    """Return what reads a whole number within limits."""
    return lambda text: _whole(text, lowest, highest)


def _whole(text: str, lowest: int, highest: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not lowest <= value <= highest:
        raise argparse.ArgumentTypeError(f"{value} is not within {lowest} to {highest}")
    return value


# Results


def print_summary(tally: Tally, seeds_text: str, seconds: float) -> None:
    """Say what runs came to."""
    failed = tally.failed_runs()
    verdict = f"{failed} BROKE A PROMISE" if failed else "every promise kept"
    if not tally.runs:
        verdict = "nothing is known"
    if tally.lost():
        verdict += f"; {count(len(tally.lost()), 'further run')} LOST"
    print(f"{count(tally.runs, 'run')} ({seeds_text}) in {seconds:.1f} s: {verdict}")
    if not tally.runs:
        return
    print(
        f"  delivered       {tally.deliveries:,} messages and {tally.configurations:,} "
        f"configurations, by {tally.datagrams:,} datagrams"
    )
    struck = ", ".join(f"{kind} {n}" for kind, n in sorted(tally.faults.items()) if kind != "calm")
    print(folded("  faults, in runs ", struck or "none"))
    forming = "a ring formed" if tally.engine == TOTEM else "a view was agreed on"
    print(f"                  while {forming}, in {tally.runs_with_fault_in_change}")
    unreached = tally.pairs_unreached()
    pairs = len(tally.rules.table.reachable)
    reached = pairs - len(unreached)
    print(f"  state x event   {reached} of {pairs} pairs that can happen")
    if unreached and tally.runs >= UNREACHED_SHOWN_FROM:
        print(unreached_text(unreached))
    if tally.clients:
        names = (*HAPPENINGS, *(one for one in UNORDERED_HAPPENINGS if tally.happened[one]))
        came = ", ".join(f"{what} {tally.happened[what]}" for what in names)
        print(folded("  clients, in runs ", came))
    held = [name for name, counts in tally.properties.items() if not counts["fail"]]
    idle = [name for name in held if not tally.properties[name]["pass"]]
    print(f"  properties      {len(held) - len(idle)} of {len(tally.properties)} hold")
    if idle:
        print(folded("                  nothing was about: ", ", ".join(idle)))


def unreached_text(pairs: Sequence[coverage.Pair]) -> str:
    """Name the pairs of state and event that no run reached."""
    return folded("                  never: ", ", ".join(map(coverage.say, pairs)))


def count(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def folded(head: str, text: str, width: int = 100) -> str:
    """Fold a list at its commas, under its head."""
    lines = [head]
    for word in text.split(", "):
        if len(lines[-1]) + len(word) + 2 > width:
            lines.append(" " * len(head))
        lines[-1] += word + ", "
    return "\n".join(line.rstrip() for line in lines).removesuffix(",")


def print_failures(failures: list[Failure]) -> None:
    """Tell what broke, run by run, and how to repeat it."""
    by_task: dict[Task, list[Failure]] = {}
    for failure in failures:
        by_task.setdefault(failure.task, []).append(failure)
    for task, broken in list(by_task.items())[:SHOWN_MAX]:
        print()
        print(f"seed {task.seed}" if not task.plan else task.plan)
        for failure in broken:
            print(f"  {failure.property_id}: {failure.text.rstrip()}")
        print(f"reproduce: {task.command()}")
    if len(by_task) > SHOWN_MAX:
        print(f"\nand {len(by_task) - SHOWN_MAX} more; --json lists all")


def print_lost(lost: list[Done]) -> None:
    """Tell which runs came to nothing, and why."""
    for task, _, why in lost[:SHOWN_MAX]:
        print(f"\nlost: {task.plan or f'seed {task.seed}'}: {why}\nrepeat: {task.command()}")
    if len(lost) > SHOWN_MAX:
        print(f"\nand {len(lost) - SHOWN_MAX} more; --json lists all")


# Shrinking


def to_shrink(failures: list[Failure], most: int = SHRINK_MAX) -> list[Failure]:
    """Return the first failure of each run and each property, a few of them."""
    tasks: set[Task] = set()
    properties: set[str] = set()
    chosen = []
    for failure in failures:
        if failure.task not in tasks and failure.property_id not in properties:
            chosen.append(failure)
        tasks.add(failure.task)
        properties.add(failure.property_id)
    return chosen[:most]


def size_of(setup: Setup) -> str:
    """Say how large a setup is."""
    said = count(sum(burst.units for burst in setup.workload), "message")
    if setup.clients is not None:
        said = count(len(setup.clients.acts), "act") + " of clients"
    processors = count(len(setup.options.nodes), "processor")
    return ", ".join((processors, count(len(setup.plan), "fault"), said))
