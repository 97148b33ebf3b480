from evensong.core.effects import Deliver, SafeLine
from evensong.core.transis.view import NO_PLACE
from tests.core.transis.chains import PASSAGE, Place, chain


def places(place: Place) -> list[tuple[bytes, int]]:
    return [
        (one.payload[-2:], one.seq)
        for effect in place.effects
        if isinstance(effect, Deliver)
        for one in effect.messages()
    ]


def test_a_basic_message_is_delivered_when_it_comes_whatever_is_missing() -> None:
    place = Place(3)
    assert place.hear("b7C4-") == "C4"
    assert place.hear("b7C4-") == ""


def test_a_causal_message_waits_for_what_it_refers_to() -> None:
    place = Place(3)
    assert place.hear("b1C1~") == ""
    assert place.hear("B1~") == "B1 C1"


def test_a_causal_message_waits_for_ordered_ones_in_its_past() -> None:
    place = Place(3)
    assert place.hear("B1 b1C1~") == "B1 C1"  # C1 is the vote that decides on B1
    assert place.hear("c1B2 B3~") == ""
    assert place.hear("b3C2.") == "B2 B3"


def test_a_causal_message_looks_through_null_messages() -> None:
    place = Place(3)
    assert place.hear("b1C1. C2~") == ""
    assert place.hear("B1~") == "B1 C2"


def test_a_safe_message_is_delivered_when_everybody_has_spoken_after_it() -> None:
    place = Place(3)
    assert place.hear("A1! a1B1.") == ""
    assert place.hear("a1C1.") == "A1"


def test_a_safe_message_holds_up_the_order_behind_it() -> None:
    place = Place(3)
    assert place.hear("A1! A2 a2B1.") == ""
    assert place.hear("a2C1.") == "A1 A2"


def test_ordered_messages_have_places_and_others_have_none() -> None:
    place = Place(1)
    for one in chain("A1 A2~ A3! A4-"):
        place.view.insert(one)
        place.view.receive_basic(one)
        place.view.advance()
    assert places(place) == [(b"A1", 1), (b"A2", NO_PLACE), (b"A3", 2), (b"A4", NO_PLACE)]


def test_the_safe_line_rises_with_what_everybody_has() -> None:
    place = Place(3)
    place.hear("A1 A2 a2B1.")
    place.view.graph.forget(place.view.graph.nodes[1][1])
    lines = []
    for one in chain("a2C1."):
        place.view.insert(one)
        place.view.advance()
        lines = [effect.seq for effect in place.effects if isinstance(effect, SafeLine)]
    assert lines == [2]
    assert place.view.graph.nodes[0] == {}  # delivered and stable: forgotten


def test_what_is_stable_and_not_yet_delivered_is_kept() -> None:
    place = Place(3, allack=1)
    place.hear("B1 a9C1.")
    assert place.view.graph.nodes[1].keys() == {1}


def test_a_view_that_ends_delivers_what_the_votes_decide_and_then_the_rest_by_name() -> None:
    place = Place(5)
    place.hear("E1 e1D1. D2~ B1!")  # nothing is decided
    place.view.close(PASSAGE)
    gaps = [effect.after_gap for effect in place.effects if isinstance(effect, Deliver)]
    assert all(gaps)
    assert places(place) == [(b"B1", 1), (b"E1", 2), (b"D2", NO_PLACE)]
    assert place.told() == "B1' E1' D2'"


def test_what_is_safe_for_those_who_go_on_only_comes_in_their_passage() -> None:
    place = Place(3)
    assert place.hear("B1 b1A1. b1C1.") == "B1"
    place.hear("A2! a2B2. A3 a3B3. B4~ A4")  # A2 waits for C, the rest for A2
    place.view.close(PASSAGE)
    delivers = [effect for effect in place.effects if isinstance(effect, Deliver)]
    rings = {one.ring_id for effect in delivers for one in effect.messages()}
    assert rings == {PASSAGE.conf_id}
    assert [effect.after_gap for effect in delivers] == [False, True]
    assert places(place) == [(b"A2", 2), (b"A3", 3), (b"B4", NO_PLACE), (b"A4", 4)]


def test_a_causal_message_that_waits_for_nothing_undecided_is_delivered_in_its_view() -> None:
    place = Place(5)
    assert place.hear("B1 E1~") == "E1"
    place = Place(5)
    place.hear("b1E1~ B1~ D1")
    assert place.close() == "D1'"


def test_a_safe_message_that_everybody_has_is_not_reduced_when_the_view_ends() -> None:
    place = Place(3)
    place.hear("C1! c1B1. c1A1.")
    assert place.told() == ""  # told by the call before
    place.hear("A2! a2B2.")
    assert place.close() == "A2'"


def test_the_safe_line_does_not_rise_for_what_comes_in_the_passage() -> None:
    place = Place(3)
    place.hear("A1 a1B1.")
    place.hear("a1C1. A2! a2B2. A3")
    place.view.close(PASSAGE)
    lines = [effect.seq for effect in place.effects if isinstance(effect, SafeLine)]
    assert lines == []
    assert place.view.safe_line == 1
