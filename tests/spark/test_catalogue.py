"""Every property fails on a trace made to break it, with the least that must fail with it."""

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensong.errors import BadTrace
from evensong.sim.groups.run import run_recorded
from evensong.sim.swarm import swarm
from evensong.spark.auditing import run_audit
from evensong.spark.properties import BY_ENGINE, RING
from tests.sim.group_cases import CASES
from tests.sim.history_language import history, with_limits
from tests.sim.planted import ENGINES, run_planted
from tests.sim.test_evs import BROKEN, SOUND, TOKENS, P, Q, R
from tests.spark.traces import Audited, disagreements, write_histories

DOCS = Path(__file__).parents[2] / "docs" / "audit.md"

# The worked trace: R1={p,q,r} splits p|qr with safe m3 in flight; and its mutants.
EARLY = R.replace("conf T2q{q,r}<R1, del m3", "del m3, conf T2q{q,r}<R1")
SWAPPED = R.replace("del m1, del m2", "del m2, del m1")
WORKED = {
    "worked": (set(), (P, Q, R)),
    "a": ({"EVS4", "EVS7.1"}, (P, Q, EARLY)),
    "b": ({"EVS4", "EVS7.1"}, (P, Q, R.replace("del m3, ", ""))),
    "c": ({"EVS3", "EVS4", "EVS7.1"}, (P, Q.replace("del m3, ", ""), R)),
    # FIFO is one of the clauses of EVS5 here: m1 and m2 have the same sender.
    "d": ({"EVS5", "EVS6.1", "TG", "FIFO"}, (P, Q, SWAPPED)),
    "e": ({"EVS1.3", "EVS2.3", "TR2"}, (P.replace("quiesce", "del m3, quiesce"), Q, R)),
    # The members are part of what TM4 wants to be the same.
    "f": ({"TM1", "TM4"}, (P, Q.replace("T2q{q,r}", "T2q{q}"), R)),
    # Not EVS6.3: a second delivery takes nothing out of any set.
    "g": ({"EVS1.4", "EVS6.1"}, (P.replace("del m1, del m2", "del m1, del m1, del m2"), Q, R)),
}  # fmt: skip

# For each property a trace whose failing set is the smallest that can be.
SMALLEST: dict[str, tuple[set[str], str]] = {
    # Where the order of events has a cycle no numbering of it exists.
    "EVS1.1": ({"EVS1.1", "EVS6.1"}, "p: conf R1{p}, del m1, send m1, quiesce"),
    "EVS1.2": ({"EVS1.2"}, "p: conf R1{p}, quiesce\np#2: conf R2{p}, quiesce"),
    "EVS1.3": ({"EVS1.3"}, "p: conf R1{p}, del 1/1:9, quiesce"),
    "EVS1.4": ({"EVS1.4"}, "p: conf R1{p}, conf T2{p}, send m1, del m1, conf R2{p}, quiesce"),
    "EVS2.1": ({"EVS2.1"}, "p: conf R1{p,q}, quiesce\nq: conf R1{p,q}, fail"),
    "EVS2.2": (
        {"EVS2.2"},
        "p: conf R1{p}, conf T2{p}, conf R2{p}, send m1, del m1 for R1, quiesce",
    ),
    "EVS2.3": (
        {"EVS2.3"},
        """p: conf R1{p,q}, conf T2{p}, conf R2{p,q}, conf T9{p}, conf R9{p,q}, quiesce
           q: conf R2{p,q}, conf T1q{q}, conf R1{p,q}, conf T9q{q}, conf R9{p,q}, quiesce""",
    ),
    "EVS3": ({"EVS3"}, "p: conf R1{p}, send m1, conf T2{p}, conf R2{p}, quiesce"),
    "EVS4": (
        {"EVS4"},
        """p: conf R1{p,q}, send m1, del m1, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q}, conf T2{p,q}, conf R2{p,q}, quiesce""",
    ),
    "EVS5": (
        {"EVS5"},
        """p: conf R1{p,q}, send m1, send m2, fail
           q: conf R1{p,q}, del m2, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    "EVS6.1": (
        {"EVS6.1"},
        """p: conf R1{p,q}, del m2, send m1, del m1, quiesce
           q: conf R1{p,q}, send m2, del m2, del m1, quiesce""",
    ),
    "EVS6.2": (
        {"EVS6.2"},
        """p: conf R1{p,q}, send m1, del m1, quiesce
           q: conf R1{p,q}, del m1 as R1#7, quiesce""",
    ),
    "EVS6.3": (
        {"EVS6.3"},
        """p: conf R1{p,q,r}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q,r}, del m2, conf T2q{q}, conf R2q{q}, quiesce
           r: conf R1{p,q,r}, send m2, del m1, del m2, conf T2r{r}, conf R2r{r}, quiesce""",
    ),
    "EVS7.1": (
        {"EVS7.1"},
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    # Who never installs c can neither deliver nor fail in com(c).
    "EVS7.2": (
        {"EVS7.1", "EVS7.2"},
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R0q{q}, fail
           q#2: conf R5q{q}, quiesce""",
    ),
    "TM1": ({"TM1"}, "p: conf R1{p}, conf T3{p}<R2, conf R3{p}, quiesce"),
    "TM2": ({"TM2"}, "p: conf R1{p}, conf T2{p,q}, conf R2{p}, quiesce"),
    "TM4": (
        {"TM4"},
        """p: conf R1{p,q}, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q}, conf T2{p,q} regular, conf R2{p,q}, quiesce""",
    ),
    # What TR2 forbids is a clause of EVS1.3.
    "TR2": (
        {"EVS1.3", "TR2"},
        """p: conf R1{p}, send m1, del m1, quiesce
           q: conf R2q{q}, del m1, quiesce""",
    ),
    "TR3": (
        {"TR3"},
        """p: conf R1{p,q}, send m1, del m1, quiesce
           q: conf R1{p,q}, quiesce""",
    ),
    # A cycle has no numbering that is both rising and the same everywhere. It must be found also
    # where the protocol numbers units to suit itself.
    "TG": (
        {"EVS6.2", "TG"},
        """p: conf R1{p,q}, send m1, del m1, del m2, quiesce
           q: conf R1{p,q}, send m2, del m2 as R1#1, del m1 as R1#2, quiesce""",
    ),
    "TF1": ({"TF1"}, TOKENS),
    "TF2": (
        {"TF2"},
        """p: conf R1{p,q}, token R1 1 sent 0 fcc 0, quiesce
           q: conf R1{p,q}, token R1 1 sent 0 fcc 0, quiesce""",
    ),
    "TF3": (
        {"TF3"},
        """p: conf R1{p,q}, send m1, del m1 line 1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    # Of a sender whose trace is there, EVS5 asks the same; q has none.
    "FIFO": ({"FIFO"}, "p: conf R1{p,q}, del 2/1:2 as R1#1, del 2/1:1 as R1#2, quiesce"),
    "LV-1": ({"LV-1"}, "p: conf R1{p}, send m1, del m1, quiesce"),
    "LV-2": ({"LV-2"}, "p: conf R1{p}, conf T2{p}, conf R2{p}, quiesce"),
    "LV-3": ({"LV-3"}, "p: conf R1{p}, commit R2, conf T2{p}, conf R2{p}, quiesce"),
}  # fmt: skip

ALONE = "p: conf R1{p,q}, send m1, del m1, quiesce\nq: conf R1{p,q}, del m1, quiesce"
SEEDS = (3, 8, 21)  # of the swarm, as a sample: `make test-audit` has many, and mutants

# It ends while a ring is formed. Only what follows the last disturbance, at 40, is in question.
UNSETTLED = "p: conf R1{p}, conf T2{p}, conf R2{p}, commit R3, quiesce"
DISTURBED = """p: conf R1{p}, commit R2, conf T2{p}, conf R2{p}, commit R3, quiesce
               q: conf R1q{q}, conf T2q{q}, conf R2q{q}, fail"""

# What a recording leaves open.
OPEN = [
    "p: conf R1{p,q}, send m1 safe, del m1, send m2\nq: conf R1{p,q}",
    "p: conf R1{p,q}, send m1, del m1\nq: conf R1{p,q}, del m1, del 1/1:2, fail",
    """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
       q: conf R0q{q}""",
    """p: conf R1{p,q}, send m1 safe, del m1, del 2/1:2, conf T2{p}, conf R2{p}, quiesce
       q: conf R1{p,q}, send m2, del m1 agreed, lost
       q#2: conf R5q{q}, quiesce""",
    """p: conf R1{p,q}, send m1, send m3 no 3, del m1, lost
       q: conf R1{p,q}, del m1, del 1/1:2, del m3, quiesce""",
    "p: conf R1{p,q}, send m1, del m1, del 2/1:1 as R1#2, del 2/1:2 as R1#3, quiesce",
    "p: conf R1{p,q}, send m1 safe, del m1, quiesce",
    "p: conf R1{p,q}, send m1, send m2, del m1, del m2 line 2, quiesce\nq: conf R1{p,q}, del m1",
    "p: conf R1{p,q}, send m1, del m1 line 9, conf T2{p}, conf R2{p}, quiesce\nq: conf R0q{q}",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("catalogue")


@pytest.fixture(scope="module")
def audited(spark: SparkSession, directory: Path) -> Audited:
    """All traces of this module, in one audit."""
    runs = {name: history("\n".join(lines)) for name, (_, lines) in WORKED.items()}
    runs |= {f"smallest-{name}": history(text) for name, (_, text) in SMALLEST.items()}
    runs |= {f"broken-{at}": history(text) for at, (_, text) in enumerate(BROKEN)}
    runs |= {f"sound-{at}": history(text) for at, text in enumerate(SOUND)}
    runs |= {f"open-{at}": history(text) for at, text in enumerate(OPEN)}
    with_limits(runs["smallest-TF1"], window_size=5, messages_max=3)
    with_limits(runs["smallest-LV-1"], submitted=2)
    with_limits(runs["smallest-LV-3"], state_us=10)
    with_limits(runs["smallest-LV-2"], settle_us=10)
    runs["limits"] = with_limits(
        history(SOUND[-1]), window_size=6, messages_max=3, settle_us=60, state_us=60, submitted=1
    )
    runs["open-unsettled"] = with_limits(history(UNSETTLED), settle_us=100)
    runs["broken-unsettled"] = with_limits(history(UNSETTLED), settle_us=20, state_us=9)
    runs["broken-disturbed"] = with_limits(history(DISTURBED), settle_us=1, state_us=9)
    for name in ENGINES:
        runs[f"planted-{name}"] = run_planted(name)
    runs["views"] = history("p: conf R1{p}, quiesce")
    with_limits(runs["views"], level="views")
    runs["absent-p"] = history(ALONE)
    for seed in SEEDS:
        _, runs[f"seed-{seed}"] = run_recorded(swarm(seed))
    write_histories(directory, runs)
    shutil.rmtree(directory / "run_id=absent-p" / "node=1")
    return Audited(run_audit(spark, [str(directory)], [one.id for one in RING]))


def test_the_worked_trace_passes(audited: Audited) -> None:
    assert not audited.failed("worked")
    assert not audited.having("worked", "inconclusive")


@pytest.mark.parametrize("name", WORKED)
def test_each_mutant_of_the_worked_trace_fails_exactly_its_set(audited: Audited, name: str) -> None:
    assert audited.failed(name) == WORKED[name][0]


@pytest.mark.parametrize("name", SMALLEST)
def test_a_broken_trace_fails_exactly_what_it_breaks(audited: Audited, name: str) -> None:
    assert audited.failed(f"smallest-{name}") == SMALLEST[name][0]
    assert name in SMALLEST[name][0]


@pytest.mark.parametrize("name", ENGINES)
def test_a_ring_with_a_bug_breaks_the_limit_that_is_about_it(audited: Audited, name: str) -> None:
    assert name in audited.failed(f"planted-{name}")


def test_every_property_has_a_trace_that_breaks_it_and_one_that_keeps_it(audited: Audited) -> None:
    assert set(SMALLEST) == {one.id for one in RING}
    kept = audited.having("limits", "pass")
    for at in range(len(SOUND)):
        kept |= audited.having(f"sound-{at}", "pass")
        assert not audited.failed(f"sound-{at}")
    assert kept == set(SMALLEST)


@pytest.mark.parametrize(
    "group", ["worked", *"abcdefg", "broken", "sound", "open", "absent", "planted", "seed"]
)
def test_spark_says_what_the_check_in_memory_says(
    audited: Audited, directory: Path, group: str
) -> None:
    runs = [run for run in audited.found.runs if run == group or run.startswith(f"{group}-")]
    found = []
    for run in runs:
        try:
            found += disagreements(audited, directory, run)
        except BadTrace:  # sends out of order: what the reader in memory refuses, Spark judges
            assert audited.failed(run)
    assert runs
    assert not found, "\n".join(found)


def test_the_documentation_has_the_same_sets() -> None:
    before, _, transis = DOCS.read_text().partition("## What Transis promises")
    text = before + transis.partition("\n## ")[2]
    rows = re.findall(r"^\| ([A-Z]+[\d.-]*) \| ([A-Z\d., -]+) \|$", text, re.MULTILINE)
    documented = {name: set(fails.split(", ")) for name, fails in rows}
    alone = {name: one.fails for one in CASES for name in one.fails if len(one.fails) == 1}
    assert documented == {**{name: fails for name, (fails, _) in SMALLEST.items()}, **alone}
    assert documented.keys() == set(BY_ENGINE["totem"])


def test_a_witness_shows_the_neighbourhood_at_each(audited: Audited) -> None:
    (story,) = audited.verdicts["d", "TG"].samples
    assert story.splitlines() == [
        "1/1:1 before 1/1:2 at p1; 1/1:2 before 1/1:1 at p3",
        "    p1: [1/1:1 in 4.1], [1/1:2 in 4.1]",
        "    p2: [1/1:1 in 4.1], [1/1:2 in 4.1], 2/1:1",
        "    p3: [1/1:2 in 4.1], [1/1:1 in 4.1], 2/1:1",
    ]


def test_without_its_end_a_trace_leaves_liveness_open(audited: Audited) -> None:
    open_ones = {"EVS2.1", "EVS3", "EVS7.1", "TR3", "LV-1"}
    assert audited.having("open-0", "inconclusive") == open_ones


def test_where_only_views_were_traced_messages_are_inconclusive(audited: Audited) -> None:
    assert audited.having("views", "pass") == {"TM1", "TM2"}
    assert {"TG", "EVS1.3", "EVS2.1"} <= audited.having("views", "inconclusive")
    assert audited.found.doubts["views"] == ["messages were not traced (level views)"]


def test_a_node_without_a_trace_is_unknown_and_no_pass(audited: Audited) -> None:
    assert not audited.failed("absent-p")
    assert audited.said("absent-p", "EVS1.3").n_unknown == 1
    assert audited.found.doubts["absent-p"] == ["1 lives have no trace here"]
