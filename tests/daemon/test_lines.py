import os
import re
import threading
from pathlib import Path

from evensong.daemon.lines import WAITING_MAX, Lines
from tests.daemon.local import DEADLINE_S

LONG = "x" * 100


def is_over_in_time(target: threading.Thread) -> bool:
    target.start()
    target.join(DEADLINE_S)
    return not target.is_alive()


def fill(pipe: int) -> None:
    """Write empty lines into a pipe until it takes no more."""
    os.set_blocking(pipe, False)
    try:
        while True:
            os.write(pipe, b"\n")
    except BlockingIOError:
        os.set_blocking(pipe, True)


def test_a_reader_that_stops_costs_lines_and_not_time() -> None:
    count = 3 * WAITING_MAX
    reading, writing = os.pipe()
    fill(writing)  # so that it does not matter how soon the thread that writes comes to run
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as out:
        said = Lines(out, "n1")

        def speak() -> None:
            for number in range(count):
                said.say(f"line {number} {LONG}")

        assert is_over_in_time(threading.Thread(target=speak, daemon=True))  # and nobody reads
        heard: list[int] = []
        lost = 0
        while len(heard) + lost < count:
            line = reader.readline()
            heard += [int(number) for number in re.findall(r" line (\d+)", line)]
            lost += sum(int(number) for number in re.findall(r"\((\d+) lines before this", line))
        assert heard == sorted(heard)
        assert WAITING_MAX <= len(heard) <= WAITING_MAX + 1  # one of them was being written
        assert "writes its log again" in line
        said.close()


def test_the_end_does_not_wait_for_a_reader_that_has_stopped() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out:
        said = Lines(out, "n1")
        for _ in range(WAITING_MAX):
            said.say(LONG)
        assert is_over_in_time(threading.Thread(target=said.close, daemon=True))
        os.close(reading)
        said.close()


def test_what_was_said_last_is_written_at_the_end(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as out:
        said = Lines(out, "n1")
        for number in range(100):
            said.say(str(number))
        said.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert [int(line.split()[2]) for line in lines] == list(range(100))
