from evensong.core.effects import Service
from evensong.core.unit import UNIT, UnitId, decode_unit
from evensong.sim.workload import Burst, Queue


def test_units_are_numbered_from_one_in_each_life() -> None:
    queue = Queue(3, 7)
    queue.submit(Burst(0, 3, 2))
    queue.submit(Burst(0, 3, 1))
    assert queue.backlog() == queue.origin_no == 3
    pulled = queue.pull(2) + queue.pull(5)
    assert [decode_unit(packet.payload) for packet in pulled] == [
        UnitId(3, 7, 1),
        UnitId(3, 7, 2),
        UnitId(3, 7, 3),
    ]
    assert queue.backlog() == 0
    assert queue.pull(1) == []


def test_sizes_and_services_are_mixed_as_told_and_follow_from_the_identity() -> None:
    queues = Queue(3, 7), Queue(3, 7)
    queues[0].submit(Burst(0, 3, 1_000, body_max=1_000, safe=0.25))
    for _ in range(1_000):
        queues[1].submit(Burst(5, 3, 1, body_max=1_000, safe=0.25))
    packets = queues[0].pull(1_000)
    assert packets == queues[1].pull(1_000)
    safe = [packet for packet in packets if packet.service is Service.SAFE]
    assert 200 < len(safe) < 300
    sizes = [len(packet.payload) - UNIT.size for packet in packets]
    assert min(sizes) < 50
    assert 950 < max(sizes) <= 1_000


def test_a_body_can_be_given() -> None:
    queue = Queue(1, 1)
    queue.submit_body(b"credo", Service.SAFE)
    (packet,) = queue.pull(9)
    assert packet.service is Service.SAFE
    assert packet.payload[UNIT.size :] == b"credo"
