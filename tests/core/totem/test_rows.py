"""A row means what the regular frames of its messages mean, and nothing else."""

from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis.strategies import binary, booleans, integers, lists, sampled_from, tuples

from evensong.core.effects import Deliver, Effect, Service, unbundled
from evensong.core.ids import RingId
from evensong.core.totem import wire
from evensong.core.totem.frames import RegularToken
from evensong.core.totem.rows import COUNT_MAX, ROW_FRAME, ROW_SIZE, Outgoing, decode_row
from evensong.core.totem.states import State
from evensong.errors import MalformedFrame
from tests.core.totem.bench import Desk, delivered, reach
from tests.core.totem.hostile import digest

RING = RingId(8, 1)
PAYLOADS = lists(binary(max_size=40), min_size=1, max_size=30)


def outgoing(
    payloads: list[bytes],
    first: int = 5,
    ring_id: RingId = RING,
    sender: int = 3,
    service: Service = Service.AGREED,
) -> Outgoing:
    return Outgoing(sender, 2, ring_id, first, service, 77, payloads)


@settings(max_examples=200)
@given(
    PAYLOADS,
    booleans(),
    integers(1, 12),
    integers(0, 400),
    sampled_from([Service.AGREED, Service.SAFE]),
)
def test_rows_carry_what_datagrams_carry(
    payloads: list[bytes], is_alike: bool, packets_max: int, bytes_max: int, service: Service
) -> None:
    if is_alike:
        payloads = [payloads[0]] * len(payloads)
    made = outgoing(payloads, service=service)
    rows = made.rows(packets_max, bytes_max)
    stretches = [decode_row(row) for row in rows]
    read = [one.at(seq) for one in stretches for seq in range(one.first_seq, one.last_seq + 1)]
    assert read == [wire.decode_regular(one) for one in made.datagrams()]
    assert [*chain.from_iterable(one.payloads() for one in stretches)] == payloads
    for row, stretch in zip(rows, stretches, strict=True):
        count = stretch.last_seq - stretch.first_seq + 1
        assert count <= packets_max
        assert len(row) <= bytes_max or count == 1
    if packets_max >= len(payloads) and bytes_max == 400 and sum(map(len, payloads)) < 200:
        assert len(rows) == 1, "what fits goes together"


def test_what_is_of_one_length_needs_no_table() -> None:
    (row,) = outgoing([b"four", b"five", b"nine"]).rows(64, 1_000)
    assert len(row) == ROW_SIZE + 12
    (row,) = outgoing([b"four", b"five", b"ten"]).rows(64, 1_000)
    assert len(row) == ROW_SIZE + 3 * 2 + 11
    (row,) = outgoing([b"", b""]).rows(64, 1_000)
    assert decode_row(row).payloads() == [b"", b""]


def test_a_row_of_the_known_ring_shares_its_id() -> None:
    (row,) = outgoing([b"a", b"b"]).rows(64, 1_000)
    assert decode_row(row, RING).ring_id is RING
    assert decode_row(row, RingId(4, 1)).ring_id == RING


FIELDS = ("kind", "who", "life", "sender", "ring", "rep", "first", "code", "flags", "at", "n", "z")
GOOD = dict(zip(FIELDS, (wire.ROW, 3, 2, 3, 8, 1, 5, 1, 0, 77, 2, 3), strict=True))


@pytest.mark.parametrize(
    ("changed", "rest", "reason"),
    [
        ({}, b"", "size"),
        ({}, bytes(65_001), "size"),
        ({"code": 3}, b"abcdef", "service"),
        ({"flags": 1}, b"abcdef", "field"),
        ({"flags": 2}, b"abcdef", "field"),
        ({"first": 0}, b"abcdef", "field"),
        ({"first": wire.SEQ_MAX - 1}, b"abcdef", "field"),
        ({"ring": wire.SEQ_MAX + 1}, b"abcdef", "field"),
        ({"at": wire.SEQ_MAX + 1}, b"abcdef", "field"),
        ({"sender": 0}, b"abcdef", "nobody"),
        ({"rep": 0}, b"abcdef", "nobody"),
        ({"n": 0}, b"abcdef", "lengths"),
        ({"n": 3}, b"abcdef", "lengths"),
        ({"z": 2}, b"abcdef", "lengths"),
        ({"z": 0}, b"\0\1\0\1ab_", "lengths"),
        ({"z": 0}, b"\0\1\0\2ab", "lengths"),
        ({"z": 0}, b"\0\1\0", "lengths"),
        ({"z": 0, "n": 0}, b"\0", "lengths"),
        ({"z": 1, "n": COUNT_MAX + 1}, bytes(COUNT_MAX + 1), "lengths"),
    ],
)
def test_a_row_that_cannot_be_is_refused(changed: dict[str, int], rest: bytes, reason: str) -> None:
    assert decode_row(ROW_FRAME.pack(*GOOD.values()) + b"abcdef").payloads() == [b"abc", b"def"]
    with pytest.raises(MalformedFrame, match=f"row: {reason}"):
        decode_row(ROW_FRAME.pack(*{**GOOD, **changed}.values()) + rest)


Told = tuple[int, int, int, int]  # how far ahead, how many, ring beside mine, who sends


@settings(report_multiple_bugs=False, max_examples=150)
@given(
    sampled_from(State),
    lists(
        tuples(integers(-3, 6), integers(1, 5), sampled_from([0, 0, 0, 4, -4]), integers(1, 3)),
        min_size=1,
        max_size=5,
    ),
    booleans(),
)
def test_a_row_has_the_effects_of_its_messages_one_after_the_other(
    state: State, told: list[Told], is_one_turn: bool
) -> None:
    (_, apart), (_, together) = reach(state), reach(state)
    high = apart.machine.ring.buffer.high
    effects = []
    rows = []
    for ahead, count, ring_beside, sender in told:
        ring_seq, ring_rep = apart.machine.ring.ring_id
        ring_id = RingId(max(0, ring_seq + ring_beside), ring_rep)
        payloads = [b"%d" % n for n in range(count)]
        made = outgoing(payloads, max(1, high + ahead), ring_id, sender)
        for one in made.datagrams():
            effects += apart.receive(one)
        rows += made.rows(64, 1_000)
    for turn in [rows] if is_one_turn else [[row] for row in rows]:
        together.core.receive_many(turn, together.now)
    at_once = unbundled(together.core.drain())
    assert delivered(at_once) == delivered(effects)
    assert others(at_once) == others(effects)
    assert digest(together.core) == digest(apart.core)
    assert kept(together) == kept(apart)
    assert together.drops == apart.drops
    assert together.core.pairs() == apart.core.pairs()


def others(effects: Sequence[Effect]) -> list[type]:
    return [type(one) for one in effects if not isinstance(one, Deliver)]


def kept(desk: Desk) -> list[object]:
    ring = desk.machine.ring
    return [ring.message(seq) for seq in sorted(ring.buffer.messages)]


def test_rows_that_come_together_are_delivered_together() -> None:
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    high = ring.buffer.high
    rows = outgoing([b"a", b"bc", b"d"], high + 1, ring.ring_id, 1).rows(1, 1_000)
    assert len(rows) == 3
    desk.core.receive_many(rows, desk.now)
    told = [one for one in desk.core.drain() if isinstance(one, Deliver)]
    assert [[one.seq for one in each.messages()] for each in told] == [
        [high + n for n in (1, 2, 3)]
    ]


def test_what_ends_a_ring_comes_after_the_rows_before_it() -> None:
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    row, *_ = outgoing([b"a", b"b"], ring.buffer.high + 1, ring.ring_id, 1).rows(64, 1_000)
    desk.core.receive_many([row, *outgoing([b"c"], 1, RingId(400, 9), 9).datagrams()], desk.now)
    effects = desk.core.drain()
    assert isinstance(effects[0], Deliver)
    assert desk.machine.state is State.GATHER


def test_who_holds_the_token_takes_no_row_beyond_it() -> None:
    """Whoever had sent one would have had the token after me."""
    _, desk = reach(State.OPERATIONAL)
    ring = desk.machine.ring
    desk.machine.holder.held_token = RegularToken(ring.ring_id, seq=ring.buffer.high)
    made = outgoing([b"a", b"b"], ring.buffer.high + 1, ring.ring_id)
    (row,) = made.rows(64, 1_000)
    assert desk.receive(row) == []
    assert desk.drops["message that cannot be"] == 2


def test_a_late_row_of_ones_own_is_dropped() -> None:
    _, desk = reach(State.OPERATIONAL)
    made = Outgoing(desk.my_id, 1, desk.machine.ring.ring_id, 1, Service.AGREED, 0, [b"a", b"b"])
    (row,) = made.rows(64, 1_000)
    assert desk.receive(row) == []
    with_noise = row[:-1]
    assert desk.receive(with_noise) == []
    assert desk.drops["row: lengths"] == 1
