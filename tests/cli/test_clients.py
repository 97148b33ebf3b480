"""The commands of programs, against a daemon in memory."""

import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import evensong
from evensong import Message, Service
from evensong.cli.main import main
from evensong.sync import connect
from tests.client.server import Server, serving
from tests.daemon.local import wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


def receiving(server: Server, *arguments: str) -> subprocess.Popen[str]:
    """Start `evensong recv`, and wait until it is a member."""
    command = [sys.executable, "-m", "evensong.cli.main", "recv", server.address, "g", *arguments]
    receiver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert receiver.stdout is not None
    first = receiver.stdout.readline()
    assert "view" in first, receiver.stderr and receiver.stderr.read()
    return receiver


def test_send_says_where_messages_came_to_be(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["send", server.address, "g,h", "one", "two", "--json", "--name", "ann"]) == 0
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    places = [(told["order"]["seq"], told["order"]["sub"]) for told in (one, two)]
    assert places[0] < places[1]
    assert one["id"] < two["id"]


def test_send_reads_lines(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\r\n\n\xff\nthree")))
    with connect(server.address) as es, es.join("g") as group:
        assert main(["send", server.address, "g", "--safe"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 4
        events = [group.next_event(30.0) for _ in range(5)]
    got = [event.payload for event in events if isinstance(event, Message)]
    assert got == [b"one", b"", b"\xff", b"three"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("g --safe one two", id="behind an option"),
        pytest.param("--name ann g one --safe two", id="on both sides of it"),
        pytest.param("g --safe -- one two", id="behind two dashes"),
    ],
)
def test_messages_may_stand_anywhere_among_options(
    words: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as es, es.join("g") as group:
        assert main(["send", server.address, *words.split()]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
        events = [group.next_event(30.0) for _ in range(3)]
    got = [(one.payload, one.service) for one in events if isinstance(one, Message)]
    assert got == [(b"one", Service.SAFE), (b"two", Service.SAFE)]


def test_a_message_may_look_like_an_option(server: Server) -> None:
    with connect(server.address) as es, es.join("g") as group:
        assert main(["send", server.address, "g", "--safe", "--", "-x", "--"]) == 0
        events = [group.next_event(30.0) for _ in range(3)]
    assert [one.payload for one in events if isinstance(one, Message)] == [b"-x", b"--"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("send", "g --safe one --saver"),
        ("recv", "g --json h --jsn"),
        ("status", "--json --jsn"),
    ],
)
def test_what_no_command_takes_is_answered_with_its_usage(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "n1", *words.split()])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: evensong {command} ")
    assert said.endswith(f"unrecognized arguments: {words.split()[-1]}\n")


@pytest.mark.parametrize("service", ["basic", "fifo", "causal", "agreed", "safe"])
def test_send_asks_for_a_service(
    service: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as es, es.join("g") as group:
        assert main(["send", server.address, "g", "x", "--service", service, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["order"] is not None  # a ring orders everything
        events = [group.next_event(30.0) for _ in range(2)]
    (message,) = [event for event in events if isinstance(event, Message)]
    assert message.service is (Service.SAFE if service == "safe" else Service.AGREED)


def test_send_says_so_where_a_message_has_no_place(capsys: pytest.CaptureFixture[str]) -> None:
    with evensong.Node(engine="transis") as node:
        words = ["send", node.address, "g", "x", "--service", "causal"]
        assert main(words) == 0
        assert capsys.readouterr().out.endswith(" is sent, without a place in the order\n")
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["order"] is None


def test_send_does_not_wait_for_one_line_before_it_sends_the_next(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"".join(b"%d\n" % number for number in range(2_000))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    queue = server.cluster.order[1].groups.queue
    with connect(server.address) as es, es.join("g") as group:
        server.freeze()
        sending = threading.Thread(target=main, args=[["send", server.address, "g", "--json"]])
        sending.start()
        wait_for("more than one line", lambda: queue.queued_bytes > 1_000)
        server.thaw()
        events = [group.next_event(30.0) for _ in range(2_001)]
        sending.join()
    told = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    messages = [event for event in events if isinstance(event, Message)]
    assert [str(one.id) for one in messages] == told
    assert [int(one.payload) for one in messages] == list(range(2_000))


def test_a_line_that_is_too_long_does_not_hide_those_before_it(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["send", server.address, "g", "one", "two", "x" * 20_000_000]) == 2
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert "a message of 20000000 bytes" in told.err


def test_neither_names_nor_payloads_act_on_the_terminal_or_forge_a_line(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver = receiving(server, "--count", "1")
    with connect(server.address, name="x\n-- view of y") as es, es.join("h\x1b[2J"):
        assert main(["groups", server.address]) == 0
        assert "h\\x1b[2J" in capsys.readouterr().out
        es.send("g", b"one\n-- view of g\x1b[31m\xc2\x9b").ordered()
        out, _ = receiver.communicate(timeout=30)
        assert main(["send", server.address, "g", "x", "--id", "\x1b"]) == 0
        assert "message \\x1b is" in capsys.readouterr().out
    (line,) = out.splitlines()
    assert line.startswith("#x\\n-- view of y#")
    assert line.endswith(" to g: one\\n-- view of g\\x1b[31m\\x9b")


def test_groups_are_listed(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", str(server.path.parent)]) == 0
    assert "no groups" in capsys.readouterr().out
    with connect(server.address, name="ann") as es, es.join("orders"):
        assert main(["groups", str(server.path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"orders": [str(es.member)]}
        assert main(["groups", server.address]) == 0
        assert str(es.member) in capsys.readouterr().out


def test_recv_follows_a_group_until_it_is_interrupted(server: Server) -> None:
    receiver = receiving(server, "--json")
    assert receiver.stdout is not None
    with connect(server.address, name="ann") as es:
        es.send("g", "Grüße".encode())
        es.send("g", b"\xff")
        text, binary = (json.loads(receiver.stdout.readline()) for _ in range(2))
        assert (text["payload"], text["sender"]) == ("Grüße", str(es.member))
        assert binary["payload_base64"] == "/w=="
        receiver.send_signal(signal.SIGINT)
        out, err = receiver.communicate(timeout=30)
        assert (receiver.returncode, out, err) == (0, "", "")
        assert es.groups() == {}


def test_recv_stops_after_as_many_as_it_was_asked_for(server: Server) -> None:
    receiver = receiving(server, "--count", "2")
    with connect(server.address, name="ann") as es:
        es.send_many("g", [b"one", b"two", b"three"]).ordered()
    out, _ = receiver.communicate(timeout=30)
    assert receiver.returncode == 0
    assert [line.rpartition(": ")[2] for line in out.splitlines()] == ["one", "two"]


def test_a_daemon_that_dies_ends_recv_with_3(server: Server) -> None:
    receiver = receiving(server)
    server.kill()
    _, err = receiver.communicate(timeout=30)
    assert receiver.returncode == 3
    assert "evensong: " in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["groups", "ADDRESS.not"], 3),
        (["trace", "flight", "no-such-file"], 2),
        (["groups", "http://there"], 2),
        (["groups", "no-such-file"], 2),
        (["send", "ADDRESS", "#g", "x"], 2),
        (["send", "ADDRESS", "g", "x", "--name", "a#b"], 2),
        (["recv", "ADDRESS", "#g"], 2),
    ],
)
def test_exit_codes_say_what_went_wrong(
    server: Server, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [one.replace("ADDRESS", server.address) for one in arguments]
    assert main(command) == code
    assert capsys.readouterr().err.startswith("evensong: ")


def test_where_no_daemon_runs_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"evensong: {tmp_path}/client.sock: no daemon runs there\n"


def test_a_message_is_not_called_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["send", "there"])
    assert "required: GROUP[,GROUP…]\n" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["groups", "send", "recv"])
def test_help_ends_in_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"example:\n  evensong {command} " in capsys.readouterr().out


def test_what_is_promised_of_a_message_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["send", "n1.toml", "g", "x", "--service", "causal", "--safe"])
    assert caught.value.code == 2
    assert "not allowed with argument --service" in capsys.readouterr().err
