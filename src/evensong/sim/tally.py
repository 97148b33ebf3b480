"""What a campaign came to: counts over its runs, and every failure with the command to repeat it.

A run whose process died proves nothing: it is lost, neither kept nor broken. The order in which
runs end does not matter: any number of jobs gives the same tally.
"""

from collections import Counter
from typing import Final, NamedTuple, final

from evensong.sim import coverage, evs, rules
from evensong.sim.campaign import Done, Task
from evensong.sim.coverage import Pair
from evensong.sim.groups.run import HAPPENINGS, PROMISES, UNORDERED_HAPPENINGS
from evensong.sim.run import Outcome
from evensong.sim.setup import TOTEM

INVARIANTS: Final = rules.RING.invariants
STATUSES: Final = tuple(status.value for status in evs.Status)


def judged(*, clients: bool, engine: str = TOTEM) -> tuple[str, ...]:
    """Return the properties that the end of a run has a verdict on."""
    return (*rules.BY_ENGINE[engine].properties, *(PROMISES if clients else ()))


def statuses_of(outcome: Outcome, *, clients: bool, engine: str = TOTEM) -> dict[str, evs.Status]:
    """Return how every invariant and every property fared in a run."""
    broken = outcome.broken()
    # A run that was cut short was not watched to its end: what did not break is left open.
    unbroken = evs.Status.PASS if outcome.statuses else evs.Status.INCONCLUSIVE
    invariants = rules.BY_ENGINE[engine].invariants
    found = {
        name: evs.Status.FAIL if name in broken else outcome.statuses.get(name, unbroken)
        for name in invariants
    }
    for name in judged(clients=clients, engine=engine):
        # A run ends at the first broken promise: then it alone has a verdict.
        unknown = evs.Status.FAIL if name in broken else evs.Status.INCONCLUSIVE
        found[name] = outcome.statuses.get(name, unknown)
    return found


class Failure(NamedTuple):
    """One broken promise of a run."""

    task: Task
    property_id: str
    text: str


@final
class Tally:
    """Adds runs up."""

    def __init__(self, *, clients: bool = False, engine: str = TOTEM) -> None:
        self.clients: Final = clients
        self.engine: Final = engine
        self.rules: Final = rules.BY_ENGINE[engine]
        self.runs = 0
        self.deliveries = 0
        self.configurations = 0
        self.datagrams = 0
        self.runs_with_fault_in_change = 0
        self.faults: Final[Counter[str]] = Counter()  # runs in which a kind struck
        self.fault_events: Final[Counter[str]] = Counter()
        self.pairs: Final[Counter[Pair]] = Counter()  # runs that reached a pair
        self.properties: Final[dict[str, Counter[str]]] = {
            name: Counter()
            for name in (*self.rules.invariants, *judged(clients=clients, engine=engine))
        }
        self.happened: Final[Counter[str]] = Counter()  # runs in which something came about
        self.digests: Final[dict[int, str]] = {}  # by seed
        self._failures: Final[list[Failure]] = []
        self._lost: Final[list[Done]] = []

    def add(self, done: Done) -> None:
        """Count a run."""
        if done.outcome is None:
            self._lost.append(done)
            return
        self.runs += 1
        outcome = done.outcome
        self.deliveries += outcome.deliveries
        self.configurations += outcome.configurations
        self.datagrams += outcome.datagrams
        self.runs_with_fault_in_change += outcome.faults_in_change > 0
        self.faults.update(outcome.faults.keys())
        self.fault_events.update(outcome.faults)
        self.pairs.update(outcome.pairs)
        self.happened.update(outcome.happened.keys())
        self.digests[done.task.seed] = outcome.digest
        for violation in outcome.violations:
            self._failures.append(Failure(done.task, violation.property_id, violation.text))
        for name, status in self._statuses(outcome).items():
            self.properties[name][status.value] += 1

    def _statuses(self, outcome: Outcome) -> dict[str, evs.Status]:
        return statuses_of(outcome, clients=self.clients, engine=self.engine)

    def failures(self) -> list[Failure]:
        """Return every broken promise, by seed; those of one run in the order of their finding."""
        return sorted(self._failures, key=lambda failure: failure.task.seed)

    def lost(self) -> list[Done]:
        """Return the runs that came to nothing, by seed."""
        return sorted(self._lost, key=lambda done: done.task.seed)

    def failed_runs(self) -> int:
        """Return how many runs broke a promise."""
        return len({failure.task for failure in self._failures})

    def pairs_unreached(self) -> list[Pair]:
        """Return the pairs of state and event that can happen and did not."""
        return self.rules.table.unreached(self.pairs)

    def to_plain(self) -> dict[str, object]:
        """Return the tally as plain data."""
        failures = self.failures()
        names = (*HAPPENINGS, *(one for one in UNORDERED_HAPPENINGS if self.happened[one]))
        happened = {name: self.happened[name] for name in names}
        return {
            "runs": self.runs,
            "violations": len(failures),
            "failures": [
                {
                    "seed": failure.task.seed,
                    "property": failure.property_id,
                    "text": failure.text,
                    "command": failure.task.command(),
                }
                for failure in failures
            ],
            "lost": [done.task.seed for done in self.lost()],
            "deliveries": self.deliveries,
            "configurations": self.configurations,
            "datagrams": self.datagrams,
            "faults": dict(sorted(self.faults.items())),
            "fault_events": dict(sorted(self.fault_events.items())),
            "runs_with_fault_in_change": self.runs_with_fault_in_change,
            # The same number by the name of the ring's states: it was told first.
            "runs_with_fault_in_commit_or_recovery": self.runs_with_fault_in_change,
            "pairs_reached": [coverage.say(pair) for pair in sorted(self.pairs)],
            "pairs_unreached": [coverage.say(pair) for pair in self.pairs_unreached()],
            "properties": {
                name: {status: counts[status] for status in STATUSES}
                for name, counts in self.properties.items()
            },
            **({"happened": happened} if self.clients else {}),
        }
