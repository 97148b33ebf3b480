"""Commands whose daemon is none, or one that is broken: one sentence and exit code 3."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from evensong.cli.command import EXIT_UNREACHABLE, EXIT_USAGE
from evensong.cli.main import main
from evensong.daemon.control import SOCKET_NAME


@contextmanager
def answering(state: Path, line: bytes) -> Iterator[None]:
    """Answer every request in a state directory by the same line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(state / SOCKET_NAME))
        listening.listen()

        def serve() -> None:
            with suppress(OSError):  # of the end
                while True:
                    stream, _ = listening.accept()
                    with stream, suppress(OSError):
                        stream.recv(65_536)
                        stream.sendall(line)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("command", ["status", "doctor", "reload"])
@pytest.mark.parametrize(
    "line",
    [
        b"rubbish\n",
        b"[1]\n",
        b"{}\n",
        b'{"ok": 1}\n',
        b'{"ok": true}\n',
        b'{"ok": true, "done": true, "facts": 7, "changes": 7}\n',
        b'{"ok": true, "done": true, "facts": {"peers": 7}, "ring": [], "members": 3}\n',
        b"[" * 90_000 + b"\n",
        b"x" * 20_000_000,
    ],
    ids=range(9),
)
def test_what_is_no_daemon_is_out_of_reach(
    command: str, line: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(tmp_path, line):
        assert main([command, str(tmp_path)]) == EXIT_UNREACHABLE
    told = capsys.readouterr()
    (sentence,) = (told.out + told.err).splitlines()
    assert f"{tmp_path}: what answers there is no daemon" in sentence


@pytest.mark.parametrize(
    ("command", "code"),
    [("status", EXIT_UNREACHABLE), ("doctor", EXIT_UNREACHABLE), ("reload", EXIT_USAGE)],
)
def test_a_refusal_is_told_without_what_would_act_on_a_terminal(
    command: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(tmp_path, b'{"ok": false, "error": "\\u001b[31mno"}\n'):
        assert main([command, str(tmp_path)]) == code
    told = capsys.readouterr()
    assert f"{tmp_path}: [31mno" in told.out + told.err
