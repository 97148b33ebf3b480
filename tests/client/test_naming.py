"""Ids that programs choose: seen by sender and receivers alike, beside those that are given."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from evensong import BadName, Message, MessageId, OutcomeUnknown
from evensong.cli.main import main
from evensong.client.naming import send_named
from evensong.client.packing import part_names
from evensong.errors import MalformedFrame
from evensong.sync import connect
from tests.client.fake import Cluster
from tests.client.server import Server, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as one:
        yield one


def test_a_chosen_id_is_seen_by_sender_and_receivers(server: Server) -> None:
    with connect(server.address, name="ann") as es, es.join("g") as group:
        sent = [
            group.send(b"first"),
            group.send(b"second", id="order-17"),
            es.send("g", b"", id="Bestellung für 18"),
            group.send(b"last"),
        ]
        messages = (one for one in group if isinstance(one, Message))
        heard = list(islice(messages, len(sent)))
        assert [one.payload for one in heard] == [b"first", b"second", b"", b"last"]
        assert [one.id for one in heard] == [one.id for one in sent]
        assert [one.id for one in heard[1:3]] == ["order-17", "Bestellung für 18"]
        assert isinstance(heard[0].id, MessageId)
        assert "order-17" in repr(heard[1])


def test_messages_with_ids_share_a_frame() -> None:
    cluster = Cluster(1)
    ann = cluster.program()
    stream = ann.join("g")
    for number in range(50):
        send_named(ann.dialogue, "g", b"%d" % number, 0, f"no {number}")
    cluster.settle()
    heard = [one for one in stream.take() if isinstance(one, Message)]
    assert [(one.id, one.payload) for one in heard] == [(f"no {n}", b"%d" % n) for n in range(50)]
    assert len({one.order.seq for one in heard if one.order is not None}) == 1


@pytest.mark.parametrize("bad", ["", "x" * 256, "é" * 128, "\udcff", 17, b"x"])
def test_an_id_that_cannot_be_is_refused_and_nothing_is_sent(server: Server, bad: str) -> None:
    with connect(server.address, name="ann") as es, es.join("g") as group:
        with pytest.raises(BadName, match="1 to 255 bytes of text"):
            group.send(b"x", id=bad)
        group.send(b"y", id="x" * 255)
        heard = next(one for one in group if isinstance(one, Message))
        assert (heard.payload, heard.id) == (b"y", "x" * 255)


def test_what_may_have_happened_is_told_by_the_chosen_id(tmp_path: Path) -> None:
    with serving(tmp_path) as server, connect(server.address, name="ann") as es:
        server.freeze()
        receipt = es.send("g", b"x", id="order-17")
        server.kill()
        with pytest.raises(OutcomeUnknown, match="order-17"):
            receipt.ordered()


@pytest.mark.parametrize("body", [b"", b"\0x", b"\5abc", b"\1\xff"])
def test_a_message_without_its_id_is_no_message(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        part_names([b"\1aok", body])


def test_send_takes_an_id(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", server.address, "g", "buy 5", "--id", "order-17", "--json"]) == 0
    assert '"id": "order-17"' in capsys.readouterr().out
    assert main(["send", server.address, "g", "buy 5", "buy 6", "--id", "order-17"]) == 2
    assert "--id" in capsys.readouterr().err
