"""Rules about the shape of code: sizes, names, public surface, error tree, honest tests."""

import ast
import re
from typing import Final

LINES_MAX: Final = 600  # aim for 500
FUNCTION_LINES_MAX: Final = 80  # aim for 60
FORBIDDEN_FILES: Final = ("utils.py", "common.py", "types.py")
FORBIDDEN_ENDINGS: Final = ("Manager", "Handler", "Helper", "Util", "Base", "Impl")
CHECKERS: Final = ("raises", "warns", "fail")
CHECKER_PREFIXES: Final = ("check", "assert_")

BRANCH: Final = re.compile(r"^((?:│   |    )*)[├└]── (\w+)")


def file_size(path: str, source: str) -> list[str]:
    """A file stays readable in one sitting."""
    lines = len(source.splitlines())
    return [f"{path}: {lines} lines, at most {LINES_MAX}"] if lines > LINES_MAX else []


def function_size(path: str, source: str) -> list[str]:
    """A function fits on a screen and a half."""
    problems = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                problems.append(
                    f"{path}:{node.lineno}: {node.name} has {lines} lines, "
                    f"at most {FUNCTION_LINES_MAX}"
                )
    return problems


def names(path: str, source: str) -> list[str]:
    """No file and no class is named for being a drawer of odds and ends."""
    problems = []
    if path.rsplit("/", 1)[-1] in FORBIDDEN_FILES:
        problems.append(f"{path}: name the file for what is in it")
    problems.extend(
        f"{path}:{node.lineno}: name {node.name} for what it is"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and node.name.endswith(FORBIDDEN_ENDINGS)
    )
    return problems


def public_names(path: str, source: str) -> list[str]:
    """`__all__` is exactly what the module binds without an underscore, and the version.

    What it imports for type checkers alone is bound when it is first used.
    """
    bound: set[str] = set()
    declared: set[str] | None = None
    body = ast.parse(source).body
    lazy = [
        inner
        for node in body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    ]
    for node in [*body, *lazy]:
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound.add(node.target.id)
        elif isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            bound.update(targets)
            if "__all__" in targets:
                declared = set(ast.literal_eval(node.value))
    if declared is None:
        return [f"{path}: no __all__"]
    public = {name for name in bound if not name.startswith("_") or name == "__version__"}
    return [
        f"{path}: {name} is public but not in __all__" for name in sorted(public - declared)
    ] + [f"{path}: {name} is in __all__ but not bound" for name in sorted(declared - public)]


def error_tree(path: str, source: str) -> list[str]:
    """The tree drawn in the docstring has the classes of the file, each under its parent."""
    tree = ast.parse(source)
    drawn = _drawn_parents(ast.get_docstring(tree) or "")
    defined = {
        node.name: ast.unparse(node.bases[0]) if node.bases else "object"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    problems = []
    for name in sorted(drawn.keys() | defined.keys()):
        if name not in defined:
            problems.append(f"{path}: {name} is drawn but not defined")
        elif name not in drawn:
            problems.append(f"{path}: {name} is defined but not drawn")
        elif drawn[name] != defined[name]:
            problems.append(f"{path}: {name} is drawn under {drawn[name]}, not {defined[name]}")
    return problems


def _drawn_parents(docstring: str) -> dict[str, str]:
    parents: dict[str, str] = {}
    above: list[str] = []  # the last name drawn at each depth
    previous = ""
    for line in docstring.splitlines():
        branch = BRANCH.match(line)
        if branch:
            if not above:
                above = [previous.split(maxsplit=1)[0] if previous else ""]
                parents[above[0]] = "Exception"
            depth = len(branch[1]) // 4 + 1
            parents[branch[2]] = above[depth - 1] if depth <= len(above) else "nothing"
            above = [*above[:depth], branch[2]]
        previous = line.strip()
    return parents


def honest_tests(path: str, source: str) -> list[str]:
    """Every test can fail: it asserts, expects an error, or calls a check."""
    return [
        f"{path}:{node.lineno}: {node.name} asserts nothing"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not any(_is_check(inner) for inner in ast.walk(node))
    ]


def _is_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
    elif isinstance(node.func, ast.Name):
        name = node.func.id
    else:
        return False
    return name in CHECKERS or name.lstrip("_").startswith(CHECKER_PREFIXES)
