import pytest

from tests.tidy.documents import (
    MACHINE_PATHS,
    PROMISES,
    REGISTRY_HOSTS,
    anchors,
    citations,
    dependencies,
    deviations,
    links,
    machine_traces,
    named_files,
    pins,
    promises,
    properties,
)

TEXTS = {
    "README.md": "# Top\n",
    "docs/guide.md": "# The guide\n\n## Views & *merges*\n\n## Again\n\n## Again\n",
    "src/evensong/errors.py": "",
}


@pytest.mark.parametrize(
    "target",
    ["gone.md", "guide.md#nowhere", "#nowhere", "../docs/gone/", "../gone#x", "guide.md#views"],
)
def test_a_link_that_leads_nowhere_is_caught(target: str) -> None:
    assert len(links("docs/guide.md", f"see [it]({target}).", TEXTS)) == 1
    assert len(links("docs/guide.md", f"see [it].\n\n[it]: {target}", TEXTS)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[it](../README.md) and [it](guide.md#views--merges)",
        "[it](guide.md#again-1)",
        '[it](../README.md#top "hover")',
        "[it](../src/evensong/) and [it](../src/evensong/errors.py)",
        "[it](https://example.org/x) and [it](mailto:x@example.org)",
        "`[it](gone.md)`",
        "```\n[it](gone.md)\n```",
    ],
)
def test_a_link_that_leads_somewhere_is_let_through(text: str) -> None:
    assert links("docs/guide.md", text, TEXTS) == []


def test_a_file_that_is_named_and_missing_is_caught() -> None:
    here = {"tests/test_here.py": ""}
    assert named_files("a.md", "guarded by `tests/test_here.py`", here) == []
    assert len(named_files("a.md", "guarded by `tests/test_gone.py`", here)) == 1


def test_a_link_within_a_document_finds_its_headings() -> None:
    text = "# One\n[two](#two)\n## Two\n"
    assert links("docs/new.md", text, {"docs/new.md": text}) == []


def test_headings_in_code_are_not_anchors() -> None:
    assert anchors('# One\n```\n# not\n```\n<a id="mark"></a>') == {"one", "mark"}


PAPERS = "| **[SRP]** | the ring |\n| **[xAMp]** | qualities |\n"


@pytest.mark.parametrize(
    "source",
    [
        "# as the ring does [EVS §2]",
        "'''Do it [MRP fig 3].'''",
        "def f():\n    '''Do it [TPG].'''",
        "x = 1  # [SRP §4; Aga94 §3]",
        "# [Srp §4]",
        "# long [EVS\n# §4]",
    ],
)
def test_a_citation_of_an_unknown_paper_is_caught(source: str) -> None:
    assert len(citations("src/x.py", source, PAPERS)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "# as the paper says [SRP §4], and [xAMp §10.2]",
        "x: list[Effect] = y[Z]",
        "'''A list[Effect], and a range [low, high].'''",
        "x = '[EVS §3] in a string is data'",
    ],
)
def test_a_citation_of_a_known_paper_is_let_through(source: str) -> None:
    assert citations("src/x.py", source, PAPERS) == []


def test_a_deviation_that_points_nowhere_is_caught() -> None:
    assert len(deviations("src/x.py", "# Deviation: a ceiling is stored.", "")) == 1
    assert len(deviations("src/x.py", "def f():\n    'Deviation: it is.'", "")) == 1


def test_a_remark_may_take_several_lines() -> None:
    source = "# Deviation: a ceiling,\n# see docs/deviations.md#ceiling.\nx = 1\n# [SRP\n# §4]"
    assert deviations("src/x.py", source, "# Ceiling") == []
    assert citations("src/x.py", source, PAPERS) == []
    assert len(citations("src/x.py", source, "")) == 1


def test_a_deviation_that_is_not_told_is_caught() -> None:
    source = "# Deviation: a ceiling is stored (docs/deviations.md#ceiling)."
    assert deviations("src/x.py", source, "# Deviations\n\n## Ceiling\n") == []
    assert len(deviations("src/x.py", source, "# Deviations\n\n## Ceilings\n")) == 1
    assert len(deviations("src/x.py", source, "")) == 1


IN_TABLES = (
    "A view, as G1 says.\n\n| promise | by |\n| --- | --- |\n| order | TG, EVS6.1 |\n| G2 |\n"
)


def test_properties_that_exist_and_are_told_are_let_through() -> None:
    known = ["G1", "G2", "TG", "EVS6.1", "I15"]
    assert properties("docs/guide.md", IN_TABLES, known, ["G2", "TG", "EVS6.1"]) == []


@pytest.mark.parametrize("name", ["G9", "EVS6.9", "EVS9", "TM9", "TF9", "LV-9", "I99", "S9"])
def test_a_property_that_does_not_exist_is_caught(name: str) -> None:
    for text in (f"as {name} says", f"| order | {name} |"):
        assert len(properties("docs/guide.md", text, ["G1", "EVS6.1"], [])) == 1


@pytest.mark.parametrize("name", ["G1", "G3", "EVS6"])
def test_a_property_that_no_table_tells_is_caught(name: str) -> None:
    known = ["G1", "G2", "TG", "EVS6.1"]
    assert properties("docs/guide.md", IN_TABLES, known, [name]) == [
        f"docs/guide.md: no table has {name}"
    ]


@pytest.mark.parametrize("trace", [*MACHINE_PATHS, *REGISTRY_HOSTS])
def test_a_trace_of_the_machine_is_caught(trace: str) -> None:
    assert len(machine_traces("README.md", f"one\nsee {trace}x\n")) == 1
    assert machine_traces("README.md", "the network/ and its roots\n") == []


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_caught(promise: str) -> None:
    assert len(promises("README.md", f"# {promise}: later")) == 1
    assert promises("README.md", f"{promise}ES") == []


PYPROJECT = """
[build-system]
requires = ["setuptools>=80"]
[project]
name = "evensong"
dependencies = ["cryptography>=44"]
[project.optional-dependencies]
pretty = ["rich>=13"]
trace = ["pyarrow>=18"]
spark = ["pyspark>=4,<5", "evensong[trace]"]
dev = ["pytest>=8"]
"""
TOLD = "".join(
    f"| `{name}` | why |\n"
    for name in ("setuptools", "cryptography", "rich", "pyarrow", "pyspark", "pytest")
)


def test_a_dependency_without_its_reason_is_caught() -> None:
    assert dependencies(PYPROJECT, TOLD) == []
    untold = TOLD.replace("| `pyarrow` | why |\n", "")
    assert dependencies(PYPROJECT, untold) == ["docs/dependencies.md: no line for pyarrow"]


def test_a_reason_without_its_dependency_is_caught() -> None:
    told = TOLD + "| `numpy` | it was there once |\n"
    assert dependencies(PYPROJECT, told) == ["docs/dependencies.md: numpy is not a dependency"]


WANTED = (
    "# why\nsetuptools>=80\ncryptography>=44\nrich>=13\npyarrow>=18\npyspark>=4,<5\npytest>=8\n"
)
PINNED = "".join(
    f"{name}==1.0 \\\n    --hash=sha256:00\n    # via -r requirements/dev.in\n"
    for name in ("cryptography", "pyarrow", "pyspark", "pytest", "rich", "setuptools")
)


def test_true_pins_are_let_through() -> None:
    assert pins(PYPROJECT, WANTED, PINNED) == []


@pytest.mark.parametrize(
    ("wanted", "pinned"),
    [
        (WANTED.replace("rich>=13\n", ""), PINNED),
        (WANTED + "numpy>=2\n", PINNED + "numpy==2.0 \\\n    --hash=sha256:00\n"),
        (WANTED, PINNED.replace("rich==1.0", "rich>=1.0")),
        (WANTED, PINNED.replace("rich==1.0 \\\n    --hash=sha256:00", "rich==1.0")),
        (WANTED, PINNED.replace("rich==", "poor==")),
        (WANTED, "--index-url somewhere\n" + PINNED),
        (WANTED, PINNED + "x @ https://example.org/x.whl == \\\n    --hash=sha256:00\n"),
    ],
)
def test_a_false_pin_is_caught(wanted: str, pinned: str) -> None:
    assert len(pins(PYPROJECT, wanted, pinned)) == 1
