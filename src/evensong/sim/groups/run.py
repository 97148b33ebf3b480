"""One run with clients, from its setup to its outcome: what `sim/run.py` does, with groups above.

Packets are judged as units always are; besides, everything that clients are told is held against
the promises of groups while the run lasts, and at its end replicas must be equal.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from evensong.core.groups.events import MemberId
from evensong.core.groups.frame import BASIC, CAUSAL, SAFE, SELF_DISCARD
from evensong.core.groups.limits import Limits
from evensong.core.ids import ProcessorId
from evensong.sim import evs, run
from evensong.sim.groups import acts
from evensong.sim.groups.acts import Act, Clients
from evensong.sim.groups.crowd import Crowd, nodes_engine
from evensong.sim.groups.facts import broken
from evensong.sim.groups.process import MESSAGE, QUESTION, Process, Saying
from evensong.sim.groups.replica import Log, Moments, Replica
from evensong.sim.history import History, LifeId
from evensong.sim.limits import exchange_us, is_calmed
from evensong.sim.run import Counts, Outcome, Run
from evensong.sim.setup import CLIENTS, Setup, derive
from evensong.sim.world import Errand, World

# What docs/simulator.md says of each.
PROMISES: Final = (
    *(f"D{number}" for number in range(1, 8)),
    *(f"G{number}" for number in range(1, 9)),
    *(f"S{number}" for number in range(1, 4)),
)
# What a campaign should come across; the tally counts the runs that did.
HAPPENINGS: Final = (
    "joins",
    "leaves",
    "disconnects",
    "network views",
    "merges of views",
    "multi-group messages",
    "private messages",
    "fragments across changes",
    "held-back packets",
    "states restored",
    "merges of state",
    "donor deaths",
)

# And, where an engine does not order everything, besides.
UNORDERED_HAPPENINGS: Final = ("causal messages", "basic messages", "basic messages that waited")


def run_setup(setup: Setup) -> Outcome:
    """Run a setup, with clients if it has any, with every check."""
    return run_recorded(setup)[0]


def run_recorded(setup: Setup) -> tuple[Outcome, History]:
    """Run a setup, with clients if it has any, and return its history as well."""
    if setup.clients is None:
        return run.run_recorded(setup)
    started = time.perf_counter()
    company = Seats(setup, setup.clients)
    done = Run(setup, company.engine, company.crowd, company, company.crowd.below)
    statuses = done.judge()
    if not done.is_cut_short:
        statuses.update(company.statuses(done))
        done.counts.update(company.counts())
    seconds = time.perf_counter() - started
    outcome = done.outcome(statuses, seconds, company.crowd.facts.happened)
    return replace(outcome, digest=company.digest(outcome.digest)), done.history


class Seats:
    """Clients that do what a setup says, each from its seat at a processor."""

    def __init__(self, setup: Setup, clients: Clients) -> None:
        self._setup: Final = setup
        self._clients: Final = clients
        limits = Limits(payload_max=clients.payload_max)
        rng = derive(setup.options.seed, CLIENTS)
        self.crowd: Final = Crowd(limits, rng, clients.pause_us, setup.options)
        self._moments: Final = Moments(self.crowd.facts)
        self.engine: Final = nodes_engine(limits, setup.options)
        self._taken: Final[dict[tuple[ProcessorId, int], Process]] = {}  # who sits, or sat last

    # The company's calls

    def board(self, world: World) -> None:
        """Put what clients do on the agenda."""
        self.crowd.world = world
        for act in self._clients.acts:
            self._schedule(world, act)

    def _schedule(self, world: World, act: Act) -> None:
        world.schedule(act.at_us, Errand(lambda: self._perform(act)))

    def is_quiet(self) -> bool:
        """Whether nothing is under way any more."""
        return self.crowd.is_quiet()

    def submitted(self) -> dict[LifeId, int]:
        """Return how many packets every life handed to its ring."""
        return self.crowd.submitted()

    def describe(self) -> str:
        """Say what is still under way."""
        return self.crowd.describe()

    def finish(self, calm_at: int) -> None:
        """Judge what can be judged at the end only."""
        self.crowd.facts.check_together()
        self._check_unordered()
        self._check_exchanges(calm_at)
        if not is_calmed(self._setup):
            return
        self._check_states()
        self._check_receipts()

    def statuses(self, done: Run) -> Mapping[str, evs.Status]:
        """Return how each promise fared; only the first that breaks is known."""
        failed = {violation.property_id for violation in done.violations}
        relevant = self.crowd.facts.relevant
        return {
            name: evs.Status.FAIL
            if name in failed
            else evs.Status.PASS
            if name in relevant
            else evs.Status.VACUOUS
            for name in PROMISES
        }

    def counts(self) -> Mapping[str, Counts]:
        """Return how often each promise had something to say."""
        relevant = self.crowd.facts.relevant
        return {name: Counts(relevant.get(name, 0)) for name in PROMISES}

    def digest(self, digest: str) -> str:
        """Return a hash of a run: its own, and that of what clients were told."""
        facts = self.crowd.facts
        told = hashlib.blake2b(digest.encode(), digest_size=16)
        told.update(repr([facts.orders, facts.views, facts.happened, facts.relevant]).encode())
        for process in self.crowd.all():
            states = [one.state.digest() for one in self.replicas_of(process)]
            told.update(f"{process.member} {process.ordered} {states}\n".encode())
        return told.hexdigest()

    # What clients do

    def _perform(self, act: Act) -> None:
        processor = self.crowd.world.by_node[act.node]
        if processor.core is None or processor.paused:
            return
        seat = (act.node, act.seat)
        process = self._taken.get(seat)
        if process is None or not process.is_alive():
            process = self._sit_down(seat)
        if not process.is_alive():
            return
        now = processor.clock.local(self.crowd.world.now)
        if act.kind == acts.CLOSE:
            self.crowd.close(process)
        elif act.kind == acts.JOIN:
            for group in act.groups:
                process.join(group, now)
            self.crowd.tell(process)
        elif act.kind == acts.LEAVE:
            for group in act.groups:
                process.leave(group, now)
            self.crowd.tell(process)
        else:
            self._send(process, act)

    def _make_replica(self, group: str, member: MemberId) -> Replica | None:
        if not acts.has_state(group):
            return None
        return Replica(
            group,
            member,
            Log(),
            self.crowd.facts,
            self._moments,
            primary_wins=self._clients.primary_wins,
            chunk_bytes=self._clients.chunk_bytes,
        )

    def _sit_down(self, seat: tuple[ProcessorId, int]) -> Process:
        node, number = seat
        processor = self.crowd.world.by_node[node]
        process = self._taken[seat] = self.crowd.open(processor, f"c{number}", self._make_replica)
        if number == 0:
            process.answers_to = acts.own_group(node)
        process.join(acts.own_group(number), processor.clock.local(self.crowd.world.now))
        self.crowd.tell(process)
        return process

    def _send(self, process: Process, act: Act) -> None:
        names = [self._resolve(name) for name in act.groups]
        groups = tuple(name for name in names if name)
        if not groups or process.is_crowded():
            return
        if any(name.startswith("#") for name in groups):
            self.crowd.facts.note("private messages")
        flags = SAFE if act.safe else CAUSAL if act.causal else BASIC if act.basic else 0
        if act.discard and not any(acts.has_state(name) for name in groups):
            flags |= SELF_DISCARD
        mark = QUESTION if act.kind == acts.ASK else MESSAGE
        first = process.sent + 1
        bodies = [
            (mark + b"%d.%d.%d" % (process.session, process.member.incarnation, number)).ljust(
                act.size, b"."
            )
            for number in range(first, first + act.count)
        ]
        self.crowd.say(process, Saying(groups, tuple(bodies), flags))

    def _resolve(self, name: str) -> str:
        """Return the name of a group, or the private name that is meant; nothing if none is."""
        if not name.startswith(acts.PRIVATE):
            return name
        node, _, seat = name.removeprefix(acts.PRIVATE).partition(".")
        process = self._taken.get((int(node), int(seat)))
        return str(process.member) if process is not None else ""

    # What is true at the end

    def _check_exchanges(self, calm_at: int) -> None:
        """D7: what is held back goes on within a bound, if nothing else happens.

        A machine that was slow and down at the calm is slow still; it is excused, and who waits
        for it.
        """
        if any(processor.cost_us for processor in self.crowd.world.live()):
            return
        options = self._setup.options
        bound = exchange_us(options)
        bound += bound * 2 * max(options.drift_ppm_max, 50_000) // 1_000_000
        for (life, conf_id), (began, ended) in self.crowd.exchanges.items():
            if began > calm_at:
                self.crowd.facts.count("D7")
                if ended - began > bound:
                    text = f"{life} exchanged directories in {conf_id} for {ended - began} us"
                    broken("D7", f"{text}, more than {bound}")

    def _check_unordered(self) -> None:
        """G3, of what has no place: whom its sender saw in its group has got it.

        Asked of those whose daemon is still in the configuration in which it was sent, and who have
        been in the group ever since.
        """
        facts = self.crowd.facts
        for process in self.crowd.all():
            conf_id = process.node.groups.configuration.conf_id
            stream = self.crowd.watchers[process.processor.node].stream(process.session)
            for message, group in facts.due.get(process.member, ()):
                since = stream.since.get(group)
                if facts.sent_in.get(message) != conf_id or since is None:
                    continue
                if since > facts.seen[message, group]:
                    continue  # it has left, and come back
                if message[:3] == process.member[:3] and facts.flags[message] & SELF_DISCARD:
                    continue
                facts.count("G3")
                if message not in stream.got:
                    broken("G3", f"{process.member} is in {group} and never got {message}")

    def _check_states(self) -> None:
        """S2: every replica that is in the final view has the same state, and knows it."""
        together: dict[tuple[object, str], list[Replica]] = {}
        for process in self.crowd.all():
            conf_id = process.node.groups.configuration.conf_id
            for replica in self.replicas_of(process):
                together.setdefault((conf_id, replica.group), []).append(replica)
        for (_, group), replicas in together.items():
            for replica in replicas:
                if not replica.transfer.is_live():
                    broken("S2", f"{replica.key} waits for the state of group {group} for ever")
            kin = {frozenset(replica.transfer.kin) for replica in replicas}
            if len(kin) > 1:
                broken("S2", f"replicas of group {group} do not agree on who has their state")
            for other in replicas[1:]:
                self.crowd.facts.count("S2")
                if other.state.snapshot() != replicas[0].state.snapshot():
                    text = f"{replicas[0].key} and {other.key} of group {group} end up different"
                    broken("S2", text)

    def _check_receipts(self) -> None:
        """S3: what a process has sent that is still there has its place in the order."""
        for process in self.crowd.all():
            if any(error.request_id for error in process.errors):
                continue
            if process.sent:
                self.crowd.facts.count("S3")
            if process.ordered != process.sent:
                text = f"{process.member} sent {process.sent} messages"
                broken("S3", f"{text} and has receipts for {process.ordered}")

    def replicas_of(self, process: Process) -> list[Replica]:
        """Return the states that a process keeps."""
        return [one for one in process.replicas.values() if isinstance(one, Replica)]
