from evensong.sim.faults import (
    Clog,
    Cut,
    DelayNext,
    DropNext,
    Duplicate,
    Fault,
    Heal,
    Lossy,
    Partition,
    Reorder,
    Unclog,
)
from evensong.sim.network import DELAY, DROP, HOLD, TWICE, Rule
from evensong.sim.setup import Options, Setup, Weather
from evensong.sim.world import World
from tests.sim.toy import JOIN, REGULAR, TOKEN, toy_engine

NODES = (1, 2, 3, 4)
Heard = list[tuple[int, bytes]]


def probe(*plan: Fault, weather: Weather | None = None, seed: int = 0) -> tuple[World, list[Heard]]:
    """A world whose ring stands still: all that is heard is what a test sends."""
    engine, make = toy_engine(NODES)
    options = Options(NODES, seed, weather if weather is not None else Weather())
    world = World(Setup(options, (Lossy(0, 0, 0, 1.0, 200), *plan)), engine)
    world.run(1_000)
    for core in make.made:
        core.heard.clear()
    return world, [core.heard for core in make.made]


def frame(number: int, kind: int = JOIN) -> bytes:
    return bytes([kind, 0, 0, 0, 9]) + number.to_bytes(8, "big")


def test_a_broadcast_reaches_every_other_processor_after_the_latency() -> None:
    world, heard = probe()
    world.network.broadcast(1, frame(1), world.now)
    world.run(1_099)
    assert heard == [[], [], [], []]
    world.run(1_100)
    assert heard == [[], [(1_100, frame(1))], [(1_100, frame(1))], [(1_100, frame(1))]]


def test_a_unicast_reaches_one() -> None:
    world, heard = probe()
    world.network.unicast(1, 3, frame(1), world.now)
    world.network.unicast(1, 77, frame(1), world.now)
    world.run(2_000)
    assert [len(times) for times in heard] == [0, 0, 1, 0]


def test_jitter_stays_within_its_bound_and_copies_are_drawn_apart() -> None:
    world, heard = probe(weather=Weather(100, 50))
    for number in range(100):
        world.network.broadcast(1, frame(number), world.now)
    world.run(1_200)
    times = [now for now, _ in heard[1]]
    assert min(times) >= 1_100
    assert max(times) < 1_150
    assert len(set(times)) > 20
    assert heard[1] != heard[2]


def test_links_differ_where_the_weather_says_so() -> None:
    world, heard = probe(weather=Weather(100, 0, spread_us=500))
    world.network.broadcast(1, frame(1), world.now)
    world.run(2_000)
    assert len({times[0][0] for times in heard[1:]}) == 3


def test_loss_duplication_and_reordering_strike_about_as_often_as_told() -> None:
    count = 2_000
    world, heard = probe(weather=Weather(loss=0.2))
    for number in range(count):
        world.network.unicast(1, 2, frame(number), world.now)
    world.run(2_000)
    assert 0.75 * count < len(heard[1]) < 0.85 * count

    world, heard = probe(Duplicate(900, 1, 2, 0.3))
    for number in range(count):
        world.network.unicast(1, 2, frame(number), world.now)
    world.run(2_000)
    assert 1.25 * count < len(heard[1]) < 1.35 * count

    world, heard = probe(Reorder(900, 1, 2, 0.1, 300))
    for number in range(count):
        world.network.unicast(1, 2, frame(number), world.now)
    world.run(2_000)
    late = [now for now, _ in heard[1] if now > 1_100]
    assert 0.07 * count < len(late) < 0.13 * count
    assert max(late) <= 1_400


def test_loss_can_be_restricted_to_a_kind() -> None:
    world, heard = probe(weather=Weather(loss_by_kind=(("regular", 1.0),)))
    world.network.broadcast(1, frame(1, REGULAR), world.now)
    world.network.broadcast(1, frame(2, JOIN), world.now)
    world.run(2_000)
    assert [datagram for _, datagram in heard[1]] == [frame(2, JOIN)]


def test_a_lossy_time_ends_and_the_weather_returns() -> None:
    world, heard = probe(Lossy(1_500, 1, 2, 1.0, 1_000))
    for at in (1_400, 1_600, 2_600):
        world.run(at)
        world.network.broadcast(1, frame(at), at)
    world.run(4_000)
    assert [int.from_bytes(datagram[5:]) for _, datagram in heard[1]] == [1_400, 2_600]
    assert len(heard[2]) == 3


def test_a_cut_is_one_way_and_heals() -> None:
    world, heard = probe(Cut(1_100, 1, 2), Heal(3_000))
    world.run(2_000)
    world.network.unicast(1, 2, frame(1), world.now)
    world.network.unicast(2, 1, frame(2), world.now)
    world.run(3_000)
    world.network.unicast(1, 2, frame(3), world.now)
    world.run(4_000)
    assert [datagram for _, datagram in heard[1]] == [frame(3)]
    assert [datagram for _, datagram in heard[0]] == [frame(2)]


def test_a_partition_separates_components_and_unnamed_ones_form_one_more() -> None:
    world, heard = probe(Partition(1_100, ((1, 2),)))
    world.run(2_000)
    world.network.broadcast(1, frame(1), world.now)
    world.network.broadcast(3, frame(3), world.now)
    world.run(3_000)
    assert [[datagram for _, datagram in times] for times in heard] == [
        [],
        [frame(1)],
        [],
        [frame(3)],
    ]


def test_a_clog_holds_back_then_bursts_in_order() -> None:
    world, heard = probe(Clog(1_100, 1, 2, 2_000), weather=Weather(100, 90))
    world.run(2_000)
    for number in range(20):
        world.network.broadcast(1, frame(number), world.now)
    world.run(3_000)
    assert heard[1] == []
    assert len(heard[2]) == 20
    world.run(4_000)
    assert heard[1] == [(3_200, frame(number)) for number in range(20)]


def test_unclog_ends_a_clog_without_end() -> None:
    world, heard = probe(Clog(1_100, 0, 2), Unclog(5_000, 1, 2))
    world.run(2_000)
    world.network.unicast(1, 2, frame(1), world.now)
    world.network.unicast(3, 2, frame(3), world.now)
    world.run(9_000)
    assert heard[1] == [(5_100, frame(1))]


def test_calm_lets_go_what_is_held_and_loses_nothing_more() -> None:
    world, heard = probe(Clog(1_100, 1, 2), Lossy(1_100, 0, 0, 0.5, 50_000), Cut(1_100, 1, 3))
    world.run(2_000)
    world.network.calm(world.now)
    for number in range(50):
        world.network.broadcast(1, frame(number), world.now)
    world.run(90_000)  # the end of the lossy time must not bring anything back
    world.network.broadcast(1, frame(99), world.now)
    world.run(99_000)
    assert [len([d for _, d in times if d[0] == JOIN]) for times in heard] == [0, 51, 51, 51]


def test_the_next_datagrams_of_a_kind_are_dropped() -> None:
    world, heard = probe(DropNext(1_100, "regular", 1, 2, times=2))
    world.run(2_000)
    world.network.broadcast(1, frame(0, JOIN), world.now)
    for number in range(1, 4):
        world.network.broadcast(1, frame(number, REGULAR), world.now)
    world.run(3_000)
    assert [datagram for _, datagram in heard[1]] == [frame(0, JOIN), frame(3, REGULAR)]
    assert len(heard[2]) == 4
    assert not world.network.rules


def test_the_next_datagrams_of_a_kind_come_late() -> None:
    world, heard = probe(DelayNext(1_100, "regular", 1, 2, delay_us=500, times=2))
    world.run(2_000)
    for number in range(1, 4):
        world.network.broadcast(1, frame(number, REGULAR), world.now)
    world.run(3_000)
    late, others = heard[1], heard[2]
    assert [(at - 2_000, datagram) for at, datagram in late] == [
        (100, frame(3, REGULAR)),
        (600, frame(1, REGULAR)),
        (600, frame(2, REGULAR)),
    ]
    assert [at - 2_000 for at, _ in others] == [100, 100, 100]
    assert not world.network.rules


def test_rules_delay_repeat_and_hold_what_they_match() -> None:
    world, heard = probe()
    network = world.network
    network.add_rule(Rule(DELAY, TOKEN, 1, 2, delay_us=500))
    network.add_rule(Rule(TWICE, JOIN, 1, 3, skip=1))
    network.add_rule(Rule(HOLD, REGULAR, 1, 4, times=10, seq=7))
    network.add_rule(Rule(DROP, REGULAR, 1, 4, seq=8))
    network.unicast(1, 2, frame(1, TOKEN), world.now)
    network.unicast(1, 3, frame(1), world.now)
    network.unicast(1, 3, frame(2), world.now)
    for number in (6, 7, 8, 9):
        network.unicast(1, 4, frame(number, REGULAR), world.now)
    world.run(1_100)
    assert [datagram for _, datagram in heard[2]] == [frame(1), frame(2), frame(2)]
    assert [int.from_bytes(datagram[5:]) for _, datagram in heard[3]] == [6, 9]
    network.release(world.now)
    world.run(1_600)
    assert (1_600, frame(1, TOKEN)) in heard[1]
    assert int.from_bytes(heard[3][2][1][5:]) == 7
