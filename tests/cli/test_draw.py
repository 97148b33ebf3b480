"""`evensong sim --draw`: a picture of one run, or a clear word why there is none."""

import errno
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evensong.cli import draw
from evensong.cli.command import EXIT_OK, EXIT_USAGE
from evensong.cli.main import main

SMALL = ["--nodes", "3", "--messages", "30", "--jobs", "1"]
TRANSIS = ["--engine", "transis"]


def sim(*words: str) -> int:
    return main(["sim", *words])


def messages_in(path: Path) -> int:
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return sum(one.get("class") == "message" for one in root.iter())


def test_a_run_is_drawn_and_what_was_drawn_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "graph.svg"
    assert sim("--seed", "3", *SMALL, *TRANSIS, "--draw", str(picture)) == EXIT_OK
    said = capsys.readouterr().out.splitlines()[-1]
    count = messages_in(picture)
    assert said.startswith(f"drawn: {picture}, 0 to ")
    assert said.endswith(f" ms, {count} of {count} messages of the graph")
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    title = root.findtext("{http://www.w3.org/2000/svg}title")
    assert title == "evensong sim --seed 3 --nodes 3 --messages 30 --engine transis"


def test_json_names_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "graph.svg"
    words = ["--seed", "3", *SMALL, *TRANSIS, "--draw", str(picture), "--span", "100:200", "--json"]
    assert sim(*words) == EXIT_OK
    drawn = json.loads(capsys.readouterr().out)["drawn"]
    assert drawn["file"] == str(picture)
    assert (drawn["from_ms"], drawn["to_ms"]) == (100, 200)
    assert 0 < drawn["messages"] == messages_in(picture) < drawn["of"]


def test_a_long_run_is_drawn_as_far_as_a_picture_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "POSTS_MAX", 20)
    picture = tmp_path / "graph.svg"
    assert sim("--seed", "3", *SMALL, *TRANSIS, "--draw", str(picture)) == EXIT_OK
    assert "20 of " in capsys.readouterr().out.splitlines()[-1]
    assert messages_in(picture) == 20
    assert "--span A:B shows another part" in draw.told(
        {"file": "f", "from_ms": 0.0, "to_ms": 1.0, "messages": 20, "of": 21}
    )


def test_a_span_with_too_much_is_refused_with_one_that_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "POSTS_MAX", 20)
    picture = tmp_path / "graph.svg"
    words = ["--seed", "3", *SMALL, *TRANSIS, "--draw", str(picture), "--span"]
    assert sim(*words, "30:") == EXIT_USAGE
    error = capsys.readouterr().err
    assert "too many for a picture, which shows 20" in error
    assert not picture.exists()
    fits = error.split("; ")[1].split()[0]
    assert sim(*words, fits) == EXIT_OK
    assert 15 < messages_in(picture) <= 20


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--seed", "1", "--draw", "{}/a.svg"], "totem orders by a token and has no causal graph"),
        (["--seeds", "0:9", *TRANSIS, "--draw", "{}/a.svg"], "of one run, not of 9"),
        (["--seed", "1", *TRANSIS, "--draw", "{}/no/a.svg"], "there is no directory"),
        (["--seed", "1", *TRANSIS, "--draw", "{}"], "it is a directory"),
        (["--seed", "1", *TRANSIS, "--span", "1:2"], "--span chooses what --draw FILE shows"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_the_run(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sim(*(word.format(tmp_path) for word in words)) == EXIT_USAGE
    said = capsys.readouterr()
    assert why in said.err
    assert not said.out
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / ("x" * 300)
    assert sim("--seed", "3", *SMALL, *TRANSIS, "--draw", str(name)) == EXIT_USAGE
    said = capsys.readouterr()
    assert f"{name}: cannot be written: File name too long" in said.err
    assert not said.out, "refused before the run"
    full = tmp_path / "a.svg"

    def write_text(path: Path, text: str, encoding: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_text)
    assert sim("--seed", "3", *SMALL, *TRANSIS, "--draw", str(full)) == EXIT_USAGE
    said = capsys.readouterr()
    assert f"{full}: cannot be written: No space left on device" in said.err
    assert "every promise kept" in said.out, "what the run came to is told all the same"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("span", ["5", "a:b", "9:3", "-1:5", "nan:5", "1:1e99"])
def test_a_span_that_is_none_is_refused(span: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        sim("--seed", "1", *TRANSIS, "--draw", "a.svg", f"--span={span}")
    assert left.value.code == EXIT_USAGE
    assert repr(span) in capsys.readouterr().err


def test_a_span_after_the_end_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(tmp_path / "a.svg")
    words = ["--seed", "3", *SMALL, *TRANSIS, "--draw", picture, "--span", "5000:6000"]
    assert sim(*words) == EXIT_USAGE
    assert "the run is over at" in capsys.readouterr().err
