"""Of a trace only what tells anything is read; what is told is the same as if all had been."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evensong.errors import BadTrace
from evensong.sim.groups.draw import draw
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import GROUP_ETYPES
from evensong.trace import rows
from evensong.trace.assembly import Assembly
from evensong.trace.columns import part_name
from evensong.trace.directory import Place, settle
from evensong.trace.parquet import add_part, node_of, parts_in, write_trace
from evensong.why import Account, explain, plain
from evensong.why.records import from_life
from evensong.why.traces import read_accounts

EVENTS = part_name("events", 0)


def written(tmp_path: Path, seed: int = 3) -> Path:
    """Write the trace of a simulated run with faults and clients in it."""
    _, history = run_recorded(draw(seed, 4, 100))
    return write_trace(history, tmp_path, "x")


def read_here(run: Path) -> list[Account]:
    (accounts,) = read_accounts(Place(run, None), is_running=False).values()
    return accounts


def read_whole(run: Path) -> list[Account]:
    """Read every event there is."""
    accounts = []
    for folder in sorted(run.glob("node=*")):
        assembly = Assembly(node_of(folder), may_start_late=False)
        for part in parts_in(folder)["events"]:
            add_part(assembly, folder / part_name("events", part), "events")
        settle(assembly.lives.values(), "")
        accounts += [from_life(one.life, f"the trace {run}") for one in assembly.lives.values()]
    return accounts


@pytest.mark.parametrize("seed", [3, 21])
@pytest.mark.parametrize("batch_rows", [1, 7, 1 << 16])
def test_stories_are_those_of_the_whole_trace(
    seed: int, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, seed)
    whole = read_whole(run)
    monkeypatch.setattr(rows, "BATCH_ROWS", batch_rows)
    here = read_here(run)
    told = [plain(change) for change in explain(whole)]
    assert [plain(change) for change in explain(here)] == told
    assert len(told) > 2
    assert [account.ended for account in here] == [account.ended for account in whole]
    assert [account.records[-1] for account in here] == [account.records[-1] for account in whole]


def test_what_is_kept_is_all_but_groups_and_visits_with_another_behind(tmp_path: Path) -> None:
    run = written(tmp_path)
    for here, whole in zip(read_here(run), read_whole(run), strict=True):
        kept = [
            record
            for record, following in zip(whole.records, [*whole.records[1:], None], strict=True)
            if following is None
            or not (record.what in GROUP_ETYPES or record.what == following.what == "token")
        ]
        assert here.records == kept
        counts = Counter(record.what for record in whole.records)
        assert counts["token"] > 2 * Counter(record.what for record in here.records)["token"]
        assert counts["gview"] > 0


def test_a_visit_that_is_missing_is_noticed_though_it_would_not_be_kept(tmp_path: Path) -> None:
    path = written(tmp_path) / "node=1" / EVENTS
    with pq.ParquetFile(path) as file:
        events = file.read()
    etypes = events.column("etype").to_pylist()
    inside = (at for at in range(2, len(etypes)) if etypes[at - 2 : at + 3] == ["token"] * 5)
    amid = next(inside)
    pq.write_table(pa.concat_tables([events.slice(0, amid), events.slice(amid + 1)]), path)
    with pytest.raises(BadTrace, match=rf"{EVENTS}: pseq {amid + 1} .* where {amid} is due"):
        read_here(path.parent.parent)
