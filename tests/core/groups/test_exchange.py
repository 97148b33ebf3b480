"""Components tell their directories; everybody knows when all have been heard."""

import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from evensong.core.groups.control import StatePart, decode_control, encode_state
from evensong.core.groups.directory import Entry, GroupState
from evensong.core.groups.events import MemberId, OrderId
from evensong.core.groups.exchange import (
    ComponentState,
    Exchange,
    decode_state,
    encode_component,
)
from evensong.core.ids import Configuration, RingId
from evensong.errors import MalformedFrame

CONFIGURATION = Configuration(
    RingId(20, 1), RingId(18, 1), (1, 2, 3), transitional=False, cause="test"
)


def place(seq: int, ring: int = 4) -> OrderId:
    return OrderId(RingId(ring, 1), seq, 0)


def group(name: str, *daemons: int, ring: int = 4) -> GroupState:
    entries = [
        Entry(place(n, ring), MemberId(daemon, 1, 1, "ann")) for n, daemon in enumerate(daemons)
    ]
    return GroupState(name, tuple(entries))


def parts_of(state: bytes, content_max: int = 400) -> list[StatePart]:
    parts = [decode_control(content) for content in encode_state(state, content_max)]
    return [part for part in parts if isinstance(part, StatePart)]


def tell(exchange: Exchange, sender: int, state: bytes, content_max: int = 400) -> None:
    for part in parts_of(state, content_max):
        exchange.take(sender, part)


def test_a_state_is_read_back() -> None:
    groups = (group("g", 1, 2, 1), group("h", 2))
    state = encode_component((2, 1), 5, groups)
    assert decode_state(state) == ComponentState((1, 2), 5, groups)


def test_it_is_complete_when_the_components_cover_the_configuration() -> None:
    exchange = Exchange(CONFIGURATION, (1, 2))
    tell(exchange, 3, encode_component((3,), 9, [group("g", 3)]))
    assert not exchange.is_complete()
    tell(exchange, 1, encode_component((1, 2), 4, [group("g", 1), group("h", 2)]))
    assert exchange.is_complete()
    assert exchange.counter() == 9
    assert [one.name for one in exchange.groups()] == ["g", "g", "h"]
    assert exchange.component_of(2) == (1, 2)
    assert exchange.component_of(3) == (3,)


def test_a_state_counts_when_its_last_part_has_come() -> None:
    exchange = Exchange(CONFIGURATION, (1, 2, 3))
    groups = [group(f"{n:04}", 1, 2) for n in range(40)]
    parts = parts_of(encode_component((1, 2, 3), 1, groups), 100)
    assert len(parts) > 10
    for part in parts:
        assert not exchange.is_complete()
        exchange.take(1, part)
    assert exchange.is_complete()
    assert exchange.malformed == 0


@pytest.mark.parametrize(
    ("sender", "state"),
    [
        (2, encode_component((1, 2, 3), 1, [])),
        (1, encode_component((1, 4), 1, [])),
        (1, encode_component((1, 2), 1, [])),
        (1, encode_component((1, 2, 3), 1, [group("g", 1, ring=20)])),
        (1, encode_component((1, 2, 3), 1, [group("g", 1)])[:-1]),
        (1, b""),
    ],
)
def test_a_state_that_cannot_be_is_not_counted(sender: int, state: bytes) -> None:
    exchange = Exchange(CONFIGURATION, (1, 2, 3))
    tell(exchange, sender, state)
    assert not exchange.is_complete()
    assert exchange.malformed == 1


def test_a_component_is_heard_once() -> None:
    exchange = Exchange(CONFIGURATION, (1, 2))
    tell(exchange, 1, encode_component((1, 2), 4, [group("g", 1)]))
    tell(exchange, 1, encode_component((1, 2), 5, [group("g", 1)]))
    assert len(exchange.states) == 1
    assert exchange.malformed == 1


def test_parts_out_of_turn_are_not_counted() -> None:
    exchange = Exchange(CONFIGURATION, (1, 2))
    exchange.take(1, StatePart(1, 2, b""))
    assert exchange.malformed == 1
    assert not exchange.is_complete()


@pytest.mark.parametrize(
    "state",
    [
        encode_component((), 1, []),
        encode_component(range(1, 130), 1, []),
        encode_component((1, 1), 1, []),
        encode_component((1,), 2**63, []),
        encode_component((1,), 1, [group("", 1)]),
        encode_component((1,), 1, [group("g")]),
        encode_component((1,), 1, [group("g", 2)]),
        encode_component((1,), 1, [group("h", 1), group("g", 1)]),
        encode_component((1,), 1, [group("g", 1), group("g", 1)]),
        encode_component((1,), 1, [GroupState("g", group("g", 1).entries * 2)]),
        encode_component((1,), 1, []) + b"x",
    ],
)
def test_what_is_no_state_is_refused(state: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_state(state)


@given(junk=binary(max_size=100), at=integers(0, 80))
def test_junk_gives_one_error(junk: bytes, at: int) -> None:
    state = encode_component((1, 2), 5, [group("g", 1, 2), group("h", 2)])
    try:
        found = decode_state(state[:at] + junk)
    except MalformedFrame:
        return
    assert found.component
