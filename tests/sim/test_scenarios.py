import re
from itertools import takewhile
from pathlib import Path

import pytest

from evensong.core.effects import Packet
from evensong.core.totem.flow import FlowControl
from evensong.errors import BadScenario
from evensong.sim.scenario import SEPARATOR, perform, play, split
from evensong.sim.workload import Queue

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_gives_its_story(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    script, golden = split(text)
    story, violations = perform(text)
    assert not violations, story
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(f"{script}{SEPARATOR}\n{story}", encoding="utf-8")
    else:
        assert story == golden


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_says_what_it_shows_and_after_whom(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = " ".join(takewhile(lambda line: line.startswith("# "), lines))
    assert re.search(r"\[(SRP|EVS|Aga94|Amir95|Transis)\b[^]]*\]\.$", comment), comment


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("dance p", "line 1: unknown command 'dance'"),
        ("# so far, so good\n\nsend p", "line 3: expected: send NAME"),
        ('ring p q\nsend p "open', "line 2: No closing quotation"),
        ('send p "x"', "line 1: first say which processors there are"),
        ("ring p p", "line 1: expected different names"),
        ("ring p q\nring r", "line 2: the processors are there already"),
        ("ring p q\ncrash r", "line 2: no processor 'r'"),
        ("ring p q\ncrash p\ncrash p", "line 3: p is down"),
        ("ring p q\ncrash p in love", "line 2: 'love' is none of operational, gather"),
        ("ring p q\ncrash p in", "line 2: in what?"),
        ("ring p q\ndrop letter p->q", "line 2: 'letter' is none of any, regular, token"),
        ("ring p q\ndrop token p", "line 2: expected FROM->TO, not 'p'"),
        ("ring p q\ndrop token p->q xtwo", "line 2: expected a number, not 'two'"),
        ("ring p q\nrelease token p->q", "line 2: nothing like that is held"),
        ("ring p q\nrun 5", "line 2: expected a duration such as 5ms, not '5'"),
        ("ring p q\nrun until tired", "line 2: expected: run DURATION"),
        ("ring p q\nshow tears", "line 2: 'tears' is none of lives"),
        ("cluster p q\nstart p\nstart p", "line 3: p has been started before"),
        ("set temper 3", "line 1: no parameter 'temper'"),
        ("\nset rtr_max ²", "line 2: expected a duration such as 5ms, not '²'"),
        ("set rtr_max ٣", "line 1: expected a duration"),
        ("set hold ٣ms", "line 1: expected a duration"),
        (f"set hold {'9' * 5000}ms", "line 1: expected a duration"),
        ("set hold 900ms\nring p q", "line 2: for 2 processors the rule is: 2 . hold < token_loss"),
        ('ring p\nsend p "a" x²', "line 2: expected a number, not '²'"),
        ("ring p q\nset hold 3ms", "line 2: parameters are set before the ring"),
    ],
)
def test_a_bad_line_is_named(script: str, complaint: str) -> None:
    with pytest.raises(BadScenario, match=complaint):
        play(script)


def test_what_is_held_arrives_when_it_is_released() -> None:
    story = play("""
        ring p q r
        hide resends
        hold regular p->r
        send p "first"
        send p "second"
        run 2ms
        release regular p->r seq 2
        run 200us
        release
        run until quiet
    """)
    assert story.splitlines()[1:3] == [
        'p,q  delivers p:1 "first"                 agreed, ring 8.p',
        'p,q  delivers p:2 "second"                agreed, ring 8.p',
    ]
    assert story.splitlines()[-2:] == [
        'r  delivers p:1 "first"                 agreed, ring 8.p',
        'r  delivers p:2 "second"                agreed, ring 8.p',
    ]


def test_a_run_can_stop_in_a_state() -> None:
    story = play("""
        ring p q r
        hide resends
        crash r
        run until q is recovery
        partition p | q
        run until quiet
    """)
    before, _, after = story.partition("# partition p | q; run until quiet")
    assert before.endswith("enters recovery                      (commit token came twice)\n")
    assert "installs ring 16.p of p  " in after


def test_a_cluster_sleeps_until_it_is_started() -> None:
    story = play("cluster p q\nshow lives\nrun 5ms\nstart q\nrun 1ms\nstart p\nrun 1ms")
    assert [line for line in story.splitlines() if "starts" in line] == [
        "q  starts                               life 1",
        "p  starts                               life 1",
    ]


def test_a_rule_can_act_on_every_third() -> None:
    story = play("""
        ring p q
        drop regular p->q every 3
        send p "psalm" x6
        run until quiet
    """)
    assert story == (
        '*  delivers p:1..6 "psalm"              agreed, ring 8.p\n'
        "p  resends 3 of 8.p                     (requested)\n"
        "p  resends 6 of 8.p                     (requested)\n"
    )


def test_a_run_can_stop_at_a_promise() -> None:
    story = play("""
        ring p q r
        show installs states
        crash r
        run until q promises
        crash q
        run until quiet
    """)
    before, _, after = story.partition("# crash q; run until quiet")
    assert "enters recovery" in before
    assert "operational" not in before
    assert "installs ring 16.p of p " in after


def test_a_broken_invariant_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowControl, "new_max", lambda *_: 18)
    violations = perform('ring p q\nsend p "psalm" x20\nrun 5ms').violations
    assert [violation.property_id for violation in violations] == ["I4"]


def test_a_broken_property_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Queue, packets_max: int) -> list[Packet]:
        self.packets.clear()
        return []

    monkeypatch.setattr(Queue, "pull", forgetful)
    violations = perform('ring p q\nsend p "credo"\nrun until quiet').violations
    assert {violation.property_id for violation in violations} == {"LV-1"}


def test_a_scenario_that_never_ends_says_so() -> None:
    assert play("ring p q\nhide resends\npause q\nrun until quiet").endswith("(never quiet)\n")
