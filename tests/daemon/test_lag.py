from evensong.daemon.lag import LATE_US, Lag, Worst

TOKEN_LOSS_US = 45_000


def test_the_worst_is_kept_for_one_to_two_spans() -> None:
    worst = Worst(100)
    worst.note(7, 1_000)
    worst.note(3, 1_050)
    assert worst.get(1_100) == 7
    worst.note(2, 1_150)
    assert worst.get(1_200) == 7
    assert worst.get(1_260) == 2
    assert worst.get(9_000) == 0


def test_a_timer_attended_to_late_is_lag_and_an_early_wake_is_not() -> None:
    lag = Lag(TOKEN_LOSS_US)
    lag.begin_turn(1_000_000, due=2_000_000)
    lag.end_turn(1_000_010)
    assert (lag.worst_us, lag.recent_us(1_000_010), lag.late) == (0, 0, 0)
    lag.begin_turn(2_000_000, due=2_000_000 - LATE_US - 1)
    lag.end_turn(2_000_010)
    assert (lag.worst_us, lag.recent_us(2_000_010), lag.late) == (LATE_US + 1, LATE_US + 1, 1)
    assert lag.suspect_us(2_000_010) == LATE_US + 1


def test_a_long_turn_is_lag_before_it_is_over() -> None:
    lag = Lag(TOKEN_LOSS_US)
    lag.begin_turn(1_000_000, due=1_000_000)
    assert lag.suspect_us(1_020_000) == 20_000
    lag.end_turn(1_020_000)
    lag.begin_turn(1_025_000, due=2_000_000)
    assert lag.suspect_us(1_025_001) == 20_000
    assert lag.turn_worst_us == 20_000


def test_what_happened_long_before_excuses_no_suspicion() -> None:
    lag = Lag(TOKEN_LOSS_US)
    lag.begin_turn(1_000_000, due=900_000)
    lag.end_turn(1_000_010)
    later = 1_000_010 + 3 * TOKEN_LOSS_US
    lag.begin_turn(later, due=later)
    assert lag.suspect_us(later) == 0
    assert lag.recent_us(later) == 100_000


def test_a_stall_is_seen_although_no_timer_is_due() -> None:
    lag = Lag(TOKEN_LOSS_US)
    lag.begin_turn(1_000_000, due=9_000_000)
    lag.end_turn(1_000_010)
    woken = 1_000_000 + TOKEN_LOSS_US
    lag.begin_turn(woken, due=min(9_000_000, lag.turn_by()))
    assert TOKEN_LOSS_US // 2 < lag.suspect_us(woken) < TOKEN_LOSS_US
