"""The stages of a message's way, and which function belongs to which: plain data.

A sample belongs to the innermost of its frames that has a stage. Modules are named without the
package's name; a function that is named here goes before its module. What serves several stages is
the caller's, and so is whatever is not named at all: the standard library, the objects of effects.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

DAEMON, CLIENT = "daemon", "client"
KINDS = (DAEMON, CLIENT)

PACK = "client: pack and hand over"
READ = "daemon: read from clients"
QUEUE = "groups: queue and pull packets"
RING = "ring: token, broadcast, order, release"
SEAL = "seal"
SEND = "sendmsg to peers"
RECEIVE = "receive from peers"
OPEN = "open"
APART = "groups: take apart, put together"
HAND = "hand to clients: encode, write"
SPLIT = "client: read, split"
MESSAGES = "client: messages"
PROGRAM = "the program itself (the bench)"
REST = "rest: the loop, counters, chores"

# In the order in which a message goes.
WAY = (
    (PACK, CLIENT),
    (READ, DAEMON),
    (QUEUE, DAEMON),
    (RING, DAEMON),
    (SEAL, DAEMON),
    (SEND, DAEMON),
    (RECEIVE, DAEMON),
    (OPEN, DAEMON),
    (APART, DAEMON),
    (HAND, DAEMON),
    (SPLIT, CLIENT),
    (MESSAGES, CLIENT),
    (PROGRAM, CLIENT),
    (REST, DAEMON),
    (REST, CLIENT),
)

CALLER = "as its caller"  # no stage of its own

MODULES: Mapping[str, Mapping[str, str]] = {
    DAEMON: {
        READ: "ipc.splitter",
        QUEUE: "core.groups.sendqueue core.groups.sessions daemon.outbox",
        RING: "core.buffer core.engine core.node core.timer core.totem core.totem.commit "
        "core.totem.flow core.totem.frames core.totem.holder core.totem.membership "
        "core.totem.ordering core.totem.parameters core.totem.parts core.totem.recovery "
        "core.totem.ring core.totem.rows core.totem.states core.totem.timers core.totem.wire",
        SEAL: "daemon.seal",
        SEND: "daemon.datagrams daemon.rowsize daemon.transmitter",
        OPEN: "daemon.opening",
        APART: "core.groups core.groups.assembly core.groups.control core.groups.directory "
        "core.groups.exchange core.groups.layer core.groups.notes core.groups.routes "
        "core.groups.steps core.groups.transfer core.groups.unordered core.groups.views",
        HAND: "daemon.connection daemon.sessions",
        REST: "core.stable daemon daemon.control daemon.converter daemon.credentials "
        "daemon.diagnosis daemon.doctor daemon.driver daemon.facts daemon.flight daemon.flood "
        "daemon.keys daemon.lag daemon.lastwords daemon.lines daemon.listener daemon.local_socket "
        "daemon.log daemon.main daemon.observer daemon.orders daemon.pace daemon.probe "
        "daemon.receipts daemon.reload daemon.settings daemon.sight daemon.small daemon.sockets "
        "daemon.spool daemon.stable daemon.tail daemon.telling daemon.tuning daemon.watch",
        CALLER: "core core.core core.effects core.groups.events core.groups.frame "
        "core.groups.limits core.groups.packet core.ids core.run core.unit daemon.burst ipc "
        "ipc.frames ipc.pieces ipc.unsent ipc.views ipc.wire",
    },
    CLIENT: {
        PACK: "client.connection client.consignment client.naming client.outgoing client.rules",
        SPLIT: "client.dialogue client.refusals client.safety ipc.splitter",
        MESSAGES: "client.message client.packing client.replica client.streams",
        PROGRAM: "bench.member",
        REST: "client client.address",
        CALLER: "client.blocking client.flights client.link ipc ipc.frames ipc.pieces ipc.unsent "
        "ipc.views ipc.wire",
    },
}

FUNCTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    DAEMON: {
        READ: {
            "daemon.connection": "_on_ready read set_reading consumed",
            "daemon.sessions": "may_read on_asked _read_passed_over _wishes_much _is_time_left "
            "_go_on expire _do _ask _greet _hand_over",
        },
        QUEUE: {
            "core.groups.layer": "send",
            "core.node": "backlog pull weight send send_many",
        },
        RING: {
            "daemon.driver": "perform _perform_effects _count _drain_events _hand_over _transmit",
        },
        SEND: {"daemon.seal": "long_max"},
        RECEIVE: {
            "daemon.datagrams": "drain _drain _drain_merged _kin",
            "daemon.driver": "_on_datagrams _drained",
        },
        OPEN: {"daemon.driver": "_opened _opened_long _is_admitted refuse"},
        APART: {"core.node": "_climb drain_events"},
        REST: {
            "daemon.datagrams": "look_for_lost resolve_again _resolve_names _look_up",
            "daemon.seal": "make_key cluster_id traffic_key",
            "daemon.sessions": "_on_connection tend status",
        },
        CALLER: {"daemon.driver": "clock", "daemon.seal": "pieces_of"},
    },
    CLIENT: {
        PACK: {
            "client.dialogue": "can_send destination _define check_size send _begin_frame "
            "send_frame _take_off _close_frame take_parts take_output _send_notes _say _check_open",
            "client.link": "flush_soon _flush _write",
            "client.packing": "as_bytes pack",
        },
        SPLIT: {
            "client.link": "_on_readable _read_rest",
            "client.streams": "put",
        },
        MESSAGES: {
            "client.connection": "__anext__ __aiter__ batches",
            "client.dialogue": "_consume",
        },
        REST: {"asyncio.base_events": "_run_once run_forever run_until_complete"},
        CALLER: {"bench.member": "main"},
    },
}

# Who is in one of these waits, whatever a sampler calls it: a process that was just woken counts
# as running until it has a core.
WAITING: Mapping[str, str] = {
    "concurrent.futures.thread": "_worker",
    "daemon.watch": "wait look",
    "selectors": "select",
    "threading": "wait join _wait_for_tstate_lock",
}


class Frame(NamedTuple):
    """A function that was being executed."""

    module: str
    function: str  # with its class, if it has one

    def name(self) -> str:
        return f"{self.module}.{self.function}"

    def last_name(self) -> str:
        return self.function.rpartition(".")[2]


def own_stage(frame: Frame, kind: str) -> str:
    """Return the stage that a frame has by itself, or that it is its caller's."""
    name = frame.last_name()
    if name.startswith("<"):  # part of the function around it
        return CALLER
    for stage, modules in FUNCTIONS[kind].items():
        if name in modules.get(frame.module, "").split():
            return stage
    for stage, named in MODULES[kind].items():
        if frame.module in named.split():
            return stage
    return CALLER


def stage_of(stack: Sequence[Frame], kind: str) -> str:
    """Return the stage of a stack, outermost frame first."""
    for frame in reversed(stack):
        stage = own_stage(frame, kind)
        if stage != CALLER:
            return stage
    return REST


def waits(stack: Sequence[Frame]) -> bool:
    """Whether nothing is done there but wait."""
    return bool(stack) and stack[-1].last_name() in WAITING.get(stack[-1].module, "").split()
