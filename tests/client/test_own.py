"""What a program sent itself comes back to it as if another had sent it, and is kept no longer."""

import asyncio
import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import binary, booleans, lists, sampled_from, tuples

import evensong
import evensong.sync
from evensong import Connection, Group, Message, Service
from evensong.client.consignment import Consignment
from evensong.client.naming import send_named
from evensong.client.streams import Stream
from evensong.core.engine import ENGINES
from evensong.core.groups.events import Destination, OrderId
from evensong.core.groups.frame import BASIC, CAUSAL, SAFE, SELF_DISCARD, encode_whole
from evensong.core.ids import RingId
from evensong.errors import ConnectionLost
from evensong.ipc import frames, wire
from tests.client.fake import Cluster, Program, payloads
from tests.daemon.local import LocalCluster

PATIENCE_S = 120.0
PLACE = OrderId(RingId(4, 1), 99, 0)


def messages(stream: Stream) -> list[Message]:
    return [event for event in stream.take() if isinstance(event, Message)]


def seen(stream: Stream) -> list[tuple[object, ...]]:
    """Take what is there, and return all that can be seen of messages."""
    return [
        (
            one.payload,
            one.sender,
            one.groups,
            one.order,
            one.id,
            one.service,
            one.reduced,
            one.place,
        )
        for one in messages(stream)
    ]


def keeps(program: Program) -> list[int]:
    """Return which frames of its own a program keeps."""
    return [*program.dialogue._sent.kept]


# -- the same as what others sent ----------------------------------------------------------------


@given(
    lists(
        tuples(
            sampled_from(["ann", "bob", "cid"]),
            sampled_from(["g", "h", ("g", "h"), ("h", "nobody")]),
            sampled_from([0, SAFE, CAUSAL, BASIC]),
            lists(binary(max_size=900), min_size=1, max_size=4),
            booleans(),
        ),
        max_size=12,
    )
)
def test_sender_and_others_see_the_same_messages_at_the_same_places(
    said: list[tuple[str, str | tuple[str, ...], int, list[bytes], bool]],
) -> None:
    cluster = Cluster(1, 2)
    programs = {
        "ann": cluster.program(1, "ann"),
        "bob": cluster.program(1, "bob"),
        "cid": cluster.program(2, "cid"),
    }
    streams = [program.join(group) for program in programs.values() for group in ("g", "h")]
    for stream in streams:
        stream.take()
    for user, to, flags, bodies, is_alone in said:
        for body in bodies:
            programs[user].dialogue.send(to, body, flags)
        if is_alone:
            cluster.settle()
    cluster.settle()
    of_each = [seen(stream) for stream in streams]
    for group in (0, 1):
        first, *others = of_each[group::2]
        assert all(other == first for other in others)
        assert len(first) == sum(len(one[3]) for one in said if "gh"[group] in one[1])
    assert [keeps(program) for program in programs.values()] == [[], [], []]
    for program in programs.values():
        assert program.dialogue._unread == 0


def test_what_comes_back_is_what_was_sent_and_no_copy_of_it() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    mine, theirs = ann.join("g"), bob.join("g")
    alone, large, *many = (
        bytes([number]) * size for number, size in enumerate((90, 5_000, 70, 70))
    )
    ann.dialogue.send("g", alone, SAFE)
    ann.dialogue.send("g", large, 0)
    Consignment(ann.dialogue, "g", many, Service.AGREED).go_on()
    cluster.settle()
    sent = [alone, large, *many]
    assert all(one is other for one, other in zip(payloads(mine), sent, strict=True))
    assert payloads(theirs) == sent
    assert keeps(ann) == []


def test_small_messages_are_kept_as_the_frame_they_are_in() -> None:
    cluster = Cluster(1)
    ann = cluster.program(user="ann")
    mine = ann.join("g")
    many = [b"%03d" % number for number in range(200)]
    Consignment(ann.dialogue, "g", many, Service.AGREED).go_on()
    ((_, content),) = ann.dialogue._sent.kept.values()
    assert isinstance(content, bytes), "two hundred objects would take ten times as much room"
    cluster.settle()
    assert payloads(mine) == many
    assert keeps(ann) == []


def test_only_its_sender_is_told_a_frame_without_its_content() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    ann.join("g")
    bob.join("g")
    ann.dialogue.send("g", bytes(2_000), 0)
    ann.connection.feed(ann.dialogue.take_output())
    cluster.order.run()
    cluster.tell()
    (short, left_out), (long, nothing) = ann.connection.output[-1], bob.connection.output[-1]
    assert short[4] == long[4] == frames.DELIVER
    assert (len(short) + left_out, left_out, nothing) == (len(long), 2_000, 0)


def test_what_a_program_does_with_its_buffers_later_is_seen_by_nobody() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    buffer = bytearray(b"credo")
    listed: list[bytes] = [buffer, b"amen"]  # type: ignore[list-item]
    Consignment(ann.dialogue, "g", listed, Service.AGREED).go_on()
    buffer[:] = b"?????"
    listed[1] = b"????"
    listed.append(b"more")
    cluster.settle()
    assert payloads(stream) == [b"credo", b"amen"]


def test_chosen_ids_come_back() -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    mine, theirs = ann.join("g"), bob.join("g")
    for number in range(3):
        send_named(ann.dialogue, "g", b"buy %d" % number, 0, f"a{number}")
    ann.dialogue.send("g", b"plain", 0)
    cluster.settle()
    own, others = seen(mine), seen(theirs)
    assert own == others
    assert [(one[0], one[4]) for one in own[:3]] == [(b"buy %d" % n, f"a{n}") for n in range(3)]


def test_own_messages_can_be_handed_to_other_processes() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    send_named(ann.dialogue, "g", b"one", 0, "first")
    send_named(ann.dialogue, "g", b"two", 0, "second")
    cluster.settle()
    _, second = messages(stream)
    for copied in (pickle.loads(pickle.dumps(second)), copy.deepcopy(second)):
        assert (copied.payload, copied.id, copied.order) == (b"two", "second", second.order)


def test_a_message_to_oneself_comes_by_the_connection_alone() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    everything = ann.dialogue.streams.everything
    ann.dialogue.streams.claim(everything)
    ann.dialogue.send(str(ann.dialogue.member), b"to myself", 0)
    cluster.settle()
    (message,) = messages(everything)
    assert message.payload == b"to myself"
    assert message.sender == ann.dialogue.member
    assert keeps(ann) == []


# -- what is kept ------------------------------------------------------------------------------


def test_what_was_sent_is_kept_until_it_has_come_back() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"one", 0)
    assert keeps(ann) == [], "a frame that still takes messages"
    ann.connection.feed(ann.dialogue.take_output())
    assert keeps(ann) == [1]
    cluster.settle()
    assert keeps(ann) == []
    assert payloads(stream) == [b"one"]


@pytest.mark.parametrize("flags", [0, SELF_DISCARD])
def test_what_does_not_come_back_is_not_kept(flags: int) -> None:
    cluster = Cluster(1)
    ann, bob = cluster.program(user="ann"), cluster.program(user="bob")
    stream = bob.join("g")
    if flags:
        ann.join("g")
    ann.dialogue.send("g", b"for bob", flags)
    cluster.settle()
    assert payloads(stream) == [b"for bob"]
    assert keeps(ann) == []


def test_who_leaves_hears_what_it_sent_before_and_keeps_nothing_of_what_it_sent_later() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"before", 0)
    ann.dialogue.leave("g")
    ann.dialogue.send("g", b"behind", 0)
    cluster.settle()
    assert payloads(stream) == [b"before"]
    assert keeps(ann) == []


def test_what_is_sent_before_joining_is_delivered_does_not_come_back() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    ann.dialogue.send("g", b"too early", 0)
    answer = ann.dialogue.join("g", None, "merge")
    ann.dialogue.send("g", b"in time", 0)
    cluster.settle()
    assert payloads(answer.result()) == [b"in time"]
    assert keeps(ann) == []


def test_what_is_refused_is_not_kept() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"known", 0)
    cluster.settle()
    del cluster.order[1].groups.sessions.open[ann.connection.session].sets[0]
    ann.dialogue.send("g", b"unknown", 0)
    cluster.settle()
    assert keeps(ann) == []
    assert payloads(stream) == [b"known"]


@pytest.mark.parametrize("is_asked", [False, True])
def test_nothing_is_kept_when_the_connection_ends(is_asked: bool) -> None:
    ann = Cluster(1).program()
    ann.join("g")
    ann.dialogue.send("g", b"never heard", 0)
    ann.dialogue.take_output()
    assert keeps(ann) == [1]
    if is_asked:
        ann.dialogue.bye()
    ann.dialogue.lost("gone")
    assert keeps(ann) == []


def test_what_is_ordered_and_waits_for_its_sender_to_read_is_kept() -> None:
    ann = Cluster(1).program()
    ann.join("g")
    flight, index = ann.dialogue.send("g", b"credo", 0)
    ann.dialogue.take_output()
    ann.dialogue.feed(wire.encode_receipt(1, 1, PLACE, comes_back=True))
    assert flight.order_of(index) == PLACE
    assert keeps(ann) == [1]


def test_frames_come_back_in_whatever_order_they_are_told() -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    sent = [b"%d" % number for number in range(3)]
    for payload in sent:
        ann.dialogue.send("g", payload, 0)
        ann.dialogue.take_output()  # each in a frame by itself
    ann.dialogue.feed(wire.encode_destination(9, Destination(ann.dialogue.member, ("g",))))
    for number in (2, 0, 1):  # what is not ordered may overtake
        ann.dialogue.feed(own(encode_whole(1, number + 1, 0, 0, [sent[number]])))
    assert payloads(stream) == [sent[2], sent[0], sent[1]]
    assert keeps(ann) == []


# -- what counts -------------------------------------------------------------------------------


def test_what_a_program_sent_and_does_not_read_is_held_back_as_what_others_sent() -> None:
    held: list[int] = []
    for speaker in ("ann", "bob"):
        cluster = Cluster(1)
        programs = {user: cluster.program(user=user, window=8_000) for user in ("ann", "bob")}
        answer = programs["ann"].dialogue.join("g", None, "merge")
        cluster.settle()
        for _ in range(100):
            programs[speaker].dialogue.send("g", bytes(500), 0)
            cluster.settle()
        delivered = [
            one for one, _ in programs["ann"].connection.output if one[4] == frames.DELIVER
        ]
        held.append(len(delivered))
        stream = answer.result()
        programs["ann"].dialogue.streams.claim(stream)
        heard = 0
        while more := payloads(stream):
            heard += len(more)
            cluster.settle()
        assert heard == 100
        assert not programs["ann"].connection.output
    own, others = held
    assert 80 < others <= own <= others + 3, "receipts take their part of this window"


def test_what_was_left_out_is_consumed_once_it_is_read() -> None:
    cluster = Cluster(1)
    ann = cluster.program(window=100)
    ann.connection.window = 2**20  # so that every byte is reported at once
    stream = ann.join("g")
    stream.take()
    ann.dialogue.send("g", bytes(5_000), 0)
    cluster.settle()
    assert ann.connection.written - ann.connection.consumed > 5_000
    assert payloads(stream) == [bytes(5_000)]
    cluster.settle()
    assert 0 <= ann.connection.written - ann.connection.consumed < 25
    assert ann.dialogue._unread == 0


# -- lies --------------------------------------------------------------------------------------


def own(header_of: bytes, number: int = 9) -> bytes:
    return wire.encode_own(number, PLACE, PLACE.ring_id, False, header_of)


@pytest.mark.parametrize(
    "frame",
    [
        encode_whole(1, 2, 0, 0, [b"credo"]),  # another number
        encode_whole(1, 1, 0, 0, [b"credo", b""]),  # more messages
        encode_whole(1, 1, 0, 0, [b"cred"]),  # shorter
        encode_whole(1, 1, 0, SAFE, [b"credo"]),  # another service
        encode_whole(2, 1, 0, 0, [b"credo"]),  # of another session
    ],
)
def test_a_delivery_of_what_was_not_sent_loses_the_connection(frame: bytes) -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"credo", 0)
    ann.dialogue.take_output()
    ann.dialogue.feed(wire.encode_destination(9, Destination(ann.dialogue.member, ("g",))))
    ann.dialogue.feed(own(frame))
    assert isinstance(stream.error, ConnectionLost)
    assert payloads(stream) == []
    assert keeps(ann) == []


def test_a_frame_comes_back_once() -> None:
    ann = Cluster(1).program()
    stream = ann.join("g")
    ann.dialogue.send("g", b"credo", CAUSAL)
    ann.dialogue.take_output()
    ann.dialogue.feed(wire.encode_destination(9, Destination(ann.dialogue.member, ("g",))))
    frame = encode_whole(1, 1, 0, 0, [b"credo"])  # a ring has made it agreed
    ann.dialogue.feed(own(frame))
    assert not stream.is_over
    ann.dialogue.feed(own(frame))
    assert isinstance(stream.error, ConnectionLost)
    (message,) = messages(stream)
    assert (message.payload, message.service) == (b"credo", Service.AGREED)


# -- with daemons ------------------------------------------------------------------------------


class Replica:
    """Everything that was said, in order."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def snapshot(self) -> bytes:
        return b"\n".join(self.said)

    def restore(self, snapshot: bytes) -> None:
        self.said = snapshot.split(b"\n") if snapshot else []

    def merge(self, snapshots: list[bytes]) -> None:
        self.said = sorted({one for snapshot in snapshots for one in snapshot.split(b"\n")})


@pytest.mark.parametrize("engine", ENGINES)
def test_own_messages_of_all_sizes_and_services_at_two_daemons(tmp_path: Path, engine: str) -> None:
    async def heard(group: Group, count: int) -> list[Message]:
        found: list[Message] = []
        async for event in group:
            if isinstance(event, Message):
                found.append(event)
            if len(found) == count:
                return found
        raise AssertionError("the stream ended")

    async def main(cluster: LocalCluster) -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            evensong.connect(cluster.state(1), name="ann") as ann,
            evensong.connect(cluster.state(1), name="bob") as bob,
            evensong.connect(cluster.state(2), name="cid") as cid,
            ann.join("g") as of_ann,
            bob.join("g") as of_bob,
            cid.join("g") as of_cid,
        ):
            sizes = (0, 1, 1_000, 60_000, 70_000, 3_000_000)
            for es in (ann, bob, cid):
                await talk(es, sizes)
            count = 3 * (2 * len(sizes) + 500)
            streams = [await heard(group, count) for group in (of_ann, of_bob, of_cid)]
            told = [
                sorted((str(one.id), one.payload, one.order, one.service.value) for one in stream)
                for stream in streams
            ]
            assert told[0] == told[1] == told[2]
            placed = [[one.id for one in stream if one.order] for stream in streams]
            assert placed[0] == placed[1] == placed[2]
            for es in (ann, bob, cid):
                assert not es._link.dialogue._sent.kept

    async def talk(es: Connection, sizes: tuple[int, ...]) -> None:
        for size in sizes:
            await es.send("g", bytes(size))
            await es.send("g", bytes(size), service=Service.CAUSAL, id=f"{es.member} {size}")
        await es.send_many("g", [b"%d" % number for number in range(500)])

    with LocalCluster(tmp_path, 2, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(main(cluster))


def test_state_goes_to_who_joins_by_notes_that_come_back_to_their_sender(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        donor, joiner = Replica(), Replica()
        with evensong.sync.connect(cluster.state(1), name="ann") as ann:
            group = ann.join("g", state=donor)
            said = [b"%d" % number * 200 for number in range(300)]
            ann.send_many("g", said)
            while len(donor.said) < len(said):
                event = group.next_event(PATIENCE_S)
                if isinstance(event, Message):
                    donor.said.append(event.payload)
            with evensong.sync.connect(cluster.state(1), name="bob") as bob:
                joined = bob.join("g", state=joiner)
                while not joiner.said:
                    for one in (group, joined):
                        try:
                            one.next_event(0.05)
                        except TimeoutError:
                            continue
                assert joiner.said == donor.said == said
                assert not ann._line.dialogue._sent.kept
                assert not bob._line.dialogue._sent.kept
