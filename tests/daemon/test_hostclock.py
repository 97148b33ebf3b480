from pathlib import Path

from evensong.daemon.hostclock import clock_name


def test_two_daemons_of_one_machine_read_one_clock() -> None:
    assert clock_name() == clock_name() != ""


def test_a_machine_that_starts_again_has_another_clock(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("5b0e\n")
    second.write_text("77aa\n")
    assert clock_name(first) != clock_name(second)


def test_a_shifted_container_has_another_clock(tmp_path: Path) -> None:
    start, plain, shifted = tmp_path / "start", tmp_path / "plain", tmp_path / "shifted"
    start.write_text("5b0e\n")
    plain.symlink_to("time:[4026531834]")
    shifted.symlink_to("time:[4026532571]")
    assert clock_name(start, plain) != clock_name(start, shifted)
    assert clock_name(start, tmp_path / "no such thing") != ""


def test_a_machine_that_tells_nothing_has_no_name_for_its_clock(tmp_path: Path) -> None:
    assert clock_name(tmp_path / "no such thing") == ""
