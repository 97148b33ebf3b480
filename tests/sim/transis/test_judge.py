"""Each promise of Transis has a small history that breaks it, and one that does not."""

import pytest

from evensong.sim.evs import Status
from evensong.sim.history import Life
from evensong.sim.transis.judge import PROPERTIES, check
from tests.sim.history_language import history, with_limits

# p and q go on together; r parts.
TOGETHER = """
p: conf R1{p,q,r}, send m1 causal, del m1, del m2, del m3, conf T2{p,q}<R1, conf R2{p,q}, quiesce
q: conf R1{p,q,r}, del m1, send m2 safe, del m2, del m3, conf T2{p,q}<R1, conf R2{p,q}, quiesce
r: conf R1{p,q,r}, send m3, del m1, del m2, del m3, conf T3r{r}<R1, conf R3r{r}, quiesce
"""


def failed(text: str) -> set[str]:
    return set(check(history(text)).failed)


def test_a_sound_run_passes() -> None:
    verdicts = check(history(TOGETHER))
    assert verdicts.holds, verdicts.explain()
    passed = {name for name in PROPERTIES if verdicts[name].status is Status.PASS}
    assert {"LV1", "LV2", "LC1", "LA1", "LB1", "LM1", "LM2"} <= passed


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        # q lacks what p delivered before both went on.
        ("send m2 safe, del m2, del m3,", "send m2 safe, del m2,", {"LV1", "LV2"}),
        # q has two ordered messages the other way round.
        ("send m2 safe, del m2, del m3, conf", "send m2, del m3, del m2, conf", {"LV2", "LA1"}),
        # r, which parts, has them the other way round.
        ("send m3, del m1, del m2, del m3", "send m3, del m1, del m3, del m2", {"LA1"}),
        # p delivers what q sent after m1 before m1.
        ("causal, del m1, del m2, del m3", "causal, del m2, del m1, del m3", {"LC1"}),
        # q says other than p that a message was safe for both only.
        (
            "safe, del m2, del m3, conf T2{p,q}<R1,",
            "safe, conf T2{p,q}<R1, del m2, del m3,",
            {"LV1", "LV2"},
        ),
        # The same id stands for two memberships.
        ("p: conf R1{p,q,r}", "p: conf R1{p,q}", {"LM1"}),
        # A view that does not have whoever installs it.
        ("conf R3r{r}", "conf R3r{p}", {"LM1"}),
        # Views go back.
        ("conf R3r{r}", "conf R0r{r}", {"LM1"}),
        # A message that was sent twice.
        ("send m3, del m1", "send m3, send m3, del m1", {"LM2", "EVS1.4"}),
    ],
)  # fmt: skip
def test_each_promise_is_broken_by_its_history(old: str, new: str, broken: set[str]) -> None:
    assert TOGETHER.count(old) == 1
    found = failed(TOGETHER.replace(old, new))
    assert broken <= found
    if "LM1" not in broken:
        assert found <= broken | {"LB1"}


def test_a_cause_is_told_by_positions_and_not_by_clocks() -> None:
    text = TOGETHER.replace("causal, del m1, del m2, del m3", "causal, del m2, del m1, del m3")
    late = history(text)
    sends = late.lives[1, 1].sends
    sends[0] = sends[0]._replace(t_us=10**9)  # the clock of p is far ahead of that of q
    assert "LC1" in check(late).failed


def test_what_a_sender_had_sent_before_comes_before_in_a_chain() -> None:
    text = """
    p: conf R1{p,q}, send m1 causal, send m2 basic, send m3 causal, del m1, del m2, del m3, quiesce
    q: conf R1{p,q}, del m1, del m2, del m3, quiesce
    """
    assert failed(text) == set()
    assert (
        failed(
            text.replace(
                "q: conf R1{p,q}, del m1, del m2, del m3,",
                "q: conf R1{p,q}, del m2, del m1, del m3,",
            )
        )
        == set()
    )
    assert failed(
        text.replace(
            "q: conf R1{p,q}, del m1, del m2, del m3,", "q: conf R1{p,q}, del m3, del m2, del m1,"
        )
    ) == {"LC1"}


def test_who_is_blamed_for_an_order_does_not_depend_on_who_is_asked_first() -> None:
    text = """
    p: conf R1{p,q,r}, send m1, del m1, fail
    q: conf R1{p,q,r}, send m2, del m2, fail
    r: conf R1{p,q,r}, send m3, del m2, del m3, fail
    """
    (violation,) = check(history(text))["LA1"].samples
    assert violation.text == "in 4.1 p1 has 1/1:1 at place 1 and p3 2/1:1"


SAFE = """
p: conf R1{p,q,r}, send m1 safe, del m1, conf T2{p,q}<R1, conf R2{p,q}, quiesce
q: conf R1{p,q,r}, del m1, conf T2{p,q}<R1, conf R2{p,q}, quiesce
r: conf R1{p,q,r}, del m1, conf T3r{r}<R1, conf R3r{r}, quiesce
"""


def test_what_is_safe_every_member_delivers_also_who_parts() -> None:
    assert "LS1" not in failed(SAFE)
    without = SAFE.replace("r: conf R1{p,q,r}, del m1,", "r: conf R1{p,q,r},")
    assert "LS1" in failed(without)
    assert "LS1" not in failed(without.replace("conf T3r{r}<R1, conf R3r{r}, quiesce", "fail"))
    assert "LS1" not in failed(
        without.replace("del m1, conf T2{p,q}<R1", "conf T2{p,q}<R1, del m1")
    )


def test_of_a_member_without_a_trace_it_is_not_known_whether_it_delivers_what_is_safe() -> None:
    lines = [line for line in SAFE.strip().splitlines() if not line.startswith("r:")]
    without = history("\n".join(lines))
    without.lives[3, 1] = Life(3, 1)  # as a trace that is read names who must have been
    verdicts = check(without)
    assert (verdicts["LS1"].status, verdicts["LS1"].n_unknown) == (Status.INCONCLUSIVE, 1)
    assert verdicts["LM2"].n_checked == 2


BASIC = """
p: conf R1{p,q,r}, send m1 basic, del m1, conf T2{p,q}<R1, conf R2{p,q}, quiesce
q: conf R1{p,q,r}, del m1, conf T2{p,q}<R1, conf R2{p,q}, quiesce
r: conf R1{p,q,r}, conf T3r{r}<R1, conf R3r{r}, quiesce
"""


def test_a_basic_message_comes_to_all_who_stay_with_its_sender() -> None:
    assert failed(BASIC) == set()
    assert failed(BASIC.replace("q: conf R1{p,q,r}, del m1,", "q: conf R1{p,q,r},")) == {"LB1"}


def test_a_basic_message_that_only_one_got_from_a_lost_sender_breaks_nothing() -> None:
    text = """
    p: conf R1{p,q,r}, del m1, conf T2{p,q}<R1, conf R2{p,q}, quiesce
    q: conf R1{p,q,r}, conf T2{p,q}<R1, conf R2{p,q}, quiesce
    r: conf R1{p,q,r}, send m1 basic, fail
    """
    assert failed(text) == set()
    assert "LV1" in failed(text.replace("basic", "causal"))


def test_what_is_left_when_a_view_ends_may_be_ordered_otherwise_elsewhere() -> None:
    text = TOGETHER.replace(
        "send m3, del m1, del m2, del m3", "send m3, del m1, del m3, del m2 gap"
    )
    assert "LA1" in failed(text)
    gaps = text.replace("del m3, del m2 gap", "del m3 gap, del m2 gap")
    assert failed(gaps) == set()


def test_the_window_keeps_its_bound() -> None:
    text = TOGETHER.replace("send m1 causal,", "send m1 causal, window R1 9 of 9,")
    assert check(history(text))["LW1"].status is Status.PASS
    assert failed(text.replace("9 of 9", "10 of 9")) == {"LW1"}


def test_the_final_view_comes_in_time() -> None:
    assert check(with_limits(history(TOGETHER), settle_us=70))["LM3"].status is Status.PASS
    assert "LM3" in check(with_limits(history(TOGETHER), settle_us=50)).failed


def test_who_is_agreeing_on_another_view_at_the_end_has_not_settled() -> None:
    text = TOGETHER.replace("conf R3r{r}, quiesce", "conf R3r{r}, agree R3r, quiesce")
    open_one = check(with_limits(history(text), settle_us=500))["LM3"]
    assert (open_one.status, open_one.n_unknown) == (Status.INCONCLUSIVE, 1)
    late = check(with_limits(history(text), settle_us=70))["LM3"]
    assert [one.text for one in late.samples] == [
        "p3 has not settled 90 us after the last disturbance, 70 are allowed"
    ]
    back = text.replace("agree R3r, quiesce", "agree R3r, stable R3r, quiesce")
    assert check(with_limits(history(back), settle_us=70))["LM3"].status is Status.PASS
