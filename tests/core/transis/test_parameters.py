import pytest

from evensong.core.transis.parameters import PROFILES, Parameters
from evensong.errors import BadParameters


@pytest.mark.parametrize("name", PROFILES)
def test_the_profiles_keep_their_own_rules(name: str) -> None:
    for processors in (1, 2, 9, 32):
        PROFILES[name].check(processors)


@pytest.mark.parametrize("processors", [1, 5, 10, 50, 128])
def test_settings_for_a_domain_suit_it(processors: int) -> None:
    parameters = Parameters.for_domain(processors)
    parameters.check(processors)
    assert parameters.w_high == max(64, 6 * processors)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"heartbeat": 0}, "every parameter is positive"),
        ({"allack": 2}, "allack is 0 or 1"),
        ({"agree": 2**41}, "every parameter <="),
        ({"ack_idle": 30_000}, "ack_idle <= heartbeat"),
        ({"nack_delay": 15_000}, "2 \\* nack_delay <= heartbeat"),
        ({"nack_retry": 200_000}, "nack_retry <= nack_retry_max"),
        ({"collect": 5_000}, "collect >= heartbeat"),
        ({"agree": 30_000}, "agree >= 2 \\* heartbeat"),
        ({"w_low": 64}, "w_low < w_high"),
        ({"w_high": 17}, "w_high >= 2 \\* processors"),
        ({"orphans_max": 20}, "w_high <= orphans_max"),
    ],
)
def test_what_cannot_work_is_refused_by_its_rule(changed: dict[str, int], rule: str) -> None:
    with pytest.raises(BadParameters, match=rule):
        Parameters()._replace(**changed).check(9)


def test_stretching_leaves_counts_alone() -> None:
    usual, long = Parameters(), Parameters().stretched(3)
    assert long.heartbeat == 3 * usual.heartbeat
    assert (long.w_high, long.probes, long.allack) == (usual.w_high, usual.probes, usual.allack)
