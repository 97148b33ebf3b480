"""Rules that keep the cores pure and the layers apart.

Each rule is a function from source text to problems, one line each; none means the rule holds.
"""

import ast
from collections.abc import Container
from typing import Final, TypeAlias

from tests.tidy.source import module_name

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope: TypeAlias = Function | ast.ClassDef
Comprehension: TypeAlias = ast.ListComp | ast.DictComp | ast.GeneratorExp

CORE_MODULES: Final = (
    "abc",
    "bisect",
    "collections",
    "enum",
    "itertools",
    "operator",
    "random",
    "struct",
    "typing",
    "zlib",
)
CORE_NEIGHBOURS: Final = ("evensong.core", "evensong.errors")
BANNED_CALLS: Final = ("open", "print", "input", "getattr", "id", "hash")
BANNED_MODULES: Final = ("asyncio", "logging", "os", "random", "time")

# What a layer may not import. `core` and `errors` are at the bottom.
TOP: Final = ("cli", "demo", "bench", "testing", "why")
ABOVE: Final = {
    "evensong.errors": ("core", "ipc", "sim", "trace", "spark", "daemon", "client", *TOP),
    "evensong.core": ("ipc", "sim", "trace", "spark", "daemon", "client", *TOP),
    "evensong.client": ("sim", "trace", "spark", "daemon", *TOP),
    "evensong.ipc": ("sim", "trace", "spark", "daemon", "client", *TOP),
    "evensong.sim": ("daemon", "client", "spark", *TOP),
    "evensong.trace": ("daemon", "client", "spark", *TOP),
    "evensong.daemon": ("client", "spark", *TOP),
    "evensong.spark": ("cli", "demo", "bench", "testing"),
    "evensong.report": ("core", "ipc", "sim", "trace", "spark", "daemon", "client", *TOP),
    "evensong.why": ("client", "spark", "cli", "demo", "bench", "testing"),
}

SET_NAMES: Final = ("set", "frozenset")
SET_METHODS: Final = ("union", "intersection", "difference", "symmetric_difference")
SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
ORDER_BLIND: Final = ("sorted", "set", "frozenset", "any", "all", "min", "max", "sum", "len")
ORDER_TAKERS: Final = ("list", "tuple", "enumerate", "iter", "reversed", "zip", "map", "filter")


def imports(source: str) -> list[tuple[int, str, str]]:
    """Return (line, module, name) of every import; `name` is empty for `import module`."""
    found: list[tuple[int, str, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.extend((node.lineno, module, alias.name) for alias in node.names)
    return sorted(found)


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def core_imports(path: str, source: str) -> list[str]:
    """A core imports cores, errors and a few pure modules of the standard library."""
    problems = []
    for line, module, name in imports(source):
        if module == "random":
            if name != "Random":
                problems.append(f"{path}:{line}: only `from random import Random`, as a type")
        elif not any(_is_within(module, good) for good in (*CORE_NEIGHBOURS, *CORE_MODULES)):
            whole = f"{module}.{name}" if module == "evensong" else module
            if not any(_is_within(whole, good) for good in CORE_NEIGHBOURS):
                problems.append(f"{path}:{line}: a core must not import {module}")
    return problems


def core_calls(path: str, source: str) -> list[str]:
    """A core does no I/O, reads no clock, knows no floats and nothing that differs by process."""
    problems = []
    for node in ast.walk(ast.parse(source)):
        what = _impurity(node)
        if what:
            problems.append(f"{path}:{_line(node)}: a core must not use {what}")
    return problems


def _impurity(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            return f"{node.func.id}()"
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in BANNED_MODULES:
            return f"{node.value.id}.{node.attr}"
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, float | complex):
            return f"the float {node.value}"
    elif isinstance(node, ast.Name):
        if node.id == "float":
            return "the type float"
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        if isinstance(node.op, ast.Div):
            return "/, which makes a float; multiply the other side or use //"
    elif isinstance(node, Function) and node.args.kwarg is not None:
        return f"**{node.args.kwarg.arg}"
    return ""


def core_set_order(path: str, source: str) -> list[str]:
    """A core never depends on the order of a set.

    Seen are set displays and calls, and names and attributes that their function or class annotates
    or assigns as sets. A loop over one is a problem unless whatever takes it cannot tell the order
    (`sorted`, `any`, another set).
    """
    tree = ast.parse(source)
    blind = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ORDER_BLIND
        for argument in node.args
    }
    problems = [
        f"{path}:{iterable.lineno}: the order of a set: {ast.unparse(iterable)}"
        for node, sets in _nodes_and_sets(tree, frozenset())
        if id(node) not in blind
        for iterable in _iterables(node)
        if _is_set(iterable, sets)
    ]
    return sorted(problems)


def _iterables(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.iter]
    if isinstance(node, Comprehension):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Starred):
        return [node.value] if isinstance(node.ctx, ast.Load) else []
    return _taken_in_order(node) if isinstance(node, ast.Call) else []


def _taken_in_order(call: ast.Call) -> list[ast.expr]:
    if isinstance(call.func, ast.Name) and call.func.id in ORDER_TAKERS:
        return call.args
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "pop" and not call.args:
            return [call.func.value]
        if call.func.attr in ("join", "extend"):
            return call.args
    return []


def _nodes_and_sets(scope: ast.AST, outer: frozenset[str]) -> list[tuple[ast.AST, frozenset[str]]]:
    """Return every node below a scope, each with the names that are sets where it stands."""
    sets = _names_of_sets(scope, outer)
    found: list[tuple[ast.AST, frozenset[str]]] = []
    for node in _own_nodes(scope):
        found.append((node, sets))
        if isinstance(node, Scope):
            found.extend(_nodes_and_sets(node, sets))
    return found


def _own_nodes(scope: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, Scope):
            waiting.extend(ast.iter_child_nodes(node))
    return sorted(found, key=_line)  # so that a name is known before it is used


def _names_of_sets(scope: ast.AST, outer: frozenset[str]) -> frozenset[str]:
    names = set(outer)
    if isinstance(scope, ast.ClassDef):  # its methods speak of its attributes
        for node in ast.walk(scope):
            for name, is_set in _bindings(node, names):
                if name.startswith("self.") and is_set:
                    names.add(name)
        return frozenset(names)
    own = {name for node in _own_nodes(scope) for name, _ in _bindings(node, names)}
    names -= {name for name in own if not name.startswith("self.")}
    for node in _own_nodes(scope):
        names.update(name for name, is_set in _bindings(node, names) if is_set)
    return frozenset(names)


def _bindings(node: ast.AST, names: Container[str]) -> list[tuple[str, bool]]:
    """Return the names that a node binds, and whether each to a set."""
    if isinstance(node, ast.AnnAssign):
        is_set = _is_set_type(node.annotation)
        if not is_set and node.value is not None:
            is_set = _is_set(node.value, names)
        return [(ast.unparse(node.target), is_set)]
    if isinstance(node, ast.Assign):
        is_set = _is_set(node.value, names)
        return [(ast.unparse(target), is_set) for target in node.targets]
    if isinstance(node, ast.arg):
        return [(node.arg, node.annotation is not None and _is_set_type(node.annotation))]
    return []


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript):
        outer = annotation.value
        if isinstance(outer, ast.Name) and outer.id == "Final":
            return _is_set_type(annotation.slice)
        return _is_set_type(outer)
    return isinstance(annotation, ast.Name) and annotation.id in (*SET_NAMES, "AbstractSet")


def _is_set(node: ast.expr, names: Container[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in SET_NAMES
        return isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS
    if isinstance(node, ast.BinOp) and isinstance(node.op, SET_OPERATORS):
        return _is_set(node.left, names) or _is_set(node.right, names)
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names


def layering(path: str, source: str) -> list[str]:
    """A layer never imports one above it, and names what it imports in full."""
    here = module_name(path)
    above = [
        f"evensong.{layer}"
        for package, layers in ABOVE.items()
        if _is_within(here, package)
        for layer in layers
    ]
    problems = []
    for line, module, name in imports(source):
        whole = f"{module}.{name}".rstrip(".")
        if module.startswith("."):
            problems.append(f"{path}:{line}: write {whole} in full")
        elif any(_is_within(whole, layer) for layer in above):
            problems.append(f"{path}:{line}: {whole} is a layer above {here}")
    return problems


def _line(node: ast.AST) -> int:
    line = getattr(node, "lineno", 0)
    assert isinstance(line, int)
    return line
