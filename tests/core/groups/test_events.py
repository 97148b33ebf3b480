import pytest

from evensong.core.groups.events import (
    MemberId,
    is_group_name,
    is_user_name,
    parse_private_name,
)


def test_a_private_name_is_read_back() -> None:
    member = MemberId(3, 17, 5, "alice")
    assert str(member) == "#alice#3#17.5"
    assert parse_private_name("#alice#3#17.5") == member


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "#alice#3#17",
        "#alice#3#17.",
        "#alice#3#017.5",
        "#alice#0#17.5",
        "#alice#3#17.0",
        "#alice#3#17.4294967296",
        "#alice#4294967296#1.1",
        "#alice#3#18446744073709551616.1",
        "##3#17.5",
        "#alice#3#17.5#",
        "#alice#3#17.5 ",
        "#alice#3#-1.5",
        "#alice#³#17.5",
        "#" + "a" * 33 + "#3#17.5",
    ],
)
def test_what_is_no_private_name_is_refused(name: str) -> None:
    assert parse_private_name(name) is None


@pytest.mark.parametrize("name", ["g", "orders", "ä" * 32, "x" * 64, "a#b", " "])
def test_a_group_may_be_called_so(name: str) -> None:
    assert is_group_name(name)


@pytest.mark.parametrize("name", ["", "#g", "ä" * 33, "x" * 65, "\ud800"])
def test_a_group_may_not_be_called_so(name: str) -> None:
    assert not is_group_name(name)


@pytest.mark.parametrize("name", ["", "a#b", "#", "x" * 33, "\udfff"])
def test_a_process_may_not_be_called_so(name: str) -> None:
    assert not is_user_name(name)


def test_the_same_session_number_of_another_life_is_another_process() -> None:
    assert str(MemberId(3, 1, 1, "a")) != str(MemberId(3, 2, 1, "a"))
    assert MemberId(3, 1, 1, "a") != MemberId(3, 2, 1, "a")
