"""Every promise of the second engine fails on a trace made to break it, as it does in memory."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensong.core.engine import TRANSIS
from evensong.errors import BadTrace
from evensong.sim.campaign import Task
from evensong.sim.groups.run import run_recorded
from evensong.sim.history import History
from evensong.sim.transis.judge import check
from evensong.spark.auditing import run_audit
from evensong.spark.properties import BY_ENGINE, OF_GROUPS
from tests.sim.group_cases import CASES, CLEAN, Case
from tests.sim.group_language import story
from tests.sim.group_sides import SIDES, in_a_domain
from tests.sim.history_language import history, with_limits
from tests.sim.test_evs_groups import LOOSE
from tests.sim.transis.test_judge import BASIC, SAFE, TOGETHER
from tests.spark.traces import Audited, disagreements, judged_in_memory, write_histories

DOCS = Path(__file__).parents[2] / "docs" / "audit.md"
SECTION = "## What Transis promises"

# For each property a trace whose failing set is the smallest that can be.
SMALLEST: dict[str, tuple[set[str], str]] = {
    "EVS1.1": ({"EVS1.1"}, "p: conf R1{p}, del m1, send m1, quiesce"),
    "EVS1.2": ({"EVS1.2"}, "p: conf R1{p}, quiesce\np#2: conf R2{p}, quiesce"),
    "EVS1.3": ({"EVS1.3"}, "p: conf R1{p}, del 1/1:9, quiesce"),
    "EVS1.4": ({"EVS1.4"}, "p: conf R1{p}, conf T2{p}, send m1, del m1, conf R2{p}, quiesce"),
    "EVS2.1": ({"EVS2.1"}, "p: conf R1{p,q}, quiesce\nq: conf R1{p,q}, fail"),
    "EVS2.2": (
        {"EVS2.2"},
        "p: conf R1{p}, conf T2{p}, conf R2{p}, send m1, del m1 for R1, quiesce",
    ),
    # Who goes on is with itself, and LB1 asks it as everybody.
    "EVS3": ({"EVS3", "LB1"}, "p: conf R1{p}, send m1, conf T2{p}, conf R2{p}, quiesce"),
    # What TR2 forbids is a clause of EVS1.3.
    "TR2": (
        {"EVS1.3", "TR2"},
        """p: conf R1{p}, send m1, del m1, quiesce
           q: conf R2q{q}, del m1, quiesce""",
    ),
    # Who stays to the end stays with the sender.
    "TR3": (
        {"TR3", "LB1"},
        """p: conf R1{p,q}, send m1, del m1, quiesce
           q: conf R1{p,q}, quiesce""",
    ),
    "LV-1": ({"LV-1"}, "p: conf R1{p}, send m1, del m1, quiesce"),
    # Of a sender that has failed, so that it is owed to nobody.
    "LV1": (
        {"LV1"},
        """p: conf R1{p,q,r}, del m1, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q,r}, conf T2{p,q}, conf R2{p,q}, quiesce
           r: conf R1{p,q,r}, send m1 causal, fail""",
    ),
    # What is left when a view ends is ordered by those who go on together.
    "LV2": (
        {"LV2"},
        """p: conf R1{p,q}, send m1, conf T2{p,q}, del m1 gap, del m2 gap, conf R2{p,q}, quiesce
           q: conf R1{p,q}, send m2, conf T2{p,q}, del m2 gap, del m1 gap, conf R2{p,q}, quiesce""",
    ),
    "LC1": (
        {"LC1"},
        """p: conf R1{p,q}, send m1 causal, send m2 causal, del m1, del m2, quiesce
           q: conf R1{p,q}, del m2, del m1, quiesce""",
    ),
    "LA1": (
        {"LA1"},
        """p: conf R1{p,q}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, send m2, del m2, del m1, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    "LS1": (
        {"LS1"},
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    "LB1": (
        {"LB1"},
        """p: conf R1{p,q}, send m1 basic, del m1, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q}, conf T2{p,q}, conf R2{p,q}, quiesce""",
    ),
    "LM1": ({"LM1"}, "p: conf R1{p}, conf T3{p}<R2, conf R3{p}, quiesce"),
    "LM2": ({"LM2"}, "p: conf R1{p}, fail\np#2: conf R2{p}, quiesce"),  # the first one is later
    "LM3": ({"LM3"}, "p: conf R1{p}, conf T2{p}, conf R2{p}, quiesce"),
    "LW1": ({"LW1"}, "p: conf R1{p}, window R1 10 of 9, quiesce"),
}  # fmt: skip

SOUND = [
    TOGETHER,
    SAFE,
    BASIC,
    "p: conf R1{p,q}, send m1, del m1, window R1 9 of 9, quiesce\nq: conf R1{p,q}, del m1, quiesce",
    # BASIC ones come when they come, and others of a view in any order that causes allow.
    """p: conf R1{p,q}, send m1 causal, send m2 basic, del m1, del m3, del m2, quiesce
       q: conf R1{p,q}, send m3 causal, del m2, del m3, del m1, quiesce""",
]  # fmt: skip

# What breaks more than one promise, or one of them in another way.
BROKEN = [
    TOGETHER.replace("conf R3r{r}", "conf R0r{r}"),
    TOGETHER.replace("conf R3r{r}", "conf R3r{p}"),
    TOGETHER.replace("p: conf R1{p,q,r}", "p: conf R1{p,q}"),
    TOGETHER.replace("causal, del m1, del m2, del m3", "causal, del m2, del m1, del m3"),
    TOGETHER.replace("causal, del m1, del m2, del m3", "causal, del m1, del m1, del m2, del m3"),
    TOGETHER.replace("send m2 safe, del m2", "send m2 safe, del m2 body other"),
    TOGETHER.replace("send m2 safe, del m2", "send m2 safe, del m2 agreed"),
    TOGETHER.replace("conf R2{p,q}, quiesce\nq", "conf R2{p,q}, del m3, quiesce\nq"),
    TOGETHER.replace("r: conf R1{p,q,r}, send m3, del m1", "r: conf R1{p,q,r}, send m3, del 1/1:7"),
    TOGETHER.replace("del m1, del m2, del m3, conf T3r{r}<R1", "conf T3r{r}<R1"),
    # Only BASIC messages, and each is delivered by the other's sender before that one sends.
    """p: conf R1{p,q}, del m2, send m1 basic, del m1, quiesce
       q: conf R1{p,q}, del m1, send m2 basic, del m2, quiesce""",
]  # fmt: skip

# What a recording leaves open.
OPEN = [
    "p: conf R1{p,q}, send m1 safe, del m1, send m2\nq: conf R1{p,q}",
    "p: conf R1{p,q}, send m1, del m1\nq: conf R1{p,q}, del m1, del 1/1:2, fail",
    """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
       q: conf R0q{q}""",
    """p: conf R1{p,q}, send m1 safe, del m1, del 2/1:2, conf T2{p}, conf R2{p}, quiesce
       q: conf R1{p,q}, send m2, del m1, lost
       q#2: conf R5q{q}, quiesce""",
    "p: conf R1{p,q}, send m1, del m1, del 2/1:1, del 2/1:2, quiesce",
    # Of what q sent nothing is known but that p delivered it; r delivers it after its answer.
    """p: conf R1{p,q,r}, del 2/1:1, del 2/1:2, send m1, del m1, fail
       r: conf R1{p,q,r}, del m1, del 2/1:2, del 2/1:1, fail""",
    # One that may have been sent cannot have been in two views.
    """p: conf R1{p,q}, del 2/1:1, conf T2{p,q}, conf R2{p,q}, quiesce
       q: conf R0q{q}
       r: conf R1r{q,r}, del 2/1:1, conf T2r{r}, conf R3r{r}, quiesce""",
]  # fmt: skip

# It ends while another view is agreed on.
AGREEING = "p: conf R1{p}, conf T2{p}, conf R2{p}, agree R2, quiesce"
BACK = "p: conf R1{p}, conf T2{p}, conf R2{p}, agree R2, stable R2, quiesce"
TWICE = TOGETHER.replace("send m3, del m1", "send m3, send m3, del m1")
LACKING = LOOSE.replace("u1, m6, u2, say m7", "u1, u2, say m7")  # who goes on with p lacks m6
SEEDS = (1, 6, 2)  # of the swarm, the last with clients: `make test-audit` has many, and mutants


def of_transis(text: str, **limits: int | str) -> History:
    return with_limits(history(text), engine=TRANSIS, **limits)


def begun_late(run: History) -> History:
    """Let the first life begin after the second."""
    events = run.lives[1, 1].events
    events[:] = [event._replace(t_us=event.t_us + 1_000) for event in events]
    return run


def run_of_clients(name: str) -> str:
    return "clients-" + name.replace(" ", "-").replace("'", "")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transis")


@pytest.fixture(scope="module")
def audited(spark: SparkSession, directory: Path) -> Audited:
    """All traces of this module, in one audit."""
    runs = {f"smallest-{name}": of_transis(text) for name, (_, text) in SMALLEST.items()}
    begun_late(runs["smallest-LM2"])
    runs["smallest-LV-1"] = of_transis(SMALLEST["LV-1"][1], submitted=2)
    runs["smallest-LM3"] = of_transis(SMALLEST["LM3"][1], settle_us=10)
    runs |= {f"broken-{at}": of_transis(text) for at, text in enumerate(BROKEN)}
    runs |= {f"sound-{at}": of_transis(text) for at, text in enumerate(SOUND)}
    runs |= {f"open-{at}": of_transis(text) for at, text in enumerate(OPEN)}
    runs["open-agreeing"] = of_transis(AGREEING, settle_us=100)
    runs["broken-agreeing"] = of_transis(AGREEING, settle_us=20)
    runs["sound-back"] = of_transis(BACK, settle_us=100, submitted=0)
    runs["sound-limits"] = of_transis(SOUND[3], settle_us=60, submitted=1)
    _, run = runs["sound-limits"].lives.values()  # who has submitted nothing
    run.events[-1] = run.events[-1]._replace(aux=())
    runs["twice"] = of_transis(TWICE)
    runs["views"] = of_transis("p: conf R1{p}, quiesce", level="views")
    for name, text in {"clean": CLEAN, **{one.name: one.text for one in CASES}}.items():
        runs[run_of_clients(name)] = in_a_domain(story(text))
    runs |= {run_of_clients(name): make() for name, (make, _, _) in SIDES.items()}
    runs[run_of_clients("loose")] = in_a_domain(story(LOOSE))
    runs[run_of_clients("loose and lacking")] = in_a_domain(story(LACKING))
    for seed in SEEDS:
        task = Task(seed, messages=60, clients=seed == SEEDS[-1], engine=TRANSIS)
        _, runs[f"seed-{seed}"] = run_recorded(task.setup())
    write_histories(directory, runs)
    return Audited(run_audit(spark, [str(directory)]))


@pytest.mark.parametrize("name", SMALLEST)
def test_a_broken_trace_fails_exactly_what_it_breaks(
    audited: Audited, directory: Path, name: str
) -> None:
    run = f"smallest-{name}"
    assert audited.failed(run) == SMALLEST[name][0]
    assert name in SMALLEST[name][0]
    assert set(judged_in_memory(directory, run).verdicts.failed) == SMALLEST[name][0]
    for broken in SMALLEST[name][0]:
        assert audited.verdicts[run, broken].samples


@pytest.mark.parametrize("group", ["smallest", "broken", "sound", "open", "clients", "seed"])
def test_spark_says_what_the_check_in_memory_says(
    audited: Audited, directory: Path, group: str
) -> None:
    runs = [run for run in audited.found.runs if run.startswith(f"{group}-")]
    found = [line for run in runs for line in disagreements(audited, directory, run)]
    assert runs
    assert not found, "\n".join(found)
    if group == "broken":
        assert all(audited.failed(run) for run in runs)


@pytest.mark.parametrize("broken", CASES, ids=lambda one: one.name)
def test_clients_of_a_broadcast_domain_are_promised_the_same(
    audited: Audited, broken: Case
) -> None:
    assert audited.failed(run_of_clients(broken.name)) & set(OF_GROUPS) == broken.fails


def test_what_has_no_place_is_left_open_and_the_rest_is_judged(audited: Audited) -> None:
    loose = run_of_clients("loose")
    assert audited.having(loose, "inconclusive") >= set(OF_GROUPS[1:])
    assert not audited.failed(loose)
    assert "G2" in audited.failed(run_of_clients("loose and lacking"))


@pytest.mark.parametrize("name", SIDES)
def test_each_side_of_a_partition_has_places_of_its_own(audited: Audited, name: str) -> None:
    _, about, is_broken = SIDES[name]
    assert (about in audited.failed(run_of_clients(name))) is is_broken


def test_every_promise_has_a_trace_that_breaks_it_and_one_that_keeps_it(audited: Audited) -> None:
    promised = {name for name in BY_ENGINE[TRANSIS] if name not in OF_GROUPS}
    assert set(SMALLEST) == promised
    kept: set[str] = set()
    for run in audited.found.runs:
        if run.startswith("sound-"):
            assert not audited.failed(run)
            kept |= audited.having(run, "pass")
    assert kept == promised


def test_a_name_that_is_used_twice_is_seen_though_the_reader_in_memory_refuses_it(
    audited: Audited, directory: Path
) -> None:
    with pytest.raises(BadTrace):
        judged_in_memory(directory, "twice")
    assert audited.failed("twice") == set(check(of_transis(TWICE)).failed) == {"LM2", "EVS1.4"}


def test_where_only_views_were_traced_messages_are_inconclusive(
    audited: Audited, directory: Path
) -> None:
    assert audited.having("views", "pass") == {"LM1"}
    assert {"LA1", "EVS1.3"} <= audited.having("views", "inconclusive")
    assert [*judged_in_memory(directory, "views").verdicts.by_property] == ["LM1"]


def test_a_witness_shows_the_neighbourhood_at_each(audited: Audited) -> None:
    (story,) = audited.verdicts["smallest-LC1", "LC1"].samples
    assert story.splitlines() == [
        "p2 delivers 1/1:2 in 4.1 without 1/1:1 before it, which its sender had delivered or sent",
        "    p2: [1/1:2 in 4.1], [1/1:1 in 4.1]",
        "    p1: [1/1:1 in 4.1], [1/1:2 in 4.1]",
    ]


def test_views_that_keep_everything_are_judged_without_a_look_at_their_rows(
    audited: Audited,
) -> None:
    looked_at = {segment.run_id for segment in audited.found.history.segments}
    assert not {run for run in looked_at if run.startswith("seed-")}


def test_the_documentation_has_the_same_sets() -> None:
    _, _, section = DOCS.read_text().partition(SECTION)
    section, _, _ = section.partition("\n## ")
    rows = re.findall(r"^\| ([A-Z]+[\d.-]*) \| ([A-Z\d., -]+) \|$", section, re.MULTILINE)
    documented = {name: set(fails.split(", ")) for name, fails in rows}
    assert documented == {name: fails for name, (fails, _) in SMALLEST.items()}
