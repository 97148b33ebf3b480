"""Directed schedules: what random faults hardly ever hit, enumerated hop by hop.

Each run is judged by the invariants at every step and by extended virtual synchrony at its end. The
rings are small and nothing is left to chance. S11 to S14 are named in the mutants that they catch.
"""

from typing import Final

import pytest

from evensong.core.effects import Effect, StateChange, TokenVisit
from evensong.core.ids import ProcessorId, RingId
from evensong.core.totem import wire
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.states import State
from evensong.sim import inject
from evensong.sim.check import machine_of
from evensong.sim.faults import Crash, CrashIn, Restart
from evensong.sim.machine import Processor
from evensong.sim.network import DROP, HOLD, Rule
from tests.sim.stage import Stage

ALWAYS: Final = 2**31
STAYING: Final = (1, 2, 3, 4)
DEPARTING: Final = 5
HOPS: Final = range(1, 33)


def broken_ring(*, has_gap: bool = True) -> Stage:
    """Return a ring of 1 to 5 that has just lost 5, with everything pending that can be.

    The first messages of 5 reached nobody: a gap. Behind it are safe and agreed messages of all, of
    which one did not reach 2 and another not 4.
    """
    stage = Stage(*STAYING, DEPARTING)
    stage.form()
    network = stage.world.network
    if has_gap:
        network.add_rule(Rule(DROP, wire.REGULAR, DEPARTING, times=ALWAYS))
    network.add_rule(Rule(DROP, wire.REGULAR, target=4, seq=5, times=ALWAYS))
    network.add_rule(Rule(DROP, wire.REGULAR, target=2, seq=8, times=ALWAYS))
    stage.send(DEPARTING, b"lost", b"lost too")
    stage.run(1_500)
    for node in STAYING:
        stage.send(node, b"safe", b"safe again", safe=True)
        stage.send(node, b"agreed")
    stage.run(3_000)
    inject.strike(stage.world, Crash(0, DEPARTING))
    network.rules.clear()
    return stage


class Killer:
    """Kills the token of the ring that forms at a hop; remembers who had installed it by then."""

    def __init__(self, stage: Stage, hop: int) -> None:
        self.stage = stage
        self.hop = hop
        self.ring_id: RingId | None = None
        self.struck = False
        stage.on_effect = self.see_effect

    def see_effect(self, processor: Processor, effect: Effect) -> None:
        if isinstance(effect, StateChange) and effect.state == "recovery" and not self.ring_id:
            self.ring_id = effect.ring_id
        is_visit = isinstance(effect, TokenVisit) and effect.ring_id == self.ring_id
        if is_visit and isinstance(effect, TokenVisit) and effect.token_seq == self.hop:
            # The visit is told before the token leaves: neither it nor its copies arrive.
            self.struck = True
            rule = Rule(DROP, wire.TOKEN, processor.node, times=ALWAYS)
            self.stage.world.network.add_rule(rule)

    def run(self) -> None:
        world = self.stage.world
        world.run_until(lambda: self.struck, world.now + 100_000, 20)

    def installers(self) -> list[ProcessorId]:
        return [
            node
            for node in STAYING
            if machine_of(self.stage.world.by_node[node]).old.ring_id == self.ring_id
        ]


def test_the_hops_reach_from_the_first_token_to_everybodys_installation() -> None:
    counts = []
    for hop in HOPS:
        killer = Killer(broken_ring(), hop)
        killer.run()
        assert killer.struck
        counts.append(len(killer.installers()))
    assert set(counts) == {0, 1, 2, 3, 4}
    assert counts == sorted(counts)


@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize("has_gap", [True, False])
def test_s12_the_token_dies_at_a_hop_of_recovery(hop: int, has_gap: bool) -> None:
    stage = broken_ring(has_gap=has_gap)
    Killer(stage, hop).run()
    stage.run(60_000)
    stage.check_end(DEPARTING)


@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize("apart", ["in two", "one by one"])
def test_s13_those_who_installed_part_from_those_who_did_not(hop: int, apart: str) -> None:
    stage = broken_ring()
    killer = Killer(stage, hop)
    killer.run()
    installers = killer.installers()
    others = [node for node in STAYING if node not in installers]
    if apart == "in two":
        stage.world.network.part([installers, others])
    else:
        stage.world.network.part([installers, *([node] for node in others)])
    stage.world.network.rules.clear()
    stage.run(150_000)
    for node in STAYING:
        stage.send(node, b"later", safe=True)
    stage.run(20_000)
    stage.check_end(DEPARTING)


@pytest.mark.parametrize("hop", range(8, 25))
@pytest.mark.parametrize("meets", STAYING)
def test_s13_one_who_promised_meets_those_who_installed(hop: int, meets: ProcessorId) -> None:
    # The token dies, one that did not install joins the installers, the rest stay away: it goes
    # from the old ring alone, with an obligation to processors that went before it [Aga94].
    stage = broken_ring()
    killer = Killer(stage, hop)
    killer.run()
    installers = killer.installers()
    away = [node for node in STAYING if node not in installers and node != meets]
    stage.world.network.part([[*installers, meets], *([node] for node in away)])
    stage.world.network.rules.clear()
    stage.run(150_000)
    stage.check_end(DEPARTING)


@pytest.mark.parametrize("promiser", [1, 2, 3, 4])
@pytest.mark.parametrize("passes", [False, True])
def test_s14_a_promise_is_made_and_the_promiser_cut_off(promiser: int, passes: bool) -> None:
    # The first, second, third or last to promise; with or without the token it passes on.
    stage = broken_ring()
    promised: list[ProcessorId] = []
    cut: list[ProcessorId] = []

    def see(processor: Processor, effect: Effect) -> None:
        machine = machine_of(processor)
        if cut or not isinstance(effect, TokenVisit) or machine.recovery is None:
            return
        if machine.old.ending.received_flg and processor.node not in promised:
            promised.append(processor.node)
            if len(promised) == promiser:
                cut.append(processor.node)
                if not passes:
                    stage.world.network.part([cut])

    def look(processor: Processor) -> None:
        if cut:
            stage.world.network.part([cut])

    stage.on_effect, stage.on_step = see, look
    stage.run(150_000)
    assert cut
    stage.check_end(DEPARTING)


def test_s5_the_thesis_example_keeps_its_obligations() -> None:
    # Two of four have installed when the token dies; the other two, who have promised, end up alone
    # and must still deliver what the four owe each other, behind the gap that 5 has left [Aga94].
    stage = broken_ring()
    killer = Killer(stage, 0)
    installers: list[ProcessorId] = []

    def look(processor: Processor) -> None:
        if not installers and killer.ring_id and len(killer.installers()) == 2:
            installers.extend(killer.installers())
            others = [node for node in STAYING if node not in installers]
            stage.world.network.part([installers, *([node] for node in others)])

    stage.on_step = look
    stage.run(150_000)
    for node in STAYING:
        ring = machine_of(stage.world.by_node[node]).ring
        assert len(ring.members) == (2 if node in installers else 1)
        behind = [one for one in stage.history.lives[node, 1].deliveries if one.after_gap]
        assert {one.unit_id.sender for one in behind} == set(STAYING)
    stage.check_end(DEPARTING)


# -- S11: a message of a departed sender arrives late, at one ---------------------------------


@pytest.mark.parametrize("after_us", [0, 150, 300])
@pytest.mark.parametrize("moment", ["gather", "commit", "recovery"])
@pytest.mark.parametrize("lucky", STAYING)
def test_s11_a_departed_senders_message_reaches_one_member_late(
    lucky: ProcessorId, moment: str, after_us: int
) -> None:
    stage = Stage(*STAYING, DEPARTING)
    stage.form()
    network = stage.world.network
    network.add_rule(Rule(HOLD, wire.REGULAR, DEPARTING, times=ALWAYS))
    stage.send(DEPARTING, b"late", safe=True)
    stage.send(DEPARTING, b"late too")
    stage.run(1_500)
    inject.strike(stage.world, Crash(0, DEPARTING))
    reached = stage.world.run_until_state(lucky, moment, stage.world.now + 100_000)
    assert reached
    stage.run(after_us)
    assert network.release_matching(Rule(HOLD, wire.REGULAR, DEPARTING, lucky), stage.world.now)
    network.rules.clear()
    network.parked.clear()
    stage.run(50_000)
    states = {machine_of(stage.world.by_node[node]).state for node in STAYING}
    assert states == {State.OPERATIONAL}
    stage.check_end(DEPARTING)


# -- what is safe -----------------------------------------------------------------------------


@pytest.mark.parametrize("deaf", [1, 2, 3, 4])
@pytest.mark.parametrize("sender", [1, 2, 3, 4])
def test_a_safe_message_waits_for_the_last_to_receive_it(
    sender: ProcessorId, deaf: ProcessorId
) -> None:
    # One lacks the message for a few rotations. Nobody may deliver it before that one has it.
    if sender == deaf:
        sender = deaf % 4 + 1
    stage = Stage(*STAYING)
    stage.form()
    network = stage.world.network
    network.add_rule(Rule(DROP, wire.REGULAR, target=deaf, times=9))
    stage.send(sender, b"agreed first")
    stage.send(sender, b"safe", safe=True)
    stage.run(20_000)
    stage.check_end()


# -- an exchange that is large -----------------------------------------------------------------


def test_an_exchange_larger_than_the_buffers_horizon_ends() -> None:
    parameters = Parameters(receive_horizon=60, window_size=30, messages_max=10)
    stage = Stage(1, 2, 3, 4, parameters=parameters)
    network = stage.world.network
    network.part([[1, 2], [3, 4]])
    stage.form()
    # 2 and 4 lack the first message, so nothing is released, and both rings' buffers fill up.
    network.add_rule(Rule(DROP, wire.REGULAR, target=2, seq=1, times=ALWAYS))
    network.add_rule(Rule(DROP, wire.REGULAR, target=4, seq=1, times=ALWAYS))
    for node in (1, 3):
        stage.send(node, *[b"%d" % n for n in range(90)])
    stage.run(12_000)
    rings = [machine_of(stage.world.by_node[node]).ring for node in (1, 3)]
    assert min(len(ring.buffer.messages) for ring in rings) > 55
    # The rings meet: on the new one, both exchange all of their messages.
    network.heal(stage.world.now)
    assert stage.world.run_until_state(4, "commit", stage.world.now + 100_000)
    network.rules.clear()
    stage.check_end()


# -- S9: a safe message in flight -------------------------------------------------------------


@pytest.mark.parametrize("after_us", range(0, 1_500, 50))
def test_s9_a_safe_message_in_flight_at_a_partition_is_transitional_on_both_sides(
    after_us: int,
) -> None:
    stage = Stage(*STAYING)
    stage.form()
    stage.send(2, b"agreed")
    stage.send(2, b"safe", safe=True)
    stage.run(after_us)
    stage.world.network.part([[1, 2], [3, 4]])
    stage.run(100_000)
    stage.check_end()


# -- S3, S7, S8: crashes at every step, starts and restarts -----------------------------------


@pytest.mark.parametrize("state", ["commit", "recovery"])
@pytest.mark.parametrize("node", STAYING)
@pytest.mark.parametrize("effects", range(0, 12, 2))
def test_s3_a_processor_crashes_at_a_step_of_a_formation(
    node: ProcessorId, state: str, effects: int
) -> None:
    stage = broken_ring()
    inject.strike(stage.world, CrashIn(0, node, state, effects))
    stage.run(150_000)
    stage.check_end(DEPARTING)


def test_s7_sixteen_that_start_together_form_one_ring_at_once() -> None:
    stage = Stage(*range(1, 17))
    stage.run(3 * stage.parameters.consensus)
    rings = {machine_of(processor).ring.members for processor in stage.world.live()}
    assert rings == {tuple(range(1, 17))}
    assert all(len(life.confs) == 3 for life in stage.history.lives.values())
    stage.check_end()


@pytest.mark.parametrize("after_us", range(1_500, 16_000, 2_900))
def test_s8_a_processor_restarts_before_anybody_missed_it(after_us: int) -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    stage.send(2, b"before", safe=True)
    inject.strike(stage.world, Crash(0, 3))
    stage.run(after_us)
    inject.strike(stage.world, Restart(0, 3))
    stage.run(100_000)
    stage.send(3, b"after", safe=True)
    stage.run(20_000)
    stage.check_end()
