from random import Random

from evensong.core.timer import NEVER
from evensong.core.transis.detection import BACKOFF_MOST, LASTING, Acquaintances, Watch
from evensong.core.transis.frames import Entry
from evensong.core.transis.parameters import Parameters

P = Parameters()


def test_who_is_silent_is_probed_so_many_times_and_then_given_up() -> None:
    watch = Watch(2, 0, P, 0)
    assert watch.deadline == P.silence_max()
    for _ in range(P.probes):
        assert watch.look(watch.deadline) == ([1], [])
    assert watch.look(watch.deadline) == ([], [1])


def test_who_answers_is_well() -> None:
    watch = Watch(3, 0, P, 0)
    now = watch.deadline
    assert watch.look(now) == ([1, 2], [])
    watch.hear(1, now + 1)
    watch.hear(2, now + 1)
    assert watch.look(now + P.probe) == ([], [])
    assert watch.deadline == now + 1 + P.silence_max()


def test_i_do_not_suspect_others_for_my_own_lateness() -> None:
    watch = Watch(2, 0, P, 0)
    watch.forgive(10 * P.silence_max())
    assert watch.look(10 * P.silence_max()) == ([], [])


def test_to_forgive_is_not_to_hear() -> None:
    watch = Watch(2, 0, P, 5)
    watch.forgive(9)
    assert not watch.has_heard_all(5)
    watch.hear(1, 10)
    assert watch.has_heard_all(5)


def test_who_is_alone_watches_nobody() -> None:
    assert Watch(1, 0, P, 0).deadline == NEVER


def test_everybody_was_heard_when_all_others_were() -> None:
    watch = Watch(3, 0, P, 5)
    watch.hear(1, 6)
    assert not watch.has_heard_all(5)
    watch.hear(2, 6)
    assert watch.has_heard_all(5)


def test_what_was_heard_of_a_processor_never_goes_back() -> None:
    known = Acquaintances(P, Random(0))
    assert known.hear(2, 1, 7)
    assert known.hear(2, 1, 7)
    assert not known.hear(2, 1, 6)
    assert known.is_outdated(Entry(2, 1, 6))
    assert not known.is_outdated(Entry(2, 1, 8))
    assert known.hear(2, 2, 1)  # a later life begins its views anew
    assert known.is_outdated(Entry(2, 1, 9))


def left_alone_for(known: Acquaintances, proc: int, now: int) -> int:
    steps = range(now, now + 2 * BACKOFF_MOST * P.heartbeat, 1_000)
    return max((at - now for at in steps if known.is_left_alone(proc, at)), default=0)


def test_strangers_that_a_change_did_not_gain_are_left_alone_longer_each_time() -> None:
    known = Acquaintances(P, Random(0))
    known.hear(2, 1, 7)
    spans = []
    for _ in range(6):
        known.on_change([2], [], [], 0)
        spans.append(left_alone_for(known, 2, 0))
    assert spans[0] <= 3 * P.heartbeat
    assert spans[-1] >= BACKOFF_MOST * P.heartbeat // 2 - 1_000
    assert not known.is_left_alone(3, 0)
    known.on_change([2, 3], [3], [], 0)
    known.on_change([2], [2], [], 0)
    assert not known.is_left_alone(2, 0)


def test_who_comes_and_goes_at_once_is_left_alone_longer_each_time() -> None:
    known = Acquaintances(P, Random(0))
    known.hear(2, 1, 7)
    now = 0
    spans = []
    for _ in range(6):
        known.on_change([2], [2], [], now)
        assert not known.is_left_alone(2, now)
        now += P.patience()
        known.on_change([], [], [2], now)
        spans.append(left_alone_for(known, 2, now))
        now += spans[-1] + 1_000
    assert 0 < spans[0] <= 3 * P.heartbeat
    assert spans[-1] >= BACKOFF_MOST * P.heartbeat // 2 - 1_000


def test_who_was_there_for_long_is_welcome_again() -> None:
    known = Acquaintances(P, Random(0))
    known.hear(2, 1, 7)
    for _ in range(6):
        known.on_change([2], [], [], 0)
    known.on_change([2], [2], [], 0)
    now = LASTING * P.heartbeat
    known.on_change([], [], [2], now)
    assert not known.is_left_alone(2, now)
    known.on_change([2], [], [], now)
    assert left_alone_for(known, 2, now) <= 3 * P.heartbeat


def test_a_new_life_is_not_left_alone_for_what_the_one_before_did() -> None:
    known = Acquaintances(P, Random(0))
    known.hear(2, 1, 7)
    known.on_change([2], [], [], 0)
    assert known.is_left_alone(2, 0)
    known.hear(2, 2, 1)
    assert not known.is_left_alone(2, 0)
