import pytest

from evensong.core.totem.parameters import FAST, LAN
from evensong.daemon.tuning import SCALED, TOKEN_LOSS_MOST, Measured, tuned, worst


@pytest.mark.parametrize("rotation", [1, 900, 40_000, 2_000_000, 10**9])
@pytest.mark.parametrize("lag", [0, 11_111, 3_000_000])
def test_tuned_timeouts_can_work_and_what_was_seen_is_no_crash(rotation: int, lag: int) -> None:
    parameters = tuned(Measured(rotation, lag))
    parameters.check(16)
    assert all(getattr(parameters, key) % 500 == 0 for key in SCALED)
    assert parameters.token_loss >= FAST.token_loss
    assert parameters.token_loss > 3 * (rotation + lag) or parameters.token_loss == TOKEN_LOSS_MOST


def test_what_was_seen_on_a_lan_gives_its_timeouts() -> None:
    assert tuned(Measured(LAN.token_loss // 4, 0)) == LAN


def test_the_worst_of_several_daemons_counts() -> None:
    assert worst([Measured(5, 1), Measured(2, 9)]) == Measured(5, 9)
