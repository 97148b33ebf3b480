"""Frames that no honest processor sends, and what must be true of a core that gets them.

Half of the frames are honest ones with fields moved a little, a quarter have hostile values, a
quarter is noise; some speak of the victim's own view and proposal. The cores are in each of the
three states, and put back there often.
"""

import pickle
import struct
from random import Random
from typing import Final

from evensong.core.effects import Broadcast, Effect, Service, Unicast
from evensong.core.ids import PROCESSORS_MAX
from evensong.core.transis import wire
from evensong.core.transis.dag import AHEAD_MAX, Graph
from evensong.core.transis.detection import ACQUAINTANCES_MAX
from evensong.core.transis.frames import (
    AJ,
    IN_GRAPH,
    JOIN,
    KIND_NAMES,
    LEAVE,
    NACK,
    NULL,
    PING,
    PONG,
    REGULAR,
    RETR,
    Entry,
    Proposal,
)
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.membership import PROPOSALS_MAX, PUBLISHERS_MAX
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.repair import RESENDS_MAX
from evensong.core.transis.states import State
from evensong.errors import MalformedFrame
from tests.core.transis.bench import Bench, view_of

VICTIM: Final = 2
STRANGER: Final = 9
PARAMETERS: Final = Parameters(orphans_max=200, early_max=40)
FRAMES_A_LIFE: Final = 300  # after so many a core is put back to where it was
REASONS_MAX: Final = 64
HOSTILE: Final = (0, 1, 2**31, 2**31 + 1, 2**32 - 1, 2**62 - 1, 2**62, 2**62 + 1, 2**63, 2**64 - 1)
SERVICES: Final = (Service.AGREED, Service.SAFE, Service.CAUSAL, Service.BASIC)
B, H, I, Q = (struct.Struct(layout) for layout in ("!B", "!H", "!I", "!Q"))  # noqa: E741 - as in struct

# Where the fields of a frame are, by kind: those of the head, then its own.
HEAD: Final = ((1, I), (5, Q), (13, Q), (21, I))
BODY: Final = wire.HEAD.size
MESSAGE: Final = (
    *((BODY + at, B) for at in (0, 1, 2)),
    (BODY + 3, I),
    *((BODY + at, Q) for at in (7, 15, 27, 27, 27, 35, 43)),
    (BODY + 23, I),
    (BODY + 51, H),
)
ACKS: Final = BODY + wire.MESSAGE.size
FIELDS: Final[dict[int, tuple[tuple[int, struct.Struct], ...]]] = {
    REGULAR: (*MESSAGE, (ACKS, I), (ACKS + 4, Q), (ACKS + 12, I), (ACKS + 16, Q)),
    NULL: (*MESSAGE, (ACKS, I), (ACKS + 4, Q), (ACKS + 12, I), (ACKS + 16, Q)),
    JOIN: (
        *MESSAGE,
        *((ACKS + at, B) for at in (0, 2, 23, 44)),
        *((ACKS + at, I) for at in (3, 24, 45)),
        *((ACKS + at, Q) for at in (7, 15, 28, 36, 49)),
    ),
    RETR: (*MESSAGE, (ACKS, I), (ACKS + 4, Q)),
    NACK: ((BODY, H), (BODY + 2, I), (BODY + 6, Q), (BODY + 14, Q)),
    AJ: ((BODY, H), (BODY + 2, I), (BODY + 6, Q), (BODY + 14, I), (BODY + 18, Q)),
    PING: HEAD,
    PONG: HEAD,
    LEAVE: HEAD,
}


class Victim:
    """A core in a state, to be put back there, and honest frames of its time."""

    def __init__(self, bench: Bench, state: State) -> None:
        core = bench[VICTIM]
        assert core.machine.state is state
        self.state = state
        self.frozen = pickle.dumps(core)
        self.now = bench.now
        self.honest: list[bytes] = []

    def thaw(self) -> Lansis:
        core = pickle.loads(self.frozen)
        assert isinstance(core, Lansis)
        return core


def victims() -> list[Victim]:
    """Return cores that have been through something, one in each state, with frames around it."""
    return [_victim(state) for state in State]


def _victim(state: State) -> Victim:
    bench = _busy_view()
    if state is not State.STABLE:
        bench.loses = lambda source, target, datagram: 4 in (source, target)
        bench.run_until(lambda: bench.is_view(1, VICTIM, 3))
        bench.loses = lambda source, target, datagram: False
        bench.run_until(lambda: bench[VICTIM].machine.state is state)
    victim = Victim(bench, state)
    before = [datagram for source, datagram in bench.said if source != VICTIM]
    bench.run(300_000)
    after = [datagram for source, datagram in bench.said if source != VICTIM][len(before) :]
    by_kind: dict[int, list[bytes]] = {}
    for datagrams in (_rare(victim.thaw()), after[:120], before[::-1][:120], after, before):
        for datagram in datagrams:
            known = by_kind.setdefault(datagram[0], [])
            if len(known) < 60 and datagram not in known:
                known.append(datagram)
    assert len(by_kind) == len(KIND_NAMES)
    most = max(map(len, by_kind.values()))
    for datagrams in by_kind.values():  # every kind as often as any other
        victim.honest += (datagrams * (most // len(datagrams) + 1))[:most]
    return victim


def _busy_view() -> Bench:
    bench = view_of(1, VICTIM, 3, 4, parameters=PARAMETERS)
    lost = Random(5)
    bench.loses = lambda source, target, datagram: datagram[0] == REGULAR and lost.random() < 0.3
    for n in range(12):
        for node in (1, VICTIM, 3, 4):
            bench.submit(node, b"%d of %d" % (n, node), SERVICES[n % len(SERVICES)])
    bench.run_until(lambda: bench[VICTIM].machine.view.n_ordered > 10)
    return bench


def _rare(core: Lansis) -> list[bytes]:
    """Return frames of the kinds that seldom pass, and proposals about the victim's very view."""
    machine = core.machine
    view_id = machine.view.view_id
    frames = [
        wire.encode_head(kind, source, 1, view_id)
        for kind in (PING, PONG, LEAVE)
        for source in (1, 3, STRANGER)
    ]
    mates = machine.agreement.mates
    stranger = Entry(STRANGER, 1, view_id.seq)
    for sender in (1, 3, STRANGER):
        for joint in (mates, tuple(sorted({*mates, stranger}))):
            for failed in ((), mates[-1:], mates[:1]):
                mine = Entry(sender, 1, view_id.seq)
                if mine in joint and mine not in failed:
                    frames += _joins(core, sender, Proposal(joint, failed))
    return frames


def _joins(core: Lansis, sender: int, proposal: Proposal) -> list[bytes]:
    """Return a JOIN as the next message of a member, and the same sent again by another."""
    view = core.machine.view
    index = view.graph.index_by_member.get(sender)
    number = 1 if index is None else view.graph.inserted[index] + 1
    told = (wire.NO_SERVICE, sender, 1, view.view_id, 1_000 + number, 1_000, (), 0, b"")
    message = wire.make_message(JOIN, *told, proposal, False, 0)
    again = 1 if sender != 1 else 3
    return [
        wire.encode_head(JOIN, sender, 1, view.view_id) + message.frame,
        wire.encode_head(RETR, again, 1, view.view_id) + message.frame,
    ]


def draw(rng: Random, victim: Victim, core: Lansis) -> bytes:
    """Draw a frame: half moved a little, a quarter with hostile values, a quarter noise."""
    lot = rng.random()
    if lot < 0.05:
        return _about(rng, core)
    honest = victim.honest[int(rng.random() * len(victim.honest))]
    if lot >= 0.75:
        return _noise(rng, honest)
    frame = bytearray(honest)
    fields = FIELDS[frame[0]] if rng.random() < 0.8 else HEAD
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


def _about(rng: Random, core: Lansis) -> bytes:
    """Draw a frame of somebody who knows what the victim is about, and may be no member."""
    machine = core.machine
    graph, agreement = machine.view.graph, machine.agreement
    sender = rng.choice((1, 3, 4, STRANGER))
    index = graph.index_by_member.get(sender)
    number = 1 + (0 if index is None else graph.inserted[index]) + rng.choice((0, 0, 0, 1, 2, 70))
    acks = tuple(
        (proc, rng.choice((graph.inserted[at], graph.known[at] + 1, 1)) or 1)
        for at, (proc, _) in enumerate(graph.members)
        if proc != sender and rng.random() < 0.4
    )
    kind = rng.choice(IN_GRAPH)
    proposal = None
    if kind == JOIN:
        joint = {*agreement.mates, *agreement.joint, Entry(sender, 1, machine.view.view_id.seq)}
        failed = agreement.failed if rng.random() < 0.7 else set(rng.sample(sorted(joint), 1))
        proposal = Proposal(tuple(sorted(joint)), tuple(sorted(failed)))
    service = rng.choice(SERVICES) if kind == REGULAR else wire.NO_SERVICE
    told = (sender, 1, machine.view.view_id, 1_000 + number, 1_000, acks, 0, b"")
    message = wire.make_message(kind, service, *told, proposal, False, 0)
    return wire.encode_head(kind, sender, 1, machine.view.view_id) + message.frame


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


def is_readable(frame: bytes) -> bool:
    """Whether a frame says anything at all."""
    try:
        decode(frame)
    except MalformedFrame:
        return False
    return True


def decode(frame: bytes) -> None:
    """Read a frame of whatever kind."""
    kind = wire.decode_head(frame).kind
    if kind in IN_GRAPH or kind == RETR:
        wire.decode_message(frame[wire.HEAD.size :], PARAMETERS.allack)
    elif kind == NACK:
        wire.decode_nack(frame)
    elif kind == AJ:
        wire.decode_attempt(frame)
    else:
        wire.decode_bare(frame)


def digest(core: Lansis) -> tuple[object, ...]:
    """Return everything that a frame which says nothing must leave as it is."""
    machine = core.machine
    agreement = machine.agreement
    return (
        core.halted,
        machine.state,
        machine.ceiling,
        machine.cause,
        machine.watch.deadline,
        machine.flow.counter,
        machine.flow.is_quiet,
        tuple(machine.flow.failed),
        tuple(timer.deadline for timer in machine.flow.timers.every),
        tuple(machine.view.requests.deadlines),
        machine.view.resends.deadline(),
        machine.view.view_id,
        len(agreement.joint),
        len(agreement.failed),
        len(agreement.published),
        sum(map(len, agreement.pubs.values())),
        len(machine._cands.entries),
        len(machine._early),
        len(machine.acquaintances._heard),
        _of_graph(machine.view.graph),
        machine.previous is None,
    )


def _of_graph(graph: Graph) -> tuple[object, ...]:
    told = (graph.inserted, graph.known, graph.stable, graph.leaves)
    return (*(repr(one) for one in told), graph.orphan_count, graph.window)


def check_output(effects: list[Effect]) -> None:
    """Whatever a core says, others can read."""
    for effect in effects:
        if isinstance(effect, Broadcast | Unicast):
            decode(effect.datagram)


def check_bounds(core: Lansis) -> None:
    """Nothing in a core grows beyond what is written down."""
    machine = core.machine
    parameters = machine.parameters
    agreement = machine.agreement
    for view in (machine.view, machine.previous):
        if view is None:
            continue
        graph = view.graph
        assert graph.orphan_count == sum(map(len, graph.orphans))
        assert graph.orphan_count <= parameters.orphans_max + graph.size
        for at, nodes in enumerate(graph.nodes):
            assert graph.stable[at] <= graph.inserted[at] <= graph.known[at]
            assert graph.known[at] <= graph.stable[at] + AHEAD_MAX
            assert len(nodes) <= AHEAD_MAX
        assert len(view.resends._due) <= RESENDS_MAX
        assert len(view.resends._insisting) <= RESENDS_MAX
        assert len(view.resends._sent_at) <= 4 * RESENDS_MAX
        assert len(view.resends._again) <= 4 * RESENDS_MAX
    assert len(machine.view.procs) <= PROCESSORS_MAX
    assert agreement.me not in agreement.failed
    assert agreement.failed <= agreement.joint
    assert len(agreement.joint) <= wire.ENTRIES_MAX
    assert len(agreement.pubs) <= PUBLISHERS_MAX
    assert all(len(pubs) <= PROPOSALS_MAX for pubs in agreement.pubs.values())
    assert len(machine._cands.entries) <= wire.ENTRIES_MAX
    assert len(machine._early) <= parameters.early_max
    assert len(machine.acquaintances._heard) <= ACQUAINTANCES_MAX
    assert len(machine.acquaintances._until) <= ACQUAINTANCES_MAX + wire.ENTRIES_MAX
    assert len(machine.flow.drops) <= REASONS_MAX
