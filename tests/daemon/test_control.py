import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from evensong.daemon.control import (
    CONNECTIONS_MAX,
    IDLE_S,
    LINE_MAX,
    SOCKET_NAME,
    Answer,
    ControlServer,
    Conversation,
    Later,
    Request,
    ask,
)
from evensong.daemon.watch import Watch
from evensong.errors import BadRequest, Unreachable


def answer(request: Request) -> Answer | Later:
    if request.get("do") == "fail":
        raise BadRequest("do: not that")
    if request.get("do") == "wait":
        return Later()
    return {"heard": request.get("do"), "much": "x" * int(str(request.get("much", 0)))}


class Serving:
    """A control socket that is served by a thread, as a daemon's loop would."""

    def __init__(self, state: Path) -> None:
        self.watch = Watch()
        self.server = ControlServer(state, self.watch, self.answer)
        self.laters: list[Later] = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def answer(self, request: Request) -> Answer | Later:
        given = answer(request)
        if request.get("do") == "give":
            self.laters.pop().give({"ok": True, "heard": "at last"})
        elif isinstance(given, Later):
            self.laters.append(given)
        return given

    def serve(self) -> None:
        while not self.is_over.is_set():
            self.watch.dispatch(self.watch.wait(10_000))

    def close(self) -> None:
        self.is_over.set()
        self.thread.join()
        self.server.close()
        self.watch.close()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    with closing(Serving(tmp_path)):
        yield tmp_path


def raw(state: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(20)
    stream.connect(str(state / SOCKET_NAME))
    return stream


def said(state: Path, line: bytes) -> dict[str, object]:
    with raw(state) as stream:
        stream.sendall(line)
        reply = json.loads(stream.makefile("rb").readline())
    assert isinstance(reply, dict)
    return reply


def test_a_request_is_answered(state: Path) -> None:
    assert ask(state, {"do": "sing"})["heard"] == "sing"


def test_a_refusal_is_an_error_at_the_asker(state: Path) -> None:
    with pytest.raises(BadRequest, match="do: not that"):
        ask(state, {"do": "fail"})


def test_a_conversation_goes_on_after_a_refusal_and_ends_with_its_daemon(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    with closing(Conversation(tmp_path)) as conversation:
        assert conversation.ask({"do": "sing"})["heard"] == "sing"
        with pytest.raises(BadRequest, match="do: not that"):
            conversation.ask({"do": "fail"})
        assert conversation.ask({"do": "dance"})["heard"] == "dance"
        serving.close()
        with pytest.raises(Unreachable, match=str(tmp_path)):
            conversation.ask({"do": "sing"})


@pytest.mark.parametrize(
    "line", [b"\n", b"{\n", b"[1]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'"text"\n']
)
def test_bad_input_is_answered_by_an_error(state: Path, line: bytes) -> None:
    reply = said(state, line)
    assert reply["ok"] is False
    assert "a request is" in str(reply["error"])
    assert ask(state, {"do": "on"})["heard"] == "on"


def test_a_request_without_end_is_cut_off(state: Path) -> None:
    reply = said(state, b"x" * (LINE_MAX + 1))
    assert reply == {"ok": False, "error": f"a request has at most {LINE_MAX} bytes"}


def test_requests_in_one_piece_are_answered_one_by_one(state: Path) -> None:
    with raw(state) as stream:
        stream.sendall(b'{"do": 1, "much": 1000000}\n' * 3 + b'{"do": 2}\n')
        replies = stream.makefile("rb")
        heard = [json.loads(replies.readline())["heard"] for _ in range(4)]
    assert heard == [1, 1, 1, 2]


def test_one_connection_gets_one_answer_a_turn(tmp_path: Path) -> None:
    watch, asked = Watch(), []

    def note(request: Request) -> Answer:
        asked.append(request["do"])
        return {}

    server = ControlServer(tmp_path, watch, note)
    with raw(tmp_path) as stream:
        watch.dispatch(watch.wait(20_000_000))  # the connection
        stream.sendall(b"".join(b'{"do": %d}\n' % number for number in range(50)) + b'{"do": ')
        for turn in range(1, 51):
            watch.dispatch(watch.wait(20_000_000))
            assert asked == list(range(turn))
        watch.dispatch(watch.wait(0))  # it waits for the rest of a line now
        assert watch.wait(0) == []
        stream.sendall(b'"last"}\n')
        watch.dispatch(watch.wait(20_000_000))
        assert asked[-1] == "last"
    server.close()
    watch.close()


def test_connections_are_bounded(state: Path) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(raw(state)) for _ in range(CONNECTIONS_MAX + 1)]
        reply = json.loads(streams[-1].makefile("rb").readline())
        assert reply == {"ok": False, "error": "too many connections"}
        streams[0].sendall(b'{"do": "on"}\n')
        assert json.loads(streams[0].makefile("rb").readline())["ok"] is True


def test_who_is_silent_longest_makes_room(tmp_path: Path) -> None:
    now = 0.0
    with ExitStack() as stack:
        watch = stack.enter_context(closing(Watch()))
        laters = [Later()]
        stack.enter_context(
            closing(ControlServer(tmp_path, watch, lambda _: laters[0], lambda: now))
        )

        def connected() -> socket.socket:
            stream = stack.enter_context(raw(tmp_path))
            watch.dispatch(watch.wait(20_000_000))
            return stream

        waiting = connected()
        waiting.sendall(b'{"do": "wait"}\n')
        watch.dispatch(watch.wait(20_000_000))
        now = 1.0
        idle = connected()
        now = 2.0
        for _ in range(CONNECTIONS_MAX - 2):
            connected()
        now = 1.0 + IDLE_S - 0.5
        assert b"too many connections" in connected().recv(1_000)
        now = 1.0 + IDLE_S
        newcomer = connected()
        assert idle.recv(1) == b""
        laters[0].give({"ok": True, "heard": "at last"})
        assert b"at last" in waiting.recv(1_000)
        newcomer.sendall(b"{\n")
        watch.dispatch(watch.wait(20_000_000))
        assert b"a request is one line" in newcomer.recv(1_000)


def test_a_server_without_descriptors_rests_until_its_next_chore(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        watch = stack.enter_context(closing(Watch()))
        server = stack.enter_context(closing(ControlServer(tmp_path, watch, answer)))
        stream = stack.enter_context(raw(tmp_path))
        with open(os.devnull, "rb") as nothing:
            room = nothing.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, limits[1]))
        try:
            watch.dispatch(watch.wait(20_000_000))
            assert watch.wait(0) == []
            server.tend(0)
            watch.dispatch(watch.wait(20_000_000))
            assert watch.wait(0) == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        server.tend(0)
        watch.dispatch(watch.wait(20_000_000))
        stream.sendall(b'{"do": "on"}\n')
        watch.dispatch(watch.wait(20_000_000))
        assert b'"heard": "on"' in stream.recv(1_000)


def test_an_answer_may_come_later_and_the_next_request_waits_for_it(state: Path) -> None:
    with raw(state) as stream:
        stream.sendall(b'{"do": "wait"}\n{"do": "next"}\n')
        stream.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stream.recv(1)
        stream.settimeout(20)
        assert ask(state, {"do": "give"})["heard"] == "give"  # the loop serves others meanwhile
        lines = stream.makefile("rb")
        assert json.loads(lines.readline())["heard"] == "at last"
        assert json.loads(lines.readline())["heard"] == "next"


def test_who_hangs_up_while_waiting_gets_no_answer_and_harms_nobody(state: Path) -> None:
    for _ in range(2 * CONNECTIONS_MAX):
        with raw(state) as stream:
            stream.sendall(b'{"do": "wait"}\n')
            assert ask(state, {"do": "on"})["heard"] == "on"
    assert ask(state, {"do": "give"})["heard"] == "give"


def test_nobody_there_is_told_apart_from_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="no daemon runs there"):
        ask(tmp_path, {"do": "status"})
    with pytest.raises(Unreachable, match="No such file"):
        ask(tmp_path / "nowhere", {"do": "status"})


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with closing(Serving(deep)):
        assert ask(deep, {"do": "dive"})["heard"] == "dive"
    assert not (deep / SOCKET_NAME).exists()
