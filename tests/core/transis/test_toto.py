from random import Random

import pytest

from evensong.sim.transis.oracle import WholeGraph
from tests.core.transis.chains import VIEW, Place, message, some_words


def test_the_worked_example_needs_nobody_else_to_speak() -> None:
    place = Place(3, me="C")
    assert place.hear("A1 a1C1. B1") == "A1"
    assert place.hear("b1C2.") == "B1"


def test_one_candidate_is_delivered_when_half_of_the_members_and_one_more_have_spoken() -> None:
    place = Place(5)
    assert place.hear("A1 a1B1.") == ""
    assert place.hear("a1C1.") == "A1"


def test_with_allack_everybody_must_have_spoken() -> None:
    place = Place(5, allack=1)
    assert place.hear("A1 a1B1. a1C1. a1D1.") == ""
    assert place.hear("a1E1.") == "A1"


def test_among_two_both_must_have_spoken() -> None:
    place = Place(2)
    assert place.hear("A1") == ""
    assert place.hear("a1B1.") == "A1"


def test_alone_a_message_is_delivered_at_once() -> None:
    assert Place(1).hear("A1 A2!") == "A1 A2"


def test_the_vote_is_the_first_message_that_follows() -> None:
    # B and C follow A1 first and D1 later; D and E the reverse. A1 has three of five.
    place = Place(5)
    words = "A1 D1 a1B1. d1B2. a1C1. d1C2. d1E1. a1E2. a1D2."
    assert place.hear(words) == "A1 D1"


def test_a_message_does_not_vote_for_two_of_which_it_follows_both_at_once() -> None:
    # C's one message follows both: a tie, which helps neither; both are unbeaten and come by name.
    place = Place(3)
    assert place.hear("A1 B1 a1b1C1.") == "A1 B1"


def test_a_voting_cycle_is_broken_when_everybody_has_spoken() -> None:
    # A votes A1 B1 C1, B votes B1 C1 A1, C votes C1 A1 B1: each beats the next.
    place = Place(3)
    assert place.hear("A1 B1 C1 b1A2. c1A3. c1B2. a1B3. a1C2. b1C3.") == "A1 B1 C1"


def test_a_candidate_that_may_still_be_beaten_is_not_delivered() -> None:
    # B1 is unbeaten so far, but A and C may yet turn out to have followed C1 first.
    place = Place(3, me="B")
    assert place.hear("B1 C1") == ""


def test_an_unknown_candidate_may_come_before() -> None:
    # Two of five followed A1: three others may have followed something else first.
    place = Place(5)
    assert place.hear("A1 a1B1.") == ""


def test_pending_messages_wait_behind_the_candidate_that_they_follow() -> None:
    place = Place(3)
    assert place.hear("A1 A2 a2B1.") == "A1 A2"


@pytest.mark.parametrize("seed", range(60))
def test_members_decide_a_prefix_of_what_all_votes_together_give(seed: int) -> None:
    rng = Random(seed)
    size, allack = rng.randint(1, 6), seed % 4 == 0
    words = some_words(rng, size, 40, ("", "", "."))
    whole = WholeGraph(VIEW, tuple((number, 1) for number in range(1, size + 1)))
    for word in words:
        assert whole.add(message(word)) == ""
    rounds = whole.order(allack=allack or size <= 2)
    order = [f"{chr(64 + unit.sender)}{unit.origin_no}" for units in rounds for unit in units]
    place = Place(size, allack=int(allack))
    rng.shuffle(words)
    at = 0
    for word in words:  # what is known grows bit by bit, and every decision is final
        for told in place.hear(word).split():
            assert told == order[at]
            at += 1
