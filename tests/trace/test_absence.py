"""What is not there is unknown; it breaks nothing, and hides nothing of what is there."""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import TypeAlias

import pytest

from evensong.sim.history import Life
from evensong.sim.run import run_recorded
from evensong.sim.setup import Setup
from evensong.sim.swarm import swarm
from evensong.sim.transis.swarm import swarm as domain
from evensong.trace.absence import absent_lives
from evensong.trace.assembly import TracedLife
from evensong.trace.judge import Judgement, judge
from tests.sim.history_language import history

Draw: TypeAlias = Callable[[int, int, int], Setup]


def judged(lives: Iterable[Life]) -> Judgement:
    return judge([TracedLife(life, has_beginning=True) for life in lives])


def told(text: str, *left_out: tuple[int, int]) -> Judgement:
    return judged(life for key, life in history(text).lives.items() if key not in left_out)


@pytest.mark.parametrize("draw", [swarm, domain])
@pytest.mark.parametrize("seed", [0, 5, 11, 39])
def test_a_sound_run_is_never_broken_by_what_is_absent(seed: int, draw: Draw) -> None:
    _, run = run_recorded(draw(seed, 4, 60))
    whole = judged(run.lives.values())
    assert whole.verdict == "holds"
    assert whole.is_complete
    assert absent_lives(run) == []
    nodes = sorted({node for node, _ in run.lives})
    absences = [{key} for key in run.lives]
    absences += [{key for key in run.lives if key[0] == node} for node in nodes]
    absences += [{key for key in run.lives if key[0] not in two} for two in combinations(nodes, 2)]
    absences += [set(two) for two in combinations(run.lives, 2)]
    for absence in absences[:40]:
        rest = judged(life for key, life in run.lives.items() if key not in absence)
        assert rest.verdicts.holds, (absence, rest.verdicts.explain())


@pytest.mark.parametrize("seed", [3, 18])
def test_who_ends_while_it_agrees_may_be_in_a_view_that_it_never_installed(seed: int) -> None:
    _, run = run_recorded(domain(seed))
    assert absent_lives(run) == []


RESTARTED = """
    p: commit R1, conf R1{p,q}, send m1, del m1, fail
    p#2: conf R2{p}, commit R3, conf T3{p}, conf R3{p,q}, send m2, del m2, del m3, quiesce
    q: commit R1, conf R1{p,q}, del m1, conf T2q{q}<R1, commit R3, conf R3{p,q}, send m3 safe,\
 del m2, del m3, quiesce"""
P, P2, Q = (1, 1), (1, 2), (2, 1)


@pytest.mark.parametrize(
    ("left_out", "absent"),
    [((), []), ([P], [P]), ([P2], [P2]), ([P, P2], [P, P2]), ([Q], [Q]), ([P, Q], [Q])],
)
def test_lives_that_somebody_speaks_of_are_missed(
    left_out: list[tuple[int, int]], absent: list[tuple[int, int]]
) -> None:
    judgement = told(RESTARTED, *left_out)
    assert judgement.verdicts.holds, judgement.verdicts.explain()
    assert judgement.absent == absent
    assert judgement.is_complete is not bool(absent)
    assert judgement.verdict == ("inconclusive" if absent else "holds")


@pytest.mark.parametrize(
    ("lie", "caught"),
    [
        ("del 1/7:1", "EVS1.3"),  # p was in R1 as p/1, and nobody else was p then
        ("del 3/1:1", "EVS1.3"),  # r was in no ring here
        ("del 2/0:1", "EVS1.3"),  # no life has that number
        ("conf T2q{q}<R1, conf R2q{p,q}", "TM2"),  # p went on without R2q
    ],
)
def test_what_the_present_contradict_is_broken(lie: str, caught: str) -> None:
    text = f"""
        p: commit R1, conf R1{{p,q,s}}, send m1, del m1, conf T3{{p}}<R1, conf R3{{p}}, quiesce
        q: commit R1, conf R1{{p,q,s}}, del m1, {lie}"""
    judgement = told(text)
    assert judgement.absent == [(4, 1)]
    assert caught in judgement.verdicts.failed
    assert judgement.verdict == "broken"


def test_nothing_delivered_is_no_proof_of_order() -> None:
    judgement = told("p: conf R1{p}, quiesce")
    assert judgement.is_complete
    assert judgement.verdict == "inconclusive"
    assert judgement.doubts == ["nothing was delivered in what is here"]
