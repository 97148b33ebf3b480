from itertools import pairwise

from evensong.core.effects import Deliver, Effect, Service, Unicast
from evensong.core.stable import StableRecord, decode_record
from evensong.core.timer import NEVER
from evensong.core.totem.frames import RegularMessage
from evensong.core.totem.ring import SingleRing
from evensong.sim import inject
from evensong.sim.engines import TOTEM
from evensong.sim.faults import (
    Calm,
    Crash,
    CrashIn,
    Drift,
    Fault,
    Leave,
    Pause,
    Restart,
    Resume,
    Slow,
    When,
)
from evensong.sim.history import History
from evensong.sim.machine import ROW_MAX, Clock, Inbox, Processor
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.workload import Burst
from evensong.sim.world import World, apart
from tests.sim.toy import HEAD, JOIN, REGULAR, RING, TOKEN, MakeToy, toy_engine

NODES = (1, 2, 3)


def world_of(
    *plan: Fault,
    units: int = 0,
    options: Options | None = None,
    history: History | None = None,
) -> tuple[World, MakeToy]:
    engine, make = toy_engine(NODES)
    workload = (Burst(0, 1, units),) if units else ()
    setup = Setup(options if options is not None else Options(NODES), plan, workload)
    return World(setup, engine, history), make


def rows(history: History) -> list[object]:
    return [(key, life.sends, life.deliveries, life.events) for key, life in history.lives.items()]


def test_the_same_setup_gives_the_same_run() -> None:
    weather = Weather(jitter_us=40, loss=0.1, duplicate=0.1, reorder=0.1)
    plan = (Crash(3_000, 2), Restart(9_000, 2))
    seen = []
    for _ in range(2):
        history = History()
        world, _ = world_of(*plan, units=50, options=Options(NODES, 7, weather), history=history)
        world.run(100_000)
        seen.append(repr(rows(history)))
    assert seen[0] == seen[1]


def test_another_seed_gives_another_run() -> None:
    seen = []
    for seed in (1, 2):
        history = History()
        options = Options(NODES, seed, Weather(jitter_us=40, loss=0.1))
        world, _ = world_of(units=50, options=options, history=history)
        world.run(100_000)
        seen.append(repr(rows(history)))
    assert seen[0] != seen[1]


def test_everybody_delivers_what_was_submitted() -> None:
    world, _ = world_of(units=10)
    world.run(50_000)
    assert world.deliveries == 30
    assert world.is_quiet()
    assert world.submitted[1, 1].origin_no == 10


def test_a_crashed_processor_does_nothing_more_and_its_store_stays() -> None:
    history = History()
    world, make = world_of(Crash(2_050, 2), history=history)
    world.run(10_000)
    assert not world.by_node[2].is_up()
    assert all(now <= 2_050 for now, _ in make.made[1].heard)
    assert history.lives[2, 1].ended == "fail"
    assert decode_record(world.by_node[2].store.record) == StableRecord(4, 1)


def test_a_restart_begins_a_new_incarnation_from_the_stored_record() -> None:
    history = History()
    world, make = world_of(Crash(2_050, 2), Restart(7_200, 2), history=history)
    world.run(10_000)
    assert make.made[-1].record == StableRecord(4, 1)
    assert make.made[-1].incarnation == 7  # the wall clock's millisecond
    assert list(history.lives) == [(1, 1), (2, 1), (3, 1), (2, 7)]


def test_a_restart_waits_until_a_machine_could_be_back() -> None:
    world, make = world_of(Crash(2_000, 2), Restart(2_000, 2))
    world.run(3_400)
    assert not world.by_node[2].is_up()
    world.run(3_600)
    assert world.by_node[2].is_up()
    assert make.made[-1].incarnation == 3


def test_deliveries_that_come_together_are_told_apart_where_a_crash_may_strike() -> None:
    first, second = (RegularMessage(1, RING, seq, Service.SAFE, 0, 0, b"m") for seq in (1, 2))
    other = Unicast(2, b"token")
    one, another, last = apart([Deliver(RING, [first, second], 7, after_gap=True), other])
    assert isinstance(one, Deliver)
    assert isinstance(another, Deliver)
    assert (one.parts, another.parts, last) == ([first], [second], other)
    assert (one.conf_id, one.safe_line, one.after_gap) == (RING, 7, True)


def test_a_crash_strikes_between_two_effects() -> None:
    # The token comes back at 300: five times Sent, Broadcast, Deliver, then the token.
    for effects, sent, at_home, elsewhere in (
        (1, 1, 0, 0),
        (2, 1, 0, 1),
        (3, 1, 1, 1),
        (5, 2, 1, 2),
    ):
        history = History()
        world, _ = world_of(Crash(40, 1, effects=effects), units=5, history=history)
        world.run(1_000)
        lives = history.lives
        assert lives[1, 1].ended == "fail"
        assert len(lives[1, 1].sends) == sent  # whatever was broadcast is known as sent
        assert len(lives[1, 1].deliveries) == at_home
        assert len(lives[2, 1].deliveries) == elsewhere


def test_a_torn_write_leaves_the_old_record_and_half_a_temporary_file() -> None:
    # 1 is suspended, so 2 loses the token, and writes its record again when it notices.
    world, make = world_of(Pause(1_000, 1), Crash(2_000, 2, torn=True), Restart(30_000, 2))
    world.run(10_000)
    processor = world.by_node[2]
    store = processor.store
    before = store.record
    assert processor.is_up()  # it waits for a write
    world.run(25_000)
    assert not processor.is_up()
    assert store.record == before
    assert 0 < len(store.temporary) < len(before)
    world.run(31_000)
    assert make.made[-1].record == decode_record(before)
    assert store.temporary == b""


def test_a_start_can_be_torn_in_its_first_write() -> None:
    history = History()
    plan = (Crash(2_000, 2), Restart(8_000, 2, torn=True), Restart(8_000, 2))
    world, make = world_of(*plan, history=history)
    world.run(9_000)
    store = world.by_node[2].store
    assert decode_record(store.record) == StableRecord(4, 1)
    assert store.temporary
    assert history.lives[2, 8].ended == "fail"
    world.run(20_000)
    assert make.made[-1].record == StableRecord(4, 1)  # nothing was promised in between
    assert list(history.lives)[-1] == (2, 9)


def test_a_crash_waits_for_the_state_it_is_meant_for() -> None:
    history = History()
    world, _ = world_of(CrashIn(0, 3, "recovery", 2), Pause(1_000, 1, 30_000), history=history)
    world.run(40_000)
    assert not world.by_node[3].is_up()
    # The token is lost while 1 is suspended; two effects after RECOVERY it is OPERATIONAL.
    assert world.by_node[3].state == "operational"
    assert world.by_node[2].is_up()
    assert world.faults_in_change == 0


def test_a_crash_in_the_first_moment_of_recovery_is_counted_as_in_a_change() -> None:
    world, _ = world_of(CrashIn(0, 3, "recovery"), Pause(1_000, 1, 30_000))
    world.run(40_000)
    assert world.by_node[3].state == "recovery"
    assert world.faults_in_change == 1


def test_a_fault_can_lie_in_wait_for_a_state() -> None:
    for after_us in (0, 700):
        history = History()
        ambush = When(0, 0, "recovery", Crash(0, 3), after_us)
        late = Crash(50_000, 2)
        world, _ = world_of(ambush, Pause(1_000, 1), late, history=history)
        world.run_until_state(2, "recovery", 60_000)
        found_at = world.now
        world.run(60_000)
        assert history.lives[3, 1].events[-1].t_us == found_at + after_us
        assert world.faults == {"pause": 1, "crash": 2}


def test_a_calm_disarms_a_fault_whose_state_has_come() -> None:
    ambush = When(0, 0, "recovery", Crash(0, 3), 700)
    world, _ = world_of(ambush, Pause(1_000, 1))
    world.run_until_state(2, "recovery", 60_000)
    inject.strike(world, Calm(world.now))
    world.run(60_000)
    assert world.by_node[3].is_up()
    assert "crash" not in world.faults


def test_leaving_is_orderly() -> None:
    history = History()
    world, make = world_of(Leave(2_000, 2), history=history)
    world.run(3_000)
    assert history.lives[2, 1].ended == "stop"
    assert any(datagram == HEAD.pack(JOIN, 2, 1) for _, datagram in make.made[0].heard)


def test_a_suspended_processor_gets_its_datagrams_later_as_far_as_they_fit() -> None:
    options = Options(NODES, receive_buffer=2)
    world, make = world_of(Pause(10, 3, 5_000), units=10, options=options)
    world.run(4_900)
    assert make.made[2].heard == []
    world.run(6_000)
    assert len([now for now, _ in make.made[2].heard if now == 5_010]) == 2
    assert world.by_node[3].inbox.dropped > 0


def test_resume_ends_a_suspension() -> None:
    world, make = world_of(Pause(10, 3), Resume(3_000, 3))
    world.run(4_000)
    assert min(now for now, _ in make.made[2].heard) == 3_000


def test_a_slow_processor_takes_one_datagram_at_a_time() -> None:
    world, make = world_of(Slow(1, 3, 700), units=3)
    world.run(5_000)
    times = [now for now, _ in make.made[2].heard]
    assert all(later - earlier >= 700 for earlier, later in pairwise(times))


def test_data_of_the_same_instant_comes_before_the_token() -> None:
    world, make = world_of(units=5)
    world.run(350)
    kinds = [datagram[0] for now, datagram in make.made[1].heard if now == 400]
    world.run(400)
    kinds = [datagram[0] for now, datagram in make.made[1].heard if now == 400]
    assert kinds == [REGULAR] * 5 + [TOKEN]


def test_a_waiting_token_lets_data_pass_and_makes_joins_wait() -> None:
    inbox = Inbox(frozenset([REGULAR]), frozenset([TOKEN]), 4)
    for kind in (JOIN, REGULAR, TOKEN, JOIN, REGULAR, REGULAR):
        inbox.put(bytes([kind]))
    taken = [inbox.take()[0] for _ in range(6)]
    # Four are drained: join, regular, join, regular. The last regular comes too late.
    assert taken == [REGULAR, REGULAR, TOKEN, JOIN, JOIN, REGULAR]


def test_messages_of_one_transmitter_that_wait_are_handed_over_together() -> None:
    inbox = Inbox(frozenset([REGULAR]), frozenset([TOKEN]), 4)
    first, second = (HEAD.pack(REGULAR, node, 1) for node in (1, 2))
    join, token = (HEAD.pack(kind, 1, 1) for kind in (JOIN, TOKEN))
    for datagram in (first, first + b"b", second, first, join, join):
        inbox.put(datagram)
    rows = [inbox.take_row() for _ in range(5)]
    assert rows == [[first, first + b"b"], [second], [first], [join], [join]]
    for datagram in [token] + 6 * [first]:
        inbox.put(datagram)
    assert [inbox.take_row() for _ in range(3)] == [4 * [first], [token], 2 * [first]]
    for _ in range(ROW_MAX + 1):
        inbox.put(first)
    assert [len(inbox.take_row()) for _ in range(2)] == [ROW_MAX, 1]


def test_a_busy_processor_keeps_messages_as_they_came_together() -> None:
    bursts = tuple(Burst(at, 1, 40, safe=1.0) for at in range(100_000, 104_000, 1_000))
    world = World(Setup(Options(NODES, cost_us=20), workload=bursts), TOTEM)
    lengths: set[int] = set()
    for at in range(100_000, 110_000, 50):
        world.run(at)
        core = world.by_node[2].core
        assert isinstance(core, SingleRing)
        kept = core.machine.ring.buffer.messages.values()
        lengths |= {one.last_seq - one.first_seq for one in kept if one.sender_id == 1}
    assert max(lengths) > 3


def visits_at_first(options: Options) -> list[tuple[int, int]]:
    """Return when the token came to the first processor, and the seq it left with."""
    history = History()
    bursts = (Burst(100_000, 2), Burst(102_000, 2, 3))  # the first wakes the token
    world = World(Setup(options, workload=bursts), TOTEM, history)
    world.run(105_000)
    (life,) = [life for (node, _), life in history.lives.items() if node == 1]
    visits = [one for one in life.events if one.etype == "token" and one.t_us > 100_000]
    return [(one.t_us, int(dict(one.aux)["seq"])) for one in visits]


def test_what_sending_and_a_visit_cost_delays_the_token() -> None:
    weather = Weather(latency_us=100)
    free = visits_at_first(Options(NODES, weather=weather))
    timed = visits_at_first(Options(NODES, weather=weather, send_us=7, visit_us=40))

    def rotations(visits: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return how long each rotation took, and how many messages it carried."""
        return [(t - before, seq - last) for (before, last), (t, seq) in pairwise(visits)]

    assert (300, 0) in rotations(free)
    assert (300, 3) in rotations(free)
    assert (300 + 3 * (40 + 7), 0) in rotations(timed)
    assert (300 + 3 * (40 + 7) + 3 * 2 * 7, 3) in rotations(timed)


def test_a_clock_that_runs_fast_rings_early() -> None:
    clock = Clock(1_000, 100_000)
    assert clock.local(0) == 1_000
    assert clock.local(1_000_000) == 1_101_000
    for local in range(1_000, 1_300):
        virtual = clock.virtual(local)
        assert clock.local(virtual) >= local
        assert virtual == 0 or clock.local(virtual - 1) < local
    clock.set_rate(-100_000, 1_000_000)
    assert clock.local(1_000_000) == 1_101_000
    assert clock.local(2_000_000) == 2_001_000
    assert clock.virtual(NEVER) == NEVER


def test_drift_moves_timeouts() -> None:
    found = []
    for ppm in (0, 200_000, -200_000):
        world, _ = world_of(Drift(1, 3, ppm), Pause(1_000, 1))
        world.run_until_state(3, "recovery", 60_000)
        found.append(world.now)
    assert found[1] < found[0] < found[2]


def test_a_run_stops_at_the_effect_that_reaches_a_state() -> None:
    world, _ = world_of(Pause(1_000, 1))
    assert world.run_until_state(2, "recovery", 60_000)
    assert world.by_node[2].state == "operational"  # the step is performed to its end
    assert world.now < 60_000
    assert not world.run_until_state(2, "commit", 90_000)
    assert world.now == 90_000


def test_calm_brings_back_who_may_come_back() -> None:
    world, _ = world_of(Crash(100, 1), Crash(100, 2), Leave(100, 3), Calm(5_000, stay_down=(2,)))
    world.run(6_000)
    assert [processor.node for processor in world.live()] == [1]


def test_calm_makes_fast_again_who_was_slow_when_it_crashed() -> None:
    world, _ = world_of(Slow(50, 1, 1_500), Slow(50, 2, 1_500), Crash(100, 1), Calm(5_000))
    world.run(6_000)
    assert [processor.cost_us for processor in world.live()] == [0, 0, 0]


def test_observers_see_lives_and_effects_in_order() -> None:
    seen: list[str] = []

    class Watch:
        def began(self, processor: Processor) -> None:
            seen.append(f"began {processor.node}")

        def effect(self, processor: Processor, effect: Effect) -> None:
            seen.append(type(effect).__name__)

        def stepped(self, processor: Processor) -> None:
            seen.append("stepped")

        def ended(self, processor: Processor) -> None:
            seen.append(f"ended {processor.node}")

    engine, _ = toy_engine((1,))
    world = World(Setup(Options((1,)), (Crash(10, 1),)), engine, observer=Watch())
    world.run(20)
    step = ["Persist", "StateChange", "Install", "Broadcast", "Unicast", "stepped"]
    assert seen == ["began 1", *step, "ended 1"]


def test_pairs_of_state_and_event_are_gathered_from_the_cores() -> None:
    world, _ = world_of(units=1)
    world.run(1_000)
    world.quiesce()
    assert world.pairs == {("OPERATIONAL", "submit")}
