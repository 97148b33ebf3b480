"""The rules of this repository, held against this repository.

The rules themselves are in `tests/tidy`, each with planted violations that it must catch.
"""

from collections.abc import Callable

import pytest

from evensong.sim import evs
from evensong.sim.groups.run import PROMISES
from evensong.sim.rules import LANSIS, RING
from tests.tidy import documents, purity, shape
from tests.tidy.source import files, tracked

ALL = files()
TRACKED = tracked()
PYTHON = files(".py")
SRC = files(".py", under="src")
CORE = files(".py", under="src/evensong/core")
MARKDOWN = files(".md")


def problems_in(texts: dict[str, str], rule: Callable[[str, str], list[str]]) -> list[str]:
    assert texts, "a rule over nothing proves nothing"
    return [problem for path, text in texts.items() for problem in rule(path, text)]


def test_the_rules_see_the_whole_tree() -> None:
    assert "src/evensong/core/effects.py" in CORE
    assert {".ci/run", "Makefile", "LICENSE", "requirements/dev.txt"} <= TRACKED.keys()
    assert {"README.md", "docs/papers.md"} <= MARKDOWN.keys()
    assert "tests/test_tidy.py" in PYTHON
    assert not any(path.startswith(".venv/") for path in ALL)


@pytest.mark.parametrize(
    "rule",
    [purity.core_imports, purity.core_calls, purity.core_set_order],
    ids=lambda rule: rule.__name__,
)
def test_the_cores_are_pure(rule: Callable[[str, str], list[str]]) -> None:
    assert problems_in(CORE, rule) == []


def test_no_layer_imports_one_above_it() -> None:
    assert problems_in(SRC, purity.layering) == []


def test_files_are_short() -> None:
    assert problems_in(SRC, shape.file_size) == []


def test_functions_are_short() -> None:
    assert problems_in(PYTHON, shape.function_size) == []


def test_names_say_what_a_thing_is() -> None:
    assert problems_in(PYTHON, shape.names) == []


def test_the_public_names_are_declared() -> None:
    path = "src/evensong/__init__.py"
    assert shape.public_names(path, SRC[path]) == []


def test_the_drawn_error_tree_is_true() -> None:
    path = "src/evensong/errors.py"
    assert shape.error_tree(path, SRC[path]) == []


def test_every_test_can_fail() -> None:
    assert problems_in(files(".py", under="tests"), shape.honest_tests) == []


def test_every_link_leads_somewhere() -> None:
    assert problems_in(MARKDOWN, lambda path, text: documents.links(path, text, ALL)) == []


def test_every_file_that_is_named_exists() -> None:
    assert problems_in(MARKDOWN, lambda path, text: documents.named_files(path, text, ALL)) == []


def test_every_cited_paper_is_known() -> None:
    papers = MARKDOWN["docs/papers.md"]
    assert problems_in(SRC, lambda path, text: documents.citations(path, text, papers)) == []


def test_every_deviation_is_told() -> None:
    told = MARKDOWN.get("docs/deviations.md", "")
    assert problems_in(SRC, lambda path, text: documents.deviations(path, text, told)) == []


def test_every_property_is_told_and_every_one_that_is_told_exists() -> None:
    judged = [*evs.PROPERTIES, *PROMISES, *LANSIS.properties]
    invariants = [*RING.invariants, *LANSIS.invariants]
    known = {*invariants, *judged, "EVS7"}  # which is EVS7.1 and EVS7.2
    for path, wanted in {
        "docs/guarantees.md": judged,
        "docs/simulator.md": [*invariants, *PROMISES],
        "docs/protocols/groups.md": [one for one in PROMISES if not one.startswith("S")],
    }.items():
        assert documents.properties(path, MARKDOWN[path], known, wanted) == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert problems_in(TRACKED, documents.machine_traces) == []


def test_no_file_promises_work() -> None:
    assert problems_in(TRACKED, documents.promises) == []


def test_every_dependency_has_its_reason() -> None:
    told = MARKDOWN["docs/dependencies.md"]
    assert documents.dependencies(ALL["pyproject.toml"], told) == []


def test_what_make_installs_is_pinned() -> None:
    wanted, pinned = ALL["requirements/dev.in"], ALL["requirements/dev.txt"]
    assert documents.pins(ALL["pyproject.toml"], wanted, pinned) == []
