from pathlib import Path

import pytest

from evensong.errors import BadScenario
from evensong.sim.scenario import SEPARATOR, play, split

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_gives_its_story(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    script, golden = split(text)
    story = play(text)
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(f"{script}{SEPARATOR}\n{story}", encoding="utf-8")
    else:
        assert story == golden


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
        ("set temper 3", "line 1: no parameter 'temper'"),
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


def test_a_scenario_that_never_ends_says_so() -> None:
    assert play("ring p q\nhide resends\npause q\nrun until quiet").endswith("(never quiet)\n")
