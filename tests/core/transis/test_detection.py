from random import Random

from evensong.core.timer import NEVER
from evensong.core.transis.detection import BACKOFF_MOST, Acquaintances, Watch
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


def test_strangers_that_a_change_did_not_gain_are_left_alone_longer_each_time() -> None:
    known = Acquaintances(P, Random(0))
    spans = []
    for _ in range(6):
        known.on_change([2], [], 0)
        spans.append(max(t for t in range(0, 50 * P.heartbeat, 1_000) if known.is_left_alone(2, t)))
    assert spans[0] <= 3 * P.heartbeat
    assert spans[-1] >= BACKOFF_MOST * P.heartbeat // 2 - 1_000
    assert not known.is_left_alone(3, 0)
    known.on_change([2, 3], [3], 0)
    known.on_change([2], [2], 0)
    assert not known.is_left_alone(2, 0)
