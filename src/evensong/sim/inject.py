"""How faults strike a world, and how those that last a while end."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from evensong.sim.faults import (
    CRASH_TORN,
    Calm,
    Clog,
    Crash,
    CrashIn,
    Cut,
    DelayNext,
    Drift,
    DropNext,
    Duplicate,
    Ended,
    Fault,
    Heal,
    Leave,
    Lossy,
    Partition,
    Pause,
    Reorder,
    Restart,
    Resume,
    Slow,
    Unclog,
    When,
    describe,
)
from evensong.sim.machine import NO_FUSE, Processor
from evensong.sim.network import DELAY, DROP, Rule

if TYPE_CHECKING:
    from evensong.sim.world import World

RESTART_US: Final = 1_500  # no machine is back sooner; it keeps incarnations apart


def strike(world: "World", fault: Fault) -> None:
    """Let a fault happen now."""
    if any(fault is one for one in world.disarmed):
        return
    if isinstance(fault, Crash | CrashIn | Restart | Leave | Pause | Resume | Slow | Drift):
        processor = world.by_node[fault.node]
        if not isinstance(fault, Restart) and not processor.is_up():
            return  # nothing to be done to a processor that is down
        if processor.life is not None:
            processor.life.note("fault_inject", world.now, describe(fault))
        _strike_processor(world, processor, fault)
    else:
        if not isinstance(fault, When):
            world.count_fault(fault.kind)
        for processor in world.live():
            if processor.life is not None:
                processor.life.note("fault_inject", world.now, describe(fault))
        _strike_network(world, fault)


def _strike_processor(
    world: "World",
    processor: Processor,
    fault: Crash | CrashIn | Restart | Leave | Pause | Resume | Slow | Drift,
) -> None:
    if not isinstance(fault, Crash | CrashIn | Restart):
        world.count_fault(fault.kind)
    if isinstance(fault, Crash):
        if fault.torn or fault.effects:
            # A crash that waits for its moment is counted when it comes.
            processor.torn = fault.torn
            processor.fuse = fault.effects
            processor.fuse_kind = CRASH_TORN if fault.torn else fault.kind
        else:
            world.count_fault(fault.kind)
            world.end(processor, "fail", fault.kind)
    elif isinstance(fault, CrashIn):
        if processor.state == fault.state:
            processor.fuse = fault.effects
            processor.fuse_kind = fault.kind
        else:
            processor.doom = (fault.state, fault.effects)
    elif isinstance(fault, Restart):
        _restart(world, fault)
    elif isinstance(fault, Leave):
        if processor.paused:
            world.resume(processor)
        if processor.is_up():
            world.leave(processor)
    elif isinstance(fault, Pause):
        world.pause(processor)
        if fault.for_us:
            world.schedule(world.now + fault.for_us, Ended(fault))
    elif isinstance(fault, Resume):
        world.resume(processor)
    elif isinstance(fault, Slow):
        _set_cost(world, processor, fault.cost_us)
    elif isinstance(fault, Drift):
        processor.clock.set_rate(fault.ppm, world.now)
        if processor.core is not None and not processor.paused:
            world.rearm(processor, processor.core)
    else:
        assert_never(fault)


def _strike_network(
    world: "World",
    fault: (
        Cut
        | Partition
        | Heal
        | Clog
        | Unclog
        | Lossy
        | Duplicate
        | Reorder
        | DropNext
        | DelayNext
        | Calm
        | When
    ),
) -> None:
    network = world.network
    if isinstance(fault, Cut):
        network.cut(fault.source, fault.target)
    elif isinstance(fault, Partition):
        network.part(fault.components)
    elif isinstance(fault, Heal):
        network.heal(world.now)
    elif isinstance(fault, Unclog):
        network.unclog(fault.source, fault.target, world.now)
    elif isinstance(fault, DropNext):
        kind = world.engine.kinds.names[fault.frame]
        network.add_rule(Rule(DROP, kind, fault.source, fault.target, times=fault.times))
    elif isinstance(fault, DelayNext):
        kind = world.engine.kinds.names[fault.frame]
        late = Rule(
            DELAY, kind, fault.source, fault.target, times=fault.times, delay_us=fault.delay_us
        )
        network.add_rule(late)
    elif isinstance(fault, Calm):
        _calm(world, fault)
    elif isinstance(fault, When):
        world.ambushes.append(fault)
    else:
        if isinstance(fault, Clog):
            network.clog(fault.source, fault.target)
        elif isinstance(fault, Lossy):
            network.set_loss(fault.source, fault.target, fault.probability)
        elif isinstance(fault, Duplicate):
            network.set_duplicate(fault.source, fault.target, fault.probability)
        elif isinstance(fault, Reorder):
            network.set_reorder(fault.source, fault.target, fault.probability, fault.delay_us)
        else:
            assert_never(fault)
        if fault.for_us:
            world.schedule(world.now + fault.for_us, Ended(fault))


def end(world: "World", fault: Fault) -> None:
    """Let a fault that lasts a while be over."""
    if isinstance(fault, Pause):
        world.resume(world.by_node[fault.node])
    elif isinstance(fault, Clog):
        world.network.unclog(fault.source, fault.target, world.now)
    elif isinstance(fault, Lossy | Duplicate | Reorder):
        world.network.restore(fault.source, fault.target)


def _set_cost(world: "World", processor: Processor, cost_us: int) -> None:
    processor.cost_us = cost_us
    if not cost_us:
        processor.busy_until = world.now
    processor.weigh()
    if processor.core is not None and not processor.paused:
        world.rearm(processor, processor.core)


def _restart(world: "World", restart: Restart) -> None:
    processor = world.by_node[restart.node]
    if processor.is_up():
        return
    back_at = processor.down_since + RESTART_US
    if world.now < back_at:
        world.schedule(back_at, replace(restart, at_us=back_at))
        return
    world.count_fault(Restart.kind)
    world.boot(processor, torn=restart.torn)


def _calm(world: "World", calm: Calm) -> None:
    world.network.calm(world.now)
    world.ambushes.clear()
    world.disarmed.extend(world.sprung)
    for processor in world.processors:
        processor.fuse = NO_FUSE
        processor.doom = None
        processor.torn = False
        was_up = processor.is_up()
        if was_up:
            world.resume(processor)
        _set_cost(world, processor, 0)  # of one that is down, too: it comes back
        if not was_up and processor.node not in calm.stay_down and not processor.left:
            _restart(world, Restart(world.now, processor.node))
