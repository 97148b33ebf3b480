from random import Random

import pytest
from hypothesis import given
from hypothesis.strategies import integers, randoms

from evensong.core.transis import wire
from evensong.core.transis.dag import AHEAD_MAX, NO_VOTE, Graph
from evensong.core.transis.frames import JOIN, Ack, Entry, Message, Proposal
from tests.core.transis.chains import VIEW, chain, message, name_of, some_words


def graph_of(size: int) -> Graph:
    return Graph(tuple((number, 1) for number in range(1, size + 1)))


def keep(graph: Graph, words: str) -> None:
    for one in chain(words):
        index = graph.index_of(one)
        assert index is not None
        assert graph.keep(one, index)


def insert_ready(graph: Graph, limits: list[int] | None = None) -> list[str]:
    inserted = []
    ready = graph.next_ready(limits)
    while ready is not None:
        node = graph.insert(ready)
        if graph.is_countable(node):
            graph.count(node)
        inserted.append(name_of(ready))
        ready = graph.next_ready(limits)
    return inserted


def test_an_acknowledgement_covers_the_whole_past() -> None:
    graph = graph_of(3)
    keep(graph, "A1 A2 a2B1 B2 B3 b3C1")
    assert insert_ready(graph) == ["A1", "A2", "B1", "B2", "B3", "C1"]
    assert graph.nodes[2][1].past == [2, 3, 1]


def test_who_lost_b3_learns_of_it_by_c1() -> None:
    graph = graph_of(3)
    keep(graph, "A1 A2 a2B1 B2 b3C1")
    assert insert_ready(graph) == ["A1", "A2", "B1", "B2"]
    assert graph.missing(1, NO_VOTE, 9) == [(3, 3)]
    assert graph.orphans[2].keys() == {1}
    keep(graph, "B3")
    assert insert_ready(graph) == ["B3", "C1"]
    assert graph.missing(1, NO_VOTE, 9) == []


def test_only_what_could_be_delivered_is_acknowledged() -> None:
    graph = graph_of(2)
    keep(graph, "A2")  # A1 is lost: A2 has come, and is no part of the graph
    insert_ready(graph)
    assert graph.acks_of(1) == ()
    keep(graph, "A1")
    insert_ready(graph)
    assert graph.acks_of(1) == ((1, 2),)


def test_each_acknowledgement_is_sent_once() -> None:
    graph = graph_of(3)
    keep(graph, "A1 a1B1 C1")
    insert_ready(graph)
    assert graph.acks_of(0) == ((2, 1), (3, 1))  # B's covers mine
    keep(graph, "b1c1A2")
    insert_ready(graph)
    assert graph.leaves == {0: 2}


def test_a_message_is_stable_when_everybody_has_spoken_after_it() -> None:
    graph = graph_of(3)
    keep(graph, "A1 a1B1.")
    insert_ready(graph)
    assert graph.stable == [0, 0, 0]
    assert graph.window == 1
    keep(graph, "b1C1.")
    insert_ready(graph)
    assert graph.stable == [1, 0, 0]
    assert graph.window == 0


def test_the_gaps_are_told_as_ranges() -> None:
    graph = graph_of(2)
    keep(graph, "A3 A6")
    assert graph.missing(0, NO_VOTE, 9) == [(1, 2), (4, 5)]
    assert graph.missing(0, 4, 9) == [(1, 2), (4, 4)]
    assert graph.missing(0, NO_VOTE, 1) == [(1, 2)]


@pytest.mark.parametrize("word", [f"a{AHEAD_MAX + 1}B1", f"B{AHEAD_MAX + 1}", "f1B1"])
def test_what_refers_to_what_cannot_be_is_refused(word: str) -> None:
    graph = graph_of(3)
    one = message(word)
    assert not graph.keep(one, 1)
    assert graph.known == [0, 0, 0]


def test_a_message_of_a_failed_member_is_inserted_only_if_another_refers_to_it() -> None:
    graph = graph_of(3)
    failed = [False, False, True]
    keep(graph, "C1 C2 C3")
    assert graph.needed(failed) == [NO_VOTE, NO_VOTE, 0]
    assert insert_ready(graph, graph.needed(failed)) == []
    keep(graph, "c2B1")
    assert graph.needed(failed) == [NO_VOTE, NO_VOTE, 2]
    assert insert_ready(graph, graph.needed(failed)) == ["C1", "C2", "B1"]


def test_what_a_needed_message_refers_to_is_needed() -> None:
    graph = graph_of(4)
    keep(graph, "D1 d1C1 c1B1")
    assert graph.needed([False, False, True, True]) == [NO_VOTE, NO_VOTE, 1, 1]


def test_what_waits_can_be_sent_again_as_well() -> None:
    graph = graph_of(2)
    keep(graph, "A2")
    held = graph.held(0, 2)
    assert held is not None
    assert name_of(held) == "A2"
    assert graph.held(0, 1) is None


@given(randoms(use_true_random=False), integers(2, 5), integers(1, 40))
def test_in_whatever_order_messages_come_the_graph_is_the_same(
    rng: Random, size: int, count: int
) -> None:
    words = some_words(rng, size, count, "!~-.")
    found = []
    for _ in range(2):
        graph = graph_of(size)
        keep(graph, " ".join(words))
        insert_ready(graph)
        assert sum(graph.inserted) == count
        found.append(
            [{number: node.past for number, node in nodes.items()} for nodes in graph.nodes]
        )
        rng.shuffle(words)
    assert found[0] == found[1]


def join(sender: int, number: int, acks: tuple[Ack, ...]) -> Message:
    proposal = Proposal((Entry(sender, 1, VIEW.seq),), ())
    told = (sender, 1, VIEW, number, 0, acks, 0, b"")
    return wire.make_message(JOIN, wire.NO_SERVICE, *told, proposal, False, 0)


def test_a_second_join_tells_nobody_that_a_message_is_everywhere() -> None:
    graph = graph_of(3)
    keep(graph, "A1 a1B1")
    assert graph.keep(join(3, 1, ()), 2)
    assert graph.keep(join(3, 2, ((2, 1),)), 2)
    assert insert_ready(graph) == ["A1", "B1", "C1", "C2"]
    assert graph.nodes[2][2].past == [1, 1, 2]
    assert graph.is_countable(graph.nodes[2][1])
    assert not graph.is_countable(graph.nodes[2][2])
    # A view may begin by C1, which follows neither, and C2 would be in its cut at nobody.
    assert graph.stable == [0, 0, 0]
