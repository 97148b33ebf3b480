import pytest

from evensong.core.totem.parameters import LAN, MS, PROFILES, WAN, Parameters


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("processors", [1, 2, 8, 32])
def test_every_profile_keeps_its_own_rules(profile: str, processors: int) -> None:
    parameters = PROFILES[profile]
    parameters.check(processors)
    assert parameters.token_loss > 2 * parameters.hold
    assert parameters.hold < parameters.token_retransmit  # a token that rests is not a lost one


def test_a_wide_network_has_five_times_as_long() -> None:
    assert WAN.token_loss == 5 * LAN.token_loss == 1_500 * MS
    assert WAN.window_size == LAN.window_size


def test_large_rings_get_longer_timeouts() -> None:
    assert Parameters.for_ring(32).token_loss == Parameters().token_loss
    assert Parameters.for_ring(33).token_loss == 2 * Parameters().token_loss
    Parameters.for_ring(128).check(128)
