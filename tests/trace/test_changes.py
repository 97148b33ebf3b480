from evensong.sim.faults import Calm, Crash, Restart
from evensong.sim.run import run_recorded
from evensong.sim.setup import Options, Setup
from evensong.sim.workload import Burst
from evensong.trace.changes import changes

MS = 1_000


def test_a_change_names_who_noticed_what_and_when_all_were_through() -> None:
    workload = tuple(Burst(at * MS, 1 + at % 3) for at in range(10, 140))
    plan = (Crash(50 * MS, 2), Restart(100 * MS, 2), Calm(140 * MS))
    _, history = run_recorded(Setup(Options((1, 2, 3)), plan, workload))
    formed, without, again = changes(history)

    assert formed.conf.members == (1, 2, 3)
    assert (formed.cause, formed.noticed_us) == ("start", 0)
    assert without.conf.members == (1, 3)
    assert without.cause == "token loss"
    assert without.noticed_by in (1, 3)
    assert 60 * MS < without.noticed_us < without.agreed_us < without.installed_us < 100 * MS
    assert without.took_us() == without.installed_us - without.noticed_us
    # The one that starts notices nothing: it is those who hear it.
    assert again.conf.members == (1, 2, 3)
    assert again.cause == "join"
    assert again.noticed_by in (1, 3)
    assert again.noticed_us > 100 * MS


def test_a_domain_collects_or_gives_up_before_it_changes() -> None:
    workload = tuple(Burst(at * MS, 1 + at % 3) for at in range(10, 400))
    plan = (Crash(200 * MS, 2), Restart(500 * MS, 2), Calm(800 * MS))
    _, history = run_recorded(Setup(Options((1, 2, 3), engine="transis"), plan, workload))
    *_, formed, without, again = changes(history)

    assert formed.conf.members == (1, 2, 3)
    assert without.conf.members == (1, 3)
    assert without.cause == "silent"
    assert 200 * MS < without.noticed_us < without.installed_us < 500 * MS
    assert again.conf.members == (1, 2, 3)
    assert again.cause == "foreign message"
    assert 500 * MS < again.noticed_us < again.installed_us
    assert again.agreed_us < 0
