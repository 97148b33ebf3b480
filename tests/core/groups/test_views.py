"""Views: what they tell about the difference, and who has a majority."""

import pytest

from evensong.core.groups.views import has_majority
from tests.core.groups.order import Order, members_of


@pytest.mark.parametrize(
    ("members", "electorate", "is_primary"),
    [
        ((1, 2, 3), (1, 2, 3), True),
        ((1, 2), (1, 2, 3), True),
        ((1,), (1, 2, 3), False),
        ((1, 2), (1, 2, 3, 4), False),
        ((1, 2, 9), (1, 2, 3, 4), False),
        ((1, 2, 3), (), False),
    ],
)
def test_a_majority_is_more_than_half_of_the_electorate(
    members: tuple[int, ...], electorate: tuple[int, ...], is_primary: bool
) -> None:
    assert has_majority(members, electorate) is is_primary


def test_only_one_side_of_a_partition_is_primary() -> None:
    order = Order(1, 2, 3)
    order.form((1, 2, 3))
    sessions = {node: order[node].open("ann") for node in (1, 2, 3)}
    for node in (1, 2, 3):
        order[node].join(sessions[node], "g")
    order.run()
    order.form((1, 2), (3,))
    assert order[1].views(sessions[1], "g")[-1].primary
    assert order[2].views(sessions[2], "g")[-1].primary
    assert not order[3].views(sessions[3], "g")[-1].primary
    transitional = [view for view in order[3].views(sessions[3], "g") if view.transitional]
    assert [view.primary for view in transitional] == [False]


def test_a_regular_view_tells_the_difference_to_the_regular_view_before_it() -> None:
    order = Order(1, 2, 3)
    order.form((1, 2, 3))
    ann, bob, eve = order[1].open("ann"), order[2].open("bob"), order[3].open("eve")
    order[1].join(ann, "g")
    order[2].join(bob, "g")
    order[3].join(eve, "g")
    order.run()
    zoe = order[1].open("zoe")
    order[1].join(zoe, "g")
    order[1].pull()  # it is delivered in the transitional part
    order.form((1, 2), (3,))
    last_four = order[1].views(ann, "g")[-3:]
    lost, joined, regular = last_four
    assert lost.transitional
    assert (members_of(lost), [one.user for one in lost.left]) == (["ann", "bob"], ["eve"])
    assert joined.transitional
    assert [one.user for one in joined.joined] == ["zoe"]
    assert joined.left == ()
    assert not regular.transitional
    assert members_of(regular) == ["ann", "bob", "zoe"]
    assert [one.user for one in regular.joined] == ["zoe"]
    assert [one.user for one in regular.left] == ["eve"]
    assert [one.user for one in regular.stayed] == ["ann", "bob"]
    assert [view.transitional for view in order[1].views(zoe, "g")] == [True, False]
