"""Well-formed frames that no honest ring sends, each at the moment at which it would do harm."""

from evensong.core.totem import wire
from evensong.core.totem.states import State
from tests.core.totem.bench import HOP_US, next_token, reach, ring_of, token_from
from tests.core.totem.table import dropped


def test_a_second_token_is_refused_while_one_rests_here() -> None:
    bench = ring_of(1, 2, 3)
    rep = bench[1]
    bench.run_until(lambda: rep.machine.holder.held_token is not None)
    second = next_token(rep)
    second.token_seq = rep.machine.ring.my_token_seq + 1
    second.backlog = 1
    assert dropped(rep, token_from(3, second), "token that cannot be")
    bench.submit(1, b"awake")
    bench.run(20 * HOP_US)
    assert [bench.payloads(node) for node in (1, 2, 3)] == [[b"awake"]] * 3


def test_the_representative_takes_no_token_before_its_own() -> None:
    bench, rep = reach(State.RECOVERY, node=1)
    assert rep.machine.recovery is not None
    assert not rep.machine.recovery.token_originated
    early = next_token(rep)
    early.token_seq = 1
    assert dropped(rep, token_from(3, early), "token that cannot be")
    bench.run_until(lambda: bench.is_ring(1, 2, 3))
    assert bench.is_ring(1, 2, 3)


def test_noise_that_bears_my_id_does_not_stop_me() -> None:
    _, desk = reach(State.OPERATIONAL)
    for kind in (0, wire.TOKEN, wire.BEACON, wire.PART, 255):
        desk.receive(wire.HEADER.pack(kind, desk.my_id, 2**64 - 1))
        assert not desk.core.halted
