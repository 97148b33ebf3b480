"""Frames that are not what they should be: whatever comes, a core goes on."""

from random import Random

import pytest

from evensong.core.effects import Broadcast, Halt, Unicast
from evensong.core.transis import wire
from evensong.core.transis.frames import IN_GRAPH, JOIN, NULL, REGULAR, Entry, Message, Proposal
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.states import VIEW_NO_LEAP, State
from tests.sim.transis.stage import Stage

FRAMES = 4_000
OWN_ID = (1).to_bytes(4, "big")


@pytest.fixture(scope="module")
def said() -> list[bytes]:
    stage = Stage(1, 2, 3)
    stage.form()
    for service in ("a", "b", "c"):
        stage.send(2, service)
        stage.run(5_000)
    stage.crash(3)
    stage.run(200_000)
    return stage.datagrams


def mutated(rng: Random, datagram: bytes) -> bytes:
    """Change a few bytes, cut it short or lengthen it."""
    changed = bytearray(datagram)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 255, rng.randrange(256)))
    if rng.random() < 0.1:
        del changed[rng.randrange(len(changed)) :]
    if rng.random() < 0.05:
        changed += bytes(rng.randrange(40))
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_changed_frames_never_raise_and_never_stop_a_core(seed: int, said: list[bytes]) -> None:
    rng = Random(seed)
    stage = Stage(1, 2, 3)  # as above, so that what was said there is said in this view
    stage.form()
    core = stage.core(1)
    now = stage.world.now
    for _ in range(FRAMES):
        now += rng.randrange(300)
        frame = mutated(rng, rng.choice(said))
        if frame[1:5] == OWN_ID:
            continue  # a later self stops it, and rightly
        core.receive(frame, now)
        if core.deadline() <= now:
            core.expire(now)
        effects = core.drain()
        assert not core.halted
        for effect in effects:
            if isinstance(effect, Broadcast | Unicast):
                wire.decode_head(effect.datagram)
    assert core.machine.flow.drops


def crafted(core: Lansis, sender: int, kind: int, ahead: int = 1, **changed: object) -> Message:
    """Make the next message of a member, or one that it should not send."""
    view = core.machine.view
    index = view.graph.index_by_member[sender]
    number = view.graph.inserted[index] + ahead
    proposal = changed.get("proposal")
    assert proposal is None or isinstance(proposal, Proposal)
    return wire.make_message(
        kind,
        wire.NO_SERVICE,
        sender,
        view.graph.members[index][1],
        view.view_id,
        1_000 + number,
        1_000,
        (),
        0,
        b"",
        proposal,
        False,
        0,
    )


def hear(stage: Stage, message: Message) -> None:
    core = stage.core(1)
    head = wire.encode_head(
        message.kind, message.sender_id, message.incarnation, core.machine.view.view_id
    )
    assert message.kind in IN_GRAPH
    core.receive(head + message.frame, stage.world.now)


def test_a_message_after_its_senders_join_is_never_inserted() -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    core = stage.core(1)
    mates = core.machine.agreement.mates
    proposal = Proposal(mates, mates[2:])
    before = core.machine.view.graph.inserted[1]
    late = crafted(core, 2, REGULAR, 2)
    hear(stage, crafted(core, 2, JOIN, 1, proposal=proposal))
    assert core.machine.view.graph.size == 2 or core.machine.view.graph.inserted[1] == before + 1
    hear(stage, late)
    core.expire(stage.world.now + 10)
    assert not core.halted


def test_a_leap_in_view_numbers_is_not_followed() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    me = core.machine.agreement.me
    far = Entry(9, 1, me.view_no + VIEW_NO_LEAP + 1)
    proposal = Proposal((me, far), ())
    view_id = core.machine.view.view_id._replace(seq=far.view_no)
    message = wire.make_message(
        JOIN, wire.NO_SERVICE, 9, 1, view_id, 5, 0, (), 0, b"", proposal, False, 0
    )
    core.receive(wire.encode_head(JOIN, 9, 1, view_id) + message.frame, stage.world.now)
    assert core.machine.state is State.STABLE
    assert core.machine.flow.drops["join with a leap in view numbers"] == 1


def test_a_frame_in_anothers_name_is_refused() -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    core = stage.core(1)
    message = crafted(core, 2, NULL)
    incarnation = stage.core(3).machine.incarnation
    head = wire.encode_head(NULL, 3, incarnation, core.machine.view.view_id)
    core.receive(head + message.frame, stage.world.now)
    assert core.machine.flow.drops["message: not its transmitter's"] == 1


def test_a_later_self_stops_a_core_and_an_earlier_one_does_not() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    machine = core.machine
    core.receive(machine.flow.head(NULL), stage.world.now)
    assert machine.flow.drops["own datagram"] == 1
    later = wire.encode_head(NULL, 1, machine.incarnation + 1, machine.view.view_id)
    core.receive(later, stage.world.now)
    assert core.halted
    assert any(isinstance(one, Halt) for one in core.drain())
