"""A core survives whatever comes: `make hostile` throws a million frames, `make test` a part."""

from random import Random

import pytest

from evensong.core.effects import Halt
from evensong.core.transis import wire
from evensong.core.transis.dag import AHEAD_MAX
from evensong.core.transis.frames import (
    AJ,
    IN_GRAPH,
    JOIN,
    NULL,
    PING,
    REGULAR,
    Ack,
    Entry,
    Message,
    Proposal,
)
from evensong.core.transis.lansis import Lansis
from evensong.core.transis.membership import PROPOSALS_MAX, PUBLISHERS_MAX
from evensong.core.transis.states import VIEW_NO_LEAP, State
from tests.core.transis.hostile import (
    FRAMES_A_LIFE,
    VICTIM,
    Victim,
    check_bounds,
    check_output,
    digest,
    draw,
    is_readable,
    victims,
)
from tests.sim.transis.stage import Stage

CHUNKS = 8


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hostile_frames_change_nothing_that_they_should_not(
    chunk: int, request: pytest.FixtureRequest
) -> None:
    frames = request.config.getoption("--hostile-frames") // CHUNKS
    siege = Siege(Random(f"hostile {chunk}"), victims())
    while siege.thrown < frames:
        siege.besiege()
    assert siege.had_effect > siege.thrown // 100  # not everything bounces off the door


class Siege:
    """Throws frames at cores and looks what becomes of them."""

    def __init__(self, rng: Random, all_victims: list[Victim]) -> None:
        self.rng = rng
        self.victims = all_victims
        self.lives = 0
        self.thrown = 0
        self.had_effect = 0

    def besiege(self) -> None:
        """Throw frames at one core, until it is stopped by what can only be itself."""
        victim = self.victims[self.lives % len(self.victims)]
        self.lives += 1
        core = victim.thaw()
        now = victim.now
        before = digest(core)
        for _ in range(FRAMES_A_LIFE):
            frame = draw(self.rng, victim, core)
            self.thrown += 1
            core.receive(frame, now)
            effects = core.drain()
            after = digest(core)
            if effects:
                self.had_effect += 1
                check_output(effects)
            if core.halted:
                break  # by a later self: its head is enough
            if not is_readable(frame):
                assert not effects
                assert after == before, frame.hex()
            before = after
            if self.rng.random() < 0.02:
                now = pass_time(core, now)
                before = digest(core)
        check_bounds(core)


def pass_time(core: Lansis, now: int) -> int:
    """Let the next timer fire."""
    now = max(now, core.deadline())
    core.expire(now)
    check_output(core.drain())
    core.deadline()
    return now


@pytest.mark.parametrize("state", State)
def test_a_core_that_gets_nothing_else_for_a_long_time_stays_small(state: State) -> None:
    rng = Random(f"long {state.value}")
    all_victims = victims()
    victim = next(one for one in all_victims if one.state is state)
    core = victim.thaw()
    now = victim.now
    for n in range(6_000):
        frame = draw(rng, rng.choice(all_victims), core)
        if wire.HEAD.size <= len(frame) and wire.HEAD.unpack_from(frame)[1] == VICTIM:
            continue  # a later self would stop it
        core.receive(frame, now)
        check_output(core.drain())
        if n % 10 == 0:
            now = pass_time(core, now)
        if n % 100 == 0:
            check_bounds(core)
    assert not core.halted


def crafted(
    core: Lansis,
    sender: int,
    kind: int,
    ahead: int = 1,
    acks: tuple[Ack, ...] = (),
    proposal: Proposal | None = None,
) -> Message:
    """Make the next message of a member, or one that it should not send."""
    view = core.machine.view
    index = view.graph.index_by_member[sender]
    number = view.graph.inserted[index] + ahead
    return wire.make_message(
        kind,
        wire.NO_SERVICE,
        sender,
        view.graph.members[index][1],
        view.view_id,
        1_000 + number,
        1_000,
        acks,
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


def state_of(core: Lansis) -> State:
    return core.machine.state


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


def test_who_publishes_in_a_view_without_being_in_it_is_not_heard() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    view_id = core.machine.view.view_id
    joint = (*core.machine.agreement.mates, Entry(9, 1, view_id.seq))
    message = wire.make_message(
        JOIN,
        wire.NO_SERVICE,
        9,
        1,
        view_id,
        1,
        0,
        (),
        0,
        b"",
        Proposal(joint, joint[1:2]),
        False,
        0,
    )
    for _ in range(2):  # the second time it would agree to what the first had us propose
        core.receive(wire.encode_head(JOIN, 9, 1, view_id) + message.frame, stage.world.now)
    assert state_of(core) is State.STABLE
    assert core.machine.flow.drops.get("join of no member in its name") == 2


def test_a_member_that_speaks_of_what_only_i_have_of_who_failed_does_not_stop_me() -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    core = stage.core(1)
    mates = core.machine.agreement.mates
    proposal = Proposal(mates, mates[2:])
    numbers = [*core.machine.view.graph.inserted]
    # 2 says that 3 has failed, and then what no honest processor says behind a JOIN: it has heard
    # of a message of 3 that is in the past of no JOIN.
    hear(stage, crafted(core, 2, REGULAR, 2, acks=((3, numbers[2] + 1),)))
    join = crafted(core, 2, JOIN, 1, proposal=proposal)
    core.machine.on_break(3, "silent", stage.world.now)
    hear(stage, crafted(core, 3, REGULAR, 1))
    hear(stage, join)
    assert core.machine.view.procs == (1, 2)
    assert not core.halted


def leaping(core: Lansis, kind: int, body: bytes, leap: int) -> bytes:
    view_id = core.machine.view.view_id
    return wire.encode_head(kind, 9, 1, view_id._replace(seq=view_id.seq + leap)) + body


def test_a_leap_in_view_numbers_is_not_followed() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    me = core.machine.agreement.me
    far = Entry(9, 1, me.view_no + VIEW_NO_LEAP + 1)
    near = Entry(9, 1, me.view_no)
    view_id = core.machine.view.view_id._replace(seq=near.view_no, rep=77)
    proposal = Proposal((me, near, far), ())
    message = wire.make_message(
        JOIN, wire.NO_SERVICE, 9, 1, view_id, 5, 0, (), 0, b"", proposal, False, 0
    )
    core.receive(wire.encode_head(JOIN, 9, 1, view_id) + message.frame, stage.world.now)
    assert state_of(core) is State.STABLE
    assert core.machine.flow.drops["join with a leap in view numbers"] == 1
    core.receive(leaping(core, NULL, message.frame, VIEW_NO_LEAP + 1), stage.world.now)
    core.receive(leaping(core, PING, b"", VIEW_NO_LEAP + 1), stage.world.now)
    assert core.machine.flow.drops.get("head: a leap in view numbers") == 2
    assert state_of(core) is State.STABLE
    core.receive(leaping(core, PING, b"", VIEW_NO_LEAP), stage.world.now)
    assert state_of(core) is State.COLLECT


def test_of_those_who_might_join_no_more_are_kept_than_a_proposal_names() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    core.receive(leaping(core, PING, b"", 0), stage.world.now)
    assert state_of(core) is State.COLLECT
    for start in range(10, 1_000, 100):
        members = [(proc, 1) for proc in range(start, start + 100)]
        frame = wire.encode_attempt(members, leaping(core, AJ, b"", start))
        core.receive(frame, stage.world.now)
        entries = tuple(Entry(proc, 1, 500) for proc in range(9, start + 100, 5))
        view_id = core.machine.view.view_id._replace(seq=500)
        message = wire.make_message(
            JOIN, wire.NO_SERVICE, 9, 1, view_id, 5, 0, (), 0, b"", Proposal(entries, ()), False, 0
        )
        core.receive(wire.encode_head(JOIN, 9, 1, view_id) + message.frame, stage.world.now)
    assert len(core.machine._cands.entries) == wire.ENTRIES_MAX
    core.expire(core.machine.flow.timers.collect.deadline)
    assert state_of(core) is State.AGREE
    check_bounds(core)
    check_output(core.drain())


def test_of_one_publishers_proposals_the_latest_are_kept() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    me, mate = core.machine.agreement.mates
    proposals = [
        Proposal((me, mate, Entry(9, 1, number)), ()) for number in range(1, PROPOSALS_MAX + 10)
    ]
    for ahead, proposal in enumerate(proposals, start=1):
        hear(stage, crafted(core, 2, JOIN, ahead, proposal=proposal))
    kept = core.machine.agreement.pubs[mate]
    assert [*kept] == proposals[-PROPOSALS_MAX:]
    core.machine.on_repeat_timeout(stage.world.now)  # my own latest is there, too


def test_however_many_publish_i_know_what_i_have_published() -> None:
    """A stranger publishes ever more, under ever new views, what cannot be followed."""
    stage = Stage(1, 2, 3)
    stage.form()
    core = stage.core(1)
    me, mate, _ = core.machine.agreement.mates
    for number in range(1, PUBLISHERS_MAX + 10):
        proposal = Proposal(tuple(sorted((me, mate, Entry(9, 1, number)))), (mate,))
        view_id = core.machine.view.view_id._replace(seq=number, rep=77)
        message = wire.make_message(
            JOIN, wire.NO_SERVICE, 9, 1, view_id, number, number - 1, (), 0, b"", proposal, False, 0
        )
        core.receive(wire.encode_head(JOIN, 9, 1, view_id) + message.frame, stage.world.now)
    assert state_of(core) is State.STABLE
    agreement = core.machine.agreement
    assert not agreement.pubs, "what cannot be followed is of no use"
    for number in range(PUBLISHERS_MAX):
        agreement.pubs[Entry(9, 1, number)] = {}
    core.machine.on_break(2, "silent", stage.world.now)
    assert agreement.current() in agreement.pubs.get(me, {})
    core.machine.on_repeat_timeout(stage.world.now)


def test_who_publishes_by_two_entries_holds_nobody_up() -> None:
    stage = Stage(1, 2)
    stage.form()
    core = stage.core(1)
    agreement = core.machine.agreement
    twice = [Entry(9, 1, number) for number in (5, 7)]
    core.machine.enter_agree(stage.world.now, "join message", 9, twice, ())
    proposal = agreement.current()
    mine = agreement.pubs[agreement.me][proposal]
    for entry in proposal.required():
        agreement.record(entry, proposal, mine)
    assert not agreement.late()
    assert agreement.doubled() == [twice[0]]
    core.machine.on_agree_timeout(stage.world.now)
    assert twice[0] in agreement.failed
    assert twice[1] not in agreement.failed


def test_nothing_is_kept_that_is_far_ahead_of_what_everybody_has() -> None:
    stage = Stage(1, 2, 3)
    stage.form()
    stage.cut_off(3)  # from now on nothing becomes stable
    core = stage.core(1)
    graph = core.machine.view.graph
    stable = graph.stable[1]
    graph.inserted[1] = graph.known[1] = stable + AHEAD_MAX - 1
    hear(stage, crafted(core, 2, NULL, 1))
    hear(stage, crafted(core, 2, NULL, 1))
    assert graph.known[1] == stable + AHEAD_MAX
    assert core.machine.flow.drops.get("message that cannot be") == 1


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
