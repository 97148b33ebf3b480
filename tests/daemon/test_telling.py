"""What a daemon writes down of its sessions is what the simulator records of the same run."""

import asyncio
from pathlib import Path

import pytest

import evensong
from evensong.cli.main import main
from evensong.core.effects import Sent
from evensong.core.engine import ENGINES
from evensong.core.groups.events import SessionEvent, SessionId
from evensong.daemon import spool as writing
from evensong.daemon import telling as noting
from evensong.daemon.spool import Spool, Traced
from evensong.daemon.telling import Telling
from evensong.sim.evs import Status
from evensong.sim.evs.groups import check_groups
from evensong.sim.groups import crowd
from evensong.sim.groups.draw import draw
from evensong.sim.groups.record import Recorder
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import GROUP_ETYPES, History, Life
from evensong.trace.convert import convert_spool
from evensong.trace.directory import read_directory
from evensong.trace.judge import judge
from evensong.trace.parquet import read_trace
from evensong.trace.spool import spools_in
from tests.daemon.local import LocalCluster, wait_for

PATIENCE_S = 60.0
SEEDS = (0, 3)


class Both:
    """Records a simulated life as the simulator does, and as a daemon would."""

    directory = Path()
    level = "events"
    flushes = False

    def __init__(self, life: Life) -> None:
        self.life = life
        self.now = 0
        self.recorder = Recorder(life)
        directory = self.directory / f"{life.node}-{life.incarnation}"
        directory.mkdir()
        traced = Traced("test", life.node, life.incarnation, 3, self.level, directory)
        self.spool = Spool(traced, 0, lambda _: None)
        self.telling = Telling(self.spool, lambda: self.now)
        self.installed = 0

    def _follow(self, now: int) -> None:
        self.now = now
        for conf in self.life.confs[self.installed :]:
            self.telling.install(conf, now)
            self.spool.install(conf, now)
        self.installed = len(self.life.confs)
        if self.flushes:
            self.spool.flush(now)

    def send(self, sent: Sent, now: int) -> None:
        self._follow(now)
        self.recorder.send(sent, now)
        if self.spool.has_rows:
            self.telling.send(sent, now)

    def tell(self, events: list[SessionEvent], now: int) -> None:
        self._follow(now)
        self.recorder.tell(events, now)
        self.telling.tell(events)

    def close(self, session: SessionId, why: str, now: int) -> None:
        self._follow(now)
        self.recorder.close(session, why, now)
        self.telling.closed(session, why)
        self.spool.flush(now)


def recorded(seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Life, Life]:
    """Run a seed; return every life as the simulator has it, with what the spool has of it."""
    made: list[Both] = []

    def make(life: Life) -> Both:
        made.append(Both(life))
        return made[-1]

    monkeypatch.setattr(Both, "directory", directory)
    monkeypatch.setattr(crowd, "Recorder", make)
    outcome, _ = run_recorded(draw(seed))
    assert not outcome.violations
    found: dict[Life, Life] = {}
    for both in made:
        both._follow(both.now)
        both.telling.end("stop", both.now)
        both.spool.end("stop", both.now)
        where = directory / f"{both.life.node}-{both.life.incarnation}"
        (lives,) = read_directory(where).values()
        found[both.life] = lives[0].life
    return found


def about_groups(life: Life) -> list[tuple[object, ...]]:
    return [
        (event.etype, event.t_us, event.cause, event.aux)
        for event in life.events
        if event.etype in GROUP_ETYPES
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spool_has_the_rows_that_the_simulator_has(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for life, spooled in recorded(seed, tmp_path, monkeypatch).items():
        assert spooled.heard == life.heard
        assert spooled.said == life.said
        assert about_groups(spooled) == about_groups(life)


def test_a_merge_of_spools_and_parts_has_what_sessions_were_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SPOOL_BYTES", 3_000)
    monkeypatch.setattr(Both, "flushes", True)
    traced = tmp_path / "traced"
    traced.mkdir()
    for life in recorded(0, traced, monkeypatch):
        name = f"{life.node}-{life.incarnation}"
        for path in spools_in(traced / name)[::2]:
            convert_spool(path)
        merged = tmp_path / name
        assert main(["trace", "merge", str(traced / name), "--output", str(merged)]) == 0
        (found,) = read_trace(merged)["test"].lives.values()
        assert found.heard == life.heard
        assert found.said == life.said
        assert about_groups(found) == about_groups(life)


def test_many_small_spools_and_parts_are_one_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "SPOOL_BYTES", 3_000)
    monkeypatch.setattr(Both, "flushes", True)
    lives = recorded(0, tmp_path, monkeypatch)
    n_spools = [len(spools_in(where)) for where in tmp_path.iterdir()]
    assert max(n_spools) > 5
    for life, spooled in lives.items():
        assert spooled.heard == life.heard
        assert spooled.said == life.said
        where = tmp_path / f"{life.node}-{life.incarnation}"
        for path in spools_in(where)[::2]:
            convert_spool(path)
        (mixed,) = read_directory(where).values()
        assert mixed[0].life.heard == life.heard
        assert mixed[0].life.said == life.said


def test_a_spool_that_knows_too_many_senders_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noting, "NUMBERS_MAX", 2)
    for life, spooled in recorded(0, tmp_path, monkeypatch).items():
        assert spooled.heard == life.heard
    assert max(len(spools_in(where)) for where in tmp_path.iterdir()) > 1


def test_below_events_there_are_views_and_no_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Both, "level", "views")
    for life, spooled in recorded(0, tmp_path, monkeypatch).items():
        assert not spooled.heard
        assert not spooled.said
        kept = [(one[0], one[1]) for one in about_groups(life) if one[0] != "dest"]
        assert [(one[0], one[1]) for one in about_groups(spooled)] == kept
        for event in spooled.events:
            assert "at" not in dict(event.aux)


async def talk(cluster: LocalCluster) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        evensong.connect(cluster.state(1), name="ann") as ann,
        evensong.connect(cluster.state(2), name="bob") as bob,
        ann.join("choir") as high,
        bob.join("choir"),
    ):
        async with bob.join("clergy") as low:
            for number in range(20):
                await ann.send(["choir", "clergy"], b"credo %d" % number)
                await high.send_many([b"a", b"b" * 100, b"c" * 3_000])
                receipt = await bob.send("choir", b"amen" * 3_000, service=evensong.Service.SAFE)
            await receipt.safe()
            await low.send(b"dona nobis")
        async with evensong.connect(cluster.state(3), name="cid") as cid, cid.join("choir"):
            receipt = await cid.send("choir", b"qui tollis")
            await receipt.safe()
        receipt = await ann.send("choir", b"pacem")
        await receipt.safe()


def groups_of(cluster: LocalCluster) -> tuple[History, dict[str, Status]]:
    judgement = judge(cluster.lives())
    assert judgement.verdicts.holds, judgement.verdicts.explain()
    verdicts = check_groups(judgement.history)
    assert not verdicts.failed, verdicts.explain()
    return judgement.history, {name: one.status for name, one in verdicts.by_property.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_daemons_trace_what_their_clients_are_told(tmp_path: Path, engine: str) -> None:
    with LocalCluster(tmp_path, 3, engine=engine) as cluster:
        cluster.start()
        cluster.wait_for_ring()
        asyncio.run(talk(cluster))
        cluster.wait_until_quiet(cluster.nodes)

        def are_closed() -> bool:
            events = [event for one in cluster.lives() for event in one.life.events]
            return sum(event.etype == "close" for event in events) == 3

        wait_for("all to have left", are_closed)
        history, statuses = groups_of(cluster)
        assert statuses == dict.fromkeys(statuses, Status.PASS)
        told = [
            sum(row.messages for row in rows)
            for life in history.lives.values()
            for rows in life.heard.values()
        ]
        # 20 to both groups, 60 in threes, 20 large ones, and one of cid are for all who are in the
        # choir then; bob alone is of the clergy, and cid has gone when ann sends her last.
        assert sorted(told) == [1, 102, 103]
        assert {event.cause for life in history.lives.values() for event in life.events} >= {
            "join",
            "leave",
            "asked",
        }
        cluster.kill(2)
        cluster.wait_for_ring([1, 3])
        groups_of(cluster)
