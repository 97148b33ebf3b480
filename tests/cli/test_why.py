import json
from pathlib import Path

import pytest

from evensong.cli.main import main
from evensong.sim.faults import Calm, Crash, Restart
from evensong.sim.run import run_recorded
from evensong.sim.setup import Options, Setup
from evensong.sim.workload import Burst
from evensong.trace.parquet import write_trace
from tests.why.scribe import ring_of_three

MS = 1_000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    workload = tuple(Burst(at * MS, 1 + at % 3) for at in range(10, 140))
    plan = (Crash(50 * MS, 2), Restart(100 * MS, 2), Calm(140 * MS))
    _, history = run_recorded(Setup(Options((1, 2, 3)), plan, workload))
    write_trace(history, tmp_path / "trace", "7")
    return tmp_path / "trace"


def recorders(directory: Path) -> list[str]:
    one, two, three = ring_of_three()
    three.put("end", how="stop", cause="leave")
    for scribe in (one, two):
        scribe.gathers("leave", 3, proposed="1 2", failed="3", heard="3:250")
        scribe.forms("12.1", 1, 2)
    return [
        str(scribe.write(directory / f"flight-{scribe.node}.jsonl")) for scribe in (one, two, three)
    ]


def test_a_trace_of_the_simulator_is_explained(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(trace)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("change")] == [
        "change 1: ring 8.1 {1,2,3}, was 4.1 {1}, 4.2 {2}, 4.3 {3}",
        "change 2: ring 12.1 {1,3}, was 8.1 {1,2,3}; without n2",
        "change 3: ring 1036.1 {1,2,3}, was 12.1 {1,3}, 1032.2 {2}; with n2",
    ]
    assert "  n1, n2 and n3 started and found each other" in lines
    assert "  n2 failed (crash)" in lines
    assert "  n2 joined again (restarted)" in lines


def test_one_change_is_chosen_by_number_by_ring_and_by_node(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def headlines(*options: str) -> list[str]:
        assert main(["why", str(trace), *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.partition(",")[0] for line in lines if line.startswith("change")]

    assert headlines("--change", "2") == ["change 2: ring 12.1 {1"]
    assert headlines("--change", "1036.1") == ["change 3: ring 1036.1 {1"]
    assert len(headlines("--node", "2")) == 3  # it was in two, and lost by the other
    assert headlines("--node", "9") == []


def test_json_has_the_causes_and_what_they_are_backed_by(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(trace), "--json", "--change", "2"]) == 0
    told = json.loads(capsys.readouterr().out)
    (run,) = told["runs"]
    assert run["run"] == "7"
    assert {source["clock"] for source in run["sources"]} == {"virtual"}
    (change,) = run["changes"]
    assert (change["ring"], change["members"], change["gone"]) == ("12.1", [1, 3], [2])
    (cause,) = change["causes"]
    assert (cause["kind"], cause["nodes"]) == ("killed", [2])
    end, *given_up = cause["records"]
    assert (end["node"], end["what"], end["figures"]["how"]) == (2, "end", "fail")
    assert [record["figures"]["failed"] for record in given_up] == ["2", "2"]
    first, second = change["nodes"]
    assert (first["node"], second["node"]) == (1, 3)
    assert first["last_token"]["from"] == 3
    assert first["gave_up"] == [{"node": 2, "cause": "consensus timeout", "by": None}]
    assert set(first["phases_us"]) == {"agree", "commit", "recover"}
    assert change["recover_us"] == max(node["installed_us"] for node in change["nodes"]) - min(
        node["noticed_us"] for node in change["nodes"]
    )


def test_recorders_are_explained_one_by_one_and_by_their_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = recorders(tmp_path)
    assert main(["why", *paths]) == 0
    by_file = capsys.readouterr().out
    assert "  n3 left (stop)" in by_file.splitlines()
    assert main(["why", str(tmp_path)]) == 0
    assert capsys.readouterr().out == by_file


def test_a_torn_recorder_is_used_and_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = recorders(tmp_path)
    torn = Path(paths[1])
    torn.write_bytes(torn.read_bytes()[:-30])
    assert main(["why", *paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"note: {torn}: its last line is cut short and left out" in lines
    assert "  n3 left (stop)" in lines


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: path / "gone", "there is no such file or directory"),
        (lambda path: path, "holds no daemon's state, no trace and no flight recorder"),
        (lambda path: _file(path / "flight-1.jsonl", "nonsense\n"), "line 1 is not JSON"),
        (lambda path: _file(path / "n1.toml", "node = 1"), "n1.toml"),
        (lambda path: _run(path / "run_id=7" / "node=1"), "has no deliveries-0000.parquet"),
    ],
)
def test_what_explains_nothing_is_refused_in_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: "object",
    complaint: str,
) -> None:
    assert callable(make)
    assert main(["why", str(make(tmp_path))]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("evensong: ")
    assert complaint in line


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _run(path: Path) -> Path:
    path.mkdir(parents=True)
    return path.parent


def test_a_change_that_is_not_there_is_refused(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(trace), "--change", "9"]) == 2
    assert capsys.readouterr().err == "evensong: --change: there is no change 9; there are 3\n"


def test_what_a_trace_says_does_not_reach_the_terminal_as_an_order(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = trace / "run_id=7" / "node=2" / "events-0000.parquet"
    rows = pq.read_table(path)
    causes = [f"\x1b[2J{cause}" if cause else cause for cause in rows.column("cause").to_pylist()]
    at = rows.schema.get_field_index("cause")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(causes)), path)
    main(["why", str(trace)])
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
