"""Order holds across groups: an answer in one group never comes before its question in another.

p sends m1 to G; q, having received it, sends m2 to H; r, in both groups, sees m1 first [TPG].
"""

from collections import Counter
from random import Random

from evensong import Service
from evensong.testing import Client, Message, cluster
from evensong.testing.client import Event

SCHEDULES = 500


def answer(q: Client, service: Service) -> None:
    """Let q answer every message to G with one to H, as soon as it reads it."""

    def handler(event: Event) -> None:
        if isinstance(event, Message) and "G" in event.groups:
            q.send("H", b"re: " + event.payload, service=service)

    q.read_with(handler)


def seen_by_r(seed: int) -> list[bytes]:
    """Run one schedule; return what r sees."""
    rng = Random(seed)
    services = [rng.choice((Service.AGREED, Service.SAFE)) for _ in range(3)]
    es = cluster(3, seed, jitter_us=rng.choice((0, 50, 300)), loss=rng.choice((0.0, 0.0, 0.1)))
    p, q, r, s = (es.client(rng.choice(es.nodes), name) for name in "pqrs")
    q.join("G")
    r.join("G")
    r.join("H")
    answer(q, services[0])
    es.settle()
    for number in range(2):
        s.send(rng.choice((["H"], ["G", "H"])), b"noise", service=services[1])
        p.send("G", b"%d" % number, service=services[2])
        es.advance(rng.choice((0, 0.0001, 0.001)))
    es.settle()
    return [event.payload for event in r.events() if isinstance(event, Message)]


def test_an_answer_to_another_group_never_overtakes_its_question() -> None:
    orders: Counter[tuple[bytes, ...]] = Counter()
    for seed in range(SCHEDULES):
        seen = seen_by_r(seed)
        for number in range(2):
            question, reply = b"%d" % number, b"re: %d" % number
            assert seen.count(question) == seen.count(reply) == 1, f"seed {seed}: {seen}"
            assert seen.index(question) < seen.index(reply), f"seed {seed}: {seen}"
        orders[tuple(seen)] += 1
    assert len(orders) > 20, "the schedules are all alike"
