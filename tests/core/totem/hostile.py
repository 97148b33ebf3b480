"""Frames that no honest processor sends, and what must be true of a core that gets them.

Half of the frames are honest ones with fields moved a little, a quarter have hostile values, a
quarter is noise. The cores are in each of the four states, and put back there often.
"""

import pickle
import struct
from collections.abc import Callable
from random import Random
from typing import Final

from evensong.core.effects import Broadcast, Effect, Service, Unicast
from evensong.core.ids import PROCESSORS_MAX
from evensong.core.totem import wire
from evensong.core.totem.ordering import Ring
from evensong.core.totem.parameters import Parameters
from evensong.core.totem.recovery import Recovery
from evensong.core.totem.ring import SingleRing
from evensong.core.totem.rows import Outgoing, decode_row
from evensong.core.totem.states import State
from tests.core.totem.bench import Bench, loses_tokens, ring_of

PARAMETERS: Final = Parameters(receive_horizon=60)
FRAMES_A_LIFE: Final = 300  # after so many a core is put back to where it was
REASONS_MAX: Final = 64
HOSTILE: Final = (0, 1, 2**31, 2**31 + 1, 2**32 - 1, 2**62 - 1, 2**62, 2**62 + 1, 2**63, 2**64 - 1)
B, H, I, Q = (struct.Struct(layout) for layout in ("!B", "!H", "!I", "!Q"))  # noqa: E741 - as in struct

# Where the fields of a frame are, by kind: the header's transmitter and incarnation, then its own.
HEADER: Final = ((1, I), (5, Q))
RING: Final = ((13, Q), (21, I))
FIELDS: Final[dict[int, tuple[tuple[int, struct.Struct], ...]]] = {
    wire.REGULAR: ((13, I), (17, Q), (25, I), (29, Q), (29, Q), (37, B), (38, B), (39, Q)),
    wire.TOKEN: (
        *RING,
        *((at, Q) for at in (25, 25, 33, 33, 41, 41, 66, 75)),
        *((at, I) for at in (49, 53, 57, 62, 83)),
        *((at, B) for at in (61, 74)),
    ),
    wire.JOIN: ((13, Q), (21, H), *((at, I) for at in (23, 27, 31, 35)), (35, B)),
    wire.COMMIT: (
        *RING,
        *((at, Q) for at in (25, 35, 63, 76, 80, 84, 92, 100)),
        *((at, B) for at in (33, 34, 63, 67, 112, 116)),
        *((at, H) for at in (43, 45)),
        *((at, I) for at in (47, 51, 55, 59, 63, 72)),
    ),
    wire.BEACON: (*RING, (25, H)),
    wire.HOLD_CANCEL: RING,
    wire.LEAVE: RING,
    wire.PART: ((13, I), (17, B), (18, B)),
    wire.ROW: (
        *((13, I), (17, Q), (25, I), (29, Q), (29, Q), (37, B), (38, B), (39, Q)),
        *((at, H) for at in (47, 49, 51, 53)),
    ),
}
DECODERS: Final[dict[int, Callable[[bytes], object]]] = {
    wire.REGULAR: wire.decode_regular,
    wire.TOKEN: wire.decode_token,
    wire.JOIN: wire.decode_join,
    wire.COMMIT: wire.decode_commit,
    wire.BEACON: wire.decode_beacon,
    wire.HOLD_CANCEL: wire.decode_hold_cancel,
    wire.LEAVE: wire.decode_leave,
    wire.ROW: decode_row,
}


class Victim:
    """A core in a state, to be put back there, and honest frames of its time."""

    def __init__(self, bench: Bench, state: State) -> None:
        desk = bench[2]
        assert desk.state is state
        self.state = state
        self.frozen = pickle.dumps(desk.core)
        self.now = bench.now
        self.honest: list[bytes] = []

    def thaw(self) -> SingleRing:
        core = pickle.loads(self.frozen)
        assert isinstance(core, SingleRing)
        return core


def victims() -> list[Victim]:
    """Return cores that have been through something, one in each state, with frames around it."""
    return [_victim(state) for state in State]


def _victim(state: State) -> Victim:
    bench = _busy_ring()
    if state is not State.OPERATIONAL:
        bench.loses = loses_tokens
        bench.run_until(lambda: bench[2].state is state)
    victim = Victim(bench, state)
    before = _said(bench)
    rare = _rare(bench)
    bench.loses = lambda source, target, datagram: False
    bench.run(20_000)
    after = _said(bench)[len(before) :]
    by_kind: dict[int, list[bytes]] = {}
    for datagrams in (rare, after[:120], before[::-1][:120], after, before):
        for datagram in datagrams:
            known = by_kind.setdefault(datagram[0], [])
            if len(known) < 60 and datagram not in known:
                known.append(datagram)
    assert len(by_kind) == len(wire.KIND_NAMES)
    most = max(map(len, by_kind.values()))
    for datagrams in by_kind.values():  # every kind as often as any other
        victim.honest += (datagrams * (most // len(datagrams) + 1))[:most]
    return victim


def _said(bench: Bench) -> list[bytes]:
    """Return what the victim heard or could have heard."""
    return [
        effect.datagram
        for node, effect in bench.told
        if node != 2 and isinstance(effect, Broadcast | Unicast)
    ]


def _busy_ring() -> Bench:
    bench = ring_of(1, 2, 3, parameters=PARAMETERS)
    lost = Random(5)
    bench.loses = lambda source, target, datagram: (
        datagram[0] == wire.REGULAR and lost.random() < 0.3
    )
    for node in (1, 2, 3):
        for n in range(20):
            service = Service.SAFE if n % 2 else Service.AGREED
            bench.submit(node, b"%d of %d" % (n, node), service=service)
    bench.run_until(lambda: bench[2].machine.ring.buffer.high > 20)
    return bench


def _rare(bench: Bench) -> list[bytes]:
    """Return frames of the kinds that seldom pass."""
    machine = bench[2].machine
    frames = [
        wire.encode_leave(machine.my_ring_id, 3, 1),
        wire.encode_hold_cancel(machine.my_ring_id, 3, 1),
        wire.BEACON_FRAME.pack(wire.BEACON, 9, 1, 40, 9, 2),
    ]
    ring = machine.ring
    for first, payloads in (
        (ring.buffer.high + 1, [b"one", b"two"]),
        (ring.buffer.high - 1, [b"one", b"two", b"three"]),
        (ring.buffer.aru + 1, [b"one"] * 5),
    ):
        told = (ring.ring_id, max(1, first), Service.AGREED, 3, payloads)
        frames += Outgoing(3, 1, *told).rows(64, 1_000)
    stranger = wire.BEACON_FRAME.pack(wire.BEACON, 1, 1, *machine.my_ring_id, 3)
    return [*frames, stranger, b"\x08" + frames[0][1:13] + b"\x00\x00\x00\x07\x00\x02" + frames[0]]


def draw(rng: Random, victim: Victim) -> bytes:
    """Draw a frame: half moved a little, a quarter with hostile values, a quarter noise."""
    lot = rng.random()
    honest = victim.honest[int(rng.random() * len(victim.honest))]
    if lot >= 0.75:
        return _noise(rng, honest)
    frame = bytearray(honest)
    fields = FIELDS[frame[0]]
    if rng.random() < 0.1:
        fields = HEADER
    for _ in range(1 if rng.random() < 0.7 else 3):
        at, layout = fields[int(rng.random() * len(fields))]
        if at + layout.size > len(frame):
            continue
        if lot < 0.5:
            (value,) = layout.unpack_from(frame, at)
            value += (-4, -1, 0, 1, 1, 2, 4, 50)[int(rng.random() * 8)]
        else:
            value = HOSTILE[int(rng.random() * len(HOSTILE))]
        layout.pack_into(frame, at, value % (1 << 8 * layout.size))
    return bytes(frame)


def _noise(rng: Random, honest: bytes) -> bytes:
    lot = rng.random()
    if lot < 0.3:
        return rng.randbytes(int(rng.random() * 120))
    if lot < 0.6:
        return honest[:1] + rng.randbytes(int(rng.random() * 120))
    if lot < 0.8:
        return honest[: int(rng.random() * len(honest))] + rng.randbytes(int(rng.random() * 20))
    frame = bytearray(honest)
    for _ in range(3):
        frame[int(rng.random() * len(frame))] ^= 1 << int(rng.random() * 8)
    return bytes(frame)


def digest(core: SingleRing) -> tuple[object, ...]:
    """Return everything that a rejected frame must leave as it is."""
    machine = core.machine
    membership = machine.membership
    holder = machine.holder
    timers = machine.timers
    return (
        core.halted,
        machine.state,
        machine.my_ring_id,
        machine.ceiling,
        machine.cause,
        machine.frame_no,
        machine.joined_at,
        machine.stale_joins_until,
        membership.my_memb,
        membership.proc_set,
        membership.fail_set,
        membership.agreed,
        len(membership.last_joins),
        len(membership.failed_attempts),
        len(machine.strangers.strangers),
        holder.held_token,
        holder.last_token_seq,
        len(holder.last_token),
        holder.hold_cancelled,
        holder.regular_at,
        timers.token_loss.deadline,
        timers.token_retransmit.deadline,
        timers.consensus.deadline,
        timers.join.deadline,
        timers.hold.deadline,
        timers.beacon.deadline,
        _of_ring(machine.ring),
        _of_ring(machine.old) if machine.old is not machine.ring else None,
        _of_recovery(machine.recovery) if machine.recovery is not None else None,
    )


def _of_ring(ring: Ring) -> tuple[object, ...]:
    buffer, ending, flow = ring.buffer, ring.ending, ring.flow
    return (
        ring.ring_id,
        ring.my_token_seq,
        ring.aru_forwarded,
        ring.my_safe,
        ring.high_delivered,
        ring.idle_visits,
        ring.seq_seen,
        ring.stuck_visits,
        ring.stuck_since,
        ring.seqs_visited[-1],
        buffer.aru,
        buffer.high,
        buffer.released,
        len(buffer.messages),
        flow.my_trc,
        flow.my_pbl,
        ending.frozen,
        ending.received_flg,
        ending.deliver_memb,
        ending.high_ring_delivered,
    )


def _of_recovery(recovery: Recovery) -> tuple[object, ...]:
    return (
        recovery.ring_id,
        len(recovery.retrans_queue),
        recovery.retrans_flg_count,
        recovery.install_seq,
        recovery.install_rotations,
        recovery.token_originated,
        recovery.deliver_memb,
        recovery.high_ring_delivered,
    )


def check_output(effects: list[Effect]) -> None:
    """Whatever a core says, others can read."""
    for effect in effects:
        if isinstance(effect, Broadcast | Unicast) and effect.datagram[0] != wire.PART:
            DECODERS[effect.datagram[0]](effect.datagram)


def check_bounds(core: SingleRing) -> None:
    """Nothing in a core grows beyond what is written down."""
    machine = core.machine
    membership = machine.membership
    horizon = machine.parameters.receive_horizon
    for ring in (machine.ring, machine.old):
        assert len(ring.buffer.messages) <= 2 * horizon
        assert len(ring.ending.deliver_memb) <= wire.TABLE_MAX + PROCESSORS_MAX
        assert len(ring.seqs_visited) <= machine.parameters.miss_count
        assert all(0 < seq <= ring.buffer.high for seq in ring.buffer.messages)
        assert ring.buffer.released <= ring.my_safe <= ring.buffer.aru <= ring.buffer.high
    assert membership.fail_set < membership.proc_set
    assert machine.my_id in membership.proc_set - membership.fail_set
    assert len(membership.proc_set) <= PROCESSORS_MAX
    assert len(membership.last_joins) <= PROCESSORS_MAX
    assert len(membership.failed_attempts) <= 2 * PROCESSORS_MAX
    assert len(membership.agreed) <= PROCESSORS_MAX
    assert len(machine.strangers.strangers) <= PROCESSORS_MAX
    assert len(core.parts.unfinished) <= PROCESSORS_MAX
    assert len(machine.holder.last_token) <= 64
    assert len(machine.drops) <= REASONS_MAX
    assert sum(map(len, machine.met_by_state.values())) <= REASONS_MAX
    if machine.recovery is not None:
        assert len(machine.recovery.retrans_queue) <= 2 * horizon
