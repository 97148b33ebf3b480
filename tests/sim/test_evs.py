"""Every property of the EVS check fails on a history made to break it, and not on its neighbour."""

import pytest

from evensong.core.unit import UnitId
from evensong.sim.evs import PROPERTIES, Status, check
from evensong.sim.history import History
from tests.sim.history_language import history, with_limits

# The worked trace of the catalogue: R1={p,q,r} splits p|qr with safe m3 in flight.
P = "p: conf R1{p,q,r}, send m1, send m2, del m1, del m2, conf T2{p}<R1, conf R3{p}, quiesce"
Q = (
    "q: conf R1{p,q,r}, del m1, del m2, send m3 safe, conf T2q{q,r}<R1, del m3, conf R2q{q,r}, "
    "quiesce"
)
R = "r: conf R1{p,q,r}, del m1, del m2, conf T2q{q,r}<R1, del m3, conf R2q{q,r}, quiesce"

NEED_LIMITS = {"TF1", "LV-1", "LV-2", "LV-3"}  # must be told what the run was made with


def failed(*lines: str) -> set[str]:
    return set(check(history("\n".join(lines))).failed)


def test_the_worked_trace_passes() -> None:
    verdicts = check(history("\n".join((P, Q, R))))
    assert verdicts.holds, verdicts.explain()
    assert set(verdicts.having(Status.VACUOUS)) == {"EVS7.2", "TR3", "TF2", "TF3", *NEED_LIMITS}


def test_mutant_a_delivers_a_safe_unit_in_the_regular_configuration() -> None:
    early = R.replace("conf T2q{q,r}<R1, del m3", "del m3, conf T2q{q,r}<R1")
    assert failed(P, Q, early) == {"EVS4", "EVS7.1"}


def test_mutant_b_omits_a_safe_unit() -> None:
    assert failed(P, Q, R.replace("del m3, ", "")) == {"EVS4", "EVS7.1"}


def test_mutant_c_omits_its_own_unit() -> None:
    assert failed(P, Q.replace("del m3, ", ""), R) == {"EVS3", "EVS4", "EVS7.1"}


def test_mutant_d_swaps_two_units_of_one_sender() -> None:
    # FIFO is one of the clauses of EVS5 here: m1 and m2 have the same sender.
    swapped = R.replace("del m1, del m2", "del m2, del m1")
    assert failed(P, Q, swapped) == {"EVS5", "EVS6.1", "TG", "FIFO"}


def test_mutant_e_delivers_after_leaving_the_configuration() -> None:
    late = P.replace("quiesce", "del m3, quiesce")
    assert failed(late, Q, R) == {"EVS1.3", "EVS2.3", "TR2"}


def test_mutant_f_has_two_ideas_of_one_transitional_configuration() -> None:
    # q and r both install T2q directly after R1, and TM4 wants their configuration messages equal;
    # the members are part of the message. So wherever TM1 fails between two that come from the same
    # configuration, TM4 fails too, and the minimal set is both.
    assert failed(P, Q.replace("T2q{q,r}", "T2q{q}"), R) == {"TM1", "TM4"}


@pytest.mark.parametrize("twice", ["del m1, del m1, del m2", "del m1, del m2, del m1"])
def test_mutant_g_delivers_a_unit_twice(twice: str) -> None:
    # Not EVS6.3: it asks that a set contains a unit, and a second delivery takes nothing out of any
    # set; only an implementation that counts rows instead of units sees a difference. For the same
    # reason TG, EVS5 and FIFO look at first deliveries.
    assert failed(P.replace("del m1, del m2", twice), Q, R) == {"EVS1.4", "EVS6.1"}


BROKEN = [
    # A delivery before its own send. Where the order of events has a cycle no numbering of it
    # exists, so EVS6.1 cannot hold either.
    ({"EVS1.1", "EVS6.1"}, "p: conf R1{p}, del m1, send m1, quiesce"),
    # The first life of p delivers what the second one sends. It also crosses configurations.
    (
        {"EVS1.1", "EVS1.3", "TR2"},
        """p: conf R1{p}, del m1, fail
           p#2: conf R2{p}, send m1, del m1, quiesce""",
    ),
    (
        {"EVS1.2"},
        """p: conf R1{p}, quiesce
           p#2: conf R2{p}, quiesce""",
    ),
    ({"EVS1.3"}, "p: conf R1{p}, del 1/1:9, quiesce"),
    ({"EVS1.3"}, "p: conf R1{p}, del 7/1:1, quiesce"),
    ({"EVS1.3"}, "p: conf R1{p}, send m1 safe, del m1 agreed, quiesce"),
    # Sets are judged by content: who delivers something else under the name m1 lacks m1.
    ({"EVS1.3", "EVS3", "TR3"}, "p: conf R1{p}, send m1, del m1 body other, quiesce"),
    # Under q's name it is nobody's unit, and holds the number of m1.
    ({"EVS1.3", "EVS3", "EVS6.2", "TR3"}, "p: conf R1{p}, send m1, del m1 from q, quiesce"),
    ({"EVS1.4"}, "p: conf R1{p}, send m1, send m1, del m1, quiesce"),
    ({"EVS1.4"}, "p: conf R1{p}, conf T2{p}, send m1, del m1, conf R2{p}, quiesce"),
    (
        {"EVS2.1"},
        """p: conf R1{p,q}, quiesce
           q: conf R1{p,q}, fail""",
    ),
    (
        {"EVS2.1"},
        """p: conf R1{p,q}, quiesce
           q: conf R1{p,q}, stop""",
    ),
    (
        {"EVS2.1"},
        """p: conf R1{p,q}, quiesce
           q: conf R1{p,q}, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    ({"EVS2.1"}, "p: conf R1{p,q}, quiesce"),
    ({"EVS2.2"}, "p: conf R1{p}, conf T2{p}, conf R2{p}, send m1, del m1 for R1, quiesce"),
    ({"EVS2.2"}, "p: conf R1{p}, send m1, del m1 for R9, quiesce"),
    # p sees R1 before R2, q sees R2 before R1: no cut of the run has either in one piece.
    (
        {"EVS2.3"},
        """p: conf R1{p,q}, conf T2{p}, conf R2{p,q}, conf T9{p}, conf R9{p,q}, quiesce
           q: conf R2{p,q}, conf T1q{q}, conf R1{p,q}, conf T9q{q}, conf R9{p,q}, quiesce""",
    ),
    # A unit of R2 reaches q before q is in R2.
    (
        {"EVS1.3", "EVS2.3", "TR2", "TR3"},
        """p: conf R2{p,q}, send m1, del m1, quiesce
           q: conf R1q{q}, del m1, conf T2q{q}, conf R2{p,q}, quiesce""",
    ),
    ({"EVS3"}, "p: conf R1{p}, send m1, conf T2{p}, conf R2{p}, quiesce"),
    ({"EVS3", "TR3"}, "p: conf R1{p}, send m1, quiesce"),
    (
        {"EVS4"},
        """p: conf R1{p,q}, send m1, del m1, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q}, conf T2{p,q}, conf R2{p,q}, quiesce""",
    ),
    # p's first unit got lost with p; its second depends on it.
    (
        {"EVS5"},
        """p: conf R1{p,q}, send m1, send m2, fail
           q: conf R1{p,q}, del m2, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    # q answers m1 with m2; r hears the answer alone. Nobody of EVS6.3's kind is in r's way: T2r
    # excludes p, the sender of m1. EVS5 knows no such excuse.
    (
        {"EVS5"},
        """p: conf R1{p,q,r}, send m1, fail
           q: conf R1{p,q,r}, del m1, send m2, fail
           r: conf R1{p,q,r}, conf T2r{q,r}, del m2, conf R2r{q,r}, fail""",
    ),
    # The numbers run against the order that everybody agrees on.
    (
        {"EVS6.1"},
        """p: conf R1{p,q}, del m2, send m1, del m1, quiesce
           q: conf R1{p,q}, send m2, del m2, del m1, quiesce""",
    ),
    (
        {"EVS6.2"},
        """p: conf R1{p,q}, send m1, del m1, quiesce
           q: conf R1{p,q}, del m1 as R1#7, quiesce""",
    ),
    # q skips m1, which p and r put before m2.
    (
        {"EVS6.3"},
        """p: conf R1{p,q,r}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q,r}, del m2, conf T2q{q}, conf R2q{q}, quiesce
           r: conf R1{p,q,r}, send m2, del m1, del m2, conf T2r{r}, conf R2r{r}, quiesce""",
    ),
    # The same in a transitional configuration that has the sender of m1 among its members.
    (
        {"EVS6.3"},
        """p: conf R1{p,q,r}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q,r}, conf T2q{p,q}, del m2, conf R2q{p,q}, fail
           r: conf R1{p,q,r}, send m2, del m1, del m2, conf T2r{r}, conf R2r{r}, quiesce""",
    ),
    (
        {"EVS7.1"},
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, conf T2q{q}, conf R2q{q}, quiesce""",
    ),
    # Who never installs c can neither deliver nor fail in com(c): EVS7.2 failing for a member that
    # is not there makes EVS7.1 fail for it too.
    (
        {"EVS7.1", "EVS7.2"},
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1q{q}, fail""",
    ),
    (
        {"TM1"},
        """p: conf R1{p}, conf T3{p}, conf R3{p}, quiesce
           q: conf R1q{q}, conf T3q{q}, conf R3{p,q}, quiesce""",
    ),
    ({"TM1"}, "p: conf R1{p}, conf T3{p}<R2, conf R3{p}, quiesce"),
    # Twice the same configuration is two at a time, and its installations cannot be one event.
    ({"TM1", "EVS2.3"}, "p: conf R1{p}, conf T2{p}, conf R1{p}, quiesce"),
    (
        {"TM2"},
        """p: conf R2{q}, quiesce
           q: conf R2{q}, quiesce""",
    ),
    ({"TM2"}, "p: conf R1{p}, conf T2{p,q}, conf R2{p}, quiesce"),
    (
        {"TM2"},
        """p: commit R1, conf R1{p,q}, quiesce
           q: conf R1{p,q}, quiesce""",
    ),
    (
        {"TM4"},
        """p: conf R1{p,q}, conf T2{p,q}, conf R2{p,q}, quiesce
           q: conf R1{p,q}, conf T2{p,q} regular, conf R2{p,q}, quiesce""",
    ),
    # What TR2 forbids is a clause of EVS1.3.
    (
        {"TR2", "EVS1.3"},
        """p: conf R1{p}, send m1, del m1, quiesce
           q: conf R2q{q}, del m1, quiesce""",
    ),
    (
        {"TR3"},
        """p: conf R1{p,q}, send m1, del m1, quiesce
           q: conf R1{p,q}, quiesce""",
    ),
    # A cycle in the order has no numbering that is both rising and the same everywhere: TG never
    # fails alone. It must fail also where the protocol numbers units to suit itself.
    (
        {"TG", "EVS6.1"},
        """p: conf R1{p,q}, send m1, del m1, del m2, quiesce
           q: conf R1{p,q}, send m2, del m2, del m1, quiesce""",
    ),
    (
        {"TG", "EVS6.2"},
        """p: conf R1{p,q}, send m1, del m1, del m2, quiesce
           q: conf R1{p,q}, send m2, del m2 as R1#1, del m1 as R1#2, quiesce""",
    ),
    # No two lives disagree on a pair; three do. The missing units are excused by configuration.
    (
        {"TG", "EVS6.1", "EVS6.3"},
        """p: conf R1{p,q,r}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q,r}, send m2, del m2, del m3, conf T2q{q}, conf R2q{q}, quiesce
           r: conf R1{p,q,r}, send m3, del m3, del m1, conf T2r{r}, conf R2r{r}, quiesce""",
    ),
    (
        {"TF2"},
        """p: conf R1{p,q}, token R1 1 sent 0 fcc 0, quiesce
           q: conf R1{p,q}, token R1 1 sent 0 fcc 0, quiesce""",
    ),
    # q was to have m1, and never delivers it; who fails is excused.
    (
        {"TF3"},
        """p: conf R1{p,q,r}, send m1, del m1 line 1, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q,r}, conf T2q{q}, conf R2q{q}, quiesce
           r: conf R1{p,q,r}, fail""",
    ),
    ({"FIFO"}, "p: conf R1{p}, send m2 no 2, send m1 no 1, del m2, del m1, quiesce"),
]


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_history_fails_exactly_what_it_breaks(case: tuple[set[str], str]) -> None:
    expected, text = case
    verdicts = check(history(text))
    assert set(verdicts.failed) == expected, verdicts.explain()


def test_every_property_can_fail() -> None:
    # Those that need limits have their own tests, below.
    assert {name for case in BROKEN for name in case[0]} | NEED_LIMITS == set(PROPERTIES)


SOUND = [
    "p: conf R1{p}, send m1, del m1, quiesce",
    # p crashes with a unit of its own undelivered; q has it.
    """p: conf R1{p,q}, send m1, fail
       q: conf R1{p,q}, conf T2q{q}, del m1, conf R2q{q}, quiesce""",
    # A restarted p is another life: it owes nothing of R1.
    """p: conf R1{p,q}, send m1 safe, fail
       p#2: conf R5{p}, conf T6{p}, conf R6{p,q}, send m2, del m2, quiesce
       q: conf R1{p,q}, conf T2q{q}, del m1, conf R2q{q}, conf T6q{q}, conf R6{p,q}, del m2,\
 quiesce""",
    # Safe in R1 at p; q fails there, r has it in its transitional configuration.
    """p: conf R1{p,q,r}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
       q: conf R1{p,q,r}, fail
       r: conf R1{p,q,r}, conf T2r{r}, del m1, conf R2r{r}, quiesce""",
    # q leaves in good order: that excuses it as a failure does.
    """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
       q: conf R1{p,q}, send m2, stop""",
    # q answers m1 with m2, and r keeps them in that order.
    """p: conf R1{p,q,r}, send m1, del m1, del m2, quiesce
       q: conf R1{p,q,r}, del m1, send m2, del m2, quiesce
       r: conf R1{p,q,r}, del m1, del m2, quiesce""",
    # Safe in T2={p,q} at p; q went on with another transitional of R1 and has it there.
    """p: conf R1{p,q}, send m1 safe, conf T2{p,q}, del m1, conf R2{p,q}, conf T3{p}, conf R3{p},\
 quiesce
       q: conf R1{p,q}, conf T4q{q}, del m1, conf R4q{q}, quiesce""",
    # A gap: r never hears m1 of p, and T2r excludes p, so m2 may come after the gap.
    """p: conf R1{p,q,r}, send m1, del m1, del m2, conf T2{p}, conf R2{p}, quiesce
       q: conf R1{p,q,r}, send m2, conf T2r{q,r}, del m2, conf R2r{q,r}, quiesce
       r: conf R1{p,q,r}, conf T2r{q,r}, del m2, conf R2r{q,r}, quiesce""",
    # Everybody has what everybody sent when the run ends.
    """p: commit R1, conf R1{p,q}, token R1 1 sent 1 fcc 1, send m1 safe, del m1, del m2 line 2,\
 quiesce
       q: commit R1, conf R1{p,q}, token R1 2 sent 1 fcc 2, send m2, del m1, del m2, quiesce""",
]


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_history_passes(text: str) -> None:
    verdicts = check(history(text))
    assert verdicts.holds, verdicts.explain()
    assert not verdicts.having(Status.INCONCLUSIVE)


def test_every_property_is_relevant_to_a_sound_history() -> None:
    relevant = {name for text in SOUND for name in check(history(text)).having(Status.PASS)}
    assert set(PROPERTIES) - relevant == NEED_LIMITS
    limits = {"window_size": 6, "messages_max": 3, "settle_us": 60, "state_us": 60, "submitted": 1}
    verdicts = check(with_limits(history(SOUND[-1]), **limits))
    assert verdicts.holds, verdicts.explain()
    assert set(verdicts.having(Status.PASS)) >= NEED_LIMITS


def test_what_was_submitted_and_never_sent_breaks_liveness() -> None:
    run = history("p: conf R1{p}, send m1, del m1, quiesce")
    assert check(run, submitted={(1, 1): 1})["LV-1"].status is Status.PASS
    assert check(run, submitted={(1, 1): 2}).failed == ("LV-1",)


def test_members_of_the_final_configuration_owe_what_was_sent_in_it() -> None:
    run = history(
        """p: conf R1{p}, send m1, del m1, conf T2{p}, conf R2{p,q}, send m2, del m2, quiesce
           q: conf R1q{q}, conf T2q{q}, conf R2{p,q}, quiesce"""
    )
    verdicts = check(run, submitted={(1, 1): 2, (2, 1): 0})
    assert set(verdicts.failed) == {"LV-1", "TR3"}
    assert [sample.units for sample in verdicts["LV-1"].samples] == [(UnitId(1, 1, 2),)]


def test_who_crashed_owes_no_liveness() -> None:
    run = history("p: conf R1{p}, fail")
    assert check(run, submitted={(1, 1): 5})["LV-1"].status is Status.VACUOUS


TOKENS = """p: conf R1{p,q}, token R1 1 sent 3 fcc 3, token R1 3 sent 3 fcc 6, quiesce
            q: conf R1{p,q}, token R1 2 sent 3 fcc 6, quiesce"""


@pytest.mark.parametrize(
    ("window_size", "messages_max", "status"),
    [
        (6, 3, Status.PASS),
        (5, 3, Status.FAIL),  # two visits make a rotation of two
        (6, 2, Status.FAIL),
    ],
)
def test_a_rotation_sends_no_more_than_the_window(
    window_size: int, messages_max: int, status: Status
) -> None:
    run = with_limits(history(TOKENS), window_size=window_size, messages_max=messages_max)
    assert check(run)["TF1"].status is status


def test_fcc_beyond_the_window_breaks_it_alone() -> None:
    run = history("p: conf R1{p}, token R1 1 sent 1 fcc 7, quiesce")
    assert check(with_limits(run, window_size=6, messages_max=6)).failed == ("TF1",)


def test_visits_with_others_missing_between_them_are_no_rotation() -> None:
    run = history("p: conf R1{p,q}, token R1 1 sent 3 fcc 3, token R1 3 sent 3 fcc 3, quiesce")
    assert check(with_limits(run, window_size=5, messages_max=3))["TF1"].status is Status.PASS


def test_without_its_limits_the_window_is_vacuous() -> None:
    assert check(history(TOKENS))["TF1"].status is Status.VACUOUS


def test_what_starts_and_ends_tell_is_what_the_run_is_judged_by() -> None:
    run = history("p: conf R1{p}, send m1, del m1, quiesce")
    assert check(with_limits(run, submitted=2)).failed == ("LV-1",)
    assert check(with_limits(run, submitted=1))["LV-1"].status is Status.PASS
    assert check(with_limits(run, submitted="many"))["LV-1"].status is Status.VACUOUS


CHANGE = "p: conf R1{p}, commit R2, conf T2{p}, conf R2{p}, quiesce"  # from 0 to 40, at 20 and 30


@pytest.mark.parametrize(("settle_us", "status"), [(40, Status.PASS), (39, Status.FAIL)])
def test_the_final_configuration_comes_in_time(settle_us: int, status: Status) -> None:
    assert check(with_limits(history(CHANGE), settle_us=settle_us))["LV-2"].status is status


@pytest.mark.parametrize(("settle_us", "status"), [(40, Status.INCONCLUSIVE), (39, Status.FAIL)])
@pytest.mark.parametrize("last", ["commit R2, conf T2{p}", "conf R2{p}, commit R3"])
def test_who_has_not_settled_is_late_only_when_the_time_is_over(
    settle_us: int, status: Status, last: str
) -> None:
    run = history(f"p: conf R1{{p}}, {last}, quiesce")
    assert check(with_limits(run, settle_us=settle_us))["LV-2"].status is status


@pytest.mark.parametrize(("state_us", "status"), [(30, Status.PASS), (29, Status.FAIL)])
def test_a_state_lasts_no_longer_than_it_may(state_us: int, status: Status) -> None:
    assert check(with_limits(history(CHANGE), state_us=state_us))["LV-3"].status is status


def test_times_count_from_the_last_disturbance_anywhere() -> None:
    killed = "q: conf R1q{q}, conf T2q{q}, conf R2q{q}, fail"  # at 40
    run = with_limits(history(f"{CHANGE}\n{killed}"), settle_us=1, state_us=10)
    verdicts = check(run)
    assert verdicts["LV-2"].status is Status.PASS
    assert verdicts["LV-3"].status is Status.PASS
    assert check(with_limits(run, state_us=9)).failed == ("LV-3",)


def test_an_empty_history_is_vacuous_in_everything() -> None:
    assert set(check(History()).having(Status.VACUOUS)) == set(PROPERTIES)


def test_a_recording_without_end_leaves_liveness_open() -> None:
    run = history(
        """p: conf R1{p,q}, send m1 safe, del m1, send m2
           q: conf R1{p,q}"""
    )
    verdicts = check(run, submitted={(1, 1): 2})
    assert verdicts.holds
    assert set(verdicts.having(Status.INCONCLUSIVE)) == {"EVS2.1", "EVS3", "EVS7.1", "TR3", "LV-1"}
    assert verdicts["EVS7.1"].n_unknown == 1


def test_who_went_on_is_judged_although_the_recording_has_no_end() -> None:
    run = history("p: conf R1{p}, send m1, conf T2{p}, conf R2{p}")
    assert check(run).failed == ("EVS3",)


def test_a_send_in_the_lost_tail_of_a_recording_is_unknown() -> None:
    run = history(
        """p: conf R1{p,q}, send m1, del m1
           q: conf R1{p,q}, del m1, del 1/1:2, fail"""
    )
    assert check(run)["EVS1.3"].status is Status.INCONCLUSIVE
    assert check(run)["EVS1.3"].n_unknown == 1


def test_a_member_whose_recording_was_cut_off_may_have_installed() -> None:
    run = history(
        """p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce
           q: conf R0q{q}"""
    )
    verdicts = check(run)
    assert verdicts["EVS7.2"].status is Status.INCONCLUSIVE
    assert verdicts["EVS7.1"].status is Status.INCONCLUSIVE


@pytest.mark.parametrize("lives", ["q: conf R2q{q}", "q: conf R0q{q}, fail\nq#2: conf R2q{q}"])
def test_no_lost_tail_holds_a_configuration_older_than_what_was_recorded(lives: str) -> None:
    run = history(
        "p: conf R1{p,q}, send m1 safe, del m1, conf T2{p}, conf R2{p}, quiesce\n" + lives
    )
    assert {"EVS7.1", "EVS7.2"} <= set(check(run).failed)


def test_what_the_lost_tail_of_a_killed_life_could_hold_is_unknown_and_no_pass() -> None:
    run = history(
        """p: conf R1{p,q}, send m1 safe, del m1, del 2/1:2, conf T2{p}, conf R2{p}, quiesce
           q: conf R1{p,q}, send m2, del m1 agreed, lost
           q#2: conf R5q{q}, quiesce"""
    )
    verdicts = check(run, submitted={(2, 1): 9})
    unknown = {one.property_id: one.n_unknown for one in verdicts.by_property.values()}
    assert {name: count for name, count in unknown.items() if count} == {
        "EVS1.3": 1,
        "EVS3": 1,
        "TR2": 1,
    }
    assert verdicts.n_unknown == 3
    assert "EVS3 (1 unknown)" in verdicts.explain()
    assert verdicts.failed == ("EVS1.3",)  # m1 was no agreed message


def test_a_send_missing_before_others_that_are_recorded_is_not_in_the_lost_tail() -> None:
    run = history(
        """p: conf R1{p,q}, send m1, send m3 no 3, del m1, lost
           q: conf R1{p,q}, del m1, del 1/1:2, del m3, quiesce"""
    )
    assert "EVS1.3" in check(run).failed


def test_the_known_part_of_a_killed_life_is_judged() -> None:
    run = history(
        """p: conf R1{p,q}, send m1, send m2, send m3, del m1, del m2, del m3, quiesce
           q: conf R1{p,q}, del m1, del m3, lost"""
    )
    assert {"EVS5", "EVS6.3"} <= set(check(run).failed)


def test_two_units_under_one_key_break_numbering() -> None:
    run = history("p: conf R1{p}, send m1, send m2, del m1, del m2, quiesce")
    life = run.lives[1, 1]
    life.sends[1] = life.sends[1]._replace(seq=1)
    life.deliveries[1] = life.deliveries[1]._replace(seq=1)
    assert set(check(run).failed) == {"EVS6.1", "EVS6.2"}


def test_time_that_runs_backwards_at_one_processor_is_no_order() -> None:
    run = history("p: conf R1{p}, send m1, send m2, del m1, del m2, quiesce")
    life = run.lives[1, 1]
    life.deliveries[1] = life.deliveries[1]._replace(t_us=0)
    assert check(run).failed == ("EVS1.2",)


def test_a_table_whose_rows_changed_places_is_no_order() -> None:
    run = history("p: conf R1{p}, send m1, del m1, send m2, del m2, quiesce")
    life = run.lives[1, 1]
    life.sends[0], life.sends[1] = life.sends[1], life.sends[0]
    assert "EVS1.2" in check(run).failed


def test_a_send_beyond_its_configuration_is_outside_its_span() -> None:
    run = history("p: conf R1{p}, send m1, del m1, conf T2{p}, conf R2{p}, quiesce")
    life = run.lives[1, 1]
    life.sends[0] = life.sends[0]._replace(conf_no=7)
    assert "EVS2.2" in check(run).failed


def test_a_unit_sent_by_another_is_not_its_own() -> None:
    run = history("p: conf R1{p}, send m1, del m1, quiesce")
    life = run.lives[1, 1]
    stolen = UnitId(9, 1, 1)
    life.sends[0] = life.sends[0]._replace(unit_id=stolen)
    life.deliveries[0] = life.deliveries[0]._replace(unit_id=stolen)
    assert check(run).failed == ("EVS1.4",)


def test_witnesses_are_few_and_violations_all_counted() -> None:
    deliveries = ", ".join(f"del 1/1:{number}" for number in range(1, 21))
    verdict = check(history(f"p: conf R1{{p}}, {deliveries}, quiesce"))["EVS1.3"]
    assert (verdict.n_violations, len(verdict.samples)) == (20, 5)


def test_a_witness_tells_who_did_what() -> None:
    swapped = R.replace("del m1, del m2", "del m2, del m1")
    verdicts = check(history("\n".join((P, Q, swapped))))
    (witness,) = verdicts["TG"].samples
    assert witness.text == "1/1:1 before 1/1:2 at p1; 1/1:2 before 1/1:1 at p3"
    assert witness.units == (UnitId(1, 1, 1), UnitId(1, 1, 2))
    assert "TG fails: 1 violations" in verdicts.explain()


def test_a_cycle_is_told_as_a_story() -> None:
    run = history(
        """p: conf R1{p,q}, del m2, send m1, del m1, quiesce
           q: conf R1{p,q}, del m1, send m2, del m2, quiesce"""
    )
    verdict = check(run)["EVS1.1"]
    assert verdict.samples[0].text == (
        "before itself: p2 delivers 1/1:1, then p1 delivers 2/1:1, then p2 delivers 1/1:1"
    )


def test_a_history_with_rows_missing_is_reported_not_stumbled_over() -> None:
    run = history(
        "p: conf R1{p}, send m1, del m1, send m2, del m2, conf T2{p}, conf R2{p}, quiesce"
    )
    del run.lives[1, 1].deliveries[1:]
    assert "EVS1.2" in check(run).failed
