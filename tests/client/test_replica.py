"""State of a group through the library: who joins has it, and sides that meet merge it."""

import json
from random import Random

import pytest

from evensong.client.dialogue import NOTE_WINDOW
from evensong.client.message import Message
from evensong.client.replica import Policy, check_state
from evensong.core.groups.events import View
from evensong.errors import Refused
from tests.client.fake import Cluster, payloads


class Log:
    """A replica whose state is what it has applied; it notes what was asked of it."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.asked: list[str] = []

    def snapshot(self) -> bytes:
        self.asked.append("snapshot")
        return json.dumps(self.applied).encode()

    def restore(self, snapshot: bytes) -> None:
        self.asked.append("restore")
        self.applied = json.loads(snapshot)

    def merge(self, snapshots: list[bytes]) -> None:
        self.asked.append(f"merge {len(snapshots)}")
        self.applied = sorted({one for snapshot in snapshots for one in json.loads(snapshot)})


class Member:
    """A program that keeps a log in a group."""

    def __init__(self, cluster: Cluster, node: int, user: str, policy: Policy = "merge") -> None:
        self.cluster = cluster
        self.program = cluster.program(node, user)
        self.log = Log()
        self.stream = self.program.join("g", self.log, policy)
        self.views: list[View] = []

    def say(self, text: str) -> None:
        self.program.dialogue.send("g", text.encode(), 0)

    def read(self) -> bool:
        events = self.stream.take()
        for event in events:
            if isinstance(event, View):
                self.views.append(event)
            else:
                self.log.applied.append(event.payload.decode())
        return bool(events)


def read_all(cluster: Cluster, *members: Member) -> None:
    """Let everybody read and apply until nothing comes any more."""
    busy = True
    while busy:
        cluster.settle()
        before = sum(len(one.program.connection.requests) for one in members)
        busy = sum([member.read() for member in members]) > 0
        cluster.settle()
        busy = busy or before < sum(len(one.program.connection.requests) for one in members)


def test_who_joins_has_the_state_before_it_sees_a_message() -> None:
    cluster = Cluster(1, 2)
    ann = Member(cluster, 1, "ann")
    ann.say("one")
    read_all(cluster, ann)
    bob = Member(cluster, 2, "bob")
    ann.say("two")
    read_all(cluster, ann, bob)
    assert ann.log.applied == bob.log.applied == ["one", "two"]
    assert bob.log.asked == ["restore"]
    assert [member.user for member in bob.views[0].members] == ["ann", "bob"]


def test_a_snapshot_holds_exactly_what_was_applied_at_its_place() -> None:
    """Messages behind the view are neither in the snapshot nor lost, though they are here."""
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    ann.say("before")
    joining = cluster.program(1, "bob")
    log = Log()
    answer = joining.dialogue.join("g", log, "merge")
    cluster.settle()
    ann.say("after")
    cluster.settle()
    bob = answer.result()
    joining.dialogue.streams.claim(bob)
    read_all(cluster, ann)
    assert "snapshot" in ann.log.asked
    events = bob.take()
    assert log.applied == ["before"]
    assert [event.payload for event in events if isinstance(event, Message)] == [b"after"]


def test_nothing_is_done_with_the_state_before_the_program_asks_for_more() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    read_all(cluster, ann)
    bob = Member(cluster, 1, "bob")
    cluster.settle()
    ann.read()  # the view of bob's joining is shown, not yet applied
    assert ann.log.asked == []
    ann.read()
    assert ann.log.asked == ["snapshot"]
    read_all(cluster, ann, bob)
    assert bob.log.asked == ["restore"]


def test_sides_that_meet_merge_their_states() -> None:
    cluster = Cluster(1, 2)
    ann, bob = Member(cluster, 1, "ann"), Member(cluster, 2, "bob")
    ann.say("a common past")
    read_all(cluster, ann, bob)
    cluster.order.form((1,), (2,))
    ann.say("left")
    bob.say("right")
    read_all(cluster, ann, bob)
    assert ann.log.applied != bob.log.applied
    cluster.order.form((1, 2))
    read_all(cluster, ann, bob)
    assert ann.log.applied == bob.log.applied == ["a common past", "left", "right"]
    assert ann.log.asked[-1] == bob.log.asked[-1] == "merge 2"


def test_the_primary_side_wins_if_that_is_the_policy() -> None:
    cluster = Cluster(1, 2, 3)
    members = [Member(cluster, node, f"m{node}", "primary-wins") for node in (1, 2, 3)]
    read_all(cluster, *members)
    cluster.order.form((1,), (2, 3))
    members[0].say("minority")
    members[1].say("majority")
    read_all(cluster, *members)
    cluster.order.form((1, 2, 3))
    read_all(cluster, *members)
    assert [member.log.applied for member in members] == [["majority"]] * 3
    assert members[0].log.asked[-1] == "restore"


def test_a_donor_that_dies_is_replaced() -> None:
    cluster = Cluster(1, 2, 3)
    ann, bob = Member(cluster, 1, "ann"), Member(cluster, 2, "bob")
    ann.say("kept")
    read_all(cluster, ann, bob)
    carol = Member(cluster, 3, "carol")
    bob.read()
    carol.read()
    cluster.order.crash(1)  # it was the donor, and has not answered
    cluster.programs.remove(ann.program)
    cluster.order.form((2, 3))
    read_all(cluster, bob, carol)
    assert carol.log.applied == bob.log.applied == ["kept"]
    assert "snapshot" in bob.log.asked


def test_a_large_state_is_sent_in_pieces_and_arrives_whole() -> None:
    cluster = Cluster(1, 2)
    ann = Member(cluster, 1, "ann")
    rng = Random(5)
    ann.log.applied = ["".join(rng.choices("abcdef", k=1_000)) for _ in range(300)]
    bob = Member(cluster, 2, "bob")
    read_all(cluster, ann, bob)
    assert bob.log.applied == ann.log.applied


def test_a_large_state_on_its_way_leaves_room_for_messages() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    read_all(cluster, ann)
    ann.log.applied = ["x" * 1_000] * 2_000
    bob = Member(cluster, 1, "bob")
    ann.read()
    ann.read()
    dialogue = ann.program.dialogue
    said = dialogue.take_output()
    assert NOTE_WINDOW <= dialogue.in_flight <= NOTE_WINDOW + 2**17
    assert dialogue.can_send()
    ann.program.connection.feed(said)
    read_all(cluster, ann, bob)
    assert bob.log.applied == ann.log.applied


def test_notes_are_not_messages_for_who_has_no_state() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    guest = cluster.program(1, "guest")
    stream = guest.join("g")
    bob = Member(cluster, 1, "bob")
    ann.say("x")
    for _ in range(5):
        ann.read()
        bob.read()
        cluster.settle()
    assert payloads(stream) == [b"x"]
    sent = [one for one in ann.program.connection.sets.values() if "\0notes" in one]
    assert sent == [("g", "\0notes")]


def test_a_group_with_state_is_read_by_itself_only() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    dialogue = ann.program.dialogue
    ann.program.join("plain")
    dialogue.streams.claim(dialogue.streams.everything)
    for to in ("g", "plain", ["g", "plain"]):
        dialogue.send(to, repr(to).encode(), 0)
    read_all(cluster, ann)
    assert payloads(dialogue.streams.everything) == [b"'plain'", b"['g', 'plain']"]
    assert ann.log.applied == ["'g'", "['g', 'plain']"]


def test_reading_the_connection_does_not_let_go_of_a_group_with_state() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    answer = ann.dialogue.join("g", Log(), "merge")
    cluster.settle()
    ann.dialogue.streams.claim(ann.dialogue.streams.everything)
    ann.dialogue.send("g", b"x", 0)
    cluster.settle()
    ann.dialogue.streams.claim(answer.result())
    assert payloads(answer.result()) == [b"x"]


def test_a_snapshot_is_what_the_state_was_whatever_becomes_of_its_buffer() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    read_all(cluster, ann)
    state = bytearray(json.dumps(["x" * 1_000] * 2_000).encode())
    ann.log.snapshot = lambda: state  # type: ignore[assignment, method-assign, return-value]
    bob = Member(cluster, 1, "bob")
    ann.read()
    ann.read()
    cluster.order.run()
    state[:] = bytes(len(state))
    read_all(cluster, ann, bob)
    assert bob.log.applied == ["x" * 1_000] * 2_000


@pytest.mark.parametrize("wrong", ["text", None, 17, [b"x"]])
def test_what_is_no_snapshot_fails_its_reader_and_is_asked_for_again(wrong: object) -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    read_all(cluster, ann)
    bob = Member(cluster, 1, "bob")
    ann.read()
    ann.log.snapshot = lambda: wrong  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(Refused, match=f"bytes and has returned {type(wrong).__name__}"):
        ann.read()
    del ann.log.snapshot
    ann.say("x")
    read_all(cluster, ann, bob)
    assert bob.log.applied == ["x"]


def test_what_cannot_keep_a_state_is_refused_before_it_is_asked_to() -> None:
    class Hasty(Log):
        async def restore(self, snapshot: bytes) -> None:  # type: ignore[override]
            pass

    class Half(Log):
        merge = None  # type: ignore[assignment]

    check_state(Log(), "merge")
    check_state(None, "primary-wins")
    for state, words in ((object(), "snapshot"), (Half(), "merge"), (Hasty(), "restore of")):
        with pytest.raises(Refused, match=words):
            check_state(state, "merge")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="policy"):
        check_state(Log(), "mine")  # type: ignore[arg-type]


def test_a_replica_that_fails_fails_its_reader_and_is_asked_again() -> None:
    cluster = Cluster(1)
    ann = Member(cluster, 1, "ann")
    ann.say("x")
    read_all(cluster, ann)
    bob = Member(cluster, 1, "bob")
    ann.read()

    class Trouble(Exception):
        pass

    def fail() -> bytes:
        raise Trouble

    ann.log.snapshot = fail  # type: ignore[method-assign]
    with pytest.raises(Trouble):
        ann.read()
    del ann.log.snapshot
    read_all(cluster, ann, bob)
    assert bob.log.applied == ["x"]
