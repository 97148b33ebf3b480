"""The text language of scenarios: a schedule of sends and faults, then the story it must give.

    # A ring that loses its token in flight resends it; no new ring is formed.
    ring p q r
    drop token p->q
    send p "credo" safe
    run until quiet
    ----
    p  resends token 1 to q ...

One command a line, `#` begins a comment. A link takes 100 us and nothing is left to chance, so a
scenario always gives the same story. The commands are the methods of `Play`. Every scenario is
judged like any other run: invariants at every step, what its engine promises at the end.
"""

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple, final

from evensong.core.effects import Service
from evensong.core.ids import ProcessorId
from evensong.errors import BadParameters, BadScenario, InvariantBroken
from evensong.sim import inject
from evensong.sim.admit import FRAMES, STATES
from evensong.sim.check import machine_of
from evensong.sim.engines import engine_of
from evensong.sim.evs import Violation
from evensong.sim.faults import (
    EVERYBODY,
    Clog,
    Crash,
    CrashIn,
    Cut,
    Drift,
    Fault,
    Heal,
    Leave,
    Lossy,
    Partition,
    Pause,
    Restart,
    Resume,
    Slow,
    Unclog,
)
from evensong.sim.history import History
from evensong.sim.machine import Processor
from evensong.sim.network import DELAY, DROP, HOLD, TWICE, Rule
from evensong.sim.rules import rules_of
from evensong.sim.setup import ENGINES, LANSIS, PARAMETERS, TOTEM, TRANSIS, Options, Setup
from evensong.sim.story import Audience, Story
from evensong.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

SEPARATOR: Final = "----"
LIMIT_US: Final = 5_000_000  # of a `run until` that does not come to an end
STEP_US: Final = 100
MOMENT_US: Final = 10  # shorter than any way through the network
ALWAYS: Final = 2**31
DIGITS_MAX: Final = 18
_OFTEN: Final = ("lives", "installs", "deliveries", "states")
# Of tokens; of messages; and what is said in a broadcast domain.
TOPICS: Final = (*_OFTEN, "resends", "repairs", "exchanges", "writes", "requests", "graph")
QUIET_TOPICS: Final = ("writes", "graph")  # told only when asked for
SERVICES: Final = {
    TOTEM: ("agreed", "safe"),
    TRANSIS: ("agreed", "safe", "causal", "basic"),
}
UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000}


def split(text: str) -> tuple[str, str]:
    """Separate a scenario from the story below its line of dashes."""
    script, dashes, golden = text.partition(f"\n{SEPARATOR}\n")
    return (script + "\n", golden) if dashes else (text, "")


class Performance(NamedTuple):
    """What a scenario came to."""

    story: str
    violations: tuple[Violation, ...]


def _is_number(text: str) -> bool:
    """Whether a word is a whole number, in the digits 0 to 9 and within 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def play(text: str) -> str:
    """Run a scenario and return its story."""
    return perform(text).story


def perform(text: str) -> Performance:
    """Run a scenario and judge it."""
    script, _ = split(text)
    performed = Play()
    try:
        performed.perform(script)
    except InvariantBroken as broken:
        violation = Violation(broken.invariant, broken.text)
        return Performance(performed.story(), (violation,))
    return Performance(performed.story(), performed.judge())


@final
class Play:
    """One scenario while it runs."""

    def __init__(self) -> None:
        self.engine = TOTEM
        self.parameters = PARAMETERS
        self.lansis = LANSIS
        self.node_by_name: Final[dict[str, ProcessorId]] = {}
        self.line_no = 0
        self.told: Final[list[str]] = []
        self.since: Final[list[str]] = []  # commands since the last `run`
        self.runs = 0
        self.history: Final = History()
        self._world: World | None = None
        self._story: Story | None = None
        self._commands: Final[dict[str, Callable[[list[str]], None]]] = {
            name.removeprefix("on_"): getattr(self, name)
            for name in vars(Play)
            if name.startswith("on_")
        }

    def perform(self, script: str) -> None:
        """Perform a script, line by line."""
        for self.line_no, line in enumerate(script.splitlines(), 1):
            try:
                words = shlex.split(line, comments=True)
            except ValueError as error:
                raise self._bad(str(error)) from None
            if not words:
                continue
            if words[0] not in self._commands:
                raise self._bad(f"unknown command {words[0]!r}")
            self.since.append(line.strip())
            self._commands[words[0]](words[1:])

    def story(self) -> str:
        """Return what was told; the commands are repeated where there are several runs."""
        lines = [line for line in self.told if self.runs > 1 or not line.startswith("#")]
        return "".join(f"{line}\n" for line in lines)

    def judge(self) -> tuple[Violation, ...]:
        """Say what went wrong; a run that is cut off owes nothing that it could still do."""
        world = self._world
        if world is None:
            return ()
        if world.is_quiet():
            world.quiesce()
        verdicts = rules_of(world.options).judge(self.history, world.handed_over())
        found = [Violation("halt", f"{node} halted: {why}") for node, why in world.halts]
        for verdict in verdicts.by_property.values():
            found.extend(verdict.samples)
        return tuple(found)

    # Before the run

    def on_engine(self, words: list[str]) -> None:
        """`engine transis`: what the processors run; a ring unless it is said."""
        (self.engine,) = self._exactly(words, 1, "an engine")
        if self.engine not in ENGINES or self._world is not None:
            raise self._bad(f"expected, before the processors, one of {', '.join(ENGINES)}")

    def on_set(self, words: list[str]) -> None:
        """`set window_size 8`, `set token_loss 20ms`: a parameter of the ring, or of the domain."""
        if self._world is not None:
            raise self._bad("parameters are set before the ring")
        name, value = self._exactly(words, 2, "a parameter and its value")
        is_ring = self.engine == TOTEM
        if name not in (self.parameters._fields if is_ring else self.lansis._fields):
            raise self._bad(f"no parameter {name!r}")
        number = int(value) if _is_number(value) else self._duration(value)
        if is_ring:
            self.parameters = self.parameters._replace(**{name: number})
        else:
            self.lansis = self.lansis._replace(**{name: number})

    def on_processors(self, words: list[str]) -> None:
        """`processors p q r`: they start; the story begins at once."""
        self._build(words, is_muted=False)

    def on_cluster(self, words: list[str]) -> None:
        """`cluster p q r`: they are there, but none runs yet."""
        self._build(words, is_muted=False, is_asleep=True)

    def on_start(self, words: list[str]) -> None:
        """`start p q`: processors of a cluster, for the first time."""
        for word in words:
            node = self._node(word)
            if self._running()[0].by_node[node].incarnation:
                raise self._bad(f"{word} has been started before")
            self._strike(Restart(0, node))

    def on_ring(self, words: list[str]) -> None:
        """`ring p q r`: they form a ring; the story begins when it is installed and idle.

        `ring p q r | s t`: they form two, apart from each other.
        """
        self._build([word for word in words if word != "|"], is_muted=True, is_asleep=True)
        world, story = self._running()
        if "|" in words:
            self.on_partition(words)
        for processor in world.processors:
            world.boot(processor)
        if not world.run_until(world.is_quiet, LIMIT_US, STEP_US):
            raise self._bad("these processors form no ring")
        story.is_muted = False

    def _build(self, words: list[str], *, is_muted: bool, is_asleep: bool = False) -> None:
        if self._world is not None:
            raise self._bad("the processors are there already")
        if not words or len(set(words)) != len(words) or "*" in words:
            raise self._bad("expected different names")
        for node, name in enumerate(words, 1):
            self.node_by_name[name] = node
        nodes = tuple(self.node_by_name.values())
        try:
            (self.parameters if self.engine == TOTEM else self.lansis).check(len(nodes))
        except BadParameters as error:
            raise self._bad(str(error)) from None
        story = Story({node: name for name, node in self.node_by_name.items()})
        story.is_muted = is_muted
        story.silent_topics.update(QUIET_TOPICS)
        self._story = story
        options = Options(nodes, parameters=self.parameters, engine=self.engine, lansis=self.lansis)
        audience = Audience(story, rules_of(options).watcher())
        engine = engine_of(options)
        world = World(Setup(options), engine, self.history, audience, is_asleep=is_asleep)
        story.now = lambda: world.now
        self._world = world

    def on_show(self, words: list[str]) -> None:
        """`show installs deliveries`: tell these and nothing else."""
        self._topics(words)
        _, story = self._running()
        story.silent_topics.update(topic for topic in TOPICS if topic not in words)
        story.silent_topics.difference_update(words)

    def on_hide(self, words: list[str]) -> None:
        """`hide states`: do not tell these."""
        self._topics(words)
        self._running()[1].silent_topics.update(words)

    def _topics(self, words: list[str]) -> None:
        for word in words:
            if word not in TOPICS:
                raise self._bad(f"{word!r} is none of {', '.join(TOPICS)}")

    # What clients and machines do

    def on_send(self, words: list[str]) -> None:
        """`send p "credo" safe`: a client hands a message over (agreed, once; or `x20` of them)."""
        times = 1
        if len(words) > 2 and words[-1].startswith("x"):
            times = self._number(words.pop()[1:])
        services = SERVICES[self.engine]
        if len(words) not in (2, 3) or words[-1] not in (*services, words[1]):
            raise self._bad(f'expected: send NAME "text" [{"|".join(services)}] [xTIMES]')
        world, _ = self._running()
        processor = self._up(words[0])
        core = processor.core
        assert core is not None
        service = Service[words[2].upper()] if words[2:] else Service.AGREED
        for _ in range(times):
            processor.queue.submit_body(words[1].encode(), service)
        world.tell(processor, core)

    def on_crash(self, words: list[str]) -> None:
        """`crash p`, `crash p torn`, `crash p in recovery`, each perhaps `after 3` effects."""
        words, effects = self._option(words, "after")
        words, state = self._option(words, "in")
        node = self._up(words[0] if words else "").node
        count = self._number(effects) if effects else 0
        if words[1:] == ["torn"] and not state and not effects:
            self._strike(Crash(0, node, torn=True))
        elif words[1:]:
            raise self._bad("expected: crash NAME [torn | in STATE] [after EFFECTS]")
        elif state:
            self._strike(CrashIn(0, node, self._state(state), count))
        else:
            self._strike(Crash(0, node, count))

    def on_restart(self, words: list[str]) -> None:
        """`restart p`, or `restart p torn` to crash it in its first write."""
        node = self._node(words[0] if words else "")
        if words[1:] not in ([], ["torn"]):
            raise self._bad("expected: restart NAME [torn]")
        self._strike(Restart(0, node, torn=words[1:] == ["torn"]))

    def on_leave(self, words: list[str]) -> None:
        """`leave p`: depart in good order."""
        self._strike(Leave(0, self._up(self._exactly(words, 1, "a name")[0]).node))

    def on_pause(self, words: list[str]) -> None:
        """`pause p 20ms`, or without end."""
        node = self._up(words[0] if words else "").node
        self._strike(Pause(0, node, self._perhaps_duration(words[1:])))

    def on_resume(self, words: list[str]) -> None:
        """`resume p`."""
        self._strike(Resume(0, self._up(self._exactly(words, 1, "a name")[0]).node))

    def on_slow(self, words: list[str]) -> None:
        """`slow p 300us`: what every datagram costs it."""
        name, cost = self._exactly(words, 2, "a name and a duration")
        self._strike(Slow(0, self._up(name).node, self._duration(cost)))

    def on_drift(self, words: list[str]) -> None:
        """`drift p -2000`: parts in a million by which its clock is fast."""
        name, ppm = self._exactly(words, 2, "a name and parts in a million")
        sign = -1 if ppm.startswith("-") else 1
        self._strike(Drift(0, self._up(name).node, sign * self._number(ppm.lstrip("-"))))

    # What the network does

    def on_drop(self, words: list[str]) -> None:
        """`drop token p->q [x2] [seq 5] [skip 1] [every 3]`: lose the next; `x*` for ever."""
        self._add_rule(DROP, words, 1)

    def on_twice(self, words: list[str]) -> None:
        """`twice token p->q`: carry it twice."""
        self._add_rule(TWICE, words, 1)

    def on_hold(self, words: list[str]) -> None:
        """`hold regular p->q`: keep all of them back until released."""
        self._add_rule(HOLD, words, ALWAYS)

    def on_delay(self, words: list[str]) -> None:
        """`delay token p->q 5ms`: the next one takes so much longer."""
        if len(words) < 3:
            raise self._bad("expected: delay KIND FROM->TO DURATION")
        delay_us = self._duration(words.pop(2))
        self._add_rule(DELAY, words, 1, delay_us)

    def on_release(self, words: list[str]) -> None:
        """`release`, or `release regular p->q [seq 5]`: let what is held arrive."""
        world, _ = self._running()
        if not words:
            world.network.release(world.now)
        elif not world.network.release_matching(self._rule(HOLD, words, 1), world.now):
            raise self._bad("nothing like that is held")

    def on_partition(self, words: list[str]) -> None:
        """`partition p q | r s`."""
        components: list[list[ProcessorId]] = [[]]
        for word in words:
            if word == "|":
                components.append([])
            else:
                components[-1].append(self._node(word))
        self._strike(Partition(0, tuple(tuple(members) for members in components)))

    def on_cut(self, words: list[str]) -> None:
        """`cut p->q`: one way."""
        self._strike(Cut(0, *self._link(self._exactly(words, 1, "a link")[0])))

    def on_heal(self, words: list[str]) -> None:
        """`heal`: cuts, partitions, clogs and what else befalls links end; `hold` does not."""
        self._exactly(words, 0, "nothing more")
        self._strike(Heal(0))
        self._running()[0].network.forget_rules()

    def on_clog(self, words: list[str]) -> None:
        """`clog p->q 20ms`, or without end."""
        link = self._link(words[0] if words else "")
        self._strike(Clog(0, *link, self._perhaps_duration(words[1:])))

    def on_unclog(self, words: list[str]) -> None:
        """`unclog p->q`."""
        self._strike(Unclog(0, *self._link(self._exactly(words, 1, "a link")[0])))

    def on_lossy(self, words: list[str]) -> None:
        """`lossy *->q 30% [20ms]`."""
        if len(words) not in (2, 3) or not words[1].endswith("%"):
            raise self._bad("expected: lossy FROM->TO PERCENT% [DURATION]")
        probability = self._number(words[1][:-1]) / 100
        for_us = self._perhaps_duration(words[2:])
        self._strike(Lossy(0, *self._link(words[0]), probability, for_us))

    # Time

    def on_run(self, words: list[str]) -> None:
        """`run 5ms`, `run until quiet`, `run until p is recovery`, `run until p promises`."""
        world, story = self._running()
        self.runs += 1
        ending = ""
        if words[:1] != ["until"]:
            world.run(world.now + self._duration(self._exactly(words, 1, "a duration")[0]))
        elif words[1:] == ["quiet"]:
            if not world.run_until(world.is_quiet, world.now + LIMIT_US, STEP_US):
                ending = "(never quiet)"
        elif len(words) == 4 and words[2] == "is":
            node, state = self._node(words[1]), self._state(words[3])
            if not world.run_until_state(node, state, world.now + LIMIT_US):
                ending = f"({words[1]} is never in {state})"
        elif len(words) == 3 and words[2] == "promises":
            if not self._run_until_promise(self._node(words[1])):
                ending = f"({words[1]} promises nothing)"
        else:
            raise self._bad("expected: run DURATION, run until quiet, run until NAME is STATE")
        self.told.append(f"# {'; '.join(self.since)}")
        self.told.extend(story.take([processor.node for processor in world.live()]))
        if ending:
            self.told.append(ending)
        self.since.clear()

    def _run_until_promise(self, node: ProcessorId) -> bool:
        """Run until a processor in recovery has all that its peers held of their old ring."""
        world, _ = self._running()
        if self.engine != TOTEM:
            raise self._bad("only a ring promises")
        processor = world.by_node[node]

        def has_promised() -> bool:
            if not processor.is_up():
                return False
            machine = machine_of(processor)
            return machine.recovery is not None and machine.old.ending.received_flg

        return world.run_until(has_promised, world.now + LIMIT_US, MOMENT_US)

    # Words

    def _running(self) -> tuple[World, Story]:
        if self._world is None or self._story is None:
            raise self._bad("first say which processors there are: ring NAME…")
        return self._world, self._story

    def _strike(self, fault: Fault) -> None:
        inject.strike(self._running()[0], fault)

    def _add_rule(self, action: str, words: list[str], times: int, delay_us: int = 0) -> None:
        self._running()[0].network.add_rule(self._rule(action, words, times, delay_us))

    def _rule(self, action: str, words: list[str], times: int, delay_us: int = 0) -> Rule:
        words, seq = self._option(words, "seq")
        words, skip = self._option(words, "skip")
        words, every = self._option(words, "every")
        if every:
            times = ALWAYS
        if len(words) == 3 and words[2].startswith("x"):
            times = ALWAYS if words[2] == "x*" else self._number(words[2][1:])
            words = words[:2]
        frame, link = self._exactly(words, 2, "a kind of frame and a link")
        if frame not in FRAMES[self.engine] and frame != "any":
            raise self._bad(f"{frame!r} is none of any, {', '.join(FRAMES[self.engine])}")
        names = self._running()[0].engine.kinds.names
        return Rule(
            action,
            names.get(frame),
            *self._link(link),
            skip=self._number(skip) if skip else 0,
            times=times,
            delay_us=delay_us,
            seq=self._number(seq) if seq else None,
            every=self._number(every) if every else 1,
        )

    def _option(self, words: list[str], name: str) -> tuple[list[str], str]:
        """Take `name value` out of the words."""
        if name not in words:
            return words, ""
        at = words.index(name)
        if at + 1 == len(words):
            raise self._bad(f"{name} what?")
        return words[:at] + words[at + 2 :], words[at + 1]

    def _exactly(self, words: list[str], count: int, what: str) -> list[str]:
        if len(words) != count:
            raise self._bad(f"expected {what}")
        return words

    def _node(self, name: str) -> ProcessorId:
        if name not in self.node_by_name:
            raise self._bad(f"no processor {name!r}")
        return self.node_by_name[name]

    def _up(self, name: str) -> Processor:
        world, _ = self._running()
        processor = world.by_node[self._node(name)]
        if not processor.is_up():
            raise self._bad(f"{name} is down")
        return processor

    def _link(self, text: str) -> tuple[ProcessorId, ProcessorId]:
        source, arrow, target = text.partition("->")
        if not arrow:
            raise self._bad(f"expected FROM->TO, not {text!r}")
        ends = [EVERYBODY if name == "*" else self._node(name) for name in (source, target)]
        return ends[0], ends[1]

    def _state(self, text: str) -> str:
        states = STATES[self.engine]
        if text not in states:
            raise self._bad(f"{text!r} is none of {', '.join(states)}")
        return text

    def _number(self, text: str) -> int:
        if not _is_number(text):
            raise self._bad(f"expected a number, not {text!r}")
        return int(text)

    def _perhaps_duration(self, words: list[str]) -> int:
        return self._duration(self._exactly(words, 1, "a duration")[0]) if words else 0

    def _duration(self, text: str) -> int:
        for unit, us in UNITS_US.items():
            if text.endswith(unit) and _is_number(text.removesuffix(unit)):
                return int(text.removesuffix(unit)) * us
        raise self._bad(f"expected a duration such as 5ms, not {text!r}")

    def _bad(self, why: str) -> BadScenario:
        return BadScenario(f"line {self.line_no}: {why}")
