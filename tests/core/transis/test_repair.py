from random import Random

from evensong.core.timer import NEVER
from evensong.core.transis.parameters import Parameters
from evensong.core.transis.repair import RESENDS_MAX, Requests, Resends

P = Parameters()


def requests() -> Requests:
    return Requests(3, P, Random(1))


def test_what_is_missing_is_given_a_moment_to_come_by_itself() -> None:
    asking = requests()
    asking.note(1, 100, is_missing=True)
    assert 100 + P.nack_delay <= asking.deadline() < 100 + 2 * P.nack_delay
    asking.note(1, 200, is_missing=False)
    assert asking.deadline() == NEVER


def test_one_asks_less_often_each_time() -> None:
    asking = requests()
    asking.note(1, 0, is_missing=True)
    waits = []
    for _ in range(6):
        asking.asked(1, 0)
        waits.append(asking.deadline())
    assert waits[:3] == [P.nack_retry, 2 * P.nack_retry, 4 * P.nack_retry]
    assert waits[-1] == P.nack_retry_max


def test_nobody_asks_for_what_another_has_just_asked_for() -> None:
    asking = requests()
    asking.note(1, 0, is_missing=True)
    asking.on_request(1, 0)
    assert asking.deadline() == P.nack_retry
    asking.on_request(2, 0)  # nothing of it is missing here
    assert asking.deadlines[2] == NEVER


def test_after_a_repair_the_rest_may_follow_soon() -> None:
    asking = requests()
    asking.note(1, 0, is_missing=True)
    asking.asked(1, 0)
    asking.asked(1, 0)
    asking.on_repair(1, 50)
    assert asking.deadline() < 50 + 2 * P.nack_delay
    assert asking.is_first(1)


def test_the_sender_answers_at_once_and_others_later_the_further_they_are() -> None:
    for rank in range(5):
        resends = Resends(P, Random(2))
        resends.plan(0, 7, rank, 1_000)
        early = 1_000 + rank * P.retr_slot
        assert early <= resends.deadline() < early + (P.retr_slot if rank else 1)


def test_who_hears_another_answer_does_not() -> None:
    resends = Resends(P, Random(2))
    resends.plan(0, 7, 3, 0)
    resends.cancel(0, 7, 10)
    assert resends.deadline() == NEVER
    resends.plan(0, 7, 0, 20)  # nor to a second request that crossed it
    assert resends.deadline() == NEVER
    resends.plan(0, 7, 0, 10 + P.nack_delay)
    assert resends.take_due(10 + P.nack_delay) == [(0, 7)]


def test_who_is_asked_again_does_not_rely_on_others() -> None:
    # All hear the sender's answer but the one that it is for.
    first, second = (Resends(P, Random(2)) for _ in range(2))
    answered = []
    for request in range(1, 4):
        now = request * P.nack_retry
        for rank, resends in enumerate((first, second), 1):
            resends.plan(0, 7, rank, now)
            resends.cancel(0, 7, now + 100)
            if resends.take_due(now + 3 * P.retr_slot):
                answered.append((request, rank))
    assert answered == [(2, 1), (3, 1), (3, 2)]


def test_no_more_than_so_many_wait() -> None:
    resends = Resends(P, Random(2))
    for number in range(2 * RESENDS_MAX):
        resends.plan(0, number, 0, 0)
    assert len(resends.take_due(0)) == RESENDS_MAX
