"""Rules about what is written: links, citations, dependencies, and nothing of one machine."""

import ast
import io
import posixpath
import re
import tokenize
import tomllib
from collections.abc import Collection, Mapping
from typing import Final

FENCE: Final = re.compile(r"^(```|~~~)")
NAMED_FILE: Final = re.compile(r"`((?:src|tests|docs|bench|requirements)/[\w./-]+\.\w+)`")
INLINE_CODE: Final = re.compile(r"`[^`]*`")
LINK: Final = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE: Final = re.compile(r"^\s*\[[^\]]+\]:\s*(\S+)")
SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:")
HEADING: Final = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
ANCHOR: Final = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")

# `[SRP §4]`, `[EVS]`, `[SRP §3; Aga94 §4.2]` in a comment or docstring; `list[Effect]` is not one.
CITATION: Final = re.compile(r"(?<![\w`\"'])\[((?:[A-Z]\w*|xAMp)(?:[ ,;][^\]\[]*)?)\]")
KEY: Final = re.compile(r"^[A-Za-z]\w*")
DEFINED_KEY: Final = re.compile(r"\*\*\[(\w+)\]\*\*")
DEVIATION: Final = re.compile(r"docs/deviations\.md#([\w-]+)")
# What a promise is checked by; not a letter of a story, as in `G` or `I`.
PROPERTY: Final = re.compile(
    r"\b(?:EVS\d(?:\.\d)?|T[MRF]\d|TG|FIFO|LV-\d|L[VCASBMW]?\d+|[DGIS]\d+)\b"
)
DEPENDENCY: Final = re.compile(r"^[A-Za-z0-9._-]+")

# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS: Final = tuple(f"/{top}/" for top in ("work", "root", "home"))
REGISTRY_HOSTS: Final = ("pypi" + ".org", "python" + "hosted")
PROMISES: Final = ("TO" + "DO", "FIX" + "ME")


def prose(markdown: str) -> list[tuple[int, str]]:
    """Return the numbered lines of a document without its code."""
    lines: list[tuple[int, str]] = []
    is_code = False
    for number, line in enumerate(markdown.splitlines(), start=1):
        if FENCE.match(line.strip()):
            is_code = not is_code
        elif not is_code:
            lines.append((number, line))
    return lines


def anchors(markdown: str) -> set[str]:
    """Return what a link into the document may name: its headings, as forges spell them."""
    found: set[str] = set()
    for _, line in prose(markdown):
        found.update(ANCHOR.findall(line))
        heading = HEADING.match(line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            repeats = 0
            unique = slug
            while unique in found:
                repeats += 1
                unique = f"{slug}-{repeats}"
            found.add(unique)
    return found


def links(path: str, markdown: str, texts: Mapping[str, str]) -> list[str]:
    """Every relative link leads to a file of ours, and its anchor to a heading there."""
    problems = []
    for number, line in prose(markdown):
        bare = INLINE_CODE.sub("", line)
        for target in [*LINK.findall(bare), *REFERENCE.findall(bare)]:
            if SCHEME.match(target):
                continue
            name, _, anchor = target.partition("#")
            whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
            aim = whole if name else path
            if aim in texts:
                if anchor and anchor not in anchors(texts[aim]):
                    problems.append(f"{path}:{number}: no heading for #{anchor} in {aim}")
            elif anchor or not any(file.startswith(aim.rstrip("/") + "/") for file in texts):
                problems.append(f"{path}:{number}: no such file: {target}")
    return problems


def named_files(path: str, markdown: str, texts: Mapping[str, str]) -> list[str]:
    """Every file of ours that is named in backticks exists."""
    return [
        f"{path}:{number}: no such file: {name}"
        for number, line in prose(markdown)
        for name in NAMED_FILE.findall(line)
        if name not in texts
    ]


def remarks(source: str) -> list[tuple[int, str]]:
    """Return the comments and docstrings of a module, with the line each begins on.

    Comment lines that follow each other are one remark.
    """
    found: list[tuple[int, str]] = []
    last_line = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            text = token.string.lstrip("# ")
            if line == last_line + 1:
                began, before = found.pop()
                found.append((began, f"{before} {text}"))
            else:
                found.append((line, text))
            last_line = line
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstring = node.value.value
            if isinstance(docstring, str):
                found.append((node.lineno, docstring))
    return sorted(found)


def citations(path: str, source: str, papers: str) -> list[str]:
    """Every paper that a comment cites has its entry in docs/papers.md."""
    known = set(DEFINED_KEY.findall(papers))
    problems = []
    for line, remark in remarks(source):
        for citation in CITATION.findall(remark):
            for part in re.split(r"[;,]\s*", citation):
                key = KEY.match(part)
                if key and key[0] not in known:
                    problems.append(f"{path}:{line}: [{citation}] is not in docs/papers.md")
    return problems


def deviations(path: str, source: str, document: str) -> list[str]:
    """Every deviation in the code points to where docs/deviations.md tells it."""
    known = anchors(document)
    problems = []
    for line, remark in remarks(source):
        aims = DEVIATION.findall(remark)
        if "Deviation:" in remark and not aims:
            problems.append(f"{path}:{line}: a deviation without its docs/deviations.md#heading")
        problems.extend(
            f"{path}:{line}: no heading for #{aim} in docs/deviations.md"
            for aim in aims
            if aim not in known
        )
    return problems


def properties(
    path: str, markdown: str, known: Collection[str], wanted: Collection[str]
) -> list[str]:
    """Every property that is named exists, and every one of those wanted is in a table."""
    problems = []
    in_tables: set[str] = set()
    for number, line in prose(markdown):
        named = PROPERTY.findall(INLINE_CODE.sub("", line))
        problems += [
            f"{path}:{number}: no such property: {one}" for one in named if one not in known
        ]
        if line.startswith("|"):
            in_tables.update(named)
    return problems + [f"{path}: no table has {one}" for one in wanted if one not in in_tables]


def machine_traces(path: str, text: str) -> list[str]:
    """No file knows the machine it was written on, or where packages come from."""
    return [
        f"{path}:{number}: {trace}"
        for number, line in enumerate(text.splitlines(), start=1)
        for trace in (*MACHINE_PATHS, *REGISTRY_HOSTS)
        if trace in line
    ]


def promises(path: str, text: str) -> list[str]:
    """No file promises work: an issue does."""
    return [
        f"{path}:{number}: {promise}"
        for number, line in enumerate(text.splitlines(), start=1)
        for promise in PROMISES
        if re.search(rf"\b{promise}\b", line)
    ]


def requirements(pyproject: str, *extras: str) -> dict[str, str]:
    """Return the direct dependencies by name, each as written: the base's and those of extras."""
    project = tomllib.loads(pyproject)["project"]
    wanted: list[str] = list(project.get("dependencies", []))
    for extra in extras:
        wanted.extend(project.get("optional-dependencies", {})[extra])
    return {_name(written): written for written in wanted if _name(written) != project["name"]}


def _name(requirement: str) -> str:
    name = DEPENDENCY.match(requirement)
    assert name, requirement
    return name[0].lower()


def dependencies(pyproject: str, document: str) -> list[str]:
    """Every direct dependency has its line in docs/dependencies.md, and every line its use."""
    project = tomllib.loads(pyproject)
    used = set(requirements(pyproject, *project["project"].get("optional-dependencies", {})))
    used.update(_name(written) for written in project["build-system"]["requires"])
    told = set(re.findall(r"^[-|] ?`([^`]+)`", document, re.MULTILINE))
    return [f"docs/dependencies.md: no line for {name}" for name in sorted(used - told)] + [
        f"docs/dependencies.md: {name} is not a dependency" for name in sorted(told - used)
    ]


def pins(pyproject: str, wanted: str, pinned: str) -> list[str]:
    """What `make` installs is what pyproject.toml asks for, each pinned and with its hashes."""
    asked = set(requirements(pyproject, "pretty", "trace", "spark", "dev").values())
    asked.update(tomllib.loads(pyproject)["build-system"]["requires"])
    listed = {line for line in wanted.splitlines() if line and not line.startswith("#")}
    problems = [f"requirements/dev.in: lacks {line}" for line in sorted(asked - listed)]
    problems += [
        f"requirements/dev.in: not in pyproject: {line}" for line in sorted(listed - asked)
    ]
    blocks = re.split(r"^(?=[A-Za-z0-9])", pinned, flags=re.MULTILINE)
    pinned_names = set()
    for block in blocks:
        if not block[:1].isalnum():
            continue
        pinned_names.add(_name(block))
        if "==" not in block or "--hash=sha256:" not in block:
            problems.append(f"requirements/dev.txt: no version or hash for {_name(block)}")
    problems += [
        f"requirements/dev.txt: lacks {_name(line)}"
        for line in sorted(listed)
        if _name(line) not in pinned_names
    ]
    problems += [
        f"requirements/dev.txt: an option or address: {line.strip()}"
        for line in pinned.splitlines()
        if re.search(r"^\s*--(?!hash)|://", line)
    ]
    return problems
