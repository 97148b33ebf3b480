from evensong.core.effects import Deliver, Service
from evensong.core.ids import RingId
from evensong.core.totem.frames import RegularMessage
from evensong.core.unit import UnitId, encode_unit
from evensong.daemon.control import Answer, Later
from evensong.daemon.receipts import Receipts

RING = RingId(4, 1)


def delivery(*units: tuple[int, int]) -> Deliver:
    messages = [
        RegularMessage(
            sender_id, RING, seq, Service.AGREED, 0, 0, encode_unit(UnitId(sender_id, 7, no), b"")
        )
        for seq, (sender_id, no) in enumerate(units, start=1)
    ]
    return Deliver(RING, messages, 0, after_gap=False)


def awaited(receipts: Receipts, pulled: int) -> list[Answer]:
    answers: list[Answer] = []
    later = Later()
    later.then(answers.append)
    receipts.expect(pulled, later)
    return answers


def test_an_answer_comes_with_the_last_own_packet_awaited() -> None:
    receipts = Receipts(1)
    receipts.deliver(delivery((1, 1)), 10)  # before anybody waits
    first = awaited(receipts, 2)
    second = awaited(receipts, 3)
    receipts.name(1, 2)
    receipts.deliver(delivery((1, 2), (2, 9)), 11)
    assert first == []
    receipts.name(3, 7)  # packets of sessions were pulled in between
    receipts.deliver(delivery((2, 10), (1, 5), (2, 11)), 12)
    assert first == []
    receipts.deliver(delivery((2, 12), (1, 6), (2, 13)), 13)
    assert first == [{"ok": True, "delivered_at_us": 13}]
    assert second == []
    receipts.deliver(delivery((1, 7)), 14)
    assert second == [{"ok": True, "delivered_at_us": 14}]


def test_the_end_of_a_life_is_an_error_to_those_who_wait() -> None:
    receipts = Receipts(1)
    sent, queued = awaited(receipts, 1), awaited(receipts, 2)
    receipts.name(1, 1)
    receipts.end("stop", 20, "leave")
    receipts.end("stop", 21, "leave")
    for answers in (sent, queued):
        assert [answer["ok"] for answer in answers] == [False]
        assert "outcome is unknown" in str(answers[0]["error"])


def test_an_answer_given_before_it_was_asked_for_is_not_lost() -> None:
    later = Later()
    later.give({"ok": True})
    answers: list[Answer] = []
    later.then(answers.append)
    assert answers == [{"ok": True}]
