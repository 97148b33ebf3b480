"""Spools whose checksums are right and whose content is not: refused in one sentence."""

import json
from pathlib import Path

import pytest

from evensong.errors import BadTrace
from evensong.sim.history import History
from evensong.trace.parquet import write_trace
from evensong.trace.spool import EVENT, START, Header, frame, read_spool

HEADER = Header("demo", 1, 5, "events", 0, 0, 0, -1, is_transitional=False)
DEEP = "[" * 100_000


def spool(path: Path, *frames: bytes) -> Path:
    path.write_bytes(START + b"".join(frames))
    return path


@pytest.mark.parametrize(
    "lie",
    [
        {"run": "../../esc"},
        {"run": "x/../../esc"},
        {"run": ["demo"]},
        {"run": "a\0b"},
        {"node": 0},
        {"node": -1},
        {"node": 2**70},
        {"node": True},
        {"pos": 1.5},
        {"pseq": None},
        {"level": "everything"},
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, lie: dict[str, object]) -> None:
    header = HEADER._replace(**lie)  # type: ignore[arg-type]
    with pytest.raises(BadTrace, match="cannot be read"):
        read_spool(spool(tmp_path / "spool-0.closed", header.encode()))


@pytest.mark.parametrize(
    "event",
    [
        DEEP,
        '["start", Infinity, 1, "", {}, null]',
        '["start", 0, NaN, "", {}, null]',
        '["start", 0, 1, "\\ud800", {}, null]',
        '["start", 0, 1, "\\u001b[2J", {}, null]',
        '["start", 0, 1, "", {"\\u0000": 1}, null]',
        '["token", 0, 1, "", {}, null]',
        '["conf", 0, 1, "", {}, [1, 1, 0, 0, [Infinity], false]]',
        '["conf", 0, 1, "", {}, [1, 1, 0, 0, [-3], false]]',
        '["conf", 0, 1, "", {}, [1, 1, 0, 0, [], false]]',
    ],
)
def test_an_event_that_cannot_be_is_refused(tmp_path: Path, event: str) -> None:
    written = spool(tmp_path / "spool-0.closed", HEADER.encode(), frame(EVENT, event.encode()))
    with pytest.raises(BadTrace, match="cannot be read"):
        read_spool(written)


def test_an_honest_event_is_read(tmp_path: Path) -> None:
    event = json.dumps(["state", 0, 7, "token loss", {"state": "gather"}, None])
    read = read_spool(
        spool(tmp_path / "spool-0.closed", HEADER.encode(), frame(EVENT, event.encode()))
    )
    assert read is not None
    ((pseq, told),) = read.events
    assert (pseq, told.etype, told.t_us, told.cause) == (0, "state", 7, "token loss")


@pytest.mark.parametrize("run", ["a/b", "../esc", "", ".hidden", "x\ny", "é"])
def test_a_run_takes_a_name_that_stays_where_it_is(tmp_path: Path, run: str) -> None:
    with pytest.raises(BadTrace, match="cannot name a run"):
        write_trace(History(), tmp_path, run)
    assert list(tmp_path.iterdir()) == []
