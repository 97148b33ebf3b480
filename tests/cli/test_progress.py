import io
import sys

import pytest

from evensong.cli.progress import (
    Display,
    Lines,
    PlainBar,
    Progress,
    RichBar,
    describe,
    display_for,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def work(display: Display, steps: int, step_s: float, total: int) -> None:
    clock = Clock()
    with Progress("seeds", total, display=display, clock=clock) as progress:
        for _ in range(steps):
            clock.now += step_s
            progress.advance()


def test_elsewhere_a_line_comes_at_most_every_ten_seconds() -> None:
    stream = io.StringIO()
    work(Lines(stream), steps=25, step_s=1.0, total=25)
    assert stream.getvalue().splitlines() == [
        "seeds: 10/25, 1/s, 15s left",
        "seeds: 20/25, 1/s, 5s left",
        "seeds: 25/25, 1/s, took 25s",
    ]


def test_elsewhere_short_work_says_nothing() -> None:
    stream = io.StringIO()
    work(Lines(stream), steps=9, step_s=1.0, total=9)
    assert stream.getvalue() == ""


def test_the_last_line_is_not_said_twice() -> None:
    stream = io.StringIO()
    work(Lines(stream), steps=2, step_s=10.0, total=2)
    assert len(stream.getvalue().splitlines()) == 2


def test_a_plain_bar_redraws_one_line_and_ends_it() -> None:
    stream = Terminal()
    work(PlainBar(stream), steps=4, step_s=1.0, total=4)
    drawn = stream.getvalue()
    assert drawn.count("\n") == 1
    assert drawn.endswith("\n")
    assert drawn.count("\r") == 4
    assert "seeds [#######-----------------------] 1/4, 1/s, 3s left" in drawn
    assert "seeds [##############################] 4/4, 1/s, took 4s" in drawn


def test_a_plain_bar_hides_a_longer_line_before_it() -> None:
    stream = Terminal()
    bar = PlainBar(stream)
    bar.show("a long label", 1, 2, 1.0)
    bar.show("short", 1, 2, 1.0)
    long, short = stream.getvalue().split("\r")[1:]
    assert len(short) == len(long)


def test_a_bar_is_not_redrawn_at_every_step() -> None:
    stream = Terminal()
    work(PlainBar(stream), steps=1000, step_s=0.001, total=1000)
    assert 5 <= stream.getvalue().count("\r") <= 11


def test_a_rich_bar_shows_the_same_figures() -> None:
    stream = Terminal()
    work(RichBar(stream), steps=4, step_s=1.0, total=4)
    assert "1/4, 1/s, 3s left" in stream.getvalue()
    assert "4/4, 1/s, took 4s" in stream.getvalue()


def test_a_rich_bar_that_never_showed_writes_nothing() -> None:
    stream = Terminal()
    work(RichBar(stream), steps=1, step_s=0.01, total=1)
    assert stream.getvalue() == ""


def fail_after_one_step(display: Display) -> None:
    clock = Clock()
    with Progress("seeds", 9, display=display, clock=clock) as progress:
        clock.now += 1
        progress.advance()
        raise KeyboardInterrupt


def test_work_that_fails_leaves_a_fresh_line() -> None:
    stream = Terminal()
    with pytest.raises(KeyboardInterrupt):
        fail_after_one_step(PlainBar(stream))
    assert stream.getvalue().endswith("\n")


def test_the_stream_decides_the_display() -> None:
    assert isinstance(display_for(io.StringIO()), Lines)
    assert isinstance(display_for(Terminal()), RichBar)


def test_without_rich_the_bar_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)  # an import of it now fails
    assert isinstance(display_for(Terminal()), PlainBar)


def test_progress_never_touches_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress("seeds", 2, clock=clock) as progress:
        for _ in range(2):
            clock.now += 60
            progress.advance()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("seeds: 1/2, 0.017/s, 1m00s left\n")


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "text"),
    [
        (0, 10, 5.0, "0/10"),
        (5, 10, 0.0, "5/10"),
        (0, 0, 1.0, "0/0"),
        (100, 8_200, 1.0, "100/8200, 100/s, 1m21s left"),
        (1, 7_201, 1.0, "1/7201, 1/s, 2h00m left"),
        (10, 10, 40.0, "10/10, 0.25/s, took 40s"),
    ],
)
def test_figures_are_said_in_words_a_person_reads(
    done: int, total: int, elapsed_s: float, text: str
) -> None:
    assert describe(done, total, elapsed_s) == text


def test_an_empty_range_is_a_full_bar() -> None:
    stream = Terminal()
    PlainBar(stream).show("seeds", 0, 0, 1.0)
    assert "[##############################] 0/0" in stream.getvalue()
