"""Streams in which places do not rise are found by slots of sixteen positions, and no others are.

What is drawn is held against the plain rule: a frame lies above the last message of every frame
before it, and a send above everything that its session had been told.
"""

import random
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from evensong.spark.rising import doubtful_streams
from evensong.spark.tables import small_table

TOLD = (
    "run_id string, node bigint, incarnation bigint, session bigint, ring_seq bigint, "
    "ring_rep bigint, seq bigint, sub int, count int, pos bigint"
)
SENT = TOLD.replace("sub int, count int, ", "")
N_STREAMS = 60
Place = tuple[int, int, int, int]


class Stream(NamedTuple):
    """What a session was told, and what it sent after how much of it."""

    told: list[tuple[Place, int]]  # place of the first message, and how many
    sent: list[tuple[int, tuple[int, int, int]]]


def draw_stream(rng: random.Random) -> Stream:
    """Return a stream of some rings in which everything rises."""
    told: list[tuple[Place, int]] = []
    sent: list[tuple[int, tuple[int, int, int]]] = []
    for ring_seq in sorted(rng.sample(range(4, 40), rng.randrange(1, 5))):
        seq = sub = 0
        for _ in range(rng.randrange(70)):
            if rng.random() < 0.6:
                seq, sub = seq + rng.randrange(1, 4), 0
            count = rng.randrange(1, 4)
            told.append(((ring_seq, 1, seq, sub), count))
            sub += count + rng.randrange(2)
            if rng.random() < 0.2:
                sent.append((len(told), (ring_seq, 1, seq + rng.randrange(1, 9))))
    return Stream(told, sent)


def break_something(rng: random.Random, stream: Stream) -> Stream:
    """Swap two frames, lengthen one, or send one too low."""
    told, sent = list(stream.told), list(stream.sent)
    how = rng.randrange(3)
    if how == 0 and len(told) > 1:
        at = rng.randrange(len(told) - 1)
        told[at], told[at + 1] = told[at + 1], told[at]
    elif how == 1 and told:
        at = rng.randrange(len(told))
        told[at] = (told[at][0], told[at][1] + 2)
    elif told:
        at = rng.randrange(len(told))
        sent.append((at + 1, told[at][0][:3]))
    return Stream(told, sent)


def is_falling(stream: Stream) -> bool:
    """Whether anything lies below what was told before it, one by one."""
    highest: list[Place] = [(0, 0, 0, 0)]
    for (ring_seq, ring_rep, seq, sub), count in stream.told:
        if (ring_seq, ring_rep, seq, sub) <= highest[-1]:
            return True
        highest.append(max(highest[-1], (ring_seq, ring_rep, seq, sub + count - 1)))
    return any(place <= highest[pos][:3] for pos, place in stream.sent)


@pytest.mark.parametrize("seed", range(3))
def test_exactly_the_streams_that_fall_somewhere_are_in_doubt(
    spark: SparkSession, seed: int
) -> None:
    rng = random.Random(seed)
    streams = [draw_stream(rng) for _ in range(N_STREAMS)]
    streams = [break_something(rng, one) if rng.random() < 0.5 else one for one in streams]
    whose = {number: ("r", number % 7 + 1, 1, number) for number in range(N_STREAMS)}
    told = [
        (*whose[number], *place, count, pos)
        for number, one in enumerate(streams)
        for pos, (place, count) in enumerate(one.told)
    ]
    sent = [
        (*whose[number], *place, pos)
        for number, one in enumerate(streams)
        for pos, place in one.sent
    ]
    rng.shuffle(told)
    found = doubtful_streams(small_table(spark, told, TOLD), small_table(spark, sent, SENT))
    falling = {number for number, one in enumerate(streams) if is_falling(one)}
    assert 5 < len(falling) < N_STREAMS - 5
    assert {row["session"] for row in found.collect()} == falling


def test_what_does_not_fit_into_a_slot_is_in_doubt(spark: SparkSession) -> None:
    wide = [("r", 1, 1, 1, 4, 1, 1 << 31, 0, 1, 0)]
    twice = [("r", 1, 1, 2, 4, 1, seq, 0, 1, 0) for seq in (1, 2)]
    apart = [("r", 1, 1, 3, 4, 1, seq, 0, 1, pos) for seq, pos in ((1, 0), (2, 2))]
    told = small_table(spark, [*wide, *twice, *apart], TOLD)
    found = doubtful_streams(told, small_table(spark, [], SENT)).collect()
    assert {row["session"] for row in found} == {1, 2, 3}
