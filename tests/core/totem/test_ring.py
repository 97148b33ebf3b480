"""The door: what is let in, what is counted and dropped, and being late."""

from itertools import chain, count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis.strategies import (
    SearchStrategy,
    booleans,
    integers,
    just,
    lists,
    one_of,
    sampled_from,
    tuples,
)

from evensong.core.effects import Broadcast, Deliver, Halt, unbundled
from evensong.core.ids import RingId
from evensong.core.run import run_of
from evensong.core.stable import StableRecord, decode_record
from evensong.core.timer import NEVER
from evensong.core.totem import wire
from evensong.core.totem.frames import ENCAP, RETX, Beacon, RegularMessage
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.parts import split
from evensong.core.totem.states import State
from evensong.sim.engines import TOTEM
from evensong.sim.setup import Options, Setup
from evensong.sim.world import World
from tests.core.totem.bench import (
    Bench,
    Desk,
    datagrams,
    delivered,
    installed,
    join_from,
    message,
    next_token,
    ordered,
    reach,
    regular,
    ring_of,
    token_from,
)
from tests.core.totem.hostile import digest
from tests.core.totem.table import commit_for, dropped

# -- starting and stopping -------------------------------------------------------------------


def test_a_start_is_above_every_ring_id_used_before_and_durable_first() -> None:
    desk = Desk(7, record=StableRecord(1_028, 5), incarnation=6)
    effects = desk.start()
    names = [type(effect).__name__ for effect in effects]
    assert names[:2] == ["Persist", "Install"]
    assert installed(effects)[0].conf_id == RingId(1_032, 7)
    persisted = [one.record for one in effects if hasattr(one, "record")]
    assert decode_record(persisted[0]).ring_seq >= 1_032
    assert decode_record(persisted[0]).incarnation == 6


def test_a_life_is_later_than_the_ones_before() -> None:
    with pytest.raises(AssertionError):
        Desk(7, record=StableRecord(4, 5), incarnation=5)


def test_who_leaves_says_so_twice_and_does_nothing_more() -> None:
    bench, desk = reach(State.OPERATIONAL)
    effects = desk.leave()
    assert [type(effect) for effect in effects] == [Broadcast, Broadcast]
    assert len(datagrams(effects, wire.LEAVE)) == 2
    assert desk.core.deadline() == NEVER
    assert desk.receive(token_from(1, next_token(desk))) == []
    assert desk.submit(b"late") == []
    assert desk.expire(desk.now + 100_000) == []
    assert desk.leave() == []
    bench.take(2, effects)
    bench.run_until(lambda: bench.is_ring(1, 3))


# -- two processors with one id --------------------------------------------------------------


def test_a_processor_that_hears_a_later_self_stops_with_an_error() -> None:
    _, desk = reach(State.OPERATIONAL)
    effects = desk.receive(wire.encode_beacon(Beacon(RingId(8, 1), 3), 2, 2))
    assert [type(effect) for effect in effects] == [Halt]
    assert desk.core.halted
    assert desk.core.deadline() == NEVER
    assert desk.receive(token_from(1, next_token(desk))) == []


@pytest.mark.parametrize("state", State)
def test_a_late_datagram_of_ones_own_is_dropped(state: State) -> None:
    _, desk = reach(state)
    for incarnation in (0, 1):
        datagram = wire.encode_beacon(Beacon(RingId(400, 2), 3), 2, incarnation)
        assert dropped(desk, datagram, "own datagram")


# -- being late ------------------------------------------------------------------------------


def test_who_is_called_late_suspects_nobody() -> None:
    _, desk = reach(State.OPERATIONAL)
    timers = desk.machine.timers
    late = desk.core.deadline() + 7_501
    assert timers.token_loss.deadline < late + 15_000
    desk.expire(late)
    assert desk.state is State.OPERATIONAL
    assert timers.token_loss.deadline == late + 15_000


def test_a_little_late_is_not_late() -> None:
    _, desk = reach(State.OPERATIONAL)
    deadline = desk.machine.timers.token_loss.deadline
    desk.machine.timers.token_retransmit.stop()
    assert desk.core.deadline() == deadline
    desk.expire(deadline + 7_500)
    assert desk.state is State.GATHER


def test_joins_queued_while_i_was_suspended_are_dropped() -> None:
    _, desk = reach(State.OPERATIONAL)
    desk.now = desk.core.deadline() + 50_000
    stale = join_from(3, {1, 2, 3}, ring_seq=99)
    assert dropped(desk, stale, "join queued while I was paused")
    desk.expire(desk.now)
    desk.now += 1_999
    assert dropped(desk, stale, "join queued while I was paused")
    desk.now += 1
    desk.receive(stale)
    assert desk.state is State.GATHER


def test_in_gather_being_late_gives_everybody_their_full_time_again() -> None:
    _, desk = reach(State.GATHER)
    late = desk.now + 100_000
    desk.expire(late)
    assert desk.state is State.GATHER
    assert desk.machine.timers.consensus.deadline == late + 8_000
    assert desk.machine.membership.fail_set == frozenset()


def test_a_ring_of_one_with_nothing_to_do_is_not_late() -> None:
    desk = ring_of(1)[1]
    desk.now = desk.core.deadline() - 1
    desk.submit(b"rare")
    assert ("operational", "pause") not in desk.core.pairs()


# -- bad bytes -------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "header: size"),
        (b"\x01" * 12, "header: size"),
        (wire.HEADER.pack(0, 3, 1), "header: kind"),
        (wire.HEADER.pack(10, 3, 1), "header: kind"),
        *((wire.HEADER.pack(kind, 0, 1), "header: nobody") for kind in wire.KIND_NAMES),
        (wire.HEADER.pack(wire.REGULAR, 3, 1), "regular: size"),
        (wire.HEADER.pack(wire.TOKEN, 3, 1) + b"x" * 62, "token: rtr list does not fit its count"),
        (wire.HEADER.pack(wire.PART, 3, 1), "part: size"),
        (wire.HEADER.pack(wire.ROW, 3, 1), "row: size"),
    ],
)
def test_bad_bytes_are_counted_and_dropped(state: State, datagram: bytes, reason: str) -> None:
    _, desk = reach(state)
    assert dropped(desk, datagram, reason)


def test_recovery_traffic_that_cannot_be_read_is_dropped_whole() -> None:
    _, desk = reach(State.RECOVERY)
    datagram = regular(desk.machine.my_ring_id, 1, 1, b"too short", flags=1)
    assert dropped(desk, datagram, "encapsulated: size")
    assert not desk.machine.ring.buffer.has(1)


# -- frames in parts -------------------------------------------------------------------------


def test_a_commit_token_in_parts_is_acted_on_when_it_is_whole() -> None:
    _, desk = reach(State.GATHER)
    frame = wire.encode_commit(commit_for(desk, 1), 1, 1)
    parts = split(frame, 1, 60)
    assert len(parts) > 2
    for datagram in parts[:-1]:
        assert desk.receive(datagram) == []
    desk.receive(parts[-1])
    assert desk.state is State.COMMIT


def test_a_ring_forms_of_commit_tokens_in_parts() -> None:
    bench = Bench(1, 2, 3, parameters=Desk(1).machine.parameters._replace(datagram_max=100))
    bench.start()
    bench.run_until(lambda: bench.is_ring(1, 2, 3))
    said = [effect for _, effect in bench.told]
    assert datagrams(said, wire.PART)
    assert not datagrams(said, wire.COMMIT)


# -- the whole -------------------------------------------------------------------------------


def test_a_deadline_is_the_first_of_all_timers() -> None:
    _, desk = reach(State.OPERATIONAL)
    timers = desk.machine.timers
    assert desk.core.deadline() == min(timer.deadline for timer in timers.every)


def test_pairs_tell_which_events_met_which_states() -> None:
    bench = ring_of(1, 2, 3)
    pairs = bench[2].core.pairs()
    assert ("gather", "join") in pairs
    assert ("commit", "commit") in pairs
    assert ("recovery", "token") in pairs
    assert ("operational", "token") in pairs


@pytest.mark.parametrize("size", [64, 128])
def test_rings_as_large_as_they_may_be_form(size: int) -> None:
    slow = Parameters(token_loss=200_000, token_retransmit=50_000, join=20_000, consensus=100_000)
    slow.check(size)
    world = World(Setup(Options(tuple(range(1, size + 1)), parameters=slow)), TOTEM)
    assert world.run_until(world.is_converged, limit=1_000_000)
    joins = size * size * 10
    assert world.datagrams < joins, "a herd's Joins are not gathered"


# -- datagrams that come together ------------------------------------------------------------


class Arrival(NamedTuple):
    """A message as it may come: mostly the next one, sometimes anything else."""

    ahead: int = 0
    sender: int = 1
    transmitter: int = 1
    ring_seq: int = 0  # beside mine
    code: int = 1
    flags: int = 0
    timestamp: int = 0
    kind: int = wire.REGULAR
    size: int = 5

    def laid_out(self, ring: Ring, at: int) -> bytes:
        ring_seq, ring_rep = ring.ring_id
        fixed = wire.REGULAR_FRAME.pack(
            self.kind,
            self.transmitter,
            1,
            self.sender,
            max(0, ring_seq + self.ring_seq),
            ring_rep,
            max(0, ring.buffer.high + at + self.ahead),
            self.code,
            self.flags,
            self.timestamp,
        )
        return (fixed + b"%5d" % at)[: len(fixed) + self.size]


def odd(**field: list[int]) -> SearchStrategy[Arrival]:
    """Return arrivals that are odd in one field."""
    ((name, values),) = field.items()
    return sampled_from([Arrival()._replace(**{name: value}) for value in values])


USUAL = just(Arrival())
ODD = one_of(
    odd(ahead=[-1, 1, 2, -9, 2**61]),
    odd(sender=[2, 3, 0, 99]),
    odd(transmitter=[3, 2, 0, 99]),
    odd(ring_seq=[-4, 4]),
    odd(code=[2, 0, 3]),
    odd(flags=[RETX, ENCAP, 4]),
    odd(timestamp=[2**63]),
    odd(kind=[wire.HOLD_CANCEL, 99]),
    odd(size=[0, -1, -60]),
)


@settings(report_multiple_bugs=False, max_examples=200)
@given(lists(tuples(one_of(USUAL, ODD), integers(1, 4)), min_size=1, max_size=5), booleans())
def test_datagrams_that_come_together_have_the_effects_of_one_after_the_other(
    alike: list[tuple[Arrival, int]], is_one_run: bool
) -> None:
    (_, apart), (_, together) = reach(State.OPERATIONAL), reach(State.OPERATIONAL)
    ring = apart.machine.ring
    places = count(1)
    runs = [[one.laid_out(ring, next(places)) for _ in range(times)] for one, times in alike]
    arrived = [*chain.from_iterable(runs)]
    effects = [effect for one in arrived for effect in apart.receive(one)]
    for run in [arrived] if is_one_run else runs:
        together.core.receive_run(run_of(run), together.now)
    at_once = unbundled(together.core.drain())
    assert delivered(at_once) == delivered(effects)
    kinds = [type(one) for one in effects if not isinstance(one, Deliver)]
    assert [type(one) for one in at_once if not isinstance(one, Deliver)] == kinds
    assert digest(together.core) == digest(apart.core)
    assert kept(together.machine.ring) == kept(ring)
    assert together.drops == apart.drops
    assert together.core.pairs() == apart.core.pairs()


def kept(ring: Ring) -> list[RegularMessage]:
    return [ring.message(seq) for seq in sorted(ring.buffer.messages)]


def test_a_run_waits_for_the_hole_before_it_and_fills_it() -> None:
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    high = ring.buffer.high
    for first, told in ((3, []), (7, []), (5, []), (1, [1, 2, 3, 4, 5, 6, 7, 8])):
        seqs = high + first, high + first + 1
        desk.core.receive_run(run_of([regular(ring.ring_id, seq, 1) for seq in seqs]), desk.now)
        assert [one.seq - high for one in ordered(desk.core.drain())] == told
    assert (ring.buffer.aru, ring.buffer.high) == (high + 8, high + 8)


def test_messages_in_order_are_delivered_at_once_and_others_in_order() -> None:
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    seqs = [ring.buffer.high + ahead for ahead in (1, 2, 3, 4)]
    desk.core.receive_run(run_of([regular(ring.ring_id, seq, 1) for seq in seqs]), desk.now)
    (effect,) = desk.core.drain()
    assert isinstance(effect, Deliver)
    assert [one.seq for one in effect.messages()] == seqs
    seqs = [ring.buffer.high + ahead for ahead in (2, 1, 4, 3)]
    desk.core.receive_run(run_of([regular(ring.ring_id, seq, 1) for seq in seqs]), desk.now)
    assert [one.seq for one in ordered(desk.core.drain())] == sorted(seqs)


def test_nothing_is_taken_in_after_a_later_self_was_met() -> None:
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    later_self = wire.encode_regular(message(ring.ring_id, 1, 1), 0, desk.my_id, 99)
    next_one = regular(ring.ring_id, ring.buffer.high + 1, 1)
    desk.core.receive_run(run_of([next_one, later_self]), desk.now)
    assert [type(effect) for effect in desk.core.drain()] == [Deliver, Halt]
    desk.core.receive_run(run_of([regular(ring.ring_id, ring.buffer.high + 1, 1)]), desk.now)
    assert desk.core.drain() == []
