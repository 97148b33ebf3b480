"""The cells of the state x event table, and what tests of them share.

Each test says with `cell` which cells it is about; the last test of `test_states_timers.py` sees
that none is left out.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import pytest

from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.core.totem.commit import propose
from evensong.core.totem.frames import CommitToken
from evensong.core.totem.states import State
from tests.core.totem.bench import Desk, entry

OPERATIONAL, GATHER, COMMIT, RECOVERY = State
FORMING: Final = (GATHER, COMMIT, RECOVERY)
EVENTS: Final = (
    "token of my ring",
    "token of another ring",
    "message of my ring",
    "foreign message",
    "foreign beacon",
    "join",
    "commit token",
    "leave",
    "hold cancel",
    "submit",
    "token loss",
    "token retransmit",
    "join timer",
    "consensus timer",
    "hold timer",
    "beacon timer",
)
STRANGER: Final = 9
FOREIGN: Final = RingId(100, STRANGER)
CELLS: Final[set[tuple[State, str]]] = set()
Test = TypeVar("Test", bound=Callable[..., None])


def cell(event: str, *states: State) -> Callable[[Test], Test]:
    assert event in EVENTS
    CELLS.update((state, event) for state in states)
    return lambda test: test


def in_states(*states: State) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=[state.value for state in states])


def dropped(desk: Desk, datagram: bytes, reason: str) -> bool:
    """Whether a datagram is counted as dropped for a reason and has no effect."""
    before, state = desk.drops.get(reason, 0), desk.state
    effects = desk.receive(datagram)
    return not effects and desk.drops.get(reason, 0) == before + 1 and desk.state is state


def commit_for(desk: Desk, filled: int, rotation: int = 1, ring_seq: int = 0) -> CommitToken:
    """Return the commit token of 1, 2 and 3 as it would be after so many entries."""
    machine = desk.machine
    seq = ring_seq or machine.my_ring_id.seq + (4 if desk.state is GATHER else 0)
    commit = propose(RingId(seq, 1), (1, 2, 3))
    for index in range(filled):
        commit.memb[index] = entry(index + 1, machine.old.ring_id)
    if machine.my_entry is not None and desk.state is not GATHER and filled >= machine.my_id:
        commit.memb[machine.my_id - 1] = machine.my_entry
    commit.rotation = rotation
    return commit


def commit_from(transmitter: int, commit: CommitToken) -> bytes:
    return wire.encode_commit(commit, transmitter, 1)
