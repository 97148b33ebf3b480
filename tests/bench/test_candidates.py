"""The best settings for fail-over are chosen by what was recorded: nothing is timed here."""

import json
from pathlib import Path

import pytest

from bench import candidates, compare
from bench.candidates import (
    CANDIDATES,
    Candidate,
    Choice,
    Seen,
    Stand,
    excuse,
    ranked,
    shrinkages,
    stand,
)
from bench.failover import EXCUSED_MAX, Crash
from bench.peers import document
from bench.peers.acceptance import judge
from bench.peers.cells import FAILOVER, FULL_TIMES, KIB, OURS, THEIRS, Cell
from bench.peers.corosync import Corosync, Pause, pauses_in
from bench.peers.figures import Spread
from bench.peers.ledger import Entry, Ledger
from bench.peers.waiting import now_us
from evensong.core.totem.parameters import FAST
from evensong.daemon.settings import parse

CALM = Stand(120, 46_500, 0, 0, [])
NOISE = {"cores": 2, "others_cores": 0.1, "stolen_cores": 0.0}


def seen(
    candidate: Candidate,
    took_ms: int,
    flood: Stand = CALM,
    long: Stand | None = None,
    failed: str = "",
) -> Seen:
    crashes = [Crash(1, None, 1_000 * took_ms, 1_000 * (took_ms + late)) for late in (0, 2, 9)]
    return Seen(candidate, flood, crashes, 0, long, failed)


def of(system: str) -> list[Candidate]:
    return [one for one in CANDIDATES if one.system == system]


def choice(*every: Seen) -> Choice:
    return Choice("knet", False, list(every), NOISE, Spread(1, 1, 1, 1, 1, 1))


def test_three_settings_of_each_are_tried_and_ours_are_settings_that_a_daemon_takes() -> None:
    assert [len(of(OURS)), len(of(THEIRS))] == [3, 3]
    assert FAST.token_loss in [1_000 * one.token_ms for one in of(OURS)]
    for one in of(OURS):
        table: dict[str, object] = {
            "cluster": "bench",
            "node": 1,
            "state": "n1",
            "insecure": True,
            "profile": "fast",
            "peers": {str(node): f"10.77.0.{node}:5405" for node in (1, 2, 3)},
            "timeouts": {key: f"{value}ms" for key, value in one.settings},
        }
        assert parse(table, Path("/"), {}).parameters.patience() == 1_000 * one.token_ms
    for one in of(THEIRS):
        timeouts = dict(one.settings)
        assert timeouts["consensus"] * 10 >= 12 * timeouts["token"]  # else it refuses to start,
        assert timeouts["join"] >= 30  # and so it does below this


def test_the_fastest_that_stood_its_flood_may_win() -> None:
    first, second, third = of(OURS)
    told = [
        seen(first, 60, Stand(120, 1, 1, 0, ["after 3 s: n2"])),
        seen(second, 80),
        seen(third, 70, Stand(120, 1, 0, EXCUSED_MAX, [])),
    ]
    assert [one.candidate for one in ranked(told, OURS)] == [third, second]
    too_often = Stand(120, 1, 0, EXCUSED_MAX + 1, [])
    told[2] = seen(third, 70, too_often)
    assert [one.candidate for one in ranked(told, OURS)] == [second]
    told[1] = seen(second, 80, failed="no ring")
    assert ranked(told, OURS) == []


def test_a_winner_has_stood_the_long_flood_and_the_ratio_is_of_winners() -> None:
    shaken = Stand(600, 1, 1, 0, ["after 200 s: n1"])
    fast, next_fast, _ = of(OURS)
    theirs, *_ = of(THEIRS)
    every = [
        seen(fast, 60, long=shaken),
        seen(next_fast, 80, long=CALM),
        seen(theirs, 203, long=CALM),
    ]
    told = choice(*every)
    won = told.winner(OURS)
    assert won is not None
    assert won.candidate == next_fast
    assert told.ratio() == 82 / 205
    assert all(told.bars().values())
    page = document.candidates(json.loads(told.as_json()))
    assert "| 82.0 | 80.0 | 89.0 | 89.0 | 3, 0 | 0, 0, 120 | 0, 0, 120 | wins |" in page
    assert "| 62.0 | 60.0 | 69.0 | 69.0 | 3, 0 | 0, 0, 120 | 1, 0, 600 |  |" in page
    assert "Ratio of the winners: 0.4, medians." in page
    assert "long flood, after 200 s: n1" in told.table()


def test_without_a_winner_there_is_no_ratio_and_the_bars_are_missed() -> None:
    told = choice(seen(of(OURS)[0], 60, long=CALM), seen(of(THEIRS)[0], 200, failed="no ring"))
    assert told.ratio() is None
    assert list(told.bars().values()) == [True, False, False]
    page = document.candidates(json.loads(told.as_json()))
    assert "| no ring |" in page
    assert "one of the systems has none" in page


def test_views_that_shrink_together_are_one_suspicion() -> None:
    every, two, other = [1, 2, 3], [1, 2], [3]
    views = {
        1: [(10, two), (20, every), (5_000_000, two), (5_100_000, every)],
        2: [(10, two), (20, every), (5_000_300, two), (5_100_000, every), (9_000_000, [2, 3])],
        3: [(10, other), (20, every), (5_200_000, other), (5_300_000, every)],
    }
    assert shrinkages(views, 0) == [5_000_000, 9_000_000]
    assert shrinkages(views, 6_000_000) == [9_000_000]
    assert shrinkages({1: [(10, two), (20, every)]}, 0) == []


def test_what_corosync_says_of_its_own_lateness_excuses_what_is_near() -> None:
    log = (
        "Nov 17 10:00:00.100 [7] n2 corosync warning [MAIN  ] Corosync main process was not "
        "scheduled (@1700000005000) for 288.5130 ms (threshold is 80.0000 ms). Consider token "
        "timeout increase.\nNov 17 10:00:01 [7] n2 corosync notice  [TOTEM ] A new membership\n"
    )
    pauses = pauses_in(log, 2, -1_700_000_000_000_000)
    assert pauses == [Pause(5_000_000, 2, 288_000)]
    assert excuse(4_800_000, pauses) == pauses[0]
    assert excuse(5_900_000, pauses) == pauses[0]
    assert excuse(3_500_000, pauses) is None
    assert excuse(7_000_000, pauses) is None
    assert excuse(5_000_000, [*pauses, Pause(5_000_000, 1, 400_000)]) == Pause(
        5_000_000, 1, 400_000
    )


class Flooded(Corosync):
    """A cluster that is not there: node 1 loses somebody as soon as the flood begins."""

    def __init__(self, late_at_look: int) -> None:
        self.looks = 0
        self.began = 0
        self._late_at_look = late_at_look  # from this look on node 3 says that it was late itself

    def flood(self, size: int) -> None:
        self.began = now_us()

    def delivered(self) -> int:
        return 0

    def views(self, node: int) -> list[tuple[int, list[int]]]:
        lost = [(self.began + 60_000_000, [1, 2])] if node == 1 else []
        return [(self.began - 1, [1, 2, 3]), *lost]

    def pauses(self, since: int) -> list[Pause]:
        self.looks += 1
        is_told = self.looks >= self._late_at_look
        return [Pause(self.began + 60_000_000, 3, 400_000)] if is_told else []


def test_a_flood_ends_when_it_cannot_be_stood_any_more() -> None:
    cluster = Flooded(late_at_look=9)
    seen = stand(cluster, 200, 600)
    assert [seen.false, seen.excused, seen.holds()] == [1, 0, False]
    assert cluster.looks == 2
    assert len(seen.told) == 1


def test_who_was_late_itself_may_say_so_after_the_others() -> None:
    seen = stand(Flooded(late_at_look=2), 200, 0.1)
    assert [seen.false, seen.excused, seen.holds()] == [0, 1, True]
    assert "n3 not let run for 400 ms" in seen.told[0]


def test_a_full_comparison_measures_fail_over_at_the_best_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[candidates.Lasts] = []
    told = choice(seen(of(OURS)[0], 80, long=CALM), seen(of(THEIRS)[0], 198, long=CALM))

    def measure(lasts: candidates.Lasts, _transport: str, *, is_realtime: bool) -> Choice:
        asked.append(lasts)
        return told

    monkeypatch.setattr(candidates, "measure", measure)
    figures = compare.fail_over(FULL_TIMES)
    assert asked == [candidates.Lasts(20, 120, 600)]
    ledger = Ledger(tmp_path / "results.jsonl", {})
    ledger.add(Entry(Cell(FAILOVER, OURS, size=KIB), 0, figures))
    verdicts = judge(Ledger(tmp_path / "results.jsonl", {}))
    assert [one.value for one in verdicts if one.bar.name == "fail-over"] == [0.41]
    assert "Fail-over, three settings of each" in document.part(ledger, verdicts, [])


def test_the_document_has_a_place_for_it() -> None:
    page = Path("docs/performance.md").read_text()
    assert document.replaced(page, candidates.MARKS, "first") != page
