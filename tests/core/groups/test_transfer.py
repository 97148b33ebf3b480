"""State transfer: joiners, donors that die, sides that meet."""

import pytest

from evensong.core.groups.events import Cause, MemberId, View, ViewId
from evensong.core.groups.notes import Chunk, Offer, Place, encode_note
from evensong.core.groups.steps import Apply, Restore
from evensong.core.groups.transfer import Transfer
from evensong.core.ids import RingId
from evensong.errors import InvariantBroken
from tests.core.groups.library import Chaos, Client, Library
from tests.core.groups.order import Order

SEEDS = 300


def library(*nodes: int, primary_wins: bool = False) -> Library:
    order = Order(*nodes)
    order.form(nodes)
    order.run()
    return Library(order, primary_wins=primary_wins)


def pass_on(clients: Library, *nodes: int) -> None:
    """Let what was sent be delivered and heard; nothing new is said."""
    clients.order.run(*nodes)
    for client in clients.clients:
        if not nodes or client.daemon.node in nodes:
            client.listen()


def talk(client: Client, count: int, size: int = 100) -> None:
    for number in range(count):
        client.say(b"%d/%d." % (client.daemon.node, number) + b"x" * size)


def test_who_joins_gets_the_state_and_then_what_came_after() -> None:
    clients = library(1, 2)
    ann = clients.client(1)
    ann.say(b"before")
    clients.run()
    bob = clients.client(2)
    pass_on(clients)
    ann.say(b"meanwhile")
    pass_on(clients)
    assert bob.state == []
    assert not bob.transfer.has_state
    clients.run()
    assert ann.state == bob.state == [b"before", b"meanwhile"]
    assert (ann.did, bob.did) == (["take"], ["restore"])


def test_the_first_member_begins_with_what_it_has() -> None:
    clients = library(1)
    ann = clients.client(1)
    clients.run()
    assert ann.transfer.has_state
    assert ann.did == []


def test_an_empty_state_is_a_state() -> None:
    clients = library(1, 2)
    clients.client(1)
    clients.run()
    bob = clients.client(2)
    clients.run()
    assert bob.did == ["restore"]
    assert bob.transfer.has_state


def test_several_who_join_one_after_the_other_all_get_it() -> None:
    clients = library(1, 2, 3)
    ann = clients.client(1)
    talk(ann, 10)
    clients.run()
    others = [clients.client(node) for node in (2, 3, 2)]
    talk(ann, 10)
    clients.run()
    clients.check_equal()
    assert [one.did for one in others] == [["restore"]] * 3
    assert len(ann.state) == 20


@pytest.mark.parametrize("how", ["crash", "close"])
def test_a_donor_that_is_gone_halfway_is_replaced(how: str) -> None:
    clients = library(1, 2, 3)
    ann, bob = clients.client(1), clients.client(2)
    talk(ann, 20)
    clients.run()
    eve = clients.client(3)
    pass_on(clients)
    ann.speak(3)
    pass_on(clients)
    bob.say(b"meanwhile")
    if how == "crash":
        clients.order.crash(1)
        clients.forget(1)
        clients.order.form((2, 3))
    else:
        clients.clients.remove(ann)
        ann.daemon.close(ann.session)
    clients.run()
    clients.check_equal()
    assert eve.did == ["restore"]
    assert bob.did[-1] == "take"
    assert eve.state[-1] == b"meanwhile"
    assert len(eve.state) == 21


def test_what_is_not_ordered_is_held_behind_what_it_came_behind() -> None:
    ann, bob, cid = (MemberId(node, 1, 1, "x") for node in (1, 2, 3))
    conf = RingId(4, 1)

    def view(seq: int, cause: Cause, subject: MemberId, *members: MemberId) -> View:
        left = (subject,) if cause is Cause.LEAVE else ()
        joined = (subject,) if cause is Cause.JOIN else ()
        stayed = tuple(one for one in members if one not in joined)
        view_id = ViewId(conf, seq, 0, seq)
        flags = {"primary": True, "transitional": False}
        return View(
            "g", view_id, members, joined, left, stayed, (members,), cause, subject, **flags
        )

    def offer(donor: MemberId, place: Place, at: int) -> None:
        transfer.on_note(
            donor, (conf, at, 0), encode_note(Offer(place, False, True, 3, (donor[:3],)))
        )

    transfer = Transfer(bob)
    transfer.on_view(view(9, Cause.JOIN, bob, ann, cid, bob))
    transfer.on_message(None, b"in the state of the second donor")
    offer(ann, (conf, 9, 0), 10)
    transfer.on_message(None, b"in it, too")
    transfer.on_view(view(20, Cause.LEAVE, ann, cid, bob))
    transfer.on_message(None, b"behind its view")
    offer(cid, (conf, 20, 0), 21)
    transfer.on_message(None, b"behind its offer")
    assert transfer.drain() == []
    transfer.on_note(cid, (conf, 22, 0), encode_note(Chunk((conf, 20, 0), 0, b"all")))
    transfer.on_message(None, b"live")
    applied = [step.message for step in transfer.drain() if isinstance(step, Apply)]
    assert applied == [b"behind its view", b"behind its offer", b"live"]


def test_if_nobody_is_left_who_has_state_the_first_begins_with_its_own() -> None:
    clients = library(1, 2, 3)
    ann = clients.client(1)
    talk(ann, 5)
    clients.run()
    bob, eve = clients.client(2), clients.client(3)
    pass_on(clients)
    clients.order.crash(1)
    clients.forget(1)
    clients.order.form((2, 3))
    bob.say(b"new")
    clients.run()
    clients.check_equal()
    assert bob.did == ["take"]
    assert eve.did == ["restore"]
    assert eve.state[-1] == b"new"


def parted(primary_wins: bool = False) -> tuple[Library, Client, Client, Client]:
    """Three replicas, of which the third was apart and has changed."""
    clients = library(1, 2, 3, primary_wins=primary_wins)
    ann, bob, eve = (clients.client(node) for node in (1, 2, 3))
    clients.run()
    ann.say(b"0 common")
    clients.run()
    clients.order.form((1, 2), (3,))
    ann.say(b"1 left")
    eve.say(b"2 right")
    clients.run()
    assert ann.state == bob.state == [b"0 common", b"1 left"]
    assert eve.state == [b"0 common", b"2 right"]
    for client in clients.clients:
        client.did.clear()
    return clients, ann, bob, eve


def test_sides_that_meet_merge_their_states_at_one_place() -> None:
    clients, ann, bob, eve = parted()
    clients.order.form((1, 2, 3))
    bob.say(b"3 after")
    clients.run()
    clients.check_equal()
    assert ann.state == [b"0 common", b"1 left", b"2 right", b"3 after"]
    assert ann.did == eve.did == ["take", "merge 2"]
    assert bob.did == ["merge 2"]


def test_the_side_that_was_primary_wins_if_that_is_the_policy() -> None:
    clients, ann, bob, eve = parted(primary_wins=True)
    clients.order.form((1, 2, 3))
    bob.say(b"3 after")
    clients.run()
    clients.check_equal()
    assert eve.state == [b"0 common", b"1 left", b"3 after"]
    assert eve.did == ["take", "restore"]
    assert ann.did == ["take"]
    assert bob.did == []


def test_a_primary_side_wins_even_if_the_meeting_is_broken_once() -> None:
    clients = library(1, 2, 3, primary_wins=True)
    ann, bob, _ = (clients.client(node) for node in (1, 2, 3))
    clients.run()
    clients.order.form((1,), (2, 3))
    ann.say(b"minority")
    bob.say(b"majority")
    clients.run()
    clients.order.form((1, 2, 3))
    pass_on(clients)
    clients.order.crash(3)
    clients.forget(3)
    clients.order.form((1, 2))
    clients.run()
    clients.check_equal()
    assert ann.state == bob.state == [b"majority"]


def test_a_loss_that_only_transitional_views_show_is_noticed() -> None:
    clients = library(1, 2)
    ann = clients.client(1)
    eve = clients.client(1)
    ann.daemon.pull()
    ann.daemon.close(ann.session)
    clients.clients.remove(ann)
    ann.daemon.pull()
    clients.order.form((1,), (2,))
    clients.run()
    views = eve.daemon.views(eve.session, "g")
    assert [(view.transitional, len(view.left)) for view in views] == [
        (True, 0),
        (True, 1),
        (False, 0),
    ]
    assert eve.transfer.has_state


def test_nobody_goes_on_before_all_sides_are_known() -> None:
    clients, ann, _, eve = parted()
    clients.order.form((1, 2, 3))
    pass_on(clients)
    ann.say(b"3 after")
    ann.speak()
    pass_on(clients)
    assert b"3 after" not in ann.state + eve.state
    clients.run()
    assert ann.state[-1] == eve.state[-1] == b"3 after"


def test_sides_that_meet_and_lose_a_donor_begin_again() -> None:
    clients, ann, bob, eve = parted()
    talk(ann, 10)
    clients.run()
    clients.order.form((1, 2, 3))
    pass_on(clients)
    ann.speak(2)
    pass_on(clients)
    bob.say(b"9 held")
    pass_on(clients)
    clients.order.crash(1)
    clients.forget(1)
    clients.order.form((2, 3))
    clients.run()
    clients.check_equal()
    assert bob.did == ["take", "merge 2"]
    assert eve.did == ["take", "take", "merge 2"]
    assert bob.state.count(b"9 held") == 1
    assert {b"1 left", b"2 right"} <= set(bob.state)


def test_who_joins_while_sides_meet_gets_what_they_come_to() -> None:
    clients, _, bob, _ = parted()
    clients.order.form((1, 2, 3))
    pass_on(clients)
    zoe = clients.client(3)
    pass_on(clients)
    clients.run()
    clients.check_equal()
    assert zoe.did == ["restore"]
    assert zoe.state == bob.state


def test_who_was_alone_without_state_is_kin_of_all_after_a_merge() -> None:
    clients = library(1, 2, 3)
    ann = clients.client(1)
    clients.run()
    eve = clients.client(3)
    clients.run()
    bob = clients.client(2)
    pass_on(clients)
    clients.order.form((1,), (2,), (3,))
    pass_on(clients)
    assert not bob.transfer.has_state
    clients.order.form((1, 2, 3))
    clients.run()
    kin = [client.transfer.kin for client in (ann, bob, eve)]
    assert kin == [[(node, 1, 1) for node in (1, 3, 2)]] * 3
    clients.order.form((1, 2), (3,))
    clients.run()
    clients.order.form((1, 2, 3))
    eve.say(b"after")
    clients.run()
    assert ann.state == bob.state == eve.state == [b"after"]


@pytest.mark.parametrize("first", [1, 2])
def test_who_was_left_behind_while_it_waited_is_kin_of_who_told_it(first: int) -> None:
    clients = library(1, 2, 3)
    clients.order.form((1, 2), (3,))
    ann = clients.client(first)
    clients.run()
    ann.say(b"one")
    clients.run()
    bob = clients.client(3 - first)
    pass_on(clients)
    clients.order.form((first,))  # the other does not notice
    clients.order.form((1, 2))
    clients.run()
    assert ann.transfer.kin == bob.transfer.kin
    assert len(bob.transfer.kin) == 2
    eve = clients.client(3)
    clients.run()
    eve.say(b"two")
    clients.run()
    clients.order.form((1, 2, 3))
    clients.run()
    assert ann.did[-1] == bob.did[-1] == eve.did[-1] == "merge 2"
    assert ann.transfer.is_live()
    assert ann.state == bob.state == eve.state


def test_an_old_snapshot_is_no_use_to_who_joined_later() -> None:
    me, donor = MemberId(1, 1, 1, "a"), MemberId(2, 1, 1, "b")
    order = Order(1, 2)
    order.form((1, 2))
    order.run()
    bob = order[2].open("b")
    order[2].join(bob, "g")
    order.run()
    ann = order[1].open("a")
    order[1].join(ann, "g")
    order.run()
    (view,) = order[1].views(ann, "g")
    transfer = Transfer(me)
    transfer.on_view(view)
    early = (RingId(1, 1), 1, 0)
    for place in (early, view.view_id[:3]):
        offer = Offer(place, False, False, 2, (donor[:3],))
        transfer.on_note(donor, (view.view_id[0], 50, 0), encode_note(offer))
        piece = Chunk(place, 0, b"ok")
        transfer.on_note(donor, (view.view_id[0], 51, 0), encode_note(piece))
        restored = [step for step in transfer.drain() if isinstance(step, Restore)]
        assert len(restored) == (place != early)


def test_junk_is_counted() -> None:
    transfer = Transfer(MemberId(1, 1, 1, "a"))
    for junk in (b"", b"\x07" * 40, b"\x03" + bytes(24), b"\x01" + bytes(25)):
        transfer.on_note(MemberId(2, 1, 1, "b"), (RingId(4, 1), 1, 0), junk)
    assert transfer.malformed == 4
    assert transfer.drain() == []


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_in_random_schedules_all_replicas_end_equal(first: int) -> None:
    did: list[str] = []
    for seed in range(first, first + 50):
        chaos = Chaos(seed)
        try:
            chaos.run(400)
        except (AssertionError, InvariantBroken) as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        did += [one for client in chaos.library.clients for one in client.did]
    assert did.count("restore") > 30
    assert did.count("merge 2") > 30
