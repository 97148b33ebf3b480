"""Who is called, and in which order."""

import os
import time
from functools import partial

from evensong.daemon.watch import READ, Watch


def test_the_last_are_called_behind_the_others() -> None:
    watch = Watch()
    called: list[int] = []

    def note(number: int, _events: int) -> None:
        called.append(number)

    pipes = [os.pipe() for _ in range(3)]
    for number, (reading, writing) in enumerate(pipes):
        watch.add(reading, partial(note, number), is_last=number == 0)
        os.write(writing, b"x")
    ready = watch.wait(1_000_000)
    assert len(ready) == 3
    watch.dispatch(ready)
    assert sorted(called[:2]) == [1, 2]
    assert called[2] == 0
    watch.remove(pipes[1][0])
    watch.dispatch(ready)  # who is removed meanwhile is not called
    assert sorted(called[3:]) == [0, 2]
    watch.close()
    for pipe in pipes:
        for descriptor in pipe:
            os.close(descriptor)


def test_looking_finds_what_is_ready_and_ends_in_time() -> None:
    watch = Watch()
    reading, writing = os.pipe()
    watch.add(reading, lambda _: None)
    began = time.monotonic_ns()
    assert watch.look(2_000) == []
    assert time.monotonic_ns() - began >= 2_000_000
    assert watch.look(-1) == []
    os.write(writing, b"x")
    assert watch.look(-1) == watch.look(10_000_000) == [(reading, READ)]
    watch.close()
    os.close(reading)
    os.close(writing)
