"""The guide's own programs and files, as they stand there, with real daemons."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import pytest

from evensong.cli.main import main
from evensong.sync import connect
from tests.daemon.local import LocalCluster
from tests.tidy.source import ROOT

GUIDE = (ROOT / "docs/guide.md").read_text()


def block(kind: str) -> str:
    """Return the guide's only block of a kind, without what it is indented by."""
    (found,) = (part for part in GUIDE.split("```")[1::2] if part.startswith(f"{kind}\n"))
    return dedent(found.removeprefix(f"{kind}\n"))


class Store:
    """The guide's program, run at a daemon."""

    def __init__(self, program: Path, state: Path, stack: ExitStack) -> None:
        command = [sys.executable, str(program), str(state)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
        stack.callback(self._end)

    def _end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def printed(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it has ended"
        return line.rstrip("\n")

    def printed_with(self, part: str) -> str:
        """Return the first line that has it: whatever else is wrong with it, the wait ends."""
        while part not in (line := self.printed()):
            pass
        return line


def test_the_guides_store_gets_the_state_and_survives_a_merge(tmp_path: Path) -> None:
    program = tmp_path / "store.py"
    program.write_text(block("python"))

    def put(node: int, *settings: bytes) -> None:
        with connect(cluster.state(node)) as es:
            es.send_many("store", settings).ordered()

    with LocalCluster(tmp_path, 3) as cluster, ExitStack() as stack:
        cluster.start()
        cluster.wait_for_ring()
        first, second = (Store(program, cluster.state(node), stack) for node in (1, 2))
        for one in (first, second):
            assert one.printed() == "{}"
        put(3, b"colour=red", b"size=5")
        for one in (first, second):
            assert one.printed_with("'5'") == "{'colour': 'red', 'size': '5'}"
        third = Store(program, cluster.state(3), stack)
        assert third.printed() == "{'colour': 'red', 'size': '5'}"
        put(3, b"size=4")  # behind the third's word that it is ready: now it is a side of its own
        assert third.printed_with("'4'") == "{'colour': 'red', 'size': '4'}"
        cluster.signal(3, signal.SIGSTOP)
        cluster.wait_for_ring([1, 2])
        put(1, b"colour=blue")
        assert first.printed_with("blue") == "{'colour': 'blue', 'size': '4'}"
        cluster.signal(3, signal.SIGCONT)
        cluster.wait_for_ring()
        put(1, b"size=6")
        for one in (first, second, third):
            assert one.printed_with("'6'") == "{'colour': 'blue', 'size': '6'}"


@pytest.mark.parametrize("node", [1, 2, 3])
def test_the_guides_settings_are_good(
    node: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    text = block("toml")
    assert 'state = "/var/lib/evensong"' in text
    config = tmp_path / f"n{node}.toml"
    text = text.replace("/var/lib/evensong", str(state)).replace("node = 1", f"node = {node}")
    config.write_text(text)
    assert main(["keys", "new", str(tmp_path / "cluster.key")]) == 0
    assert main(["config", "check", str(config)]) == 0, capsys.readouterr().out
    assert f"node {node} (n{node}) of 3 in cluster shop, 1 key" in capsys.readouterr().out
