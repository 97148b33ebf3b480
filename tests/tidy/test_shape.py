import pytest

from tests.tidy.shape import (
    FUNCTION_LINES_MAX,
    LINES_MAX,
    error_tree,
    file_size,
    function_size,
    honest_tests,
    names,
    public_names,
)

PATH = "src/evensong/x.py"


def test_a_file_that_never_stopped_growing_is_caught() -> None:
    assert file_size(PATH, "x = 1\n" * LINES_MAX) == []
    assert len(file_size(PATH, "x = 1\n" * (LINES_MAX + 1))) == 1


def test_a_long_function_is_caught_also_inside_a_class() -> None:
    longest = "class A:\n    def f(self):\n" + "        x = 1\n" * (FUNCTION_LINES_MAX - 1)
    assert function_size(PATH, longest) == []
    assert len(function_size(PATH, longest + "        x = 1\n")) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("src/evensong/utils.py", ""),
        ("src/evensong/core/common.py", ""),
        ("tests/types.py", ""),
        (PATH, "class RingManager: ..."),
        (PATH, "class TokenHandler: ..."),
        (PATH, "class CoreBase: ..."),
        (PATH, "class CoreImpl: ..."),
        (PATH, "class TestHelper: ..."),
        (PATH, "class TimeUtil: ..."),
    ],
)
def test_a_name_that_says_nothing_is_caught(path: str, source: str) -> None:
    assert len(names(path, source)) == 1


def test_a_name_that_says_something_is_let_through() -> None:
    assert names("src/evensong/timer.py", "class Timer: ...") == []


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "__all__ = ['x']",
        "__all__ = []\nfrom a import b",
        "__all__ = []\nimport a.b",
        "__all__ = ['b']\nfrom a import b\ndef c(): ...",
        "__all__ = ['b']\nfrom a import b\nc: int = 1",
        "__all__ = []\n__version__ = '1'",
        "__all__ = []\nif TYPE_CHECKING:\n    from a import b",
    ],
)
def test_a_surface_that_is_not_what_it_says_is_caught(source: str) -> None:
    assert len(public_names(PATH, source)) == 1


def test_a_surface_that_is_what_it_says_is_let_through() -> None:
    source = "from a import b as c\nfrom d import e as _e\n__all__ = ['c', '__version__']\n"
    assert public_names(PATH, source + "__version__ = '1'") == []


DRAWN = '''"""Errors.

Root
├── A       what a is
│   └── B   what b is
└── C       what c is
"""
class Root(Exception): ...
class A(Root): ...
class B(A): ...
class C(Root): ...
'''


def test_a_true_tree_of_errors_is_let_through() -> None:
    assert error_tree(PATH, DRAWN) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("class B(A)", "class B(Root)", "B is drawn under A, not Root"),
        ("class C(Root): ...", "", "C is drawn but not defined"),
        ("└── C       what c is\n", "", "C is defined but not drawn"),
        ("class Root(Exception)", "class Root(ValueError)", "Root is drawn under Exception"),
        ("│   └── B", "├── B", "B is drawn under Root, not A"),
    ],
)
def test_a_false_tree_of_errors_is_caught(old: str, new: str, problem: str) -> None:
    assert old in DRAWN
    problems = error_tree(PATH, DRAWN.replace(old, new))
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_file_without_a_drawing_is_caught() -> None:
    assert len(error_tree(PATH, "class Root(Exception): ...")) == 1


@pytest.mark.parametrize(
    "body",
    ["pass", "run()", "world.run_until_quiet()", "compute(assert_nothing)", "x = [1]"],
)
def test_a_test_that_cannot_fail_is_caught(body: str) -> None:
    assert len(honest_tests(PATH, f"def test_x():\n    {body}")) == 1


@pytest.mark.parametrize(
    "body",
    [
        "assert x",
        "with pytest.raises(ValueError): f()",
        "check_order(history)",
        "world.check()",
        "for x in y:\n        _assert_same(x)",
    ],
)
def test_a_test_that_can_fail_is_let_through(body: str) -> None:
    assert honest_tests(PATH, f"def test_x():\n    {body}") == []
